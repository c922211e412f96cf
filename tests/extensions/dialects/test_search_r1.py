"""Search-R1's retrieval server, as its trainer calls it (search_r1/llm_agent/generation.py)."""

from typing import Any

import httpx
import pytest

from scholarbase.search.library import Library
from tests.api.test_response_cache import check_bytes

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


def test_topk_and_scores_are_read_as_by_the_original(server: str) -> None:
    for value in ("yes", "true", 1, "on"):
        [documents] = retrieve(server, queries=QUERIES[:1], topk="2", return_scores=value).json()["result"]
        assert [set(one) for one in documents] == [{"document", "score"}] * 2
    [documents] = retrieve(server, queries=QUERIES[:1], topk=0, return_scores="no").json()["result"]
    assert [set(one) for one in documents] == [{"id", "contents"}] * 3


@pytest.mark.parametrize(
    ("body", "kind", "loc"),
    [
        ({}, "missing", ["body", "queries"]),
        ({"queries": [1]}, "string_type", ["body", "queries", 0]),
        ({"queries": ["a"], "topk": -1}, "greater_than_equal", ["body", "topk"]),
        ({"queries": ["a"] * 10_001, "topk": 1}, "value_error", ["body"]),
        (None, "missing", ["body"]),
    ],
)
def test_malformed_requests(server: str, body: Any, kind: str, loc: list[Any]) -> None:
    """The types and places of FastAPI's errors for the original's model."""
    response = httpx.post(f"{server}/retrieve", json=body)
    assert response.status_code == 422
    [error] = response.json()["detail"]
    assert (error["type"], error["loc"]) == (kind, loc)
    assert set(error) == {"type", "loc", "msg", "input"}
    assert len(response.content) < 1000


def test_kept_responses_have_the_bytes_of_others(sample: Library) -> None:
    body = {"queries": ["string theory", "branes", "string theory"], "topk": 2}
    one = {"queries": ["string theory"], "topk": 2, "return_scores": True, "other": 1}
    check_bytes(sample, [("POST", "/retrieve", body), ("POST", "/retrieve", one)])
