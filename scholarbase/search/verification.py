"""Checks that a library is what its manifest says; ``scholarbase verify`` runs them."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from itertools import zip_longest
from pathlib import Path

from scholarbase.databases import attach_immutable, open_for_writing, open_immutable
from scholarbase.documents.schema import FILE_NAME as DOCUMENTS
from scholarbase.errors import LibraryCorrupt, LibraryError, VectorIndexError, VerificationFailed
from scholarbase.indexes import catalog, citations, fulltext
from scholarbase.indexes.author_index import AuthorIndex
from scholarbase.indexes.content_hash import check_types, content_hash, part_hashes, table_sums, vector_sums
from scholarbase.indexes.contents import Contents, read_contents
from scholarbase.indexes.filters import NO_FILTERS
from scholarbase.indexes.frequencies import FrequencyCounter
from scholarbase.indexes.passages import FOLDER as PASSAGES
from scholarbase.indexes.passages import MONTHS, content_sums
from scholarbase.indexes.schema import count_rows
from scholarbase.indexes.vectors.base import DENSE, PAYLOAD_COLUMNS, Payload
from scholarbase.indexes.vectors.index import EdgeIndex, VectorIndex
from scholarbase.indexes.vectors.shards import open_local
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
        contents = read_contents(path, snapshot)
        yield _check_files(path, contents)
        with closing(catalog.open_finished(path / catalog.FILE_NAME)) as db:
            yield _check_hash(db, snapshot)
            yield _check_database(db)
            yield _check_counts(db, manifest)
            citations.check(db)
            yield "edges: both ends of every citation are papers"
            if contents.has_vectors:
                with closing(open_local(path / "vectors")) as index:
                    yield from _check_vectors(index, db, manifest)
                    yield from _check_content(index, db, manifest, path)
            else:
                yield "vectors: not checked, since the library was packed without them"
                yield from _check_content(None, db, manifest, path)
        yield from _check_words(path / catalog.FILE_NAME)
    except (LibraryCorrupt, VectorIndexError) as error:
        raise VerificationFailed(str(error)) from error
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
            raise LibraryError(
                f"Verifying needs temporary files: {error}. Set TMPDIR to a folder with room for them."
            ) from error
        raise VerificationFailed(
            f"{path / catalog.FILE_NAME} cannot be read: {error}. Ingest again."
        ) from error


def _check_files(path: Path, contents: Contents) -> str:
    contents.check_sizes(path)
    contents.check_blocks(path, contents.blocks())
    others = contents.others(path)
    if others:
        raise VerificationFailed(
            f"{path} has files that do not belong to the library: {', '.join(others)}. Remove them."
        )
    return "files: no block of any file has changed"


def _check_hash(db: sqlite3.Connection, snapshot: str) -> str:
    built_as = catalog.read_meta(db, "snapshot")
    if built_as != snapshot:
        raise VerificationFailed(
            f"The manifest hashes to {snapshot}, and the catalogue was built as {built_as}: the manifest was "
            "changed, or is another library's."
        )
    return f"manifest: its hash is the snapshot id {snapshot}"


def _check_database(db: sqlite3.Connection) -> str:
    problem = db.execute("PRAGMA integrity_check(1)").fetchone()[0]
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
    for table, what in (("abstracts", "abstracts"), ("written", "texts with formulas")):
        sql = f"SELECT count(*) FROM {table} WHERE paper_id NOT IN (SELECT id FROM papers)"
        if lost := db.execute(sql).fetchone()[0]:
            raise VerificationFailed(f"{lost:,} {what} have no paper.")
    sets = dict(db.execute("SELECT name, count(*) FROM sets GROUP BY name"))
    listed = {name: entry["papers"] for name, entry in manifest.sets.items()}
    if sets != listed:
        raise VerificationFailed(f"The catalogue has the sets {sets}, and the manifest says {listed}.")
    shown = [f"{rows:,} {table}" for table, rows in counts.items() if rows] + (
        [f"{len(sets):,} sets"] if sets else []
    )
    return "counts: " + ", ".join(shown)


def _check_words(path: Path) -> Iterator[str]:
    """Check the full-text index and that of authors in a copy: FTS5's checks need a writable database."""
    with tempfile.TemporaryDirectory(prefix="scholarbase-verify-") as folder:
        copy = Path(folder) / path.name
        with _room_for(f"Verifying the full text needs a copy of {path} in {folder}"):
            shutil.copyfile(path, copy)
        with closing(open_for_writing(copy, create=False)) as db:
            db.execute("PRAGMA journal_mode = OFF")
            fulltext.check(db)
            yield "full text: every word of every title and abstract is indexed"
            room = _room_for(f"Verifying the authors needs a file in {folder}")
            with room, AuthorIndex(db, Path(folder)) as authors:
                total = authors.check()
            yield f"authors: {total:,} are those of the papers"


