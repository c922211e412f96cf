"""What every format shares: one reading of a query file, its broken records, its notes and its result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from scholarbase.errors import QueryFileError
from scholarbase.evaluation.formats.streams import Record
from scholarbase.models.queries import Query, QuerySet

_SHOWN: Final = 3
"""How many broken records a note tells the reasons of."""


class Broken(Exception):
    """What is wrong with one record: a sentence that begins small and ends with a full stop."""


@dataclass
class Reading:
    """One reading of a query file or folder: what was read, what was broken, what is worth saying.

    With ``skip_broken`` a broken record is left out and told of in a note; without it, ``result`` raises.
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
        """The records that could be read; the others are counted as broken."""
        for record in records:
            self.records += 1
            if record.problem is None:
                yield record
            else:
                self.broken(record.where, record.problem)

    def broken(self, where: str, reason: str) -> None:
        """Count a broken record."""
        self._broken.append((where, reason))

    def add(self, query: Query, where: str) -> None:
        """Take a query. Raises Broken: its id was there before."""
        before = self._places.get(query.id)
        if before is not None:
            raise Broken(f"the query id {query.id!r} is that of {before} too: give each query its own id.")
        self._places[query.id] = where
        self.queries.append(query)

    def count(self, sentence: str, number: int = 1) -> None:
        """Count what a note will say: ``sentence: number``."""
        self._counts[sentence] += number

    def unread(self, names: Iterable[str]) -> None:
        """Remember columns that the format does not know."""
        self._unread.update(dict.fromkeys(names))

    def result(self, name: str, form: str) -> QuerySet:
        """The queries.

        Raises:
            QueryFileError: records were broken and were not to be left out, or no query is left.
        """
        self.check(bool(self.queries))
        if not self.queries:
            raise QueryFileError(
                f"{self.path} holds no query ({'; '.join(self.notes()) or 'nothing was read'})."
            )
        return QuerySet(name, form, tuple(self.queries), self.notes())

    @property
    def left_out(self) -> int:
        """How many records were broken."""
        return len(self._broken)

    def check(self, anything_left: bool) -> None:
        """Raises QueryFileError: records were broken, and were not to be left out or nothing else is there."""
        if self._broken and not (self.skip_broken and anything_left):
            raise QueryFileError(self._complaint(anything_left))

    def notes(self) -> tuple[str, ...]:
        """What was passed over, and why."""
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

    def _complaint(self, anything_left: bool) -> str:
        where, reason = self._broken[0]
        if self.records == 1:
            return f"{self.path}, {where}: {reason}"
        if len(self._broken) == 1:
            return (
                f"{self.path}, {where}: {reason} Correct it, or leave it out (--skip-broken, "
                "skip_broken=True)."
            )
        if not anything_left:
            return f"{self.path}: not one of its {self.records:,} lines can be read; the first, {where}: {reason}"
        return (
            f"{self.path}: {len(self._broken):,} of {self.records:,} lines are broken; the first, {where}: "
            f"{reason} Correct them, or leave them out (--skip-broken, skip_broken=True)."
        )


@dataclass(frozen=True)
class Format:
    """A format whose records are objects with named fields.

    ``recognises`` looks at the names of a record's fields; ``query`` reads a record, gives None for one that the
    format itself marks as not to be used, and raises Broken. Names beyond ``names`` are passed over, and told of in
    a note.
    """

    name: str
    names: frozenset[str]
    recognises: Callable[[Collection[str]], bool]
    query: Callable[[Record, Reading], Query | None]

    def read(self, reading: Reading, records: Iterable[Record]) -> None:
        """Read every record into the reading."""
        for record in reading.readable(records):
            if not record.fields.keys() <= self.names:
                reading.unread(name for name in record.fields if name not in self.names)
            try:
                query = self.query(record, reading)
                if query is not None:
                    reading.add(query, record.where)
            except Broken as problem:
                reading.broken(record.where, str(problem))
