"""Lines through the measurements of ``make bench`` (``slopes.json``)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import linear_regression
from typing import Any, Final, NamedTuple

import orjson

FILE: Final = Path(__file__).parent / "slopes.json"


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


def log_linear(papers: float) -> float:
    """Sorting, B-trees and the graph take time in proportion to n log n."""
    return papers * math.log2(max(papers, 2.0))


class Line(NamedTuple):
    """A line by least squares, ``intercept + slope * growth(papers)``. ``least`` is the least value of a point."""

    intercept: float
    slope: float
    least: float
    growth: Callable[[float], float]

    @classmethod
    def through(cls, quantity: str, papers: Sequence[float], values: Sequence[float]) -> Line:
        """Fit at least two points with different numbers of papers."""
        growth = log_linear if quantity == "cpu_seconds" else float
        slope, intercept = linear_regression([growth(number) for number in papers], values)
        return cls(intercept, slope, min(values), growth)

    def at(self, papers: float) -> float:
        """The value at a number of papers, never below zero."""
        return max(0.0, self.intercept + self.slope * self.growth(papers))


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

    def line(self, quantity: str, *, dense: bool) -> Line:
        """The line of a quantity, an attribute of :class:`Point`, of libraries with or without vectors.

        That of searches goes through the larger libraries too: in small ones the papers are too few to matter.
        """
        points = self.points + (self.checked if quantity == "search_cpu_seconds" else [])
        points = [point for point in points if point.dense == dense]
        values = [getattr(point, quantity) for point in points]
        return Line.through(quantity, [point.papers for point in points], values)

    def difference(self, quantity: str) -> Line:
        """The line of what vectors add to a quantity, of pairs of libraries of the same papers."""
        without, dense = ([point for point in self.points if point.dense == has] for has in (False, True))
        added = [
            getattr(more, quantity) - getattr(less, quantity)
            for more, less in zip(dense, without, strict=True)
        ]
        return Line.through(quantity, [point.papers for point in dense], added)

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
