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
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import orjson

from scholarbase.databases import open_for_reading
from scholarbase.documents.chunkers import CHUNKERS
from scholarbase.documents.readers import detect_documents, sidecars
from scholarbase.documents.tokens import tokens_of
from scholarbase.encoders import Encoder
from scholarbase.encoders.paired import PairedEncoder
from scholarbase.encoders.probe import probe
from scholarbase.errors import (
    EncoderMismatch,
    InvalidRequest,
    LibraryExists,
    SourceChanged,
    SourceError,
    VectorIndexError,
)
from scholarbase.indexes import fulltext
from scholarbase.indexes.content_hash import content_hash, part_hashes
from scholarbase.indexes.frequencies import FrequencyCounter
from scholarbase.indexes.passages import parameters_of
from scholarbase.indexes.vectors.base import VectorConfig
from scholarbase.indexes.vectors.bm25 import Bm25Parameters
from scholarbase.ingest import sealing
from scholarbase.ingest.dense import DenseParts
from scholarbase.ingest.encoded import Encoding
from scholarbase.ingest.encoding import check_first_vectors, encode_papers, load_vectors
from scholarbase.ingest.folder import ENCODER, BuildFolder, build_errors
from scholarbase.ingest.fulltexts import FullTexts
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
from scholarbase.ingest.reading import Reading
from scholarbase.ingest.sources import UNUSED, Columns, Dataset, SourceFile, discover, sha256_of
from scholarbase.ingest.text import indexing_text
from scholarbase.ingest.vector_worker import VectorWork
from scholarbase.manifest import FILE_NAME, SHARDS, Manifest, SourceFact, read_manifest
from scholarbase.memory import rare_collections
from scholarbase.models.encoders import STATIC
from scholarbase.progress import Reporter, SilentReporter

log = logging.getLogger("scholarbase.ingest")

MOST_LISTED: Final = 4_000
"""Characters of the list of vector files in the manifest. A longer one is replaced by its hash."""

