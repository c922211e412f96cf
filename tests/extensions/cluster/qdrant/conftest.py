"""The papers of the tests of vector indexes, and servers without collections."""

from tests.indexes.vectors.conftest import cluster, corpus, edge, nodes, shard, sharded

__all__ = ["cluster", "corpus", "edge", "nodes", "shard", "sharded"]
