"""The stage that indexes passages.

Documents were cut when they were read. Here the passages of each paper's main document are indexed, in the order of the
papers' numbers, so that their own numbers do not depend on the order of the sources. A passage's point has the payload
of its paper, so that the filters of papers apply to passages. Rows, words and progress are committed together, after
the points of the batch are durable. Segments are small, also with dense vectors: building one takes memory for all of
its passages.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from scholarbase.documents.store import read_text
from scholarbase.encoders import Encoder
from scholarbase.indexes.filters import NO_FILTERS
from scholarbase.indexes.frequencies import FrequencyCounter
from scholarbase.indexes.passages import MONTHS, content_sums, parameters_of
from scholarbase.indexes.vectors import edge
from scholarbase.indexes.vectors.base import (
    DENSE,
    PAYLOAD_COLUMNS,
    Payload,
    VectorConfig,
    VectorPoint,
)
from scholarbase.indexes.vectors.bm25 import Bm25Text
from scholarbase.indexes.vectors.edge import EdgeWriter
from scholarbase.indexes.vectors.index import EdgeIndex
from scholarbase.indexes.vectors.space import check_space, required_bytes
from scholarbase.ingest.batches import batched
from scholarbase.ingest.checkpoint import Checkpoint
from scholarbase.ingest.dense import vectors_of
from scholarbase.ingest.encoding import documents_per_part
from scholarbase.ingest.folder import BuildFolder
from scholarbase.ingest.fulltexts import staged_passages
from scholarbase.ingest.vectors import point_of
from scholarbase.markup import searchable
from scholarbase.progress import Reporter, Tracker

PASSAGES_PER_BATCH: Final = 2_000


@dataclass(frozen=True, slots=True)
class _Row:
    id: int
    document: int
    section: int | None
    start: int
    end: int
    tokens: int
    paper: int
    text: str


def index_passages(
    catalog: sqlite3.Connection,
    db: sqlite3.Connection,
    folder: BuildFolder,
    config: VectorConfig,
    chunker: str,
    encoder: Encoder | None,
    reporter: Reporter,
) -> None:
    """Index the passages of the documents in ``db``, whose papers are in ``catalog``.

    After a kill, indexing continues behind the last document whose passages were committed.

    Raises:
        VectorIndexError: the index cannot be written.
        StorageError: there is not enough disk space.
        EncoderError: the encoder fails.
    """
    checkpoint = Checkpoint(db)
    if checkpoint.get("passages_done"):
        return
    last, done = checkpoint.get("passages", [0, 0])
    if not done and folder.passages.exists():
        shutil.rmtree(folder.passages)
    bm25 = Bm25Text(parameters_of(chunker))
    characters, before = (
        db.execute(
            f"SELECT coalesce(sum(characters), 0) FROM documents WHERE is_main AND paper {where}", (last,)
        ).fetchone()[0]
        for where in ("> ?", "<= ?")
    )
    writer = EdgeWriter.open(folder.passages, config)
    try:
        with reporter.stage("index passages", "passages", characters + before, before) as tracker:
            while True:
                # At the start, so that a job killed while sealing seals again.
                if done and done // edge.SEGMENT_POINTS > checkpoint.get("passage_segments", 0):
                    with reporter.stage("build passage graph", None, None):
                        writer.seal()
                    with checkpoint.transaction():
                        checkpoint.set("passage_segments", done // edge.SEGMENT_POINTS)
                rows, end, read = _next_rows(db, last, done)
                if end is None:
                    break
                check_space(folder.path, required_bytes(config, len(rows)))
                writer.upsert(_points(catalog, rows, bm25, encoder, tracker))
                writer.flush()
                with checkpoint.transaction():
                    _insert(db, rows)
                    last, done = end, done + len(rows)
                    checkpoint.set("passages", [last, done])
                before += read
                tracker.at(before)
        with reporter.stage("build passage graph", None, None):
            writer.finish()
            db.execute("INSERT INTO passage_words(passage_words) VALUES ('optimize')")
    finally:
        writer.close()
    with checkpoint.transaction():
        checkpoint.set("passages_done", True)


def _next_rows(db: sqlite3.Connection, last: int, done: int) -> tuple[list[_Row], int | None, int]:
    """The passages of the next documents, the last one's paper, None without documents, and the characters read."""
    rows: list[_Row] = []
    end, read = None, 0
    while len(rows) < PASSAGES_PER_BATCH:
        document = db.execute(
            "SELECT id, paper FROM documents WHERE is_main AND paper > ? ORDER BY paper LIMIT 1",
            (last if end is None else end,),
        ).fetchone()
        if document is None:
            break
        number, end = document
        whole = read_text(db, number)
        read += len(whole)
        for passage in staged_passages(db, number):
            text = whole[passage.start : passage.end]
            passage_id = done + len(rows) + 1
            rows.append(
                _Row(
                    passage_id, number, passage.section, passage.start, passage.end, passage.tokens, end, text
                )
            )
    return rows, end, read


