"""Loading the library's own shard: the snapshot, refusals, kills, and nodes that are lost."""

import signal
import tarfile
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest
import qdrant_edge

from scholarbase.errors import VectorIndexError
from scholarbase.indexes.filters import NO_FILTERS
from scholarbase.indexes.vectors.base import BM25, edge_config
from scholarbase.indexes.vectors.index import EdgeIndex, VectorIndex
from scholarbase.indexes.vectors.shards import ShardedIndex
from scholarbase_cluster.qdrant import replicas
from scholarbase_cluster.qdrant.collection import BY_SNAPSHOT, ShardRefused, aliases, method_of
from scholarbase_cluster.qdrant.nodes import Nodes
from scholarbase_cluster.qdrant.restoring import load_shards
from scholarbase_cluster.qdrant.server import ServerIndex
from scholarbase_cluster.qdrant.snapshot import ShardSnapshot, keep_frame
from scholarbase_cluster.qdrant.transfer import load_into_server
from tests.forks import Fork, fork, run_fork
from tests.indexes.vectors.conftest import CONFIG, SNAPSHOT, Corpus
from tests.qdrant.cluster import Cluster, Node
from tests.qdrant.shards import empty_snapshot

NAME = "papers-0123456789abcdef"


def same_answers(mine: VectorIndex, theirs: VectorIndex, corpus: Corpus) -> None:
    for title, abstract in corpus.texts[:10]:
        vector = corpus.project(f"{title}\n{abstract}")
        for exact in (False, True):
            expected = mine.search_dense(vector, 20, NO_FILTERS, exact=exact)
            assert theirs.search_dense(vector, 20, NO_FILTERS, exact=exact) == expected
        words = corpus.queries.vector(title)
        expected = mine.search_sparse(BM25, words, 20, NO_FILTERS)
        assert theirs.search_sparse(BM25, words, 20, NO_FILTERS) == expected


# -- the snapshot -------------------------------------------------------------------------------------------


def test_a_snapshot_has_the_form_of_a_servers_and_answers_as_the_shard(
    shard: Path, edge: EdgeIndex, corpus: Corpus, tmp_path: Path
) -> None:
    before = {file: file.read_bytes() for file in shard.rglob("*") if file.is_file()}
    (tmp_path / "empty").write_bytes(empty_snapshot())
    with (tmp_path / "frame").open("w+b") as frame, (tmp_path / "snapshot").open("w+b") as out:
        with (tmp_path / "empty").open("rb") as empty:
            keep_frame(empty, frame)
        snapshot = ShardSnapshot(shard, frame)
        for chunk in snapshot:
            out.write(chunk)
        assert out.tell() == snapshot.size
        assert list(map(hash, snapshot)) == list(map(hash, snapshot))
    assert {file: file.read_bytes() for file in before} == before

    segments = sorted(folder.name for folder in (shard / "segments").iterdir())
    with tarfile.open(tmp_path / "snapshot") as outer:
        names = outer.getnames()
        assert [name for name in names if name.startswith("segments/")] == [
            f"segments/{name}.tar" for name in segments
        ]
        assert {"shard_config.json", "replica_state.json"} < set(names)
        assert any(name.startswith("wal/") for name in names)
        for name in segments:
            with tarfile.open(fileobj=outer.extractfile(f"segments/{name}.tar")) as inner:
                folder = shard / "segments" / name
                files = [file for file in folder.rglob("*") if file.is_file()]
                assert sorted(inner.getnames()) == sorted(
                    f"snapshot/files/{file.relative_to(folder)}" for file in files
                )

    unpacked = tmp_path / "unpacked"
    qdrant_edge.EdgeShard.unpack_snapshot(str(tmp_path / "snapshot"), str(unpacked))
    (described,) = [
        text
        for text in (file.read_text() for file in unpacked.rglob("segment.json"))
        if '"type":"hnsw"' in text
    ]
    assert '"on_disk":false' in described
    for file in (unpacked / "wal").iterdir():
        file.unlink()
    (unpacked / "wal").rmdir()
    opened = qdrant_edge.EdgeShard.load(str(unpacked), edge_config(CONFIG))
    with closing(EdgeIndex(opened, unpacked, CONFIG)) as theirs:
        same_answers(edge, theirs, corpus)


