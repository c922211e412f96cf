"""The papers of the tests of vector indexes, and servers without collections."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from scholarbase_cluster.qdrant.nodes import Nodes
from tests.indexes.vectors.conftest import cluster, corpus, edge, nodes, shard, sharded
from tests.qdrant.cluster import Cluster, qdrant_cluster

__all__ = ["cluster", "corpus", "edge", "nodes", "shard", "sharded"]


@pytest.fixture
def three() -> Iterator[tuple[Cluster, Nodes]]:
    with qdrant_cluster(3) as cluster, closing(Nodes(cluster.urls)) as nodes:
        yield cluster, nodes
