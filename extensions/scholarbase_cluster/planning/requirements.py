"""What a library needs: disk, memory, nodes, processor time, and hours of encoding.

A library's size is that without vectors, which was measured, and that of its vectors. For each dimension they take two
bytes (float16) and a quarter (codes of two bits), which follows from the format. The rest, mostly links of the graph,
was measured with the smaller graph of static encoders (m 16), and is taken twice for other encoders (m 32).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson

from scholarbase.errors import InvalidRequest
from scholarbase_cluster.planning.slopes import Slopes

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
"""Papers whose catalogue fills the caches of a build, 256 MB, and the share of each. Segments without vectors have
100,000 papers. So a build of more without vectors takes about as much memory, and one with vectors grows without the
caches."""
DENSE_SEGMENT_POINTS: Final = 1_000_000
"""Papers of a segment with vectors (:mod:`scholarbase.indexes.vectors.edge`), which are built one after the other."""
BUILD_BYTES_PER_DIMENSION: Final = 4.25
"""Of a vector while its segment is built: float16 in two segments, and codes."""
USABLE: Final = 0.8
"""The share of a node's memory and processors that is planned for."""

MOST_PAPERS: Final = 10_000_000_000
MOST_DIMENSIONS: Final = 16_384
MOST_QUERIES: Final = 1_000_000.0
_UNITS: Final = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9}
_COUNT: Final = re.compile(
    r"(\d{1,11}|\d{1,3}(?:,\d{3}){1,3}|\d{1,5}\.\d{1,6})([KMB]?)", re.IGNORECASE | re.ASCII
)


def parse_count(text: str) -> int:
    """A number of papers: ``335000``, ``335,000``, ``200M`` or ``2.5B``.

    Raises:
        InvalidRequest: it is not a whole number from 1 to 10 billion.
    """
    match = _COUNT.fullmatch(text.strip())
    if match:
        whole, _, fraction = match[1].replace(",", "").partition(".")
        unit = _UNITS[match[2].upper()]
        scaled, rest = divmod(int(whole + fraction) * unit, int("1" + "0" * len(fraction)))
        if not rest and 1 <= scaled <= MOST_PAPERS:
            return scaled
    raise InvalidRequest(
        f"{text[:50]!r} is not a number of papers: give a whole number from 1 to 10B, such as 335000, 200M or 2.5B."
    )


def _check(name: str, value: float, least: float, most: float, unit: str) -> None:
    if not least <= value <= most:  # also where it is not a number
        raise InvalidRequest(f"{name} is {value:g}: it must be from {least:,g} to {most:,g} {unit}.")


