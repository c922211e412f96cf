"""The bulk search: its syntax, its order and its pages."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from scholarbase.search.library import Library
from tests.conftest import sample_rows

Ids = frozenset[str]


def bulk(server: str, status: int = 200, **parameters: Any) -> Any:
    response = httpx.get(f"{server}/graph/v1/paper/search/bulk", params=parameters)
    assert response.status_code == status, response.text
    return response.json()


def all_pages(server: str, **parameters: Any) -> list[dict[str, Any]]:
    page = bulk(server, **parameters)
    total, found = page["total"], page["data"]
    while "token" in page:
        assert len(page["data"]) == 1000
        page = bulk(server, token=page["token"], **parameters)
        assert page["total"] == total
        found += page["data"]
    assert len(found) == total
    assert len({paper["paperId"] for paper in found}) == total
    return found


@pytest.fixture(scope="module")
def having(sample: Library) -> Callable[[str], Ids]:
    """The papers that native query syntax finds."""

    def search(q: str) -> Ids:
        found: set[str] = set()
        offset: int | None = 0
        while offset is not None:
            page = sample.search(q, syntax="query", limit=1000, offset=offset, fields=["id"])
            found |= {hit.paper.id for hit in page.results}
            offset = page.next_offset
        return frozenset(found)

    return search


@pytest.fixture(scope="module")
def everything(server: str) -> Ids:
    return frozenset(paper["paperId"] for paper in all_pages(server))


def test_operators(server: str, having: Callable[[str], Ids], everything: Ids) -> None:
    for query, expected in (
        ("string theory", lambda s, t, m, every: s & t),
        ("string + theory", lambda s, t, m, every: s & t),
        ("string -theory", lambda s, t, m, every: s - t),
        ("-theory", lambda s, t, m, every: every - t),
        ("--theory", lambda s, t, m, every: t),
        ("string | membrane", lambda s, t, m, every: s | m),
        ("string|membrane", lambda s, t, m, every: s | m),
        ("(string theory) | membrane", lambda s, t, m, every: (s & t) | m),
        ("string (theory | membrane)", lambda s, t, m, every: s & (t | m)),
        ("-(string | theory)", lambda s, t, m, every: every - (s | t)),
        ("-(string theory)", lambda s, t, m, every: every - (s & t)),
        ("string | -theory", lambda s, t, m, every: s | (every - t)),
        ("-string | -theory", lambda s, t, m, every: every - (s & t)),
        ("membrane (string | -theory)", lambda s, t, m, every: m & (s | (every - t))),
        ("-string -theory", lambda s, t, m, every: every - s - t),
        ("the string of a theory", lambda s, t, m, every: s & t),
        ("string~ theory~1", lambda s, t, m, every: s & t),
        ("((((((((string))))))))", lambda s, t, m, every: s),
        ('string "', lambda s, t, m, every: s),
        ("string ) theory", lambda s, t, m, every: s & t),
        ("string | ", lambda s, t, m, every: s),
    ):
        terms = [having(f'"{word}"') for word in ("string", "theory", "membrane")]
        found = {paper["paperId"] for paper in all_pages(server, query=query)}
        assert found == expected(*terms, everything)


def test_phrases_and_prefixes(server: str, having: Callable[[str], Ids]) -> None:
    def found(query: str) -> set[str]:
        return {paper["paperId"] for paper in all_pages(server, query=query)}

    phrase = found('"black holes" -"string theory"')
    assert phrase == having('"black holes"') - having('"string theory"') != set()
    assert found("supersymm*") == having("supersymm*") > having("supersymmetry")
    near = found('"string theory"~3')
    assert having('"string theory"') < near < having("string AND theory")


@pytest.mark.parametrize(
    ("sort", "field", "descending"),
    [
        ("citationCount:desc", "citationCount", True),
        ("citationCount:asc", "citationCount", False),
        ("citationCount", "citationCount", False),
        ("publicationDate:asc", "publicationDate", False),
        ("publicationDate:desc", "publicationDate", True),
    ],
)
def test_orders(server: str, sort: str, field: str, descending: bool) -> None:
    values = [paper[field] for paper in all_pages(server, sort=sort, fields=field)]
    known = [value for value in values if value is not None]
    assert known == sorted(known, reverse=descending)
    assert len(known) > 1000
    assert values == known + [None] * (len(values) - len(known))
    if field == "citationCount":
        assert None in values
        assert max(known) == max(row["citationcount"] for row in sample_rows("papers"))


def test_fields_of_study_of_categories(server: str) -> None:
    every = all_pages(server, fields="fieldsOfStudy")
    found = all_pages(server, fieldsOfStudy="Computer Science", fields="fieldsOfStudy")
    assert found == [paper for paper in every if "Computer Science" in (paper["fieldsOfStudy"] or ())]
    assert found
