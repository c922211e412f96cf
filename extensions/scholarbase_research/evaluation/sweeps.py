"""Sweeps: choose the best settings on one half of the queries and measure them on the other.

Each leg is searched once, to the greatest depth that a point of the grid needs, and kept as a run folder in the folder
of the sweep, so that an interrupted sweep can continue. All points are then fused from these rankings. The best point
is chosen on the tune half and measured on the test half.

The fusion is reciprocal rank fusion, and queries are read as words. At the searched depth, a point ranks exactly as the
library does with its settings, except that a paper whose title or id is the query does not come first. A smaller depth
is cut from the same dense ranking, which is slightly closer to exact than a search of that depth: among 50,000 papers,
the first 100 results of a fusion at depth 100 then share 99.8 with the library's.

    sweep.json      the best point, its settings as environment variables, its figures and the baseline's
    grid.csv        every point's value on the tune half
    legs/           a run folder for every leg
"""

from __future__ import annotations

import csv
import hashlib
import io
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import numpy as np
import orjson
from numpy.typing import NDArray

from scholarbase.errors import EvaluationError, RunExists
from scholarbase.extras import require
from scholarbase.files import atomic_write, storage_errors
from scholarbase.identifiers import parse
from scholarbase.indexes import catalog
from scholarbase.indexes.catalog import Catalog
from scholarbase.models.limits import Engine
from scholarbase.progress import Reporter, SilentReporter
from scholarbase.search.fusion import FusionTable
from scholarbase.search.library import Library
from scholarbase.settings import LEGS, Settings, load_settings
from scholarbase_research.evaluation.answers import resolve_answers
from scholarbase_research.evaluation.formats import read_queries
from scholarbase_research.evaluation.grids import AXES, Point, Sweep, shortest
from scholarbase_research.evaluation.measures import Measure, ir_measure
from scholarbase_research.evaluation.queries import QuerySet
from scholarbase_research.evaluation.run_data import JudgedQuery, Run
from scholarbase_research.evaluation.searching import SearchSettings, run_searches
from scholarbase_research.evaluation.statistics import Interval, PairedTest, bootstrap_interval, paired_test

RESULT: Final = "sweep.json"
GRID: Final = "grid.csv"
LEG_RUNS: Final = "legs"
_FIXED: Final = {
    "engine": None,
    "fusion": "rrf",
    "rrf_k": 60,
    "fusion_depth": 1000,
    "fusion_weights": None,
    "known_items": False,
}
"""Fixed settings, which no leg's ranking depends on: those of the environment and of a profile are ignored."""

Ranking = Sequence[int] | NDArray[np.int64]
"""Catalogue ids, best first."""


@dataclass(frozen=True)
class SweepResult:
    """The best point and its figures.

    ``tune`` has the measure's mean on the tune half for each point of the sweep, ``baseline_on_tune`` the baseline's;
    ``best_on_test``, ``baseline_on_test`` and ``change`` (from the baseline to the best) are on the test half. Queries
    without a relevant answer (``unjudged``) are in neither half.
    """

    sweep: Sweep
    best: Point
    tune: tuple[float, ...]
    baseline_on_tune: float
    best_on_test: Interval
    baseline_on_test: Interval
    change: PairedTest
    tune_queries: tuple[str, ...]
    test_queries: tuple[str, ...]
    unjudged: tuple[str, ...]
    snapshot: str
    notes: tuple[str, ...]

    @property
    def measure(self) -> str:
        """The measure's name in tables."""
        return self.sweep.measure.label(self.sweep.limit)

    def to_dict(self) -> dict[str, Any]:
        """The content of ``sweep.json``."""
        return {
            "measure": self.measure,
            "best": self.best.to_dict(),
            "settings": self.best.variables(),
            "baseline": self.sweep.baseline.to_dict(),
            "tune": {
                "queries": len(self.tune_queries),
                "points": len(self.tune),
                "best": max(self.tune),
                "baseline": self.baseline_on_tune,
            },
            "test": {
                "queries": len(self.test_queries),
                "best": self.best_on_test._asdict(),
                "baseline": self.baseline_on_test._asdict(),
                "change": self.change._asdict(),
            },
            "seed": self.sweep.seed,
            "limit": self.sweep.limit,
            "to": self.sweep.to,
            "snapshot": self.snapshot,
            "unjudged": list(self.unjudged),
            "notes": list(self.notes),
            "tune_queries": list(self.tune_queries),
            "test_queries": list(self.test_queries),
        }


