"""What a library needs: strict input, published formulas, and the prediction for a library that was measured."""

from __future__ import annotations

import json

import pytest

from scholarbase.errors import InvalidRequest
from scholarbase_cluster.planning.requirements import (
    Node,
    Wanted,
    gpu_speeds,
    parse_count,
    predicted,
    requirements,
)
from scholarbase_cluster.planning.slopes import shipped
from tests.conftest import run_cli


@pytest.mark.parametrize(
    ("text", "papers"),
    [
        ("1", 1),
        ("335000", 335_000),
        ("335,000", 335_000),
        ("200M", 200_000_000),
        ("2.5B", 2_500_000_000),
        ("2.5b", 2_500_000_000),
        ("80k", 80_000),
        ("0.000001M", 1),
        ("10B", 10**10),
    ],
)
def test_a_number_of_papers(text: str, papers: int) -> None:
    assert parse_count(text) == papers


def test_published_figures() -> None:
    """Qdrant's page computes 6,144,000,000 bytes; the page of Infinity has 1,150,000 tokens in 18.491 s on an L4."""
    speeds = gpu_speeds([])
    assert speeds["L4"] == pytest.approx(62_192, rel=1e-4)
    slopes = shipped()
    found = requirements(Wanted(1_000_000, 1024), slopes, speeds)
    assert found.qdrant_bytes == 6_144_000_000
    assert found.encoding_hours["L4"] == pytest.approx(
        1e6 * slopes.tokens_per_paper / 62_192 / 3600, rel=1e-4
    )
    # float16 and codes of 2 bits, and some links.
    assert found.vectors_bytes > 1_000_000 * 1024 * 2.25


@pytest.mark.parametrize("quantity", ["disk_bytes", "vectors_bytes", "build_bytes", "cpu_seconds"])
@pytest.mark.parametrize("dense", [False, True])
def test_the_whole_arxiv_file_is_predicted(quantity: str, dense: bool) -> None:
    slopes = shipped()
    (whole,) = [point for point in slopes.checked if point.dense == dense]
    assert whole.papers > 300_000
    found = predicted(slopes, quantity, whole.papers, slopes.dimensions if dense else 0)
    assert found == pytest.approx(getattr(whole, quantity), rel=0.15)


def test_nodes_grow_with_memory_and_with_queries() -> None:
    slopes = shipped()
    few = requirements(Wanted(200_000_000, 1024, 1.0), slopes, {})
    small = requirements(Wanted(200_000_000, 1024, 1.0, Node(memory_gb=32.0)), slopes, {})
    busy = requirements(Wanted(200_000_000, 1024, 5_000.0), slopes, {})
    assert small.shards == pytest.approx(2 * few.shards, rel=0.1)
    assert busy.shards == few.shards
    assert busy.nodes > few.nodes
    assert few.least_memory_bytes == pytest.approx(few.memory_bytes - 200e6 * 1024 * 2)


def test_the_command_prints_a_table_and_json() -> None:
    asked = ("plan", "--papers", "200M", "--dimensions", 1024, "--queries-per-second", 200)
    printed = run_cli(*asked).stdout
    assert "by Qdrant's formula" in printed
    assert "1.2 TB for the dense vectors alone" in printed
    found = json.loads(run_cli(*asked, "--json").stdout)
    assert found["papers"] == 200_000_000
    assert found["disk_bytes"] > found["vectors_bytes"]
    assert found["nodes"] == found["shards"] * found["replicas"]
    assert run_cli("plan", "--papers", "many").returncode == InvalidRequest.exit_code
