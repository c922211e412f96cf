"""What sessions record of Semantic Scholar's interfaces, and dates."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from scholarbase.search.library import Library
from tests.conftest import serving_in_thread

QCD = "arXiv:hep-th/9301068"


@pytest.fixture(scope="module")
def http(sample: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    sessions = str(tmp_path_factory.mktemp("sessions"))
    with (
        serving_in_thread(sample, sessions=sessions) as url,
        httpx.Client(base_url=url, timeout=120) as client,
    ):
        yield client


def recorded(http: httpx.Client, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in http.get(f"/v1/sessions/{name}").text.splitlines()]


def ids_in(papers: list[dict[str, Any]]) -> list[str]:
    return [paper["paperId"] for paper in papers]


def test_each_request_is_a_call_with_its_papers(http: httpx.Client) -> None:
    session = {"X-ScholarBase-Session": "graph"}

    def get(path: str, **parameters: Any) -> Any:
        return http.get(path, params=parameters, headers=session).raise_for_status().json()

    expected = []
    page = get(
        "/graph/v1/paper/search", query="string theory", limit=5, offset=5, fields="title,citations.title"
    )
    expected.append(("search_papers", ids_in(page["data"])))
    page = get("/graph/v1/paper/search", query="string theory", limit=3, openAccessPdf="", year="1993")
    expected.append(("search_papers", ids_in(page["data"])))
    page = get("/graph/v1/paper/search/bulk", query='"string theory" -membrane')
    expected.append(("search_papers", ids_in(page["data"])))
    title = get("/graph/v1/paper/search/match", query="Two Dimensional QCD is a String Theory", year="1993")
    expected.append(("match_titles", ids_in(title["data"])))
    get(f"/graph/v1/paper/{QCD}", fields="title,citations.title,references.title,authors.paperCount")
    expected.append(("get_papers", [QCD]))
    edges = get(f"/graph/v1/paper/{QCD}/citations", limit=4, offset=2)["data"]
    expected.append(("get_citations", ids_in([edge["citingPaper"] for edge in edges])))
    citing = expected[-1][1][0]
    edges = get(f"/graph/v1/paper/{citing}/references", fields="authors")["data"]
    expected.append(("get_references", ids_in([edge["citedPaper"] for edge in edges])))
    found = get(f"/recommendations/v1/papers/forpaper/{QCD}", limit=6)["recommendedPapers"]
    expected.append(("similar_papers", ids_in(found)))
    references = get(f"/s2-legacy/v1/paper/{citing}")["references"]
    expected.append(("get_references", ids_in(references)))
    snippets = get("/graph/v1/snippet/search", query="black hole entropy", limit=4)["data"]
    expected.append(("search_papers", ids_in([one["paper"] for one in snippets])))
    papers = get("/graph/v1/author/name:washington taylor/papers")["data"]
    expected.append(("search_papers", ids_in(papers)))
    calls = recorded(http, "graph")
    assert [(call["tool"], call["ids"]) for call in calls] == expected
    assert all(ids for _, ids in expected)


def test_a_batch_and_lists_are_one_call(http: httpx.Client) -> None:
    session = {"X-ScholarBase-Session": "batch"}
    body = {"ids": [QCD, "nonsense", "arXiv:hep-th/9303046"]}
    http.post("/graph/v1/paper/batch", json=body, headers=session).raise_for_status()
    liked = {"positivePaperIds": body["ids"][::2]}
    found = http.post("/recommendations/v1/papers/?limit=5", json=liked, headers=session).raise_for_status()
    [batch, similar] = recorded(http, "batch")
    assert (batch["tool"], batch["ids"]) == ("get_papers", body["ids"][::2])
    assert (similar["tool"], similar["ids"]) == ("similar_papers", ids_in(found.json()["recommendedPapers"]))


def test_calls_can_be_replayed(http: httpx.Client, sample: Library) -> None:
    session = {"X-ScholarBase-Session": "again"}
    http.get(
        "/graph/v1/paper/search?query=string theory&limit=5&offset=5", headers=session
    ).raise_for_status()
    http.get(f"/graph/v1/paper/{QCD}?fields=citations", headers=session).raise_for_status()
    http.get(f"/graph/v1/paper/{QCD}/citations?limit=3", headers=session).raise_for_status()
    search, paper, edges = recorded(http, "again")
    assert [hit.paper.id for hit in sample.search(**search["arguments"]).results] == search["ids"]
    assert [one.id for one in sample.papers(**paper["arguments"]) if one] == paper["ids"]
    assert [one.paper.id for one in sample.citations(**edges["arguments"]).results] == edges["ids"]
