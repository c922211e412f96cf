"""SciDQA (arXiv:2411.05338): questions of reviewers, answered in one paper, with evidence for a part of them.

    {"question": "...", "answer": "...", "title": "the paper's title", "version": "initial", "evidence": ["..."]}

The file was not at hand: the names are those of the parts that the paper describes. Questions without evidence are
skipped. The paper's latest text is searched, whichever version a question was asked about.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from scholarbase.evaluation.formats import evidence, fields
from scholarbase.evaluation.formats.reading import Format, Reading
from scholarbase.evaluation.formats.streams import Record
from scholarbase.models.queries import Query

_WITHOUT: Final = "Questions without evidence, which were skipped"


def _recognises(names: Collection[str]) -> bool:
    return {"question", "evidence", "version"} <= set(names)


def _query(record: Record, reading: Reading) -> Query | None:
    if not record.fields.get("evidence"):
        reading.count(_WITHOUT)
        return None
    return Query(
        fields.qid(record.fields.get("id"), record, reading),
        fields.query_text(record.fields, "question"),
        evidence.targets(record.fields, *evidence.paper_of(record.fields, "paper", "title")),
        category=fields.optional_text(record.fields, "version"),
    )


SCIDQA: Final = Format(
    "SciDQA",
    frozenset(("id", "question", "answer", "paper", "title", "version", "evidence")),
    _recognises,
    _query,
    "question, evidence, version",
)
