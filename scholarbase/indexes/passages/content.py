"""The parts of a library's content that full texts add (:mod:`scholarbase.indexes.content_hash`)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Final

from scholarbase.documents.store import content_rows, passage_rows
from scholarbase.indexes.content_hash import sum_of, vector_sums
from scholarbase.indexes.frequencies import FrequencyCounter
from scholarbase.indexes.vectors.index import VectorIndex

MONTHS: Final = """
    SELECT passages.id, coalesce(catalog.papers.last_day / 100, ?) FROM passages
    JOIN documents ON documents.id = passages.document
    JOIN catalog.papers ON catalog.papers.id = documents.paper
    WHERE passages.id BETWEEN ? AND ? ORDER BY passages.id
"""
"""The SQL of the months of passages, for :class:`.FrequencyCounter`. The catalogue is the schema ``catalog``."""


def content_sums(
    db: sqlite3.Connection,
    index: VectorIndex,
    counter: FrequencyCounter,
    advance: Callable[[int], None] = lambda passages: None,
) -> dict[str, int]:
    """The sums of the documents, the passages and their vectors. ``counter`` counts their terms."""
    sums = {f"passages_{name}": total for name, total in vector_sums(index, counter, advance).items()}
    return {**sums, "documents": sum_of(content_rows(db)), "passages": sum_of(passage_rows(db))}
