"""What a library needs: disk, memory, processor time, hours of encoding.

A library's size is that without vectors, which was measured, and that of its vectors. For each dimension they take two
bytes (float16) and a quarter (codes of two bits), which follows from the format. The rest, mostly links of the graph,
was measured with the smaller graph of static encoders (m 16), and is taken twice for other encoders (m 32).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Final, TypeAlias

import orjson

from scholarbase.errors import InvalidRequest
from scholarbase_cluster.planning.growth import (
    Estimate,
    Law,
    Measured,
    Width,
    exact,
    extrapolation,
    log_linear,
    medians,
    total,
)

GPUS: Final = Path(__file__).parent / "gpus.json"

QDRANT: Final = "https://qdrant.tech/documentation/guides/capacity-planning"
QDRANT_FACTOR: Final = 4 * 1.5
"""Bytes of memory for each dimension of a vector, by Qdrant's formula: 4 bytes, and half as much for indexes and
temporary segments."""
STORED_BYTES: Final = 2.0
CODE_BYTES: Final = 0.25
GRAPH_RATIO: Final = 2.0
"""Links of the graph of other encoders (m 32), relative to those of static encoders (m 16)."""
CACHED_PAPERS: Final = 135_000
CACHED_BYTES: Final = 256e6 / CACHED_PAPERS
"""Papers whose catalogue fills the caches of a build, 256 MB, and the share of each."""
DENSE_SEGMENT_POINTS: Final = 1_000_000
"""Papers of a segment (:mod:`scholarbase.indexes.vectors.edge`), which are built one after the other: beyond it, and
beyond the caches, the memory of a build does not grow. A search takes the time of one in each."""
BUILD_BYTES_PER_DIMENSION: Final = 4.25
"""Of a vector while its segment is built: float16 in two segments, and codes."""
LEFT_OUT_SECONDS: Final = 61.6 / 1_684_096
"""To read a record that is not kept: as one that is (benchmarks/results/ingest.json)."""
MOST_DIMENSIONS: Final = 16_384
MOST_PAPERS: Final = 10_000_000_000
MOST_CITATIONS: Final = 100_000_000_000

Runs: TypeAlias = list[tuple[float, float]]


def check(name: str, value: float, least: float, most: float, unit: str) -> None:
    """Refuse a value out of range. Raises InvalidRequest."""
    if not least <= value <= most:  # also where it is not a number
        raise InvalidRequest(
            f"{name} is {_digits(value)}: it must be from {_digits(least)} to {_digits(most)} {unit}."
        )


def _digits(value: float) -> str:
    """A number without an exponent, where a float has at most 15 digits."""
    return format(value, "," if isinstance(value, int) else ",.15g")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A library: its papers, those of the release that are not kept, the release's citations and the length of vectors.

    Raises:
        InvalidRequest: a number is out of range.
    """

    papers: int
    dimensions: int = 256
    citations: int = 0
    left_out: int = 0
    download_bytes: float = 0.0

    def __post_init__(self) -> None:
        check("--papers", self.papers, 1, MOST_PAPERS, "papers")
        check("--citations", self.citations, 0, MOST_CITATIONS, "citations")
        check("--dimensions", self.dimensions, 0, MOST_DIMENSIONS, "dimensions, 0 without vectors")

    @property
    def kept_share(self) -> float:
        """The share of the release's papers that the library has."""
        return self.papers / (self.papers + self.left_out)


