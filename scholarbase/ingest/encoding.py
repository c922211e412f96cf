"""Dense vectors of papers: encoded here, or read from a file of vectors computed elsewhere."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from scholarbase.encoders import Encoder, Encodings, document_text
from scholarbase.errors import EncoderMismatch, SourceError
from scholarbase.identifiers import stored_identifier
from scholarbase.indexes.catalog import find
from scholarbase.ingest.checkpoint import paper_counts
from scholarbase.ingest.dense import DenseParts
from scholarbase.ingest.sources.vectors import open_vectors
from scholarbase.models.encoders import STATIC, EncoderSpec
from scholarbase.progress import Reporter

DOCUMENTS_PER_PART: Final = 128
"""A part is written at once, and progress moves by parts: a CPU encodes a few papers per second with BGE-M3."""
DOCUMENTS_PER_STATIC_PART: Final = 4096
"""Static encoders take about a second for so many, on all cores."""
AGREEMENT_SAMPLE: Final = 8
"""Papers encoded again to check that vectors computed elsewhere are from this encoder."""
AGREEMENT: Final = 0.9
"""Minimum median cosine. The same model reaches 0.999 even in half precision; other models are far below 0.9."""


def encode_papers(db: sqlite3.Connection, parts: DenseParts, encoder: Encoder, reporter: Reporter) -> None:
    """Encode the papers that are not in a part yet, part by part, by ascending id.

    Raises:
        EncoderError: the encoder fails. The parts already written are kept.
    """
    last, number = parts.last_id, parts.count
    size = documents_per_part(encoder.spec)
    total, done = paper_counts(db, last)
    with reporter.stage("encode", "papers", total, done) as tracker:
        while rows := _documents(db, last, size):
            encodings = encoder.encode_documents(
                [document_text(title, abstract, encoder.spec.title_weight) for _, title, abstract in rows]
            )
            parts.write(number, np.array([row[0] for row in rows], dtype=np.int64), encodings)
            last, number = rows[-1][0], number + 1
            tracker.advance(len(rows))


def documents_per_part(spec: EncoderSpec) -> int:
    """The documents that are encoded together, and written at once."""
    return DOCUMENTS_PER_STATIC_PART if spec.kind == STATIC else DOCUMENTS_PER_PART


def load_vectors(
    db: sqlite3.Connection,
    parts: DenseParts,
    encoder: Encoder,
    path: Path,
    title_weight: int,
    reporter: Reporter,
) -> Counter[str]:
    """Read the papers' vectors from a file, which must not have changed at the end. Returns counts by name.

    ``title_weight`` is the number of times the title was repeated in the texts of these vectors.

    After a kill, all vectors are read again: the file may have changed in between.

    Raises:
        EncoderMismatch: the vectors have other dimensions than the encoder's, or are from another encoder.
        SourceError: the file cannot be read, or has no vector of a paper in this library.
    """
    parts.clear()
    checked = False
    counts: Counter[str] = Counter()
    with reporter.stage("load vectors", "vectors", None) as tracker:
        for number, (names, vectors) in enumerate(open_vectors(path)):
            _check_dimensions(vectors, encoder.spec, path)
            ids = _resolve(db, names)
            known = ids > 0
            counts["vectors_read"] += len(names)
            counts["vectors_of_no_paper"] += int((~known).sum())
            if not checked and known.any():
                _check_agreement(db, encoder, ids[known], vectors[known], path, title_weight)
                checked = True
            parts.write(number, ids[known], Encodings(vectors[known]))
            tracker.advance(len(names))
    if not checked:
        raise SourceError(
            f"{path} has no vector of a paper in this library: check its ids, such as {names[0]!r}."
        )
    counts["vectors_repeated"] = parts.open().repeated
    return counts


def check_first_vectors(path: Path, spec: EncoderSpec) -> None:
    """Check the dimensions of the first vectors of a file, before anything is indexed.

    Raises:
        EncoderMismatch: they are not the encoder's.
        SourceError: the file cannot be read.
    """
    for _, vectors in islice(open_vectors(path), 1):
        _check_dimensions(vectors, spec, path)


def _check_dimensions(vectors: npt.NDArray[np.float32], spec: EncoderSpec, path: Path) -> None:
    if vectors.shape[1] != spec.dimensions:
        raise EncoderMismatch(
            f"The vectors in {path} have {vectors.shape[1]} dimensions, and those of {spec.name} have "
            f"{spec.dimensions}: give the encoder that computed them."
        )


def _documents(db: sqlite3.Connection, after: int, count: int) -> list[tuple[int, str, str | None]]:
    return db.execute(
        """
        SELECT id, title, abstract FROM papers LEFT JOIN abstracts ON paper_id = id
        WHERE id > ? ORDER BY id LIMIT ?
        """,
        (after, count),
    ).fetchall()


def _resolve(db: sqlite3.Connection, names: Sequence[str]) -> npt.NDArray[np.int64]:
    """Catalogue ids of the named papers, 0 for those not in the library. Bare ids are documents', as in qrels."""
    identifiers = [stored_identifier(name) or stored_identifier(f"Doc:{name}") for name in names]
    known = find(db, (identifier for identifier in identifiers if identifier is not None))
    return np.array([known.get(i, 0) if i is not None else 0 for i in identifiers], dtype=np.int64)


def _check_agreement(
    db: sqlite3.Connection,
    encoder: Encoder,
    ids: npt.NDArray[np.int64],
    vectors: npt.NDArray[np.float32],
    path: Path,
    title_weight: int,
) -> None:
    """Encode a few of the papers and compare the results with their vectors."""
    texts = []
    for paper_id in ids[:AGREEMENT_SAMPLE].tolist():
        title, abstract = db.execute(
            "SELECT title, abstract FROM papers LEFT JOIN abstracts ON paper_id = id WHERE id = ?",
            (paper_id,),
        ).fetchone()
        texts.append(document_text(title, abstract, title_weight))
    cosines = (encoder.encode_documents(texts).dense * vectors[: len(texts)]).sum(axis=1)
    if float(np.median(cosines)) < AGREEMENT:
        raise EncoderMismatch(
            f"The vectors in {path} are not from {encoder.spec.name}: of {len(texts)} papers encoded again, "
            f"the median cosine is {float(np.median(cosines)):.2f}. Give the encoder that computed them."
        )
