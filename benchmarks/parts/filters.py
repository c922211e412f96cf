"""Filtered compared with unfiltered search: by a year, by a category of about 1% of the papers, and by both.

First the filtered results of a sample of questions are compared with filter-then-rank: rank all papers with a word of
the question, drop those that fail the catalogue's SQL filter, cut.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any, Final

from benchmarks.rows import Row, Setting
from benchmarks.timing import interleaved, questions, read_files, summary
from scholarbase.indexes import catalog
from scholarbase.indexes.catalog import Catalog, open_finished
from scholarbase.indexes.filters import NO_FILTERS, ResolvedFilters, filter_sql
from scholarbase.indexes.vectors.base import BM25, EngineVector, ScoredId
from scholarbase.indexes.vectors.bm25 import Bm25Parameters, Bm25Text
from scholarbase.indexes.vectors.index import EdgeIndex, VectorIndex
from scholarbase.manifest import read_manifest
from scholarbase.search.legs import Bm25Queries
from scholarbase.search.library import Library

PART: Final = "filters"
LIMIT: Final = 100
YEAR: Final = 2015
SHARE: Final = 0.01
SAMPLE: Final = 50
"""Questions whose filtered results are compared with filter-then-rank."""
QUESTIONS: Final = 200
ROUNDS: Final = 3


def run(setting: Setting) -> list[Row]:
    """Rows of the year, the category, and both.

    Raises:
        RuntimeError: filtered results differ from filter-then-rank.
    """
    read_files(setting.library)
    text = Bm25Text(Bm25Parameters.from_dict(read_manifest(setting.library)[0].bm25))
    papers, index = Catalog(setting.library / catalog.FILE_NAME), EdgeIndex.open(setting.library / "vectors")
    with closing(papers), closing(index):
        queries = Bm25Queries(text, papers.document_frequencies)
        vectors = [queries.vector(question) for question in questions(setting, QUESTIONS)]
        chosen = choose(papers)
        passing = {name: passing_ids(papers, filters) for name, filters in chosen.items()}
        compared = check(index, vectors[:: max(1, len(vectors) // SAMPLE)][:SAMPLE], chosen, passing)
        searches = {name: partial(_search, index, filters) for name, filters in chosen.items()}
        times = interleaved({"unfiltered": partial(_search, index, NO_FILTERS), **searches}, vectors, ROUNDS)
        total = read_manifest(setting.library)[0].counts["papers"]
    calls = whole_calls(setting, chosen)
    rows = []
    for name in chosen:
        share = {"papers": len(passing[name]), "share": len(passing[name]) / total}
        rows.append(_row(name, times, calls, {**share, "compared_questions": compared}))
    return rows


def _search(index: VectorIndex, filters: ResolvedFilters, vector: EngineVector) -> list[ScoredId]:
    return index.search_sparse(BM25, vector, LIMIT, filters)


def choose(papers: Catalog) -> dict[str, ResolvedFilters]:
    """Filters by name: a year, the category whose share of the papers is nearest to 1%, and both."""
    counts: Counter[str] = Counter()
    with closing(open_finished(papers.path)) as connection:
        for (names,) in connection.execute("SELECT categories FROM papers WHERE categories IS NOT NULL"):
            counts.update(set(names.split()))
        total = connection.execute("SELECT count(*) FROM papers").fetchone()[0]
    if not counts:
        raise RuntimeError(f"No paper of {papers.path} has a category: measure a library of arXiv papers.")
    # A filter by an archive (math) also matches its subjects, so that more papers pass than its count.
    exact = [name for name in sorted(counts) if "." in name or not _has_subjects(name, counts)]
    category = min(exact, key=lambda name: abs(counts[name] / total - SHARE))
    year = ResolvedFilters(first_day=YEAR * 10_000 + 101, last_day=YEAR * 10_000 + 1231)
    return {
        f"the year {YEAR}": year,
        f"the category {category}": ResolvedFilters(categories=(category,)),
        f"{YEAR} and {category}": ResolvedFilters(
            first_day=year.first_day, last_day=year.last_day, categories=(category,)
        ),
    }


def _has_subjects(archive: str, counts: Counter[str]) -> bool:
    return any(name.startswith(f"{archive}.") for name in counts)


def passing_ids(papers: Catalog, filters: ResolvedFilters) -> frozenset[int]:
    """The papers that pass the catalogue's SQL filter."""
    condition, params = filter_sql(filters, "p")
    with closing(open_finished(papers.path)) as connection:
        rows = connection.execute(f"SELECT p.id FROM papers AS p WHERE {condition}", params)
        return frozenset(row[0] for row in rows)


def check(
    index: VectorIndex,
    vectors: list[EngineVector],
    chosen: dict[str, ResolvedFilters],
    passing: dict[str, frozenset[int]],
) -> int:
    """Compare with filter-then-rank, id by id in order. Returns the number of compared questions.

    Raises:
        RuntimeError: a filtered list differs; the message names the first place.
    """
    everything = index.count(NO_FILTERS)
    for number, vector in enumerate(vectors):
        ranked = [hit.id for hit in index.search_sparse(BM25, vector, everything, NO_FILTERS)]
        for name, filters in chosen.items():
            expected = [paper for paper in ranked if paper in passing[name]][:LIMIT]
            returned = [hit.id for hit in _search(index, filters, vector)]
            if returned != expected:
                raise RuntimeError(_difference(number, name, returned, expected))
    return len(vectors)


def _difference(number: int, name: str, returned: list[int], expected: list[int]) -> str:
    both = zip(returned, expected, strict=False)
    position = next((i for i, (a, b) in enumerate(both) if a != b), min(len(returned), len(expected)))
    return (
        f"Question {number} filtered by {name} returns {len(returned)} papers, filter-then-rank {len(expected)}. They "
        f"differ from place {position + 1}: {returned[position : position + 3]} instead of "
        f"{expected[position : position + 3]}."
    )


def whole_calls(setting: Setting, chosen: dict[str, ResolvedFilters]) -> dict[str, list[float]]:
    """Milliseconds of ``Library.search`` with titles and the same filters."""
    category = {"category": next(filters.categories for filters in chosen.values() if filters.categories)}
    year = {"from_": str(YEAR), "to": str(YEAR)}
    arguments: list[dict[str, Any]] = [{}, year, category, year | category]
    with Library.open(setting.library, encoder="none") as library:

        def search(filters: dict[str, Any]) -> Callable[[str], Any]:
            return lambda q: library.search(q, mode="sparse", limit=LIMIT, fields=("id", "title"), **filters)

        searches = dict(zip(("unfiltered", *chosen), map(search, arguments), strict=True))
        return interleaved(searches, questions(setting, QUESTIONS))


def _row(
    name: str, times: dict[str, list[float]], calls: dict[str, list[float]], notes: dict[str, Any]
) -> Row:
    here, floor = statistics.median(times[name]), statistics.median(times["unfiltered"])
    whole = {"whole_call_ratio": statistics.median(calls[name]) / statistics.median(calls["unfiltered"])}
    means = {"ratio_of_means": statistics.fmean(times[name]) / statistics.fmean(times["unfiltered"])}
    summaries = {"ms": summary(times[name]), "unfiltered_ms": summary(times["unfiltered"])}
    what = f"sparse top {LIMIT}, filtered by {name}"
    return Row(
        PART,
        what,
        "the same questions unfiltered",
        here,
        floor,
        "ms",
        here / floor,
        "at most",
        2.0,
        {**notes, **means, **whole, **summaries},
    )
