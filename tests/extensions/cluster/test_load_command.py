"""``scholarbase load`` and ``unload``, and a server over what they loaded."""

import logging
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from scholarbase.ingest.job import ingest
from scholarbase.manifest import read_manifest
from scholarbase.search.library import Library
from scholarbase.settings import load_settings
from tests.conftest import run_cli, serving_in_thread
from tests.qdrant.cluster import HANG, Cluster, qdrant_cluster

POINTS = ("--method", "points")
"""Sending a shard takes two seconds of CPU time, most of them for zeros."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory, small_snapshot: Path) -> Path:
    """The papers of the dense library, without dense vectors."""
    path = tmp_path_factory.mktemp("sparse") / "library"
    ingest([small_snapshot], path)
    return path


@pytest.fixture
def pair() -> Iterator[Cluster]:
    with qdrant_cluster(2) as cluster:
        yield cluster


def command(cluster: Cluster, *arguments: str | Path) -> tuple[int, str, str]:
    done = run_cli(
        *arguments, SCHOLARBASE_QDRANT_URL=",".join(cluster.urls), SCHOLARBASE_QDRANT_ALIAS="papers"
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_a_library_is_loaded_served_and_replaced(pair: Cluster, library: Path, dense_library: Path) -> None:
    first, second = read_manifest(library), read_manifest(dense_library)
    old, new = (f"papers-{snapshot[:16]}" for _, snapshot in (first, second))
    total = first[0].counts["points"]
    status, output, _ = command(pair, "load", "--library", library)
    assert status == 0
    assert output.splitlines() == [
        f"shard 0 on node 1000: Active, {total:,} points",
        f"shard 0 on node 1001: Active, {total:,} points",
        f"The Qdrant server has {total:,} points as 'papers' ({old}).",
    ]

    settings = load_settings(qdrant_url=pair.urls, qdrant_alias="papers")
    with Library.open(library) as here, Library.open(library, settings=settings) as there:
        for engine in ("bm25", "feedback"):
            q = "string theory and two-dimensional QCD"
            ours, theirs = (one.search(q, mode="sparse", engine=engine, limit=50) for one in (here, there))
            assert ours.results
            assert ours.results == theirs.results

        # Another library under the same alias: the running server goes on.
        status, output, _ = command(pair, "load", "--library", dense_library, "--prune", *POINTS)
        assert status == 0
        assert f"{old} stays" in output
        assert f"scholarbase unload --snapshot {old[7:]}" in output
        assert pair.names() == {old, new}
        assert there.search("string", mode="sparse").results == here.search("string", mode="sparse").results

    status, _, error = command(pair, "unload", "--snapshot", second[1])
    assert status == 2
    assert "the alias 'papers' names it" in error
    status, output, _ = command(pair, "unload", "--snapshot", first[1])
    assert (status, output) == (0, f"Removed {old}.\n")
    assert pair.names() == {new}


@pytest.mark.slow
def test_points_are_sent_to_a_server_that_does_not_take_the_shard(pair: Cluster, library: Path) -> None:
    for node in pair.nodes:
        node.version = "1.17.2"
    status, _, error = command(pair, "load", "--library", library, "--method", "snapshot")
    assert status == 8
    assert "is Qdrant 1.17.2, and restoring it needs 1.18 or newer" in error
    assert pair.names() == set()
    status, output, error = command(pair, "load", "--library", library)
    assert status == 0
    assert "1.18 or newer. Its points are sent instead.\n" in error
    assert [line.partition(": Active, ")[0] for line in output.splitlines()[:4]] == [
        f"shard {shard} on node {peer}" for shard in (0, 1) for peer in (1000, 1001)
    ]
    # A load continues as it began, with other nodes too.
    for node in pair.nodes:
        node.version = "1.18.3"
    status, _, error = command(pair, "load", "--library", library)
    assert status == 0
    assert pair.uploads == []
    status, _, error = command(pair, "load", "--library", library, "--method", "snapshot")
    assert (status, pair.uploads) == (8, [])
    assert "has points as method, not snapshot" in error
    options = ("--method", "snapshot", "--shards", "2")
    assert command(pair, "load", "--library", library, *options)[0] == 2


@pytest.mark.slow
def test_callers_of_a_server_see_no_address_and_no_bytes(
    pair: Cluster, library: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The text of an error had the internal address and raw bytes of Qdrant's response."""
    assert command(pair, "load", "--library", library, *POINTS)[0] == 0
    settings = load_settings(qdrant_url=pair.urls, qdrant_alias="papers")
    with (
        Library.open(library, settings=settings) as opened,
        serving_in_thread(opened, sessions="none") as url,
    ):
        asked = {"q": "string theory", "mode": "sparse"}
        assert httpx.get(f"{url}/v1/search", params=asked).status_code == 200
        for failure in (404, 500, "stop"):
            caplog.clear()
            for node in pair.nodes:
                node.stop() if failure == "stop" else node.fail(failure)
            with caplog.at_level(logging.WARNING):
                response = httpx.get(f"{url}/v1/search", params=asked)
                others = [
                    httpx.get(f"{url}/graph/v1/paper/search", params={"query": "quark"}),
                    httpx.post(f"{url}/v1/tools/search_papers", json={"query": "quark"}),
                ]
            assert response.status_code == 503
            assert (
                response.json()["detail"] == "The Qdrant server failed, or could not be reached: retry later."
            )
            for one in (response, *others):
                assert one.status_code >= 500
                assert not any(part in one.text for part in ("127.0.0.1", "b'", "node 100", "Unexpected"))
            assert pair.urls[0].partition("?")[0] in caplog.text


@pytest.mark.slow
def test_a_server_is_started_and_searched_while_a_node_hangs(pair: Cluster, library: Path) -> None:
    assert command(pair, "load", "--library", library, *POINTS)[0] == 0
    settings = load_settings(qdrant_url=pair.urls, qdrant_alias="papers", qdrant_read_seconds=600)
    pair.nodes[0].fail(HANG)
    with Library.open(library, settings=settings) as opened:
        assert opened.search("string", mode="sparse", engine="feedback").results
