"""The job that builds the next library from a library and changes of its sources.

==========  =============================================================================================
fingerprint finds and hashes the files of changes
copy        copies the library into the folder of the new one
records     applies the changes to the source records, step by step
papers      writes the changed papers, their words and citations again
vectors     replaces their points; encodes the texts that are new
derived     the index of authors, document frequencies
seal        writes the manifest and the list of files, then moves all files to their final names, the list last
==========  =============================================================================================

The library that is updated is only read. A job that was killed starts again from it, unless only the last moves were
left.
"""

from __future__ import annotations

import logging
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from scholarbase.databases import open_immutable
from scholarbase.encoders import Encoder
from scholarbase.encoders.probe import check_probe
from scholarbase.errors import (
    EncoderMismatch,
    InvalidRequest,
    LibraryExists,
    SourceChanged,
    SourceError,
    TooManyRejects,
)
from scholarbase.files import copy_sparse
from scholarbase.indexes.author_index import change_authors
from scholarbase.indexes.catalog import FILE_NAME as CATALOG
from scholarbase.indexes.catalog import open_finished
from scholarbase.indexes.content_hash import content_hash, part_hashes
from scholarbase.indexes.contents import RECORDS, files_in, read_contents
from scholarbase.indexes.schema import open_for_building
from scholarbase.indexes.vectors.base import VectorConfig
from scholarbase.indexes.vectors.bm25 import Bm25Parameters
from scholarbase.ingest import sealing
from scholarbase.ingest.checkpoint import Checkpoint, more_than
from scholarbase.ingest.folder import ENCODER, VECTORS, BuildFolder, build_errors
from scholarbase.ingest.plans import named_sets
from scholarbase.ingest.records import REJECTS_ALWAYS_ALLOWED
from scholarbase.ingest.sources import OWN, RELEASED, Dataset, files_of, formats, sha256_of
from scholarbase.ingest.store import RecordStore
from scholarbase.ingest.writer import CatalogWriter
from scholarbase.manifest import FILE_NAME, SHARDS, Manifest, SourceFact, read_manifest
from scholarbase.progress import Reporter, SilentReporter
from scholarbase.search.opening import stored_encoder
from scholarbase.updates.applying import Applied, apply_deletes, apply_own, apply_updates
from scholarbase.updates.changes import Step, find_steps
from scholarbase.updates.points import PointChanges
from scholarbase.updates.rows import CatalogChanges, Changed

log = logging.getLogger("scholarbase.updates")

MAX_STEPS: Final = 60
"""Steps of changes since the last full build: about a year of weekly releases. Each leaves a segment of vectors and
deleted points behind."""


def update(
    old: str | Path,
    changes: Sequence[str | Path],
    library: str | Path,
    *,
    encoder: Encoder | None = None,
    sets: Mapping[str, Sequence[str | Path]] = MappingProxyType({}),
    max_steps: int = MAX_STEPS,
    max_reject_share: float = 0.05,
    reporter: Reporter | None = None,
) -> Manifest:
    """Build the next library from a library and changes, in order.

    Its content is that of a full build of the changed sources. Started again after a kill, it ends with the same
    library.

    Args:
        encoder: the encoder of the library's vectors, None if it has none.
        sets: more changes by the name of the set that their papers belong to.
        max_steps: the most steps of changes since the last full build.

    Raises:
        InvalidRequest: the library cannot be updated, since it was built without records or with vectors computed
            elsewhere; its own files have too many entries; a set is not valid; or there were too many steps.
        SourceError: the changes cannot be read, are for another release, or (TooManyRejects) have too many bad records.
        LibraryError: a folder has no library or another one, or the encoder is not the library's.
        StorageError: the disk is full, or the folder is not writable.
        EncoderError: the encoder fails.
    """
    source, target = Path(old), Path(library)
    manifest, snapshot = read_manifest(source)
    if manifest.documents is not None:
        raise InvalidRequest(
            f"{source} has full texts, which an update does not carry over: ingest the new release with --documents."
        )
    if source.resolve() == target.resolve():
        raise InvalidRequest(
            f"{target} is the library that is updated, which does not change: give --library another folder."
        )
    steps = _find_steps(source, manifest, changes)
    known = {file.path.resolve() for step in steps for file in step.files}
    named = [path for paths in sets.values() for path in paths if not files_of(path) <= known]
    steps += _find_steps(source, manifest, named) if named else []
    files = [file for step in steps for file in step.updates]
    members = named_sets(sets, files)
    empty = [name for name, file_names in members.items() if not file_names]
    if empty:
        raise InvalidRequest(f"--set {empty[0]}: the source has no file of papers.")
    for name, count in Counter(file.name for file in files if file.dataset in OWN).items():
        if count > 1:
            raise InvalidRequest(f"{count} files of people's own are named {name}: rename one, or give one.")
    _check(source, manifest, steps, max_steps, encoder)
    with build_errors(target):
        folder = BuildFolder(target)
        try:
            job = _UpdateJob(source, manifest, snapshot, folder, encoder, reporter or SilentReporter())
            return job.run(steps, members, sets, max_reject_share)
        finally:
            folder.close()


