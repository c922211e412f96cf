"""A library on Qdrant nodes and API servers: memory, disk, hours to load and searches a second.

The rates are those of benchmarks/results/servers.toml: "A library on three Qdrant nodes" and "A search of a Qdrant
cluster". The engine of a node is taken to need the processor time of a search in the API server's own process, of which
it is most.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from scholarbase_cluster.planning.growth import Estimate, Measured, exact, total
from scholarbase_cluster.planning.requirements import Wanted, check, estimated

USABLE: Final = 0.8
"""The share of a machine's processors that is planned for."""
SHARD_BYTES_PER_SECOND: Final = 843e6 * 3 / 43
"""Three copies of a library's own shard of 843 MB were sent, restored and active after 43 seconds."""
POINTS_PER_SECOND: Final = 334_917 / 150
"""Points sent to three nodes, each stored by two."""
POINT_COPIES: Final = 2
SERVER_SEARCH_SECONDS: Final = 0.0075
"""Processor time of an API server for a hybrid search of nodes, whatever the library's size."""
MOST_NODES: Final = 1_000
MOST_CORES: Final = 1_024
TRIAL: Final = "at the rate of 334,917 papers on three nodes that shared two cores"
SERVERS: Final = "measured on one core; servers at equal shares of one add up"

Method: TypeAlias = Literal["snapshot", "points"]
METHODS: Final[tuple[Method, ...]] = ("snapshot", "points")


@dataclass(frozen=True, slots=True)
class Nodes:
    """Qdrant nodes with a library's vectors: its own shard on each (``snapshot``), or its points divided among them.

    ``memory_bytes`` and ``disk_bytes`` are of each node. ``load_seconds`` end with the first copy of the shard, or
    with all copies of the points; ``replicate_seconds`` are of the other copies, one after the other; ``index_seconds``
    of the points. ``searches_per_second`` are of all nodes.
    """

    nodes: int
    method: Method
    copies: int
    memory_bytes: Estimate
    disk_bytes: Estimate
    load_seconds: Estimate
    replicate_seconds: Estimate
    index_seconds: Estimate
    searches_per_second: Estimate


@dataclass(frozen=True, slots=True)
class Server:
    """Searches a second of an API server, with the vectors on nodes and in its own memory, and what it needs then.

    ``memory_bytes`` and ``disk_bytes`` are with the vectors on nodes, one process a core."""

    cores: int
    memory_bytes: Estimate
    disk_bytes: Estimate
    searches_per_second: Estimate
    own_memory_bytes: Estimate
    own_disk_bytes: Estimate
    own_searches_per_second: Estimate


def nodes_of(
    count: int, method: Method, cores: int, wanted: Wanted, measured: Measured, needs: Mapping[str, Estimate]
) -> Nodes:
    """What each of ``count`` nodes of ``cores`` needs, and what all answer.

    Raises:
        InvalidRequest: a number is out of range.
    """
    check("--nodes", count, 1, MOST_NODES, "nodes")
    check("--node-cores", cores, 1, MOST_CORES, "cores")
    vectors = needs["vectors_bytes"]
    whole = method == "snapshot"
    copies = count if whole else min(count, POINT_COPIES)
    shards = 1 if whole else count
    copy = replace(vectors.times(1 / SHARD_BYTES_PER_SECOND), basis=f"{vectors.basis}, {TRIAL}")
    in_shard = estimated(measured, "search_cpu_seconds", math.ceil(wanted.papers / shards), wanted.dimensions)
    none = exact(0.0, "none")
    return Nodes(
        nodes=count,
        method=method,
        copies=copies,
        memory_bytes=needs["memory_bytes"].times(copies / count),
        disk_bytes=vectors.times(copies / count),
        load_seconds=copy if whole else exact(wanted.papers / POINTS_PER_SECOND, TRIAL),
        replicate_seconds=copy.times(copies - 1) if whole else none,
        index_seconds=none if whole else _index(wanted, measured).times(copies / (count * cores * USABLE)),
        searches_per_second=_rate(count * cores, in_shard.times(shards)),
    )


def server_of(cores: int, wanted: Wanted, measured: Measured, needs: Mapping[str, Estimate]) -> Server:
    """What an API server of so many cores needs and answers.

    Raises:
        InvalidRequest: a number is out of range.
    """
    check("--cores", cores, 1, MOST_CORES, "cores")
    vectors = needs["vectors_bytes"]
    alone = min(measured.runs("serve_bytes", dense=False))[1]
    disk = needs["disk_bytes"]
    catalogue = Estimate(
        disk.value - vectors.value, disk.low - vectors.low, disk.high - vectors.high, disk.basis
    )
    return Server(
        cores=cores,
        memory_bytes=exact(alone * cores, "measured"),
        disk_bytes=catalogue,
        searches_per_second=_rate(cores, exact(SERVER_SEARCH_SECONDS, SERVERS)),
        own_memory_bytes=total(vectors, needs["serve_bytes"].times(cores)),
        own_disk_bytes=disk,
        own_searches_per_second=_rate(cores, needs["search_cpu_seconds"]),
    )


def _index(wanted: Wanted, measured: Measured) -> Estimate:
    """Processor seconds in which one copy of the points is indexed: what vectors add to a build, at most."""
    build = estimated(measured, "cpu_seconds", wanted.papers, wanted.dimensions)
    without = estimated(measured, "cpu_seconds", wanted.papers, 0)
    share = max(0.0, 1 - without.value / build.value) if wanted.dimensions else 1.0
    return build.times(share)


def _rate(cores: float, seconds: Estimate) -> Estimate:
    """Searches a second of ``cores`` of which each search takes processor seconds."""
    value, low, high = (
        cores * USABLE / cpu_seconds for cpu_seconds in (seconds.value, seconds.high, seconds.low)
    )
    return Estimate(value, low, high, seconds.basis)
