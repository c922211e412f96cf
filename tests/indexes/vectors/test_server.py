from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from qdrant_client import QdrantClient

from scholarbase.errors import LibraryCorrupt, VectorIndexError
from scholarbase.indexes.filters import NO_FILTERS
from scholarbase.indexes.vectors.base import VectorConfig
from scholarbase.indexes.vectors.server import ServerIndex, ServerWriter, connect
from tests.indexes.vectors.conftest import CONFIG, SNAPSHOT, Corpus

LATER = "fedcba9876543210" * 2


@pytest.fixture
def client() -> Iterator[QdrantClient]:
    client = QdrantClient(":memory:")
    yield client
    client.close()


def load(client: QdrantClient, corpus: Corpus, snapshot: str, count: int, **options: bool) -> None:
    writer = ServerWriter.open(client, "papers", snapshot, CONFIG, **options)
    writer.upsert(corpus.points[:count])
    writer.finish()


def collections(client: QdrantClient) -> set[str]:
    return {found.name for found in client.get_collections().collections}


def test_a_new_snapshot_replaces_the_old(client: QdrantClient, corpus: Corpus) -> None:
    client.create_collection("papers-of-another-kind", vectors_config={})
    load(client, corpus, SNAPSHOT, 10)
    assert ServerIndex.open(client, "papers", SNAPSHOT).count(NO_FILTERS) == 10
    load(client, corpus, LATER, 20)
    assert ServerIndex.open(client, "papers", LATER).count(NO_FILTERS) == 20
    # Only this alias's own collections are removed.
    assert collections(client) == {"papers-fedcba9876543210", "papers-of-another-kind"}


def test_the_old_snapshot_can_be_kept(client: QdrantClient, corpus: Corpus) -> None:
    load(client, corpus, SNAPSHOT, 10)
    old = ServerIndex.open(client, "papers", SNAPSHOT)
    load(client, corpus, LATER, 20, keep_old=True)
    assert collections(client) == {"papers-0123456789abcdef", "papers-fedcba9876543210"}
    # An index opened before keeps searching its own snapshot.
    assert old.count(NO_FILTERS) == 10


def test_an_incomplete_load_is_not_served(client: QdrantClient, corpus: Corpus) -> None:
    writer = ServerWriter.open(client, "papers", SNAPSHOT, CONFIG)
    writer.upsert(corpus.points[:10])
    with pytest.raises(VectorIndexError, match="no collection 'papers'"):
        ServerIndex.open(client, "papers", SNAPSHOT)
    with pytest.raises(LibraryCorrupt, match="not completely loaded"):
        ServerIndex.open(client, "papers-0123456789abcdef", SNAPSHOT)


def test_the_vectors_of_another_snapshot_are_rejected(client: QdrantClient, corpus: Corpus) -> None:
    load(client, corpus, SNAPSHOT, 10)
    with pytest.raises(LibraryCorrupt, match=f"{SNAPSHOT}.*{LATER}"):
        ServerIndex.open(client, "papers", LATER)


def test_a_collection_that_was_removed_is_an_error(client: QdrantClient, corpus: Corpus) -> None:
    load(client, corpus, SNAPSHOT, 10)
    index = ServerIndex.open(client, "papers", SNAPSHOT)
    load(client, corpus, LATER, 20)
    with pytest.raises(VectorIndexError, match="papers-0123456789abcdef"):
        index.search_dense(corpus.project("networks"), 5, NO_FILTERS)


def test_an_alias_that_is_a_collection_is_rejected(client: QdrantClient) -> None:
    client.create_collection("papers", vectors_config={})
    with pytest.raises(VectorIndexError, match="collection named 'papers'"):
        ServerWriter.open(client, "papers", SNAPSHOT, CONFIG)


def test_resuming_a_load_with_another_layout_is_rejected(client: QdrantClient) -> None:
    ServerWriter.open(client, "papers", SNAPSHOT, CONFIG)
    with pytest.raises(VectorIndexError, match="delete the collection"):
        ServerWriter.open(client, "papers", SNAPSHOT, VectorConfig(dimensions=64))


@pytest.mark.parametrize("prefer_grpc", [False, True])
def test_an_unreachable_server_is_named(prefer_grpc: bool, corpus: Corpus) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
        client = connect(address, prefer_grpc=prefer_grpc, timeout_seconds=2)
        with pytest.raises(VectorIndexError, match=f"{address}.*could not"):
            ServerIndex.open(client, "papers", SNAPSHOT)
        index = ServerIndex(client, "papers-0123456789abcdef", CONFIG)
        with pytest.raises(VectorIndexError, match=f"{address}.*could not search"):
            index.search_dense(corpus.project("networks"), 5, NO_FILTERS)
        index.close()
