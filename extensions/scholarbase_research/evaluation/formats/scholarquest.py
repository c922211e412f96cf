"""ScholarQuest: JSON lines of final questions with the arXiv ids of their answers, and a file of metadata.

    {"query_id": "BQ_000001", "final_query": "...", "answer_arxiv_ids": ["2309.06180"], "final_answer_count": 1, ...}

The metadata has a line for every generated query, also for those that are not in the benchmark. Its ``category``
(method_capability, setting_anchor, claim_comparison, scope_control) becomes the intent, its ``domain`` the category.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from scholarbase_research.evaluation.formats import fields
from scholarbase_research.evaluation.formats.reading import Broken, Format, Reading
from scholarbase_research.evaluation.formats.streams import Record, json_lines, plain_or_packed
from scholarbase_research.evaluation.queries import Query

_METADATA: Final = "query_metadata.jsonl"
_COUNT: Final = "Lines whose final_answer_count is not the number of their answers"
_MISSING: Final = "Queries that the metadata does not describe"
_BROKEN: Final = "Broken lines of the metadata, left out"
_OTHERWISE: Final = "Queries that the metadata words otherwise"
_NO_METADATA: Final = f"Queries without intent and category, as there is no {_METADATA} beside the file"


class _Facts(NamedTuple):
    intent: str | None
    category: str | None
    text: str | None


def _read_metadata(path: Path, queries: Reading) -> dict[str, _Facts]:
    """The facts of each query id. Broken lines are handled and counted like those of the queries."""
    reading = Reading(path, queries.skip_broken)
    facts: dict[str, _Facts] = {}
    for record in reading.readable(json_lines(path)):
        with reading.catching(record.where):
            query_id = fields.query_id(fields.required(record.fields, "query_id"), "query_id")
            query_facts = _Facts(
                fields.optional_text(record.fields, "category"),
                fields.optional_text(record.fields, "domain"),
                fields.optional_text(record.fields, "final_query"),
            )
            if facts.setdefault(query_id, query_facts) != query_facts:
                raise Broken(f"the query id {query_id!r} is described twice, with different values.")
    reading.check(bool(facts))
    if reading.broken_count:
        queries.count(_BROKEN, reading.broken_count)
    return facts


def add_metadata(reading: Reading, path: Path | None) -> None:
    """Add intents and categories from the metadata file to the queries; without one, count the queries.

    Args:
        path: the file; None: that in the folder of the query file, plain or packed, if there is one.

    Raises:
        QueryFileError: the file, or a line of it, cannot be read.
    """
    path = path or plain_or_packed(reading.path.with_name(_METADATA))
    if path is None:
        named = sum(query.id.startswith("BQ_") for query in reading.queries)
        if named:
            reading.count(_NO_METADATA, named)
        return
    facts = _read_metadata(path, reading)
    described = []
    for query in reading.queries:
        query_facts = facts.get(query.id)
        if query_facts is None:
            reading.count(_MISSING)
            described.append(query)
            continue
        if query_facts.text not in (None, query.text):
            reading.count(_OTHERWISE)
        described.append(replace(query, intent=query_facts.intent, category=query_facts.category))
    reading.queries = described


def _recognises(names: Collection[str]) -> bool:
    return "final_query" in names and "answer_arxiv_ids" in names


def _query(record: Record, reading: Reading) -> Query:
    ids = fields.items(record.fields, "answer_arxiv_ids")
    if ids is None:
        raise Broken("it has no answer_arxiv_ids.")
    query = Query(
        fields.query_id(fields.required(record.fields, "query_id"), "query_id"),
        fields.query_text(record.fields, "final_query"),
        fields.non_empty(
            [fields.answer(arxiv_id, None, 1, "answer_arxiv_ids", reading, arxiv=True) for arxiv_id in ids],
            "answer_arxiv_ids",
        ),
        date=fields.date(record.fields.get("date"), "date"),
    )
    if record.fields.get("final_answer_count", len(ids)) != len(ids):
        reading.count(_COUNT)
    return query


SCHOLARQUEST: Final = Format(
    "ScholarQuest",
    frozenset(("query_id", "final_query", "answer_arxiv_ids", "final_answer_count", "source_dir", "date")),
    _recognises,
    _query,
    "final_query, answer_arxiv_ids",
    add_metadata,
)
