"""Sweeps: which settings rank best, found on one half of the queries and told for the other.

Every leg is searched once, to the greatest depth that a point of the grid needs, and kept as a run folder below the
sweep's own, so that a sweep that was stopped goes on. The points are then fused from these rankings. The best point
is chosen on the tune half; how good it is, is said of the test half alone, which had no part in the choice.

At the depth that was searched, a point ranks exactly as the library does with its settings. A lesser depth is cut from
the same dense ranking, which is a little closer to exact than a search of that depth alone: among 50,000 papers the
first 100 of a fusion at depth 100 then share 99.8 with the library's.

    sweep.json      the best point, its settings as environment variables, its figures and the baseline's
    grid.csv        every point's value on the tune half
    legs/           a run folder for every leg
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from scholarbase.errors import EvaluationError, RunExists
from scholarbase.evaluation.answers import judge
from scholarbase.evaluation.extras import require
from scholarbase.evaluation.formats import read_queries
from scholarbase.evaluation.grids import AXES, Point, Sweep, read_sweep, shortest
from scholarbase.evaluation.measures import Measure, ir_measure
from scholarbase.evaluation.searching import SearchSettings, run_searches
from scholarbase.evaluation.statistics import Interval, PairedTest, bootstrap_interval, paired_test
from scholarbase.files import atomic_write
from scholarbase.identifiers import parse
from scholarbase.indexes import catalog, query_syntax
from scholarbase.indexes.catalog import Catalog
from scholarbase.models import Engine, Mode
from scholarbase.models.queries import QuerySet
from scholarbase.models.runs import JudgedQuery, Run
from scholarbase.progress import Reporter, SilentReporter
from scholarbase.search.fusion import FusionTable
from scholarbase.search.library import Library
from scholarbase.settings import LEGS, Settings, load_settings

__all__ = ["Point", "Sweep", "SweepResult", "read_sweep", "run_sweep", "split"]

RESULT: Final = "sweep.json"
GRID: Final = "grid.csv"
LEG_RUNS: Final = "legs"
_FUSION: Final = {"rrf_k": 60, "fusion_depth": 1000, "fusion_weights": None}
"""A leg's ranking does not depend on the fusion, so that the environment's settings of it must not either."""

Ranking = Sequence[int] | NDArray[np.int64]
"""Catalogue ids, best first."""


@dataclass(frozen=True)
class SweepResult:
    """The best point and how good it is.

    ``tune`` is the measure's mean on the tune half for every point of the sweep, in its order, ``baseline_on_tune``
    the baseline's; ``best_on_test``, ``baseline_on_test`` and ``change`` (from the baseline to the best) are of the
    test half. Queries without a relevant answer (``unjudged``) are in neither half. ``snapshots`` has each library's.
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
    snapshots: Mapping[str, str]
    notes: tuple[str, ...]

    @property
    def measure(self) -> str:
        """The measure's name as a table shows it."""
        return self.sweep.measure.label(self.sweep.limit)

    def to_dict(self) -> dict[str, Any]:
        """What ``sweep.json`` holds."""
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
            "snapshots": dict(self.snapshots),
            "unjudged": list(self.unjudged),
            "notes": list(self.notes),
            "tune_queries": list(self.tune_queries),
            "test_queries": list(self.test_queries),
        }


