"""``explain``: which of the query's words each result holds. What it holds is seen here in the papers' own texts."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from scholarbase.indexes import query_syntax
from scholarbase.models.responses import SearchResponse
from scholarbase.search.library import Library
from tests.libraries import opened_library, papers_of

TEXTS = [
    ("Graph networks", "Molecules and their graphs. We show naïve baselines."),
    ("A survey of Graphs", "Networking, broadly."),
    ("Molecular dynamics", "The state-of-the-art of an Erdős number."),
    ("To be or not to be", "This is that."),
    ("Vision", "Graph transformers for the vision of molecules."),
]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("explain")
    with opened_library(folder, papers_of(TEXTS)) as opened:
        yield opened


def terms(answer: SearchResponse) -> dict[int | None, tuple[str, ...]]:
    """The words of each result, by its corpus id; each has been explained by one leg, and the few that match
    prose strictly also by that."""
    found = {}
    for hit in answer.results:
        assert hit.explain is not None
        *first, leg = hit.explain
        assert [one.leg for one in first] in ([], ["syntax"])
        found[hit.paper.corpus_id] = leg.terms
    return found


@pytest.mark.parametrize("engine", ["bm25", "feedback", "fts5"])
def test_the_words_that_a_paper_holds(small: Library, engine: Any) -> None:
    cases: list[tuple[str, dict[int, tuple[str, ...]]]] = [
        ("Molecules of GRAPHS", {1: ("molecules", "graphs"), 2: ("graphs",), 5: ("molecules", "graphs")}),
        ("graph, graph: Graph", {1: ("graph",), 2: ("graph",), 5: ("graph",)}),
        ("which papers show a network", {1: ("network",), 2: ("network",)}),
        ("NAIVE erdos", {1: ("naive",), 3: ("erdos",)}),
        ("naïve Erdo\u030bs", {1: ("naïve",), 3: ("erdős",)}),
        ("state-of-the-art", {3: ("state", "art")}),
        ("zzyzx vision", {5: ("vision",)}),
        ("to be or not", {4: ("to", "be", "or", "not")}),
    ]
    for q, expected in cases:
        found = terms(small.search(q, engine=engine, explain=True))
        assert {number: found[number] for number in expected} == expected, q


@pytest.mark.parametrize(
    ("q", "expected"),
    [
        ("graph AND molecules", {1: ("graph", "molecules"), 5: ("graph", "molecules")}),
        ("graph OR dynamics", {1: ("graph",), 2: ("graph",), 3: ("dynamics",), 5: ("graph",)}),
        ("graph NOT vision", {1: ("graph",), 2: ("graph",)}),
        ("graph NOT (vision molecules)", {1: ("graph",), 2: ("graph",)}),
        ('"graph networks" OR survey', {1: ("graph", "networks"), 2: ("graph", "networks", "survey")}),
        ("netw*", {1: ("netw",), 2: ("netw",)}),
        ("title:graph OR title:vision", {1: ("graph",), 2: ("graph",), 5: ("vision",)}),
        ("title:vision OR abstract:vision", {5: ("vision",)}),
        ("(title:(graph OR zzyzx)) AND abstract:molecules", {1: ("graph", "molecules")}),
        ('what is "vision"', {5: ("vision",)}),
    ],
)
def test_the_words_of_a_query_in_syntax(small: Library, q: str, expected: dict[int, tuple[str, ...]]) -> None:
    assert terms(small.search(q, explain=True)) == expected


@pytest.mark.parametrize("engine", ["bm25", "feedback", "fts5"])
def test_only_legs_that_compare_words_name_them(dense: Library, engine: Any) -> None:
    answer = dense.search("quantum gauge zzyzx", mode="hybrid", engine=engine, explain=True, limit=100)
    seen = set()
    for hit in answer.results:
        text = f"{hit.paper.title} {hit.paper.abstract}".lower()
        for leg in hit.explain or ():
            seen.add(leg.leg)
            held = tuple(word for word in ("quantum", "gauge") if re.search(rf"\b{word}", text))
            if leg.leg == "dense":
                assert leg.terms == ()
            else:
                assert leg.terms or engine == "feedback"  # which adds words
                # Words that begin so may have other stems: gauged is gauge, and quantums no word.
                assert set(leg.terms) <= set(held)
    assert seen == {engine, "dense"}
    alone = dense.search("quantum gauge", mode="dense", explain=True)
    assert all(leg.terms == () for hit in alone.results for leg in hit.explain or ())


def test_the_terms_of_a_text() -> None:
    assert [t.word for t in query_syntax.terms("Which Graph graph", syntax=False)] == ["graph"]
    assert [t.word for t in query_syntax.terms('a NOT b c AND "d e*"', syntax=True)] == ["a", "d", "e"]
    assert query_syntax.terms("?!", syntax=False) == []
