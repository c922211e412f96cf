"""The stages of an ingest that read the sources: records to rows of the catalogue and of the record store."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from itertools import groupby
from pathlib import Path
from typing import Final

from scholarbase.databases import finish, small_cache
from scholarbase.documents.readers import DocumentFile
from scholarbase.errors import SourceChanged, SourceError
from scholarbase.files import sync_folder
from scholarbase.indexes.schema import open_for_building
from scholarbase.ingest.batches import batched
from scholarbase.ingest.checkpoint import Checkpoint
from scholarbase.ingest.folder import BuildFolder, build_errors
from scholarbase.ingest.fulltexts import FullTexts
from scholarbase.ingest.merging import settle
from scholarbase.ingest.plans import IngestRules
from scholarbase.ingest.records import (
    OWN_REJECTS_ALWAYS_ALLOWED,
    REJECTS_ALWAYS_ALLOWED,
    PaperRecord,
    Record,
    Reject,
)
from scholarbase.ingest.sources import (
    OWN,
    Columns,
    Dataset,
    SourceFile,
    StoredBytes,
    changed_while_read,
    read_records,
)
from scholarbase.ingest.store import RecordStore, cited_works
from scholarbase.ingest.writer import CatalogWriter
from scholarbase.manifest import SourceFact
from scholarbase.progress import Reporter, Tracker

LINES_PER_COMMIT: Final = 10_000
WORKS_PER_COMMIT: Final = 2_000
"""Works whose citations are written at once: some have thousands."""
BYTES_PER_COMMIT: Final = 4_000_000
"""A transaction ends after so many bytes of lines, if not before: the lines and their records are in memory, and those
of few are still in the processor's caches when they are written."""

FOLDER: Final = "reading"
"""The folder of the papers while ``scholarbase encode`` encodes them."""
_TEXTS: Final = "texts.sqlite"


