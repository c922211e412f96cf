"""Each route returns the same as the library's method."""

from pathlib import Path
from typing import Any

import httpx
import orjson

from scholarbase.client import Client
from scholarbase.search.library import Library
from tests.conftest import serving_in_thread

OTHER = "arXiv:hep-th/9301068"


def same(response: httpx.Response, expected: Any) -> None:
    assert response.status_code == 200, response.text
    assert response.content == orjson.dumps(expected)


def test_search_by_url_and_by_body(server: str, sample: Library) -> None:
    expected = sample.search(
        "string theory", engine="fts5", limit=3, offset=2, fields=["title", "year"], from_="1993-02", to="1994",
        category=["hep-th", "gr-qc"], venue=["arXiv.org"], min_citations=1, exclude=["lattice"], exclude_ids=[OTHER],
        explain=True, exact=True,
    ).to_dict()  # fmt: skip
    assert expected["results"]
    common: dict[str, Any] = {
        "q": "string theory", "engine": "fts5", "limit": 3, "offset": 2, "from": "1993-02", "to": "1994",
        "min_citations": 1, "explain": True, "exact": True,
    }  # fmt: skip
    lists: dict[str, Any] = {
        "fields": ["title", "year"], "category": ["hep-th", "gr-qc"], "venue": ["arXiv.org"],
        "exclude": ["lattice"], "exclude_ids": [OTHER],
    }  # fmt: skip
    same(httpx.post(f"{server}/v1/search", json=common | lists), expected)
    same(httpx.get(f"{server}/v1/search", params=common | lists), expected)
    joined = {
        "fields": "title, year",
        "category": "hep-th,gr-qc",
        "venue": "arXiv.org",
        "exclude": "lattice",
        "exclude_ids": OTHER,
    }
    same(httpx.get(f"{server}/v1/search", params=common | joined), expected)


def test_exclusions_in_questions(server: str, sample: Library) -> None:
    q = "string theory but not gauge theory"
    read = {"wanted": "string theory", "excluded": ["gauge theory"], "avoided": []}
    excluded = sample.search("string theory", exclude=["gauge theory"], fields=["title"]).to_dict()
    response = httpx.get(f"{server}/v1/search", params={"q": q, "fields": "title"})
    same(response, excluded | {"understood": read})
    [one] = httpx.post(
        f"{server}/v1/search/batch", json={"searches": [{"q": q, "fields": ["title"]}]}
    ).json()["results"]
    assert one == response.json()
    tool = httpx.post(f"{server}/v1/tools/search_papers", json={"q": q}).json()
    assert tool["understood"] == read
    off = httpx.get(f"{server}/v1/search", params={"q": q, "fields": "title", "negation": "off"})
    same(off, sample.search(q, negation="off", fields=["title"]).to_dict())
    assert "understood" not in off.json()
    with Client(server) as client:
        assert client.search(q, fields=["title"]).to_dict() == response.json()
        assert client.search(q, fields=["title"], negation="off").to_dict() == off.json()
    assert httpx.get(f"{server}/v1/search", params={"q": q, "negation": "on"}).status_code == 400


def test_the_routes_about_the_server(server: str, sample: Library) -> None:
    same(httpx.get(f"{server}/v1/snapshot"), sample.snapshot())
    assert orjson.loads((sample.path / "manifest.json").read_bytes()) == sample.snapshot()["manifest"]
    assert httpx.get(f"{server}/healthz").json() == {"status": "ok"}
    ready = httpx.get(f"{server}/readyz").json()
    assert ready == {
        "status": "ready", "snapshot": sample.snapshot_id, "catalog": "ok", "vectors": "ok", "encoder": "absent",
    }  # fmt: skip


def test_an_answer_counts_in_no_budget(sample: Library, tmp_path: Path) -> None:
    """The answer is written by the agent, not returned to it."""
    session = {"X-ScholarBase-Session": "s"}
    with serving_in_thread(sample, sessions=str(tmp_path)) as url:
        httpx.post(f"{url}/v1/sessions", json={"session": "s", "limits": {"calls": 2}})
        first = httpx.get(f"{url}/v1/search?q=string", headers=session)
        assert first.headers["x-scholarbase-budget"] == "calls=1"
        answered = httpx.post(f"{url}/v1/sessions/s/answer", json={"ids": [OTHER]})
        assert answered.status_code == 200
        second = httpx.get(f"{url}/v1/search?q=gauge", headers=session)
        assert (second.status_code, second.headers["x-scholarbase-budget"]) == (200, "calls=0")
        assert httpx.get(f"{url}/v1/search?q=gauge", headers=session).status_code == 403
