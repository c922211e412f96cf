"""Laws of growth through libraries that were measured (``measured.json``), and how far they can be trusted.

A law is a line. How well it extrapolates is known from the measured libraries: laws through the smaller ones predict
each larger one. An error of ``e`` (a logarithm) at a factor ``f`` of extrapolation is a drift of ``e / ln f``. The
interval at a factor F is the estimate times and divided by ``exp(spread + t * drift * ln F)``: drift is the root mean
square, t the 95% point of Student's distribution with as many degrees of freedom as libraries were predicted, spread
the greatest distance of a measurement from its law.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import linear_regression, median
from typing import Any, Final, NamedTuple

import orjson

FILE: Final = Path(__file__).parent / "measured.json"
STUDENT: Final = (6.314, 2.920, 2.353, 2.132, 2.015)
"""The 95% points of Student's distribution for 1 to 5 degrees of freedom. For more the last is taken."""

FAR: Final = 1.7
"""The least factor of extrapolation whose error counts: in that of nearer sizes the noise of single runs prevails."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A quantity, its interval of 90%, and where it comes from."""

    value: float
    low: float
    high: float
    basis: str

    def times(self, factor: float) -> Estimate:
        """The estimate in another unit, or of a share."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor, self.basis)


def exact(value: float, basis: str) -> Estimate:
    """An estimate without an interval."""
    return Estimate(value, value, value, basis)


def total(*parts: Estimate) -> Estimate:
    """The sum of estimates that may all be wrong in the same direction."""
    return Estimate(
        sum(part.value for part in parts),
        sum(part.low for part in parts),
        sum(part.high for part in parts),
        "; ".join(dict.fromkeys(basis for part in parts if part.value for basis in part.basis.split("; "))),
    )


def extrapolation(
    size: float, smallest: float, largest: float, what: str, growth: Callable[[float], float] = float
) -> tuple[float, str]:
    """The factor by which a size is beyond those measured, 1 between them, and where its estimate comes from."""
    above, below = growth(size) / growth(largest), growth(smallest) / growth(size)
    factor = max(1.0, above, below)
    if factor == 1.0:
        return factor, "measured"
    nearest = f"from {largest:,.0f}" if above > 1.0 else f"down from {smallest:,.0f}"
    return factor, f"extrapolated {factor:,.{0 if factor >= 10 else 1}f} times {nearest} {what}"


def log_linear(papers: float) -> float:
    """Sorting, B-trees and the graph take time in proportion to n log n."""
    return papers * math.log2(max(papers, 2.0))


class Law(NamedTuple):
    """``intercept + slope * growth(size)``."""

    intercept: float
    slope: float
    growth: Callable[[float], float]

    @classmethod
    def through(cls, values: Mapping[float, float], growth: Callable[[float], float] = float) -> Law:
        """The line of least squares through at least two values by size."""
        grown = [growth(size) for size in values]
        slope, intercept = linear_regression(grown, list(values.values()))
        return cls(intercept, slope, growth)

    def at(self, size: float) -> float:
        """The value at a size, never below zero."""
        return max(0.0, self.intercept + self.slope * self.growth(size))


@dataclass(frozen=True, slots=True)
class Width:
    """The half width of an interval, as a logarithm: ``spread + drift * ln(factor)``, ``drift`` with Student's t."""

    spread: float
    drift: float
    smallest: float
    largest: float
    growth: Callable[[float], float]

    @classmethod
    def of(cls, runs: Sequence[tuple[float, float]], growth: Callable[[float], float] = float) -> Width:
        """From (size, value) of all runs.

        Raises:
            ValueError: there are too few sizes to leave one out.
        """
        values = medians(runs)
        sizes = sorted(values)
        drifts: list[float] = []
        predicted = set()
        for known in range(2, len(sizes)):
            law = Law.through({size: values[size] for size in sizes[:known]}, growth)
            for size in sizes[known:]:
                factor = growth(size) / growth(sizes[known - 1])
                if factor >= FAR:
                    drifts.append(_error(values[size], law.at(size)) / math.log(factor))
                    predicted.add(size)
        if not drifts:
            raise ValueError(f"No size is {FAR} times the greatest of two smaller ones: measure larger ones.")
        student = STUDENT[min(len(predicted), len(STUDENT)) - 1]
        law = Law.through(values, growth)
        return cls(
            spread=max(_error(value, law.at(size)) for size, value in runs),
            drift=student * math.sqrt(sum(drift * drift for drift in drifts) / len(drifts)),
            smallest=sizes[0],
            largest=sizes[-1],
            growth=growth,
        )

    def around(self, value: float, size: float) -> Estimate:
        """The interval of an estimate for a size."""
        factor, basis = extrapolation(size, self.smallest, self.largest, "papers", self.growth)
        spread = math.exp(self.spread + self.drift * math.log(factor))
        return Estimate(value, value / spread, value * spread, basis)


