"""One library, asked through every engine and every vector index: they agree where they must."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from scholarbase.encoders.bge_m3 import BgeM3Encoder
from scholarbase.indexes.vectors.index import EdgeIndex
from scholarbase.ingest.job import ingest
from scholarbase.manifest import read_manifest
from scholarbase.models.limits import Engine, Mode
from scholarbase.search.library import Library
from scholarbase.settings import Settings
from tests.encoders.tiny_bge_m3 import make_tiny_bge_m3
from tests.packages import need

if TYPE_CHECKING:
    from tests.qdrant.cluster import Cluster

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def learned_library(tmp_path_factory: pytest.TempPathFactory, small_snapshot: Path) -> Path:
    """A library with learned term weights, by a tiny model of BGE-M3's architecture."""
    need("FlagEmbedding")
    model = make_tiny_bge_m3(tmp_path_factory.mktemp("model") / "tiny-bge-m3")
    path = model.parent / "learned"
    encoder = BgeM3Encoder(model, device="cpu")
    ingest([small_snapshot], path, encoder=encoder, encoder_location=str(model))
    encoder.close()
    return path


@pytest.fixture(scope="module")
def cluster(dense_library: Path) -> Iterator[Cluster]:
    """A Qdrant server with the vectors of the dense library."""
    from scholarbase_cluster.qdrant.nodes import Nodes
    from tests.qdrant.cluster import qdrant_cluster
    from tests.qdrant.loading import fill

    _, snapshot = read_manifest(dense_library)
    with qdrant_cluster(2) as cluster:
        with (
            closing(Nodes(cluster.urls)) as nodes,
            closing(EdgeIndex.open(dense_library / "vectors")) as edge,
        ):
            fill(edge, nodes, "scholarbase", snapshot)
        yield cluster


@pytest.fixture(scope="module")
def over_a_server(dense_library: Path, cluster: Cluster) -> Iterator[Library]:
    """The dense library with its vectors on a Qdrant server."""
    settings = Settings(qdrant_url=cluster.urls, similarity_floor=False)
    with Library.open(dense_library, settings=settings) as library:
        yield library


@pytest.mark.parametrize("mode", ["sparse", "dense", "hybrid"])
@pytest.mark.whole
def test_both_vector_indexes_give_the_same_answers(
    dense: Library, over_a_server: Library, mode: Mode
) -> None:
    for question in (
        "string theory and two-dimensional QCD",
        "supersymmetry at the electroweak scale",
        "lattice",
    ):
        for filters in ({}, {"from_": "1993-02", "to": "1993-06"}, {"min_citations": 5}):
            here = dense.search(question, mode=mode, limit=137, exact=True, **filters)  # type: ignore[arg-type]
            there = over_a_server.search(question, mode=mode, limit=137, exact=True, **filters)  # type: ignore[arg-type]
            assert (here.total, here.total_relation) == (there.total, there.total_relation)
            assert here.results
            assert [(h.paper.id, h.score) for h in here.results] == [
                (h.paper.id, h.score) for h in there.results
            ]


@pytest.mark.parametrize(
    ("options", "requests"),
    [
        ({"mode": "sparse"}, 1),
        ({"mode": "sparse", "engine": "feedback"}, 2),
        ({"mode": "dense"}, 1),
        ({"mode": "hybrid", "engine": "bm25", "fusion": "rrf"}, 1),
        ({"mode": "hybrid", "engine": "bm25"}, 2),
        ({"mode": "dense", "exact": True}, 1),
        ({"mode": "hybrid"}, 3),
    ],
    ids=str,
)
@pytest.mark.whole
def test_a_search_sends_few_requests_to_a_server(
    over_a_server: Library, cluster: Cluster, options: dict[str, Any], requests: int
) -> None:
    for question in ("string theory and two-dimensional QCD", "supersymmetry at the electroweak scale"):
        before = [len(node.calls) for node in cluster.nodes]
        assert over_a_server.search(question, limit=20, **options).results
        made = [node.calls[was:] for node, was in zip(cluster.nodes, before, strict=True)]
        searches = [path for calls in made for path in calls if "HealthCheck" not in path]
        assert searches == ["/qdrant.Points/QueryBatch"] * requests


def test_learned_weights_rank_by_their_dot_product(learned_library: Path) -> None:
    model = learned_library.parent / "tiny-bge-m3"
    with Library.open(learned_library, encoder=str(model)) as library:
        assert library.encoder is not None
        query = library.encoder.encode_queries(["heavy quark decay"]).sparse
        assert query is not None
        weights = dict(zip(query[0].indices.tolist(), query[0].values.tolist(), strict=True))
        expected: dict[int, float] = {}
        for batch in EdgeIndex.open(learned_library / "vectors").points():
            for point in batch:
                indices, values = point.sparse["learned"]
                score = float(np.sum([weights.get(i, 0.0) * v for i, v in zip(indices, values, strict=True)]))
                if score > 0:
                    expected[point.id] = score
        answer = library.search("heavy quark decay", mode="sparse", engine="learned", limit=1000)
        assert answer.engine == "learned"
        assert [hit.score for hit in answer.results] == pytest.approx(
            sorted(expected.values(), reverse=True), rel=1e-4
        )
        assert answer.total == len(expected)


def test_learned_weights_take_part_in_a_hybrid_search(learned_library: Path) -> None:
    model = learned_library.parent / "tiny-bge-m3"
    with Library.open(
        learned_library, encoder=str(model), settings=Settings(similarity_floor=False)
    ) as library:
        answer = library.search("heavy quark decay", mode="hybrid", engine="learned", explain=True, limit=5)
        legs = {leg.leg for hit in answer.results for leg in hit.explain or ()}
        assert legs == {"learned", "dense"}
        for hit in answer.results:
            assert hit.score == pytest.approx(sum(leg.share for leg in hit.explain or ()))
    with Library.open(learned_library, encoder=str(model), settings=Settings(fusion="rrf")) as library:
        for hit in library.search("heavy quark decay", mode="hybrid", engine="learned", explain=True).results:
            assert hit.score == pytest.approx(sum(1 / (60 + leg.rank) for leg in hit.explain or ()))


# -- feedback -------------------------------------------------------------------------------------------


def found(library: Library, q: str, engine: Engine, **arguments: object) -> list[str]:
    answer = library.search(q, mode="sparse", engine=engine, fields=["id"], **arguments)  # type: ignore[arg-type]
    return [hit.paper.id for hit in answer.results]


def test_a_query_that_few_papers_match_gets_no_others(sample: Library) -> None:
    """Feedback would pad an answer of a few papers with papers that have none of the query's words."""
    rare = ("glueballs", "orientifolds", "tachyonic", "dialectal", "coreferent")
    totals = {word: sample.search(word, mode="sparse", engine="bm25").total for word in rare}
    word = next(word for word, total in totals.items() if 0 < total <= 20)
    assert found(sample, word, "feedback") == found(sample, word, "bm25")
    assert sample.search(word, mode="sparse", engine="feedback").total == totals[word]
    assert found(sample, "zxqvword", "feedback") == []


@pytest.mark.whole
def test_feedback_over_a_server_is_feedback_here(over_a_server: Library, dense: Library) -> None:
    q = "quantum field theory of black holes"
    assert found(over_a_server, q, "feedback", limit=50) == found(dense, q, "feedback", limit=50)
