"""Recall and latency of BM25 with feedback compared with plain BM25.

Measured on the arXiv snapshot without copies. The rows are of the odd-numbered half of the questions; the weights were
chosen on the even-numbered half, whose figures are in the notes.
"""

from __future__ import annotations

import shutil
import sqlite3
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

import qdrant_edge

from benchmarks import corpus, runs
from benchmarks.rows import Row, Setting
from benchmarks.timing import interleaved, read_files, summary
from scholarbase.identifiers import parse
from scholarbase.indexes import catalog
from scholarbase.indexes.catalog import Catalog
from scholarbase.indexes.vectors.base import BM25
from scholarbase.ingest.job import ingest
from scholarbase.models.limits import Engine
from scholarbase.search.library import Library
from scholarbase_research.evaluation.answers import resolve_answers
from scholarbase_research.evaluation.formats import read_queries

PART: Final = "recall"
LIMIT: Final = 100
CUTOFFS: Final = (20, 100)
TARGETS: Final = {20: 1.10, 100: 1.15}
"""Minimum ratio of recall with feedback to plain BM25, by cutoff."""
POINTS: Final = 2_000
"""Points in one upsert."""

Search = Callable[[str], Sequence[int]]
"""Maps a question to catalogue ids, best first."""


def run(setting: Setting) -> list[Row]:
    """Rows of recall at 20 and 100, latency, and nDCG@10 on SciFact."""
    path = setting.work / "arxiv-library"
    ingest([corpus.arxiv_source(setting.data)], path)
    plain = Plain(path, setting.work / "plain-bm25")
    read_files(path)
    library = Library.open(path, encoder="none")
    with closing(library), closing(plain), closing(Catalog(path / catalog.FILE_NAME)) as papers:

        def ids_by(engine: Any) -> Search:
            def search(question: str) -> list[int]:
                hits = library.search(
                    question, mode="sparse", engine=engine, limit=LIMIT, fields=("id",)
                ).results
                ids = papers.resolve([parse(hit.paper.id) for hit in hits])
                return [paper for paper in ids if paper is not None]

            return search

        answers = held_answers(setting, library, papers)
        by_engine = {
            "plain": recalls(plain.search, answers),
            "bm25": recalls(ids_by("bm25"), answers),
            "feedback": recalls(ids_by("feedback"), answers),
        }
        engines: tuple[Engine, ...] = ("bm25", "feedback")
        searches: dict[str, Callable[[str], Any]] = {
            name: partial(library.search, mode="sparse", engine=name, limit=LIMIT, fields=("id", "title"))
            for name in engines
        }
        times = interleaved(searches, [text for text, _ in answers.values()])
    return [*(_recall(cutoff, by_engine) for cutoff in CUTOFFS), _time(times), on_scifact(setting)]


def held_answers(setting: Setting, library: Library, papers: Catalog) -> dict[str, tuple[str, set[int]]]:
    """Each question's text and its answers that the library holds, by id in the order of the file."""
    judged = resolve_answers(library, read_queries(setting.queries)).queries
    answers = {}
    for query in judged:
        names = [parse(answer.paper_id) for answer in query.relevant if answer.held]
        answers[query.id] = query.text, {paper for paper in papers.resolve(names) if paper is not None}
    return answers


def recalls(search: Search, answers: Mapping[str, tuple[str, set[int]]]) -> dict[int, list[float]]:
    """Each question's recall, by cutoff."""
    by_cutoff: dict[int, list[float]] = {cutoff: [] for cutoff in CUTOFFS}
    for text, relevant in answers.values():
        ranked = search(text)
        for cutoff in CUTOFFS:
            by_cutoff[cutoff].append(len(relevant & set(ranked[:cutoff])) / len(relevant))
    return by_cutoff


def _recall(cutoff: int, by_engine: Mapping[str, dict[int, list[float]]]) -> Row:
    halves = {
        name: {
            "chose nothing": statistics.fmean(by_cutoff[cutoff][1::2]),
            "chose": statistics.fmean(by_cutoff[cutoff][::2]),
            "all": statistics.fmean(by_cutoff[cutoff]),
        }
        for name, by_cutoff in by_engine.items()
    }
    here, floor = (halves[name]["chose nothing"] for name in ("feedback", "plain"))
    what = f"BM25 with feedback, R@{cutoff} of questions that chose nothing"
    beside = "plain BM25: one text, Qdrant's defaults"
    return Row(
        PART,
        what,
        beside,
        here,
        floor,
        f"R@{cutoff}",
        here / floor,
        "at least",
        TARGETS[cutoff],
        {"halves": halves},
    )


def _time(times: Mapping[str, list[float]]) -> Row:
    here, floor = (statistics.median(times[name]) for name in ("feedback", "bm25"))
    notes = {"ms": {name: summary(latencies) for name, latencies in times.items()}}
    return Row(
        PART, "BM25 with feedback, time", "BM25 alone", here, floor, "ms", here / floor, "at most", 3, notes
    )


def on_scifact(setting: Setting) -> Row:
    """The row of nDCG@10 with feedback on SciFact."""
    by_engine = runs.on_scifact(setting, ("feedback", "bm25"))
    here, floor = by_engine["feedback"].mean(runs.NDCG), by_engine["bm25"].mean(runs.NDCG)
    what = f"BM25 with feedback, {runs.NDCG} on SciFact"
    return Row(PART, what, "BM25 alone", here, floor, runs.NDCG, here, "at least", 0.685)


class Plain:
    """BM25 with defaults: title and abstract as one text, Qdrant's tokenizer, stop words and constants."""

    def __init__(self, library: Path, folder: Path) -> None:
        self._model = qdrant_edge.Bm25(qdrant_edge.Bm25Config(language="english"))
        if not folder.is_dir():
            growing = folder.with_name(f"{folder.name}.new")
            shutil.rmtree(growing, ignore_errors=True)
            growing.mkdir(parents=True)
            self._build(library, growing)
            growing.rename(folder)
        self._shard = qdrant_edge.EdgeShard.load(str(folder))

    def _build(self, library: Path, folder: Path) -> None:
        sparse = {BM25: qdrant_edge.EdgeSparseVectorParams(modifier=qdrant_edge.Modifier.Idf)}
        optimizers = qdrant_edge.EdgeOptimizersConfig(indexing_threshold=1)
        shard = qdrant_edge.EdgeShard.create(
            str(folder),
            qdrant_edge.EdgeConfig(sparse_vectors=sparse, optimizers=optimizers, wal_enabled=False),
        )
        texts = "SELECT id, title, abstract FROM papers JOIN abstracts ON paper_id = id"
        with closing(sqlite3.connect(library / catalog.FILE_NAME)) as db:
            cursor = db.execute(texts)
            while rows := cursor.fetchmany(POINTS):
                points = [
                    qdrant_edge.Point(paper, {BM25: self._model.embed_document(f"{title}\n{abstract}")}, {})
                    for paper, title, abstract in rows
                ]
                shard.update(qdrant_edge.UpdateOperation.upsert_points(points))
        shard.optimize()
        shard.flush()
        shard.close()

    def search(self, question: str) -> list[int]:
        nearest = qdrant_edge.Query.Nearest(self._model.embed_query(question), using=BM25)
        points = self._shard.query(qdrant_edge.QueryRequest(limit=LIMIT, query=nearest))
        return [int(point.id) for point in points]

    def close(self) -> None:
        self._shard.close()
