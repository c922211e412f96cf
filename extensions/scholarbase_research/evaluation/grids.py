"""Sweep files: read the points of a grid from TOML. docs/evaluation.md describes the file."""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Final, cast, get_args

from scholarbase.errors import EvaluationError, InvalidRequest
from scholarbase.evaluation.measures import Measure, parse_measure
from scholarbase.manifest import Manifest, read_manifest
from scholarbase.models.limits import Engine, Mode
from scholarbase.search.profiles import with_profile
from scholarbase.settings import LEGS, PREFIX, Settings, load_settings

MAX_POINTS: Final = 10_000
MAX_LIMIT: Final = 10_000
AXES: Final = ("library", "mode", "engine", "rrf_k", "fusion_depth", "fts5_title_weight")
"""Axes of a grid, besides the legs' weights; the first axis varies slowest."""
_TOP: Final = ("queries", "metadata", "measure", "seed", "limit", "to", "grid", "baseline")
_CHOICES: Final = {"mode": get_args(Mode), "engine": get_args(Engine)}


def shortest(number: float) -> str:
    """The shortest text that reads back as the same number: ``2``, ``0.1234567``."""
    return repr(number).removesuffix(".0")


@dataclass(frozen=True, slots=True)
class Point:
    """Search settings. ``library`` is its path as written in the file; a leg's default weight is 1."""

    library: str
    mode: Mode
    engine: Engine
    rrf_k: int
    fusion_depth: int
    fts5_title_weight: float
    weights: tuple[tuple[str, float], ...] = ()

    def weight(self, leg: str) -> float:
        return dict(self.weights).get(leg, 1.0)

    @property
    def effective(self) -> tuple[Any, ...]:
        """The settings that affect the rankings: points where these are equal rank alike."""
        if self.mode == "dense":
            return self.library, self.mode
        title_weight = self.fts5_title_weight if self.engine == "fts5" else None
        sparse = (self.library, self.mode, self.engine, title_weight)
        if self.mode == "sparse":
            return sparse
        return *sparse, self.rrf_k, self.fusion_depth, self.weight(self.engine), self.weight("dense")

    def differs_from(self, other: Point) -> int:
        """The number of settings that differ."""
        mine, theirs = dict(self.weights), dict(other.weights)
        axes = [axis for axis in AXES if getattr(self, axis) != getattr(other, axis)]
        return len(axes) + len([leg for leg in LEGS if mine.get(leg, 1.0) != theirs.get(leg, 1.0)])

    def variables(self) -> dict[str, str]:
        """The settings of this point as environment variables; library and mode are not settings."""
        weights = ",".join(f"{leg}={shortest(weight)}" for leg, weight in self.weights)
        return {
            f"{PREFIX}FUSION": "rrf",
            f"{PREFIX}ENGINE": self.engine,
            f"{PREFIX}RRF_K": str(self.rrf_k),
            f"{PREFIX}FUSION_DEPTH": str(self.fusion_depth),
            f"{PREFIX}FTS5_TITLE_WEIGHT": shortest(self.fts5_title_weight),
        } | ({f"{PREFIX}FUSION_WEIGHTS": weights} if weights else {})

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"weights": dict(self.weights)}


@dataclass(frozen=True)
class Sweep:
    """A parsed sweep file. ``libraries`` has the folder of each library of a point; ``to`` is the latest date of a
    paper, or ``query`` for each query's own date."""

    queries: Path
    metadata: Path | None
    measure: Measure
    seed: int
    limit: int
    to: str | None
    points: tuple[Point, ...]
    baseline: Point
    libraries: Mapping[str, Path]


