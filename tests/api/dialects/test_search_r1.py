"""Search-R1's retrieval server, as its trainer calls it (search_r1/llm_agent/generation.py)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from scholarbase.search.library import Library

QUERIES = ["black hole entropy", "string theory", "lattice gauge theory"]


def retrieve(server: str, **body: Any) -> httpx.Response:
    return httpx.post(f"{server}/retrieve", json=body)


def test_documents_with_scores(server: str, sample: Library) -> None:
    result = retrieve(server, queries=QUERIES, topk=5, return_scores=True).json()["result"]
    assert [len(documents) for documents in result] == [5, 5, 5]
    for query, documents in zip(QUERIES, result, strict=True):
        native = sample.search(query, limit=5)
        assert [(one["document"]["id"], one["score"]) for one in documents] == [
            (hit.paper.id, hit.score) for hit in native.results
        ]
        # The trainer takes the first line of the contents as the title.
        titles = [one["document"]["contents"].split("\n")[0] for one in documents]
        assert titles == [hit.paper.title for hit in native.results]


def test_bare_documents_and_the_default_topk(server: str) -> None:
    result = retrieve(server, queries=QUERIES[:1], topk=None).json()["result"]
    assert [set(document) for document in result[0]] == [{"id", "contents"}] * 3
    assert retrieve(server, queries=[]).json() == {"result": []}


def test_any_query_is_answered(server: str) -> None:
    result = retrieve(server, queries=["", '"', "AND OR NOT (", "a" * 30_000], topk=1).json()["result"]
    assert len(result) == 4
    assert result[0] == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"queries": "one"},
        {"queries": [1]},
        {"queries": ["a"], "topk": "many"},
        {"queries": ["a"], "topk": 0},
        {"queries": ["a"] * 101},
        {"queries": ["a"] * 11, "topk": 1000},
    ],
)
def test_malformed_requests(server: str, body: dict[str, Any]) -> None:
    response = retrieve(server, **body)
    assert response.status_code == 400
    assert response.json()["detail"].endswith(".")


@pytest.mark.slow
def test_two_hundred_clients_at_once(server: str) -> None:
    body = {"queries": QUERIES, "topk": 3, "return_scores": True}
    limits = httpx.Limits(max_connections=200)
    with httpx.Client(timeout=600, limits=limits) as http, ThreadPoolExecutor(200) as clients:
        responses = list(clients.map(lambda _: http.post(f"{server}/retrieve", json=body), range(200)))
    assert {response.status_code for response in responses} == {200}
    assert len({response.text for response in responses}) == 1
