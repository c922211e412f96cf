"""The last stages of a job that builds a library: the manifest and the list of files, then all files get their names.

The manifest is written before the catalogue has its snapshot id, and the list of files last of all that is written. So
a job that was killed finds out what is left.
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
from collections.abc import Collection, Mapping
from contextlib import closing
from typing import Any

from scholarbase.databases import finish, open_for_reading
from scholarbase.encoders import Encoder
from scholarbase.indexes.catalog import read_meta
from scholarbase.indexes.contents import BLOCK
from scholarbase.indexes.filters import NO_FILTERS
from scholarbase.indexes.schema import count_rows
from scholarbase.indexes.vectors.base import DENSE, VectorConfig
from scholarbase.indexes.vectors.shards import open_local
from scholarbase.ingest.checkpoint import Checkpoint
from scholarbase.ingest.folder import REJECTS, BuildFolder
from scholarbase.ingest.fulltexts import finish_documents
from scholarbase.ingest.random_pairs import random_similarity
from scholarbase.ingest.store import RecordStore
from scholarbase.manifest import FILE_NAME, Manifest, read_manifest, snapshot_id
from scholarbase.progress import Reporter

log = logging.getLogger("scholarbase.ingest")


def measure(
    db: sqlite3.Connection,
    folder: BuildFolder,
    config: VectorConfig,
    encoder: Encoder | None,
    reporter: Reporter,
) -> tuple[dict[str, int], dict[str, float] | None]:
    """The numbers of a library's rows and points, and how similar random papers are for its encoder."""
    with (
        reporter.stage("compare random papers", None, None),
        closing(open_local(folder.vectors, view=False)) as index,
    ):
        counts = count_rows(db)
        counts["points"] = index.count(NO_FILTERS)
        counts["dense_vectors"] = index.count(NO_FILTERS, vector=DENSE) if config.dimensions else 0
        return counts, random_similarity(db, index, encoder) if encoder else None


def named_sets(db: sqlite3.Connection, sources: Mapping[str, Collection[str]]) -> dict[str, dict[str, Any]]:
    """The sets as the manifest lists them, from the names of each set's files."""
    sizes = dict(db.execute("SELECT name, count(*) FROM sets GROUP BY name"))
    return {
        name: {"sources": sorted(files), "papers": sizes[name]} for name, files in sorted(sources.items())
    }


def seal(
    folder: BuildFolder,
    db: sqlite3.Connection,
    checkpoint: Checkpoint,
    store: RecordStore,
    sums: Mapping[str, int],
    manifest: Manifest,
    reporter: Reporter,
) -> None:
    """Write the rejects, the sums of the content's parts and the manifest."""
    with reporter.stage("index source records", None, None):
        checkpoint.write_rejects(folder.path / REJECTS)
        if manifest.rules["records"]:
            store.index_citations()
            with store.transaction():
                store.set_sums(sums)
            store.finish()
    folder.write(folder.pending_manifest.name, manifest.to_bytes())
    with checkpoint.transaction():
        checkpoint.drop()
        db.execute("INSERT OR REPLACE INTO meta VALUES ('snapshot', ?)", (manifest.snapshot,))


def sealed(folder: BuildFolder) -> Manifest | None:
    """The manifest that an earlier run wrote, if only the list of files and the moves are left."""
    path = folder.pending_manifest
    if folder.pending_contents.exists():
        path = path if path.exists() else folder.library / FILE_NAME
        return Manifest.from_bytes(path.read_bytes(), path)
    if not path.exists():
        return None
    data = path.read_bytes()
    with closing(open_for_reading(folder.catalog)) as db:
        return Manifest.from_bytes(data, path) if read_meta(db, "snapshot") == snapshot_id(data) else None


def publish(folder: BuildFolder, reporter: Reporter) -> Manifest:
    """Finish the databases, write the list of files, and move all files to their final names."""
    if not folder.pending_contents.exists():
        with reporter.stage("finish databases", None, None):
            finish(folder.catalog)
            if folder.documents.exists():
                finish_documents(folder.documents)
            for working in (folder.dense, folder.vector_work):
                shutil.rmtree(working, ignore_errors=True)
            data = folder.pending_manifest.read_bytes()
            if not Manifest.from_bytes(data, folder.pending_manifest).rules["records"]:
                folder.records.unlink(missing_ok=True)
            folder.remove_unfinished()
            files = folder.files()
        blocks = sum(-(-path.stat().st_size // BLOCK) for path in files.values())
        with reporter.stage("list files", "blocks", blocks) as tracker:
            folder.list_files(files, tracker.advance)
    folder.publish()
    manifest, snapshot = read_manifest(folder.library)
    log.info(
        "The library at %s is complete: %s papers, %s edges, snapshot %s.",
        folder.library,
        f"{manifest.counts['papers']:,}",
        f"{manifest.counts['edges']:,}",
        snapshot,
    )
    return manifest