def split(queries: Iterable[JudgedQuery], seed: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The ids of the tune half and of the test half, in the order of the queries.

    Which half a query falls into depends on its id, the seed and which other queries there are, not on their order.
    Each intent is split evenly.
    """
    queries = list(queries)

    def place(query: JudgedQuery) -> tuple[str, str]:
        return query.intent or "", hashlib.sha256(f"{seed}:{query.id}".encode()).hexdigest()

    tuned = {query.id for query in sorted(queries, key=place)[::2]}
    ids = [query.id for query in queries]
    return tuple(i for i in ids if i in tuned), tuple(i for i in ids if i not in tuned)


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
        concurrency: threads that search; None is what is fastest.
        restart: throw away what the folder holds of this or another sweep.
        settings: how the libraries are opened; None takes the environment's.

    Raises:
        RunExists: the folder holds another sweep, or something else.
        EvaluationError: there are too few queries, or another process makes this sweep.
        QueryFileError: the query file cannot be read, or its answers are in none of the libraries.
        LibraryError, EncoderError, VectorIndexError: a library cannot be opened or searched; what is done is kept.
    """
    reporter = reporter or SilentReporter()
    queries = read_queries(sweep.queries, metadata=sweep.metadata)
    _claim(folder, _identity(sweep, queries), restart)
    parts = {}
    for label, path in sweep.libraries.items():
        points = [point for point in (*sweep.points, sweep.baseline) if point.library == label]
        if points:
            searching = _Searching(sweep, queries, label, path, folder, settings or load_settings())
            parts[label] = searching.run(points, reporter, concurrency)
    judged = next(iter(parts.values())).judged
    relevant = [query for query in judged if query.relevant]
    tune, test = split(relevant, sweep.seed)
    if not tune or not test:
        raise EvaluationError(
            f"{sweep.queries} has {len(relevant)} queries with answers: a sweep needs one at least for each half."
        )
    means = _means(sweep, parts, tune, reporter)
    best = sweep.points[_best(sweep, means)]
    values = [_values(sweep, parts, point, test) for point in (best, sweep.baseline)]
    notes = [*queries.notes, *(note for part in parts.values() for note in part.notes)]
    if any(query.pool is not None for query in queries.queries):
        notes.append("The queries' candidate pools were not used: every search was over the whole library.")
    lesser = [p.fusion_depth for p in sweep.points if p.mode == "hybrid" and p.fusion_depth < sweep.limit]
    if lesser:
        notes.append(
            f"A hybrid search ends at its fusion_depth: points whose fusion_depth is below {sweep.limit:,} have fewer "
            f"results than that, {min(lesser):,} at the least."
        )
    result = SweepResult(
        sweep=sweep,
        best=best,
        tune=tuple(means),
        baseline_on_tune=float(np.mean(_values(sweep, parts, sweep.baseline, tune))),
        best_on_test=bootstrap_interval(values[0]),
        baseline_on_test=bootstrap_interval(values[1]),
        change=paired_test(values[1], values[0]),
        tune_queries=tune,
        test_queries=test,
        unjudged=tuple(query.id for query in judged if not query.relevant),
        snapshots={label: part.snapshot for label, part in parts.items()},
        notes=tuple(notes),
    )
    _write(result, folder, _identity(sweep, queries))
    return result


# -- searching the legs -----------------------------------------------------------------------------------


class _Leg(NamedTuple):
    """A leg to search. ``title_weight`` is FTS5's. ``syntax``: only for the queries that FTS5 reads as query syntax,
    and among what matches them, as a hybrid search ranks them by meaning."""

    name: str
    title_weight: float | None = None
    syntax: bool = False


class _Part(NamedTuple):
    """What is known of one library: its queries judged, each leg's ranking of each query, the catalogue ids of the
    answers that it holds."""

    snapshot: str
    judged: tuple[JudgedQuery, ...]
    legs: Mapping[_Leg, Mapping[str, Sequence[int]]]
    answers: Mapping[str, int]
    notes: tuple[str, ...]


def _legs_of(point: Point) -> list[_Leg]:
    legs = []
    if point.mode != "dense":
        legs.append(_Leg(point.engine, point.fts5_title_weight if point.engine == "fts5" else None))
    if point.mode != "sparse":
        legs.append(_Leg("dense"))
        if point.engine == "fts5" and point.mode == "hybrid":
            legs.append(_Leg("dense", syntax=True))
    return legs


class _Searching:
    """Searches the legs of one library."""

    def __init__(
        self, sweep: Sweep, queries: QuerySet, label: str, path: Path, folder: Path, settings: Settings
    ) -> None:
        self._sweep = sweep
        self._queries = queries
        self._label = label
        self._path = path
        self._folder = folder
        self._settings = settings.model_copy(update=_FUSION)

    def run(self, points: Sequence[Point], reporter: Reporter, concurrency: int | None) -> _Part:
        depths: dict[_Leg, int] = {}
        for point in points:
            depth = point.fusion_depth if point.mode == "hybrid" else self._sweep.limit
            for leg in _legs_of(point):
                depths[leg] = max(depth, depths.get(leg, 0))
        with self._open("none") as library:
            snapshot = library.snapshot_id
            judged, counts = judge(library, self._queries)
        found: dict[_Leg, Run] = {}
        notes = []
        for leg, depth in depths.items():
            asked = [q.id for q in judged if not leg.syntax or query_syntax.is_syntax(q.text)]
            if not asked:
                continue
            if leg.syntax:
                notes.append(f"FTS5 reads {len(asked)} of {len(judged)} queries as query syntax.")
            with self._open_for(leg, depth) as library:
                found[leg] = self._search(
                    library, leg, depth, judged, counts, set(asked), reporter, concurrency
                )
        rankings, answers = self._numbered(found, judged)
        return _Part(snapshot, judged, rankings, answers, tuple(notes))

    def _open(self, encoder: str | None, **changes: Any) -> Library:
        return Library.open(
            self._path, encoder=encoder, settings=self._settings.model_copy(update=changes or None)
        )

    def _open_for(self, leg: _Leg, depth: int) -> Library:
        if leg.name in ("bm25", "fts5"):
            changes = {} if leg.title_weight is None else {"fts5_title_weight": leg.title_weight}
            return self._open("none", **changes)
        if leg.syntax:
            # A hybrid search whose sparse leg counts nothing: the ranking by meaning of what matches.
            return self._open(None, fusion_weights={"fts5": 0.0}, fusion_depth=depth)
        return self._open(None)

    def _search(
        self,
        library: Library,
        leg: _Leg,
        depth: int,
        judged: Sequence[JudgedQuery],
        counts: Mapping[str, int],
        asked: set[str],
        reporter: Reporter,
        concurrency: int | None,
    ) -> Run:
        mode: Mode = "hybrid" if leg.syntax else "dense" if leg.name == "dense" else "sparse"
        engine: Engine | None = "fts5" if leg.syntax else None
        if mode == "sparse":
            engine = leg.name  # type: ignore[assignment]  # a sparse leg is named after its engine
        weight = "" if leg.title_weight is None else f"-title{shortest(leg.title_weight)}"
        name = f"{leg.name}{weight}{'-in-syntax' if leg.syntax else ''}-{depth}"
        library_name = re.sub(r"[^A-Za-z0-9._-]+", "-", self._label).strip("-.") or "library"
        place = self._folder / LEG_RUNS / f"{library_name}-{library.snapshot_id[:8]}"
        place.mkdir(parents=True, exist_ok=True)
        some = tuple(query for query in self._queries.queries if query.id in asked)
        return run_searches(
            library,
            QuerySet(self._queries.name, self._queries.format, some, self._queries.notes),
            [query for query in judged if query.id in asked],
            counts,
            SearchSettings(mode=mode, engine=engine, limit=depth, to=self._sweep.to),
            place / name,
            name=name,
            command="scholarbase eval sweep",
            concurrency=concurrency,
            reporter=reporter,
        )

    def _numbered(
        self, found: Mapping[_Leg, Run], judged: Sequence[JudgedQuery]
    ) -> tuple[dict[_Leg, dict[str, Sequence[int]]], dict[str, int]]:
        """The rankings and the answers by catalogue ids, which the fusion breaks ties by."""
        names = {hit.id for run in found.values() for ranking in run.rankings.values() for hit in ranking}
        answers = {answer.paper_id for query in judged for answer in query.answers if answer.held}
        listed = sorted(names | answers)
        papers = Catalog(self._path / catalog.FILE_NAME, readers=1)
        try:
            numbers = dict(zip(listed, papers.resolve([parse(name) for name in listed]), strict=True))
        finally:
            papers.close()
        missing = [name for name, number in numbers.items() if number is None]
        if missing:
            raise EvaluationError(
                f"The library {self._label} does not hold {missing[0]}, which a leg of the sweep found: give --restart."
            )
        rankings: dict[_Leg, dict[str, Sequence[int]]] = {
            leg: {
                # Where the sparse leg counts nothing, what it alone found has no score.
                query_id: [numbers[hit.id] or 0 for hit in ranking if not leg.syntax or hit.score > 0]
                for query_id, ranking in run.rankings.items()
            }
            for leg, run in found.items()
        }
        return rankings, {name: number for name in answers if (number := numbers[name]) is not None}


# -- the points -------------------------------------------------------------------------------------------


class _Scorer:
    """Measures rankings of catalogue ids for some queries of one library, through ir_measures."""

    def __init__(self, measure: Measure, part: _Part, asked: Sequence[str]) -> None:
        by_id = {query.id: query for query in part.judged}
        self._qrels: dict[str, dict[str, int]] = {}
        for query_id in asked:
            grades: dict[str, int] = {}
            for answer in by_id[query_id].answers:
                number = part.answers.get(answer.paper_id)
                name = answer.paper_id if number is None else str(number)
                grades[name] = max(answer.grade, 0, grades.get(name, 0))
            self._qrels[query_id] = grades
        self._evaluator = require("ir_measures").evaluator([ir_measure(measure)], self._qrels)

    def values(self, rankings: Mapping[str, Ranking]) -> list[float]:
        """The value of each query asked for, in their order."""
        run = {
            # Scores fall by one: ir_measures' providers differ in how they order equal ones.
            query_id: {str(paper): float(-place) for place, paper in enumerate(np.asarray(ranking).tolist())}
            for query_id, ranking in rankings.items()
            if len(ranking)
        }
        found = {metric.query_id: float(metric.value) for metric in self._evaluator.iter_calc(run)}
        return [found[query_id] for query_id in self._qrels]


class _Rankings:
    """The rankings of points over some queries of one library: legs are cut to a depth once for all the points that
    fuse them there."""

    def __init__(self, part: _Part, asked: Sequence[str], limit: int) -> None:
        self._part = part
        self._asked = asked
        self._limit = limit
        self._key: tuple[Any, ...] = ()
        self._tables: dict[str, FusionTable] = {}

    def of(self, point: Point) -> dict[str, Ranking]:
        if point.mode != "hybrid":
            [leg] = _legs_of(point)
            return {i: self._part.legs[leg][i][: self._limit] for i in self._asked}
        limit = min(self._limit, point.fusion_depth)  # a hybrid search's pages end there
        weights = (point.weight(point.engine), point.weight("dense"))
        return {
            query_id: table.best(limit, k=point.rrf_k, weights=weights)
            for query_id, table in self._fusing(point).items()
        }

    def _fusing(self, point: Point) -> dict[str, FusionTable]:
        sparse, dense, *others = _legs_of(point)
        key = (sparse, point.fusion_depth)
        if self._key != key:
            in_syntax = self._part.legs.get(others[0], {}) if others else {}
            self._tables = {
                query_id: FusionTable(
                    self._part.legs[sparse][query_id],
                    in_syntax.get(query_id, self._part.legs[dense][query_id]),
                    point.fusion_depth,
                )
                for query_id in self._asked
            }
            self._key = key
        return self._tables


def _means(sweep: Sweep, parts: Mapping[str, _Part], asked: Sequence[str], reporter: Reporter) -> list[float]:
    """The mean over the queries asked for, of every point in the sweep's order."""
    rankings = {label: _Rankings(part, asked, sweep.limit) for label, part in parts.items()}
    scorers = {label: _Scorer(sweep.measure, part, asked) for label, part in parts.items()}
    means: dict[tuple[Any, ...], float] = {}
    with reporter.stage("fuse", "points", len(sweep.points)) as tracker:
        # Points that fuse the same lists come one after the other, so that these are cut once.
        for done, point in enumerate(sorted(sweep.points, key=_order), 1):
            if point.effective not in means:
                found = scorers[point.library].values(rankings[point.library].of(point))
                means[point.effective] = float(np.mean(found))
            tracker.advance(1)
            tracker.at(done)
    return [means[point.effective] for point in sweep.points]


def _order(point: Point) -> tuple[Any, ...]:
    return point.library, point.mode, point.engine, point.fts5_title_weight, point.fusion_depth


def _values(sweep: Sweep, parts: Mapping[str, _Part], point: Point, asked: Sequence[str]) -> list[float]:
    part = parts[point.library]
    return _Scorer(sweep.measure, part, asked).values(_Rankings(part, asked, sweep.limit).of(point))


def _best(sweep: Sweep, means: Sequence[float]) -> int:
    """The place of the best point; of several as good the one most like the baseline, then the first."""
    return min(
        range(len(means)),
        key=lambda place: (-means[place], sweep.points[place].differs_from(sweep.baseline), place),
    )


# -- the folder -------------------------------------------------------------------------------------------


def _identity(sweep: Sweep, queries: QuerySet) -> str:
    facts = [sweep.measure.name, sweep.seed, sweep.limit, sweep.to, queries.sha256]
    points = [point.to_dict() for point in (sweep.baseline, *sweep.points)]
    return hashlib.sha256(orjson.dumps([*facts, points], option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]


def _claim(folder: Path, identity: str, restart: bool) -> None:
    """See that the folder is this sweep's to write."""
    if folder.exists() and not folder.is_dir():
        raise RunExists(f"{folder} is a file: give the folder of a sweep, or a new one.")
    held = {entry.name for entry in folder.iterdir()} if folder.exists() else set()
    strange = sorted(name for name in held - {RESULT, GRID, LEG_RUNS} if not name.startswith("."))
    if strange:
        raise RunExists(f"{folder} holds {strange[0]!r}, which is no part of a sweep: give a new folder.")
    if restart:
        # With the old result gone, a sweep that is stopped now goes on without --restart.
        for name in (RESULT, GRID):
            (folder / name).unlink(missing_ok=True)
        shutil.rmtree(folder / LEG_RUNS, ignore_errors=True)
        return
    if RESULT in held:
        try:
            stored = orjson.loads((folder / RESULT).read_bytes())["identity"]
        except (ValueError, KeyError, TypeError):
            stored = None
        if stored != identity:
            raise RunExists(
                f"{folder} holds the sweep of another grid, measure or query set: give another folder, or --restart "
                "to replace it."
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
