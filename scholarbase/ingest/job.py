"""The job that turns a snapshot into a library, stage by stage.

==============  ==========================================================================================
fingerprint     which files there are, what they hold and what their bytes hash to
read            records to catalogue rows, dataset by dataset; before the citations, the keep rule
full text       rows to FTS5
encode          beside it: rows to dense vectors, in parts; or vectors computed elsewhere, by paper id
vectors         rows and parts to the vector index
seal            the manifest; then everything moves to its final name, the manifest last
==============  ==========================================================================================

Each stage commits its progress with its rows, so that a job killed at any instant and started again goes on
there and ends with the same library.
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson

from scholarbase.databases import open_for_reading, open_for_writing
from scholarbase.encoders import Encoder
from scholarbase.encoders.probe import probe
from scholarbase.errors import (
    InvalidRequest,
    LibraryExists,
    SourceChanged,
    SourceError,
    TooManyRejects,
    VectorIndexError,
)
from scholarbase.indexes import fulltext
from scholarbase.indexes.catalog import read_meta
from scholarbase.indexes.filters import NO_FILTERS, category_keys
from scholarbase.indexes.schema import count_rows, open_for_building
from scholarbase.indexes.vectors.base import (
    BM25,
    DENSE,
    LEARNED,
    EngineVector,
    Payload,
    SparseVector,
    VectorConfig,
    VectorPoint,
)
from scholarbase.indexes.vectors.bm25 import Bm25Parameters, Bm25Text
from scholarbase.indexes.vectors.contents import write_contents
from scholarbase.indexes.vectors.edge import EdgeIndex, EdgeWriter
from scholarbase.indexes.vectors.space import check_space, required_bytes
from scholarbase.ingest.checkpoint import Checkpoint
from scholarbase.ingest.dense import DenseLookup, DenseParts
from scholarbase.ingest.encoding import encode_papers, load_vectors
from scholarbase.ingest.folder import ENCODER, REJECTS, BuildFolder, storage_errors
from scholarbase.ingest.records import Record, Reject
from scholarbase.ingest.sources import PARSERS, UNUSED, Dataset, SourceFile, discover, open_lines, sha256_of
from scholarbase.ingest.terms import bm25_vectors
from scholarbase.ingest.text import TextIndexing
from scholarbase.ingest.writer import CatalogWriter
from scholarbase.manifest import FILE_NAME, Manifest, SourceFact, read_manifest, snapshot_id
from scholarbase.models.encoders import EncoderSpec
from scholarbase.progress import Reporter, SilentReporter, Tracker
from scholarbase.settings import KeepRule

log = logging.getLogger("scholarbase.ingest")

LINES_PER_COMMIT: Final = 10_000
POINTS_PER_UPSERT: Final = 2_000
UPSERTS_PER_FLUSH: Final = 10
REJECTS_ALWAYS_ALLOWED: Final = 10
"""So that one bad line does not fail a snapshot of a hundred."""
LENGTH_SAMPLE: Final = 20_000
"""Documents whose lengths give BM25's average length."""


@dataclass(frozen=True, slots=True)
class IngestRules:
    """What decides the content of a library, besides its sources."""

    keep: KeepRule = "arxiv"
    max_reject_share: float = 0.05


def ingest(
    sources: Sequence[str | Path],
    library: str | Path,
    *,
    encoder: Encoder | None = None,
    encoder_location: str | None = None,
    vectors: str | Path | None = None,
    rules: IngestRules = IngestRules(),
    restart: bool = False,
    reporter: Reporter | None = None,
) -> Manifest:
    """Build a library from snapshot files or folders; go on with it where an earlier call was cut off.

    Args:
        encoder: makes the dense vectors of the papers; None builds a library without them.
        encoder_location: how to open the encoder again (a name, a path or a URL), kept beside the library.
        vectors: a NumPy or Parquet file of vectors that the encoder computed elsewhere; papers that are not
            in it have no dense vector.
        restart: replace a finished library, or begin anew where an unfinished job has other sources or rules.

    Raises:
        SourceError: a source cannot be read, or (SourceChanged) changed since the job began, or
            (TooManyRejects) has too many bad records.
        LibraryError: something is in the way (LibraryExists, LibraryBusy), or the vectors are another
            encoder's (EncoderMismatch).
        StorageError: the disk is full.
        EncoderError: the encoder fails.
    """
    if vectors is not None and encoder is None:
        raise InvalidRequest(
            "Vectors computed elsewhere need the encoder that made them: give --encoder too."
        )
    library = Path(library)
    with storage_errors(library):
        folder = BuildFolder(library)
        try:
            job = _Job(folder, encoder, encoder_location, vectors, rules, reporter or SilentReporter())
            return job.run(sources, restart=restart)
        finally:
            folder.close()


