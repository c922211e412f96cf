"""A library as the files of agents that read files instead of a service.

docs/dialects.md describes the files.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from scholarbase.errors import InvalidRequest, StorageError
from scholarbase.files import storage_errors, sync_folder
from scholarbase.indexes import catalog
from scholarbase.indexes.catalog import Catalog
from scholarbase.manifest import read_manifest
from scholarbase.models.papers import Paper
from scholarbase.progress import Reporter, SilentReporter
from scholarbase_research.exports.formats import FORMATS

BATCH: Final = 500
"""Papers whose references are read at once."""
ADVICE: Final = "free some disk space, or choose another path"


class Exported(NamedTuple):
    """Papers with an arXiv id in the library, and those that were written."""

    papers: int
    written: int


def export(
    library: Path, form: str, out: Path, *, force: bool = False, reporter: Reporter | None = None
) -> Exported:
    """Write the papers of a library that have an arXiv id.

    The files get their names when all are complete. An interrupted export is started again.

    Args:
        form: a name in ``FORMATS``.
        out: the file, or the folder of the files.
        force: replace files that exist.

    Raises:
        InvalidRequest: a file exists, and ``force`` is off.
        LibraryNotFound, LibraryCorrupt: the library cannot be read.
        StorageError: the disk is full or cannot be written.
    """
    chosen = FORMATS[form]
    finals = [out / name for name in chosen.files] or [out]
    for path in finals:
        if path.is_dir() or (path.exists() and not force):
            raise InvalidRequest(f"{path} exists: choose another path, or replace the file with --force.")
    read_manifest(library)
    progress = reporter or SilentReporter()
    folder = out if chosen.files else out.absolute().parent
    with storage_errors(out, ADVICE):
        folder.mkdir(parents=True, exist_ok=True)
        with (
            _temporary_folder(folder) as temporary,
            closing(Catalog(library / catalog.FILE_NAME, readers=2)) as papers,
            progress.stage("export", "papers", papers.count_arxiv_ids()) as tracker,
        ):
            count = 0

            def batches() -> Iterator[Mapping[int, Paper]]:
                nonlocal count
                for batch in papers.with_arxiv_ids(chosen.fields, BATCH):
                    yield batch
                    count += len(batch)
                    tracker.advance(len(batch))
                    tracker.at(count)

            paths = [temporary / path.name for path in finals]
            try:
                written = chosen.write(batches(), papers.referenced_titles, paths)
            except sqlite3.Error as error:  # of a database that is written: others are LibraryErrors
                raise StorageError(f"Cannot write {out} ({error}): {ADVICE}.") from error
            for path, final in zip(paths, finals, strict=True):
                with path.open("rb") as file:
                    os.fsync(file.fileno())
                path.replace(final)
            sync_folder(folder)
    return Exported(count, written)


@contextmanager
def _temporary_folder(folder: Path) -> Iterator[Path]:
    """A folder for incomplete files, on the same disk. Those of killed exports are removed."""
    for old in folder.glob(".scholarbase-export-*"):
        shutil.rmtree(old, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".scholarbase-export-", dir=folder) as path:
        yield Path(path)