def split(queries: Iterable[JudgedQuery], seed: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The query ids of the tune half and of the test half, in the order of the queries.

    The halves depend on the ids, the intents and the seed, not on the order of the queries. Each intent is split
    evenly.
    """
    queries = list(queries)

    def order(query: JudgedQuery) -> tuple[str, str]:
        return query.intent or "", hashlib.sha256(f"{seed}:{query.id}".encode()).hexdigest()

    tune = {query.id for query in sorted(queries, key=order)[::2]}
    ids = [query.id for query in queries]
    return tuple(i for i in ids if i in tune), tuple(i for i in ids if i not in tune)


def run_sweep(
    sweep: Sweep,
    folder: Path,
    *,
    reporter: Reporter | None = None,
    concurrency: int | None = None,
    restart: bool = False,
    settings: Settings | None = None,
) -> SweepResult:
    """Search every leg, fuse every point, and write ``sweep.json`` and ``grid.csv`` in ``folder``.

    Args:
        concurrency: search threads; None: the fastest number.
        restart: delete this or another sweep in the folder first.
        settings: for opening the library; None: from the environment.

    Raises:
        RunExists: the folder has another sweep or other files.
        EvaluationError: too few queries, or another process is running this sweep.
        QueryFileError: the query file is unreadable, or none of its answers is in the library.
        LibraryError, EncoderError, VectorIndexError: the library cannot be opened or searched; finished legs are kept.
        StorageError: the folder cannot be written.
    """
    reporter = reporter or SilentReporter()
    queries = read_queries(sweep.queries, metadata=sweep.metadata)
    with storage_errors(folder):
        _claim(folder, _identity(sweep, queries), restart)
    legs = _search_legs(sweep, queries, folder, settings or load_settings(), reporter, concurrency)
    relevant = [query for query in legs.judged if query.relevant]
    tune, test = split(relevant, sweep.seed)
    if not tune or not test:
        raise EvaluationError(
            f"{sweep.queries} has {len(relevant)} queries with answers: a sweep needs at least one for each half."
        )
    means = _means(sweep, legs, tune, reporter)
    best = sweep.points[_best(sweep, means)]
    values = [_values(sweep, legs, point, test) for point in (best, sweep.baseline)]
    notes = list(queries.notes)
    if any(query.pool is not None for query in queries.queries):
        notes.append("The queries' candidate pools were not used: every search was over the whole library.")
    depths = [p.fusion_depth for p in sweep.points if p.mode == "hybrid" and p.fusion_depth < sweep.limit]
    if depths:
        notes.append(
            f"A hybrid search returns at most fusion_depth results: some points have fewer than {sweep.limit:,}, at "
            f"least {min(depths):,}."
        )
    result = SweepResult(
        sweep=sweep,
        best=best,
        tune=tuple(means),
        baseline_on_tune=float(np.mean(_values(sweep, legs, sweep.baseline, tune))),
        best_on_test=bootstrap_interval(values[0]),
        baseline_on_test=bootstrap_interval(values[1]),
        change=paired_test(values[1], values[0]),
        tune_queries=tune,
        test_queries=test,
        unjudged=tuple(query.id for query in legs.judged if not query.relevant),
        snapshot=legs.snapshot,
        notes=tuple(notes),
    )
    with storage_errors(folder):
        _write(result, folder, _identity(sweep, queries))
    return result


# -- searching the legs -----------------------------------------------------------------------------------


class _Leg(NamedTuple):
    """A leg to search. ``title_weight`` is FTS5's."""

    name: str
    title_weight: float | None = None


class _Legs(NamedTuple):
    """The judged queries, the ranking of each query by each leg, the catalogue ids of the answers."""

    snapshot: str
    judged: tuple[JudgedQuery, ...]
    rankings: Mapping[_Leg, Mapping[str, Sequence[int]]]
    answers: Mapping[str, int]


def _legs_of(point: Point) -> list[_Leg]:
    legs = []
    if point.mode != "dense":
        legs.append(_Leg(point.engine, point.fts5_title_weight if point.engine == "fts5" else None))
    if point.mode != "sparse":
        legs.append(_Leg("dense"))
    return legs


def _search_legs(
    sweep: Sweep,
    queries: QuerySet,
    folder: Path,
    settings: Settings,
    reporter: Reporter,
    concurrency: int | None,
) -> _Legs:
    """Search every leg that a point or the baseline needs."""
    depths: dict[_Leg, int] = {}
    for point in (*sweep.points, sweep.baseline):
        depth = point.fusion_depth if point.mode == "hybrid" else sweep.limit
        for leg in _legs_of(point):
            depths[leg] = max(depth, depths.get(leg, 0))
    with _opened(sweep, settings, None) as library:
        snapshot = library.snapshot_id
        judged, counts = resolve_answers(library, queries)
    runs = folder / LEG_RUNS / snapshot[:8]
    with storage_errors(runs):
        runs.mkdir(parents=True, exist_ok=True)
    leg_runs: dict[_Leg, Run] = {}
    for leg, depth in depths.items():
        weight = "" if leg.title_weight is None else f"-title{shortest(leg.title_weight)}"
        name = f"{leg.name}{weight}-{depth}"
        dense = leg.name == "dense"
        searching = SearchSettings(
            mode="dense" if dense else "sparse",
            engine=None if dense else cast("Engine", leg.name),
            limit=depth,
            to=sweep.to,
        )
        with _opened(sweep, settings, leg) as library:
            leg_runs[leg] = run_searches(
                library,
                queries,
                judged,
                counts,
                searching,
                runs / name,
                name=name,
                command="scholarbase eval sweep",
                concurrency=concurrency,
                reporter=reporter,
            )
    return _Legs(snapshot, judged, *_numbered(sweep.library, leg_runs, judged))


def _opened(sweep: Sweep, settings: Settings, leg: _Leg | None) -> Library:
    """The library with what a leg needs; None for no search."""
    changes = (
        _FIXED
        if leg is None or leg.title_weight is None
        else _FIXED | {"fts5_title_weight": leg.title_weight}
    )
    encoder = "none" if leg is None or leg.name in ("bm25", "feedback", "fts5") else None
    return Library.open(
        sweep.library, encoder=encoder, rerankers={}, settings=settings.model_copy(update=changes)
    )


def _numbered(
    path: Path, leg_runs: Mapping[_Leg, Run], judged: Sequence[JudgedQuery]
) -> tuple[dict[_Leg, dict[str, Sequence[int]]], dict[str, int]]:
    """The rankings and the answers as catalogue ids, which break ties in the fusion."""
    names = {hit.id for run in leg_runs.values() for ranking in run.rankings.values() for hit in ranking}
    answers = {answer.paper_id for query in judged for answer in query.answers if answer.held}
    listed = sorted(names | answers)
    with closing(Catalog(path / catalog.FILE_NAME, readers=1)) as papers:
        numbers = dict(zip(listed, papers.resolve([parse(name) for name in listed]), strict=True))
    if missing := [name for name, number in numbers.items() if number is None]:
        raise EvaluationError(
            f"The library does not hold {missing[0]}, which a leg of the sweep found: start again with --restart."
        )
    rankings: dict[_Leg, dict[str, Sequence[int]]] = {
        leg: {
            query_id: [numbers[hit.id] or 0 for hit in ranking] for query_id, ranking in run.rankings.items()
        }
        for leg, run in leg_runs.items()
    }
    return rankings, {name: numbers[name] or 0 for name in answers}


# -- the points -------------------------------------------------------------------------------------------


class _Scorer:
    """Measures rankings of catalogue ids for some queries, with ir_measures."""

    def __init__(self, measure: Measure, legs: _Legs, query_ids: Sequence[str]) -> None:
        by_id = {query.id: query for query in legs.judged}
        self._qrels: dict[str, dict[str, int]] = {}
        for query_id in query_ids:
            grades: dict[str, int] = {}
            for answer in by_id[query_id].answers:
                number = legs.answers.get(answer.paper_id)
                name = answer.paper_id if number is None else str(number)
                grades[name] = max(answer.grade, 0, grades.get(name, 0))
            self._qrels[query_id] = grades
        self._evaluator = require("ir_measures", "evaluation", "The evaluation").evaluator(
            [ir_measure(measure)], self._qrels
        )

    def values(self, rankings: Mapping[str, Ranking]) -> list[float]:
        """The value of each query, in their order."""
        run = {
            # Distinct scores, as the providers of ir_measures order ties differently.
            query_id: {str(paper): float(-rank) for rank, paper in enumerate(np.asarray(ranking).tolist())}
            for query_id, ranking in rankings.items()
            if len(ranking)
        }
        by_query = {metric.query_id: float(metric.value) for metric in self._evaluator.iter_calc(run)}
        return [by_query[query_id] for query_id in self._qrels]


class _Rankings:
    """The rankings of points for some queries. Fusion tables are shared by consecutive points with the same legs and
    depth."""

    def __init__(self, legs: _Legs, query_ids: Sequence[str], limit: int) -> None:
        self._legs = legs
        self._query_ids = query_ids
        self._limit = limit
        self._key: tuple[Any, ...] = ()
        self._tables: dict[str, FusionTable] = {}

    def of(self, point: Point) -> dict[str, Ranking]:
        if point.mode != "hybrid":
            [leg] = _legs_of(point)
            return {i: self._legs.rankings[leg][i][: self._limit] for i in self._query_ids}
        limit = min(self._limit, point.fusion_depth)  # a hybrid search's pages end there
        weights = (point.weight(point.engine), point.weight("dense"))
        return {
            query_id: table.best(limit, k=point.rrf_k, weights=weights)
            for query_id, table in self._fusing(point).items()
        }

    def _fusing(self, point: Point) -> dict[str, FusionTable]:
        sparse, dense = _legs_of(point)
        key = (sparse, point.fusion_depth)
        if self._key != key:
            self._tables = {
                query_id: FusionTable(
                    self._legs.rankings[sparse][query_id],
                    self._legs.rankings[dense][query_id],
                    depth=point.fusion_depth,
                )
                for query_id in self._query_ids
            }
            self._key = key
        return self._tables


def _means(sweep: Sweep, legs: _Legs, query_ids: Sequence[str], reporter: Reporter) -> list[float]:
    """The mean over these queries, for each point of the sweep."""
    rankings, scorer = _Rankings(legs, query_ids, sweep.limit), _Scorer(sweep.measure, legs, query_ids)
    means: dict[tuple[Any, ...], float] = {}
    with reporter.stage("fuse", "points", len(sweep.points)) as tracker:
        order = attrgetter("mode", "engine", "fts5_title_weight", "fusion_depth")
        # Sorted, so that points that fuse the same lists are consecutive.
        for done, point in enumerate(sorted(sweep.points, key=order), 1):
            if point.effective not in means:
                means[point.effective] = float(np.mean(scorer.values(rankings.of(point))))
            tracker.advance(1)
            tracker.at(done)
    return [means[point.effective] for point in sweep.points]


def _values(sweep: Sweep, legs: _Legs, point: Point, query_ids: Sequence[str]) -> list[float]:
    return _Scorer(sweep.measure, legs, query_ids).values(_Rankings(legs, query_ids, sweep.limit).of(point))


def _best(sweep: Sweep, means: Sequence[float]) -> int:
    """The index of the best point; ties go to the point closest to the baseline, then to the first."""
    return min(
        range(len(means)),
        key=lambda index: (-means[index], sweep.points[index].differs_from(sweep.baseline), index),
    )


# -- the folder -------------------------------------------------------------------------------------------


def _identity(sweep: Sweep, queries: QuerySet) -> str:
    facts = [sweep.measure.name, sweep.seed, sweep.limit, sweep.to, queries.sha256]
    points = [point.to_dict() for point in (sweep.baseline, *sweep.points)]
    return hashlib.sha256(orjson.dumps([*facts, points], option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]


def _claim(folder: Path, identity: str, restart: bool) -> None:
    """Check that the folder is new or of this sweep; with ``restart``, delete the sweep in it."""
    if folder.exists() and not folder.is_dir():
        raise RunExists(f"{folder} is a file: give the folder of a sweep, or a new folder.")
    names = {entry.name for entry in folder.iterdir()} if folder.exists() else set()
    others = sorted(name for name in names - {RESULT, GRID, LEG_RUNS} if not name.startswith("."))
    if others:
        raise RunExists(f"{folder} contains {others[0]!r}, which is not part of a sweep: give a new folder.")
    if restart:
        # The result is deleted first: if interrupted now, the sweep continues without --restart.
        for name in (RESULT, GRID):
            (folder / name).unlink(missing_ok=True)
        shutil.rmtree(folder / LEG_RUNS, ignore_errors=True)
        return
    if RESULT in names:
        try:
            stored = orjson.loads((folder / RESULT).read_bytes())["identity"]
        except (ValueError, KeyError, TypeError):
            stored = None
        if stored != identity:
            raise RunExists(
                f"{folder} has a sweep of another grid, measure or query set: give another folder, or --restart to "
                "replace it."
            )


def _write(result: SweepResult, folder: Path, identity: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    legs = [leg for leg in LEGS if any(leg in dict(point.weights) for point in result.sweep.points)]
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    tune = f"{result.measure} on the tune half ({len(result.tune_queries)} queries)"
    rows.writerow([*AXES, *(f"weight_{leg}" for leg in legs), tune])
    for point, value in zip(result.sweep.points, result.tune, strict=True):
        rows.writerow([*(getattr(point, axis) for axis in AXES), *map(point.weight, legs), f"{value:.6f}"])
    with atomic_write(folder / GRID) as file:
        file.write(text.getvalue().encode())
    content = result.to_dict() | {"identity": identity}
    with atomic_write(folder / RESULT) as file:
        file.write(orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