class _File:
    """Checks the values of a sweep file; errors begin with the file's name."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def error(self, sentence: str) -> EvaluationError:
        return EvaluationError(f"{self.path.name}: {sentence}")

    def load(self) -> dict[str, Any]:
        try:
            return tomllib.loads(self.path.read_text(encoding="utf-8"))
        except OSError as error:
            raise EvaluationError(
                f"The sweep file {self.path} cannot be read: {error.strerror}. Check its path."
            ) from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise self.error(f"it is not valid TOML ({error}): see https://toml.io.") from error

    def check_keys(self, table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
        known = tuple(known)
        for key in table:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                meant = f" Did you mean {near[0]}?" if near else ""
                raise self.error(
                    f"{where} has the unknown key {key!r}: known keys are {', '.join(known)}.{meant}"
                )

    def table(self, table: Mapping[str, Any], key: str) -> dict[str, Any]:
        value = table.get(key, {})
        if not isinstance(value, dict):
            raise self.error(f"{key} is {value!r}: it must be a table, [{key}].")
        return value

    def text(self, table: Mapping[str, Any], key: str) -> str | None:
        value = table.get(key)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise self.error(f"{key} is {value!r}: it must be a text.")
        return value

    def whole(self, table: Mapping[str, Any], key: str, default: int, least: int, most: int) -> int:
        value = table.get(key, default)
        if type(value) is not int or not least <= value <= most:
            raise self.error(f"{key} is {value!r}: it must be a whole number from {least} to {most:,}.")
        return value

    def axis(self, key: str, value: Any, where: str) -> Any:
        """One value of an axis, checked like the setting of the same name."""
        name = f"{where}{key}"
        if key in ("library", *_CHOICES):
            choices = _CHOICES.get(key)
            if not isinstance(value, str) or not value or (choices and value not in choices):
                expected = f"one of {', '.join(choices)}" if choices else "the path of a library, as a text"
                raise self.error(f"{name} has the value {value!r}: it must be {expected}.")
            return value
        whole = key in ("rrf_k", "fusion_depth")
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            kind = "whole numbers" if whole else "numbers"
            raise self.error(f"{name} has the value {value!r}: it takes {kind}.")
        try:
            load_settings(**({"fusion_weights": {key: value}} if key in LEGS else {key: value}))
        except InvalidRequest as error:
            raise self.error(f"{name} has the invalid value {value!r}: {error}") from error
        return value if whole else float(value)

    def values(self, key: str, values: Any, where: str) -> list[Any]:
        """The values of an axis."""
        if not isinstance(values, list) or not values:
            raise self.error(f"{where}{key} is {values!r}: it must be a list of at least one value.")
        checked = [self.axis(key, value, where) for value in values]
        twice = [value for place, value in enumerate(checked) if value in checked[:place]]
        if twice:
            raise self.error(f"{where}{key} has the value {twice[0]!r} twice: list each value once.")
        return checked


def read_sweep(path: Path, *, library: Path | None = None, settings: Settings | None = None) -> Sweep:
    """Read a sweep file. Paths in it are relative to it.

    Args:
        library: used if the file names no library.
        settings: the baseline's settings that the file leaves out; None: from the environment.

    Raises:
        EvaluationError: the file is unreadable or has an invalid value; the message names the key and the value.
        InvalidRequest: the measure is unknown, or needs more results than the limit.
        LibraryNotFound, LibraryCorrupt: a library cannot be opened.
    """
    file = _File(path)
    content = file.load()
    file.check_keys(content, _TOP, "the file")
    queries = file.text(content, "queries")
    if queries is None:
        raise file.error('it names no queries: add queries = "queries.jsonl".')
    metadata = file.text(content, "metadata")
    limit = file.whole(content, "limit", 100, 1, MAX_LIMIT)
    grid = file.table(content, "grid")
    baseline_table = file.table(content, "baseline")
    libraries = _libraries(file, grid, baseline_table, library)
    axes, weights = _grid(file, grid)
    first = next(iter(libraries))
    manifests = {label: read_manifest(folder)[0] for label, folder in libraries.items()}
    baseline = _baseline(file, baseline_table, first, manifests, settings or load_settings())
    points = _points(file, axes, weights, baseline)
    for point in (*points, baseline):
        _check_supported(file, point, manifests[point.library])
    return Sweep(
        queries=path.parent / queries,
        metadata=None if metadata is None else path.parent / metadata,
        measure=_measure(file, content, limit),
        seed=file.whole(content, "seed", 0, 0, 2**63),
        limit=limit,
        to=file.text(content, "to"),
        points=points,
        baseline=baseline,
        libraries=libraries,
    )


def _measure(file: _File, content: Mapping[str, Any], limit: int) -> Measure:
    measure = parse_measure(file.text(content, "measure") or "R@100")
    if measure.cutoff is not None and measure.cutoff > limit:
        raise InvalidRequest(
            f"{measure.name} needs the first {measure.cutoff:,} results, and {file.path.name} has a limit of "
            f"{limit:,}: raise the limit, or use a lower cutoff."
        )
    return measure


def _libraries(
    file: _File, grid: Mapping[str, Any], baseline: Mapping[str, Any], library: Path | None
) -> dict[str, Path]:
    labels = file.values("library", grid["library"], "grid.") if "library" in grid else []
    if "library" in baseline:
        labels = list(dict.fromkeys([*labels, file.axis("library", baseline["library"], "baseline.")]))
    if labels:
        return {label: file.path.parent / label for label in labels}
    if library is None:
        raise file.error('no library is named: add library = ["my-library"] to [grid], or give --library.')
    return {str(library): library}


def _grid(file: _File, grid: Mapping[str, Any]) -> tuple[dict[str, list[Any]], dict[str, list[float]]]:
    """The values of each axis, and of each leg's weight."""
    file.check_keys(grid, (*AXES, "weights"), "[grid]")
    axes = {axis: file.values(axis, grid[axis], "grid.") for axis in AXES if axis in grid}
    table = file.table(grid, "weights")
    file.check_keys(table, LEGS, "[grid.weights]")
    weights: dict[str, list[float]] = {
        leg: file.values(leg, table[leg], "grid.weights.") for leg in LEGS if leg in table
    }
    count = math.prod(map(len, (*axes.values(), *weights.values())))
    if count > MAX_POINTS:
        raise file.error(f"the grid has {count:,} points: the maximum is {MAX_POINTS:,}. Remove some values.")
    if not axes and not weights:
        raise file.error(f"[grid] is empty: add lists of values for some of {', '.join(AXES)} or weights.")
    return axes, weights


