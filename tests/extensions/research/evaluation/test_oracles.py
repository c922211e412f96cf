"""Ceilings, compared with sets and graph walks over the sample's raw edges."""

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from scholarbase.indexes import citations
from scholarbase.search.library import Library
from scholarbase_research.evaluation.oracles import (
    expansion_table,
    reranking_ceiling,
    union_ceiling,
)
from scholarbase_research.evaluation.run_data import JudgedAnswer, JudgedQuery, RankedId, Run, RunManifest
from tests.conftest import sample_edges

ABSENT = "arXiv:2401.99999"
TEXTS = (
    "supersymmetry breaking",
    "heavy quark decays",
    "string duality",
    "lattice gauge theory",
    "neutrino mass",
)


def run_of(
    rankings: dict[str, Sequence[str]],
    answers: dict[str, Sequence[str]],
    *,
    name: str = "run",
    **facts: object,
) -> Run:
    """A run in memory; an answer is held unless it is ABSENT."""
    manifest = {
        "name": name,
        "kind": "search",
        "snapshot": "s",
        "papers": 1,
        "version": "0",
        "queries": {"sha256": "q"},
        "search": None,
        "answers": {},
        "command": "",
    }
    queries = tuple(
        JudgedQuery(
            query_id,
            query_id,
            tuple(JudgedAnswer(a, "absent" if a == ABSENT else "id") for a in answers[query_id]),
        )
        for query_id in rankings
    )
    ranked = {
        query_id: tuple(RankedId(i, float(-rank)) for rank, i in enumerate(ids))
        for query_id, ids in rankings.items()
    }
    return Run(RunManifest(**manifest | facts), queries, ranked)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def neighbours(sample: Library) -> dict[str, dict[str, set[str]]]:
    """Each paper's citations, references, and both, from the sample's raw records."""
    edges = sample_edges()
    numbers = sorted({number for edge in edges for number in edge})
    found = sample.papers([f"CorpusId:{number}" for number in numbers], fields=["id"])
    names = {number: paper.id for number, paper in zip(numbers, found, strict=True) if paper is not None}
    ways: dict[str, dict[str, set[str]]] = {"citations": {}, "references": {}, "both": {}}
    for citing, cited in edges:
        a, b = names[citing], names[cited]
        ways["references"].setdefault(a, set()).add(b)
        ways["citations"].setdefault(b, set()).add(a)
        ways["both"].setdefault(a, set()).add(b)
        ways["both"].setdefault(b, set()).add(a)
    return ways


@pytest.fixture(scope="module")
def searched(sample: Library, neighbours: dict[str, dict[str, set[str]]]) -> Run:
    """Real searches, with answers that were found, answers among the neighbours, and absent answers."""
    chance = random.Random(3)
    everywhere = sorted(neighbours["both"])
    rankings: dict[str, Sequence[str]] = {}
    answers: dict[str, Sequence[str]] = {}
    for text in TEXTS:
        ids = [hit.paper.id for hit in sample.search(text, limit=12).results]
        rankings[text] = ids
        answers[text] = sorted({*chance.sample(ids, 3), *chance.sample(everywhere, 12), ABSENT})
    rankings["nothing"], answers["nothing"] = [], [everywhere[0]]
    rankings["no answers"], answers["no answers"] = rankings[TEXTS[0]], []
    return run_of(rankings, answers, snapshot=sample.snapshot_id)


def walked(
    run: Run, neighbours: dict[str, dict[str, set[str]]], n: int, hops: int, direction: str
) -> tuple[float, float, float]:
    """Recall over all and over held answers, and the number of candidates, by walking the edges."""
    alls, helds, counts = [], [], []
    for query in run.queries:
        relevant = {answer.paper_id for answer in query.answers}
        if not relevant:
            continue
        seen = {result.id for result in run.rankings[query.id][:n]}
        for _ in range(hops):
            seen |= {other for paper in seen for other in neighbours[direction].get(paper, ())}
        alls.append(len(relevant & seen) / len(relevant))
        helds.append(len(relevant & seen) / len(relevant - {ABSENT}))
        counts.append(len(seen))
    return sum(alls) / len(alls), sum(helds) / len(helds), sum(counts) / len(counts)


# -- reranking ------------------------------------------------------------------------------------------


