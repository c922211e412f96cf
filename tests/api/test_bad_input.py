"""Typical mistakes of agents on the native routes. ``test_mcp.py`` has the same for MCP tools."""

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


NOBODY: Final = "There is no session 'nobody'"
WRONG: Final[tuple[tuple[str, str, dict[str, Any], int, str], ...]] = (
    ("GET", "/v1/sessions/nobody", {}, 404, NOBODY),
    ("GET", "/v1/sessions/nobody/report", {}, 404, NOBODY),
    ("POST", "/v1/sessions/nobody/answer", {"json": {"ids": []}}, 404, NOBODY),
    ("DELETE", "/v1/sessions/nobody", {}, 404, NOBODY),
    ("GET", "/v1/search", {"params": SEARCH, "headers": {"X-ScholarBase-Session": "two words"}}, 400,
     "'two words' is not a valid session name"),
    ("POST", "/v1/sessions", {"json": {"session": "known"}}, 409, "continue it with the header"),
    ("GET", "/v1/search", {"params": SEARCH, "headers": KNOWN | {"X-ScholarBase-Round": "0"}}, 400,
     "round is '0': it must be a whole number from 1 to 9007199254740991"),
    ("POST", "/v1/tools/search_papers", {"json": SEARCH, "headers": {"X-ScholarBase-Parent": "1"}}, 400,
     "A parent needs a session: name the session too"),
    ("GET", "/v1/search", {"params": SEARCH | {"as_of": "yesterday"}}, 400,
     "'yesterday' is not a valid date for as_of: use YYYY-MM or YYYY-MM-DD"),
    ("GET", "/v1/search", {"params": SEARCH | {"as_of": "1900-01"}}, 400,
     "as_of '1900-01' is before every paper of this library"),
    ("GET", "/v1/search", {"params": SEARCH | {"as_of": "1993-07"}, "headers": {"X-ScholarBase-Session": "early"}}, 400,
     "as_of '1993-07' is later than '1993-06', the as_of of the session 'early'"),
    ("POST", "/v1/sessions", {"json": {"limits": {"calls": 0}}}, 400,
     "The limit of calls is 0: it must be a whole number from 1 to 9007199254740991"),
    ("POST", "/v1/sessions", {"json": {"limits": {"dollars": 5}}}, 400, "Unknown key 'limits.dollars'"),
    ("POST", "/v1/search", {"json": SEARCH | {"exclude": ["arXiv:hep-th/9301068"]}}, 400, "exclude_ids"),
    ("GET", "/v1/search", {"params": SEARCH | {"exclude_seen": "true"}}, 400,
     "name one in the header X-ScholarBase-Session"),
    ("POST", "/v1/search/batch", {"json": {"searches": [SEARCH, SEARCH | {"exclude_seen": True}]}}, 400,
     "exclude_seen requires a session"),
    ("GET", "/v1/search", {"params": SEARCH | {"max_tokens": 1}}, 400, "max_tokens is 1"),
    ("GET", "/v1/search", {"params": SEARCH | {"graph_weight": "1_0"}}, 400,
     "graph_weight is '1_0': write the number without underscores."),
    ("GET", "/v1/search", {"params": SEARCH | {"limit": "1_0"}}, 400, "limit is '1_0': write the number"),
    ("GET", "/v1/sessions", {"params": {"limit": "1_0"}}, 400, "limit is '1_0': write the number"),
    ("GET", "/v1/search", {"params": SEARCH | {"format": "xml"}}, 400, "format is 'xml'"),
    ("GET", "/v1/tools", {"params": {"format": "xml"}}, 400, "format is 'xml'"),
    ("POST", "/v1/tools/find", {"json": {}}, 404, "There is no tool 'find'"),
    ("POST", "/v1/tools/get_papers", {"json": {"ids": ["arXiv:hep-th/9301068"], "author": "Gross"}}, 400,
     "Unknown argument 'author': get_papers takes ids"),
    ("POST", "/v1/tools/get_papers", {"json": ["x"]}, 400, "The body"),
    ("POST", "/v1/tools/get_papers", {}, 400, "The body is missing"),
    ("POST", "/v1/tools/get_papers", {"content": "{", "headers": {"Content-Type": "application/json"}}, 400,
     "The body is not valid JSON"),
    ("POST", "/v1/tools/search_papers",
     {"content": b'{"q": "' + b"x" * 10_000_000 + b'"}', "headers": {"Content-Type": "application/json"}}, 413,
     "10,000,009 bytes"),
)  # fmt: skip


def test_bad_input(server: str) -> None:
    for method, path, options, status, expected in WRONG:
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
