"""Loading a shard into a cluster: resuming, failing nodes, and what is checked at the end."""

import time
from contextlib import closing
from pathlib import Path
from threading import Timer

import numpy as np
import pytest
from qdrant_client import models

from scholarbase.errors import VectorIndexError
from scholarbase.indexes.vectors.base import BM25, DENSE, Payload, SparseVector, VectorConfig, VectorPoint
from scholarbase.indexes.vectors.edge import EdgeWriter
from scholarbase.indexes.vectors.index import EdgeIndex
from scholarbase_cluster.qdrant import replicas, transfer, upload
from scholarbase_cluster.qdrant.collection import Collection, aliases
from scholarbase_cluster.qdrant.nodes import Nodes
from scholarbase_cluster.qdrant.server import ServerIndex
from scholarbase_cluster.qdrant.transfer import load_into_server
from tests.indexes.vectors.conftest import CONFIG, SNAPSHOT, Corpus
from tests.qdrant.cluster import HANG, Cluster

NAME = "papers-0123456789abcdef"


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "BATCH", 7)
    monkeypatch.setattr(transfer, "BLOCK", 3)


@pytest.mark.slow
def test_a_loaded_server_has_the_points_of_the_shard(edge: EdgeIndex, nodes: Nodes) -> None:
    reported: list[tuple[int, int]] = []
    load_into_server(edge, nodes, "papers", SNAPSHOT, CONFIG, lambda *now: reported.append(now))
    assert reported[0] == (0, 340)
    assert reported[-1] == (340, 340)
    index = ServerIndex.open(nodes, "papers", SNAPSHOT)
    found = [point for batch in index.points() for point in batch]
    expected = [point for batch in edge.points() for point in batch]
    assert len(found) == 340
    for mine, theirs in zip(expected, found, strict=True):
        assert (mine.id, mine.payload, mine.sparse) == (theirs.id, theirs.payload, theirs.sparse)
        assert (mine.dense is None) == (theirs.dense is None)
        if mine.dense is not None and theirs.dense is not None:
            assert mine.dense.tobytes() == theirs.dense.tobytes()


