"""Lines through the measurements of ``make bench`` (``slopes.json``), with the uncertainty of their predictions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

FILE: Final = Path(__file__).parent / "slopes.json"

_T95: Final = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""97.5% quantiles of Student's t for 1 to 10 degrees of freedom:
https://www.itl.nist.gov/div898/handbook/eda/section3/eda3672.htm"""
_NORMAL95: Final = 1.96


@dataclass(frozen=True, slots=True)
class Point:
    """What one library took. Bytes of memory are resident, mapped files included; ``anonymous`` is without them.

    Seconds are those of the build by the clock; ``cpu_seconds`` are of all its processes. ``load`` is the mean number
    of running processes on the machine. ``search_cpu_seconds`` are of one search, hybrid
    where it is ``dense``.
    """

    papers: int
    dense: bool
    disk_bytes: int
    vectors_bytes: int
    build_bytes: int
    build_anonymous_bytes: int
    seconds: float
    cpu_seconds: float
    load: float
    search_cpu_seconds: float
    serve_bytes: int
    serve_anonymous_bytes: int


class Predicted(NamedTuple):
    """A value and its 95% prediction interval."""

    value: float
    low: float
    high: float


def linear(papers: float) -> float:
    return papers


def log_linear(papers: float) -> float:
    """Sorting, B-trees and the graph take time in proportion to n log n."""
    return papers * math.log2(max(papers, 2.0))


GROWTH: Final[Mapping[str, Callable[[float], float]]] = {"cpu_seconds": log_linear}
"""The quantities that do not grow in proportion to the papers."""


@dataclass(frozen=True, slots=True)
class Fit:
    """A line by ordinary least squares: ``intercept + slope * growth(papers)``.

    ``residual`` is the standard deviation around the line, 0 with two points; ``least`` is the least value of a point.
    """

    intercept: float
    slope: float
    residual: float
    mean: float
    spread: float
    points: int
    least: float
    growth: Callable[[float], float] = linear

    @classmethod
    def of(
        cls, papers: Sequence[float], values: Sequence[float], growth: Callable[[float], float] = linear
    ) -> Fit:
        """Fit at least two points with different numbers of papers."""
        places, count = [growth(number) for number in papers], len(papers)
        mean, middle = sum(places) / count, sum(values) / count
        spread = sum((x - mean) ** 2 for x in places)
        slope = sum((x - mean) * (y - middle) for x, y in zip(places, values, strict=True)) / spread
        intercept = middle - slope * mean
        squares = sum((y - intercept - slope * x) ** 2 for x, y in zip(places, values, strict=True))
        residual = math.sqrt(squares / (count - 2)) if count > 2 else 0.0
        return cls(intercept, slope, residual, mean, spread, count, min(values), growth)

    @property
    def t(self) -> float:
        """The quantile of a 95% interval."""
        freedom = self.points - 2
        return _T95[freedom - 1] if 1 <= freedom <= len(_T95) else _NORMAL95

    def at(self, papers: float) -> Predicted:
        """The prediction at a number of papers, with the interval of a new measurement there. None is below zero."""
        place = self.growth(papers)
        value = self.intercept + self.slope * place
        share = 1 + 1 / self.points + (place - self.mean) ** 2 / self.spread
        margin = self.t * self.residual * math.sqrt(share)
        return Predicted(max(0.0, value), max(0.0, value - margin), max(0.0, value + margin))


@dataclass(frozen=True, slots=True)
class Slopes:
    """Measurements, with what was measured where. ``checked`` are larger libraries, which no line goes through."""

    source: str
    machine: str
    dimensions: int
    tokens_per_paper: float
    points: list[Point]
    checked: list[Point]

    @property
    def sizes(self) -> list[int]:
        """The numbers of papers that were measured."""
        return sorted({point.papers for point in self.points})

    def fit(self, quantity: str, *, dense: bool) -> Fit:
        """The line of a quantity, an attribute of :class:`Point`, of libraries with or without vectors.

        That of searches goes through the larger libraries too: in small ones the papers are too few to matter.
        """
        points = self.points + (self.checked if quantity == "search_cpu_seconds" else [])
        points = [point for point in points if point.dense == dense]
        values = [getattr(point, quantity) for point in points]
        return Fit.of([point.papers for point in points], values, GROWTH.get(quantity, linear))

    def difference(self, quantity: str) -> Fit:
        """The line of what vectors add to a quantity, of pairs of libraries of the same papers."""
        without, held = ([point for point in self.points if point.dense == dense] for dense in (False, True))
        added = [
            getattr(more, quantity) - getattr(less, quantity)
            for more, less in zip(held, without, strict=True)
        ]
        return Fit.of([point.papers for point in held], added, GROWTH.get(quantity, linear))

    def to_bytes(self) -> bytes:
        return orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2) + b"\n"

    @classmethod
    def from_bytes(cls, content: bytes) -> Slopes:
        data: dict[str, Any] = orjson.loads(content)
        points = {name: [Point(**point) for point in data[name]] for name in ("points", "checked")}
        return cls(**data | points)


def shipped() -> Slopes:
    """The measurements that come with the package."""
    return Slopes.from_bytes(FILE.read_bytes())
