"""The citation graph in hybrid searches. Expected scores are computed from the sample's own citations."""

import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scholarbase.errors import InvalidRequest
from scholarbase.indexes import citations
from scholarbase.indexes.citations import EdgeRow, insert_edges
from scholarbase.indexes.schema import open_for_building
from scholarbase.search.library import Library
from scholarbase.settings import load_settings
from tests.conftest import sample_edges
from tests.libraries import opened_library

QUESTIONS = ("two dimensional QCD", "entropy of black holes", "supersymmetric gauge theories")
TEXT = 1e-9
"""A weight of the graph that leaves the scores of the text legs."""


def scores(library: Library, q: str, weight: float | None, **options: Any) -> dict[int, float]:
    """The score of each result by its corpus id, best first; papers without one are arXiv's alone, without edges."""
    results = library.search(q, limit=300, graph_weight=weight, fields=["corpus_id"], **options).results
    return {hit.paper.corpus_id or -hash(hit.paper.id): hit.score for hit in results}


def graph_scores(text: dict[int, float]) -> dict[int, float]:
    """The score of each paper linked with the first 50."""
    weights = {paper: score**2 for paper, score in list(text.items())[:50]}
    linked: defaultdict[int, float] = defaultdict(float, weights)
    for citing, cited in sample_edges():
        linked[cited] += weights.get(citing, 0.0)
        linked[citing] += weights.get(cited, 0.0) / 2
    return {paper: math.sqrt(part / sum(weights.values())) for paper, part in linked.items() if part}


@pytest.mark.parametrize("q", QUESTIONS)
def test_the_score_is_the_linked_part_of_the_first_results(library: Library, q: str) -> None:
    text = {paper: score for paper, score in scores(library, q, TEXT).items() if score > 1e-6}
    graph = graph_scores(text)
    found = scores(library, q, None)
    added = {paper: 1.25 * graph.get(paper, 0.0) for paper in found}
    assert {paper: found[paper] for paper in text if paper in found and paper > 0} == pytest.approx(
        {paper: text[paper] + added[paper] for paper in text if paper in found and paper > 0}
    )
    # Papers that only the graph found, or whose text is beyond the first 300.
    others = {paper for paper in found.keys() - text.keys() if paper > 0}
    assert all(found[paper] >= added[paper] - 1e-9 for paper in others)
    assert any(added[paper] for paper in others)
    least = list(found.values())[-1]
    assert {
        paper for paper, score in text.items() if score + 1.25 * graph.get(paper, 0.0) > least
    } <= found.keys()


def test_filters_hold_for_papers_that_only_the_graph_finds(library: Library) -> None:
    found = library.search(QUESTIONS[0], to="1993", limit=1000)
    assert found.results
    assert {hit.paper.year for hit in found.results} <= {1991, 1992, 1993}
    excluded = [hit.paper.id for hit in library.search(QUESTIONS[0], limit=5).results]
    others = library.search(QUESTIONS[0], exclude_ids=excluded, limit=1000, explain=True).results
    named = {
        one
        for hit in others
        for leg in hit.explain or ()
        for one in (*(leg.cited_by or ()), *(leg.cites or ()))
    }
    assert not named & set(excluded)
    assert not {hit.paper.id for hit in others} & set(excluded)


def test_as_of_ignores_papers_that_were_not_there(library: Library) -> None:
    then = library.search(QUESTIONS[0], as_of="1994-06-30", limit=1000, explain=True).results
    ids = {hit.paper.id for hit in then}
    for hit in then:
        for leg in hit.explain or ():
            if leg.leg == "graph":
                assert {*(leg.cited_by or ()), *(leg.cites or ())} <= ids


def test_explanations_name_linked_results_and_add_up(library: Library) -> None:
    edges, number = sample_edges(), {}
    found = library.search(QUESTIONS[1], limit=1000, explain=True).results
    number = {hit.paper.id: hit.paper.corpus_id for hit in found}
    names = 0
    for hit in found[:20]:
        assert hit.score == pytest.approx(math.fsum(leg.share for leg in hit.explain or ()))
        for leg in hit.explain or ():
            if leg.leg == "graph":
                assert all((number[one], hit.paper.corpus_id) in edges for one in leg.cited_by or ())
                assert all((hit.paper.corpus_id, number[one]) in edges for one in leg.cites or ())
                names += len(leg.cited_by or ()) + len(leg.cites or ())
    assert names > 20


def test_a_library_without_enough_edges_is_ranked_by_its_texts(tmp_path: Path) -> None:
    rows = [
        {"corpusid": number, "externalids": {}, "title": title, "abstract": f"{title} of graphs."}
        for number, title in enumerate(("colouring", "matching", "colouring and matching", "planarity"), 1)
    ]
    answers = []
    for name, edges in (("none", []), ("few", [(1, 2), (1, 3), (1, 4)])):
        with opened_library(tmp_path / name, rows, edges, keep="title") as opened:
            responses = [opened.search("colouring of graphs", graph_weight=weight) for weight in (None, 0)]
            assert responses[0] == responses[1]
            answers.append([(hit.paper.corpus_id, hit.score) for hit in responses[0].results])
    assert answers[0] == answers[1]


def test_a_weight_needs_a_fusion_of_scores(library: Library) -> None:
    for way in ({"mode": "sparse"}, {"mode": "dense"}, {"fusion": "rrf"}):
        with pytest.raises(
            InvalidRequest, match=r"graph_weight 2 applies to hybrid searches that fuse scores"
        ):
            library.search("x", graph_weight=2, **way)  # type: ignore[arg-type]
        assert library.search("string", graph_weight=0, **way) == library.search("string", **way)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match=r"graph_weight is 11\.0: it must be at least 0 and at most 10"):
        library.search("x", graph_weight=11)
    for wrong, kind in ((np.float32(1.5), "float32"), (True, "bool"), ([1], "list")):
        with pytest.raises(InvalidRequest, match=rf"it must be a number \(int or float\), not {kind}\."):
            library.search("x", graph_weight=wrong)  # type: ignore[arg-type]


def test_the_setting_is_the_weight_of_requests_without_one(default_library: Path, library: Library) -> None:
    with Library.open(default_library, settings=load_settings(graph_weight=0.5)) as other:
        assert other.search(QUESTIONS[2]) == library.search(QUESTIONS[2], graph_weight=0.5)


def test_a_direction_with_too_many_edges_is_left_out(tmp_path: Path) -> None:
    with open_for_building(tmp_path / "catalog.sqlite") as connection:
        insert_edges(connection, [EdgeRow(number, 1) for number in range(2, 6)])
        insert_edges(connection, [EdgeRow(1, 9), EdgeRow(1, 8), EdgeRow(9, 7)])
        near, far, is_reference = citations.linked(connection, [9, 1], most=3)
        assert (near.tolist(), far.tolist()) == ([9, 9, 1, 1], [7, 1, 8, 9])
        assert is_reference.tolist() == [True, False, True, True]
        assert [len(column) for column in citations.linked(connection, [9, 1], most=4)] == [8] * 3
        assert [len(column) for column in citations.linked(connection, [], most=4)] == [0] * 3
