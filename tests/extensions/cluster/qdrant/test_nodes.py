"""Fail-over between the nodes of a cluster. A request that hangs ends after two minutes, when the node fails: searches
that do not fail over are noticed by their time."""

import logging
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from scholarbase.deadlines import time_limit
from scholarbase.errors import TimeLimit, VectorIndexError
from scholarbase.indexes.filters import NO_FILTERS
from scholarbase.indexes.vectors.base import BM25
from scholarbase.indexes.vectors.index import EdgeIndex
from scholarbase_cluster.qdrant.nodes import HEDGE_SECONDS, Nodes
from scholarbase_cluster.qdrant.server import ServerIndex
from tests.indexes.vectors.conftest import CONFIG, SNAPSHOT, Corpus
from tests.qdrant.cluster import HANG, Cluster, Node, qdrant_cluster
from tests.qdrant.loading import fill
from tests.sessions.agents import wait_until

FAILURES = ((HANG, 0), ("stop", 1), (404, 0), (500, 1), (503, 0))
"""Each with the number of the node that fails."""


@contextmanager
def loaded(edge: EdgeIndex, count: int) -> Iterator[Cluster]:
    with qdrant_cluster(count) as cluster, closing(Nodes(cluster.urls)) as nodes:
        fill(edge, nodes, "papers", SNAPSHOT)
        yield cluster


@contextmanager
def opened(cluster: Cluster, **options: float) -> Iterator[ServerIndex]:
    with closing(ServerIndex.open(Nodes(cluster.urls, **options), "papers", SNAPSHOT)) as index:
        yield index


def fail(node: Node, failure: str | int | None) -> None:
    node.stop() if failure == "stop" else node.fail(failure)


def searches(node: Node) -> int:
    return sum(path.endswith("/QueryBatch") for path in node.calls)


@pytest.fixture
def pair(edge: EdgeIndex) -> Iterator[Cluster]:
    with loaded(edge, 2) as cluster:
        yield cluster


@pytest.mark.slow
@pytest.mark.parametrize(("failure", "number"), FAILURES)
def test_one_of_two_nodes_may_fail_at_any_call(
    pair: Cluster, edge: EdgeIndex, corpus: Corpus, failure: str | int, number: int
) -> None:
    questions = [title for title, _ in corpus.texts[:12]]
    expected = [edge.search_sparse(BM25, corpus.queries.vector(q), 20, NO_FILTERS) for q in questions]
    with opened(pair, read_seconds=600) as index:
        began = time.monotonic()
        for place, question in enumerate(questions):
            if place == 3:
                fail(pair.nodes[number], failure)
            vector = corpus.queries.vector(question)
            assert index.search_sparse(BM25, vector, 20, NO_FILTERS) == expected[place]
        assert index.count(NO_FILTERS) == 340
        assert time.monotonic() - began < 60


