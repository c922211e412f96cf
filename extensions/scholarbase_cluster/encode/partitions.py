"""Partitions: neighbouring papers of a catalogue, encoded together into one Parquet file.

A file has the columns ``id`` and ``vector``, and appears under its final name when it is whole. Papers whose vector is
zero, which static encoders have for texts without known tokens, have no row.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from scholarbase.databases import open_immutable
from scholarbase.encoders import Encoder, document_text
from scholarbase.extras import require
from scholarbase.files import atomic_write
from scholarbase.indexes.catalog import canonical_id, id_columns
from scholarbase.ingest.encoding import documents_per_part

PAPERS: Final = 8_192
"""Papers in a partition: with 1,024 dimensions a file of 32 MB."""


class Partition(NamedTuple):
    """The ``papers`` papers of a catalogue with ids greater than ``after``."""

    number: int
    after: int
    papers: int

    @property
    def file_name(self) -> str:
        return file_name(self.number)


def file_name(number: int) -> str:
    """The name of a partition's file."""
    return f"{number:06d}.parquet"


def partitions(catalog: Path, papers: int) -> Iterator[Partition]:
    """The partitions of a catalogue's papers, ``papers`` in each but the last."""
    with closing(open_immutable(catalog)) as db:
        after, number = 0, 0
        while ids := [
            row[0]
            for row in db.execute("SELECT id FROM papers WHERE id > ? ORDER BY id LIMIT ?", (after, papers))
        ]:
            yield Partition(number, after, len(ids))
            after, number = ids[-1], number + 1


class PartitionEncoder:
    """Encodes partitions of the catalogue at ``catalog`` into files in ``out``."""

    def __init__(self, catalog: Path, out: Path, encoder: Encoder) -> None:
        self._db: sqlite3.Connection = open_immutable(catalog)
        self._out = out
        self._encoder = encoder

    def encode(self, partition: Partition) -> None:
        """Write the partition's file, unless it exists.

        Raises:
            EncoderError: the encoder fails.
        """
        path = self._out / partition.file_name
        if path.exists():
            return
        rows = self._db.execute(
            f"""
            SELECT p.title, a.abstract, {id_columns("p")}
            FROM papers p LEFT JOIN abstracts a ON a.paper_id = p.id
            WHERE p.id > ? ORDER BY p.id LIMIT ?
            """,
            (partition.after, partition.papers),
        ).fetchall()
        spec = self._encoder.spec
        texts = [document_text(title, abstract, spec.title_weight) for title, abstract, *_ in rows]
        # The same documents together as in an ingest: the last bits of a vector may depend on the others of its batch.
        # Requests to a service are the same, whatever the number of documents.
        size = len(texts) if spec.kind == "http" else documents_per_part(spec)
        dense = np.concatenate(
            [
                self._encoder.encode_documents(texts[start : start + size]).dense
                for start in range(0, len(texts), size)
            ]
        )
        known: npt.NDArray[np.bool_] = np.any(dense, axis=1)
        ids = [canonical_id(*row[2:]) for row, has_vector in zip(rows, known, strict=True) if has_vector]
        self._write(path, ids, dense[known])

    def _write(self, path: Path, ids: list[str], vectors: npt.NDArray[np.float32]) -> None:
        pa = require("pyarrow", "parquet", "Writing vectors")
        pq = require("pyarrow.parquet", "parquet", "Writing vectors")
        lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])
        table = pa.table({"id": pa.array(ids, pa.string()), "vector": lists})
        with atomic_write(path) as file:
            pq.write_table(table, file, compression="none", use_dictionary=False)

    def close(self) -> None:
        """Close the catalogue. The encoder stays open."""
        self._db.close()