def _find_steps(source: Path, manifest: Manifest, paths: Sequence[str | Path]) -> list[Step]:
    try:
        return find_steps(paths, manifest.rules.get("columns", {}))
    except SourceError as error:
        added = _datasets(manifest) - {*map(str, Dataset)}
        missing = added - formats().keys() if added else added
        if not missing:
            raise
        raise SourceError(
            f"{error} The library at {source} was built from files of the format {min(missing)}, which no installed "
            'extension reads: install the extension if this is one of them ("scholarbase doctor" lists those that are '
            "installed)."
        ) from error


def _check(
    source: Path, manifest: Manifest, steps: Sequence[Step], max_steps: int, encoder: Encoder | None
) -> None:
    """Raises the errors of :func:`update` that its arguments show."""
    if not manifest.rules["records"] or not (source / RECORDS).is_file():
        raise InvalidRequest(
            f"The library at {source} has no source records, which an update needs: ingest it again without "
            "--no-records."
        )
    if manifest.vectors["computed_elsewhere"] is not None:
        raise InvalidRequest(
            f"The library at {source} has vectors that were computed elsewhere, which an update cannot add to: ingest "
            "the new release with its vectors."
        )
    spec = encoder.spec if encoder else None
    if spec != manifest.encoder:
        names = [compared.name if compared else "no encoder" for compared in (spec, manifest.encoder)]
        raise EncoderMismatch(
            f"The encoder of the update is {names[0]}, and the library at {source} was built with {names[1]}: give "
            "that one with --encoder."
        )
    if encoder is not None and "query_probe" in (stored := stored_encoder(source)):
        check_probe(encoder, stored["query_probe"])
    done = sum(len(past["steps"]) for past in manifest.updates)
    if done + len(steps) > max_steps:
        raise InvalidRequest(
            f"The library at {source} has had {done} steps of changes since it was built, and {len(steps)} more exceed "
            f"the limit of {max_steps}: download and ingest the full release, or raise --max-steps."
        )
    release = manifest.release
    datasets = _datasets(manifest) & {*map(str, RELEASED)}
    for step in steps:
        missing = sorted(datasets - step.datasets) if step.datasets is not None else []
        if missing:
            raise SourceError(
                f"The changes from {step.begins} to {step.ends} have no {', '.join(missing)}, which the library at "
                f"{source} has: download them with --datasets {','.join(sorted(datasets))}, or ingest the full release."
            )
        if step.begins is not None and release is not None and step.begins != release:
            raise SourceError(
                f"The changes from {step.begins} to {step.ends} are for another base: the library at {source} has the "
                f"release {release}. Give the changes from {release}, or ingest the full release."
            )
        release = step.ends or release


def _datasets(manifest: Manifest) -> set[str]:
    """The datasets and added formats that a library was built from."""
    later = [file["dataset"] for past in manifest.updates for step in past["steps"] for file in step["files"]]
    return {*(source.dataset for source in manifest.sources), *later}


