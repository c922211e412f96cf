"""What a library needs: strict input, published figures, and the estimate for a library that was built."""

import json
import re

import pytest

from scholarbase.errors import InvalidRequest
from scholarbase_cluster.planning.growth import shipped
from scholarbase_cluster.planning.nodes import nodes_of, server_of
from scholarbase_cluster.planning.requirements import (
    Wanted,
    encoding_hours,
    estimated,
    gpu_speeds,
    kept_citations,
    requirements,
)
from scholarbase_cluster.planning.snapshots import SNAPSHOTS, parse_count
from tests.conftest import ROOT, run_cli


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


def test_published_speeds() -> None:
    """The page of Infinity has 1,150,000 tokens in 18.491 s on an L4."""
    speeds = gpu_speeds([])
    assert speeds["L4"] == pytest.approx(62_192, rel=1e-4)
    measured = shipped()
    hours = encoding_hours(Wanted(1_000_000, 1024), measured, speeds)
    assert hours["L4"] == pytest.approx(1e6 * measured.tokens_per_paper / 62_192 / 3600, rel=1e-4)


def test_vectors_of_other_dimensions_take_what_their_format_does() -> None:
    """768 more dimensions of two bytes and of two bits, and the second copy of the graph's links."""
    measured = shipped()
    small, large = (estimated(measured, "vectors_bytes", 1_000_000, d).value for d in (256, 1024))
    bm25 = estimated(measured, "vectors_bytes", 1_000_000, 0).value
    links = small - bm25 - 256 * 2.25e6
    assert large - small == pytest.approx(768 * 2.25e6 + links)


def test_citations_that_are_kept_lie_between_the_square_of_the_share_and_all() -> None:
    kept = kept_citations(Wanted(40, citations=1_000, left_out=60))
    assert (kept.value, kept.low, kept.high) == (pytest.approx(400), pytest.approx(160), 1_000)
    assert kept_citations(Wanted(40, citations=1_000)).low == 1_000


def test_nodes_share_points_and_repeat_a_shard() -> None:
    measured = shipped()
    wanted = Wanted(100_000_000)
    needs = requirements(wanted, measured)
    whole = [nodes_of(count, "snapshot", 16, wanted, measured, needs) for count in (1, 3)]
    points = [nodes_of(count, "points", 16, wanted, measured, needs) for count in (1, 3, 12)]
    assert [each.disk_bytes for each in whole] == [needs["vectors_bytes"]] * 2
    assert whole[1].searches_per_second.value == pytest.approx(3 * whole[0].searches_per_second.value)
    assert whole[1].replicate_seconds.value == pytest.approx(2 * whole[1].load_seconds.value)
    # 843 MB took a third of 43 seconds for each of three copies.
    assert whole[0].load_seconds.value == pytest.approx(needs["vectors_bytes"].value / 843e6 * 43 / 3)
    shares = [each.disk_bytes.value / needs["vectors_bytes"].value for each in points]
    assert shares == pytest.approx([1, 2 / 3, 2 / 12])
    # 80% of eight cores, 7.5 ms a search.
    assert server_of(8, wanted, measured, needs).searches_per_second.value == pytest.approx(853, abs=1)


def test_the_table_of_sources_has_the_sizes_that_plan_uses() -> None:
    page = (ROOT / "docs" / "download.md").read_text(encoding="utf-8")
    measured = shipped()
    for name, snapshot in SNAPSHOTS.items():
        (row,) = re.findall(rf"^\| {snapshot.title} \| `{name}` \| (.*) \|$", page, re.M)
        papers, abstracts, citations, download, library = row.split(" | ")
        assert [parse_count(text, least=0) for text in (papers, abstracts, citations)] == [
            snapshot.papers,
            snapshot.abstracts,
            snapshot.citations,
        ]
        assert re.search(rf"\b{snapshot.download_bytes / 1e9:g} GB", download)
        needs = requirements(snapshot.wanted(256), measured)["disk_bytes"]
        assert library == f"{needs.value / 1e9:.0f} GB ({needs.low / 1e9:.0f} to {needs.high / 1e9:.0f})"


def test_the_command_prints_tables_and_json() -> None:
    asked = ("plan", "--snapshot", "s2ag", "--nodes", "1,12", "--cores", "8")
    printed = run_cli(*asked, SCHOLARBASE_TIMEOUT="5").stdout
    assert re.search(r"^download +354 GB +published$", printed, re.M)
    assert re.search(r"^points +12 +2 ", printed, re.M)
    assert "encoding" not in printed
    assert "a request fails after 5 s" in printed
    assert "searches/s: of the nodes and the API servers together, the lower rate counts" in printed
    assert "a request fails" not in run_cli("plan", "--papers", "300K", SCHOLARBASE_TIMEOUT="5").stdout
    content = json.loads(run_cli(*asked, "--json").stdout)
    assert content["library"]["citations"] == 2_800_000_000
    assert content["estimates"]["disk_bytes"]["low"] < content["estimates"]["disk_bytes"]["high"]
    assert [each["nodes"] for each in content["nodes"]] == [1, 12, 1, 12]
    # Qdrant's page computes 6,144,000,000 bytes.
    large = json.loads(run_cli("plan", "--papers", "1M", "--dimensions", 1024, "--json").stdout)
    assert large["qdrant_formula"]["bytes"] == 6_144_000_000
    assert set(large["encoding_hours"]) == {"L4", "MI210"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--papers", "many"], "'many' is not a number of papers"),
        (["--snapshot", "dblp"], "'dblp' is not a known snapshot: give arxiv, s2ag, openalex"),
        ([], "Give --papers or --snapshot, and not both."),
        (["--papers", "1M", "--snapshot", "arxiv"], "Give --papers or --snapshot, and not both."),
        (["--snapshot", "arxiv", "--citations", "5"], "--citations is given beside --snapshot"),
        (["--papers", "1M", "--node-cores", "0"], "--node-cores is 0 without --nodes: give --nodes too"),
        (["--papers", "1M", "--dimensions", "10000000"], "--dimensions is 10,000,000: it must be"),
        (["--papers", "1M", "--nodes", "0"], "--nodes is 0: it must be from 1 to 1,000 nodes."),
    ],
)
def test_wrong_numbers_are_refused(options: list[str], message: str) -> None:
    done = run_cli("plan", *options)
    assert done.returncode == InvalidRequest.exit_code
    assert message in done.stderr
