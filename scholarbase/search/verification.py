"""Checks that a library is what its manifest says; ``scholarbase verify`` runs them."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from itertools import zip_longest
from pathlib import Path

from scholarbase.databases import open_for_writing
from scholarbase.errors import LibraryCorrupt, LibraryError, VectorIndexError, VerificationFailed
from scholarbase.indexes import catalog, citations, fulltext
from scholarbase.indexes.filters import NO_FILTERS
from scholarbase.indexes.schema import count_rows
from scholarbase.indexes.vectors.base import DENSE
from scholarbase.indexes.vectors.contents import check_contents
from scholarbase.indexes.vectors.edge import EdgeIndex
from scholarbase.manifest import Manifest, read_manifest


def verify(library: str | Path) -> Iterator[str]:
    """Check a library part by part, and yield a line for each check that it passes.

    The library is not changed. The checks read all of it.

    Raises:
        VerificationFailed: a check found a difference.
        LibraryNotFound: there is no library at this path.
    """
    path = Path(library)
    manifest, snapshot = read_manifest(path)
    try:
        with closing(catalog.open_finished(path / catalog.FILE_NAME)) as db:
            yield _check_hash(db, snapshot)
            yield _check_database(db)
            yield _check_counts(db, manifest)
            citations.check(db)
            yield "edges: both ends of every citation are papers"
            yield _check_fulltext(path / catalog.FILE_NAME)
            check_contents(path / "vectors", snapshot, hashes=True)
            yield "vectors: no file has changed"
            yield from _check_vectors(path, db, manifest)
    except (LibraryCorrupt, VectorIndexError) as error:
        raise VerificationFailed(str(error)) from error
    except sqlite3.DatabaseError as error:
        raise VerificationFailed(
            f"{path / catalog.FILE_NAME} cannot be read: {error}. Ingest again."
        ) from error


def _check_hash(db: sqlite3.Connection, snapshot: str) -> str:
    built_as = catalog.read_meta(db, "snapshot")
    if built_as != snapshot:
        raise VerificationFailed(
            f"The manifest hashes to {snapshot}, and the catalogue was built as {built_as}: the manifest was "
            "changed, or is another library's."
        )
    return f"manifest: its hash is the snapshot id {snapshot}"


def _check_database(db: sqlite3.Connection) -> str:
    problem = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if problem != "ok":
        raise VerificationFailed(f"The catalogue's file is damaged: {problem}.")
    return "catalogue: SQLite finds no damage"


def _check_counts(db: sqlite3.Connection, manifest: Manifest) -> str:
    counts = count_rows(db)
    for table, rows in counts.items():
        if rows != manifest.counts[table]:
            raise VerificationFailed(
                f"The catalogue has {rows:,} rows of {table}, and the manifest says {manifest.counts[table]:,}."
            )
    lost = db.execute(
        "SELECT count(*) FROM abstracts WHERE paper_id NOT IN (SELECT id FROM papers)"
    ).fetchone()[0]
    if lost:
        raise VerificationFailed(f"{lost:,} abstracts have no paper.")
    return "counts: " + ", ".join(f"{rows:,} {table}" for table, rows in counts.items())


def _check_fulltext(path: Path) -> str:
    """Check the full-text index in a copy: FTS5's integrity check needs a writable database."""
    with tempfile.TemporaryDirectory(prefix="scholarbase-verify-") as folder:
        copy = Path(folder) / path.name
        try:
            shutil.copyfile(path, copy)
        except OSError as error:
            raise LibraryError(
                f"Verifying the full text needs a copy of {path} in {folder}: {error.strerror}. "
                "Set TMPDIR to a folder with room for it."
            ) from error
        with closing(open_for_writing(copy, create=False)) as db:
            db.execute("PRAGMA journal_mode = OFF")
            fulltext.check(db)
    return "full text: every word of every title and abstract is indexed"


def _check_vectors(path: Path, db: sqlite3.Connection, manifest: Manifest) -> Iterator[str]:
    with closing(EdgeIndex.open(path / "vectors")) as index:
        rows = (row[0] for row in db.execute("SELECT id FROM papers ORDER BY id"))
        for paper_id, point_id in zip_longest(rows, index.ids()):
            if paper_id != point_id:
                one, other = (
                    ("paper", "point")
                    if point_id is None or (paper_id or 0) < point_id
                    else ("point", "paper")
                )
                number = min(i for i in (paper_id, point_id) if i is not None)
                raise VerificationFailed(f"The {one} {number} has no {other}: vectors and catalogue differ.")
        yield f"vectors: a point for each of {manifest.counts['points']:,} papers"
        if manifest.vectors["dimensions"]:
            vectors = index.count(NO_FILTERS, vector=DENSE)
            expected = manifest.counts["dense_vectors"]
            if vectors != expected:
                raise VerificationFailed(
                    f"The index has {vectors:,} dense vectors, and the manifest says {expected:,}."
                )
            yield f"dense vectors: {vectors:,}"
