"""Full texts: the ingest of their passages, its memory, and searches of passages, each beside the bare work.

The texts are those of the unarXive sample, copied under other ids until there are enough, each a paper of its own, cut
by ``tokens-512`` and encoded by the encoder in the package. The floors of the ingest are the tokenizer alone, one
passage after the other in one thread, and Qdrant Edge's own build of the same points, whose vectors and payloads are
ready: upsert and optimize. The floor of a search inside a paper is rank-bm25 on the passages' lists of words: the index
it makes and the scores.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import orjson
import qdrant_edge as qdrant
from rank_bm25 import BM25Okapi
from tokenizers import Tokenizer

from benchmarks import memory
from benchmarks.parts.ingest import ROOT, Clock, Ingested, StageTimes, cpu_seconds, optimize, sync
from benchmarks.rows import Row, Setting
from benchmarks.timing import interleaved, questions, read_files, size, summary
from scholarbase.databases import open_immutable
from scholarbase.documents.ranking import K1, B
from scholarbase.documents.schema import FILE_NAME
from scholarbase.encoders import open_encoder
from scholarbase.encoders.registry import PACKAGED_FOLDER
from scholarbase.files import atomic_write
from scholarbase.indexes.passages import FOLDER as PASSAGES
from scholarbase.indexes.vectors import edge
from scholarbase.indexes.vectors.base import DENSE, VectorPoint, edge_config
from scholarbase.indexes.vectors.index import EdgeIndex
from scholarbase.ingest.job import ingest
from scholarbase.manifest import read_manifest
from scholarbase.models.encoders import PACKAGED
from scholarbase.search.library import Library
from scholarbase_sql.worker import add_text_function

PART: Final = "passages"
DOCUMENTS: Final = 20_000
"""Documents at most: with ``--papers`` below that, as many as papers."""
CHUNKER: Final = "tokens-512"
MEMORY_PARTS: Final = 4
MEMORY_TARGET: Final = 1.3
POINTS_PER_UPSERT: Final = 2_000
LIMIT: Final = 10
QUESTIONS: Final = 200
ROUNDS: Final = 3
READ_PAPERS: Final = 20
"""Papers that are asked again and again: the first questions are not measured."""
_WORD: Final = re.compile(r"\w+")


def run(setting: Setting) -> list[Row]:
    """Rows of the ingest and its memory, of searches of passages, and of searches inside a paper."""
    count = min(DOCUMENTS, setting.papers)
    few = max(1, count // MEMORY_PARTS)
    library = setting.work / f"passages-{count}"
    whole = _ingested(setting, count, library)
    rows = ingest_rows(library, whole, setting.work / "bare-passages")
    small = setting.work / f"passages-{few}"
    rows.append(memory_row(whole, _ingested(setting, few, small), (count, few)))
    shutil.rmtree(small)
    read_files(library)
    return [*rows, search_row(setting, library), *paper_rows(setting, library)]


def write_documents(source: Path, target: Path, count: int) -> None:
    """Write ``count`` unarXive records atomically: those of ``source``, again and again, with ids of December 2022."""
    with gzip.open(source) as lines:
        records = [orjson.loads(line) for line in lines]
    with atomic_write(target) as file, gzip.GzipFile(fileobj=file, mode="wb", compresslevel=1) as packed:
        for number in range(count):
            record = records[number % len(records)]
            name = f"2212.{number + 1:05}"
            metadata = record["metadata"] | {"id": name, "doi": None}
            packed.write(
                orjson.dumps(
                    record | {"paper_id": name, "metadata": metadata}, option=orjson.OPT_APPEND_NEWLINE
                )
            )


def _ingested(setting: Setting, count: int, library: Path) -> Ingested:
    """Ingest so many documents into a new library, in a process of its own."""
    documents = setting.work / f"documents-{count}.jsonl.gz"
    if not documents.exists():
        [source] = sorted((setting.data / "unarxive-sample").glob("*.jsonl.gz"))
        write_documents(source, documents, count)
    shutil.rmtree(library, ignore_errors=True)
    sync()
    command = [sys.executable, "-m", "benchmarks.parts.passages"]
    output, peak = memory.run([*command, str(documents.resolve()), str(library.resolve())], ROOT)
    return Ingested(**json.loads(output), peak=peak)


# -- the ingest -----------------------------------------------------------------------------------------


def ingest_rows(library: Path, whole: Ingested, work: Path) -> list[Row]:
    """The rows of the whole ingest beside the tokenizer and beside Edge, which both run on the finished ``library``."""
    manifest, _ = read_manifest(library)
    passages = manifest.counts["passages"]
    clock = bare(library, work)
    build = clock.seconds["upsert"] + clock.seconds["optimize"]
    notes: dict[str, Any] = {
        "seconds": whole.seconds,
        "cpu_seconds": whole.cpu_seconds,
        "stages": whole.stages,
        "floor_parts": clock.seconds,
        "floor_cpu_seconds": clock.cpu_seconds,
        "documents": manifest.counts["documents"],
        "passages": passages,
        "library_bytes": size(library),
    }
    what = f"ingest of {manifest.counts['documents']:,} full texts, {passages:,} passages of {CHUNKER}"
    floors: tuple[tuple[str, float, dict[str, Any]], ...] = (
        ("the tokenizer alone on the same passages", clock.seconds["tokenize"], notes),
        ("Edge's own build of the same points: upsert and optimize", build, {}),
    )
    return [
        Row(
            PART,
            what,
            beside,
            passages / whole.seconds,
            passages / seconds,
            "passages/s",
            whole.seconds / seconds,
            notes=facts,
        )
        for beside, seconds, facts in floors
    ]


def bare(library: Path, work: Path) -> Clock:
    """Measure the tokenizer, and Edge, on the passages of a finished library. Texts are read, and points made, outside
    the measurement, batch by batch."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    clock = Clock()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    tokenizer = Tokenizer.from_file(str(PACKAGED_FOLDER / "tokenizer.json"))
    for texts in _texts(library):
        with clock.running("tokenize"):
            for text in texts:
                tokenizer.encode(text, add_special_tokens=False)
    sync()
    with closing(EdgeIndex.open(library / PASSAGES)) as index:
        edge.EdgeWriter.open(work / "shard", index.config).close()
        shard = qdrant.EdgeShard.load(str(work / "shard"), edge_config(index.config))
        unsealed = 0
        for batch in index.points(POINTS_PER_UPSERT):
            points = [_point(record) for record in batch]
            with clock.running("upsert"):
                shard.update(qdrant.UpdateOperation.upsert_points(points))
            unsealed += len(batch)
            if unsealed >= edge.SEGMENT_POINTS:
                optimize(shard, clock)
                unsealed = 0
        optimize(shard, clock)
        shard.close()
    shutil.rmtree(work)
    return clock


