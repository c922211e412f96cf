"""Query sets: queries and their relevant papers, from query files of any format."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as in the query file: an id of any form, a title, or both.

    ``grade`` is its relevance: 1 in files without grades, 0 for a paper judged not relevant.
    """

    id: str | None
    title: str | None = None
    grade: int = 1


@dataclass(frozen=True, slots=True)
class PassageTarget(Answer):
    """Evidence for an answer: a part of the full text of the paper ``id`` or ``title``.

    ``text`` is as printed in the paper; otherwise ``start`` and ``end`` are offsets in its text. Without either, every
    passage of the paper is an answer. ``version`` is that of the paper whose text has it, the same for all
    evidence of a query; None is the text that is searched by default.
    """

    text: str | None = None
    start: int | None = None
    end: int | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a query set.

    ``date`` is the latest date of its answers (``YYYY``, ``YYYY-MM``, ``YYYY-MM-DD``). ``pool`` holds the ids of its
    candidate papers, None without a candidate pool.
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
    """The queries of a file or folder, in order. ``notes`` say what was skipped, and why."""

    name: str
    format: str
    queries: tuple[Query, ...]
    notes: tuple[str, ...] = ()

    @property
    def has_passages(self) -> bool:
        """Whether the answers are passages of papers. A query set has either only passages, or none."""
        return any(isinstance(answer, PassageTarget) for query in self.queries for answer in query.answers)

    @cached_property
    def sha256(self) -> str:
        """The hash of the parsed queries: equal for files with the same content."""
        return sha256_of(self.queries)


def sha256_of(records: Iterable[Any]) -> str:
    """The hash of dataclasses as JSON lines."""
    digest = hashlib.sha256()
    for record in records:
        digest.update(orjson.dumps(asdict(record), option=orjson.OPT_APPEND_NEWLINE))
    return digest.hexdigest()
