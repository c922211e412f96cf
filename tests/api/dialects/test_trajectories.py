"""The trajectory of a session in every dialect is the client's own log."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest

from scholarbase.api.dialects.all import DIALECTS
from scholarbase.search.library import Library
from tests.api.dialects.steps import EARLY, about, by_doi, native, prefix_of
from tests.conftest import serving_in_thread
from tests.sessions.agents import wait_recorded

STEPS = about(EARLY)
TITLE_LOOKUPS = {
    ("semantic-scholar", "GET", "/paper/search/match"),
    ("scholarbase", "GET", "/paper/search/title"),
    ("paperscout", "GET", "/lookup"),
}
"""The routes whose only purpose is to find a paper by its title."""


@pytest.fixture(scope="module")
def http(sample: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    sessions = str(tmp_path_factory.mktemp("sessions"))
    with (
        serving_in_thread(sample, sessions=sessions) as url,
        httpx.Client(base_url=url, timeout=120) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def dois() -> dict[str, str]:
    return by_doi()


def test_every_operation_with_papers_is_asked() -> None:
    for name, dialect in DIALECTS.items():
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


@pytest.mark.parametrize("dialect", DIALECTS)
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
    wait_recorded(str(http.base_url).rstrip("/"), f"log-{dialect}")
    lines = http.get(f"/v1/sessions/log-{dialect}").raise_for_status().text.splitlines()
    calls = [json.loads(line) for line in lines]
    for call, (kind, shown) in zip(calls, log, strict=True):
        assert (call["kind"], call["ids"]) == (kind, shown), call["arguments"]
    assert [call["call"] for call in calls] == [*range(1, len(log) + 1)]
