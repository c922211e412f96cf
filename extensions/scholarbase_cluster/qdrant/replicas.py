"""The state of a collection on all nodes of a cluster: replicas, their numbers of points, and indexing.

A node knows the state of every replica, but only of its own how many points they have and whether they are indexed: its
own status is green when its own shards are. So every node is asked.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from qdrant_client import AsyncQdrantClient, models

from scholarbase.errors import VectorIndexError
from scholarbase_cluster.qdrant.collection import BY_SNAPSHOT, Collection, ShardRefused, peers_of

log = logging.getLogger("scholarbase.qdrant")

REPAIR_SECONDS: Final = 120.0
"""How long a replica may be dead, or a node silent: Qdrant repairs a replica soon after its node is back."""
INDEX_SECONDS: Final = 48 * 3600.0
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 5.0

_ACTIVE: Final = "Active"
_IN_REPAIR: Final = frozenset((
    "Partial", "Initializing", "Recovery", "PartialSnapshot", "Resharding", "ReshardingScaleDown", "ActiveRead",
))  # fmt: skip


class Replica(NamedTuple):
    """One replica of a shard. ``points`` is None if the node of the peer was not asked."""

    shard: int
    peer: int
    state: str
    points: int | None


class Survey(NamedTuple):
    """What the nodes say of a collection.

    ``problems`` and ``unfinished`` are clauses: what is wrong, and what Qdrant is still doing. ``unasked`` are peers
    without an address here.
    """

    replicas: list[Replica]
    problems: list[str]
    unfinished: list[str]
    unasked: list[str]


class _View(NamedTuple):
    """One node's answers."""

    cluster: models.CollectionClusterInfo
    info: models.CollectionInfo


def wait_until_complete(collection: Collection, progress: Callable[[str], None]) -> Survey:
    """Wait until all nodes have indexed a collection, all replicas are active and those of a shard have equally many
    points.

    ``progress`` is called with what is being waited for.

    Raises:
        VectorIndexError: a problem has lasted two minutes, or indexing two days; or the server reports an error.
    """
    began = time.monotonic()
    sound = began
    pause = _FIRST_PAUSE
    while True:
        latest = survey(collection)
        now = time.monotonic()
        if not latest.problems:
            sound = now
            if not latest.unfinished:
                return latest
        waiting = latest.problems + latest.unfinished
        if now - sound >= REPAIR_SECONDS or now - began >= INDEX_SECONDS:
            raise VectorIndexError(
                f"{collection.name!r} is loaded, but not complete: {'; '.join(waiting)}. The alias "
                f"{collection.alias!r} was not switched. See the log of Qdrant, start nodes that are down, and run the "
                f"same command again."
            )
        progress("; ".join(waiting))
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def survey(collection: Collection) -> Survey:
    """Ask every node for the state of a collection.

    Raises:
        VectorIndexError: no node answers, or one reports an error of its optimizer.
        ShardRefused: a node would index the library's own shard again.
    """

    async def view(client: AsyncQdrantClient) -> _View:
        name = collection.name
        return _View(*await asyncio.gather(client.collection_cluster_info(name), client.get_collection(name)))

    views = collection.nodes.each(view)
    silent = [address.url for address, node_view in views.items() if isinstance(node_view, Exception)]
    answered = {
        node_view.cluster.peer_id: node_view
        for node_view in views.values()
        if not isinstance(node_view, Exception)
    }
    problems = [f"{url} does not answer" for url in silent]
    unfinished = []
    for peer, node_view in answered.items():
        if (
            node_view.info.status == models.CollectionStatus.GREY
            and collection.placement.method == BY_SNAPSHOT
        ):
            raise ShardRefused.because(f"node {peer} would index it again (its status is grey)")
    if any(node_view.info.status == models.CollectionStatus.GREY for node_view in answered.values()):
        collection.optimize()
    for peer, node_view in answered.items():
        _check_errors(collection, peer, node_view.info)
        if (doing := _unfinished(node_view)) is not None:
            unfinished.append(f"node {peer} {doing}")
    replicas = _replicas(list(answered.values()))
    # A node takes part in one transfer at a time, and the next replica is dead until its turn.
    is_copying = any(node_view.cluster.shard_transfers for node_view in answered.values())
    for replica in replicas:
        if replica.state in _IN_REPAIR or (is_copying and replica.state != _ACTIVE):
            unfinished.append(
                f"the replica of shard {replica.shard} on node {replica.peer} is {replica.state}"
            )
        elif replica.state != _ACTIVE:
            problems.append(f"the replica of shard {replica.shard} on node {replica.peer} is {replica.state}")
    if answered and not unfinished:
        problems += _wrong_counts(collection, replicas)
    asked = set(answered)
    unasked = [] if silent else [uri for peer, uri in peers_of(collection.nodes).items() if peer not in asked]
    return Survey(replicas, problems, unfinished, unasked)


def _replicas(views: list[_View]) -> list[Replica]:
    """All replicas. A node's own word counts for the points of its own; for states the worst of all words."""
    states: dict[tuple[int, int], str] = {}
    points: dict[tuple[int, int], int] = {}
    for view in views:
        node = view.cluster.peer_id
        for local in view.cluster.local_shards:
            points[local.shard_id, node] = local.points_count
        seen = [(local.shard_id, node, str(local.state)) for local in view.cluster.local_shards]
        seen += [
            (remote.shard_id, remote.peer_id, str(remote.state)) for remote in view.cluster.remote_shards
        ]
        for shard, peer, state in seen:
            if states.get((shard, peer), _ACTIVE) == _ACTIVE:
                states[shard, peer] = state
    return [Replica(*key, state, points.get(key)) for key, state in sorted(states.items())]


def _unfinished(view: _View) -> str | None:
    """What a node is still doing; None if nothing."""
    if view.cluster.shard_transfers:
        return f"takes part in {len(view.cluster.shard_transfers)} transfers of shards"
    queue = view.info.update_queue
    if queue is not None and (queue.length or queue.deferred_points):
        return "has updates in its queue"
    if view.info.status != models.CollectionStatus.GREEN:
        return f"is indexing (its status is {view.info.status})"
    return None


def _check_errors(collection: Collection, peer: int, info: models.CollectionInfo) -> None:
    if info.status == models.CollectionStatus.RED or isinstance(
        info.optimizer_status, models.OptimizersStatusOneOf1
    ):
        raise VectorIndexError(
            f"Node {peer} of the Qdrant server failed to build {collection.name!r} (its status is {info.status}, that "
            f"of its optimizer {info.optimizer_status}): see its log."
        )


def _wrong_counts(collection: Collection, replicas: list[Replica]) -> list[str]:
    """What is wrong with the numbers of replicas and of their points. The sum of all shards is counted before."""
    by_shard: dict[int, list[Replica]] = {}
    for replica in replicas:
        by_shard.setdefault(replica.shard, []).append(replica)
    shards, copies, _ = collection.placement
    problems = []
    if len(by_shard) != shards:
        problems.append(f"{len(by_shard)} of {shards} shards are known")
    for shard, of_shard in sorted(by_shard.items()):
        if len(of_shard) < (copies or 1):
            problems.append(f"shard {shard} has {len(of_shard)} of {copies} replicas")
        counts = {replica.points for replica in of_shard if replica.points is not None}
        if len(counts) > 1:
            listed = ", ".join(
                f"{replica.points} on node {replica.peer}"
                for replica in of_shard
                if replica.points is not None
            )
            problems.append(f"the replicas of shard {shard} have different numbers of points ({listed})")
    return problems