def requirements(wanted: Wanted, measured: Measured) -> dict[str, Estimate]:
    """What a library needs: bytes, seconds and processor seconds by name.

    ``disk_bytes`` is the whole library, of which ``citations_bytes`` and ``vectors_bytes`` are parts.
    ``space_bytes`` is the most while it is built: the release, the library and temporary files. ``memory_bytes`` holds
    all that searches read but the rows of results; ``least_memory_bytes`` is without the float16 vectors, which are
    then read from a fast disk. ``cpu_seconds`` are of a build, without encoding by a model.
    """
    n, d = wanted.papers, wanted.dimensions
    citations = kept_citations(wanted)
    edges = {name: _of_citations(wanted, measured, name) for name in ("disk_bytes", "cpu_seconds")}
    vectors = estimated(measured, "vectors_bytes", n, d)
    disk = total(estimated(measured, "disk_bytes", n, d), edges["disk_bytes"])
    temporary = _temporary(measured, vectors)
    download = exact(wanted.download_bytes, "published")
    process = estimated(measured, "serve_bytes", n, d)
    memory = total(vectors, process)
    stored = STORED_BYTES * d * n
    left_out = exact(wanted.left_out * LEFT_OUT_SECONDS, "measured")
    cpu = total(estimated(measured, "cpu_seconds", n, d), edges["cpu_seconds"], left_out)
    return {
        "citations": citations,
        "download_bytes": download,
        "disk_bytes": disk,
        "citations_bytes": edges["disk_bytes"],
        "vectors_bytes": vectors,
        "temporary_bytes": temporary,
        "space_bytes": total(download, disk, temporary),
        "build_bytes": estimated(measured, "build_bytes", n, d),
        "cpu_seconds": cpu,
        "seconds": cpu.times(clock_share(measured, dense=d > 0)),
        "serve_bytes": process,
        "memory_bytes": memory,
        "least_memory_bytes": total(memory, exact(-stored, memory.basis)),
        "search_cpu_seconds": estimated(measured, "search_cpu_seconds", n, d),
    }


def kept_citations(wanted: Wanted) -> Estimate:
    """The citations between the papers of a library, of those of a release.

    If each end of a citation had an abstract as often as any paper, the square of the share of papers would be kept.
    Papers that are cited have one more often: of the release that was measured the share itself, nearly.
    """
    share, edges = wanted.kept_share, float(wanted.citations)
    if share == 1.0 or not edges:
        return exact(edges, "of the release")
    return Estimate(edges * share, edges * share**2, edges, "the share of the papers that are kept")


def _of_citations(wanted: Wanted, measured: Measured, quantity: str) -> Estimate:
    """What citations add: in proportion to those that are kept, processor time to those that are read.

    The rates of the measured sets are the interval, which drifts as that of the papers does.
    """
    counted, wanted_count = (
        ("edges", exact(float(wanted.citations), ""))
        if quantity == "cpu_seconds"
        else ("kept", kept_citations(wanted))
    )
    if not wanted.citations:
        return exact(0.0, "no citations")
    rates = {
        getattr(citations, counted): getattr(citations, quantity) / getattr(citations, counted)
        for citations in measured.citations
    }
    factor, basis = extrapolation(wanted_count.value, min(rates), max(rates), "citations")
    drift = factor ** Width.of(*_law(measured, quantity, dense=True)).drift
    return Estimate(
        wanted_count.value * rates[max(rates)],
        wanted_count.low * min(rates.values()) / drift,
        wanted_count.high * max(rates.values()) * drift,
        basis,
    )


def _temporary(measured: Measured, vectors: Estimate) -> Estimate:
    """Temporary files of a build: copies of the vectors and of the segment that is built."""
    shares = [
        point.temporary_bytes / point.vectors_bytes
        for point in measured.points
        if point.temporary_bytes is not None and point.vectors_bytes is not None
    ]
    return Estimate(
        vectors.value * median(shares), vectors.low * min(shares), vectors.high * max(shares), vectors.basis
    )


def estimated(measured: Measured, quantity: str, papers: int, dimensions: int) -> Estimate:
    """A quantity of a library with vectors of these dimensions, without citations.

    With other dimensions than were measured, the interval is as wide as with those. Searches are hybrid: those without
    vectors are at most as dear. Their interval is that of one segment, as they take the time
    of one in each.
    """
    dense = dimensions > 0 or quantity == "search_cpu_seconds"
    width = Width.of(*_law(measured, quantity, dense=dense))
    estimate = width.around(_value(measured, quantity, papers, dimensions, dense=dense), papers)
    if quantity == "search_cpu_seconds" and papers > DENSE_SEGMENT_POINTS:
        _, basis = extrapolation(papers, width.smallest, width.largest, "papers")
        return replace(estimate, basis=f"{basis}, the interval that of {DENSE_SEGMENT_POINTS:,}")
    return estimate


