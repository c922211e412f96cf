"""Sweep files: read the points of a grid from TOML. docs/evaluation.md describes the file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, cast

import msgspec

from scholarbase.errors import EvaluationError, InvalidRequest
from scholarbase.manifest import Manifest, read_manifest
from scholarbase.models.limits import Engine, Mode
from scholarbase.search.profiles import with_profile
from scholarbase.settings import LEGS, PREFIX, Settings, load_settings
from scholarbase_research.evaluation.measures import Measure, parse_measure

MAX_POINTS: Final = 10_000
MAX_LIMIT: Final = 10_000
AXES: Final = ("mode", "engine", "rrf_k", "fusion_depth", "fts5_title_weight")
"""Axes of a grid, besides the legs' weights; the first axis varies slowest."""


def shortest(number: float) -> str:
    """The shortest text that reads back as the same number: ``2``, ``0.1234567``."""
    return repr(number).removesuffix(".0")


@dataclass(frozen=True, slots=True)
class Point:
    """Search settings. A leg's default weight is 1."""

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
            return (self.mode,)
        title_weight = self.fts5_title_weight if self.engine == "fts5" else None
        sparse = (self.mode, self.engine, title_weight)
        if self.mode == "sparse":
            return sparse
        return *sparse, self.rrf_k, self.fusion_depth, self.weight(self.engine), self.weight("dense")

    def differs_from(self, other: Point) -> int:
        """The number of settings that differ."""
        mine, theirs = dict(self.weights), dict(other.weights)
        axes = [axis for axis in AXES if getattr(self, axis) != getattr(other, axis)]
        return len(axes) + len([leg for leg in LEGS if mine.get(leg, 1.0) != theirs.get(leg, 1.0)])

    def variables(self) -> dict[str, str]:
        """The settings of this point as environment variables; the mode is not a setting."""
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
    """A parsed sweep file. ``to`` is the latest date of a paper, or ``query`` for each query's own date."""

    queries: Path
    metadata: Path | None
    measure: Measure
    seed: int
    limit: int
    to: str | None
    points: tuple[Point, ...]
    baseline: Point
    library: Path


T = TypeVar("T")
Values = Annotated[list[T], msgspec.Meta(min_length=1)]


class _Grid(msgspec.Struct, forbid_unknown_fields=True):
    """The values of each axis, and of each leg's weight."""

    mode: Values[Mode] | None = None
    engine: Values[Engine] | None = None
    rrf_k: Values[int] | None = None
    fusion_depth: Values[int] | None = None
    fts5_title_weight: Values[float] | None = None
    weights: dict[str, Values[float]] = {}


class _Baseline(msgspec.Struct, forbid_unknown_fields=True):
    mode: Mode | None = None
    engine: Engine | None = None
    rrf_k: int | None = None
    fusion_depth: int | None = None
    fts5_title_weight: float | None = None
    weights: dict[str, float] = {}


class _Content(msgspec.Struct, forbid_unknown_fields=True):
    queries: Annotated[str, msgspec.Meta(min_length=1)]
    grid: _Grid
    metadata: str | None = None
    measure: str = "R@100"
    seed: Annotated[int, msgspec.Meta(ge=0)] = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_LIMIT)] = 100
    to: str | None = None
    baseline: _Baseline = msgspec.field(default_factory=_Baseline)


