"""The papers of Semantic Scholar's Academic Graph: https://api.semanticscholar.org/api-docs/graph."""

from typing import Any

import httpx
import pytest

from scholarbase.search.library import Library
from tests import tables
from tests.conftest import arxiv_rows, sample_edges, sample_rows

QCD = "arXiv:hep-th/9301068"
"""Of the sample: "Two Dimensional QCD is a String Theory", whose corpus id is 1014785."""
CORPUS_ID = 1014785


def get(server: str, path: str, status: int = 200, **parameters: Any) -> Any:
    response = httpx.get(f"{server}/graph/v1/{path}", params=parameters)
    assert response.status_code == status, response.text
    return response.json()


def pages(server: str, path: str, **parameters: Any) -> list[dict[str, Any]]:
    """All results of all pages, and a check that the pages are the whole."""
    found: list[dict[str, Any]] = []
    offset: int | None = 0
    while offset is not None:
        page = get(server, path, offset=offset, **parameters)
        assert page["offset"] == offset
        found += page["data"]
        offset = page.get("next")
    assert page.get("total", len(found)) == len(found)
    return found


def test_a_search_returns_ids_and_titles(server: str) -> None:
    found = get(server, "paper/search", query="Two Dimensional QCD is a String Theory")
    assert len(found["data"]) == 100
    assert found["data"][0] == {"paperId": QCD, "title": "Two Dimensional QCD is a String Theory"}
    assert found["next"] == 100


def test_exclusions_are_words(server: str, sample: Library) -> None:
    q = "string theory but not supersymmetry"
    found = get(server, "paper/search", query=q, limit=20)["data"]
    off = sample.search(q, syntax="plain", negation="off", limit=1000).results
    assert [paper["paperId"] for paper in found] == [hit.paper.id for hit in off[:20]]
    assert off != sample.search(q, syntax="plain", limit=1000).results


def test_results_end_at_the_thousandth(server: str) -> None:
    last = get(server, "paper/search", query="string theory model of a field", offset=900)
    assert last["total"] >= 1000
    assert "next" not in last
    over = get(server, "paper/search", 400, query="string theory model of a field", offset=901)
    assert over["error"] == "Requested data for this limit and/or offset is not available"


def test_dates_are_obeyed(server: str) -> None:
    for filters, first, last in tables.rows("s2-dates"):
        found = pages(server, "paper/search", query="theory", fields="publicationDate", limit=100, **filters)
        dates = [paper["publicationDate"] for paper in found]
        assert dates
        assert all(first <= date <= last for date in dates)


@pytest.mark.parametrize("limit", [100, 7])
def test_filters_hold_for_the_whole_ranking(server: str, sample: Library, limit: int) -> None:
    query = "theory field model"
    ranked: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = sample.search(query, limit=1000, offset=offset, syntax="plain", fields=["fields_of_study"])
        ranked += [hit.paper.id for hit in page.results if "Mathematics" in hit.paper.fields_of_study]
        offset = page.next_offset
    assert len(set(ranked)) == len(ranked)
    arguments = {"query": query, "fieldsOfStudy": "Mathematics", "limit": limit}
    own = [paper["paperId"] for paper in pages(server, "paper/search", **arguments)]
    with_categories = [one for one in own if one not in set(ranked)]
    found = sample.papers(with_categories)
    assert [one for one in own if one in set(ranked)] == ranked
    assert all(paper and not paper.fields_of_study for paper in found)
    last = get(server, "paper/search", **{**arguments, "offset": len(own)})
    assert (last["total"], last["data"]) == (len(own), [])


def test_papers_in_a_list_of_a_paper_have_their_titles(server: str) -> None:
    [first, *_] = get(server, f"paper/{QCD}", fields="citations")["citations"]
    assert set(first) == {"paperId", "title"}