@dataclass
class _UpdateJob:
    source: Path
    old: Manifest
    snapshot: str
    folder: BuildFolder
    encoder: Encoder | None
    reporter: Reporter

    def run(
        self,
        steps: Sequence[Step],
        sets: Mapping[str, Sequence[str]],
        set_sources: Mapping[str, Sequence[str | Path]],
        max_reject_share: float,
    ) -> Manifest:
        """Build the library. ``sets`` are the names of each set's files, ``set_sources`` their paths."""
        self._sets = sets
        self._set_paths = {
            name: set[Path]().union(*map(files_of, paths)) for name, paths in set_sources.items()
        }
        update = {"base": self.snapshot, "steps": self._facts(steps), **({"sets": sets} if sets else {})}
        self._updates = (*self.old.updates, update)
        self._release = next((step.ends for step in reversed(steps) if step.ends), self.old.release)
        if (written := sealing.sealed(self.folder)) is not None:
            if written.updates == self._updates:
                return sealing.publish(self.folder, self.reporter)
        elif (self.folder.library / FILE_NAME).exists():
            return self._finished()
        self.folder.clear()
        try:
            self._build(steps, max_reject_share)
        except BaseException:
            if not self.folder.pending_manifest.exists():
                self.folder.clear()  # the next run starts over
            raise
        return sealing.publish(self.folder, self.reporter)

    def _build(self, steps: Sequence[Step], max_reject_share: float) -> None:
        """Write all of the library in the building folder, the manifest last."""
        self._copy()
        db = open_for_building(self.folder.catalog)
        store = RecordStore(self.folder.records)
        try:
            self._checkpoint = Checkpoint(db)
            store.index()
            store.index_citations()
            self._sums = store.sums()
            applied = self._apply(store, steps, max_reject_share)
            self._check_rejects(applied, max_reject_share)
            changed = self._write_papers(db, store, applied)
            points = self._write_points(db, changed)
            self._write_authors(db, changed)
            self._seal(db, store, changed, points)
        finally:
            store.close()
            db.close()

    # -- changes ----------------------------------------------------------------------------------------

    def _facts(self, steps: Sequence[Step]) -> list[dict[str, Any]]:
        """Each step with its files and their hashes, for the manifest."""
        total = sum(file.size for step in steps for file in step.files)
        facts: list[dict[str, Any]] = []
        with self.reporter.stage("fingerprint", "bytes", total) as tracker:
            for step in steps:
                files = []
                for file in step.files:
                    fact = SourceFact(file.name, file.kind, file.size, sha256_of(file.path, tracker.advance))
                    files.append(asdict(fact))
                facts.append({"from": step.begins, "to": step.ends, "files": files})
        return facts

    def _copy(self) -> None:
        """Copy the library, whose every block must be as it was written: the new one has hashes of its own.

        Raises:
            LibraryCorrupt: a file has changed or is missing, or a database has SQL that no library has.
        """
        listed = read_contents(self.source, self.snapshot)
        listed.check_sizes(self.source)
        listed.check_blocks(self.source, listed.blocks())
        open_finished(self.source / CATALOG).close()
        open_immutable(self.source / RECORDS, ()).close()
        with self.reporter.stage("copy", "files", None) as tracker:
            for name in (CATALOG, RECORDS, ENCODER):
                if (self.source / name).exists():
                    copy_sparse(self.source / name, self.folder.path / name)
                    tracker.advance(1)
            for name in files_in(self.source, VECTORS):
                target = self.folder.path / name
                target.parent.mkdir(parents=True, exist_ok=True)
                copy_sparse(self.source / name, target)
            tracker.advance(1)

    def _apply(self, store: RecordStore, steps: Sequence[Step], max_reject_share: float) -> Applied:
        applied = Applied()
        columns = self.old.rules.get("columns", {})
        total = sum(file.size for step in steps for file in step.files)
        with self.reporter.stage("apply changes", "bytes", total) as tracker:
            for step in steps:
                for file in step.updates:
                    path = file.path.resolve()
                    sets = [name for name, paths in self._set_paths.items() if path in paths]
                    if file.dataset in OWN:
                        apply_own(store, file, applied, columns, sets, max_reject_share)
                        tracker.advance(file.size)
                    else:
                        apply_updates(store, file, applied, sets, tracker.advance)
                for file in step.deletes:
                    apply_deletes(store, file, applied, tracker.advance)
        if self._facts(steps) != self._updates[-1]["steps"]:
            raise SourceChanged("The changes changed while they were being read: run the same command again.")
        return applied

    def _check_rejects(self, applied: Applied, share: float) -> None:
        rejects = 0
        with self._checkpoint.transaction():
            for file, dataset, rejected in applied.rejects:
                self._checkpoint.reject(file, dataset, rejected)
                rejects += len(rejected) if dataset not in OWN else 0  # which were checked file by file
        total = rejects + sum(applied.counts.values())
        if rejects > max(REJECTS_ALWAYS_ALLOWED, share * total):
            file, _, [(line, reject), *_] = next(group for group in applied.rejects if group[1] not in OWN)
            raise TooManyRejects(
                f"{rejects:,} of {total:,} lines of changes were rejected, {more_than(share)}. The first is line "
                f"{line} of {file}: {reject.detail}"
            )

    # -- content ----------------------------------------------------------------------------------------

    @property
    def _config(self) -> VectorConfig:
        return VectorConfig.from_dict({k: v for k, v in self.old.vectors.items() if k not in _NOT_LAYOUT})

    def _write_papers(self, db: sqlite3.Connection, store: RecordStore, applied: Applied) -> Changed:
        with (
            self.reporter.stage("write papers", "papers", len(applied.about)) as tracker,
            self._checkpoint.transaction(),
        ):
            writer = CatalogWriter(db, self.old.rules["keep"])
            changed = CatalogChanges(db, writer, store, self._sums, tracker.advance).apply(applied)
            self._checkpoint.note(changed.conflicts)
        changed.counts.update(applied.counts)
        changed.counts["conflicts"] = len(changed.conflicts)
        return changed

    def _write_points(self, db: sqlite3.Connection, changed: Changed) -> PointChanges:
        config = self._config
        bm25 = Bm25Parameters.from_dict(self.old.bm25)
        points = PointChanges(db, config, bm25, self.encoder, self.old.title_weight, self._sums)
        with self.reporter.stage("index vectors", "papers", len(changed.points)) as tracker:
            points.apply(self.source / VECTORS, self.folder.vectors, self.old.shards, changed, tracker)
        with self._checkpoint.transaction():
            points.frequencies.write(db)
        return points

    def _write_authors(self, db: sqlite3.Connection, changed: Changed) -> None:
        with (
            closing(open_finished(self.source / CATALOG)) as old,
            self.reporter.stage("index authors", "authors", len(changed.author_ids)) as tracker,
            self._checkpoint.transaction(),
        ):
            tracker.advance(change_authors(old, db, changed.author_ids, changed.authors))

    # -- seal -------------------------------------------------------------------------------------------

    def _seal(
        self, db: sqlite3.Connection, store: RecordStore, changed: Changed, points: PointChanges
    ) -> None:
        measured, similarity = sealing.measure(db, self.folder, self._config, self.encoder, self.reporter)
        counts = {**dict.fromkeys(_COUNTED, 0), **changed.counts, **points.counts, **measured}
        if not counts["papers"]:
            raise SourceError(
                "The changes leave no papers that the keep rule keeps: ingest the full release."
            )
        content = part_hashes(self._sums)
        manifest = Manifest(
            sources=self.old.sources,
            rules=self.old.rules,
            counts=counts,
            rejects=self._checkpoint.get("rejects", {}),
            fulltext=self.old.fulltext,
            bm25=self.old.bm25,
            vectors=self.old.vectors | {"random_similarity": similarity},
            content=content,
            content_hash=content_hash(content),
            encoder=self.old.encoder,
            release=self._release,
            updates=self._updates,
            sets=self._named_sets(db),
        )
        sealing.seal(self.folder, db, self._checkpoint, store, self._sums, manifest, self.reporter)

    def _named_sets(self, db: sqlite3.Connection) -> dict[str, dict[str, Any]]:
        """The sets as the manifest lists them."""
        kept = {row[0] for row in db.execute("SELECT DISTINCT name FROM sets")}
        sources = {name: {*entry["sources"]} for name, entry in self.old.sets.items()}
        for name, files in self._sets.items():
            sources.setdefault(name, set()).update(files)
        empty = sorted(sources.keys() - kept)
        if empty:
            raise SourceError(
                f"The changes leave the set {empty[0]!r} without a paper: ingest the full release without it."
            )
        return sealing.named_sets(db, sources)

    def _finished(self) -> Manifest:
        manifest, snapshot = read_manifest(self.folder.library)
        if manifest.updates != self._updates:
            raise LibraryExists(
                f"{self.folder.library} already has a library (snapshot {snapshot}) from another base or other "
                "changes: give another --library."
            )
        log.info("The library at %s is already complete.", self.folder.library)
        return manifest


_COUNTED: Final = ("papers_added", "papers_changed", "papers_removed", "papers_encoded", "vectors_kept")
_NOT_LAYOUT: Final = ("computed_elsewhere", "random_similarity", SHARDS)
