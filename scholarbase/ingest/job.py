"""The job that builds a library from a snapshot, in stages.

==============  ==========================================================================================
fingerprint     finds the files, detects their datasets and hashes them
read            records to catalogue rows, dataset by dataset; before the citations, the keep rule
authors         rows to the index of authors
full text       rows to FTS5
encode          at the same time as both, rows to dense vectors, in parts; or reads vectors computed elsewhere
vectors         rows and parts to the vector index
seal            hashes the content and counts document frequencies, writes the manifest and the list of files, then
                moves all files to their final names, the list last
==============  ==========================================================================================

Each stage commits its progress with its rows: a job that was killed continues when it is started again, and ends
with the same library.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, Final

import orjson

from scholarbase.databases import finish, open_for_reading
from scholarbase.documents.chunkers import CHUNKERS
from scholarbase.documents.sources import detect_documents, sidecars
from scholarbase.documents.tokens import tokens_of
from scholarbase.encoders import Encoder
from scholarbase.encoders.paired import PairedEncoder
from scholarbase.encoders.probe import probe
from scholarbase.errors import InvalidRequest, LibraryExists, SourceChanged, SourceError, TooManyRejects
from scholarbase.indexes import fulltext
from scholarbase.indexes.catalog import read_meta
from scholarbase.indexes.content_hash import content_hash, part_hashes, vector_sums
from scholarbase.indexes.filters import NO_FILTERS
from scholarbase.indexes.frequencies import FrequencyCounter
from scholarbase.indexes.passages import parameters_of
from scholarbase.indexes.schema import count_rows, open_for_building
from scholarbase.indexes.vectors.base import DENSE, VectorConfig
from scholarbase.indexes.vectors.bm25 import Bm25Parameters
from scholarbase.indexes.vectors.edge import EdgeIndex
from scholarbase.ingest.checkpoint import Checkpoint
from scholarbase.ingest.dense import DenseLookup, DenseParts
from scholarbase.ingest.encoded import Encoding
from scholarbase.ingest.encoding import encode_apart, encode_papers, load_vectors, static_folder
from scholarbase.ingest.folder import ENCODER, REJECTS, BuildFolder, build_errors
from scholarbase.ingest.fulltexts import FullTexts, finish_documents
from scholarbase.ingest.hashing import hashed_tables
from scholarbase.ingest.merging import settle
from scholarbase.ingest.partitions import Partitions, check_memory, check_number
from scholarbase.ingest.passages import index_passages, summarize
from scholarbase.ingest.plans import (
    DEFAULT_RULES,
    IngestRules,
    difference,
    make_plan,
    named_sets,
    plan_of,
    release_of,
)
from scholarbase.ingest.random_pairs import random_similarity
from scholarbase.ingest.records import OWN_REJECTS_ALWAYS_ALLOWED, REJECTS_ALWAYS_ALLOWED, Record, Reject
from scholarbase.ingest.sources import (
    OWN,
    UNUSED,
    Columns,
    Dataset,
    Entry,
    SourceFile,
    StoredBytes,
    changed_while_read,
    discover,
    read_records,
    sha256_of,
)
from scholarbase.ingest.store import RecordStore, cited_works
from scholarbase.ingest.text import TextIndexing
from scholarbase.ingest.vectors import index_vectors
from scholarbase.ingest.writer import CatalogWriter
from scholarbase.manifest import FILE_NAME, Manifest, SourceFact, read_manifest, snapshot_id
from scholarbase.models.encoders import STATIC
from scholarbase.progress import Reporter, SilentReporter, Tracker
from scholarbase.workers import pays_off

log = logging.getLogger("scholarbase.ingest")

LINES_PER_COMMIT: Final = 10_000
WORKS_PER_COMMIT: Final = 2_000
"""Works whose citations are written at once: some have thousands."""
MOST_LISTED: Final = 4_000
"""Characters of the list of vector files in the manifest. A longer one is replaced by its hash."""
BYTES_PER_COMMIT: Final = 64_000_000
"""A transaction ends after so many bytes of lines, if not before: the lines are in memory."""


def ingest(
    sources: Sequence[str | Path],
    library: str | Path,
    *,
    encoder: Encoder | None = None,
    encoder_location: str | None = None,
    query_encoder: Encoder | None = None,
    query_encoder_location: str | None = None,
    vectors: str | Path | None = None,
    sets: Mapping[str, Sequence[str | Path]] = MappingProxyType({}),
    columns: Columns = MappingProxyType({}),
    documents: Sequence[str | Path] = (),
    rules: IngestRules = DEFAULT_RULES,
    partitions: int = 1,
    restart: bool = False,
    reporter: Reporter | None = None,
) -> Manifest:
    """Build a library from source files or folders, or continue an unfinished one.

    Args:
        encoder: computes the papers' dense vectors; None builds a library without them.
        encoder_location: a name, path or URL that opens the encoder again, stored in the library's folder.
        query_encoder: encodes queries, of the same dimensions, where ``encoder`` encodes documents only.
        query_encoder_location: opens the query encoder again. Serving opens no other.
        vectors: a NumPy or Parquet file of vectors that the encoder computed elsewhere; papers that are not
            in it have no dense vector.
        sets: more sources by the name of the set that their papers belong to.
        columns: the columns of CSV files and JSON lines by the field of a paper, such as ``{"title": "Paper"}``.
        documents: files or folders of full texts. Papers that they describe become papers of the library.
        partitions: processes that encode, index and hash parts of the papers; the library is the same.
        restart: replace a finished library, or an unfinished one with other sources or rules.

    Raises:
        SourceError: a source cannot be read, or (SourceChanged) changed since the job began, or
            (TooManyRejects) has too many bad records.
        LibraryError: the folder is in use (LibraryExists, LibraryBusy), or the vectors are from another
            encoder (EncoderMismatch).
        StorageError: the disk is full, or the folder is not writable.
        EncoderError: the encoder fails, or the query encoder has other dimensions.
    """
    check_number(partitions)
    locations = {"location": encoder_location}
    if query_encoder is not None:
        if encoder is None:
            raise InvalidRequest(
                "A query encoder needs the encoder of the documents: give --encoder too, or leave out --query-encoder."
            )
        encoder = PairedEncoder(encoder, query_encoder)
        locations["query_location"] = query_encoder_location
    if vectors is not None and encoder is None:
        raise InvalidRequest(
            "Vectors computed elsewhere need the encoder that computed them: give --encoder too."
        )
    if vectors is not None and encoder is not None and (found := Encoding.read(Path(vectors))) is not None:
        found.check(encoder.spec, Path(vectors))
    library = Path(library)
    with build_errors(library):
        folder = BuildFolder(library)
        try:
            job = Job(folder, encoder, locations, vectors, rules, partitions, reporter or SilentReporter())
            return job.run(sources, sets, columns, documents, restart=restart)
        finally:
            folder.close()


class Job:
    def __init__(
        self,
        folder: BuildFolder,
        encoder: Encoder | None,
        encoder_locations: Mapping[str, str | None],
        vectors: str | Path | None,
        rules: IngestRules,
        partitions: int,
        reporter: Reporter,
    ) -> None:
        self._folder = folder
        self._encoder = encoder
        self._encoder_locations = encoder_locations
        self._vectors = Path(vectors) if vectors is not None else None
        self._rules = rules
        self._number = partitions
        self._reporter = reporter

    def run(
        self,
        sources: Sequence[str | Path],
        sets: Mapping[str, Sequence[str | Path]],
        columns: Columns,
        documents: Sequence[str | Path],
        *,
        restart: bool,
    ) -> Manifest:
        given = [*sources, *(path for paths in sets.values() for path in paths)]
        files = self._without_unused(discover(given, columns)) if given or not documents else []
        self._documents = detect_documents(documents) if documents else []
        self._release = release_of(sources)
        facts = hash_files(
            [(file.path, file.name, file.kind, file.size) for file in files]
            + [(file.path, file.name, str(file.source), file.size) for file in self._documents]
            + [
                (path, name, str(source), path.stat().st_size)
                for path, name, source in sidecars(self._documents)
            ],
            self._reporter,
        )
        spec = self._encoder.spec if self._encoder else None
        self._sets, self._columns = named_sets(sets, files), dict(columns)
        self._plan = plan = make_plan(
            facts,
            self._rules,
            spec,
            self._title_weight(),
            self._vectors_hash(),
            self._sets,
            self._columns,
        )
        if self._sealed():
            # Only the moves are left: of this library, or of one with another plan.
            written = self._folder.pending_manifest
            if not written.exists():
                written = self._folder.library / FILE_NAME
            pending = Manifest.from_bytes(written.read_bytes(), written)
            if not restart or plan_of(pending) == plan:
                self._publish()
                return self._finished(plan)
            self._folder.clear()
        unfinished = self._unfinished_plan()
        if unfinished is None and not restart and (self._folder.library / FILE_NAME).exists():
            return self._finished(plan)
        if unfinished is not None and unfinished != plan:
            if not restart:
                raise SourceChanged(
                    f"The unfinished library at {self._folder.library} and this command differ in "
                    f"{difference(unfinished, plan)}: run the command that started it, or give --restart."
                )
            self._folder.clear()
        elif unfinished is not None:
            log.info("Continuing the unfinished library at %s.", self._folder.library)
        self._build(files, facts)
        return self._publish()

    def _build(self, files: Sequence[SourceFile], facts: Sequence[SourceFact]) -> None:
        """Run the stages up to the seal."""
        self._db = open_for_building(self._folder.catalog)
        self._store = RecordStore(self._folder.records)
        self._texts: FullTexts | None = None
        try:
            self._checkpoint = Checkpoint(self._db)
            if self._documents:
                self._tokens = tokens_of(self._encoder)
                self._texts = FullTexts(
                    self._folder.documents,
                    self._db,
                    self._checkpoint,
                    CHUNKERS[self._rules.chunker],
                    self._tokens,
                    self._reporter,
                )
            self._store.cut(self._checkpoint.get("records", [0, 0]))
            with self._checkpoint.transaction():
                self._checkpoint.set("plan", self._plan)
            try:
                self._read(files, {fact.name: fact for fact in facts})
            except SourceChanged:
                self._db.close()
                self._store.close()
                if self._texts is not None:
                    self._texts.close()
                self._folder.clear()  # it has rows of other bytes than those that were hashed
                raise
            self._complete(facts)
        finally:
            if self._texts is not None:
                self._texts.close()
            self._store.close()
            self._db.close()

    def _complete(self, facts: Sequence[SourceFact]) -> None:
        """Run the stages after those that read."""
        bm25 = Bm25Parameters()
        config, tables = self._index(bm25)
        self._seal(facts, config, bm25, tables)

    def _without_unused(self, files: list[SourceFile]) -> list[SourceFile]:
        for file in files:
            if file.dataset in UNUSED:
                hint = ": give it with --documents" if file.dataset is Dataset.S2ORC else ""
                log.warning("Skipping %s: the dataset %s is not used%s.", file.name, file.dataset, hint)
        return [file for file in files if file.dataset not in UNUSED]

    # -- fingerprint ------------------------------------------------------------------------------------

    def _title_weight(self) -> int:
        """The number of times the title is repeated in encoded texts: 1 for vectors of other programs."""
        if self._vectors is not None:
            record = Encoding.read(self._vectors)
            return 1 if record is None else record.title_weight
        return 1 if self._encoder is None else self._encoder.spec.title_weight

    def _vectors_hash(self) -> str | None:
        if self._vectors is None:
            return None
        files = [self._vectors, self._vectors.with_name("ids.txt")]
        if self._vectors.is_dir():
            files = sorted(self._vectors.iterdir())
        elif self._vectors.suffix != ".npy":
            files.pop()
        listed = ",".join(f"{file.name}:{sha256_of(file)}" for file in files if file.is_file())
        if len(listed) <= MOST_LISTED:
            return listed
        return f"{len(files)} files:{hashlib.sha256(listed.encode()).hexdigest()}"

    def _unfinished_plan(self) -> dict[str, Any] | None:
        """The plan of the unfinished job in the folder, None without one."""
        if not self._folder.catalog.exists():
            return None
        with closing(open_for_reading(self._folder.catalog)) as db:
            try:
                row = db.execute("SELECT value FROM ingest_state WHERE key = 'plan'").fetchone()
            except sqlite3.OperationalError:  # killed before the table was created
                return None
        return None if row is None else dict(orjson.loads(row[0]))

    def _finished(self, plan: dict[str, Any]) -> Manifest:
        """The finished library. Raises LibraryExists: it has another plan."""
        manifest, snapshot = read_manifest(self._folder.library)
        finished = plan_of(manifest)
        if finished != plan:
            raise LibraryExists(
                f"{self._folder.library} already has a library (snapshot {snapshot}) from other "
                f"{difference(finished, plan)}: give another --library, or --restart to replace it."
            )
        log.info("The library at %s is already complete.", self._folder.library)
        return manifest

    # -- read -------------------------------------------------------------------------------------------

    def _read(self, files: Sequence[SourceFile], facts: Mapping[str, SourceFact]) -> None:
        writer = CatalogWriter(self._db, self._rules.keep)
        records = [file for file in files if file.dataset is not Dataset.CITATIONS]
        edges = [file for file in files if file.dataset is Dataset.CITATIONS]
        self._read_files("read records", records, facts, writer)
        if self._texts is not None:
            self._texts.read(self._documents, facts, writer, self._store, self._rules.max_reject_share)
        self._settle(writer)
        if not self._checkpoint.get("completed"):
            with (
                self._reporter.stage("keep rule", "papers dropped", None) as tracker,
                self._checkpoint.transaction(),
            ):
                if self._rules.records:
                    with self._store.transaction():
                        self._store.set_own(*writer.stored_own())
                counts, dropped = writer.complete()
                self._checkpoint.add("counts", counts.items())
                self._checkpoint.set("completed", True)
                tracker.advance(dropped)
        if not self._count("papers"):
            raise SourceError(
                f"The sources have no papers that the keep rule {self._rules.keep!r} keeps: "
                "give the abstracts or an arXiv snapshot too, or use --restart with another --keep (abstract or "
                "title, which the documents of a BEIR collection need)."
            )
        self._check_sets()
        if self._texts is not None:
            self._texts.join()
        self._cite_works(writer)
        self._read_files("read citations", edges, facts, writer)

    def _settle(self, writer: CatalogWriter) -> None:
        """Choose between different records with one key, whatever the order in which they came."""
        if self._checkpoint.get("settled"):
            return
        self._store.index()
        with (
            self._reporter.stage("merge records", "records", None) as tracker,
            self._store.transaction(),
            self._checkpoint.transaction(),
        ):
            repeated = settle(self._db, writer, self._store)
            self._checkpoint.set("settled", True)
            tracker.advance(repeated)

    def _cite_works(self, writer: CatalogWriter) -> None:
        """Write the citations of OpenAlex works, whose records have them."""
        if not self._store.has(Dataset.OPENALEX):
            return
        last = self._checkpoint.get("cited_works", 0)
        with self._reporter.stage("cite works", "works", None) as tracker:
            while works := self._store.works(last, WORKS_PER_COMMIT):
                last = works[-1][0]
                citations = [one for _, work in works if work for one in cited_works(work)]
                with self._checkpoint.transaction():
                    counts = writer.write(Dataset.CITATIONS, citations)
                    counts["openalex_citations"] = counts.pop("s2ag_citations")
                    self._checkpoint.add("counts", counts.items())
                    self._checkpoint.set("cited_works", last)
                    if self._rules.records:
                        with self._store.transaction():
                            self._store.append(Dataset.CITATIONS, citations, [])
                        self._checkpoint.set("records", self._store.ends)
                tracker.advance(len(works))

    def _read_files(
        self,
        stage: str,
        files: Sequence[SourceFile],
        facts: Mapping[str, SourceFact],
        writer: CatalogWriter,
    ) -> None:
        total = sum(file.size for file in files)
        before = 0
        done = set(self._checkpoint.get("read", []))
        with self._reporter.stage(
            stage, "lines", total, sum(f.size for f in files if f.name in done)
        ) as tracker:
            for kind, group in groupby(files, key=lambda file: file.kind):
                for file in group:
                    if file.name not in done:
                        self._read_file(file, facts[file.name], writer, tracker, before)
                    before += file.size
                    tracker.at(before)
                self._check_rejects(kind, is_own=file.dataset in OWN)

    def _read_file(
        self, file: SourceFile, fact: SourceFact, writer: CatalogWriter, tracker: Tracker, before: int
    ) -> None:
        """Read a file from its first uncommitted line on. The bytes before it are read too, since the hash of all bytes
        must equal the hash in the manifest, and a killed job must have read the same bytes."""
        key = f"line:{file.name}"
        skip, *earlier = self._checkpoint.get(key, [0])
        read = StoredBytes((earlier[0], earlier[1]) if earlier else None)
        sets = [name for name, files in self._sets.items() if file.name in files]
        is_own, is_citations = file.dataset in OWN, file.dataset is Dataset.CITATIONS
        stored = not is_own and (self._rules.records or not is_citations)
        entries = read_records(file, read, self._columns, skip)
        while batch := _batch(entries):
            if not read.same_start:
                break
            packed = self._store.packed([] if is_own or is_citations else [entry.content for entry in batch])
            records: list[Record] = []
            rejects: list[tuple[int, Reject]] = []
            places: list[int] = []
            for place, entry in enumerate(batch):
                if isinstance(entry.record, Reject):
                    rejects.append((entry.line, entry.record))
                else:
                    records.append(entry.record)
                    places.append(place)
            with self._checkpoint.transaction():
                counts = writer.write(file.dataset, records, sets, file.name)
                counts[f"lines_{file.kind}"] = len(batch)
                counts[f"rejects_{file.kind}"] = len(rejects)
                self._checkpoint.add("counts", counts.items())
                self._checkpoint.reject(file.name, file.kind, rejects)
                self._checkpoint.set(key, [batch[-1].number, *read.state])
                if stored:
                    result = packed.result()
                    with self._store.transaction():
                        self._store.append(
                            file.dataset, records, [result[i] for i in places] if result else []
                        )
                    self._checkpoint.set("records", self._store.ends)
            tracker.at(before + read.count)
            tracker.advance(len(batch))
        if not read.same_start or read.state != (fact.bytes, fact.sha256):
            raise changed_while_read(file.path)
        with self._checkpoint.transaction():
            self._checkpoint.set("read", [*self._checkpoint.get("read", []), file.name])

    def _check_rejects(self, dataset: str, *, is_own: bool) -> None:
        """Check the share of rejects after all files of a dataset: one bad file among many does not fail the job."""
        counts = self._checkpoint.get("counts", {})
        lines, rejects = counts.get(f"lines_{dataset}", 0), counts.get(f"rejects_{dataset}", 0)
        always = OWN_REJECTS_ALWAYS_ALLOWED if is_own else REJECTS_ALWAYS_ALLOWED
        if is_own and not lines:
            raise SourceError(f"The {dataset} files have no entry: leave them out, or export them again.")
        nothing_left = is_own and rejects == lines
        if nothing_left or rejects > max(always, self._rules.max_reject_share * lines):
            file, line, detail = self._db.execute(
                "SELECT file, line, detail FROM ingest_rejects WHERE dataset = ? LIMIT 1", (dataset,)
            ).fetchone()
            limit = f"more than the share of {self._rules.max_reject_share:g} that SCHOLARBASE_MAX_REJECT_SHARE allows"
            what, why = ("entries", "so that no paper is left") if nothing_left else ("lines", limit)
            raise TooManyRejects(
                f"{rejects:,} of {lines:,} {what} of the dataset {dataset} were rejected, {why}. The first is line "
                f"{line} of {file}: {detail}"
            )

    def _check_sets(self) -> None:
        for name, files in self._sets.items():
            if not self._db.execute("SELECT 1 FROM sets WHERE name = ?", (name,)).fetchone():
                raise SourceError(
                    f"The set {name!r} has no paper: the keep rule {self._rules.keep!r} keeps none of "
                    f"{', '.join(files)}. Leave --set {name} out, or use --restart with another --keep."
                )

    # -- index ------------------------------------------------------------------------------------------

    def _index(self, bm25: Bm25Parameters) -> tuple[VectorConfig, dict[str, int]]:
        """Index authors and full text in a thread, and the vectors here, and hash the tables in a subprocess."""
        # Free this connection's page cache: the other one needs the memory.
        self._db.execute("PRAGMA cache_size = -16384")
        self._db.execute("PRAGMA shrink_memory")
        text = TextIndexing(self._folder.catalog, self._reporter)
        text.start()
        try:
            with hashed_tables(self._folder.catalog, self._count("papers")) as tables:
                config = self._vector_config()
                self._index_vectors(config, bm25)
                text.finish()
                if self._texts is not None:
                    index_passages(
                        self._db, self._texts.db, self._folder, config, self._rules.chunker, self._encoder,
                        self._reporter,
                    )  # fmt: skip
                return config, tables()
        except BaseException:
            text.stop()
            raise

    def _index_vectors(self, config: VectorConfig, bm25: Bm25Parameters) -> None:
        if self._checkpoint.get("vectors_done"):
            return
        if self._number == 1:
            Partitions.none(self._folder, self._checkpoint)
            index_vectors(
                self._db, self._checkpoint, self._folder.catalog, self._folder.vectors, config, bm25, self._encode(),
                self._reporter,
            )  # fmt: skip
            return
        papers = self._count("papers")
        check_memory(self._number, papers, config)
        parts = Partitions.divide(self._folder, self._checkpoint, self._db, self._number)
        static = None if self._vectors or self._checkpoint.get("encoded") else static_folder(self._encoder)
        if static is None:
            self._encode()  # one model for all: it uses all cores or the GPU by itself
        dense = None if static or self._encoder is None else self._folder.dense
        parts.make(papers, config, bm25, dense, static, self._reporter)
        with self._checkpoint.transaction():
            self._checkpoint.set("vectors_done", True)

    def _vector_config(self) -> VectorConfig:
        spec = self._encoder.spec if self._encoder else None
        # Vectors computed elsewhere come without learned weights.
        learned = spec is not None and spec.learned_sparse and self._vectors is None
        config = VectorConfig(dimensions=(spec.dimensions or None) if spec else None, learned=learned)
        return config.with_small_graph() if spec is not None and spec.kind == STATIC else config

    def _encode(self) -> DenseLookup:
        parts = DenseParts(self._folder.dense)
        if self._encoder is None or self._checkpoint.get("encoded"):
            return parts.open()
        counts: Counter[str] = Counter()
        static = static_folder(self._encoder)
        if self._vectors is None and static is not None and pays_off(self._count("papers")):
            encode_apart(
                self._folder.library, self._folder.catalog, self._folder.dense, static, self._reporter
            )
        elif self._vectors is None:
            encode_papers(self._db, parts, self._encoder, self._reporter)
        else:
            counts = load_vectors(
                self._db, parts, self._encoder, self._vectors, self._plan["title_weight"], self._reporter
            )
            if self._vectors_hash() != self._plan["vectors"]:
                raise SourceChanged(
                    f"The vectors at {self._vectors} changed while they were being read: run the same command again "
                    "when they are complete."
                )
        with self._checkpoint.transaction():
            self._checkpoint.add("counts", counts.items())
            self._checkpoint.set("encoded", True)
        return parts.open()

    # -- seal -------------------------------------------------------------------------------------------

    def _seal(
        self,
        facts: Sequence[SourceFact],
        config: VectorConfig,
        bm25: Bm25Parameters,
        tables: Mapping[str, int],
    ) -> None:
        """Write what is left of the library in the building folder, the manifest last."""
        with closing(EdgeIndex.open(self._folder.vectors, view=False)) as index:
            counts = self._counts(index, config)
            similarity = random_similarity(self._db, index, self._encoder) if self._encoder else None
            sums = {**tables, **self._sum_vectors(index, counts["points"])}
        documents: dict[str, Any] | None = None
        if self._texts is not None:
            more, rows = summarize(self._texts.db, self._folder.catalog, self._folder, self._reporter)
            sums, counts = {**sums, **more}, dict(sorted({**counts, **rows}.items()))
            documents = {
                "chunker": self._rules.chunker,
                "tokens": self._tokens.name,
                "bm25": parameters_of(self._rules.chunker).to_dict(),
                "vectors": config.to_dict(),
            }
        content = part_hashes(sums)
        self._checkpoint.write_rejects(self._folder.path / REJECTS)
        if self._encoder is not None:
            about = {**self._encoder_locations, "query_probe": probe(self._encoder)}
            self._folder.write(ENCODER, orjson.dumps(about, option=orjson.OPT_INDENT_2))
        manifest = Manifest(
            sources=tuple(facts),
            rules={
                "keep": self._rules.keep,
                "profile": self._rules.profile,
                "document_text": "title, newline, abstract",
                **({"title_weight": weight} if (weight := self._plan["title_weight"]) > 1 else {}),
                "records": self._rules.records,
                **({"columns": self._columns} if self._columns else {}),
            },
            counts=counts,
            rejects=dict(sorted(self._checkpoint.get("rejects", {}).items())),
            fulltext={"tokenizer": fulltext.TOKENIZER, "title_weight": fulltext.TITLE_WEIGHT},
            bm25=bm25.to_dict(),
            vectors=config.to_dict()
            | {
                "computed_elsewhere": self._plan["vectors"],
                "random_similarity": similarity,
            },
            content=content,
            content_hash=content_hash(content),
            encoder=self._encoder.spec if self._encoder else None,
            release=self._release,
            sets=self._named_sets(),
            documents=documents,
        )
        if self._rules.records:
            self._store.index_citations()
            with self._store.transaction():
                self._store.set_sums(sums)
            self._store.finish()
        self._folder.write(self._folder.pending_manifest.name, manifest.to_bytes())
        if self._texts is not None:
            self._texts.set_snapshot(manifest.snapshot)
        with self._checkpoint.transaction():
            self._checkpoint.drop()
            self._db.execute("INSERT INTO meta VALUES ('snapshot', ?)", (manifest.snapshot,))

    def _named_sets(self) -> dict[str, dict[str, Any]]:
        """The sets as the manifest lists them."""
        sizes = dict(self._db.execute("SELECT name, count(*) FROM sets GROUP BY name"))
        return {
            name: {"sources": sorted(files), "papers": sizes[name]}
            for name, files in sorted(self._sets.items())
        }

    def _sum_vectors(self, index: EdgeIndex, points: int) -> dict[str, int]:
        """The sums of the vectors. The same pass over them counts the document frequencies, which are stored."""
        parts = Partitions.stored(self._folder, self._checkpoint)
        with (
            TemporaryDirectory(prefix="terms-", dir=self._folder.path) as temporary,
            self._reporter.stage("hash content", "papers", points) as tracker,
        ):
            counter = FrequencyCounter(self._db, Path(temporary))
            if parts is None:
                sums = vector_sums(index, counter, tracker.advance)
            else:
                parts.check(points, self._count("papers"))
                sums = parts.sums()
                parts.count(counter)
                tracker.advance(points)
            with self._checkpoint.transaction():
                counter.write(self._db)
        return sums

    def _counts(self, index: EdgeIndex, config: VectorConfig) -> dict[str, int]:
        counts: dict[str, int] = dict(self._checkpoint.get("counts", {}))
        counts |= count_rows(self._db)
        counts["citations_repeated"] = counts.get("citations_used", 0) - counts["edges"]
        counts["points"] = index.count(NO_FILTERS)
        counts["dense_vectors"] = index.count(NO_FILTERS, vector=DENSE) if config.dimensions else 0
        return dict(sorted(counts.items()))

    def _sealed(self) -> bool:
        """Whether an earlier run wrote the manifest, so that only the list of files and the moves are left."""
        if self._folder.pending_contents.exists():
            return True
        if not self._folder.pending_manifest.exists():
            return False
        with closing(open_for_reading(self._folder.catalog)) as db:
            return read_meta(db, "snapshot") == snapshot_id(self._folder.pending_manifest.read_bytes())

    def _publish(self) -> Manifest:
        if not self._folder.pending_contents.exists():
            finish(self._folder.catalog)
            if self._folder.documents.exists():
                finish_documents(self._folder.documents)
            shutil.rmtree(self._folder.dense, ignore_errors=True)
            if not Manifest.from_bytes(
                self._folder.pending_manifest.read_bytes(), self._folder.pending_manifest
            ).rules["records"]:
                self._folder.records.unlink(missing_ok=True)
            self._folder.list_files()
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

    def _count(self, table: str) -> int:
        return int(self._db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def _batch(entries: Iterator[Entry]) -> list[Entry]:
    """The entries of the next transaction."""
    batch: list[Entry] = []
    size = 0
    for entry in entries:
        batch.append(entry)
        size += entry.size
        if len(batch) == LINES_PER_COMMIT or size >= BYTES_PER_COMMIT:
            break
    return batch


def hash_files(files: Sequence[tuple[Path, str, str, int]], reporter: Reporter) -> list[SourceFact]:
    """Hash files, each with its name, dataset and size."""
    with reporter.stage("fingerprint", "bytes", sum(size for *_, size in files)) as tracker:
        facts = []
        done = 0
        for path, name, dataset, size in files:
            facts.append(SourceFact(name, dataset, size, sha256_of(path)))
            done += size
            tracker.at(done)
            tracker.advance(size)
    return facts
