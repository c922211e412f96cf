"""Opening the collection of a Qdrant server."""

import socket
from contextlib import closing

import pytest

from scholarbase.errors import LibraryCorrupt, VectorIndexError
from scholarbase.indexes.filters import NO_FILTERS
from scholarbase.indexes.vectors.index import EdgeIndex
from scholarbase_cluster.qdrant.nodes import Nodes
from scholarbase_cluster.qdrant.server import ServerIndex
from tests.indexes.vectors.conftest import CONFIG, SNAPSHOT, Corpus
from tests.qdrant.loading import fill

LATER = "fedcba9876543210" * 2


def test_the_collection_of_another_snapshot_is_not_opened(edge: EdgeIndex, nodes: Nodes) -> None:
    with pytest.raises(VectorIndexError, match="no collection 'papers'"):
        ServerIndex.open(nodes, "papers", SNAPSHOT)
    fill(edge, nodes, "papers", LATER)
    assert ServerIndex.open(nodes, "papers", LATER).count(NO_FILTERS) == 340
    with pytest.raises(LibraryCorrupt, match=f"{LATER}.*{SNAPSHOT}"):
        ServerIndex.open(nodes, "papers", SNAPSHOT)


def test_an_incomplete_collection_is_not_opened(edge: EdgeIndex, nodes: Nodes) -> None:
    fill(edge, nodes, "papers", SNAPSHOT, complete=False)
    with pytest.raises(LibraryCorrupt, match="not completely loaded"):
        ServerIndex.open(nodes, "papers", SNAPSHOT)


def test_an_unreachable_server_is_named(corpus: Corpus) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with closing(Nodes([address])) as nodes:
            with pytest.raises(VectorIndexError, match=rf"could not open 'papers' \({address}"):
                ServerIndex.open(nodes, "papers", SNAPSHOT)
            index = ServerIndex(nodes, "papers-0123456789abcdef", CONFIG)
            with pytest.raises(VectorIndexError, match=f"could not search.*{address}"):
                index.search_dense(corpus.project("networks"), 5, NO_FILTERS)
