"""The content hash of a library: everything that its answers depend on, in a canonical order.

A library has parts: the tables of the catalogue and the vectors of each name. Each part has a SHA-256, and the content
hash is the SHA-256 of their list. ``docs/library-format.md`` defines the bytes. Indexes are derived from the parts and
do not belong to the content: the graph of an approximate index differs between two builds.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Mapping
from itertools import chain
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson

from scholarbase.errors import LibraryCorrupt
from scholarbase.indexes.frequencies import FrequencyCounter
from scholarbase.indexes.vectors.base import BM25, DENSE
from scholarbase.indexes.vectors.index import VectorIndex

KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "papers": ("id",),
    "abstracts": ("paper_id",),
    "aliases": ("scheme", "value"),
    "authors": ("author_id",),
    "venues": ("venue_id",),
    "venue_names": ("name_key", "venue_key"),
    "edges": ("citing", "cited"),
    "sets": ("name", "paper"),
}
"""The tables of the catalogue, and the columns by which their rows are ordered: the first ones of each table."""

_ROWS: Final = 5_000
_POINTS: Final = 1_000


def content_hash(parts: Mapping[str, str]) -> str:
    """The hash of parts with these SHA-256, as hexadecimal."""
    lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(parts.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


def table_hashes(db: sqlite3.Connection) -> dict[str, str]:
    """The SHA-256 of each table of a catalogue, as hexadecimal.

    Rows are fetched in batches: an open read would block the checkpoints of a write-ahead log.

    Raises:
        LibraryCorrupt: a value is binary data, which no column has.
    """
    return {table: _table_hash(db, table) for table in KEYS}


def _table_hash(db: sqlite3.Connection, table: str) -> str:
    key = ", ".join(KEYS[table])
    marks = ", ".join("?" * len(KEYS[table]))
    first = f"SELECT * FROM {table} ORDER BY {key} LIMIT {_ROWS}"
    following = f"SELECT * FROM {table} WHERE ({key}) > ({marks}) ORDER BY {key} LIMIT {_ROWS}"
    digest = hashlib.sha256()
    rows = db.execute(first).fetchall()
    while rows:
        try:
            digest.update(b"".join([orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows]))
        except orjson.JSONEncodeError as error:
            raise LibraryCorrupt(f"The table {table} of the catalogue is damaged: {error}.") from error
        rows = db.execute(following, rows[-1][: len(KEYS[table])]).fetchall()
    return digest.hexdigest()


def check_types(db: sqlite3.Connection) -> None:
    """Check that tables have only texts, whole numbers and nulls: JSON writes infinity as null.

    Raises:
        LibraryCorrupt: another value.
    """
    for table in KEYS:
        columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
        wrong = " OR ".join(f"typeof({column}) IN ('real', 'blob')" for column in columns)
        if db.execute(f"SELECT 1 FROM {table} WHERE {wrong} LIMIT 1").fetchone():
            raise LibraryCorrupt(
                f"The table {table} of the catalogue has a value that is no text or integer."
            )


def vector_hashes(index: VectorIndex, count: FrequencyCounter | None = None) -> dict[str, str]:
    """The SHA-256 of the stored vectors of each name, as hexadecimal. ``count`` counts their document frequencies."""
    sparse = {name: _Streams() for name in index.config.sparse_names}
    dense = _Streams() if index.config.dimensions is not None else None
    for records in index.records(_POINTS):
        vectors = [(record.id, record.vector or {}) for record in records]
        for name, streams in sparse.items():
            arrays = _sparse_arrays([(point, found[name]) for point, found in vectors if name in found])
            streams.add(*arrays)
            if name == BM25 and count is not None:
                count.add(*arrays[:3])
        if dense is not None:
            dense.add(*_dense_arrays([(point, found[DENSE]) for point, found in vectors if DENSE in found]))
    hashes = {name: streams.hexdigest() for name, streams in sparse.items()}
    return hashes if dense is None else hashes | {DENSE: dense.hexdigest()}


class _Streams:
    """Arrays of numbers that grow, little-endian, each with its own hash."""

    def __init__(self) -> None:
        self._hashes: list[Any] = []

    def add(self, *arrays: npt.NDArray[Any]) -> None:
        self._hashes = self._hashes or [hashlib.sha256() for _ in arrays]
        for digest, array in zip(self._hashes, arrays, strict=True):
            digest.update(array)

    def hexdigest(self) -> str:
        return hashlib.sha256(b"".join(digest.digest() for digest in self._hashes)).hexdigest()


def _sparse_arrays(
    vectors: list[tuple[int, Any]],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.float32]]:
    """Ids, numbers of terms, term numbers, and weights, both by ascending term number."""
    terms = [vector.indices for _, vector in vectors]
    counts = np.array([len(numbers) for numbers in terms], "<u4")
    total = int(counts.sum())
    numbers = np.fromiter(chain.from_iterable(terms), "<u4", total)
    weights = np.fromiter(chain.from_iterable(vector.values for _, vector in vectors), "<f4", total)
    descents = np.flatnonzero(numbers[1:] <= numbers[:-1]) + 1
    if not np.isin(descents, np.cumsum(counts)).all():
        order = np.lexsort((numbers, np.repeat(np.arange(len(counts)), counts)))
        numbers, weights = numbers[order], weights[order]
    return _ids(vectors), counts, numbers, weights


def _dense_arrays(
    vectors: list[tuple[int, Any]],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float16]]:
    """Ids, and the vectors as float16, as they are stored."""
    return _ids(vectors), np.array([vector for _, vector in vectors], "<f2")


def _ids(vectors: list[tuple[int, Any]]) -> npt.NDArray[np.int64]:
    return np.array([point for point, _ in vectors], "<i8")
