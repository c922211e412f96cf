"""The content hash of a library: everything that its answers depend on, in any order.

A library has parts: the tables of the catalogue and the vectors of each name. A part is a set of rows. Its *sum* is the
sum of its rows' hashes of 2,048 bits, modulo 2**2048: adding a row adds its hash and removing it subtracts it, so that
an update of a library changes sums instead of reading everything again (Bellare and Micciancio, "A New Paradigm for
Collision-Free Hashing: Incrementality at Reduced Cost", 1997, https://doi.org/10.1007/3-540-69053-0_13). The hash of a
part is the SHA-256 of its sum, and the content hash is the SHA-256 of the list of parts. ``docs/library-format.md``
defines the bytes. Indexes are derived from the parts and do not belong to the content: the graph of an approximate
index differs between two builds.
"""

from __future__ import annotations

import hashlib
import sqlite3
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    "aliases": ("scheme", "value", "paper_id"),
    "authors": ("author_id",),
    "venues": ("venue_id",),
    "venue_names": ("name_key", "venue_key"),
    "edges": ("citing", "cited"),
    "sets": ("name", "paper"),
    "written": ("paper_id",),
}
"""The tables of the catalogue, and the columns by which their rows are ordered: the first ones of each table."""

HASH_BYTES: Final = 256
"""Bytes of a row's hash: sums of 256 bits would have known collisions (Wagner, "A Generalized Birthday Problem",
2002)."""
_MODULUS: Final = 1 << 8 * HASH_BYTES
_ROWS: Final = 5_000
_POINTS: Final = 1_000


def content_hash(parts: Mapping[str, str]) -> str:
    """The hash of parts with these SHA-256, as hexadecimal."""
    lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(parts.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


def part_hashes(sums: Mapping[str, int]) -> dict[str, str]:
    """The SHA-256 of each part's sum, as hexadecimal."""
    return {
        name: hashlib.sha256(total.to_bytes(HASH_BYTES, "little")).hexdigest() for name, total in sums.items()
    }


def sum_of(rows: Iterable[bytes]) -> int:
    """The sum of the hashes of rows."""
    total = 0
    for row in rows:
        total += int.from_bytes(hashlib.shake_256(row).digest(HASH_BYTES), "little")
    return total % _MODULUS


def combined(*sums: int, without: int = 0) -> int:
    """The sum of the rows of several sums, less those of ``without``."""
    return (sum(sums) - without) % _MODULUS


def sum_of_rows(rows: Iterable[Sequence[Any]], table: str) -> int:
    """The sum of rows of a table of the catalogue, with all columns.

    Raises:
        LibraryCorrupt: a value is binary data, which no column has.
    """
    try:
        return sum_of(map(orjson.dumps, rows))
    except orjson.JSONEncodeError as error:
        raise LibraryCorrupt(f"The table {table} of the catalogue is damaged: {error}.") from error


def table_sums(db: sqlite3.Connection, advance: Callable[[int], None] = lambda rows: None) -> dict[str, int]:
    """The sum of each table of a catalogue. ``advance`` is called with the number of rows read since the last call.

    Rows are fetched in batches: an open read would block the checkpoints of a write-ahead log.

    Raises:
        LibraryCorrupt: a value is binary data, which no column has.
    """
    return {table: _table_sum(db, table, advance) for table in KEYS}


def _table_sum(db: sqlite3.Connection, table: str, advance: Callable[[int], None]) -> int:
    key = ", ".join(KEYS[table])
    marks = ", ".join("?" * len(KEYS[table]))
    first = f"SELECT * FROM {table} ORDER BY {key} LIMIT {_ROWS}"
    following = f"SELECT * FROM {table} WHERE ({key}) > ({marks}) ORDER BY {key} LIMIT {_ROWS}"
    total = 0
    rows = db.execute(first).fetchall()
    while rows:
        total = combined(total, sum_of_rows(rows, table))
        advance(len(rows))
        rows = db.execute(following, rows[-1][: len(KEYS[table])]).fetchall()
    return total


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


def vector_sums(
    index: VectorIndex,
    count: FrequencyCounter | None = None,
    advance: Callable[[int], None] = lambda points: None,
) -> dict[str, int]:
    """The sum of the stored vectors of each name. ``count`` counts their document frequencies; ``advance`` is called
    with the number of points read since the last call."""
    dense = () if index.config.dimensions is None else (DENSE,)
    sums = dict.fromkeys((*index.config.sparse_names, *dense), 0)
    for records in index.records(_POINTS):
        vectors = [(record.id, record.vector or {}) for record in records]
        for name in sums:
            stored = [(point, by_name[name]) for point, by_name in vectors if name in by_name]
            if name == DENSE:
                sums[name] = combined(
                    sums[name], sum_of(map(dense_row, *zip(*stored, strict=True)) if stored else ())
                )
                continue
            # Each access copies the numbers.
            copied = [(point, vector.indices, vector.values) for point, vector in stored]
            points = np.array([point for point, _, _ in copied], np.int64)
            lengths = np.array([len(numbers) for _, numbers, _ in copied], np.uint32)
            terms = np.fromiter(chain.from_iterable(numbers for _, numbers, _ in copied), np.uint32)
            weights = np.fromiter(chain.from_iterable(values for _, _, values in copied), np.float32)
            sums[name] = combined(sums[name], sum_of(_sparse_rows(points, lengths, terms, weights)))
            if name == BM25 and count is not None:
                count.add(points, lengths, terms)
        advance(len(records))
    return sums


def sparse_row(point: int, terms: Sequence[int], weights: Sequence[float]) -> bytes:
    """The bytes of a sparse vector: the paper's id, the terms ascending, and their weights."""
    lengths = np.array([len(terms)], np.uint32)
    return next(
        _sparse_rows(
            np.array([point], np.int64), lengths, np.array(terms, np.uint32), np.array(weights, np.float32)
        )
    )


def _sparse_rows(
    points: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.uint32],
    terms: npt.NDArray[np.uint32],
    weights: npt.NDArray[np.float32],
) -> Iterator[bytes]:
    """The bytes of the sparse vectors of points: the number of the terms of each, and the terms and weights of all."""
    order = np.argsort(np.repeat(np.arange(len(points)) << 32, lengths) | terms, kind="stable")
    ids, numbers = points.astype("<i8").tobytes(), terms[order].astype("<u4").tobytes()
    values = weights[order].astype("<f4").tobytes()
    start = 0
    for number, end in enumerate((4 * np.cumsum(lengths, dtype=np.int64)).tolist()):
        yield ids[8 * number : 8 * number + 8] + numbers[start:end] + values[start:end]
        start = end


def dense_row(point: int, vector: Sequence[float]) -> bytes:
    """The bytes of a dense vector: the paper's id, and the numbers as float16, as they are stored."""
    return struct.pack(f"<q{len(vector)}e", point, *vector)
