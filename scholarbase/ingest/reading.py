"""The papers of the sources, as an ingest reads them: merged, filtered by the keep rule, and numbered."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scholarbase.databases import finish
from scholarbase.files import sync_folder
from scholarbase.ingest.folder import BuildFolder, build_errors
from scholarbase.ingest.job import Job
from scholarbase.ingest.plans import IngestRules
from scholarbase.ingest.sources import Columns, SourceFile
from scholarbase.ingest.writer import CatalogWriter
from scholarbase.manifest import SourceFact
from scholarbase.progress import Reporter

FOLDER: Final = "reading"
"""The folder of the papers while they are encoded."""
_TEXTS: Final = "texts.sqlite"


def read_texts(
    files: Sequence[SourceFile],
    facts: Sequence[SourceFact],
    columns: Columns,
    rules: IngestRules,
    out: Path,
    reporter: Reporter,
) -> Path:
    """Write a catalogue of the papers in ``files`` below ``out``, or continue an unfinished one, and return its path.

    Raises as :func:`scholarbase.ingest.job.ingest`.
    """
    path = out / FOLDER / _TEXTS
    if path.exists():
        return path
    with build_errors(out):
        folder = BuildFolder(out / FOLDER)
        try:
            _Reading(folder, None, {}, None, rules, 1, reporter).read(files, facts, columns)
            finish(folder.catalog)
            folder.catalog.replace(path)
            sync_folder(path.parent)
            shutil.rmtree(folder.path)
        finally:
            folder.close()
    return path


class _Reading(Job):
    """The stages of an ingest that read, without citations."""

    def read(self, files: Sequence[SourceFile], facts: Sequence[SourceFact], columns: Columns) -> None:
        self._sets, self._documents, self._columns = {}, [], dict(columns)
        self._plan = {}
        self._build(files, facts)

    def _complete(self, facts: Sequence[SourceFact]) -> None:
        pass

    def _cite_works(self, writer: CatalogWriter) -> None:
        pass
