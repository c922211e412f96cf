"""Listing papers by conditions: what each condition means, and that all papers are counted and sorted."""

from collections.abc import Iterator
from typing import Any

import pytest

from scholarbase.search.library import Library
from scholarbase_dialects.listing import conditions, lists
from scholarbase_dialects.listing.conditions import (
    ArxivIds,
    Authors,
    Categories,
    Condition,
    Days,
    Either,
    Every,
    Value,
    Venue,
    Without,
    words_condition,
)
from tests.libraries import opened_library


def paper(number: int, title: str, authors: list[str], **also: Any) -> dict[str, Any]:
    names = [{"authorId": None, "name": name} for name in authors]
    return {
        "corpusid": number,
        "externalids": {"ArXiv": f"2301.0000{number}"},
        "title": title,
        "authors": names,
        "abstract": "Nothing.",
        **also,
    }


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("listing")
    rows = [
        paper(
            1,
            "Graph networks",
            ["Jörg Müller", "Ann O'Neil"],
            publicationdate="2023-01-05",
            year=2023,
            venue="Nature",
        ),
        paper(
            2, "Graph theory", ["J. Mueller"], publicationdate="2023-01-07", year=2023, venue="Nature Physics"
        ),
        paper(3, "Networks of networks", ["Jan Muller-Smith", "李明"], year=2023),
        paper(4, "Untitled words", []),
        paper(
            5,
            "Graph graph graph",
            ["Max Miller"],
            publicationdate="2023-01-06",
            year=2023,
            abstract="A 100% abstract.",
        ),
    ]
    with opened_library(folder, rows) as opened:
        yield opened


def numbers(library: Library, condition: Condition, **options: Any) -> list[int]:
    total, hits = lists.listed(library, condition, **options)
    if "limit" not in options and "offset" not in options:
        assert total == len(hits)
    return [int(hit.paper.external_ids["CorpusId"]) for hit in hits]


def test_conditions(library: Library) -> None:
    for condition, expected in (
        (Authors((("muller",),)), {1, 3}),
        (Authors((("MÜLLER", "j"),)), {1, 3}),
        (Authors((("j",),)), {1, 2, 3}),
        (Authors((("müller", "a"),)), set()),  # of one author, not of two
        (Authors((("mul*",),)), {1, 3}),
        (Authors((("oneil",),)), set()),
        (Authors((("o", "neil"),)), {1}),
        (Authors((("李明",),)), {3}),
        (Authors((("[a-z]*",),)), set()),
        (Authors((("a" * 200,),)), set()),  # the longest pattern of SQLite
        (Authors((("a" * 10_000,),)), set()),
        (Authors((("muller", "j"), ("miller",))), {1, 3, 5}),
        (Authors((("a" * 10_000,), ("*",), ("mueller",))), {2}),
        (
            conditions.either([Authors((("miller",),)), Days(20230105, 20230105), Authors((("ann",),))]),
            {1, 5},
        ),
        (conditions.every([Without(Authors((("miller",),))), Without(Authors((("ann",),)))]), {2, 3, 4}),
        (Venue(("o" * 10_000,)), set()),
        (Venue(("nature",)), {1, 2}),
        (Venue(("nature", "phys*")), {2}),
        (Days(20230106, 20230107), {2, 5}),
        (Days(20230101, 20231231), {1, 2, 3, 5}),
        (Without(Days(20230101, 20231231)), {4}),  # a paper without a date is not in the range
        (Without(Authors((("muller",),))), {2, 4, 5}),
        (Without(Venue(("nature",))), {3, 4, 5}),
        (Categories(("cs.CL",)), set()),
        (Without(Categories(("cs.CL",))), {1, 2, 3, 4, 5}),
        (ArxivIds(("2301.00002", "2301.00009")), {2}),
        (ArxivIds(()), set()),
        (Every(()), {1, 2, 3, 4, 5}),
        (Either(()), set()),
        (Value("id", "<=", "2301.00002"), {1, 2}),
        (Value("title", "starts", "Graph "), {1, 2, 5}),
        (Value("title", "ends", "networks"), {1, 3}),
        (Value("title", "has", "etwork"), {1, 3}),
        (Value("title", "has", "graph"), {5}),  # case matters
        (Value("abstract", "has", "100%"), {5}),
        (Value("authors", "has", ", Ann"), {1}),
        (Value("update_date", ">=", "2023-01-06"), {2, 5}),
    ):
        assert set(numbers(library, condition)) == expected


def test_orders(library: Library) -> None:
    graph = words_condition("graph")
    assert graph is not None
    assert numbers(library, graph)[0] == 5
    assert numbers(library, graph, order="relevance") == numbers(library, graph)[::-1]
    assert numbers(library, graph, order="-date") == [2, 5, 1]
    assert numbers(library, Every(()), order="date") == [3, 1, 5, 2, 4]
    assert numbers(library, Every(()), order="id") == [1, 2, 3, 4, 5]
    assert numbers(library, Days(), limit=2) == [2, 5]