def _baseline(
    file: _File, table: Mapping[str, Any], first: str, manifests: Mapping[str, Manifest], settings: Settings
) -> Point:
    """The baseline of the file, completed from the settings and the library."""
    file.check_keys(table, (*AXES, "weights"), "[baseline]")
    values = {axis: file.axis(axis, table[axis], "baseline.") for axis in AXES if axis in table}
    weights = file.table(table, "weights")
    file.check_keys(weights, LEGS, "[baseline.weights]")
    legs = {leg: file.axis(leg, weights[leg], "baseline.weights.") for leg in LEGS if leg in weights}
    label = values.get("library", first)
    mode: Mode = "sparse" if manifests[label].vectors["dimensions"] is None else "hybrid"
    settings = with_profile(settings, manifests[label].profile)
    default = Point(
        library=label,
        mode=mode,
        engine=settings.engine or "bm25",
        rrf_k=settings.rrf_k,
        fusion_depth=settings.fusion_depth,
        fts5_title_weight=settings.fts5_title_weight,
        weights=_weights((settings.fusion_weights or {}) | legs),
    )
    return replace(default, **values)


def _points(
    file: _File, axes: Mapping[str, list[Any]], weights: Mapping[str, list[float]], baseline: Point
) -> tuple[Point, ...]:
    """Every combination of the grid, completed from the baseline."""
    points = []
    for values in product(*axes.values(), *weights.values()):
        changed = dict(zip(axes, values, strict=False))
        legs = dict(baseline.weights) | dict(zip(weights, values[len(axes) :], strict=True))
        points.append(replace(baseline, **changed, weights=_weights(legs)))
    return tuple(points)


def _weights(legs: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    return tuple((leg, legs[leg]) for leg in LEGS if leg in legs)


def _check_supported(file: _File, point: Point, manifest: Manifest) -> None:
    if point.mode != "sparse" and manifest.vectors["dimensions"] is None:
        raise file.error(
            f"mode {point.mode!r} needs dense vectors, and the library {point.library} was built without them: "
            "remove the mode, or use another library."
        )
    if point.mode != "dense" and point.engine == "learned" and not cast("Any", manifest.vectors)["learned"]:
        raise file.error(
            f"engine 'learned' needs learned term weights, and the library {point.library} has none: remove it."
        )
    if point.mode == "hybrid" and point.weight(point.engine) == point.weight("dense") == 0:
        raise file.error(
            f"a point has weight 0 for both {point.engine} and dense, so its fusion would rank nothing: remove one of "
            "the zeros."
        )
