"""What sessions record of Semantic Scholar's interfaces, and dates."""

import json
from typing import Any

import httpx

from scholarbase.search.library import Library

QCD = "arXiv:hep-th/9301068"


def recorded(http: httpx.Client, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in http.get(f"/v1/sessions/{name}").text.splitlines()]


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