_REFUSED: Final = "refused"
"""In the stored plan of a job whose vectors were refused: another plan replaces it without ``restart``."""


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
        restart: replace a finished library, or an unfinished one with other sources or rules.

    Raises:
        SourceError: a source cannot be read, or (SourceChanged) changed since the job began, or
            (TooManyRejects) has too many bad records.
        LibraryError: the folder is in use (LibraryExists, LibraryBusy), or the vectors are from another
            encoder (EncoderMismatch).
        StorageError: the disk is full, or the folder is not writable.
        EncoderError: the encoder fails, or the query encoder has other dimensions.
    """
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
    if vectors is not None and encoder is not None:
        if (encoding := Encoding.read(Path(vectors))) is not None:
            encoding.check(encoder.spec, Path(vectors))
        check_first_vectors(Path(vectors), encoder.spec)
    library = Path(library)
    with build_errors(library), rare_collections():
        folder = BuildFolder(library)
        try:
            at = None if vectors is None else Path(vectors)
            job = _Job(folder, encoder, locations, at, rules, reporter or SilentReporter())
            return job.run(sources, sets, columns, documents, restart=restart)
        finally:
            folder.close()


@dataclass
class _Job:
    folder: BuildFolder
    encoder: Encoder | None
    encoder_locations: Mapping[str, str | None]
    vectors: Path | None
    rules: IngestRules
    reporter: Reporter

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
        files = _without_unused(discover(given, columns)) if given or not documents else []
        self._documents = detect_documents(documents) if documents else []
        self._release = release_of(sources)
        facts = hash_files(
            [(file.path, file.name, file.kind, file.size) for file in files]
            + [(file.path, file.name, str(file.source), file.size) for file in self._documents]
            + [
                (path, name, str(source), path.stat().st_size)
                for path, name, source in sidecars(self._documents)
            ],
            self.reporter,
        )
        spec = self.encoder.spec if self.encoder else None
        self._sets, self._columns = named_sets(sets, files), dict(columns)
        self._plan = plan = make_plan(
            facts,
            self.rules,
            spec,
            self._title_weight(),
            self._vectors_hash(),
            self._sets,
            self._columns,
        )
        library = self.folder.library
        if (written := sealing.sealed(self.folder)) is not None:
            # Only the moves are left: of this library, or of one with another plan.
            if not restart or plan_of(written) == plan:
                sealing.publish(self.folder, self.reporter)
                return _finished(library, plan)
            self.folder.clear()
        unfinished = self._unfinished_plan()
        refused = unfinished is not None and unfinished.pop(_REFUSED, False)
        if unfinished is None and not restart and (library / FILE_NAME).exists():
            return _finished(library, plan)
        if unfinished is not None and unfinished != plan:
            if not restart and not refused:
                raise SourceChanged(
                    f"The unfinished library at {library} and this command differ in {difference(unfinished, plan)}: "
                    "run the command that started it, or give --restart."
                )
            self.folder.clear()
        elif unfinished is not None:
            log.info("Continuing the unfinished library at %s.", library)
        self._build(files, facts)
        return sealing.publish(self.folder, self.reporter)

    def _build(self, files: Sequence[SourceFile], facts: Sequence[SourceFact]) -> None:
        """Run the stages up to the seal."""
        with ExitStack() as stack:
            reading = Reading(self.folder, self.rules, self.reporter, self._columns, self._sets)
            stack.enter_context(closing(reading))
            self._db, self._store, self._checkpoint = reading.db, reading.store, reading.checkpoint
            self._texts: FullTexts | None = None
            if self._documents:
                self._tokens = tokens_of(self.encoder)
                self._texts = FullTexts(
                    self.folder.documents,
                    self._db,
                    self._checkpoint,
                    CHUNKERS[self.rules.chunker],
                    self._tokens,
                    self.reporter,
                )
                stack.enter_context(closing(self._texts))
            with self._checkpoint.transaction():
                self._checkpoint.set("plan", self._plan)
            reading.read(files, facts, self._texts, self._documents)
            self._papers = reading.count("papers")
            bm25 = Bm25Parameters()
            config, table_sums = self._index(bm25)
            self._seal(facts, config, bm25, table_sums)

    # -- fingerprint ------------------------------------------------------------------------------------

    def _title_weight(self) -> int:
        """The number of times the title is repeated in encoded texts: 1 for vectors of other programs."""
        if self.vectors is not None:
            record = Encoding.read(self.vectors)
            return 1 if record is None else record.title_weight
        return 1 if self.encoder is None else self.encoder.spec.title_weight

    def _vectors_hash(self) -> str | None:
        if self.vectors is None:
            return None
        files = [self.vectors, self.vectors.with_name("ids.txt")]
        if self.vectors.is_dir():
            files = sorted(self.vectors.iterdir())
        elif self.vectors.suffix != ".npy":
            files.pop()
        listed = ",".join(f"{file.name}:{sha256_of(file)}" for file in files if file.is_file())
        if len(listed) <= MOST_LISTED:
            return listed
        return f"{len(files)} files:{hashlib.sha256(listed.encode()).hexdigest()}"

    def _unfinished_plan(self) -> dict[str, Any] | None:
        """The plan of the unfinished job in the folder, None without one."""
        if not self.folder.catalog.exists():
            return None
        with closing(open_for_reading(self.folder.catalog)) as db:
            try:
                row = db.execute("SELECT value FROM ingest_state WHERE key = 'plan'").fetchone()
            except sqlite3.OperationalError:  # killed before the table was created
                return None
        return None if row is None else dict(orjson.loads(row[0]))

    # -- index ------------------------------------------------------------------------------------------

    def _index(self, bm25: Bm25Parameters) -> tuple[VectorConfig, dict[str, int]]:
        """Index authors and full text and hash the tables in threads, and the vectors in a worker."""
        # Free the page caches: the other processes need the memory.
        self._db.execute("PRAGMA cache_size = -16384")
        for db in (self._db, self._store.db):
            db.execute("PRAGMA shrink_memory")
        catalog = self.folder.catalog
        config = self._vector_config()
        self._vector_work = VectorWork(self.folder, self.rules.shards)
        with indexing_text(catalog, self.reporter) as finish:
            if self._vector_work.sums() is None:
                if self.encoder is not None:
                    self._encode(self.encoder)
                self._vector_work.make(self._papers, config, bm25, self.reporter)
            table_sums = finish()
            if self._texts is not None:
                index_passages(
                    self._db, self._texts.db, self.folder, config, self.rules.chunker, self.encoder,
                    self.reporter,
                )  # fmt: skip
            return config, table_sums

    def _vector_config(self) -> VectorConfig:
        spec = self.encoder.spec if self.encoder else None
        # Vectors computed elsewhere come without learned weights.
        learned = spec is not None and spec.learned_sparse and self.vectors is None
        config = VectorConfig(dimensions=(spec.dimensions or None) if spec else None, learned=learned)
        return config.with_small_graph() if spec is not None and spec.kind == STATIC else config

    def _encode(self, encoder: Encoder) -> None:
        """Encode all papers, or load the vectors that were computed elsewhere."""
        if self._checkpoint.get("encoded"):
            return
        parts = DenseParts(self.folder.dense)
        counts: Counter[str] = Counter()
        if self.vectors is None:
            encode_papers(self._db, parts, encoder, self.reporter)
        else:
            try:
                counts = load_vectors(
                    self._db, parts, encoder, self.vectors, self._plan["title_weight"], self.reporter
                )
            except (EncoderMismatch, SourceError):
                with self._checkpoint.transaction():
                    self._checkpoint.set("plan", self._plan | {_REFUSED: True})
                raise
            if self._vectors_hash() != self._plan["vectors"]:
                raise SourceChanged(
                    f"The vectors at {self.vectors} changed while they were being read: run the same command again "
                    "when they are complete."
                )
        with self._checkpoint.transaction():
            self._checkpoint.add("counts", counts.items())
            self._checkpoint.set("encoded", True)

    # -- seal -------------------------------------------------------------------------------------------

    def _seal(
        self,
        facts: Sequence[SourceFact],
        config: VectorConfig,
        bm25: Bm25Parameters,
        table_sums: Mapping[str, int],
    ) -> None:
        """Write what is left of the library in the building folder, the manifest last."""
        measured, similarity = sealing.measure(self._db, self.folder, config, self.encoder, self.reporter)
        counts: dict[str, int] = {**self._checkpoint.get("counts", {}), **measured}
        counts["citations_repeated"] = counts.get("citations_used", 0) - counts["edges"]
        if measured["points"] != self._papers:
            raise VectorIndexError(
                f"The vector index has {measured['points']:,} points, and the library has {self._papers:,} papers: run "
                "the same command with --restart, and report this."
            )
        sums = {**table_sums, **(self._vector_work.sums() or {})}
        with self.reporter.stage("count words", None, None), self._checkpoint.transaction():
            FrequencyCounter(self._db, self._vector_work.terms).write(self._db)
        documents: dict[str, Any] | None = None
        if self._texts is not None:
            document_sums, document_counts = summarize(
                self._texts.db, self.folder.catalog, self.folder, self.reporter
            )
            sums, counts = {**sums, **document_sums}, {**counts, **document_counts}
            documents = {
                "chunker": self.rules.chunker,
                "tokens": self._tokens.name,
                "bm25": parameters_of(self.rules.chunker).to_dict(),
                "vectors": config.to_dict(),
            }
        content = part_hashes(sums)
        if self.encoder is not None:
            about = {**self.encoder_locations, "query_probe": probe(self.encoder)}
            self.folder.write(ENCODER, orjson.dumps(about, option=orjson.OPT_INDENT_2))
        manifest = Manifest(
            sources=tuple(facts),
            rules={
                "keep": self.rules.keep_rule,
                "profile": self.rules.profile,
                "document_text": "title, newline, abstract",
                **({"title_weight": weight} if (weight := self._plan["title_weight"]) > 1 else {}),
                "records": self.rules.records,
                **({"columns": self._columns} if self._columns else {}),
            },
            counts=counts,
            rejects=self._checkpoint.get("rejects", {}),
            fulltext={"tokenizer": fulltext.TOKENIZER, "title_weight": fulltext.TITLE_WEIGHT},
            bm25=bm25.to_dict(),
            vectors=config.to_dict()
            | {
                "computed_elsewhere": self._plan["vectors"],
                "random_similarity": similarity,
            }
            | ({SHARDS: self.rules.shards} if self.rules.shards > 1 else {}),
            content=content,
            content_hash=content_hash(content),
            encoder=self.encoder.spec if self.encoder else None,
            release=self._release,
            sets=sealing.named_sets(self._db, self._sets),
            documents=documents,
        )
        if self._texts is not None:
            self._texts.set_snapshot(manifest.snapshot)
        sealing.seal(self.folder, self._db, self._checkpoint, self._store, sums, manifest, self.reporter)


def _without_unused(files: list[SourceFile]) -> list[SourceFile]:
    for file in files:
        if file.dataset in UNUSED:
            hint = ": give it with --documents" if file.dataset is Dataset.S2ORC else ""
            log.warning("Skipping %s: the dataset %s is not used%s.", file.name, file.dataset, hint)
    return [file for file in files if file.dataset not in UNUSED]


def _finished(library: Path, plan: dict[str, Any]) -> Manifest:
    """The finished library. Raises LibraryExists: it has another plan."""
    manifest, snapshot = read_manifest(library)
    finished = plan_of(manifest)
    if finished != plan:
        advice = "give another --library, or --restart to replace it"
        if finished["sources"] != plan["sources"]:
            update = f'"scholarbase update {library} SOURCES --library NEW"'
            advice = f"for sources that changed, run {update}; else {advice}"
        raise LibraryExists(
            f"{library} already has a library (snapshot {snapshot}) from other {difference(finished, plan)}: {advice}."
        )
    log.info("The library at %s is already complete.", library)
    return manifest


def hash_files(files: Sequence[tuple[Path, str, str, int]], reporter: Reporter) -> list[SourceFact]:
    """Hash files, each with its name, dataset and size."""
    with reporter.stage("fingerprint", "bytes", sum(size for *_, size in files)) as tracker:
        return [
            SourceFact(name, dataset, size, sha256_of(path, tracker.advance))
            for path, name, dataset, size in files
        ]
