"""A session's figures, against figures counted from the test's own log of the responses."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scholarbase.search.library import Library
from tests.conftest import run_cli, serving_in_thread
from tests.sessions.agents import QUESTION, SEED, Agent, ids

ABSENT = "arXiv:2001.00001"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sessions")


@pytest.fixture(scope="module")
def url(sample: Library, folder: Path) -> Iterator[str]:
    with serving_in_thread(sample, sessions=str(folder)) as address:
        yield address


@pytest.fixture
def walked(url: str) -> tuple[Agent, list[list[str]]]:
    """An agent after six calls, the fourth of which failed, and what it saw after each."""
    agent = Agent(url, query=QUESTION, query_id="q1")
    seen: list[list[str]] = []
    in_round = {"headers": {"X-ScholarBase-Round": "1"}}
    seen.append(ids(agent.search(limit=5, **in_round)))
    seen.append(seen[-1] + ids(agent.search("black holes", limit=5, **in_round)))
    seen.append(seen[-1] + ids(agent.expand(SEED, limit=10)))
    agent.search(limit=0)
    seen.append(seen[-1])
    agent.send("POST", "/v1/papers/batch", json={"ids": ["arXiv:hep-th/9303046"]})
    seen.append(seen[-1])
    agent.http.post(f"/v1/sessions/{agent.name}/answer", json={"ids": [seen[0][0], "hep-th/9302103v2"]})
    seen.append([*seen[-1], "arXiv:hep-th/9302103"])
    return agent, seen


def report(agent: Agent, answers: list[str] | None = None) -> dict[str, Any]:
    agent.wait_recorded()
    path = f"/v1/sessions/{agent.name}/report"
    body = {"answers": answers}
    answer = agent.http.get(path) if answers is None else agent.http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    content: dict[str, Any] = answer.json()
    return content


def test_the_cost_of_a_session(walked: tuple[Agent, list[list[str]]]) -> None:
    agent, seen = walked
    lines = agent.lines()
    content = report(agent)
    about = {name: content.pop(name) for name in ("as_of", "limits", "opened", "query")}
    assert (about["as_of"], about["limits"], about["query"]) == (None, {}, QUESTION)
    assert content == {
        "session": agent.name,
        "query_id": "q1",
        "calls": 6,
        "rounds": 5,  # two searches side by side, then one each
        "search_calls": 3,
        "match_calls": 0,
        "expand_calls": 1,
        "inspect_calls": 1,
        "failed_calls": 1,
        "candidates": len(set(seen[2])),
        "recall": None,
        "recall_100": None,
        "recall_100_per_100": None,
        "seconds": pytest.approx(sum(line.get("seconds", 0) for line in lines)),
        "tokens": sum(line.get("tokens", 0) for line in lines),
        "recall_after": None,
        "answers": 0,
        "answers_absent": [],
    }
    assert len(lines) == 6


@pytest.mark.whole
def test_report_list_and_replay_give_one_number_of_calls(walked: tuple[Agent, list[list[str]]]) -> None:
    agent, _ = walked
    content = report(agent)
    [listed] = [s for s in agent.http.get("/v1/sessions").json()["results"] if s["session"] == agent.name]
    replayed = agent.http.post(f"/v1/sessions/{agent.name}/replay").json()
    assert content["calls"] == listed["calls"] == replayed["calls"] == len(agent.lines()) == 6


def test_the_recall_of_a_session(walked: tuple[Agent, list[list[str]]]) -> None:
    agent, seen = walked
    first, last = seen[0][1], seen[2][-1]
    # Four answers: one of the first search, one of the expansion, one that only the agent names, one that is absent.
    answers = [first, last, "https://arxiv.org/abs/hep-th/9302103", ABSENT]
    assert "arXiv:hep-th/9302103" not in seen[2]
    assert last not in seen[1]
    content = report(agent, answers)
    assert content["recall_after"] == [0.25, 0.25, 0.5, 0.5, 0.5, 0.75]
    assert (content["recall"], content["recall_100"]) == (0.75, 0.75)
    assert content["recall_100_per_100"] == pytest.approx(0.75 / (len(set(seen[2])) / 100))
    assert (content["answers"], content["answers_absent"]) == (4, [ABSENT])


def test_a_report_without_calls(url: str) -> None:
    agent = Agent(url, query=QUESTION)
    content = report(agent, [SEED])
    assert (content["calls"], content["candidates"], content["recall"], content["recall_after"]) == (
        0,
        0,
        0.0,
        [],
    )
    assert report(agent, [])["recall"] is None
    assert agent.http.get("/v1/sessions/none/report").status_code == 404
    bad = agent.http.post(f"/v1/sessions/{agent.name}/report", json={"answers": ["no id"]})
    assert bad.status_code == 400


def test_the_command_line_reports_the_same(
    walked: tuple[Agent, list[list[str]]], folder: Path, sample_library: Path
) -> None:
    agent, seen = walked
    where = ["--sessions", folder]
    done = run_cli("session", "report", agent.name, *where)
    assert json.loads(done.stdout) == report(agent)
    judged = ["--answer", seen[0][0], "--answer", ABSENT, "--library", sample_library]
    done = run_cli("session", "report", agent.name, *judged, *where)
    assert json.loads(done.stdout) == report(agent, [seen[0][0], ABSENT])
    missing = run_cli("session", "report", "none", *where)
    assert missing.returncode == 29
    assert "There is no session 'none'" in missing.stderr
