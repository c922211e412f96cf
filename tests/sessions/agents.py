"""Agents that call a real server, and keep their own log of the papers that were returned."""

import json
import secrets
import time
from collections.abc import Callable
from itertools import count
from typing import Any

import httpx

QUESTION = "How is two-dimensional QCD related to string theory?"
SEED = "arXiv:hep-th/9301068"
WORDS = (
    "black holes", "instantons", "string theory", "lattice", "anomalies", "gravity", "matrix models", "QCD",
)  # fmt: skip
SECONDS = 120.0
"""How long a test waits for what must happen, however slow the machine is."""
_open: list[httpx.Client] = []
_names = (f"s{number}" for number in count())


class Agent:
    """A client with a session."""

    def __init__(self, url: str, name: str | None = None, **session: Any) -> None:
        self.url = url
        self.name = name or next(_names)
        self.http = httpx.Client(base_url=url, timeout=SECONDS)
        _open.append(self.http)
        if session:
            opened = self.http.post("/v1/sessions", json={"session": self.name, **session})
            assert opened.status_code == 201, opened.text

    def send(
        self, method: str, path: str, *, headers: dict[str, str] | None = None, **rest: Any
    ) -> httpx.Response:
        own = {"X-ScholarBase-Session": self.name, **(headers or {})}
        return self.http.request(method, path, headers=own, **rest)

    def send_numbered(self, method: str, path: str, **rest: Any) -> httpx.Response:
        """As ``send``, repeated with one Idempotency-Key until the response has the call's number, which is missing
        where the disk is slow."""
        headers = {"Idempotency-Key": secrets.token_hex(8)}
        responses: list[httpx.Response] = []

        def is_numbered() -> bool:
            responses.append(self.send(method, path, headers=headers, **rest))
            return "X-ScholarBase-Call" in responses[-1].headers

        wait_until(is_numbered)
        return responses[-1]

    def search(self, q: str = QUESTION, **body: Any) -> httpx.Response:
        headers = body.pop("headers", None)
        return self.send("POST", "/v1/search", headers=headers, json={"q": q, "fields": ["id"], **body})

    def expand(self, *seeds: str, **body: Any) -> httpx.Response:
        return self.send("POST", "/v1/expand", json={"seeds": seeds, "fields": ["id"], **body})

    def wait_recorded(self) -> None:
        wait_recorded(self.url, self.name)

    def lines(self) -> list[dict[str, Any]]:
        """The trajectory, once every call that was made is recorded, by a server of one process."""
        self.wait_recorded()
        response = self.http.get(f"/v1/sessions/{self.name}")
        assert response.status_code == 200, response.text
        return [json.loads(line) for line in response.text.splitlines()]


def send(method: str, url: str, **rest: Any) -> httpx.Response:
    """A request outside any session."""
    return httpx.request(method, url, timeout=SECONDS, **rest)


def wait_recorded(url: str, session: str) -> None:
    """Wait until the calls made so far are recorded by a server of one process, which opens and records in order:
    opening a session that exists fails only after the calls before it were written."""
    opened = send("POST", f"{url}/v1/sessions", json={"session": session})
    assert opened.status_code == 409, opened.text


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.05)


def ids(response: httpx.Response | dict[str, Any]) -> list[str]:
    content = response.json() if isinstance(response, httpx.Response) else response
    return [item["paper"]["id"] for item in content["results"]]


def budget(response: httpx.Response) -> dict[str, int]:
    """The remaining budget of the header, which is the same in the response's JSON."""
    assert response.status_code == 200, response.text
    pairs = (pair.split("=") for pair in response.headers["X-ScholarBase-Budget"].split(", "))
    left = {name: int(value) for name, value in pairs}
    assert response.json()["budget"] == left
    return left


def close_all() -> None:
    while _open:
        _open.pop().close()
