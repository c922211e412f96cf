"""The public ScholarBase: https://github.com/ustc-ai4science/Lewen-API/blob/main/docs/api-en.md"""

from typing import Any

import httpx
import pytest

from scholarbase.search.library import Library

TITLE = "Two Dimensional QCD is a String Theory"
FIELDS = (
    "paperId title abstract year authors venue citationCount referenceCount fieldsOfStudy publicationTypes "
    "publicationDate openAccessPdf externalIds journal"
)
"""The fields in the original's documentation."""


def get(server: str, path: str, **parameters: Any) -> httpx.Response:
    return httpx.get(f"{server}/scholarbase/paper{path}", params=parameters)


def listed(server: str, path: str, **parameters: Any) -> dict[str, Any]:
    response = get(server, path, **parameters)
    assert response.status_code == 200, response.text
    content: dict[str, Any] = response.json()
    assert set(content) == {"total", "offset", "next", "data"}
    return content


def test_papers_have_an_id_and_a_title_by_default(server: str, sample: Library) -> None:
    found = listed(server, "/search", query="string theory")
    assert (found["offset"], found["next"]) == (0, 10)
    assert [set(one) for one in found["data"]] == [{"paperId", "title"}] * 10
    native = sample.search("string theory", syntax="plain")
    assert found["total"] == native.total
    assert [one["paperId"] for one in found["data"]] == [hit.paper.id for hit in native.results]


@pytest.mark.parametrize("fields", ["*", "all"])
def test_all_fields(server: str, fields: str) -> None:
    paper = get(server, "/hep-th/9301068", fields=fields).json()
    assert set(paper) >= set(FIELDS.split())
    assert paper["title"] == TITLE
    assert paper["authors"] == [
        {"authorId": None, "name": "David J. Gross"},
        {"authorId": None, "name": "Washington Taylor"},
    ]
    assert (paper["year"], paper["publicationDate"]) == (1993, "1993-01-17")
    assert paper["externalIds"]["ArXiv"] == "hep-th/9301068"
    assert paper["openAccessPdf"] == {"url": "https://arxiv.org/pdf/hep-th/9301068", "status": "GREEN"}
    assert paper["journal"] is None
    assert paper["citationCount"] > 0


@pytest.mark.parametrize(
    ("year", "first", "last"),
    [("1994", 1994, 1994), ("1993-1994", 1993, 1994), ("1999-", 1999, 9999), ("-1993", 0, 1993)],
)
@pytest.mark.parametrize("path", ["/search", "/search/title"])
def test_years(server: str, path: str, year: str, first: int, last: int) -> None:
    found = listed(server, path, query="theory", year=year, fields="year", limit=1000)["data"]
    every = listed(server, path, query="theory", fields="year", limit=1000)
    assert (
        {one["year"] for one in found}
        == {one["year"] for one in every["data"] if first <= one["year"] <= last}
        != set()
    )


def test_filters(server: str) -> None:
    cited = listed(server, "/search", query="theory", minCitationCount=100, fields="citationCount")["data"]
    assert cited
    assert all(one["citationCount"] >= 100 for one in cited)
    assert listed(server, "/search", query="theory", venue="No venue,neither")["data"] == []


def test_a_title_with_errors_is_found(server: str) -> None:
    found = listed(server, "/search/title", query="Two Dimensionl QCD is a Strng Theory", limit=1)
    assert [one["title"].lower() for one in found["data"]] == [TITLE.lower()]
    assert (
        listed(server, "/search/title", query="Two Dimensionl QCD is a Strng Theory", year="2020")["data"]
        == []
    )


def test_citations_and_references(server: str, sample: Library) -> None:
    native = sample.citations("arXiv:hep-th/9301068", limit=5)
    found = listed(server, "/hep-th/9301068/citations", limit=5)
    assert (found["total"], found["next"]) == (native.total, 5)
    assert [one["citingPaper"]["paperId"] for one in found["data"]] == [
        one.paper.id for one in native.results
    ]
    cited = listed(server, "/hep-ph/0108236/references", fields="year", limit=1000)
    references = sample.references("arXiv:hep-ph/0108236", limit=1000)
    assert [one["citedPaper"]["year"] for one in cited["data"]] == [
        one.paper.year for one in references.results
    ]
    assert (cited["total"], cited["next"]) == (references.total, None)


def test_retrieval(server: str, dense_server: str, dense: Library) -> None:
    sparse = get(server, "/search", query="strings", retrieval="hybrid")
    assert sparse.json() == get(server, "/search", query="strings", retrieval="sparse").json()
    assert sparse.headers["x-scholarbase-ignored"] == "retrieval"
    assert get(server, "/search", query="strings", retrieval="dense").status_code == 422
    for retrieval in ("sparse", "dense", "hybrid"):
        native = dense.search("string theory", mode=retrieval, syntax="plain")
        found = listed(dense_server, "/search", query="string theory", retrieval=retrieval)
        assert [one["paperId"] for one in found["data"]] == [hit.paper.id for hit in native.results]
