"""Queries and the answers that count as right: what every format of query file is read to."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class Answer:
    """A paper that answers a query, as the query file names it: by an id of any form, by its title, or both.

    ``grade`` is its relevance: 1 where the file knows only right and wrong, 0 for a paper judged not relevant.
    """

    id: str | None
    title: str | None = None
    grade: int = 1


@dataclass(frozen=True, slots=True)
class Query:
    """One question of a query set.

    ``date`` is the day, month or year up to which papers may answer it (``YYYY``, ``YYYY-MM``, ``YYYY-MM-DD``).
    ``pool`` holds the ids of the only papers that are candidates, where the set has candidate pools.
    """

    id: str
    text: str
    answers: tuple[Answer, ...]
    intent: str | None = None
    category: str | None = None
    date: str | None = None
    pool: tuple[str, ...] | None = None


@dataclass(frozen=True)
class QuerySet:
    """The queries of a file or folder, in its order. ``notes`` say what in it was passed over, and why."""

    name: str
    format: str
    queries: tuple[Query, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def sha256(self) -> str:
        """The hash of the queries as they were read: the same for two files that say the same."""
        return sha256_of(self.queries)


def sha256_of(records: Iterable[Any]) -> str:
    """The hash of dataclasses, one line of JSON after the other."""
    digest = hashlib.sha256()
    for record in records:
        digest.update(orjson.dumps(asdict(record), option=orjson.OPT_APPEND_NEWLINE))
    return digest.hexdigest()
