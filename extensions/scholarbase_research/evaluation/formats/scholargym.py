"""ScholarGym: questions with labelled candidate answers.

    {"qid": "AutoScholarQuery_test_0", "query": "...", "date": "2020-09", "source": "PASA_AutoScholar", "valid": true,
     "cited_paper": [{"arxiv_id": "2009.02040", "title": "...", "year": 2020}], "gt_label": [1]}

Only papers with label 1 are answers. A second form lists just the answers: ``query_id``, ``query``, ``gt_arxiv_ids``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from scholarbase.models.checks import shown
from scholarbase_research.evaluation.formats import fields
from scholarbase_research.evaluation.formats.reading import Broken, Format, Reading
from scholarbase_research.evaluation.formats.streams import Record
from scholarbase_research.evaluation.queries import Answer, Query

_INVALID: Final = "Queries that the file marks as not valid, left out"
_UNANSWERED: Final = "Queries without a paper of label 1, left out"


def _recognises(names: Collection[str]) -> bool:
    return "query" in names and ("cited_paper" in names or "gt_arxiv_ids" in names)


def _query(record: Record, reading: Reading) -> Query | None:
    valid = record.fields.get("valid", True)
    if not isinstance(valid, bool):
        raise Broken(f"valid is {shown(valid)}, and must be true or false.")
    if not valid:
        reading.count(_INVALID)
        return None
    answers = _answers(record, reading)
    if answers and not any(answer.grade > 0 for answer in answers):
        reading.count(_UNANSWERED)
        return None
    return Query(
        fields.qid(record.fields.get("qid", record.fields.get("query_id")), record, reading),
        fields.query_text(record.fields, "query"),
        fields.non_empty(answers, "cited_paper"),
        category=fields.optional_text(record.fields, "source"),
        date=fields.date(record.fields.get("date"), "date"),
    )


def _answers(record: Record, reading: Reading) -> list[Answer]:
    ids = fields.items(record.fields, "gt_arxiv_ids")
    if ids is not None:
        return [fields.answer(value, None, 1, "gt_arxiv_ids", reading, arxiv=True) for value in ids]
    papers = fields.items(record.fields, "cited_paper") or []
    labels = fields.items(record.fields, "gt_label")
    labels = [1] * len(papers) if labels is None else labels
    if len(labels) != len(papers):
        raise Broken(
            f"gt_label has {len(labels)} labels for the {len(papers)} papers of cited_paper: give one for each."
        )
    return [_answer(paper, label, reading) for paper, label in zip(papers, labels, strict=True)]


def _answer(paper: Any, label: Any, reading: Reading) -> Answer:
    if not isinstance(paper, dict):
        raise Broken(f"cited_paper contains {shown(paper)}, and must contain objects with an arxiv_id.")
    title = fields.title(paper.get("title"), "title")
    grade = 1 if fields.grade(label, "gt_label") == 1 else 0
    return fields.answer(paper.get("arxiv_id"), title, grade, "arxiv_id", reading, arxiv=True)


SCHOLARGYM: Final = Format(
    "ScholarGym",
    frozenset(
        ("query", "cited_paper", "gt_label", "date", "source", "qid", "valid", "query_id", "gt_arxiv_ids")
    ),
    _recognises,
    _query,
    "query, cited_paper or gt_arxiv_ids",
)