def _point(point: VectorPoint) -> qdrant.Point:
    vectors: dict[str, Any] = {
        name: qdrant.SparseVector(list(vector.indices), list(vector.values))
        for name, vector in point.sparse.items()
        if len(vector.indices)
    }
    if point.dense is not None:
        vectors[DENSE] = point.dense.tolist()
    return qdrant.Point(point.id, vectors, point.payload.to_dict())


def _texts(library: Path) -> Iterator[list[str]]:
    """The texts of the passages of a library, in the order of their numbers."""
    with closing(open_immutable(library / FILE_NAME)) as db:
        add_text_function(db, db)
        rows = db.execute("SELECT document_text(document, start, end) FROM passages ORDER BY id")
        while batch := rows.fetchmany(POINTS_PER_UPSERT):
            yield [text for (text,) in batch]


def memory_row(whole: Ingested, few: Ingested, documents: tuple[int, int]) -> Row:
    """The row of peak resident memory, mapped files included."""
    notes = {
        "documents": list(documents),
        "anonymous_mb": [whole.peak.anonymous, few.peak.anonymous],
        "processes": [whole.peak.processes, few.peak.processes],
    }
    here, floor = whole.peak.resident, few.peak.resident
    what, beside = f"peak memory of that ingest, {documents[0]:,} full texts", f"that of {documents[1]:,}"
    return Row(PART, what, beside, here, floor, "MB", here / floor, "at most", MEMORY_TARGET, notes)


