"""Questions about one paper with evidence in its text: ElaipBench, AIM-SciQA and SciDQA.

The files were not at hand: the names of fields are those that the papers describe.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Final

from scholarbase_research.evaluation.formats import evidence, fields
from scholarbase_research.evaluation.formats.reading import Format, Reading
from scholarbase_research.evaluation.formats.streams import Record
from scholarbase_research.evaluation.queries import Query

_WITHOUT: Final = "Questions without evidence, which were skipped"


def _has(wanted: set[str], names: Collection[str]) -> bool:
    return wanted <= set(names)


def _query(title: str, category: str, record: Record, reading: Reading) -> Query | None:
    """A question about the paper in ``paper``, or with the title in the field ``title``."""
    if category == "version" and not record.fields.get("evidence"):
        reading.count(_WITHOUT)
        return None
    kind = record.fields.get(category)
    if category == "version" and type(kind) is int:
        kind = str(kind)
    return Query(
        fields.qid(record.fields.get("id"), record, reading),
        fields.query_text(record.fields, "question"),
        evidence.targets(
            record.fields,
            *evidence.paper_of(record.fields, "paper", title),
            evidence.version_of(record.fields),
        ),
        category=fields.optional_text({category: kind}, category),
    )


def _aim_sciqa(record: Record, reading: Reading) -> Query:
    number = fields.query_id(record.fields.get("pmcid"), "pmcid").upper().removeprefix("PMC")
    paper = fields.paper_id(f"PMCID:PMC{number}", "pmcid")
    return Query(
        fields.qid(record.fields.get("id"), record, reading),
        fields.query_text(record.fields, "question"),
        evidence.targets(record.fields, paper, fields.title(record.fields.get("title"), "title")),
        category=fields.optional_text(record.fields, "section"),
    )


ELAIPBENCH: Final = Format(
    "ElaipBench",
    frozenset(("id", "paper", "paper_title", "question", "options", "answer", "evidence", "category")),
    partial(_has, {"question", "evidence", "options"}),
    partial(_query, "paper_title", "category"),
    "question, evidence, options",
)
"""Questions with options, and verbatim evidence for each. The options are not searched for.

    {"paper_title": "...", "question": "...", "options": {"A": "...", "B": "..."}, "answer": "AB",
     "evidence": {"A": "...", "B": "..."}}
"""
SCIDQA: Final = Format(
    "SciDQA",
    frozenset(("id", "question", "answer", "paper", "title", "version", "evidence")),
    partial(_has, {"question", "evidence", "version"}),
    partial(_query, "title", "version"),
    "question, evidence, version",
)
"""SciDQA (arXiv:2411.05338): questions of reviewers, with evidence for a part of them; others are skipped. A search in
the paper reads the version that a question was asked about: ``initial`` is the first, ``final`` the latest.

    {"question": "...", "answer": "...", "title": "the paper's title", "version": "initial", "evidence": ["..."]}
"""
AIM_SCIQA: Final = Format(
    "AIM-SciQA",
    frozenset(("id", "question", "evidence", "answer", "pmcid", "title", "section")),
    partial(_has, {"question", "evidence", "pmcid"}),
    _aim_sciqa,
    "question, evidence, pmcid",
)
"""Single-hop questions: the sentence that answers each, and the paper's id in PubMed Central. Questions of several hops
have papers as answers: see ``--pool`` and Hit@k.

    {"question": "...", "evidence": "an exact quote", "answer": "...", "pmcid": "PMC10021650"}
"""
