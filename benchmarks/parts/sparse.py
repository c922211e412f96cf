"""Sparse search in the process compared with FTS5's ranked OR over the same library, and with tantivy and bm25s over
the same texts: latency and quality."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks import engines, runs
from benchmarks.engines import Bm25s, Engine, Tantivy
from benchmarks.parts.recall import held_answers
from benchmarks.rows import Row, Setting
from benchmarks.timing import interleaved, questions, read_files, size, summary
from scholarbase.indexes import catalog, fulltext, query_syntax
from scholarbase.indexes.catalog import Catalog
from scholarbase.indexes.filters import NO_FILTERS
from scholarbase.indexes.vectors.base import BM25, ScoredId
from scholarbase.indexes.vectors.bm25 import Bm25Parameters, Bm25Text
from scholarbase.indexes.vectors.index import EdgeIndex
from scholarbase.manifest import read_manifest
from scholarbase.search.legs import Bm25Queries
from scholarbase.search.library import Library

PART: Final = "sparse"
LIMIT: Final = 100
FTS5_QUESTIONS: Final = 200
ROUNDS: Final = 3


def run(setting: Setting) -> list[Row]:
    """Rows of the whole call and FTS5, of quality on SciFact, and of the index and tantivy and bm25s."""
    read_files(setting.library)
    return [*compare_fts5(setting), quality(setting), *compare_engines(setting)]


class Index:
    """The library's BM25 index with the interface of the other engines."""

    def __init__(self, library: Path, threads: int | None = None) -> None:
        self.vectors = EdgeIndex.open(library / "vectors", threads=threads)
        self._papers = Catalog(library / catalog.FILE_NAME, readers=1)
        text = Bm25Text(Bm25Parameters.from_dict(read_manifest(library)[0].bm25))
        self._queries = Bm25Queries(text, self._papers.document_frequencies)

    def search(self, question: str, limit: int) -> list[ScoredId]:
        return self.vectors.search_sparse(BM25, self._queries.vector(question), limit, NO_FILTERS)

    def close(self) -> None:
        self.vectors.close()
        self._papers.close()


def compare_fts5(setting: Setting) -> list[Row]:
    """The row of a whole search call with titles and FTS5's bare list of ids and scores."""
    library, index = Library.open(setting.library, encoder="none"), Index(setting.library)
    papers = Catalog(setting.library / catalog.FILE_NAME)

    def fts5(question: str) -> object:
        expression = query_syntax.free_text(question) or '""'
        return papers.search_text(expression, LIMIT, NO_FILTERS, title_weight=fulltext.TITLE_WEIGHT)

    with closing(library), closing(index), closing(papers):
        times = interleaved(
            {
                "search": lambda q: library.search(q, mode="sparse", limit=LIMIT, fields=("id", "title")),
                "index": lambda q: index.search(q, LIMIT),
                "fts5": fts5,
            },
            questions(setting, FTS5_QUESTIONS),
        )
    here, floor = statistics.median(times["search"]), statistics.median(times["fts5"])
    notes = {"ms": _summaries(times), "questions": FTS5_QUESTIONS}
    notes["index_alone_faster_than_fts5"] = floor / statistics.median(times["index"])
    what = f"sparse top {LIMIT} with titles"
    return [Row(PART, what, "FTS5's ranked OR", here, floor, "ms", floor / here, "at least", 50, notes)]


def _summaries(times: Mapping[str, list[float]]) -> dict[str, dict[str, float]]:
    return {name: summary(latencies) for name, latencies in times.items()}


def quality(setting: Setting) -> Row:
    """The row of the difference of BM25 and FTS5 on SciFact."""
    by_engine = runs.on_scifact(setting, ("bm25", "fts5"))
    here, floor = by_engine["bm25"].mean(runs.NDCG), by_engine["fts5"].mean(runs.NDCG)
    notes = {runs.RECALL: {engine: measures.mean(runs.RECALL) for engine, measures in by_engine.items()}}
    what = f"{runs.NDCG} of BM25 on SciFact: the difference"
    return Row(PART, what, "FTS5's", here, floor, runs.NDCG, abs(here - floor), "at most", 0.01, notes)


def compare_engines(setting: Setting) -> list[Row]:
    """Rows of one question at a time, from text to ids and scores, each engine with its defaults: as many threads as
    cores here, one thread in the others. Further rows, without a target, have one thread here too."""
    built: dict[str, Engine] = {
        "tantivy": Tantivy(
            engines.built(setting.work / "tantivy" / setting.library.name, Tantivy.build, setting.library)
        ),
        "bm25s": Bm25s(
            engines.built(setting.work / "bm25s" / setting.library.name, Bm25s.build, setting.library)
        ),
    }
    single, default = Index(setting.library, threads=1), Index(setting.library)
    searched: dict[str, Engine | Index] = {"here": default, "here_in_one_thread": single, **built}
    functions: dict[str, Callable[[str], Any]] = {
        name: partial(engine.search, limit=LIMIT) for name, engine in searched.items()
    }
    with closing(single), closing(default):
        times = interleaved(functions, questions(setting), ROUNDS)
        recalls = mean_recalls(setting, functions)
    notes: dict[str, Any] = {
        "ms": _summaries(times),
        "R@100": recalls,
        "index_bytes": {"here": size(setting.library / "vectors")},
        "build_seconds": {},
    }
    for name, engine in built.items():
        notes["index_bytes"][name] = engine.facts["bytes"]
        notes["build_seconds"][name] = engine.facts["build_seconds"]
    notes["tantivy_segments"] = built["tantivy"].facts["segments"]
    rows = [_row(name, times, notes) for name in built]
    return rows + [_row(name, times, {}, one_thread=True) for name in built]


def _row(
    other: str, times: Mapping[str, list[float]], notes: dict[str, Any], *, one_thread: bool = False
) -> Row:
    ours = times["here_in_one_thread" if one_thread else "here"]
    here, floor = statistics.median(ours), statistics.median(times[other])
    means = statistics.fmean(ours) / statistics.fmean(times[other])
    return Row(
        PART,
        f"sparse top {LIMIT}, ids and scores" + (", one thread" if one_thread else ""),
        f"{other} on the same texts",
        here,
        floor,
        "ms",
        here / floor,
        None if one_thread else "at most",
        None if one_thread else 1.0,
        {"ratio_of_means": means, **notes},
    )


def mean_recalls(setting: Setting, functions: Mapping[str, Callable[[str], Any]]) -> dict[str, float]:
    """Each engine's recall at 100 over the answers that the library holds. Copies of a paper are not answers, so that
    in a library of copies recall compares engines, and does not measure their quality."""
    papers = Catalog(setting.library / catalog.FILE_NAME)
    with Library.open(setting.library, encoder="none") as library, closing(papers):
        answers = held_answers(setting, library, papers)
    return {
        name: statistics.fmean(
            len(relevant & {paper for paper, _ in search(text)}) / len(relevant)
            for text, relevant in answers.values()
            if relevant
        )
        for name, search in functions.items()
    }
