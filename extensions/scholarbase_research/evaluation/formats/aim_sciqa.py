"""AIM-SciQA's single-hop questions: a question, the sentence that answers it, and the paper's id in PubMed Central.

    {"question": "...", "evidence": "an exact quote", "answer": "...", "pmcid": "PMC10021650"}

The file was not at hand: ``question``, ``evidence`` and ``answer`` are the names in the paper's prompt, and the paper's
table has the id of PubMed Central. Questions of several hops have papers as answers: see ``--pool`` and Hit@k.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from scholarbase.evaluation.formats import evidence, fields
from scholarbase.evaluation.formats.reading import Format, Reading
from scholarbase.evaluation.formats.streams import Record
from scholarbase.models.queries import Query


def _recognises(names: Collection[str]) -> bool:
    return {"question", "evidence", "pmcid"} <= set(names)


def _query(record: Record, reading: Reading) -> Query:
    number = fields.query_id(record.fields.get("pmcid"), "pmcid").upper().removeprefix("PMC")
    paper = fields.paper_id(f"PMCID:PMC{number}", "pmcid")
    return Query(
        fields.qid(record.fields.get("id"), record, reading),
        fields.query_text(record.fields, "question"),
        evidence.targets(record.fields, paper, fields.title(record.fields.get("title"), "title")),
        category=fields.optional_text(record.fields, "section"),
    )


AIM_SCIQA: Final = Format(
    "AIM-SciQA",
    frozenset(("id", "question", "evidence", "answer", "pmcid", "title", "section")),
    _recognises,
    _query,
    "question, evidence, pmcid",
)
