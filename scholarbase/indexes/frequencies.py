"""Document frequencies: how many papers have a term in their BM25 vector, at the end of each month.

The table ``document_frequencies`` has a row for each term and each month in which papers with the term appeared. Its
``papers`` is the number of all of them up to the end of that month, so one look-up returns the document frequency at
any month. Months are numbers ``yyyymm``; :data:`UNDATED` is that of papers without a date. The rows of
:data:`ANY_TERM` count all papers that have a BM25 vector.

The rows are derived from the stored vectors and the catalogue's dates, and ``scholarbase verify`` counts them again.
"""

from __future__ import annotations

import calendar
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby, zip_longest
from operator import itemgetter
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from scholarbase.errors import LibraryCorrupt

UNDATED: Final = 999_999
"""The month of papers whose last possible day is unknown. No point in time includes them."""
ANY_TERM: Final = -1
"""The number of no term. Its rows count papers that have any term."""

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS document_frequencies (
    term INTEGER NOT NULL, month INTEGER NOT NULL, papers INTEGER NOT NULL, PRIMARY KEY (term, month)
) WITHOUT ROWID;
"""

OF_TERMS: Final = """
SELECT wanted.value, (
    SELECT papers FROM main.document_frequencies
    WHERE term = wanted.value AND month <= ?2 ORDER BY month DESC LIMIT 1
)
FROM json_each(?1) AS wanted
"""
"""The SQL of how many papers or passages have each term of a list by the end of a month, NULL for terms of none. The
parameters are the terms, as JSON, and the month. :data:`ANY_TERM` counts those that have a vector."""
MONTHS: Final = "SELECT id, coalesce(last_day / 100, ?) FROM papers WHERE id BETWEEN ? AND ? ORDER BY id"
"""The SQL of the months of papers: the parameters are :data:`UNDATED` and the first and the last id."""
_MONTH_BITS: Final = 20
_BUFFERED: Final = 2_000_000
"""Terms of papers in memory, of 8 bytes. Sorting takes as much again."""
_PARTS: Final = 64
"""Ranges of term numbers, which are hashes, that are counted one after the other."""


def last_full_month(day: int) -> int:
    """The last month ``yyyymm`` that ends on or before a day ``yyyymmdd``; in January perhaps month 0 of the year."""
    month = day // 100
    return month if day % 100 == calendar.monthrange(month // 100, month % 100)[1] else month - 1


class FrequencyCounter:
    """Counts document frequencies. Memory does not grow with the library: sorted counts are written to files."""

    def __init__(self, db: sqlite3.Connection, folder: Path, months: str = MONTHS) -> None:
        """
        Args:
            db: the catalogue, which has the papers' dates.
            folder: an existing folder for temporary files. Counts that other counters saved there, or in folders
                of it, are added.
            months: the SQL of the month of each point, as in :data:`MONTHS`.
        """
        self._db = db
        self._sql = months
        self._folder = folder
        self._buffer: list[npt.NDArray[np.int64]] = []
        self._buffered = 0
        saved = (sorted(folder.rglob(f"*.{kind}.npy")) for kind in ("keys", "counts"))
        self._files: list[tuple[Path, Path]] = list(zip(*saved, strict=True))

    def add(
        self, ids: npt.NDArray[np.int64], lengths: npt.NDArray[np.uint32], terms: npt.NDArray[np.uint32]
    ) -> None:
        """Count the BM25 vectors of papers: ascending ids, the number of terms of each, and the terms of all."""
        if not len(ids):
            return
        months = self._months(ids)
        keys = (terms.astype(np.int64) << _MONTH_BITS) | np.repeat(months, lengths)
        of_any = (np.int64(ANY_TERM) << _MONTH_BITS) | months
        self._buffer += [keys, of_any]
        self._buffered += len(keys) + len(of_any)
        if self._buffered >= _BUFFERED:
            self._write_buffer()

    def _months(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The month of each paper."""
        rows = self._db.execute(self._sql, (UNDATED, int(ids[0]), int(ids[-1]))).fetchall()
        stored = np.array(rows, np.int64).reshape(-1, 2)
        positions = np.searchsorted(stored[:, 0], ids)
        if len(stored) < len(ids) or (stored[positions.clip(max=len(stored) - 1), 0] != ids).any():
            raise LibraryCorrupt(
                f"The vectors have papers between {ids[0]} and {ids[-1]} that the catalogue lacks: ingest again."
            )
        months: npt.NDArray[np.int64] = stored[positions, 1]
        return months

    def _write_buffer(self) -> None:
        if not self._buffer:
            return
        keys, counts = np.unique(np.concatenate(self._buffer), return_counts=True)
        self._buffer, self._buffered = [], 0
        paths = tuple(self._folder / f"{len(self._files):06d}.{kind}.npy" for kind in ("keys", "counts"))
        np.save(paths[0], keys)
        np.save(paths[1], counts.astype(np.uint32))
        self._files.append((paths[0], paths[1]))

    def save(self) -> None:
        """Write all counts to the folder."""
        self._write_buffer()

    def rows(self) -> Iterator[tuple[int, int, int]]:
        """The rows of the table, in its order. Nothing can be added afterwards."""
        self._write_buffer()
        bounds = np.linspace(0, 2**32, _PARTS + 1).astype(np.int64)
        bounds[0] = ANY_TERM
        files = [
            (np.load(keys, mmap_mode="r"), np.load(counts, mmap_mode="r")) for keys, counts in self._files
        ]
        for first, end in zip(bounds[:-1] << _MONTH_BITS, bounds[1:] << _MONTH_BITS, strict=True):
            yield from self._part(files, first, end)

    def _part(
        self,
        files: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]],
        first: np.int64,
        end: np.int64,
    ) -> Iterator[tuple[int, int, int]]:
        """The rows whose keys are in a range that has all months of its terms."""
        parts: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]] = []
        for keys, counts in files:
            start, stop = np.searchsorted(keys, [first, end])
            parts.append((np.array(keys[start:stop]), np.array(counts[start:stop])))
        if not parts:
            return
        keys, places = np.unique(np.concatenate([keys for keys, _ in parts]), return_inverse=True)
        if not len(keys):
            return
        added = np.bincount(places, np.concatenate([counts for _, counts in parts])).astype(np.int64)
        terms, months = keys >> _MONTH_BITS, keys & (2**_MONTH_BITS - 1)
        sums = np.cumsum(added)
        starts = np.flatnonzero(np.diff(terms, prepend=terms[0] - 1))
        before = np.repeat(sums[starts] - added[starts], np.diff(starts, append=len(terms)))
        yield from zip(terms.tolist(), months.tolist(), (sums - before).tolist(), strict=True)

    def write(self, db: sqlite3.Connection) -> None:
        """Replace the rows of the table. The caller commits."""
        db.execute("DELETE FROM document_frequencies")
        db.executemany("INSERT INTO document_frequencies VALUES (?, ?, ?)", self.rows())

    def check(self, db: sqlite3.Connection) -> int:
        """Compare the table with the counted rows, and return their number.

        Raises:
            LibraryCorrupt: a row differs.
        """
        stored = db.execute("SELECT term, month, papers FROM document_frequencies ORDER BY term, month")
        total = 0
        for row, counted in zip_longest(stored, self.rows()):
            if row != counted:
                raise LibraryCorrupt(
                    f"The catalogue has the document frequency {_shown(row)}, and the vectors have {_shown(counted)}: "
                    "restore the copy, or ingest again."
                )
            total += 1
        return total