def _points(
    catalog: sqlite3.Connection,
    rows: Sequence[_Row],
    bm25: Bm25Text,
    encoder: Encoder | None,
    tracker: Tracker,
) -> list[VectorPoint]:
    payloads: dict[int, Payload] = {}
    for row in rows:
        if row.paper not in payloads:
            columns = catalog.execute(
                f"SELECT {PAYLOAD_COLUMNS} FROM papers WHERE id = ?", (row.paper,)
            ).fetchone()
            payloads[row.paper] = Payload.of_paper(*columns)
    points = []
    size = len(rows) if encoder is None else documents_per_part(encoder.spec)
    for part in batched(rows, size):
        encodings = None if encoder is None else encoder.encode_documents([row.text for row in part])
        points += [
            point_of(
                row.id,
                payloads[row.paper],
                bm25.document("", row.text),
                (None, None) if encodings is None else vectors_of(encodings, position),
            )
            for position, row in enumerate(part)
        ]
        tracker.advance(len(part))
    return points


def _insert(db: sqlite3.Connection, rows: Sequence[_Row]) -> None:
    db.executemany(
        "INSERT INTO passages (id, document, section, start, end, tokens) VALUES (?, ?, ?, ?, ?, ?)",
        [(row.id, row.document, row.section, row.start, row.end, row.tokens) for row in rows],
    )
    db.executemany(
        "INSERT INTO passage_words(rowid, text) VALUES (?, ?)",
        [(row.id, searchable(row.text)) for row in rows],
    )


def summarize(
    db: sqlite3.Connection, catalog: Path, folder: BuildFolder, reporter: Reporter
) -> tuple[dict[str, int], dict[str, int]]:
    """The sums of the content's parts that full texts add, and counts of their rows. Document frequencies are stored.

    The catalogue at ``catalog`` must not be locked.
    """
    counts = {
        name: int(db.execute(f"SELECT count(*) FROM {name}").fetchone()[0])
        for name in ("documents", "passages", "citations", "bibliography", "figures", "pages")
    }
    counts["bibliography_entries_without_paper"] = int(
        db.execute("SELECT count(*) FROM bibliography WHERE paper IS NULL").fetchone()[0]
    )
    db.execute("ATTACH ? AS catalog", (str(catalog),))
    try:
        with (
            closing(EdgeIndex.open(folder.passages, view=False)) as index,
            TemporaryDirectory(prefix="passages-", dir=folder.path) as temporary,
            reporter.stage("hash passages", "passages", counts["passages"]) as tracker,
        ):
            counter = FrequencyCounter(db, Path(temporary), MONTHS)
            sums = content_sums(db, index, counter, tracker.advance)
            if index.config.dimensions is not None:
                counts["dense_passages"] = index.count(NO_FILTERS, vector=DENSE)
            counter.write(db)
    finally:
        db.execute("DETACH catalog")
    renamed: dict[str, Any] = {
        "citations": "in_text_citations",
        "bibliography": "bibliography_entries",
    }
    return sums, {renamed.get(name, name): count for name, count in counts.items()}