class Reading:
    """The databases of a library that is being built, and the stages that read its sources. ``close`` it."""

    def __init__(
        self,
        folder: BuildFolder,
        rules: IngestRules,
        reporter: Reporter,
        columns: Columns,
        sets: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """``sets`` are the names of each set's files."""
        self._folder = folder
        self._rules = rules
        self._reporter = reporter
        self._columns = columns
        self._sets = sets or {}
        self.db = open_for_building(folder.catalog)
        self.store = RecordStore(folder.records)
        self.checkpoint = Checkpoint(self.db)
        self.store.cut(self.checkpoint.get("records", [0, 0]))
        self._writer = CatalogWriter(self.db, rules.keep_rule)

    def close(self) -> None:
        self.store.close()
        self.db.close()

    def count(self, table: str) -> int:
        """The number of a table's rows."""
        return int(self.db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])

    def read(
        self,
        files: Sequence[SourceFile],
        facts: Sequence[SourceFact],
        texts: FullTexts | None = None,
        documents: Sequence[DocumentFile] = (),
        *,
        citations: bool = True,
    ) -> None:
        """Read all files, whose hashes are in ``facts``, and apply the keep rule before the citations.

        Raises:
            SourceError: a file cannot be read, or (SourceChanged) has other bytes than those that were hashed, or
                (TooManyRejects) has too many bad records; or no paper is kept.
        """
        by_name = {fact.name: fact for fact in facts}
        edges = [file for file in files if file.dataset is Dataset.CITATIONS]
        try:
            others = [file for file in files if file.dataset is not Dataset.CITATIONS]
            self._read_files("read records", others, by_name)
            if texts is not None:
                texts.read(documents, by_name, self._writer, self.store, self._rules.max_reject_share)
            self._settle()
            self._keep(texts)
            if texts is not None:
                texts.join()
            if citations:
                self._cite_works()
                self._read_files("read citations", edges, by_name)
        except SourceChanged:
            self.close()
            if texts is not None:
                texts.close()
            self._folder.clear()  # it has rows of other bytes than those that were hashed
            raise

    def _settle(self) -> None:
        """Choose between different records with one key, whatever the order in which they came."""
        if self.checkpoint.get("settled"):
            return
        with self._reporter.stage("index records", None, None):
            self.store.index()
            repeated = self.store.repeated()
        with self.store.transaction(), self.checkpoint.transaction():
            with self._reporter.stage("compare records", "records", len(repeated)) as tracker:
                about = self.store.settle(repeated, tracker.advance)
            with self._reporter.stage("merge records", "records", len(about)) as tracker:
                conflicts, counts = settle(self.db, self._writer, self.store, about, tracker.advance)
            self.checkpoint.add("counts", counts.items())
            self.checkpoint.note(conflicts)
            self.checkpoint.set("settled", True)

    def _keep(self, texts: FullTexts | None) -> None:
        """Apply the keep rule. Raises SourceError: it keeps no paper, or none of a named set."""
        keep = self._rules.keep_rule
        if not self.checkpoint.get("completed"):
            with (
                self._reporter.stage("keep rule", "papers", self.count("papers")) as tracker,
                self.checkpoint.transaction(),
            ):
                if self._rules.records:
                    with self.store.transaction(), small_cache(self.db):
                        self.store.set_own(*self._writer.stored_own())
                counts = self._writer.complete(lambda: texts.papers() if texts else (), tracker.advance)
                self.checkpoint.add("counts", counts.items())
                self.checkpoint.note(self._writer.conflicts)
                self.checkpoint.set("completed", True)
        if not self.count("papers"):
            raise SourceError(
                f"The sources have no papers that the keep rule {keep!r} keeps: give the abstracts, full texts or an "
                "arXiv snapshot too, or use --restart with --keep title, which keeps all papers."
                + (f" The first rejected is {first}" if (first := self.checkpoint.first_reject()) else "")
            )
        for name, files in self._sets.items():
            if not self.db.execute("SELECT 1 FROM sets WHERE name = ?", (name,)).fetchone():
                raise SourceError(
                    f"The set {name!r} has no paper: the keep rule {keep!r} keeps none of {', '.join(files)}. Leave "
                    f"--set {name} out, or use --restart with --keep title, which keeps all papers."
                )

    def _cite_works(self) -> None:
        """Write the citations of OpenAlex works, whose records have them."""
        if not self.store.has(Dataset.OPENALEX):
            return
        last = self.checkpoint.get("cited_works", 0)
        with self._reporter.stage("cite works", "works", None) as tracker:
            while works := self.store.works(last, WORKS_PER_COMMIT):
                last = works[-1][0]
                citations = [citation for _, work in works if work for citation in cited_works(work)]
                with self.checkpoint.transaction():
                    counts = self._writer.write(Dataset.CITATIONS, citations)
                    counts["openalex_citations"] = counts.pop("s2ag_citations")
                    self.checkpoint.add("counts", counts.items())
                    self.checkpoint.set("cited_works", last)
                    if self._rules.records:
                        self._append(Dataset.CITATIONS, citations, [])
                tracker.advance(len(works))

    def _append(self, dataset: Dataset, records: Sequence[Record], lines: Sequence[bytes]) -> None:
        with self.store.transaction():
            self.store.append(dataset, records, lines)
        self.checkpoint.set("records", self.store.ends)

    def _read_files(self, stage: str, files: Sequence[SourceFile], facts: Mapping[str, SourceFact]) -> None:
        total = sum(file.size for file in files)
        before = 0
        done = set(self.checkpoint.get("read", []))
        with self._reporter.stage(
            stage, "lines", total, sum(f.size for f in files if f.name in done)
        ) as tracker:
            for kind, group in groupby(files, key=lambda file: file.kind):
                for file in group:
                    if file.name not in done:
                        with small_cache(self.db) if file.dataset in OWN else nullcontext():
                            self._read_file(file, facts[file.name], tracker, before)
                    before += file.size
                    tracker.at(before)
                self._check_rejects(kind, is_own=file.dataset in OWN)

    def _read_file(self, file: SourceFile, fact: SourceFact, tracker: Tracker, before: int) -> None:
        """Read a file from its first uncommitted line on. The bytes before it are read too, since the hash of all bytes
        must equal the hash in the manifest, and a killed job must have read the same bytes."""
        key = f"line:{file.name}"
        skip, *earlier = self.checkpoint.get(key, [0])
        stored_bytes = StoredBytes((earlier[0], earlier[1]) if earlier else None)
        sets = [name for name, files in self._sets.items() if file.name in files]
        is_own, is_citations = file.dataset in OWN, file.dataset is Dataset.CITATIONS
        stored = not is_own and (self._rules.records or not is_citations)
        entries = read_records(file, stored_bytes, self._columns, skip)
        for batch in batched(entries, LINES_PER_COMMIT, BYTES_PER_COMMIT, lambda entry: entry.size):
            if not stored_bytes.same_start:
                break
            records: list[Record] = []
            lines: list[bytes] = []
            rejects: list[tuple[int, Reject]] = []
            for entry in batch:
                if isinstance(entry.record, Reject):
                    rejects.append((entry.line, entry.record))
                else:
                    if isinstance(entry.record, PaperRecord):
                        entry.record.line = entry.line
                    records.append(entry.record)
                    lines.append(entry.content)
            with self.checkpoint.transaction():
                counts = self._writer.write(file.dataset, records, sets, file.name)
                counts[f"lines_{file.kind}"] = len(batch)
                counts[f"rejects_{file.kind}"] = len(rejects)
                self.checkpoint.add("counts", counts.items())
                self.checkpoint.reject(file.name, file.kind, rejects)
                self.checkpoint.set(key, [batch[-1].number, *stored_bytes.state])
                if stored:
                    self._append(file.dataset, records, lines)
            tracker.at(before + stored_bytes.count)
            tracker.advance(len(batch))
        if not stored_bytes.same_start or stored_bytes.state != (fact.bytes, fact.sha256):
            raise changed_while_read(file.path)
        with self.checkpoint.transaction():
            self.checkpoint.set("read", [*self.checkpoint.get("read", []), file.name])

    def _check_rejects(self, kind: str, *, is_own: bool) -> None:
        if is_own and not self.checkpoint.get("counts", {}).get(f"lines_{kind}", 0):
            raise SourceError(f"The {kind} files have no entry: leave them out, or export them again.")
        self.checkpoint.check_rejects(
            kind,
            f"{'entries' if is_own else 'lines'} of the dataset {kind}",
            self._rules.max_reject_share,
            OWN_REJECTS_ALWAYS_ALLOWED if is_own else REJECTS_ALWAYS_ALLOWED,
            may_be_all=not is_own,
        )


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
            with closing(Reading(folder, rules, reporter, columns)) as reading:
                reading.read(files, facts, citations=False)
            finish(folder.catalog)
            folder.catalog.replace(path)
            sync_folder(path.parent)
            shutil.rmtree(folder.path)
        finally:
            folder.close()
    return path