class _File:
    """A sweep file; errors begin with its name."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def error(self, sentence: str) -> EvaluationError:
        return EvaluationError(f"{self.path.name}: {sentence}")

    def load(self) -> _Content:
        try:
            content = msgspec.toml.decode(self.path.read_bytes(), type=_Content)
        except OSError as error:
            raise EvaluationError(
                f"The sweep file {self.path} cannot be read: {error.strerror}. Check its path."
            ) from error
        except msgspec.ValidationError as error:
            raise self.error(f"{error}.") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self.error(f"it is not valid TOML ({error}): see https://toml.io.") from error
        for name, table in (("grid", content.grid), ("baseline", content.baseline)):
            for key, values in _set(table).items():
                self._check(f"{name}.{key}", key, values if isinstance(values, list) else [values])
            for leg, values in table.weights.items():
                if leg not in LEGS:
                    raise self.error(f"{name}.weights has the unknown leg {leg!r}: use {', '.join(LEGS)}.")
                self._check(f"{name}.weights.{leg}", leg, values if isinstance(values, list) else [values])
        return content

    def _check(self, name: str, key: str, values: list[Any]) -> None:
        """Check the values of an axis as the setting of the same name."""
        for index, value in enumerate(values):
            if value in values[:index]:
                raise self.error(f"{name} has the value {value!r} twice: list each value once.")
            if key in ("mode", "engine"):
                continue
            try:
                load_settings(**({"fusion_weights": {key: value}} if key in LEGS else {key: value}))
            except InvalidRequest as error:
                raise self.error(f"{name} has the invalid value {value!r}: {error}") from error


def _set(table: _Grid | _Baseline) -> dict[str, Any]:
    """The axes that a table sets."""
    return {axis: value for axis in AXES if (value := getattr(table, axis)) is not None}


def read_sweep(path: Path, library: Path, *, settings: Settings | None = None) -> Sweep:
    """Read a sweep file. Paths in it are relative to it.

    Args:
        settings: the baseline's settings that the file leaves out; None: from the environment.

    Raises:
        EvaluationError: the file is unreadable or has an invalid value; the message names the key and the value.
        InvalidRequest: the measure is unknown, or needs more results than the limit.
        LibraryNotFound, LibraryCorrupt: the library cannot be opened.
    """
    file = _File(path)
    content = file.load()
    count = math.prod(map(len, (*_set(content.grid).values(), *content.grid.weights.values())))
    if count > MAX_POINTS:
        raise file.error(f"the grid has {count:,} points: the maximum is {MAX_POINTS:,}. Remove some values.")
    if not _set(content.grid) and not content.grid.weights:
        raise file.error(f"[grid] is empty: add lists of values for some of {', '.join(AXES)} or weights.")
    manifest = read_manifest(library)[0]
    baseline = _baseline(content.baseline, manifest, settings or load_settings())
    weights: dict[str, list[float]] = {
        leg: content.grid.weights[leg] for leg in LEGS if leg in content.grid.weights
    }
    points = _points(_set(content.grid), weights, baseline)
    for point in (*points, baseline):
        _check_supported(file, point, manifest)
    return Sweep(
        queries=path.parent / content.queries,
        metadata=None if content.metadata is None else path.parent / content.metadata,
        measure=_measure(file, content),
        seed=content.seed,
        limit=content.limit,
        to=content.to,
        points=points,
        baseline=baseline,
        library=library,
    )


def _measure(file: _File, content: _Content) -> Measure:
    measure = parse_measure(content.measure)
    if measure.cutoff is not None and measure.cutoff > content.limit:
        raise InvalidRequest(
            f"{measure.name} needs the first {measure.cutoff:,} results, and {file.path.name} has a limit of "
            f"{content.limit:,}: raise the limit, or use a lower cutoff."
        )
    return measure


def _baseline(table: _Baseline, manifest: Manifest, settings: Settings) -> Point:
    """The baseline of the file, completed from the settings and the library."""
    settings = with_profile(settings, manifest.profile)
    default = Point(
        mode="sparse" if manifest.vectors["dimensions"] is None else "hybrid",
        engine=settings.engine or "bm25",
        rrf_k=settings.rrf_k,
        fusion_depth=settings.fusion_depth,
        fts5_title_weight=settings.fts5_title_weight,
        weights=_weights((settings.fusion_weights or {}) | table.weights),
    )
    return replace(default, **_set(table))


def _points(
    axes: Mapping[str, list[Any]], weights: Mapping[str, list[float]], baseline: Point
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
            f"mode {point.mode!r} needs dense vectors, and the library was built without them: remove the mode, or use "
            "another library."
        )
    if point.mode != "dense" and point.engine == "learned" and not cast("Any", manifest.vectors)["learned"]:
        raise file.error("engine 'learned' needs learned term weights, and the library has none: remove it.")
    if point.mode == "hybrid" and point.weight(point.engine) == point.weight("dense") == 0:
        raise file.error(
            f"a point has weight 0 for both {point.engine} and dense, so its fusion would rank nothing: remove one of "
            "the zeros."
        )
