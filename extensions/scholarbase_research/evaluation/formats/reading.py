"""State of reading one query file: its queries, broken records and notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from scholarbase.errors import QueryFileError
from scholarbase_research.evaluation.formats.streams import Record
from scholarbase_research.evaluation.queries import Answer, Query, QuerySet

T = TypeVar("T")
S = TypeVar("S")

_SHOWN: Final = 3
"""Broken records whose reasons are in a note."""
_UNJUDGED: Final = "Queries without a judgement, left out"
_IRRELEVANT: Final = "Queries judged without a relevant document, left out"


class Broken(Exception):
    """A record is invalid. The message begins in lower case and ends with a full stop."""


@dataclass
class Reading:
    """Queries, broken records and notes of a query file or folder.

    With ``skip_broken``, broken records are skipped and reported in a note; otherwise ``result`` raises.
    """

    path: Path
    skip_broken: bool
    queries: list[Query] = field(default_factory=list)
    records: int = 0
    _broken: list[tuple[str, str]] = field(default_factory=list)
    _places: dict[str, str] = field(default_factory=dict)
    _unread: dict[str, None] = field(default_factory=dict)
    _counts: Counter[str] = field(default_factory=Counter)

    def readable(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield the records that could be parsed; count the others as broken."""
        for record in records:
            self.records += 1
            if record.problem is None:
                yield record
            else:
                self.broken(record.where, record.problem)

    def broken(self, where: str, reason: str) -> None:
        """Record a broken record."""
        self._broken.append((where, reason))

    @contextmanager
    def catching(self, where: str) -> Iterator[None]:
        """Record a broken record where the block raises Broken."""
        try:
            yield
        except Broken as problem:
            self.broken(where, str(problem))

    def check_unique(self, query_id: str, where: str) -> None:
        """Raise Broken if another place of the file has the id."""
        first = self._places.setdefault(query_id, where)
        if first != where:
            raise Broken(f"the query id {query_id!r} is also the id of {first}: give each query its own id.")

    def add(self, query: Query, where: str) -> None:
        """Add a query. Raises Broken: its id is taken."""
        self.check_unique(query.id, where)
        self.queries.append(query)

    def count(self, sentence: str, number: int = 1) -> None:
        """Increase the number in the note ``sentence: number``."""
        self._counts[sentence] += number

    def unread(self, names: Iterable[str]) -> None:
        """Record unknown columns for a note."""
        self._unread.update(dict.fromkeys(names))

    def result(self, name: str, form: str) -> QuerySet:
        """The query set.

        Raises:
            QueryFileError: records are broken and ``skip_broken`` is off, or there are no queries.
        """
        self.check(bool(self.queries))
        if not self.queries:
            raise QueryFileError(
                f"{self.path} contains no queries ({'; '.join(self.notes()) or 'nothing was read'})."
            )
        return QuerySet(name, form, tuple(self.queries), self.notes())

    @property
    def broken_count(self) -> int:
        return len(self._broken)

    def check(self, any_valid: bool) -> None:
        """Raise QueryFileError if records are broken and ``skip_broken`` is off, or no record is valid."""
        if self._broken and not (self.skip_broken and any_valid):
            raise QueryFileError(self._error_message(any_valid))

    def notes(self) -> tuple[str, ...]:
        """What was skipped, and why."""
        notes = [f"{sentence}: {number:,}" for sentence, number in self._counts.items()]
        if self._unread:
            verb = "column was" if len(self._unread) == 1 else "columns were"
            notes.append(f"{len(self._unread)} {verb} not read: {', '.join(self._unread)}")
        if self._broken:
            reasons = " ".join(f"{where}: {reason}" for where, reason in self._broken[:_SHOWN])
            more = " ..." if len(self._broken) > _SHOWN else ""
            lines = "line was" if len(self._broken) == 1 else "lines were"
            notes.append(f"{len(self._broken):,} broken {lines} left out: {reasons}{more}")
        return tuple(notes)

    def _error_message(self, any_valid: bool) -> str:
        where, reason = self._broken[0]
        if self.records == 1:
            return f"{self.path}, {where}: {reason}"
        if len(self._broken) == 1:
            return f"{self.path}, {where}: {reason} Correct it, or skip it with --skip-broken (skip_broken=True)."
        if not any_valid:
            return f"{self.path}: none of its {self.records:,} lines is valid; the first, {where}: {reason}"
        return (
            f"{self.path}: {len(self._broken):,} of {self.records:,} lines are broken; the first, {where}: "
            f"{reason} Correct them, or skip them with --skip-broken (skip_broken=True)."
        )


@dataclass(frozen=True)
class Format:
    """A format whose records are objects with named fields.

    Args:
        name: how runs and messages name the format.
        names: all its fields; others are listed in a note.
        recognises: detects the format from a record's field names.
        query: reads a record; returns None for a record that the file marks as unused, and raises Broken.
        hint: the fields that tell it apart, for messages.
        describe: completes the queries that were read from the query set's metadata, a path or None.
    """

    name: str
    names: frozenset[str]
    recognises: Callable[[Collection[str]], bool]
    query: Callable[[Record, Reading], Query | None]
    hint: str
    describe: Callable[[Reading, Path | None], None] | None = None

    def read(self, reading: Reading, records: Iterable[Record]) -> None:
        """Read every record into ``reading``."""
        for record in reading.readable(records):
            if not record.fields.keys() <= self.names:
                reading.unread(name for name in record.fields if name not in self.names)
            with reading.catching(record.where):
                query = self.query(record, reading)
                if query is not None:
                    reading.add(query, record.where)


def join(
    reading: Reading,
    texts: Iterable[tuple[str, T]],
    text_of: Callable[[T], tuple[str, str]],
    judgements: Iterable[tuple[str, S]],
    judgement_of: Callable[[S], tuple[str, Answer]],
) -> None:
    """Read queries of one file with their judgements in another, as in BEIR and TREC. Each record comes with its place.

    A query without a relevant document is left out and counted.
    """
    queries: dict[str, tuple[str, str]] = {}
    for where, record in texts:
        reading.records += 1
        with reading.catching(where):
            query_id, text = text_of(record)
            reading.check_unique(query_id, where)
            queries[query_id] = where, text
    judged: dict[str, tuple[str, list[Answer]]] = {}
    for where, row in judgements:
        reading.records += 1
        with reading.catching(where):
            query_id, answer = judgement_of(row)
            judged.setdefault(query_id, (where, []))[1].append(answer)
    for query_id, (where, _) in judged.items():
        if query_id not in queries:
            reading.broken(where, f"it judges the query {query_id!r}, which has no text.")
    for query_id, (where, text) in queries.items():
        _, answers = judged.get(query_id, (where, []))
        if any(answer.grade > 0 for answer in answers):
            reading.add(Query(query_id, text, tuple(answers)), where)
        else:
            reading.count(_IRRELEVANT if answers else _UNJUDGED)