def test_a_paper_has_the_values_of_its_source(server: str) -> None:
    [row] = [row for row in sample_rows("papers") if row["corpusid"] == CORPUS_ID]
    [arxiv] = [row for row in arxiv_rows() if row["id"] == "hep-th/9301068"]
    fields = (
        "corpusId,externalIds,url,title,abstract,venue,year,citationCount,referenceCount,isOpenAccess,openAccessPdf.url,"
        "publicationDate,journal,tldr,embedding.specter_v2,influentialCitationCount,authors,s2FieldsOfStudy"
    )
    paper = get(server, f"paper/CorpusId:{CORPUS_ID}", fields=fields)
    assert paper.pop("abstract").split() == arxiv["abstract"].replace("$", "").split()
    assert paper == {
        "paperId": QCD,
        "corpusId": CORPUS_ID,
        "externalIds": {
            "ArXiv": "hep-th/9301068",
            "DOI": row["externalids"]["DOI"].lower(),
            "CorpusId": CORPUS_ID,
        },
        "url": row["url"],
        "title": row["title"],
        "venue": row["venue"],
        "year": row["year"],
        "citationCount": row["citationcount"],
        "referenceCount": row["referencecount"],
        "isOpenAccess": True,
        "openAccessPdf": {
            "url": "https://arxiv.org/pdf/hep-th/9301068",
            "status": "GREEN",
            "license": None,
            "disclaimer": None,
        },
        "publicationDate": "1993-01-17",
        "journal": paper["journal"],
        "tldr": None,
        "embedding": None,
        "influentialCitationCount": None,
        "authors": [
            {"authorId": "name:david j. gross", "name": "David J. Gross"},
            {"authorId": "name:washington taylor", "name": "Washington Taylor"},
        ],
        "s2FieldsOfStudy": [{"category": "Physics", "source": None}],
    }


@pytest.mark.parametrize(
    "paper_id", ["arXiv:9901.00001", "nonsense", "CorpusId:0", "DOI:10.1/none", "%00", "search/x"]
)
@pytest.mark.parametrize("route", ["", "/citations", "/references"])
def test_unknown_and_malformed_ids_are_not_found(server: str, paper_id: str, route: str) -> None:
    response = httpx.get(f"{server}/graph/v1/paper/{paper_id}{route}")
    assert response.status_code == 404
    error = response.json()
    assert error["error"] == error["message"] == error["detail"]
    assert error["error"].startswith("Paper with id ")
    assert error["error"].endswith(" not found")


def test_nested_papers(server: str) -> None:
    citing = {a for a, b in sample_edges() if b == CORPUS_ID}
    paper = get(server, f"paper/{QCD}", fields="citations.corpusId,citations.authors.name,references")
    assert {one["corpusId"] for one in paper["citations"]} == citing
    assert set(paper["citations"][0]) == {"paperId", "corpusId", "authors"}
    assert set(paper["citations"][0]["authors"][0]) == {"authorId", "name"}
    assert paper["references"] == []


def test_a_batch_keeps_the_order(server: str) -> None:
    ids = ["CorpusId:99999999999", QCD, "nonsense", "arXiv:hep-th/9303046", QCD]
    response = httpx.post(f"{server}/graph/v1/paper/batch?fields=year", json={"ids": ids})
    found = [paper and paper["paperId"] for paper in response.json()]
    assert found == [None, QCD, None, "arXiv:hep-th/9303046", QCD]


@pytest.mark.parametrize(
    ("path", "parameters", "message"),
    [
        ("paper/search", {}, "Missing required parameter: query"),
        ("paper/search", {"query": "a", "year": "twenty"}, "Unacceptable query params: [year=twenty]"),
        (
            "paper/search",
            {"query": "a", "publicationDateOrYear": "2019-02-30"},
            "Unacceptable query params: [publicationDateOrYear=2019-02-30]",
        ),
        (f"paper/{QCD}", {"fields": "authors.age"}, "Unrecognized or unsupported fields: [authors.age]"),
        (f"paper/{QCD}/citations", {"fields": "citedPaper.title"},
         "Unrecognized or unsupported fields: [citedPaper.title]"),
    ],
)  # fmt: skip
def test_malformed_requests(server: str, path: str, parameters: dict[str, Any], message: str) -> None:
    assert get(server, path, 400, **parameters)["error"] == message