def medians(runs: Sequence[tuple[float, float]]) -> dict[float, float]:
    """The median of the runs of each size."""
    return {size: median(value for run_size, value in runs if run_size == size) for size, _ in sorted(runs)}


def _error(measured: float, predicted: float) -> float:
    return abs(math.log(measured / predicted)) if predicted > 0 else math.inf


@dataclass(frozen=True, slots=True)
class Point:
    """What one library took. Bytes of memory are resident; ``serve_bytes`` is without mapped files.

    ``temporary_bytes`` of disk are taken during the build besides the finished library. ``seconds`` are those of the
    build by the clock, ``cpu_seconds`` of all its processes; ``search_cpu_seconds`` are of one hybrid search. None was
    not measured.
    """

    papers: int
    dense: bool
    disk_bytes: int | None = None
    vectors_bytes: int | None = None
    temporary_bytes: int | None = None
    build_bytes: int | None = None
    seconds: float | None = None
    cpu_seconds: float | None = None
    search_cpu_seconds: float | None = None
    serve_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Citations:
    """What the citations of a release add to a library: of ``edges`` that were read, those between its papers are
    ``kept``. They add nothing to the temporary files, which are most while the vectors are indexed."""

    edges: int
    kept: int
    disk_bytes: int
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurements, and what was measured where."""

    source: str
    machine: str
    dimensions: int
    tokens_per_paper: float
    points: list[Point]
    citations: list[Citations]

    def runs(self, quantity: str, *, dense: bool) -> list[tuple[float, float]]:
        """Papers and the quantity, an attribute of :class:`Point`, of libraries with or without vectors."""
        runs = [(point.papers, getattr(point, quantity)) for point in self.points if point.dense == dense]
        return [(papers, value) for papers, value in runs if value is not None]

    @property
    def sizes(self) -> list[int]:
        """The numbers of papers that were measured."""
        return sorted({point.papers for point in self.points})

    def to_bytes(self) -> bytes:
        """JSON with one measurement a line."""
        content = asdict(self)
        lists = {name: content.pop(name) for name in ("points", "citations")}
        head = orjson.dumps(content, option=orjson.OPT_INDENT_2).removesuffix(b"\n}")
        rows = [
            b'  "%s": [\n    %s\n  ]' % (name.encode(), b",\n    ".join(map(_line, rows)))
            for name, rows in lists.items()
        ]
        return head + b",\n" + b",\n".join(rows) + b"\n}\n"

    @classmethod
    def from_bytes(cls, content: bytes) -> Measured:
        data: dict[str, Any] = orjson.loads(content)
        points = [Point(**point) for point in data["points"]]
        return cls(
            **data
            | {"points": points, "citations": [Citations(**citations) for citations in data["citations"]]}
        )


def _line(row: dict[str, Any]) -> bytes:
    return orjson.dumps({name: value for name, value in row.items() if value is not None})


def shipped() -> Measured:
    """The measurements that come with the package."""
    return Measured.from_bytes(FILE.read_bytes())