# -- a load -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_restored_shards_answer_as_the_library_and_only_those_that_are_missing_are_sent(
    sharded: ShardedIndex, three: tuple[Cluster, Nodes], corpus: Corpus
) -> None:
    cluster, nodes = three
    reported: list[tuple[int, int]] = []

    def cut(node: Node, received: int) -> None:
        if len(cluster.uploads) == 2:
            raise OSError("the disk is gone")

    cluster.on_upload = cut
    with pytest.raises(VectorIndexError, match="same command again"):
        load_shards(sharded, nodes, "papers", SNAPSHOT, lambda *now: reported.append(now))
    assert reported[0] == (0, 340)
    assert aliases(nodes) == {}
    assert cluster.uploads == [1000] * 2
    cluster.on_upload = lambda node, received: None
    reported.clear()
    done = load_shards(sharded, nodes, "papers", SNAPSHOT, lambda *now: reported.append(now))
    assert cluster.uploads == [1000] * 3
    assert cluster.upserts == []
    assert reported[-1] == (340, 340)
    assert reported == sorted(reported)
    sizes = [113, 114, 113]  # the numbers from 1 to 340, modulo 3
    assert done.survey.replicas == [
        (shard, peer, "Active", size) for shard, size in enumerate(sizes) for peer in (1000, 1001, 1002)
    ]
    assert aliases(nodes) == {"papers": NAME}
    same_answers(sharded, ServerIndex.open(nodes, "papers", SNAPSHOT), corpus)
    # Again, with nothing left to send.
    load_shards(sharded, nodes, "papers", SNAPSHOT)
    assert len(cluster.uploads) == len(sizes)
    assert method_of(nodes, "papers", SNAPSHOT) == BY_SNAPSHOT


# -- refusals -----------------------------------------------------------------------------------------------


def queue(node: Node) -> None:
    node.queued = ["config mismatch"]


def old(node: Node) -> None:
    node.version = "1.17.2"


def other_graph(node: Node) -> None:
    node.has_other_graph = True


REFUSALS: dict[str, tuple[Callable[[Node], None], str]] = {
    "cannot restore": (lambda node: node.fail(500, on="/snapshots/upload"), "status 500"),
    "no snapshot of its own": (lambda node: node.fail(403, on="/shards/0/snapshot"), "status 403"),
    "another version": (old, r"is Qdrant 1\.17\.2, and restoring it needs 1\.18 or newer"),
    "pending": (queue, "would index it again"),
    "another graph": (other_graph, "approximate searches of .* find other papers"),
}


@pytest.mark.slow
def test_a_refused_shard_is_removed_and_points_can_be_sent(
    edge: EdgeIndex, cluster: Cluster, nodes: Nodes
) -> None:
    (node,) = cluster.nodes
    for refuse, message in REFUSALS.values():
        with pytest.MonkeyPatch.context() as patch:
            for name in ("failure", "fails", "queued", "version", "has_other_graph"):
                patch.setattr(node, name, getattr(node, name))
            refuse(node)
            with pytest.raises(ShardRefused, match=message):
                load_shards(edge, nodes, "papers", SNAPSHOT)
        assert aliases(nodes) == {}
        assert cluster.names() == set()
    load_into_server(edge, nodes, "papers", SNAPSHOT, CONFIG)
    assert ServerIndex.open(nodes, "papers", SNAPSHOT).count(NO_FILTERS) == 340


@pytest.mark.slow
def test_a_collection_that_servers_search_is_neither_changed_nor_removed(
    edge: EdgeIndex, cluster: Cluster, nodes: Nodes
) -> None:
    load_shards(edge, nodes, "papers", SNAPSHOT)
    with pytest.raises(VectorIndexError, match="has snapshot as method, not points"):
        load_into_server(edge, nodes, "papers", SNAPSHOT, CONFIG)
    queue(cluster.nodes[0])
    with pytest.raises(VectorIndexError, match="was complete before: it stays"):
        load_shards(edge, nodes, "papers", SNAPSHOT)
    assert cluster.names() == {NAME}


