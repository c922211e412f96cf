from __future__ import annotations

from collections.abc import Iterator

import pytest
from qdrant_client import QdrantClient

from scholarbase.errors import VectorIndexError
from scholarbase.indexes.filters import NO_FILTERS
from scholarbase.indexes.vectors import transfer
from scholarbase.indexes.vectors.base import BM25, Payload, VectorPoint
from scholarbase.indexes.vectors.edge import EdgeIndex
from scholarbase.indexes.vectors.server import ServerIndex, ServerWriter
from scholarbase.indexes.vectors.transfer import load_into_server
from tests.indexes.vectors.conftest import CONFIG, SNAPSHOT, Corpus


@pytest.fixture
def client() -> Iterator[QdrantClient]:
    client = QdrantClient(":memory:")
    yield client
    client.close()


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "BATCH", 7)


def test_a_loaded_server_returns_the_results_of_the_shard(
    edge: EdgeIndex, client: QdrantClient, corpus: Corpus
) -> None:
    reported: list[tuple[int, int]] = []
    index = load_into_server(edge, client, "papers", SNAPSHOT, CONFIG, lambda *now: reported.append(now))
    assert reported[0] == (0, 340)
    assert reported[-1] == (340, 340)
    vector = corpus.bm25.query("deep learning of speech")
    ours = edge.search_sparse(BM25, vector, 30, NO_FILTERS)
    theirs = index.search_sparse(BM25, vector, 30, NO_FILTERS)
    assert [hit.id for hit in theirs] == [hit.id for hit in ours]
    for mine, other in zip(edge.points(), index.points(), strict=True):
        assert [(p.id, p.payload) for p in mine] == [(p.id, p.payload) for p in other]


def test_an_interrupted_load_is_resumed(edge: EdgeIndex, client: QdrantClient) -> None:
    class Stop(Exception):
        pass

    def stop_at_100(done: int, total: int) -> None:
        if done >= 100:
            raise Stop

    with pytest.raises(Stop):
        load_into_server(edge, client, "papers", SNAPSHOT, CONFIG, stop_at_100)
    with pytest.raises(VectorIndexError, match="no collection 'papers'"):
        ServerIndex.open(client, "papers", SNAPSHOT)
    reported: list[tuple[int, int]] = []
    index = load_into_server(edge, client, "papers", SNAPSHOT, CONFIG, lambda *now: reported.append(now))
    assert reported[0] == (105, 340)
    assert list(index.ids()) == list(range(1, 341))
    # Again, with nothing left to load.
    reported.clear()
    load_into_server(edge, client, "papers", SNAPSHOT, CONFIG, lambda *now: reported.append(now))
    assert reported == [(340, 340)]


def test_a_collection_with_additional_points_is_not_served(edge: EdgeIndex, client: QdrantClient) -> None:
    writer = ServerWriter.open(client, "papers", SNAPSHOT, CONFIG)
    writer.upsert([VectorPoint(99_999, Payload())])
    with pytest.raises(VectorIndexError, match="has 341 points, but the library has 340"):
        load_into_server(edge, client, "papers", SNAPSHOT, CONFIG)
    with pytest.raises(VectorIndexError, match="no collection 'papers'"):
        ServerIndex.open(client, "papers", SNAPSHOT)
