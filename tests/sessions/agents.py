"""Agents that call a real server, and keep their own log of what they were given."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import httpx

QUESTION = "How is two-dimensional QCD related to string theory?"
SEED = "arXiv:hep-th/9301068"
_open: list[httpx.Client] = []
_names = (f"s{number}" for number in count())


class Agent:
    """A client with a session, that keeps its own log: papers by the id of each answer, in the order of its calls."""

    def __init__(self, url: str, name: str | None = None, **session: Any) -> None:
        self.name = name or next(_names)
        self.http = httpx.Client(base_url=url, timeout=60)
        _open.append(self.http)
        if session:
            opened = self.http.post("/v1/sessions", json={"session": self.name, **session})
            assert opened.status_code == 201, opened.text

    def send(
        self, method: str, path: str, *, headers: dict[str, str] | None = None, **rest: Any
    ) -> httpx.Response:
        given = {"X-ScholarBase-Session": self.name, **(headers or {})}
        return self.http.request(method, path, headers=given, **rest)

    def search(self, q: str = QUESTION, **body: Any) -> httpx.Response:
        headers = body.pop("headers", None)
        return self.send("POST", "/v1/search", headers=headers, json={"q": q, "fields": ["id"], **body})

    def expand(self, *seeds: str, **body: Any) -> httpx.Response:
        return self.send("POST", "/v1/expand", json={"seeds": seeds, "fields": ["id"], **body})

    def lines(self) -> list[dict[str, Any]]:
        answer = self.http.get(f"/v1/sessions/{self.name}")
        assert answer.status_code == 200, answer.text
        return [json.loads(line) for line in answer.text.splitlines()]


def ids(answer: httpx.Response | dict[str, Any]) -> list[str]:
    content = answer.json() if isinstance(answer, httpx.Response) else answer
    return [item["paper"]["id"] for item in content["results"]]


def budget(answer: httpx.Response) -> dict[str, int]:
    """What the header says is left; the answer's JSON says the same."""
    assert answer.status_code == 200, answer.text
    pairs = (pair.split("=") for pair in answer.headers["X-ScholarBase-Budget"].split(", "))
    left = {name: int(value) for name, value in pairs}
    assert answer.json()["budget"] == left
    return left


def close_all() -> None:
    while _open:
        _open.pop().close()
