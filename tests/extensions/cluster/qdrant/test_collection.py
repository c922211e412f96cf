"""Collections under an alias: opening, switching and removing them."""

import pytest
from qdrant_client import models

from scholarbase.errors import InvalidRequest, LibraryCorrupt, VectorIndexError
from scholarbase.indexes.filters import NO_FILTERS
from scholarbase.indexes.vectors.base import VectorConfig
from scholarbase.indexes.vectors.index import EdgeIndex
from scholarbase_cluster.qdrant.collection import (
    BY_SNAPSHOT,
    Collection,
    Placement,
    aliases,
    placed,
    prune,
    unload,
)
from scholarbase_cluster.qdrant.nodes import Nodes
from scholarbase_cluster.qdrant.server import ServerIndex
from scholarbase_cluster.qdrant.transfer import load_into_server
from tests.indexes.vectors.conftest import CONFIG, SNAPSHOT, Corpus
from tests.qdrant.cluster import Cluster

LATER = "fedcba9876543210" * 2
LAST = "00112233445566778899aabbccddeeff"


def create(nodes: Nodes, name: str) -> None:
    nodes.change("create", lambda client: client.create_collection(name, vectors_config={}))


@pytest.mark.slow
def test_another_library_under_the_same_alias_leaves_the_searched_collection(
    cluster: Cluster, nodes: Nodes, edge: EdgeIndex, corpus: Corpus
) -> None:
    """It was deleted, and every running server answered 503 at once."""
    assert load_into_server(edge, nodes, "papers", SNAPSHOT, CONFIG).before is None
    running = ServerIndex.open(nodes, "papers", SNAPSHOT)
    assert load_into_server(edge, nodes, "papers", LATER, CONFIG).before == "papers-0123456789abcdef"
    assert aliases(nodes) == {"papers": "papers-fedcba9876543210"}
    assert len(running.search_dense(corpus.project("networks"), 5, NO_FILTERS)) == 5
    assert ServerIndex.open(nodes, "papers", LATER).count(NO_FILTERS) == 340
    with pytest.raises(LibraryCorrupt, match=f"{LATER}.*{SNAPSHOT}"):
        ServerIndex.open(nodes, "papers", SNAPSHOT)


@pytest.mark.slow
def test_prune_removes_what_no_alias_names(cluster: Cluster, nodes: Nodes, edge: EdgeIndex) -> None:
    for name in ("papers-of-another-kind", "paperss-0123456789abcdef", "papers-0123456789abcdefff"):
        create(nodes, name)
    others = cluster.names()
    for snapshot in (SNAPSHOT, LATER, LAST):
        load_into_server(edge, nodes, "papers", snapshot, CONFIG)
    assert prune(nodes, "papers", ["papers-fedcba9876543210"]) == ["papers-0123456789abcdef"]
    assert cluster.names() == others | {"papers-fedcba9876543210", "papers-0011223344556677"}
    assert prune(nodes, "papers", []) == ["papers-fedcba9876543210"]
    assert prune(nodes, "papers", []) == []
    assert cluster.names() == others | {"papers-0011223344556677"}


@pytest.mark.slow
def test_a_collection_that_another_alias_names_is_not_removed(
    cluster: Cluster, nodes: Nodes, edge: EdgeIndex
) -> None:
    load_into_server(edge, nodes, "papers", SNAPSHOT, CONFIG)
    load_into_server(edge, nodes, "papers", LATER, CONFIG)
    alias = models.CreateAlias(collection_name="papers-0123456789abcdef", alias_name="reviewed")
    nodes.change(
        "alias",
        lambda client: client.update_collection_aliases([models.CreateAliasOperation(create_alias=alias)]),
    )
    assert prune(nodes, "papers", []) == []
    with pytest.raises(InvalidRequest, match="the alias 'reviewed' names it"):
        unload(nodes, "papers", SNAPSHOT)


@pytest.mark.slow
def test_unload_removes_one_snapshot(cluster: Cluster, nodes: Nodes, edge: EdgeIndex, corpus: Corpus) -> None:
    load_into_server(edge, nodes, "papers", SNAPSHOT, CONFIG)
    index = ServerIndex.open(nodes, "papers", SNAPSHOT)
    load_into_server(edge, nodes, "papers", LATER, CONFIG)
    with pytest.raises(InvalidRequest, match="the alias 'papers' names it"):
        unload(nodes, "papers", LATER)
    with pytest.raises(
        InvalidRequest, match=r"'papers-0011223344556677'.*papers-0123456789abcdef, papers-fedc"
    ):
        unload(nodes, "papers", LAST)
    with pytest.raises(InvalidRequest, match="--snapshot is '0123'"):
        unload(nodes, "papers", "0123")
    assert unload(nodes, "papers", SNAPSHOT[:16]) == "papers-0123456789abcdef"
    assert cluster.names() == {"papers-fedcba9876543210"}
    with pytest.raises(VectorIndexError, match="papers-0123456789abcdef"):
        index.search_dense(corpus.project("networks"), 5, NO_FILTERS)


def test_an_incomplete_load_is_not_served(nodes: Nodes) -> None:
    Collection.open(nodes, "papers", SNAPSHOT, CONFIG)
    with pytest.raises(VectorIndexError, match="no collection 'papers'"):
        ServerIndex.open(nodes, "papers", SNAPSHOT)
    with pytest.raises(LibraryCorrupt, match="not completely loaded"):
        ServerIndex.open(nodes, "papers-0123456789abcdef", SNAPSHOT)


def test_resuming_a_load_with_another_layout_is_rejected(nodes: Nodes) -> None:
    Collection.open(nodes, "papers", SNAPSHOT, CONFIG)
    with pytest.raises(VectorIndexError, match="delete the collection"):
        Collection.open(nodes, "papers", SNAPSHOT, VectorConfig(dimensions=64))


def test_a_collection_has_the_layout_of_the_shard(cluster: Cluster, nodes: Nodes) -> None:
    Collection.open(nodes, "papers", SNAPSHOT, VectorConfig(dimensions=32, learned=True, m=16))
    created = cluster.collections["papers-0123456789abcdef"].created
    assert isinstance(created.vectors, dict)
    dense = created.vectors["dense"]
    assert (dense.size, dense.distance, dense.datatype) == (32, "Cosine", "float16")
    assert dense.hnsw_config is not None
    assert dense.hnsw_config.m == 16
    assert isinstance(dense.quantization_config, models.TurboQuantization)
    assert created.sparse_vectors is not None
    assert {name: one.modifier for name, one in created.sparse_vectors.items()} == {
        "bm25": None,
        "learned": None,
    }


# -- placement ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "peers", "expected"),
    [
        (Placement(), 1, (1, 1)),
        (Placement(), 2, (2, 2)),
        (Placement(), 3, (3, 2)),
        (Placement(replicas=3), 5, (5, 3)),
        (Placement(shards=12, replicas=1), 3, (12, 1)),
        (Placement(method=BY_SNAPSHOT), 1, (1, 1)),
        (Placement(method=BY_SNAPSHOT), 12, (1, 3)),
    ],
)
def test_the_default_placement_fits_the_cluster(
    wanted: Placement, peers: int, expected: tuple[int, int]
) -> None:
    assert placed(wanted, peers)[:2] == expected
