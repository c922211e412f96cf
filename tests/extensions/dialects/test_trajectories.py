"""The trajectory of a session in every dialect is the client's own log."""

from typing import Any

import httpx
import pytest

from scholarbase.search.library import Library
from scholarbase_dialects.all import DIALECTS
from tests.extensions.dialects.conftest import recorded
from tests.extensions.dialects.steps import EARLY, OF_METADATA, about, native, prefix_of

STEPS = about(EARLY)
TITLE_LOOKUPS = {
    ("semantic-scholar", "GET", "/paper/search/match"),
    ("scholarbase", "GET", "/paper/search/title"),
    ("paperscout", "GET", "/lookup"),
    ("arxiv-search", "GET", ""),
}
"""The routes whose only purpose is to find a paper by its title."""


def test_every_operation_with_papers_is_asked() -> None:
    for name, dialect in OF_METADATA.items():
        recorded = {(one.method, one.path) for one in dialect.operations if one.tool is not None}
        index = {("GET", ""), ("POST", "")} if name == "searxng" else set()
        assert {(step.method, step.operation) for step in STEPS[name] if step.kind} == recorded - index


def test_look_ups_of_titles_are_matches() -> None:
    matches = {
        (name, one.method, one.path)
        for name, dialect in DIALECTS.items()
        for one in dialect.operations
        if one.tool == "match_titles"
    }
    assert matches == TITLE_LOOKUPS


@pytest.mark.slow
@pytest.mark.parametrize("dialect", OF_METADATA)
def test_the_trajectory_is_the_client_s_log(http: httpx.Client, dois: dict[str, str], dialect: str) -> None:
    log = []
    for step in STEPS[dialect]:
        response = step.send(http, prefix_of(dialect), **{"X-ScholarBase-Session": f"log-{dialect}"})
        assert response.status_code == 200, response.text
        shown = [native(one, dois) for one in step.shown(response)]
        assert shown, step
        if step.kind is not None:
            log.append((step.kind, shown))
            assert response.headers["X-ScholarBase-Call"] == str(len(log))
    calls = recorded(http, f"log-{dialect}")
    for call, (kind, shown) in zip(calls, log, strict=True):
        assert (call["kind"], call["ids"]) == (kind, shown), call["arguments"]
    assert [call["call"] for call in calls] == [*range(1, len(log) + 1)]


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("/crossref/works", {"query.bibliographic": "string", "query.author": "gross", "order": "asc"}),
        ("/graph/v1/paper/search", {"fieldsOfStudy": ["Physics"], "year": "1993"}),
        ("/graph/v1/paper/search/bulk", {"fieldsOfStudy": ["Physics"], "openAccessPdf": True}),
        ("/graph/v1/paper/search/match", {"publicationTypes": ["Review"], "minCitationCount": "3"}),
        ("/graph/v1/snippet/search", {"fieldsOfStudy": ["Physics"]}),
    ],
)
def test_arguments_have_texts_and_filters(http: httpx.Client, path: str, parameters: dict[str, Any]) -> None:
    name = "arguments" + path.replace("/", "-")
    sent = {key: ",".join(value) if isinstance(value, list) else value for key, value in parameters.items()}
    if "crossref" not in path:
        sent["query"] = "string"
    http.get(path, params=sent, headers={"X-ScholarBase-Session": name})
    [call] = recorded(http, name)
    arguments = call["arguments"]
    renamed = {"year": {"from": "1993", "to": "1993"}, "minCitationCount": {"min_citations": 3}}
    for key, value in parameters.items():
        expected = renamed.get(key, {key: value})
        assert {one: arguments.get(one) for one in expected} == expected, arguments


def test_calls_can_be_replayed(http: httpx.Client, sample: Library) -> None:
    session = {"X-ScholarBase-Session": "again"}
    http.get(
        "/graph/v1/paper/search?query=string theory&limit=5&offset=5", headers=session
    ).raise_for_status()
    http.get("/graph/v1/paper/arXiv:hep-th/9301068?fields=citations", headers=session).raise_for_status()
    http.get("/graph/v1/paper/arXiv:hep-th/9301068/citations?limit=3", headers=session).raise_for_status()
    search, paper, edges = recorded(http, "again")
    assert [hit.paper.id for hit in sample.search(**search["arguments"]).results] == search["ids"]
    assert [one.id for one in sample.papers(**paper["arguments"]) if one] == paper["ids"]
    assert [one.paper.id for one in sample.citations(**edges["arguments"]).results] == edges["ids"]