@contextmanager
def _room_for(need: str) -> Iterator[None]:
    """Turn errors of a full temporary folder into one that says what needs it."""
    try:
        yield
    except OSError as error:
        raise LibraryError(f"{need}: {error.strerror}. Set TMPDIR to a folder with room for it.") from error
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
            raise
        raise LibraryError(f"{need}: {error}. Set TMPDIR to a folder with room for it.") from error


def _check_content(
    index: VectorIndex | None, db: sqlite3.Connection, manifest: Manifest, path: Path
) -> Iterator[str]:
    """Check the content hash and what counts the vectors; without ``index``, the hashes of the other parts."""
    check_types(db)
    with ExitStack() as stack:
        folders = [
            Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scholarbase-verify-")))
            for _ in range(2)
        ]
        counter = FrequencyCounter(db, folders[0])
        with _room_for(f"Verifying the document frequencies needs files in {folders[0]}"):
            sums = table_sums(db)
            if index is not None:
                sums |= vector_sums(index, counter)
            if manifest.documents is not None:
                texts = stack.enter_context(closing(open_immutable(path / DOCUMENTS, ())))
                attach_immutable(texts, path / catalog.FILE_NAME, "catalog")
                shard = stack.enter_context(closing(EdgeIndex.open(path / PASSAGES)))
                of_passages = FrequencyCounter(texts, folders[1], MONTHS)
                sums |= content_sums(texts, shard, of_passages)
        hashes = part_hashes(sums)
        if index is None:
            _check_hashes({**manifest.content, **hashes}, manifest)
            yield f"content: the hashes of {len(hashes)} of {len(manifest.content)} parts are those of the manifest"
        else:
            _check_hashes(hashes, manifest)
            yield f"content: its hash is {manifest.content_hash}"
            yield f"document frequencies: {counter.check(db):,} are those of the BM25 vectors"
        if manifest.documents is not None:
            yield f"passages: {of_passages.check(texts):,} document frequencies are those of the BM25 vectors"


def _check_hashes(hashes: Mapping[str, str], manifest: Manifest) -> None:
    changed = sorted(
        name for name in {**hashes, **manifest.content} if hashes.get(name) != manifest.content.get(name)
    )
    if changed:
        raise VerificationFailed(
            f"The content differs from the manifest: {', '.join(changed)} changed. Restore the copy, or ingest again."
        )
    if content_hash(hashes) != manifest.content_hash:
        raise VerificationFailed(
            f"The manifest's content hash is {manifest.content_hash}, and its parts have {content_hash(hashes)}: it "
            "was not written by ScholarBase. Ingest again."
        )


def _check_vectors(index: VectorIndex, db: sqlite3.Connection, manifest: Manifest) -> Iterator[str]:
    rows = db.execute(f"SELECT id, {PAYLOAD_COLUMNS} FROM papers ORDER BY id")
    for paper, point in zip_longest(rows, index.payloads()):
        if paper is None or point is None or paper[0] != point[0]:
            present, absent = (
                ("paper", "point")
                if point is None or (paper is not None and paper[0] < point[0])
                else ("point", "paper")
            )
            number = min(row[0] for row in (paper, point) if row is not None)
            raise VerificationFailed(f"The {present} {number} has no {absent}: vectors and catalogue differ.")
        if Payload.of_paper(*paper[1:]) != point[1]:
            raise VerificationFailed(
                f"The filters of point {point[0]} are {point[1]}, and the catalogue has {Payload.of_paper(*paper[1:])}."
            )
    yield f"vectors: a point for each of {manifest.counts['points']:,} papers"
    if manifest.vectors["dimensions"]:
        vectors = index.count(NO_FILTERS, vector=DENSE)
        expected = manifest.counts["dense_vectors"]
        if vectors != expected:
            raise VerificationFailed(
                f"The index has {vectors:,} dense vectors, and the manifest says {expected:,}."
            )
        yield f"dense vectors: {vectors:,}"