@pytest.mark.slow
def test_a_node_that_hangs_is_avoided_until_it_answers(
    pair: Cluster, corpus: Corpus, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = pair.nodes
    vectors = [corpus.queries.vector(title) for title, _ in corpus.texts[:40]]
    with opened(pair, read_seconds=600) as index, caplog.at_level(logging.INFO, "scholarbase.qdrant"):
        bad.fail(HANG)
        for vector in vectors:
            index.search_sparse(BM25, vector, 5, NO_FILTERS)
        assert "does not answer" in caplog.text
        before = searches(bad)
        for vector in vectors:
            index.search_sparse(BM25, vector, 5, NO_FILTERS)
        assert searches(bad) - before < len(vectors) / 4  # one in five seconds, and half of them otherwise
        assert searches(good) >= 2 * len(vectors)  # more where it was slow once and was asked again
        bad.fail(None)

        def is_used() -> bool:
            for vector in vectors:
                index.search_sparse(BM25, vector, 5, NO_FILTERS)
            return f"{pair.urls[0].partition('?')[0]} answers again" in caplog.text

        wait_until(is_used)


def test_the_same_query_goes_to_the_same_node(pair: Cluster, corpus: Corpus) -> None:
    """Replicas have graphs of their own."""
    with opened(pair) as index:
        used = set()
        for title, abstract in corpus.texts[:10]:
            query = corpus.project(f"{title}\n{abstract}")
            before = [searches(node) for node in pair.nodes]
            for _ in range(4):
                index.search_dense(query, 5, NO_FILTERS)
            made = [searches(node) - was for node, was in zip(pair.nodes, before, strict=True)]
            assert sorted(made) == [0, 4]
            used.add(made.index(4))
        assert used == {0, 1}


def test_without_a_node_a_search_fails(
    pair: Cluster, corpus: Corpus, caplog: pytest.LogCaptureFixture
) -> None:
    query = corpus.project("networks")
    with opened(pair) as index:
        for node in pair.nodes:
            node.stop()
        with pytest.raises(VectorIndexError, match="could not search") as raised:
            index.search_dense(query, 5, NO_FILTERS)
        urls = [url.partition("?")[0] for url in pair.urls]
        assert all(url in str(raised.value) for url in urls)
        assert all(url in caplog.text for url in urls)
        assert raised.value.for_clients == "The Qdrant server failed, or could not be reached: retry later."
        for node in pair.nodes:
            node.start()
        wait_until(lambda: bool(index.search_dense(query, 5, NO_FILTERS)))


def test_a_response_of_a_failure_is_one_line_without_bytes(cluster: Cluster, edge: EdgeIndex) -> None:
    with closing(Nodes(cluster.urls)) as nodes:
        fill(edge, nodes, "papers", SNAPSHOT)
        index = ServerIndex(nodes, "another", CONFIG)
        with pytest.raises(VectorIndexError, match=r"NOT_FOUND.*Collection `another`") as raised:
            index.count(NO_FILTERS)
        assert "b'" not in str(raised.value)
        assert "\n" not in str(raised.value)


def test_a_request_that_no_node_accepts_is_sent_once(pair: Cluster, corpus: Corpus) -> None:
    with opened(pair) as index:
        for node in pair.nodes:
            node.fail(400, on="/QueryBatch")
        with pytest.raises(VectorIndexError, match="INVALID_ARGUMENT"):
            index.search_dense(corpus.project("networks"), 5, NO_FILTERS)
        assert sum(searches(node) for node in pair.nodes) == 1


def test_a_response_later_than_the_read_limit_is_an_error(cluster: Cluster, edge: EdgeIndex) -> None:
    with closing(Nodes(cluster.urls)) as nodes:
        fill(edge, nodes, "papers", SNAPSHOT)
    with closing(Nodes(cluster.urls, read_seconds=0.2)) as nodes:
        cluster.nodes[0].fail(HANG)
        began = time.monotonic()
        with pytest.raises(VectorIndexError, match="ReadTimeout"):
            nodes.read("be asked", lambda client: client.get_collections())
        assert time.monotonic() - began < 60


def test_a_search_ends_at_the_time_limit_of_its_request(
    cluster: Cluster, edge: EdgeIndex, corpus: Corpus
) -> None:
    with closing(Nodes(cluster.urls, read_seconds=600)) as nodes:
        fill(edge, nodes, "papers", SNAPSHOT)
        index = ServerIndex.open(nodes, "papers", SNAPSHOT)
        cluster.nodes[0].fail(HANG)
        began = time.monotonic()
        with time_limit(0.3), pytest.raises(TimeLimit):
            index.search_dense(corpus.project("networks"), 5, NO_FILTERS)
        assert time.monotonic() - began < 60


def test_a_search_that_takes_long_is_sent_once_while_its_node_answers_health_checks(
    pair: Cluster, corpus: Corpus
) -> None:
    """A great answer would take as long elsewhere."""
    with opened(pair, read_seconds=600) as index:
        pair.search_seconds = 3 * HEDGE_SECONDS
        assert index.search_sparse(BM25, corpus.queries.vector("networks"), 5, NO_FILTERS)
        assert sum(map(searches, pair.nodes)) == 1
        assert all("/qdrant.Qdrant/HealthCheck" in node.calls for node in pair.nodes if searches(node))


@pytest.mark.slow
def test_scores_do_not_depend_on_the_replica(pair: Cluster, edge: EdgeIndex, corpus: Corpus) -> None:
    """One replica adds 32-bit products in another order, which changes the last bits of cosines."""
    other = pair.nodes[1]
    other.reorders = True
    questions = [title for title, _ in corpus.texts[:8]]
    with opened(pair) as index:
        for question in questions:
            vector = corpus.queries.vector(question)
            query = corpus.project(question)
            answers = []
            raw = []
            for down in (None, *pair.nodes):
                if down is not None:
                    down.fail(503, on="/QueryBatch")
                answers.append(
                    (
                        index.search_sparse(BM25, vector, 30, NO_FILTERS),
                        index.search_dense(query, 30, NO_FILTERS, exact=True),
                    )
                )
                raw.append(
                    [hit.score for hit in index.nearest("dense", query.tolist(), 30, NO_FILTERS, ef=None)]
                )
                if down is not None:
                    down.fail(None)
            here = (
                edge.search_sparse(BM25, vector, 30, NO_FILTERS),
                edge.search_dense(query, 30, NO_FILTERS, exact=True),
            )
            assert answers == [here] * 3
            assert raw[1] != raw[2]  # what the replicas themselves say


def test_a_key_is_not_sent_over_plain_http() -> None:
    with pytest.raises(
        VectorIndexError, match=r"http://192\.0\.2\.1:6333 .* without encryption: use an https"
    ):
        Nodes(
            ["http://localhost", "http://[::1]:7000", "https://192.0.2.1", "http://192.0.2.1"], api_key="key"
        )
