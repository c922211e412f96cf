"""What holds in every dialect: errors, sessions, dates, keys, ignored parameters, and serving one alone."""

import re

import httpx
import pytest

from scholarbase.search.library import Library
from scholarbase_dialects.all import DIALECTS
from tests.conftest import ROOT, serving_in_thread
from tests.extensions.dialects.conftest import recorded


def retrieve(http: httpx.Client, *queries: str, **headers: str) -> httpx.Response:
    return http.post("/retrieve", json={"queries": queries, "topk": 3}, headers=headers)


def test_dialects_have_their_names() -> None:
    assert all(name == dialect.name for name, dialect in DIALECTS.items())


def test_the_documentation_lists_every_route() -> None:
    text = (ROOT / "docs" / "dialects.md").read_text()
    for dialect in DIALECTS.values():
        row = re.search(rf"^\| `{dialect.name}` \| `{re.escape(dialect.prefix)}` \| (.*) \|$", text, re.M)
        assert row is not None, dialect.name
        for operation in dialect.operations:
            route = f"`{operation.method} {operation.path}`".replace(" `", "`").replace(":path}", "}")
            assert route in row[1], (dialect.name, route)


def test_ignored_parameters_are_named(http: httpx.Client) -> None:
    response = http.post("/serper/search?a=1&b%0d%0aX=2", json={"q": "strings", "start": 3})
    assert response.status_code == 200
    assert response.headers["x-scholarbase-ignored"] == "a, b??X, start"
    plain = http.post("/serper/search", json={"q": "strings"})
    assert "x-scholarbase-ignored" not in plain.headers


def test_the_calls_of_a_session_are_those_of_the_client(http: httpx.Client) -> None:
    session = {"X-ScholarBase-Session": "dialects"}
    log = []
    for query in ("black hole entropy", "string theory", "\x00"):
        response = retrieve(http, query, **session)
        [documents] = response.json()["result"]
        log.append((query, [document["id"] for document in documents]))
        assert response.headers["x-scholarbase-call"] == str(len(log))
    calls = recorded(http, "dialects")
    assert [(call["arguments"]["q"], call["ids"]) for call in calls] == log
    assert {call["kind"] for call in calls} == {"search"}


def test_each_query_of_a_batch_is_a_call(http: httpx.Client) -> None:
    response = retrieve(http, "strings", "membranes", **{"X-ScholarBase-Session": "batch"})
    assert response.headers["x-scholarbase-call"] == "1-2"


def test_budgets_hold(http: httpx.Client) -> None:
    http.post("/v1/sessions", json={"session": "short", "limits": {"calls": 1}}).raise_for_status()
    session = {"X-ScholarBase-Session": "short"}
    first = retrieve(http, "strings", **session)
    assert first.headers["x-scholarbase-budget"] == "calls=0"
    second = retrieve(http, "strings", **session)
    assert second.status_code == 403
    assert "0 are left" in second.json()["detail"]


def test_a_failed_call_is_recorded(http: httpx.Client) -> None:
    session = {"X-ScholarBase-Session": "failed"}
    assert http.post("/retrieve", json={"queries": "none"}, headers=session).status_code == 422
    [call] = recorded(http, "failed")
    assert call["error_type"] == "invalid-request"


def test_the_date_of_a_session_holds_for_what_it_does_not_record(http: httpx.Client) -> None:
    def papers(**headers: str) -> int:
        url = "/graph/v1/author/name:edward witten?fields=paperCount"
        count: int = http.get(url, headers=headers).json()["paperCount"]
        return count

    http.post("/v1/sessions", json={"session": "counts", "as_of": "1993-06"}).raise_for_status()
    early = papers(**{"X-ScholarBase-As-Of": "1993-06"})
    assert 0 < early < papers()
    assert papers(**{"X-ScholarBase-Session": "counts"}) == early


@pytest.mark.parametrize(
    "headers",
    [
        [("X-ScholarBase-As-Of", "tomorrow")],
        [("X-ScholarBase-As-Of", "1994-06"), ("X-ScholarBase-As-Of", "1995-06")],
    ],
)
def test_an_invalid_date_is_rejected(http: httpx.Client, headers: list[tuple[str, str]]) -> None:
    response = http.post("/retrieve", json={"queries": ["strings"]}, headers=headers)
    assert response.status_code == 422
    assert response.json()["detail"]


def test_one_dialect_alone_has_its_routes_at_the_root(sample: Library) -> None:
    with serving_in_thread(sample, dialect="serper") as url:
        assert httpx.post(f"{url}/search", json={"q": "strings"}).json()["organic"]
        assert httpx.get(f"{url}/healthz").json() == {"status": "ok"}
        other = httpx.get(f"{url}/v1/search?q=strings")
        assert (other.status_code, other.json()["statusCode"]) == (404, 404)
        assert httpx.get(f"{url}/explorer/app.js").status_code == 404


def test_the_paper_whose_title_is_searched_for_comes_first(http: httpx.Client, sample: Library) -> None:
    """Agents look papers up by their titles, and take the first result."""
    for path in (
        "/api/query?search_query=ti:%22{}%22",
        "/api/query?search_query=all:{}",
        "/openalex/works?search={}",
        "/openalex/works?filter=title.search:{}",
        "/crossref/works?query.title={}",
        "/crossref/works?query.bibliographic=D.+J.+Gross,+W.+Taylor.+{}.+Nucl.+Phys.+B+(1993)",
        "/scholarbase/paper/search/title?query={}",
        "/graph/v1/paper/search?query={}&fields=title",
        "/searxng/search?format=json&q={}",
        "/paperscout/lookup?title={}",
    ):
        response = http.get(path.format("two+dimensional+qcd+is+a+string+theory"))
        assert response.status_code == 200
        others = sample.search("two dimensional qcd string theory", limit=100).results
        places = {hit.paper.title: response.text.find(hit.paper.title or "") for hit in others}
        shown = {title: place for title, place in places.items() if place >= 0}
        assert min(shown, key=shown.__getitem__) == "Two Dimensional QCD is a String Theory"
