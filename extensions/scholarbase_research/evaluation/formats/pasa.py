"""PaSa's AutoScholarQuery and RealScholarQuery, and SPARBench, which has the same fields.

    {"qid": "RealScholarQuery_0", "question": "...", "answer": ["a title"], "answer_arxiv_id": ["2309.06180"],
     "source_meta": {"published_time": "20240305"}}

Ids and titles are pairs if there are as many ids as titles. ``published_time`` is the day of the paper that the
question was made from: the papers it cites are older.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from scholarbase.models.checks import shown
from scholarbase_research.evaluation.formats import fields
from scholarbase_research.evaluation.formats.reading import Broken, Format, Reading
from scholarbase_research.evaluation.formats.streams import Record
from scholarbase_research.evaluation.queries import Answer, Query

_UNPAIRED: Final = "Lines with more titles than ids or fewer, whose titles were not read"


def _recognises(names: Collection[str]) -> bool:
    return ("question" in names and ("answer" in names or "answer_arxiv_id" in names)) or (
        "query" in names and "answer_arxiv_id" in names
    )


def _query(record: Record, reading: Reading) -> Query:
    return Query(
        fields.qid(record.fields.get("qid"), record, reading),
        fields.query_text(record.fields, "question", "query"),
        fields.non_empty(_answers(record, reading), "answer_arxiv_id"),
        date=_date(record.fields.get("source_meta")),
    )


def _answers(record: Record, reading: Reading) -> list[Answer]:
    ids = fields.items(record.fields, "answer_arxiv_id") or []
    titles = [fields.title(value, "answer") for value in fields.items(record.fields, "answer") or []]
    if not ids:
        ids = [None] * len(titles)
    elif len(ids) != len(titles):
        if titles:
            reading.count(_UNPAIRED)
        titles = [None] * len(ids)
    return [
        fields.answer(value, title, 1, "answer_arxiv_id", reading, arxiv=True)
        for value, title in zip(ids, titles, strict=True)
    ]


def _date(meta: Any) -> str | None:
    if meta is None:
        return None
    if not isinstance(meta, dict):
        raise Broken(f"source_meta is {shown(meta)}, and must be an object.")
    return fields.date(meta.get("published_time"), "published_time")


PASA: Final = Format(
    "PaSa",
    frozenset(("qid", "question", "query", "answer", "answer_arxiv_id", "source_meta")),
    _recognises,
    _query,
    "question, answer or answer_arxiv_id; SPARBench too",
)
