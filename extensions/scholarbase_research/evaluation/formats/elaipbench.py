"""ElaipBench: questions with options about one paper, with verbatim evidence for each option.

    {"paper_title": "...", "question": "...", "options": {"A": "...", "B": "..."}, "answer": "AB",
     "evidence": {"A": "...", "B": "..."}}

The file was not at hand: the names are those of the parts that the paper describes. The options are not searched for.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from scholarbase.evaluation.formats import evidence, fields
from scholarbase.evaluation.formats.reading import Format, Reading
from scholarbase.evaluation.formats.streams import Record
from scholarbase.models.queries import Query


def _recognises(names: Collection[str]) -> bool:
    return {"question", "evidence", "options"} <= set(names)


def _query(record: Record, reading: Reading) -> Query:
    return Query(
        fields.qid(record.fields.get("id"), record, reading),
        fields.query_text(record.fields, "question"),
        evidence.targets(record.fields, *evidence.paper_of(record.fields, "paper", "paper_title")),
        category=fields.optional_text(record.fields, "category"),
    )


ELAIPBENCH: Final = Format(
    "ElaipBench",
    frozenset(("id", "paper", "paper_title", "question", "options", "answer", "evidence", "category")),
    _recognises,
    _query,
    "question, evidence, options",
)