@pytest.mark.slow
def test_vectors_far_from_unit_length_are_stored_with_the_same_bits(
    tmp_path: Path, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounded to float16, some of few dimensions are so far from unit length that scaling changes their numbers."""
    monkeypatch.setattr(transfer, "BATCH", 500)
    random = np.random.default_rng(7)
    config = VectorConfig(dimensions=3)
    writer = EdgeWriter.open(tmp_path / "vectors", config)
    vectors = random.standard_normal((2000, 3)).astype(np.float32)
    sparse = {BM25: SparseVector([1], [1.0])}
    writer.upsert([VectorPoint(n, Payload(), vector, sparse) for n, vector in enumerate(vectors, start=1)])
    writer.finish()
    writer.close()
    with closing(EdgeIndex.open(tmp_path / "vectors")) as shard:
        stored = shard.dense_vectors(range(1, 2001))
        scaled = [(v / np.linalg.norm(v)).astype(np.float16) for v in stored.values()]
        assert any((s != v.astype(np.float16)).any() for s, v in zip(scaled, stored.values(), strict=True))
        load_into_server(shard, nodes, "papers", SNAPSHOT, config)
        found = ServerIndex.open(nodes, "papers", SNAPSHOT).dense_vectors(range(1, 2001))
        assert all(found[n].tobytes() == vector.tobytes() for n, vector in stored.items())


@pytest.mark.slow
def test_an_interrupted_load_is_resumed(edge: EdgeIndex, nodes: Nodes, cluster: Cluster) -> None:
    class Stop(Exception):
        pass

    def stop_at_100(done: int, total: int) -> None:
        if done >= 100:
            raise Stop

    with pytest.raises(Stop):
        load_into_server(edge, nodes, "papers", SNAPSHOT, CONFIG, stop_at_100)
    with pytest.raises(VectorIndexError, match="no collection 'papers'"):
        ServerIndex.open(nodes, "papers", SNAPSHOT)
    before = len(cluster.upserts)
    assert before < 340 / 7
    load_into_server(edge, nodes, "papers", SNAPSHOT, CONFIG)
    # At most the blocks that were on their way are sent again.
    assert sum(len(ids) for ids in cluster.upserts) <= 340 + 21 * 8
    assert list(ServerIndex.open(nodes, "papers", SNAPSHOT).ids()) == list(range(1, 341))
    # Again, with nothing left to load.
    before = len(cluster.upserts)
    reported: list[tuple[int, int]] = []
    load_into_server(edge, nodes, "papers", SNAPSHOT, CONFIG, lambda *now: reported.append(now))
    assert len(cluster.upserts) == before
    assert reported[-1] == (340, 340)


@pytest.mark.slow
def test_a_gap_that_an_interrupted_load_left_is_filled(
    edge: EdgeIndex, nodes: Nodes, cluster: Cluster
) -> None:
    """Batches are sent in parallel, so a later one may be stored while an earlier one is not."""
    load_into_server(edge, nodes, "papers", SNAPSHOT, CONFIG)
    cluster.local.delete(NAME, [100, 101, 250])
    before = len(cluster.upserts)
    load_into_server(edge, nodes, "papers", SNAPSHOT, CONFIG)
    assert sum(len(ids) for ids in cluster.upserts[before:]) == 2 * 21
    assert list(ServerIndex.open(nodes, "papers", SNAPSHOT).ids()) == list(range(1, 341))


def test_a_collection_with_additional_points_is_not_served(
    edge: EdgeIndex, nodes: Nodes, cluster: Cluster
) -> None:
    Collection.open(nodes, "papers", SNAPSHOT, CONFIG)
    cluster.upsert(NAME, [models.PointStruct(id=99_999, vector={})])
    with pytest.raises(VectorIndexError, match="has 341 points, but the library has 340"):
        load_into_server(edge, nodes, "papers", SNAPSHOT, CONFIG)
    with pytest.raises(VectorIndexError, match="no collection 'papers'"):
        ServerIndex.open(nodes, "papers", SNAPSHOT)


@pytest.mark.slow
@pytest.mark.parametrize("failure", [404, 500, 503, "stop", HANG])
def test_a_node_that_fails_during_a_load_is_passed_over(
    edge: EdgeIndex, three: tuple[Cluster, Nodes], failure: int | str
) -> None:
    """The batches of one that hangs are sent to the others when it has been silent for long."""
    cluster, nodes = three
    node = cluster.nodes[1]

    def fail(count: int) -> None:
        if count != 10:
            return
        if failure == "stop":
            Timer(0, node.stop).start()
            Timer(2, node.start).start()
        else:
            node.fail(failure, on="/Upsert")
        if failure == HANG:
            Timer(1, lambda: node.fail(None)).start()

    cluster.on_upsert = fail
    began = time.monotonic()
    load_into_server(edge, nodes, "papers", SNAPSHOT, CONFIG)
    assert time.monotonic() - began < 60
    assert list(ServerIndex.open(nodes, "papers", SNAPSHOT).ids()) == list(range(1, 341))


@pytest.mark.slow
def test_a_batch_that_no_node_stores_ends_the_load(
    edge: EdgeIndex, nodes: Nodes, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "RETRY_SECONDS", 0.5)
    cluster.nodes[0].fail(503, on="/Upsert")
    with pytest.raises(VectorIndexError, match=r"could not add points.*UNAVAILABLE.*same command again"):
        load_into_server(edge, nodes, "papers", SNAPSHOT, CONFIG)


# -- what is checked at the end -----------------------------------------------------------------------------


def complete(edge: EdgeIndex, cluster: Cluster, nodes: Nodes) -> None:
    """Load all, but leave the alias off."""
    load_into_server(edge, nodes, "papers", SNAPSHOT, CONFIG)
    for alias in cluster.local.get_aliases().aliases:
        gone = models.DeleteAlias(alias_name=alias.alias_name)
        cluster.local.update_collection_aliases([models.DeleteAliasOperation(delete_alias=gone)])


def refused(
    edge: EdgeIndex, nodes: Nodes, monkeypatch: pytest.MonkeyPatch, message: str, seconds: float = 0.3
) -> None:
    monkeypatch.setattr(replicas, "REPAIR_SECONDS", seconds)
    with pytest.raises(VectorIndexError, match=message):
        load_into_server(edge, nodes, "papers", SNAPSHOT, CONFIG)
    assert aliases(nodes) == {}


@pytest.mark.slow
def test_a_replica_that_is_repaired_is_waited_for(edge: EdgeIndex, three: tuple[Cluster, Nodes]) -> None:
    cluster, nodes = three
    complete(edge, cluster, nodes)
    states = cluster.collections[NAME].states
    states[1, 1002] = models.ReplicaState.DEAD
    waited: list[str] = []

    def repair(what: str) -> None:
        waited.append(what)
        following = {
            models.ReplicaState.DEAD: models.ReplicaState.PARTIAL,
            models.ReplicaState.PARTIAL: models.ReplicaState.ACTIVE,
        }
        states[1, 1002] = following[states[1, 1002]]

    load_into_server(edge, nodes, "papers", SNAPSHOT, CONFIG, waiting=repair)
    assert [what.rpartition(" ")[2] for what in waited] == ["Dead", "Partial"]
    assert aliases(nodes) == {"papers": NAME}


@pytest.mark.slow
def test_replicas_with_different_numbers_of_points_are_an_error(
    edge: EdgeIndex, three: tuple[Cluster, Nodes], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, nodes = three
    complete(edge, cluster, nodes)
    cluster.collections[NAME].lost[0, 1001] = 5
    refused(
        edge,
        nodes,
        monkeypatch,
        r"shard 0 have different numbers of points \(113 on node 1000, 108 on node 1001\)",
    )


@pytest.mark.slow
@pytest.mark.parametrize(("status", "times"), [("yellow", 3), ("grey", 1)])
def test_indexing_on_every_node_is_waited_for(
    edge: EdgeIndex, three: tuple[Cluster, Nodes], status: str, times: int
) -> None:
    """A node's own green covers its own shards only, and a node that was started again is grey until an update."""
    cluster, nodes = three
    cluster.nodes[2].status = models.CollectionStatus(status)
    waited: list[str] = []

    def finish(what: str) -> None:
        waited.append(what)
        if len(waited) == times and cluster.nodes[2].status == models.CollectionStatus.YELLOW:
            cluster.nodes[2].status = models.CollectionStatus.GREEN

    load_into_server(edge, nodes, "papers", SNAPSHOT, CONFIG, waiting=finish)
    assert waited == [f"node 1002 is indexing (its status is {status})"] * times


@pytest.mark.slow
def test_a_failed_optimizer_ends_the_load(edge: EdgeIndex, three: tuple[Cluster, Nodes]) -> None:
    cluster, nodes = three
    cluster.nodes[1].status = models.CollectionStatus.RED
    with pytest.raises(VectorIndexError, match=r"Node 1001 .* failed to build"):
        load_into_server(edge, nodes, "papers", SNAPSHOT, CONFIG)
    assert aliases(nodes) == {}


@pytest.mark.slow
@pytest.mark.parametrize("changed", ["dense", "bm25", "payload", "gone"])
def test_a_point_that_differs_is_an_error(
    edge: EdgeIndex, nodes: Nodes, cluster: Cluster, changed: str, corpus: Corpus
) -> None:
    complete(edge, cluster, nodes)
    numbers = range(1, 341)  # of which 256 are compared
    if changed == "dense":
        vector = corpus.project("networks")
        dense = [models.PointVectors(id=n, vector={DENSE: np.roll(vector, n).tolist()}) for n in numbers]
        cluster.local.update_vectors(NAME, dense)
    elif changed == "bm25":
        weights = models.SparseVector(indices=[7], values=[0.5])
        cluster.local.update_vectors(
            NAME, [models.PointVectors(id=n, vector={BM25: weights}) for n in numbers]
        )
    elif changed == "payload":
        cluster.local.set_payload(NAME, {"citation_count": 1000}, points=list(numbers))
    else:
        cluster.local.delete(NAME, list(range(1, 171)))
        cluster.local.upsert(NAME, [models.PointStruct(id=n, vector={}) for n in range(1001, 1171)])
        for node in cluster.nodes:
            node.fail(None)
    expected = "has 510 points" if changed == "gone" else "is not the library's on all replicas"
    with pytest.raises(VectorIndexError, match=expected):
        load_into_server(edge, nodes, "papers", SNAPSHOT, CONFIG)
    assert aliases(nodes) == {}
