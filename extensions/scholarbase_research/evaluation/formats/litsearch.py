"""LitSearch: 597 questions with Semantic Scholar corpus ids as answers.

    {"query_set": "inline_acl", "query": "...", "specificity": 0, "quality": 2, "corpusids": [202719327]}

Its rows have no ids: a query is named after its row number, counted from 0.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from scholarbase.identifiers import number
from scholarbase.models.checks import shown
from scholarbase_research.evaluation.formats import fields
from scholarbase_research.evaluation.formats.reading import Broken, Format, Reading
from scholarbase_research.evaluation.formats.streams import Record
from scholarbase_research.evaluation.queries import Answer, Query

_SPECIFICITY: Final[dict[Any, str | None]] = {None: None, 0: "broad", 1: "specific"}


def _recognises(names: Collection[str]) -> bool:
    return "corpusids" in names and "query" in names


def _query(record: Record, reading: Reading) -> Query:
    specificity = record.fields.get("specificity")
    if isinstance(specificity, bool | list | dict) or specificity not in _SPECIFICITY:
        raise Broken(f"specificity is {shown(specificity)}, and must be 0 for broad or 1 for specific.")
    return Query(
        f"litsearch-{record.number}",
        fields.query_text(record.fields, "query"),
        fields.non_empty([_answer(v) for v in fields.items(record.fields, "corpusids") or []], "corpusids"),
        intent=fields.optional_text(record.fields, "query_set"),
        category=_SPECIFICITY[specificity],
    )


def _answer(value: Any) -> Answer:
    digits = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    corpus_id = number(digits)
    if corpus_id is None:
        raise Broken(f"corpusids contains {shown(value)}, and must contain positive whole numbers.")
    return Answer(f"CorpusId:{corpus_id}")


LITSEARCH: Final = Format(
    "LitSearch",
    frozenset(("query_set", "query", "specificity", "quality", "corpusids")),
    _recognises,
    _query,
    "query, corpusids",
)