def _shown(row: tuple[int, int, int] | None) -> str:
    return "none" if row is None else f"{row[2]} of term {row[0]} in {row[1]}"


class FrequencyChanges:
    """Changes of document frequencies by papers that came, went or changed."""

    def __init__(self) -> None:
        self._changes: Counter[tuple[int, int]] = Counter()

    def add(self, last_day: int | None, terms: Sequence[int], sign: int) -> None:
        """Count a paper with its last possible day and the terms of its BM25 vector once more, or with sign -1 once
        less."""
        month = UNDATED if last_day is None else last_day // 100
        for term in (*terms, ANY_TERM) if terms else ():
            self._changes[term, month] += sign

    def write(self, db: sqlite3.Connection) -> None:
        """Change the rows of the table. The caller commits."""
        changes = sorted((*key, count) for key, count in self._changes.items() if count)
        for term, of_term in groupby(changes, itemgetter(0)):
            sql = "SELECT month, papers FROM document_frequencies WHERE term = ? ORDER BY month"
            stored = db.execute(sql, (term,)).fetchall()
            added: dict[int, int] = {}  # the papers of each month alone
            before = 0
            for month, papers in stored:
                added[month], before = papers - before, papers
            for _, month, count in of_term:
                added[month] = added.get(month, 0) + count
            if min(added.values()) < 0:
                raise LibraryCorrupt("A document frequency would be negative: ingest the library again.")
            months = sorted(month for month, count in added.items() if count)
            rows = set(zip(months, accumulate(added[month] for month in months), strict=True))
            db.executemany(
                "DELETE FROM document_frequencies WHERE term = ? AND month = ?",
                [(term, month) for month, _ in stored if not added[month]],
            )
            db.executemany(
                "INSERT OR REPLACE INTO document_frequencies VALUES (?, ?, ?)",
                [(term, *row) for row in rows.difference(stored)],
            )
