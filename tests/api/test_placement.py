"""Placement: which requests run on the event loop, and which wait in the queue of quick ones."""

from pathlib import Path
from typing import Any

import pytest

from scholarbase.api.responding import is_quick, is_short
from scholarbase.models.requests import EdgeBody, SearchBody
from scholarbase.search.library import Library
from scholarbase.settings import load_settings


@pytest.mark.slow
def test_a_search_with_another_engine_than_bm25_is_not_short(dense_library: Path) -> None:
    for engine, expected in ((None, True), ("bm25", True), ("fts5", False), ("feedback", False)):
        with Library.open(dense_library, settings=load_settings(engine=engine)) as library:
            assert is_short(library, SearchBody(q="string theory", mode="sparse")) is expected


def test_a_search_with_a_reranker_is_not_short(sample: Library) -> None:
    assert is_short(sample, SearchBody(q="string theory", mode="sparse"))
    assert not is_short(sample, SearchBody(q="string theory", mode="sparse", rerank="tiny"))


def test_a_question_of_stop_words_is_not_short(sample: Library) -> None:
    """It ran FTS5 over every paper on the server's event loop: BM25 splits words at underscores."""
    for q, expected in (
        ("the_of_and", False),
        ("the of", False),
        ("string_theory", True),
        ("théorie\u2019s strings", True),
    ):
        assert is_short(sample, SearchBody(q=q, mode="sparse")) is expected, q


@pytest.mark.slow
def test_a_search_of_vectors_is_quick_and_one_that_may_take_long_is_not(dense_library: Path) -> None:
    """Default searches waited in one queue with long ones, for 18 s."""
    quick: list[dict[str, Any]] = [
        {},
        {"mode": "dense"},
        {"mode": "sparse", "engine": "feedback"},
        {"limit": 1000},
    ]
    long: list[dict[str, Any]] = [
        {"exact": True},
        {"engine": "fts5"},
        {"syntax": "query"},
        {"exclude": ["of"]},
        {"author": ["Taylor"]},
        {"limit": 1000, "offset": 9000},
        {"within": [f"CorpusId:{n}" for n in range(1, 200)]},
    ]
    with Library.open(dense_library) as library:
        for request, expected in (*((one, True) for one in quick), *((one, False) for one in long)):
            assert is_quick(library, SearchBody(q="string theory", **request)) is expected, request
    for settings in (load_settings(exact=True), load_settings(profile="scholarquest")):
        with Library.open(dense_library, settings=settings) as library:
            assert not is_quick(library, SearchBody(q="string theory"))


def test_citations_of_a_paper_with_few_are_short(sample: Library) -> None:
    request = EdgeBody(paper_id="arXiv:hep-th/9301068")
    assert is_short(sample, request, "get_citations")
    assert is_short(sample, request, "get_references")
    assert not is_short(sample, EdgeBody(paper_id=request.paper_id, author=["Taylor"]), "get_citations")