@dataclass(frozen=True, slots=True)
class Node:
    """A machine that searches."""

    memory_gb: float = 64.0
    cores: int = 16

    def __post_init__(self) -> None:
        _check("--node-memory", self.memory_gb, 1, 100_000, "gigabytes")
        _check("--node-cores", self.cores, 1, 10_000, "cores")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The library and its use.

    Raises:
        InvalidRequest: a number is out of range.
    """

    papers: int
    dimensions: int = 256
    queries_per_second: float = 1.0
    node: Node = Node()

    def __post_init__(self) -> None:
        _check("--papers", self.papers, 1, MOST_PAPERS, "papers")
        _check("--dimensions", self.dimensions, 0, MOST_DIMENSIONS, "dimensions, 0 without vectors")
        _check("--queries-per-second", self.queries_per_second, 0.001, MOST_QUERIES, "searches")


@dataclass(frozen=True, slots=True)
class Requirements:
    """What a library needs.

    ``memory_bytes`` holds all that searches read but the rows of results; ``least_memory_bytes`` is without the float16
    vectors, which are then read from a fast disk. ``cpu_seconds`` are of a build, without encoding by a model.
    """

    papers: int
    dimensions: int
    queries_per_second: float
    disk_bytes: float
    vectors_bytes: float
    memory_bytes: float
    least_memory_bytes: float
    qdrant_bytes: float
    build_bytes: float
    cpu_seconds: float
    search_cpu_seconds: float
    shards: int
    replicas: int
    nodes: int
    encoding_hours: dict[str, float]


def requirements(wanted: Wanted, slopes: Slopes, speeds: dict[str, float]) -> Requirements:
    """Compute what a library needs. ``speeds`` are tokens per second of the encoding machines by name."""
    n, d = wanted.papers, wanted.dimensions
    vectors = predicted(slopes, "vectors_bytes", n, d)
    memory = vectors + slopes.line("serve_anonymous_bytes", dense=d > 0).intercept
    shards, replicas, search = _nodes(wanted, slopes, memory)
    return Requirements(
        papers=n,
        dimensions=d,
        queries_per_second=wanted.queries_per_second,
        disk_bytes=predicted(slopes, "disk_bytes", n, d),
        vectors_bytes=vectors,
        memory_bytes=memory,
        least_memory_bytes=max(0.0, memory - STORED_BYTES * d * n),
        qdrant_bytes=QDRANT_FACTOR * d * n,
        build_bytes=predicted(slopes, "build_bytes", n, d),
        cpu_seconds=predicted(slopes, "cpu_seconds", n, d),
        search_cpu_seconds=search,
        shards=shards,
        replicas=replicas,
        nodes=shards * replicas,
        encoding_hours={
            name: n * slopes.tokens_per_paper / speed / 3600 for name, speed in speeds.items() if d
        },
    )


def predicted(slopes: Slopes, quantity: str, papers: int, dimensions: int) -> float:
    """A quantity of a library with vectors of these dimensions."""
    if quantity == "build_bytes":
        return _build_bytes(slopes, papers, dimensions)
    if dimensions in (0, slopes.dimensions):
        return slopes.line(quantity, dense=dimensions > 0).at(papers)
    without, added = slopes.line(quantity, dense=False).at(papers), slopes.difference(quantity).at(papers)
    if quantity == "cpu_seconds":
        return without + added * dimensions / slopes.dimensions
    each = (STORED_BYTES + CODE_BYTES) * papers
    return without + each * dimensions + GRAPH_RATIO * max(0.0, added - each * slopes.dimensions)


def _build_bytes(slopes: Slopes, papers: int, dimensions: int) -> float:
    """The peak memory of a build, which grows up to one segment, and beyond ``CACHED_PAPERS`` without the caches."""
    papers = min(papers, DENSE_SEGMENT_POINTS if dimensions else CACHED_PAPERS)
    more = -CACHED_BYTES * max(0, papers - CACHED_PAPERS)
    if dimensions:
        more += BUILD_BYTES_PER_DIMENSION * (dimensions - slopes.dimensions) * papers
    return max(0.0, slopes.line("build_bytes", dense=dimensions > 0).at(papers) + more)


def _nodes(wanted: Wanted, slopes: Slopes, memory: float) -> tuple[int, int, float]:
    """Shards that hold the library in memory, copies of each that answer the queries, and processor seconds of a search
    over all shards."""
    line = slopes.line("search_cpu_seconds", dense=wanted.dimensions > 0)
    shards = max(1, math.ceil(memory / (wanted.node.memory_gb * 1e9 * USABLE)))
    in_shard = max(line.at(wanted.papers / shards), line.least)
    per_second = wanted.node.cores * USABLE / in_shard
    return shards, max(1, math.ceil(wanted.queries_per_second / per_second)), in_shard * shards


def own_speed(tokens_per_second: float, gpus: Sequence[str] = ()) -> dict[str, float]:
    """The speed of an encoder that a user measured. Raises InvalidRequest."""
    if gpus:
        raise InvalidRequest("--tokens-per-second is given beside --gpu: give one of them.")
    _check("--tokens-per-second", tokens_per_second, 1, 1e12, "tokens")
    return {f"{tokens_per_second:,g} tokens/s": tokens_per_second}


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