# -- nodes that are lost ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_node_lost_while_it_receives_the_shard_is_replaced_by_the_next(
    edge: EdgeIndex, three: tuple[Cluster, Nodes], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, nodes = three
    stopping: list[Thread] = []

    def stop(node: Node, received: int) -> None:
        if node is cluster.nodes[0] and not stopping:
            monkeypatch.setattr(replicas, "REPAIR_SECONDS", 0.5)
            stopping.append(Thread(target=node.stop))
            stopping[0].start()

    cluster.on_upload = stop
    with pytest.raises(VectorIndexError, match=r"not complete.*The alias 'papers' was not"):
        load_shards(edge, nodes, "papers", SNAPSHOT)
    assert cluster.uploads == [1001]
    assert aliases(nodes) == {}
    stopping[0].join()
    cluster.nodes[0].start()
    monkeypatch.undo()
    done = load_shards(edge, nodes, "papers", SNAPSHOT)
    assert cluster.uploads == [1001]
    assert [replica.state for replica in done.survey.replicas] == ["Active"] * 3


@pytest.mark.slow
def test_without_a_node_that_answers_the_shard_is_not_replaced_by_points(
    edge: EdgeIndex, cluster: Cluster, nodes: Nodes
) -> None:
    """A node that is down for a moment says nothing about the shard."""

    def cut(node: Node, received: int) -> None:
        raise OSError("the disk is gone")

    cluster.on_upload = cut
    with pytest.raises(VectorIndexError, match="same command again; or give --method points") as raised:
        load_shards(edge, nodes, "papers", SNAPSHOT)
    assert not isinstance(raised.value, ShardRefused)
    assert cluster.names() == {NAME}


# -- kills --------------------------------------------------------------------------------------------------

LOAD = """
import sys
from pathlib import Path
from scholarbase_cluster.qdrant.restoring import load_shards
from scholarbase.indexes.vectors.index import EdgeIndex
from scholarbase_cluster.qdrant.nodes import Nodes
edge, nodes = EdgeIndex.open(Path(sys.argv[1])), Nodes(sys.argv[2].split(","))
load_shards(edge, nodes, "papers", sys.argv[3])
nodes.close()
edge.close()
"""
MODULES = ("scholarbase_cluster.qdrant.restoring", "scholarbase.indexes.vectors.index")
INSTANTS = (
    "/index",
    "/shards/0/snapshot",
    0.3,
    "/upload",
    f"{NAME}/cluster",
    "/QueryBatch",
    "/optimizations",
)
"""Paths of requests with which the process is killed, and shares of the snapshot that a node has received."""


@pytest.mark.slow
def test_a_load_killed_at_seven_instants_is_complete_at_the_end(
    shard: Path, three: tuple[Cluster, Nodes], corpus: Corpus, edge: EdgeIndex
) -> None:
    cluster, nodes = three
    arguments = (shard, ",".join(cluster.urls), SNAPSHOT)
    size = sum(file.stat().st_size for file in shard.rglob("*") if file.is_file())
    killed = []
    for instant in INSTANTS:
        started: Future[Fork] = Future()

        def kill(started: Future[Fork] = started) -> None:
            started.result(60).kill()

        def on_call(path: str, instant: str | float = instant, kill: Callable[[], None] = kill) -> None:
            if isinstance(instant, str) and path.endswith(instant):
                kill()

        def on_upload(
            node: Node, received: int, instant: str | float = instant, kill: Callable[[], None] = kill
        ) -> None:
            if isinstance(instant, float) and received > instant * size:
                kill()

        cluster.on_call, cluster.on_upload = on_call, on_upload
        process = fork(LOAD, *arguments, imports=MODULES)
        started.set_result(process)
        process.communicate()
        killed.append((instant, process.returncode))
        assert aliases(nodes) == {}
    assert killed == [(instant, -signal.SIGKILL) for instant in INSTANTS]
    cluster.on_call, cluster.on_upload = lambda path: None, lambda node, received: None
    done = run_fork(*arguments, code=LOAD, imports=MODULES)
    assert done.returncode == 0, done.stderr
    assert aliases(nodes) == {"papers": NAME}
    same_answers(edge, ServerIndex.open(nodes, "papers", SNAPSHOT), corpus)