# -- searches -------------------------------------------------------------------------------------------


def search_row(setting: Setting, path: Path) -> Row:
    """The row of a search of all passages and a search of the papers, both by words, in one library."""
    with Library.open(path, encoder="none") as library:
        times = interleaved(
            {
                "passages": lambda q: library.search_passages(q, syntax="plain", limit=LIMIT),
                "papers": lambda q: library.search(q, syntax="plain", mode="sparse", limit=LIMIT),
            },
            questions(setting, QUESTIONS),
            ROUNDS,
        )
    here, floor = (statistics.median(times[name]) for name in ("passages", "papers"))
    notes = {"ms": {name: summary(latencies) for name, latencies in times.items()}}
    what, beside = f"the {LIMIT} best passages over all", "a search of the papers of the same library"
    return Row(PART, what, beside, here, floor, "ms", here / floor, notes=notes)


def paper_rows(setting: Setting, path: Path) -> list[Row]:
    """The rows of a search inside one paper, asked before or not, and rank-bm25 alone on its words."""
    asked = questions(setting, QUESTIONS)
    with Library.open(path, encoder="none") as library:
        words = _papers(path, len(asked))
        papers = list(words)

        def rank(pair: tuple[str, str]) -> object:
            paper, question = pair
            return BM25Okapi(words[paper], k1=K1, b=B).get_scores(_WORD.findall(question.lower()))

        rows = []
        few = papers[:READ_PAPERS]
        for which, chosen in (("that was asked before", few), ("not asked before", papers)):
            pairs = [(chosen[number % len(chosen)], question) for number, question in enumerate(asked)]
            times = interleaved(
                {
                    "passages": lambda pair: library.passages(*pair, engine="bm25", limit=LIMIT),
                    "rank_bm25": rank,
                },
                pairs,
            )
            here, floor = (statistics.median(times[name]) for name in ("passages", "rank_bm25"))
            notes = {"ms": {name: summary(latencies) for name, latencies in times.items()}}
            what = f"the {LIMIT} best passages of a paper {which}"
            rows.append(Row(PART, what, "rank-bm25 alone", here, floor, "ms", here / floor, notes=notes))
    return rows


def _papers(library: Path, count: int) -> dict[str, list[list[str]]]:
    """So many papers by their arXiv ids, each with the lists of its passages' words."""
    with closing(open_immutable(library / FILE_NAME)) as db:
        add_text_function(db, db)
        db.execute("ATTACH ? AS catalog", (f"file:{library.resolve()}/catalog.sqlite?mode=ro&immutable=1",))
        papers = db.execute(
            """
            SELECT catalog.papers.arxiv_id, documents.id FROM documents
            JOIN catalog.papers ON catalog.papers.id = documents.paper ORDER BY documents.id
            """
        ).fetchall()
        sql = "SELECT document_text(document, start, end) FROM passages WHERE document = ? ORDER BY id"
        return {
            f"arXiv:{name}": [_WORD.findall(text.lower()) for (text,) in db.execute(sql, (document,))]
            for name, document in papers[:: -(-len(papers) // count)]
        }


def main(arguments: Sequence[str]) -> None:
    """Ingest full texts, and print seconds, processor seconds and stages as JSON."""
    documents, library = arguments
    times = StageTimes()
    began, worked = time.perf_counter(), cpu_seconds()
    with closing(open_encoder(PACKAGED)) as encoder:
        ingest([], library, encoder=encoder, encoder_location=PACKAGED, documents=[documents], reporter=times)
    seconds, worked = time.perf_counter() - began, cpu_seconds() - worked
    print(json.dumps({"seconds": seconds, "cpu_seconds": worked, "stages": times.stages}))


if __name__ == "__main__":
    main(sys.argv[1:])
