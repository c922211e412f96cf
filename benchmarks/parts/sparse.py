"""Sparse search in the process: beside FTS5's ranked OR over the same library, beside tantivy and bm25s over the same
texts, and whether it finds as much."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from benchmarks import engines, scifact
from benchmarks.asking import in_turns, questions, read_through, size, spread
from benchmarks.engines import Bm25s, Engine, Tantivy
from benchmarks.rows import Row, Setting
from scholarbase.evaluation.answers import judge
from scholarbase.evaluation.formats import read_queries
from scholarbase.identifiers import parse
from scholarbase.indexes import catalog, fulltext, query_syntax
from scholarbase.indexes.catalog import Catalog
from scholarbase.indexes.filters import NO_FILTERS
from scholarbase.indexes.vectors.base import BM25, ScoredId
from scholarbase.indexes.vectors.bm25 import Bm25Parameters, Bm25Text
from scholarbase.indexes.vectors.edge import EdgeIndex
from scholarbase.manifest import read_manifest
from scholarbase.search.library import Library

PART: Final = "sparse"
LIMIT: Final = 100
SLOW: Final = 200
"""Questions that FTS5 is asked."""
ROUNDS: Final = 3


def run(setting: Setting) -> list[Row]:
    """Rows: the whole call beside FTS5, its quality on SciFact, the index beside tantivy and beside bm25s."""
    read_through(setting.library)
    return [*beside_fts5(setting), quality(setting), *beside_engines(setting)]


class Index:
    """The library's BM25 index as the other engines are asked: a text goes in, ids and scores come out."""

    def __init__(self, library: Path, threads: int | None = None) -> None:
        self.vectors = EdgeIndex.open(library / "vectors", threads=threads)
        self._text = Bm25Text(Bm25Parameters.from_dict(read_manifest(library)[0].bm25))

    def search(self, question: str, limit: int) -> list[ScoredId]:
        return self.vectors.search_sparse(BM25, self._text.query(question), limit, NO_FILTERS)

    def close(self) -> None:
        self.vectors.close()


def beside_fts5(setting: Setting) -> list[Row]:
    """A search with its titles, the whole call, beside FTS5's bare list of ids and scores."""
    library, index = Library.open(setting.library, encoder="none"), Index(setting.library)
    papers = Catalog(setting.library / catalog.FILE_NAME)

    def fts5(question: str) -> object:
        expression = query_syntax.free_text(question) or '""'
        return papers.search_text(expression, LIMIT, NO_FILTERS, title_weight=fulltext.TITLE_WEIGHT)

    with closing(library), closing(index), closing(papers):
        times = in_turns(
            {
                "search": lambda q: library.search(q, mode="sparse", limit=LIMIT, fields=("id", "title")),
                "index": lambda q: index.search(q, LIMIT),
                "fts5": fts5,
            },
            questions(setting, SLOW),
        )
    here, floor = statistics.median(times["search"]), statistics.median(times["fts5"])
    notes = {"ms": {way: spread(taken) for way, taken in times.items()}, "questions": SLOW}
    notes["index_alone_faster_than_fts5"] = floor / statistics.median(times["index"])
    what = f"sparse top {LIMIT} with titles"
    return [Row(PART, what, "FTS5's ranked OR", here, floor, "ms", floor / here, "at least", 50, notes)]


def quality(setting: Setting) -> Row:
    """How far the two rankings are apart on SciFact, where 300 claims have been judged."""
    found = scifact.measured(setting, ("bm25", "fts5"))
    here, floor = found["bm25"].mean(scifact.NDCG), found["fts5"].mean(scifact.NDCG)
    notes = {scifact.RECALL: {engine: measured.mean(scifact.RECALL) for engine, measured in found.items()}}
    what = f"{scifact.NDCG} of BM25 on SciFact: the difference"
    return Row(PART, what, "FTS5's", here, floor, scifact.NDCG, abs(here - floor), "at most", 0.01, notes)


def beside_engines(setting: Setting) -> list[Row]:
    """One question at a time, from its text to ids and scores: every engine as its users get it, which is with as many
    search threads as cores here and with one there; and, without a target, in one thread here too."""
    built: dict[str, Engine] = {
        "tantivy": Tantivy(
            engines.built(setting.work / "tantivy" / setting.library.name, Tantivy.build, setting.library)
        ),
        "bm25s": Bm25s(
            engines.built(setting.work / "bm25s" / setting.library.name, Bm25s.build, setting.library)
        ),
    }
    alone, default = Index(setting.library, threads=1), Index(setting.library)
    ways: dict[str, Callable[[str], Any]] = {
        "here": lambda q: default.search(q, LIMIT),
        "here_in_one_thread": lambda q: alone.search(q, LIMIT),
    }
    ways |= {name: _asked(engine) for name, engine in built.items()}
    with closing(alone), closing(default):
        times = in_turns(ways, questions(setting), ROUNDS)
        recalls = shared_recall(setting, ways)
    notes: dict[str, Any] = {
        "ms": {way: spread(taken) for way, taken in times.items()},
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


def _asked(engine: Engine) -> Callable[[str], Any]:
    return lambda question: engine.search(question, LIMIT)


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


def shared_recall(setting: Setting, ways: Mapping[str, Callable[[str], Any]]) -> dict[str, float]:
    """Each engine's recall at 100 over the answers that the library holds. Copies of a paper are none of its answers,
    so that in a library of copies it says how the engines compare, not how well they find."""
    with Library.open(setting.library, encoder="none") as library:
        judged = judge(library, read_queries(setting.data / "autoscholar" / "queries.jsonl")).queries
    names = {query.id: [a.paper_id for a in query.relevant if a.held] for query in judged}
    with closing(Catalog(setting.library / catalog.FILE_NAME)) as papers:
        answers = {key: set(papers.resolve([parse(name) for name in held])) for key, held in names.items()}
    texts = {query.id: query.text for query in judged if answers[query.id]}
    return {
        name: statistics.fmean(
            len(answers[key] & {paper for paper, _ in ask(text)}) / len(answers[key])
            for key, text in texts.items()
        )
        for name, ask in ways.items()
    }