class _Job:
    def __init__(
        self,
        folder: BuildFolder,
        encoder: Encoder | None,
        encoder_location: str | None,
        vectors: str | Path | None,
        rules: IngestRules,
        reporter: Reporter,
    ) -> None:
        self._folder = folder
        self._encoder = encoder
        self._encoder_location = encoder_location
        self._vectors = Path(vectors) if vectors is not None else None
        self._rules = rules
        self._reporter = reporter

    def run(self, sources: Sequence[str | Path], *, restart: bool) -> Manifest:
        files = self._used(discover(sources))
        facts = self._hash(files)
        spec = self._encoder.spec if self._encoder else None
        plan = _plan(facts, self._rules.keep, spec, self._vectors_hash())
        if self._sealed():
            # An earlier run got as far as the manifest, and only moving is left: of this library, or of another.
            pending = Manifest.from_bytes(
                self._folder.pending_manifest.read_bytes(), self._folder.pending_manifest
            )
            if not restart or _plan_of(pending) == plan:
                self._publish()
                return self._already_there(plan)
            self._folder.clear()
        begun = self._begun()
        if begun is None and not restart and (self._folder.library / FILE_NAME).exists():
            return self._already_there(plan)
        if begun is not None and begun != plan:
            if not restart:
                raise SourceChanged(
                    f"The unfinished library at {self._folder.library} was begun with other "
                    f"{_difference(begun, plan)}: run the command that began it, or give --restart to begin again."
                )
            self._folder.clear()
        elif begun is not None:
            log.info("Going on with the unfinished library at %s.", self._folder.library)
        self._db = open_for_building(self._folder.catalog)
        try:
            self._checkpoint = Checkpoint(self._db)
            with self._checkpoint.transaction():
                self._checkpoint.set("plan", plan)
            self._read(files)
            config, bm25 = self._index()
            self._seal(facts, config, bm25, plan["vectors"])
        finally:
            self._db.close()
        return self._publish()

    def _used(self, files: list[SourceFile]) -> list[SourceFile]:
        for file in files:
            if file.dataset in UNUSED:
                log.warning(
                    "%s is of the dataset %s, which is not used: passed over.", file.name, file.dataset
                )
        return [file for file in files if file.dataset not in UNUSED]

    # -- fingerprint ------------------------------------------------------------------------------------

    def _vectors_hash(self) -> str | None:
        if self._vectors is None:
            return None
        files = sorted(self._vectors.iterdir()) if self._vectors.is_dir() else [self._vectors]
        return ",".join(f"{file.name}:{sha256_of(file)}" for file in files if file.is_file())

    def _hash(self, files: Sequence[SourceFile]) -> list[SourceFact]:
        with self._reporter.stage("fingerprint", "bytes", sum(f.size for f in files)) as tracker:
            facts = []
            done = 0
            for file in files:
                facts.append(SourceFact(file.name, str(file.dataset), file.size, sha256_of(file.path)))
                done += file.size
                tracker.at(done)
                tracker.advance(file.size)
        return facts

    def _begun(self) -> dict[str, Any] | None:
        """The plan of the unfinished job whose work lies in the folder, None where there is none."""
        if not self._folder.catalog.exists():
            return None
        with closing(open_for_reading(self._folder.catalog)) as db:
            try:
                row = db.execute("SELECT value FROM ingest_state WHERE key = 'plan'").fetchone()
            except sqlite3.OperationalError:  # killed before it had a table
                return None
        return None if row is None else dict(orjson.loads(row[0]))

    def _already_there(self, plan: dict[str, Any]) -> Manifest:
        """The same command on a finished library is no error; another one is."""
        manifest, snapshot = read_manifest(self._folder.library)
        held = _plan_of(manifest)
        if held != plan:
            raise LibraryExists(
                f"{self._folder.library} already holds a library (snapshot {snapshot}) from other "
                f"{_difference(held, plan)}: give another --library, or --restart to replace it."
            )
        log.info("The library at %s is already complete.", self._folder.library)
        return manifest

    # -- read -------------------------------------------------------------------------------------------

    def _read(self, files: Sequence[SourceFile]) -> None:
        writer = CatalogWriter(self._db, self._rules.keep)
        records = [file for file in files if file.dataset is not Dataset.CITATIONS]
        edges = [file for file in files if file.dataset is Dataset.CITATIONS]
        self._read_files("read records", records, writer)
        if not self._checkpoint.get("pruned"):
            with (
                self._reporter.stage("keep rule", "papers dropped", None) as tracker,
                self._checkpoint.transaction(),
            ):
                counts = writer.prune()
                self._checkpoint.add("counts", counts.items())
                self._checkpoint.set("pruned", True)
                tracker.advance(counts.total())
        kept = self._scalar("SELECT count(*) FROM papers")
        if not kept:
            raise SourceError(
                f"The sources hold no paper that the keep rule {self._rules.keep!r} keeps: "
                "give the abstracts or an arXiv snapshot too, or another --keep (abstract, title; the documents of a "
                "BEIR collection need one of these)."
            )
        self._read_files("read citations", edges, writer)

    def _read_files(self, stage: str, files: Sequence[SourceFile], writer: CatalogWriter) -> None:
        total = sum(file.size for file in files)
        before = 0
        done = set(self._checkpoint.get("read", []))
        with self._reporter.stage(
            stage, "lines", total, sum(f.size for f in files if f.name in done)
        ) as tracker:
            for dataset, of_dataset in groupby(files, key=lambda file: file.dataset):
                for file in of_dataset:
                    if file.name not in done:
                        self._read_file(file, writer, tracker, before)
                    before += file.size
                    tracker.at(before)
                self._check_rejects(dataset)

    def _read_file(self, file: SourceFile, writer: CatalogWriter, tracker: Tracker, before: int) -> None:
        key = f"line:{file.name}"
        skip = int(self._checkpoint.get(key, 0))
        parse_line = PARSERS[file.dataset]
        position = [0]
        lines = ((number, line) for number, line in open_lines(file.path, position) if number > skip)
        while batch := list(islice(lines, LINES_PER_COMMIT)):
            records: list[Record] = []
            rejects: list[tuple[int, Reject]] = []
            for number, line in batch:
                record = parse_line(line)
                if isinstance(record, Reject):
                    rejects.append((number, record))
                else:
                    records.append(record)
            with self._checkpoint.transaction():
                counts = writer.write(file.dataset, records)
                counts[f"lines_{file.dataset}"] = len(batch)
                counts[f"rejects_{file.dataset}"] = len(rejects)
                self._checkpoint.add("counts", counts.items())
                self._checkpoint.reject(file.name, file.dataset, rejects)
                self._checkpoint.set(key, batch[-1][0])
            tracker.at(before + position[0])
            tracker.advance(len(batch))
        with self._checkpoint.transaction():
            self._checkpoint.set("read", [*self._checkpoint.get("read", []), file.name])

    def _check_rejects(self, dataset: Dataset) -> None:
        """Judge a dataset once all of its lines are read: one bad shard among many good ones is no bad dataset."""
        counts = self._checkpoint.get("counts", {})
        lines, rejects = counts.get(f"lines_{dataset}", 0), counts.get(f"rejects_{dataset}", 0)
        if rejects > max(REJECTS_ALWAYS_ALLOWED, self._rules.max_reject_share * lines):
            file, line, detail = self._db.execute(
                "SELECT file, line, detail FROM ingest_rejects WHERE dataset = ? LIMIT 1", (str(dataset),)
            ).fetchone()
            raise TooManyRejects(
                f"{rejects:,} of {lines:,} lines of the dataset {dataset} were rejected, more than the share of "
                f"{self._rules.max_reject_share:g} that SCHOLARBASE_MAX_REJECT_SHARE allows. The first: {file} line "
                f"{line}: {detail}"
            )

    # -- index ------------------------------------------------------------------------------------------

    def _index(self) -> tuple[VectorConfig, Bm25Parameters]:
        """The full text in a thread of its own, and meanwhile the vectors here."""
        # The pages that reading filled are the other thread's now.
        self._db.execute("PRAGMA cache_size = -16384")
        self._db.execute("PRAGMA shrink_memory")
        text = TextIndexing(self._folder.catalog, self._reporter)
        text.start()
        try:
            lookup = self._encode()
            made = self._index_vectors(lookup)
            text.finish()
        except BaseException:
            text.stop()
            raise
        return made

    # -- encode -----------------------------------------------------------------------------------------

    def _encode(self) -> DenseLookup:
        parts = DenseParts(self._folder.dense)
        if self._encoder is None or self._checkpoint.get("encoded"):
            return parts.open()
        counts: Counter[str] = Counter()
        if self._vectors is None:
            encode_papers(self._db, parts, self._encoder, self._reporter)
        else:
            counts = load_vectors(self._db, parts, self._encoder, self._vectors, self._reporter)
        with self._checkpoint.transaction():
            self._checkpoint.add("counts", counts.items())
            self._checkpoint.set("encoded", True)
        return parts.open()

    # -- vectors ----------------------------------------------------------------------------------------

    def _index_vectors(self, lookup: DenseLookup) -> tuple[VectorConfig, Bm25Parameters]:
        spec = self._encoder.spec if self._encoder else None
        # Vectors computed elsewhere bring no learned weights with them.
        learned = spec is not None and spec.learned_sparse and self._vectors is None
        config = VectorConfig(dimensions=spec.dimensions if spec else None, learned=learned)
        parameters = self._bm25_parameters()
        if self._checkpoint.get("vectors_done"):
            return config, parameters
        total = self._scalar("SELECT count(*) FROM papers")
        last = int(self._checkpoint.get("vectors", 0))
        if last == 0 and self._folder.vectors.exists():
            shutil.rmtree(self._folder.vectors)
        done = self._scalar("SELECT count(*) FROM papers WHERE id <= ?", last)
        check_space(self._folder.path, required_bytes(config, total - done))
        writer = EdgeWriter.open(self._folder.vectors, config)
        try:
            with (
                self._reporter.stage("index vectors", "papers", total, done) as tracker,
                bm25_vectors(self._folder.catalog, last, parameters, total - done) as terms,
            ):
                unflushed = 0
                while True:
                    if done and done % writer.segment_points == 0:
                        # Here, so that it is made good where the job was killed in it. Nothing is upserted again
                        # that was sealed: how far the work has come is recorded before.
                        writer.seal()
                    room = writer.segment_points - done % writer.segment_points
                    points = self._points(last, min(room, POINTS_PER_UPSERT), lookup, terms)
                    writer.upsert(points)
                    unflushed += 1
                    done += len(points)
                    if not points or unflushed == UPSERTS_PER_FLUSH or done % writer.segment_points == 0:
                        self._record_vectors(writer, points[-1].id if points else last)
                        unflushed = 0
                    if not points:
                        break
                    last = points[-1].id
                    tracker.at(done)
                    tracker.advance(len(points))
            with self._reporter.stage("optimize vectors", "papers", total) as tracker:
                writer.finish()
                tracker.advance(total)
        finally:
            writer.close()
        with self._checkpoint.transaction():
            self._checkpoint.set("vectors_done", True)
        return config, parameters

    def _record_vectors(self, writer: EdgeWriter, last: int) -> None:
        """What is upserted, up to the paper ``last``, need not be upserted again."""
        writer.flush()
        with self._checkpoint.transaction():
            self._checkpoint.set("vectors", last)

    def _bm25_parameters(self) -> Bm25Parameters:
        """BM25 with the library's own average length, from documents taken evenly."""
        total = self._scalar("SELECT count(*) FROM papers")
        step = max(1, -(-total // LENGTH_SAMPLE))
        rows = self._db.execute(
            """
            SELECT title, abstract FROM papers LEFT JOIN abstracts ON paper_id = id
            WHERE id % ? = 0 ORDER BY id
            """,
            (step,),
        )
        counter = Bm25Text()
        lengths = [counter.count_tokens(title, abstract) for title, abstract in rows]
        mean = float(round(float(np.mean(lengths)))) if lengths else 0.0
        return replace(counter.parameters, average_length=max(mean, 1.0))

    def _points(
        self, after: int, count: int, lookup: DenseLookup, terms: Iterator[tuple[int, EngineVector]]
    ) -> list[VectorPoint]:
        """The points of the next ``count`` papers, with the next of ``terms``."""
        rows = self._db.execute(
            """
            SELECT id, first_day, last_day, categories, venue_key, citation_count
            FROM papers WHERE id > ? ORDER BY id LIMIT ?
            """,
            (after, count),
        )
        points = []
        for paper_id, first_day, last_day, categories, venue, citation_count in rows:
            of_paper, vector = next(terms)
            if of_paper != paper_id:
                raise VectorIndexError(
                    f"Paper {of_paper} has a BM25 vector where paper {paper_id}'s should be."
                )
            sparse: dict[str, SparseVector | EngineVector] = {BM25: vector}
            dense, learned = lookup.get(paper_id) or (None, None)
            if learned is not None:
                sparse[LEARNED] = learned
            payload = Payload(
                first_day, last_day, category_keys((categories or "").split()), venue, citation_count
            )
            points.append(VectorPoint(paper_id, payload, dense, sparse))
        return points

    # -- seal -------------------------------------------------------------------------------------------

    def _seal(
        self, facts: Sequence[SourceFact], config: VectorConfig, bm25: Bm25Parameters, vectors: str | None
    ) -> None:
        """Everything in its last form, under its name in the building folder."""
        with closing(EdgeIndex.open(self._folder.vectors, view=False)) as index:
            counts = self._counts(index, config)
        self._checkpoint.write_rejects(self._folder.path / REJECTS)
        if self._encoder is not None:
            about = {"location": self._encoder_location, "probe": probe(self._encoder)}
            self._folder.write(ENCODER, orjson.dumps(about, option=orjson.OPT_INDENT_2))
        manifest = Manifest(
            sources=tuple(facts),
            rules={"keep": self._rules.keep, "document_text": "title, newline, abstract"},
            counts=counts,
            rejects=dict(sorted(self._checkpoint.get("rejects", {}).items())),
            fulltext={"tokenizer": fulltext.TOKENIZER, "title_weight": fulltext.TITLE_WEIGHT},
            bm25=bm25.to_dict(),
            vectors=config.to_dict() | {"computed_elsewhere": vectors},
            encoder=self._encoder.spec if self._encoder else None,
        )
        # So that vectors of another build, or a copy that broke off, are found out.
        write_contents(self._folder.vectors, manifest.snapshot)
        self._folder.write(self._folder.pending_manifest.name, manifest.to_bytes())
        with self._checkpoint.transaction():
            self._checkpoint.drop()
            self._db.execute("INSERT INTO meta VALUES ('snapshot', ?)", (manifest.snapshot,))

    def _counts(self, index: EdgeIndex, config: VectorConfig) -> dict[str, int]:
        counts: dict[str, int] = dict(self._checkpoint.get("counts", {}))
        counts |= count_rows(self._db)
        counts["citations_repeated"] = counts.get("citations_used", 0) - counts["edges"]
        counts["points"] = index.count(NO_FILTERS)
        counts["dense_vectors"] = index.count(NO_FILTERS, vector=DENSE) if config.dimensions else 0
        return dict(sorted(counts.items()))

    def _sealed(self) -> bool:
        """Whether an earlier run got as far as the manifest, so that only moving is left."""
        if not self._folder.pending_manifest.exists():
            return False
        if not self._folder.catalog.exists():
            return True
        with closing(open_for_reading(self._folder.catalog)) as db:
            return read_meta(db, "snapshot") == snapshot_id(self._folder.pending_manifest.read_bytes())

    def _publish(self) -> Manifest:
        if self._folder.catalog.exists():
            _finish_catalog(self._folder.catalog)
        shutil.rmtree(self._folder.dense, ignore_errors=True)
        self._folder.publish()
        manifest, snapshot = read_manifest(self._folder.library)
        log.info(
            "The library at %s is complete: %s papers, %s edges, snapshot %s.",
            self._folder.library,
            f"{manifest.counts['papers']:,}",
            f"{manifest.counts['edges']:,}",
            snapshot,
        )
        return manifest

    def _scalar(self, sql: str, *parameters: int) -> int:
        return int(self._db.execute(sql, parameters).fetchone()[0])


def _finish_catalog(path: Path) -> None:
    """One file without a log beside it, compact, safe on the disk."""
    with closing(open_for_writing(path, create=False)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        free, pages = (
            db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("freelist_count", "page_count")
        )
        if free > pages // 5:
            db.execute("VACUUM")


def _plan(
    sources: Sequence[SourceFact], keep: str, encoder: EncoderSpec | None, vectors: str | None
) -> dict[str, Any]:
    """What must stay the same from a job's first start to its end."""
    return {
        "sources": [asdict(fact) for fact in sources],
        "keep": keep,
        "encoder": encoder.to_dict() if encoder else None,
        "vectors": vectors,
    }


def _plan_of(manifest: Manifest) -> dict[str, Any]:
    """The plan of the job that made a library."""
    vectors = manifest.vectors["computed_elsewhere"]
    return _plan(manifest.sources, manifest.rules["keep"], manifest.encoder, vectors)


def _difference(begun: dict[str, Any], now: dict[str, Any]) -> str:
    names = {"sources": "sources", "keep": "keep rule", "encoder": "encoder", "vectors": "vectors"}
    return " and ".join(names[key] for key in names if begun.get(key) != now.get(key))