def _law(measured: Measured, quantity: str, *, dense: bool) -> tuple[Runs, Callable[[float], float]]:
    """The runs of a quantity, and how it grows."""
    runs = measured.runs(quantity, dense=dense)
    if quantity == "cpu_seconds":
        return runs, log_linear
    if quantity == "search_cpu_seconds":
        return runs, _segment
    if quantity == "build_bytes":
        return [(size, value - _cached(size, dense)) for size, value in runs], _segment if dense else _caches
    return runs, float


def _segment(papers: float) -> float:
    return min(papers, DENSE_SEGMENT_POINTS)


def _caches(papers: float) -> float:
    return min(papers, CACHED_PAPERS)


def _cached(papers: float, dense: bool) -> float:
    """Memory of the caches of a build with vectors. A build without grows as they do."""
    return CACHED_BYTES * _caches(papers) if dense else 0.0


def _value(measured: Measured, quantity: str, papers: int, dimensions: int, *, dense: bool) -> float:
    runs, growth = _law(measured, quantity, dense=dense)
    here = Law.through(medians(runs), growth).at(papers)
    if quantity == "search_cpu_seconds":  # of each segment
        return here * papers / _segment(papers)
    if quantity == "build_bytes":
        longer = dimensions - measured.dimensions if dense else 0
        return here + _cached(papers, dense) + BUILD_BYTES_PER_DIMENSION * longer * _segment(papers)
    if quantity == "serve_bytes" or dimensions in (0, measured.dimensions):
        return here
    without = _value(measured, quantity, papers, 0, dense=False)
    if quantity == "cpu_seconds":
        return without + (here - without) * dimensions / measured.dimensions
    bytes_per_dimension = (STORED_BYTES + CODE_BYTES) * papers
    links = max(0.0, here - without - bytes_per_dimension * measured.dimensions)
    return without + bytes_per_dimension * dimensions + GRAPH_RATIO * links


def clock_share(measured: Measured, *, dense: bool) -> float:
    """Seconds by the clock for each processor second of the build of the largest library, on two cores."""
    (_, seconds), (_, worked) = (
        max(measured.runs(quantity, dense=dense)) for quantity in ("seconds", "cpu_seconds")
    )
    return seconds / worked


def encoding_hours(wanted: Wanted, measured: Measured, speeds: dict[str, float]) -> dict[str, float]:
    """Hours in which one machine encodes the papers, by its name. ``speeds`` are tokens per second."""
    return {name: wanted.papers * measured.tokens_per_paper / speed / 3600 for name, speed in speeds.items()}


def own_speed(tokens_per_second: float, gpus: Sequence[str] = ()) -> dict[str, float]:
    """The speed of an encoder that a user measured. Raises InvalidRequest."""
    if gpus:
        raise InvalidRequest("--tokens-per-second is given beside --gpu: give one of them.")
    check("--tokens-per-second", tokens_per_second, 1, 1e12, "tokens")
    return {f"{_digits(tokens_per_second)} tokens/s": tokens_per_second}


def gpu_speeds(names: Sequence[str]) -> dict[str, float]:
    """Published tokens per second of GPUs by name, of all without names.

    Raises:
        InvalidRequest: nothing is published here for a GPU.
    """
    known = orjson.loads(GPUS.read_bytes())["gpus"]
    by_name = {name.casefold(): name for name in known}
    for name in names:
        if name.casefold() not in by_name:
            raise InvalidRequest(
                f"No published speed of the GPU {name[:50]!r} is known: give {' or '.join(known)}, or its own with "
                "--tokens-per-second."
            )
    chosen = [by_name[name.casefold()] for name in names] or list(known)
    return {name: known[name]["tokens"] / known[name]["seconds"] for name in chosen}
