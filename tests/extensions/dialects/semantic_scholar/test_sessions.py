"""What sessions record of Semantic Scholar's interfaces, and dates."""

import json
from typing import Any

import httpx

from scholarbase.search.library import Library

QCD = "arXiv:hep-th/9301068"


def recorded(http: httpx.Client, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in http.get(f"/v1/sessions/{name}").text.splitlines()]


def ids_in(papers: list[dict[str, Any]]) -> list[str]:
    return [paper["paperId"] for paper in papers]


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
