"""Loading the library's own shard: the snapshot, refusals, kills, and nodes that are lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from scholarbase.indexes.filters import NO_FILTERS
from scholarbase.indexes.vectors.index import EdgeIndex
from scholarbase.indexes.vectors.nodes import Nodes
from scholarbase.indexes.vectors.server import ServerIndex
from scholarbase_cluster.qdrant.collection import aliases
from scholarbase_cluster.qdrant.restoring import load_shard
from tests.indexes.vectors.conftest import SNAPSHOT, Corpus
from tests.qdrant.cluster import Cluster, qdrant_cluster

NAME = "papers-0123456789abcdef"


@pytest.fixture
def three() -> Iterator[tuple[Cluster, Nodes]]:
    with qdrant_cluster(3) as cluster, closing(Nodes(cluster.urls)) as nodes:
        yield cluster, nodes


def test_a_restored_shard_answers_as_the_library(
    edge: EdgeIndex, three: tuple[Cluster, Nodes], corpus: Corpus
) -> None:
    cluster, nodes = three
    reported: list[tuple[int, int]] = []
    done = load_shard(edge, nodes, "papers", SNAPSHOT, lambda *now: reported.append(now))
    assert cluster.uploads == [1000]
    assert cluster.upserts == []
    assert reported[0] == (0, 340)
    assert reported[-1] == (340, 340)
    assert done.survey.replicas == [(0, peer, "Active", 340) for peer in (1000, 1001, 1002)]
    assert aliases(nodes) == {"papers": NAME}
    index = ServerIndex.open(nodes, "papers", SNAPSHOT)
    for text, _ in corpus.texts[:20]:
        vector, words = corpus.project(text), corpus.queries.vector(text)
        for exact in (False, True):
            assert index.search_dense(vector, 20, NO_FILTERS, exact=exact) == edge.search_dense(
                vector, 20, NO_FILTERS, exact=exact
            )
        assert index.search_sparse("bm25", words, 20, NO_FILTERS) == edge.search_sparse(
            "bm25", words, 20, NO_FILTERS
        )
