"""Typical mistakes of agents on the native routes. ``test_mcp.py`` has the same for MCP tools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import httpx
import pytest

from scholarbase.search.library import Library
from tests.conftest import serving_in_thread
from tests.sessions.agents import wait_recorded

KNOWN: Final = {"X-ScholarBase-Session": "known"}
SEARCH: Final = {"q": "string theory"}


@pytest.fixture(scope="module")
def server(sample: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving_in_thread(sample, sessions=str(tmp_path_factory.mktemp("sessions"))) as url:
        httpx.get(f"{url}/v1/search", params=SEARCH, headers=KNOWN)
        httpx.post(f"{url}/v1/sessions", json={"session": "early", "as_of": "1993-06"})
        yield url


WRONG: Final[dict[str, tuple[str, str, dict[str, Any], int, str]]] = {
    "unknown session": ("GET", "/v1/sessions/nobody", {}, 404, "There is no session 'nobody'"),
    "report of an unknown session": (
        "GET",
        "/v1/sessions/nobody/report",
        {},
        404,
        "There is no session 'nobody'",
    ),
    "answer to an unknown session": (
        "POST",
        "/v1/sessions/nobody/answer",
        {"json": {"ids": []}},
        404,
        "There is no session 'nobody'",
    ),
    "unknown session deleted": ("DELETE", "/v1/sessions/nobody", {}, 404, "There is no session 'nobody'"),
    "an invalid session name": (
        "GET",
        "/v1/search",
        {"params": SEARCH, "headers": {"X-ScholarBase-Session": "two words"}},
        400,
        "'two words' is not a valid session name",
    ),
    "an existing session": (
        "POST",
        "/v1/sessions",
        {"json": {"session": "known"}},
        409,
        "continue it with the header",
    ),
    "an invalid round": (
        "GET",
        "/v1/search",
        {"params": SEARCH, "headers": KNOWN | {"X-ScholarBase-Round": "0"}},
        400,
        "round is '0': it must be a whole number from 1 to 9007199254740991",
    ),
    "a parent without a session": (
        "POST",
        "/v1/tools/search_papers",
        {"json": SEARCH, "headers": {"X-ScholarBase-Parent": "1"}},
        400,
        "A parent needs a session: name the session too",
    ),
    "malformed date": (
        "GET",
        "/v1/search",
        {"params": SEARCH | {"as_of": "yesterday"}},
        400,
        "'yesterday' is not a valid date for as_of: use YYYY-MM or YYYY-MM-DD",
    ),
    "malformed date of a session": (
        "POST",
        "/v1/sessions",
        {"json": {"as_of": "1993-13"}},
        400,
        "'1993-13' is not a valid date for as_of",
    ),
    "a date before the first paper": (
        "GET",
        "/v1/search",
        {"params": SEARCH | {"as_of": "1900-01"}},
        400,
        "as_of '1900-01' is before every paper of this library",
    ),
    "a later date than the session's": (
        "GET",
        "/v1/search",
        {"params": SEARCH | {"as_of": "1993-07"}, "headers": {"X-ScholarBase-Session": "early"}},
        400,
        "as_of '1993-07' is later than '1993-06', the as_of of the session 'early'",
    ),
    "a budget of zero": (
        "POST",
        "/v1/sessions",
        {"json": {"limits": {"calls": 0}}},
        400,
        "The limit of calls is 0: it must be a whole number from 1 to 9007199254740991",
    ),
    "a budget of another name": (
        "POST",
        "/v1/sessions",
        {"json": {"limits": {"dollars": 5}}},
        400,
        "Unknown key 'limits.dollars'",
    ),
    "an exclusion by an id": (
        "POST",
        "/v1/search",
        {"json": SEARCH | {"exclude": ["arXiv:hep-th/9301068"]}},
        400,
        "exclude_ids",
    ),
    "exclude_seen without a session": (
        "GET",
        "/v1/search",
        {"params": SEARCH | {"exclude_seen": "true"}},
        400,
        "name one in the header X-ScholarBase-Session",
    ),
    "seen by nobody in a batch": (
        "POST",
        "/v1/search/batch",
        {"json": {"searches": [SEARCH, SEARCH | {"exclude_seen": True}]}},
        400,
        "exclude_seen requires a session",
    ),
    "too few tokens": (
        "GET",
        "/v1/search",
        {"params": SEARCH | {"max_tokens": 1}},
        400,
        "max_tokens is 1",
    ),
    "another format": ("GET", "/v1/search", {"params": SEARCH | {"format": "xml"}}, 400, "format is 'xml'"),
    "schemas of another form": ("GET", "/v1/tools", {"params": {"format": "xml"}}, 400, "format is 'xml'"),
    "another tool": ("POST", "/v1/tools/find", {"json": {}}, 404, "There is no tool 'find'"),
    "an unknown argument": (
        "POST",
        "/v1/tools/get_papers",
        {"json": {"ids": ["arXiv:hep-th/9301068"], "author": "Gross"}},
        400,
        "Unknown argument 'author': get_papers takes ids",
    ),
    "arguments that are a list": ("POST", "/v1/tools/get_papers", {"json": ["x"]}, 400, "The body"),
    "no arguments": ("POST", "/v1/tools/get_papers", {}, 400, "The body is missing"),
    "arguments that are not JSON": (
        "POST",
        "/v1/tools/get_papers",
        {"content": "{", "headers": {"Content-Type": "application/json"}},
        400,
        "The body is not valid JSON",
    ),
    "10 MB": (
        "POST",
        "/v1/tools/search_papers",
        {"content": b'{"q": "' + b"x" * 10_000_000 + b'"}', "headers": {"Content-Type": "application/json"}},
        413,
        "10,000,009 bytes",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_input(server: str, name: str) -> None:
    method, path, options, status, expected = WRONG[name]
    response = httpx.request(method, server + path, **options)
    assert response.status_code == status, response.text
    assert response.headers["Content-Type"] == "application/problem+json"
    problem = response.json()
    assert problem["status"] == status
    assert expected in problem["detail"]


def test_a_page_of_sessions_is_read_from_the_url(server: str) -> None:
    """Numbers in the URL were rejected as strings."""
    assert len(httpx.get(f"{server}/v1/sessions?limit=1&offset=1").json()["results"]) == 1


def test_a_rejected_call_is_recorded_with_its_message(server: str) -> None:
    headers = {"X-ScholarBase-Session": "mistaken"}
    refused = httpx.post(f"{server}/v1/tools/search_papers", json={"q": "x", "limti": 3}, headers=headers)
    wait_recorded(server, "mistaken")
    kept = httpx.get(f"{server}/v1/sessions/mistaken")
    [row] = [httpx.Response(200, content=line).json() for line in kept.text.splitlines()]
    assert row["error"] == refused.json()["detail"]
    assert row["arguments"] == {"q": "x", "limti": 3}
    assert row["ids"] == []