def test_a_perfect_reranking_counted_by_hand() -> None:
    run = run_of(
        {"q1": ["x", "a", "y", "b", "c"], "q2": ["a", "b"], "q3": ["a"]},
        {"q1": ["a", "b", "c", ABSENT], "q2": ["z"], "q3": []},
    )
    table = reranking_ceiling(run, 4, [1, 2, 4])
    rows = {row.name: row for row in table.rows}
    assert [rows[f"R@{k} as ranked"].recall for k in (1, 2, 4)] == [0, 1 / 8, 2 / 8]
    assert [rows[f"R@{k} at best"].recall for k in (1, 2, 4)] == [1 / 8, 2 / 8, 2 / 8]
    assert [rows[f"R@{k} at best"].held for k in (1, 2, 4)] == pytest.approx([1 / 6, 2 / 6, 2 / 6])
    assert rows["R@1 at best"].candidates == (4 + 2) / 2
    assert rows["R@2 as ranked"].candidates == 2
    assert rows["R@1 at best"].queries == rows["R@1 at best"].held_queries == 2


# -- union ----------------------------------------------------------------------------------------------


def test_unions_counted_by_hand() -> None:
    answers = {"q1": ["a", "b", "c", ABSENT], "q2": ["d"]}
    sparse = run_of({"q1": ["a", "x", "c"], "q2": []}, answers, name="sparse")
    dense = run_of({"q1": ["x", "b", "c"], "q2": ["y"]}, answers, name="dense")
    learned = run_of({"q1": ["z", "x", "x2"], "q2": ["d", "y", "z"]}, answers, name="learned")
    rows = union_ceiling([sparse, dense, learned], 2).rows
    assert [(row.name, row.recall, row.candidates) for row in rows] == [
        ("sparse", 1 / 8, 1),
        ("dense", 1 / 8, (2 + 1) / 2),
        ("learned", 1 / 2, 2),
        ("sparse + dense", 1 / 4, (3 + 1) / 2),
        ("sparse + learned", (1 / 4 + 1) / 2, (3 + 2) / 2),
        ("dense + learned", (1 / 4 + 1) / 2, (3 + 2) / 2),
        ("all", (2 / 4 + 1) / 2, (4 + 2) / 2),
    ]
    assert rows[-1].held == pytest.approx((2 / 3 + 1) / 2)
    two = union_ceiling([sparse, dense], 3).rows
    assert [row.name for row in two] == ["sparse", "dense", "sparse + dense"]


# -- expansion ------------------------------------------------------------------------------------------


def test_expansions_match_a_walk_over_the_raw_edges(
    sample: Library, searched: Run, neighbours: dict[str, dict[str, set[str]]]
) -> None:
    table = expansion_table(sample, searched, 5)
    steps = [(0, "both"), (1, "citations"), (1, "references"), (1, "both"), (2, "both")]
    for row, (hops, direction) in zip(table.rows, steps, strict=True):
        expected = walked(searched, neighbours, 5, hops, direction)
        assert (row.recall, row.held, row.candidates) == pytest.approx(expected), row.name
        assert (row.queries, row.held_queries, row.refused) == (6, 6, 0)
    assert [row.name for row in table.rows] == [
        "first 5 alone",
        "+ citations, 1 hop",
        "+ references, 1 hop",
        "+ citations and references, 1 hop",
        "+ citations and references, 2 hops",
    ]
    # Expansion does find answers in the sample.
    for fewer, more in pairwise(table.rows[i].recall for i in (0, 1, 3, 4)):
        assert fewer is not None
        assert more is not None
        assert fewer < more
    assert len(expansion_table(sample, searched, 5, hops=1).rows) == 4


def test_an_expansion_that_is_too_large_is_counted_in_a_note(
    sample: Library, searched: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = expansion_table(sample, searched, 5)
    monkeypatch.setattr(citations, "MAX_STEPS", 700)
    table = expansion_table(sample, searched, 5)
    near, far = table.rows[3], table.rows[4]
    assert near == whole.rows[3]
    assert 0 < far.refused < 5
    assert near.recall is not None
    assert far.recall is not None
    assert whole.rows[4].recall is not None
    assert near.recall <= far.recall <= whole.rows[4].recall
    assert f"for {far.refused} of 6 queries the expansion was refused as too large" in table.notes[0]
    gained = 0.0
    for query in searched.queries:
        alone, _, _, near, far = expansion_table(sample, replace(searched, queries=(query,)), 5).rows
        if far.refused:
            assert (far.recall, far.held, far.candidates) == (near.recall, near.held, near.candidates)
            gained += (near.recall or 0.0) - (alone.recall or 0.0)
    assert gained > 0
    monkeypatch.setattr(citations, "MAX_STEPS", 0)
    row = expansion_table(sample, searched, 5, hops=1).rows[3]
    assert (row.recall, row.candidates, row.refused) == (whole.rows[0].recall, whole.rows[0].candidates, 5)
