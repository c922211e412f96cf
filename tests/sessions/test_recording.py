"""The calls of a session that a real server records, and those it refuses: against the client's own log."""

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from scholarbase.databases import BUSY_SECONDS
from scholarbase.responses.sizing import estimate_tokens
from scholarbase.search.library import Library
from scholarbase.sessions.recording import Recording
from scholarbase.sessions.session import Limits, Session
from scholarbase.sessions.store import SessionStore
from scholarbase.tools import Tools
from scholarbase_research.trajectory_lines import read_trajectory
from tests.conftest import json_lines, serving_in_thread
from tests.sessions.agents import QUESTION, SECONDS, SEED, Agent, budget, ids, send, wait_until

TITLE = "Two Dimensional QCD is a String Theory"


def refused(answer: httpx.Response, what: str) -> str:
    assert answer.status_code == 403, answer.text
    problem = answer.json()
    assert problem["type"].endswith("budget-exhausted")
    assert what in problem["detail"]
    return str(problem["detail"])


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where sessions are recorded: a folder."""
    return str(tmp_path_factory.mktemp("sessions"))


@pytest.fixture(scope="module")
def url(sample: Library, location: str) -> Iterator[str]:
    with serving_in_thread(sample, sessions=location) as address:
        yield address


@contextmanager
def held(location: str) -> Iterator[None]:
    """Another process is writing."""
    with closing(sqlite3.connect(Path(location) / "sessions.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("COMMIT")


# -- recorded calls -----------------------------------------------------------------------------------------


def test_each_route_is_recorded_as_its_tool(url: str, tmp_path: Path) -> None:
    agent = Agent(url, query=QUESTION, query_id="q1")
    params = {"q": QUESTION, "limit": 3, "category": "hep-th,hep-lat"}
    found = agent.send_numbered("GET", "/v1/search", params=params)
    agent.search(limit=2)
    agent.send("GET", "/v1/title-match", params={"title": TITLE})
    agent.send("POST", "/v1/title-match/batch", json={"titles": [TITLE, "zzzz"]})
    agent.send("GET", f"/v1/papers/{SEED}", params={"fields": "title"})
    agent.send("POST", "/v1/papers/batch", json={"ids": [SEED, "arXiv:2001.00001"]})
    agent.send("GET", f"/v1/papers/{SEED}/citations", params={"limit": 4})
    agent.send("GET", f"/v1/papers/{SEED}/references")
    agent.expand(SEED, limit=5)
    agent.send("GET", f"/v1/papers/{SEED}/similar", params={"limit": 3, "explain": "true"})
    agent.send("POST", "/v1/tools/search_papers", json={"q": "black holes", "limit": 1, "to": None})
    agent.send("GET", "/v1/papers/arXiv:2001.00001")
    answered = agent.http.post(f"/v1/sessions/{agent.name}/answer", json={"ids": [SEED]})
    assert answered.json() == {"session": agent.name, "call": 13}
    lines = agent.lines()
    assert [(line["tool"], line["arguments"]) for line in lines] == [
        ("search_papers", {"q": QUESTION, "limit": 3, "category": ["hep-th", "hep-lat"]}),
        ("search_papers", {"q": QUESTION, "limit": 2}),
        ("match_titles", {"titles": [TITLE], "limit": 5}),
        ("match_titles", {"titles": [TITLE, "zzzz"]}),
        ("get_papers", {"ids": [SEED], "missing": "error"}),
        ("get_papers", {"ids": [SEED, "arXiv:2001.00001"]}),
        ("get_citations", {"paper_id": SEED, "limit": 4}),
        ("get_references", {"paper_id": SEED}),
        ("expand_papers", {"seeds": [SEED], "limit": 5}),
        ("similar_papers", {"paper_id": SEED, "limit": 3, "explain": True}),
        ("search_papers", {"q": "black holes", "limit": 1}),
        ("get_papers", {"paper_id": "arXiv:2001.00001"}),
        ("answer", {}),
    ]
    assert found.headers["X-ScholarBase-Call"] == "1"
    assert lines[0]["ids"] == ids(found)
    assert lines[0]["scores"] == [hit["score"] for hit in found.json()["results"]]
    assert lines[0]["tokens"] == estimate_tokens(found.content)
    assert [line["ids"] for line in lines[4:6]] == [[SEED], [SEED]]
    assert "2001.00001" in lines[11]["error"]
    assert {(line["session"], line["query_id"], line["query"]) for line in lines} == {
        (agent.name, "q1", QUESTION)
    }
    file = json_lines(tmp_path / "calls.jsonl", lines)
    assert len(read_trajectory(file)) == 13


def test_a_recorded_response_has_the_bytes_of_one_without_a_session(url: str) -> None:
    agent = Agent(url)
    for path in (
        f"/v1/search?q={QUESTION}&limit=20&explain=true",
        f"/v1/search?q={QUESTION}&fields=title&mode=sparse",
        "/v1/search?q=zzzzqqqq&mode=sparse",
        f"/v1/title-match?title={TITLE}",
        f"/v1/papers/{SEED}",
        f"/v1/papers/{SEED}/citations?limit=50",
        f"/v1/papers/{SEED}/similar",
    ):
        assert agent.send("GET", path).content == send("GET", url + path).content


def test_parent_and_round_come_from_the_headers(url: str) -> None:
    agent = Agent(url)
    first = ids(agent.search(limit=3, headers={"X-ScholarBase-Round": "2"}))
    agent.search("black holes", limit=3, headers={"X-ScholarBase-Round": "2"})
    agent.expand(first[0])
    agent.search("instantons", headers={"X-ScholarBase-Parent": "3"})
    lines = agent.lines()
    assert [line["round"] for line in lines] == [2, 2, 3, 4]
    assert [line.get("parent") for line in lines][::3] == [None, 3]
    bad = agent.search(headers={"X-ScholarBase-Parent": "none"})
    assert (bad.status_code, "parent is 'none'" in bad.json()["detail"]) == (400, True)


def test_failures_are_recorded_with_their_arguments_and_messages(url: str) -> None:
    agent = Agent(url)
    responses: list[httpx.Response] = [
        agent.search(limit=0),
        agent.search(nothing=1),
        agent.send("GET", "/v1/search?q=a&category=cs.CL&category=hep-th&limit=none"),
        agent.send("POST", "/v1/search", content=b"{", headers={"Content-Type": "application/json"}),
        agent.send("POST", "/v1/tools/get_citations", json={"paper_id": "nonsense id"}),
        agent.send("POST", "/v1/tools/search_papers", content=b'{"q": "half \\ud800"}'),
        agent.send("POST", "/v1/tools/search_papers", content=b'{"q": "a", "offset": ' + b"9" * 40 + b"}"),
        agent.send("POST", "/v1/tools/search_papers", content=b'{"q": ' + b"[" * 300 + b"]" * 300 + b"}"),
    ]
    assert [answer.status_code for answer in responses] == [400] * len(responses)
    lines = agent.lines()
    assert [line["error"] for line in lines] == [answer.json()["detail"] for answer in responses]
    types = [answer.json()["type"].partition("#")[2] for answer in responses]
    assert [line["error_type"] for line in lines] == types
    assert lines[0]["arguments"] == {"q": QUESTION, "fields": ["id"], "limit": 0}
    assert lines[2]["arguments"] == {"q": "a", "category": ["cs.CL", "hep-th"], "limit": "none"}
    assert all(line["ids"] == [] for line in lines)


def test_a_batch_of_searches_is_a_call_each(url: str) -> None:
    agent = Agent(url, limits={"calls": 5})
    searches = [{"q": q, "limit": 2, "fields": ["id"]} for q in ("black holes", "instantons", "strings")]
    answer = agent.send_numbered("POST", "/v1/search/batch", json={"searches": searches})
    assert answer.headers["X-ScholarBase-Call"] == "1-3"
    assert budget(answer) == {"calls": 2}
    assert [line["ids"] for line in agent.lines()] == [ids(one) for one in answer.json()["results"]]
    sentence = refused(
        agent.send("POST", "/v1/search/batch", json={"searches": searches}), "this call takes 3"
    )
    assert "2 are left" in sentence
    two = agent.send("POST", "/v1/search/batch", json={"searches": searches[:2]})
    assert budget(two) == {"calls": 0}, "all or none: what was refused took nothing"
    assert [line.get("error") for line in agent.lines()] == [None] * 3 + [sentence] + [None] * 2


def test_a_list_of_references_is_one_call_that_inspects(url: str) -> None:
    agent = Agent(url, limits={"calls": 5, "candidates": 10})
    text = f"D. Gross, W. Taylor. Two dimensional QCD is a string theory. 1993.\narXiv:2001.00001\n{SEED}"
    answer = agent.send_numbered("POST", "/v1/references/check", json={"references": text, "fields": ["id"]})
    assert answer.headers["X-ScholarBase-Call"] == "1"
    assert budget(answer) == {"calls": 4, "candidates": 10}
    [line] = agent.lines()
    assert (line["tool"], line["kind"]) == ("check_references", "inspect")
    assert line["arguments"]["references"] == text
    assert line["ids"] == [SEED, SEED]
    near = {
        "references": "A. Nobody, B. Noone. Two dimensional QCD is a string theory. 1993.",
        "fields": ["id"],
    }
    [checked] = agent.send("POST", "/v1/references/check", json=near).json()["results"]
    assert checked["status"] == "near"
    assert agent.lines()[-1]["ids"] == [match["paper"]["id"] for match in checked["matches"]]
    assert SEED in agent.lines()[-1]["ids"]


def test_a_batch_that_fails_takes_one_call(url: str) -> None:
    agent = Agent(url, limits={"calls": 9})
    searches = [{"q": "black holes"}, {"q": "instantons", "limit": 0}]
    assert agent.send("POST", "/v1/search/batch", json={"searches": searches}).status_code == 400
    assert len(agent.lines()) == 1
    assert budget(agent.search()) == {"calls": 7}


def test_a_response_keeps_to_its_size(url: str) -> None:
    """With a budget, of which a response needs 75 tokens for the rest, and without; single and in a batch."""
    queries = ("black holes", "instantons", "strings", "QCD", "gauge")
    for agent, free in ((Agent(url), 0), (Agent(url, limits={"calls": 300, "tokens": 10**9}), 75)):
        for count in (1, 2, 5):
            searches = [{"q": q, "limit": 3} for q in queries[:count]]
            least = (100 + free + 8) * count + 30
            refused = agent.send(
                "POST", "/v1/search/batch", json={"searches": searches, "max_tokens": least - 1}
            )
            assert f"max_tokens is {least - 1}: this call needs {least} or more" in refused.json()["detail"]
            for size in range(250 * count, 400 * count, 70):
                for form in ("json", "text"):
                    body = {"searches": searches, "max_tokens": size, "format": form}
                    answer = agent.send("POST", "/v1/search/batch", json=body)
                    assert answer.status_code == 200, answer.text
                    assert estimate_tokens(answer.content) <= size, (count, size, form)
        for size in (200, 500, 2000):
            answer = agent.send("POST", "/v1/search", json={"q": QUESTION, "limit": 50, "max_tokens": size})
            assert answer.status_code == 200, answer.text
            assert estimate_tokens(answer.content) <= size
    too_small = agent.send("POST", "/v1/search", json={"q": QUESTION, "max_tokens": 174})
    assert "max_tokens is 174: this call needs 175 or more" in too_small.json()["detail"]
    hardly = agent.send("POST", "/v1/search", json={"q": QUESTION, "max_tokens": 175})
    assert hardly.json()["detail"].startswith("Of max_tokens 175 the response has 100: ")


# -- the same call sent twice -----------------------------------------------------------------------------


def test_a_repeated_call_is_recorded_once_and_a_failed_one_does_not_hide_its_result(url: str) -> None:
    agent = Agent(url, limits={"calls": 10})
    key = {"Idempotency-Key": "k1"}
    first = agent.search(limit=3, exclude_seen=True, headers=key)
    again = agent.search(limit=3, exclude_seen=True, headers=key)
    assert ids(first) == ids(again), "what was seen before it is left out, and no more"
    assert (budget(first), budget(again)) == ({"calls": 9}, {"calls": 9})
    assert len(agent.lines()) == 1
    # The same key for another call hides nothing and costs what it costs.
    other = agent.search("instantons", limit=3, headers=key)
    assert budget(other) == {"calls": 8}
    assert [line["ids"] for line in agent.lines()] == [ids(first), ids(other)]
    assert agent.search(limit=0, headers={"Idempotency-Key": "k2"}).status_code == 400
    assert len(agent.lines()) == 3
    # So are other fields: the first and the third of these are the same.
    for fields in (["id"], ["title"], ["id"]):
        assert agent.search("gauge", fields=fields, headers=key).status_code == 200
    assert len(agent.lines()) == 5


# -- budgets ----------------------------------------------------------------------------------------------


def test_remaining_budgets_are_those_counted_by_hand(url: str) -> None:
    limits = {"calls": 7, "expansions": 2, "candidates": 400, "tokens": 20_000}
    agent = Agent(url, limits=limits)
    expansions = tokens = 0
    candidates: set[str] = set()
    steps: list[tuple[str, Any]] = [
        ("search", lambda: agent.search(limit=10)),
        ("search", lambda: agent.search("black holes", limit=10)),
        ("search", lambda: agent.search(limit=0)),
        ("expand", lambda: agent.expand(SEED, limit=20)),
        ("inspect", lambda: agent.send("POST", "/v1/papers/batch", json={"ids": [SEED]})),
        ("expand", lambda: agent.expand(SEED, limit=30)),
    ]
    for calls, (kind, step) in enumerate(steps, 1):
        answer = step()
        expansions += kind == "expand"
        if answer.status_code == 200:
            content = answer.json()
            content.pop("budget")
            tokens += estimate_tokens(json.dumps(content, separators=(",", ":"), ensure_ascii=False))
            candidates |= set(ids(content)) if kind != "inspect" else set()
            assert budget(answer) == {
                "calls": 7 - calls,
                "expansions": 2 - expansions,
                "candidates": 400 - len(candidates),
                "tokens": 20_000 - tokens,
            }
        else:
            tokens += estimate_tokens(answer.json()["detail"])
    sentence = refused(agent.expand(SEED), "2 expansions, and 0 are left: answer with what has been found")
    tokens += estimate_tokens(sentence)
    last = budget(agent.search(limit=1, mode="sparse"))
    assert last["calls"] == 0, "what was refused was not counted"
    refused(agent.search(), "7 calls, and 0 are left")
    lines = agent.lines()
    assert [line.get("error") for line in lines].count(sentence) == 1
    assert [line.get("error_type") for line in lines].count("budget-exhausted") == 2
    answered = agent.http.post(f"/v1/sessions/{agent.name}/answer", json={"ids": [SEED]})
    assert answered.status_code == 200, "an answer is no call"


@pytest.mark.parametrize(("name", "limit"), [("candidates", 5), ("tokens", 50)])
def test_candidates_and_tokens_end_too(url: str, name: str, limit: int) -> None:
    agent = Agent(url, limits={name: limit})
    assert budget(agent.search(limit=20)) == {name: 0}
    refused(agent.search("black holes"), f"{limit} {name}, and 0 are left")
    looked_up = agent.send("GET", f"/v1/papers/{SEED}")
    assert looked_up.status_code == (200 if name == "candidates" else 403)


def test_text_has_the_remaining_budget(url: str) -> None:
    agent = Agent(url, limits={"calls": 3})
    answer = agent.search(limit=2, format="text")
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert "Left of the budget: calls 2." in answer.text
    assert answer.headers["X-ScholarBase-Budget"] == "calls=2"


def test_invalid_requests_are_refused_by_the_budget_too(url: str) -> None:
    agent = Agent(url, limits={"calls": 2})
    said = [agent.send("GET", "/v1/search", params={"q": "x", "limit": "abc"}).status_code for _ in range(4)]
    assert said == [400, 400, 403, 403]
    assert [bool(line["error"]) for line in agent.lines()] == [True] * 4


def test_invalid_headers_are_refused(url: str) -> None:
    """More of them are in ``tests/api/test_bad_input.py``."""
    for headers, said in (
        ([("X-ScholarBase-Session", "a"), ("X-ScholarBase-Session", "b")], "occurs 2 times"),
        ([("X-ScholarBase-Session", "a"), ("X-ScholarBase-Parent", "9" * 5000)], "parent is '999"),
        ([("X-ScholarBase-Session", "..")], "is not a valid session name"),
    ):
        answer = send("GET", f"{url}/v1/search", params={"q": QUESTION}, headers=headers)
        assert answer.status_code == 400, answer.text
        assert said in answer.json()["detail"]
    head = send("HEAD", f"{url}/v1/search", params={"q": "x"}, headers={"X-ScholarBase-Session": "a"})
    assert head.status_code == 400


def test_a_parent_that_is_not_an_earlier_call_is_refused(url: str) -> None:
    agent = Agent(url)
    # While the disk is slow a call does not wait for its parent to be checked.
    wait_until(lambda: agent.search(headers={"X-ScholarBase-Parent": "9999"}).status_code == 400)
    assert "name an earlier call" in agent.lines()[-1]["error"]


# -- a session's date, and the papers it has seen ---------------------------------------------------------------


def test_a_sessions_date_holds_for_each_of_its_calls(url: str) -> None:
    agent = Agent(url, as_of="1995-06")
    free = Agent(url)
    assert ids(agent.search(limit=50)) == ids(free.search(limit=50, as_of="1995-06"))
    assert ids(agent.search(limit=50, as_of="1993-06")) == ids(free.search(limit=50, as_of="1993-06"))
    assert agent.search(as_of="1995-06-30").status_code == 200
    assert agent.search(as_of="1995-07").status_code == 400
    assert ids(agent.expand(SEED)) == ids(free.expand(SEED, as_of="1995-06"))
    assert agent.send("GET", f"/v1/papers/{SEED}").json()["citation_count"] is None
    checked = agent.send("POST", "/v1/tools/check_references", json={"references": "arXiv:hep-th/9803001"})
    assert [one["status"] for one in checked.json()["results"]] == ["not_in_snapshot"]
    assert [line["arguments"]["as_of"] for line in agent.lines()][:6] == [
        *("1995-06", "1993-06", "1995-06-30", "1995-07", "1995-06", "1995-06")
    ]


def test_exclude_seen_returns_no_paper_twice(url: str) -> None:
    agent = Agent(url)
    seen: set[str] = set()
    steps = [
        lambda: agent.search(limit=20),
        lambda: agent.send("POST", "/v1/papers/batch", json={"ids": [SEED]}),
        lambda: agent.search(limit=20, exclude_seen=True),
        lambda: agent.expand(SEED, limit=40),
        lambda: agent.expand(SEED, limit=40, hops=2, exclude_seen=True),
        lambda: agent.search(limit=40, exclude_seen=True, exclude_ids=["arXiv:hep-th/9303046"]),
        lambda: agent.send("POST", "/v1/tools/search_papers", json={"q": QUESTION, "exclude_seen": True}),
        lambda: agent.send("GET", "/v1/search", params={"q": QUESTION, "limit": 30, "exclude_seen": True}),
    ]
    new = []
    for step, line in ((step, number) for number, step in enumerate(steps)):
        answer = step()
        assert answer.status_code == 200, answer.text
        recorded = agent.lines()[line]
        if recorded["arguments"].get("exclude_seen"):
            assert seen.isdisjoint(recorded["ids"])
            new.append(len(recorded["ids"]))
        seen |= set(recorded["ids"])
    assert all(new)
    assert len(new) == 5


def test_searches_of_a_batch_exclude_the_papers_of_earlier_ones(url: str) -> None:
    """They ran side by side, and returned the same papers."""
    agent = Agent(url)
    searches = [{"q": QUESTION, "limit": 5, "fields": ["id"], "exclude_seen": True}] * 3
    answer = agent.send("POST", "/v1/search/batch", json={"searches": searches})
    returned = [paper_id for one in answer.json()["results"] for paper_id in ids(one)]
    assert returned == ids(Agent(url).search(limit=15))


# -- owners, reading, deleting ----------------------------------------------------------------------------


def test_sessions_are_listed_and_deleted(url: str) -> None:
    agent = Agent(url, query=QUESTION)
    agent.search()
    agent.wait_recorded()
    listed = {one["session"]: one for one in agent.http.get("/v1/sessions").json()["results"]}
    assert (listed[agent.name]["calls"], listed[agent.name]["lost"]) == (1, 0)
    assert agent.http.post("/v1/sessions", json={"session": agent.name}).status_code == 409
    assert agent.http.delete(f"/v1/sessions/{agent.name}").status_code == 204
    assert agent.http.get(f"/v1/sessions/{agent.name}").status_code == 404
    again = agent.send_numbered("GET", "/v1/search", params={"q": QUESTION})
    assert again.headers["X-ScholarBase-Call"] == "1"


# -- a file that cannot be written ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_searches_answer_while_another_process_writes(
    url: str, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scholarbase.api.recording.WRITE_SECONDS", 0.25)
    monkeypatch.setattr("scholarbase.api.responding.WRITE_SECONDS", 0.25)
    known, unknown = Agent(url), Agent(url)
    known.search()
    known.wait_recorded()
    returned: list[list[str]] = []
    with held(location):
        for agent in (known, unknown, known, unknown):
            began = time.monotonic()
            response = agent.search(limit=3)
            assert "X-ScholarBase-Call" not in response.headers
            assert time.monotonic() - began < BUSY_SECONDS, "it did not wait for the lock"
            returned.append(ids(response))
    assert [line["ids"] for line in known.lines()[1:]] == returned[::2]
    assert [line["ids"] for line in unknown.lines()] == returned[1::2]
    again = known.send_numbered("GET", "/v1/search", params={"q": QUESTION})
    assert again.headers["X-ScholarBase-Call"] == "4"


@pytest.mark.slow
def test_an_answer_of_megabytes_is_refused(url: str) -> None:
    agent = Agent(url)
    agent.search()
    agent.wait_recorded()
    long = [f"DOI:10.1145/{number}{'x' * 1000}" for number in range(600)]
    refused = agent.http.post(f"/v1/sessions/{agent.name}/answer", json={"ids": long})
    assert refused.status_code == 400
    assert "at most 524,288 are recorded" in refused.json()["detail"]
    assert len(agent.lines()) == 1


def test_a_cancelled_call_is_counted_and_recorded_once(tmp_path: Path) -> None:
    with SessionStore(tmp_path) as store:
        session = store.open(Session("s", limits=Limits(calls=9))).result(SECONDS)
        for _ in range(2):
            recording = Recording(session=session, tool="search_papers", store=store, snapshot="snapshot")
            recording.budget = recording.reserve(False).result(SECONDS)
            recording.record_cancellation()
            recording.record_cancellation()
        before = Recording(session=session, tool="search_papers", store=store, snapshot="snapshot")
        before.record_cancellation()  # while its budgets were awaited
        state = replace(before, is_recorded=False).reserve(False).result(SECONDS)
        assert state.remaining == {"calls": 9 - 3 - 1}
        assert ["no response" in json.loads(line)["error"] for line in store.lines("s")] == [True] * 4


def test_calls_beyond_a_quota_are_refused_and_searches_without_a_session_are_not(
    sample: Library, tmp_path: Path
) -> None:
    quotas = {"session_calls": 2, "sessions_per_key": 2}
    with serving_in_thread(sample, sessions=str(tmp_path), **quotas) as address:
        agent = Agent(address)
        assert [agent.search().status_code for _ in range(2)] == [200, 200]
        agent.wait_recorded()
        for refused in (
            agent.search(),
            agent.send("GET", f"/v1/papers/{SEED}"),
            agent.http.post(f"/v1/sessions/{agent.name}/answer", json={"ids": [SEED]}),
        ):
            assert (refused.status_code, refused.json()["type"].split("#")[1]) == (403, "quota-exceeded")
            assert "SCHOLARBASE_SESSION_CALLS" in refused.json()["detail"]
        params = {"name": "search_papers", "arguments": {"q": "strings"}}
        called = agent.send(
            "POST",
            "/mcp",
            json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
            headers={"Accept": "application/json, text/event-stream"},
        )
        assert called.json()["result"]["isError"]
        assert "SCHOLARBASE_SESSION_CALLS" in called.text
        assert Agent(address).search().status_code == 200
        for third in (Agent(address).search(), send("POST", f"{address}/v1/sessions", json={})):
            assert third.status_code == 403
            assert "SCHOLARBASE_SESSIONS_PER_KEY" in third.json()["detail"]
        assert send("GET", f"{address}/v1/search", params={"q": QUESTION}).status_code == 200
        assert len(agent.lines()) == 2
        assert agent.http.delete(f"/v1/sessions/{agent.name}").status_code == 204
        assert agent.search().status_code == 200


def test_searches_answer_without_a_folder(
    sample: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("scholarbase.sessions.writer.RETRY_SECONDS", 0.1)
    monkeypatch.setattr("scholarbase.api.recording.WRITE_SECONDS", 0.01)
    monkeypatch.setattr("scholarbase.sessions.recording.WRITE_SECONDS", 0.01)
    folder = tmp_path / "sessions"
    folder.write_text("in the way")
    with serving_in_thread(sample, sessions=str(folder)) as url:
        agent = Agent(url)
        returned = [ids(agent.search(limit=number)) for number in range(1, 6)]
        assert "scholarbase_unrecorded_calls_total 5.0" in agent.http.get("/metrics").text
        limited = agent.http.post("/v1/sessions", json={"session": "x", "limits": {"calls": 3}})
        assert limited.status_code == 507, "what must be known beforehand cannot be put off"
        folder.unlink()
        wait_until(lambda: agent.http.get(f"/v1/sessions/{agent.name}").status_code == 200)
        agent.search(limit=6)
        assert [line["ids"] for line in agent.lines()[:5]] == returned
        assert [line["call"] for line in agent.lines()] == [1, 2, 3, 4, 5, 6]
    assert caplog.text.count("Sessions cannot be written") == 1, "once a minute"


# -- tools in Python --------------------------------------------------------------------------------------


def test_tools_on_a_library_are_recorded_in_a_store(sample: Library, tmp_path: Path) -> None:
    with SessionStore(tmp_path) as store:
        tools = Tools(sample, session="s", store=store)
        content = tools.call("search_papers", {"q": QUESTION, "limit": 3})
        assert isinstance(content, dict)
        text = tools.call_as_text("search_papers", {"query": QUESTION, "limit": "2"}, parent=1, round=1)
        assert QUESTION not in text
        lines = [json.loads(line) for line in store.lines("s")]
    assert lines[0]["ids"] == ids(content)
    assert (lines[1]["parent"], lines[1]["round"]) == (1, 1)
    assert lines[1]["arguments"] == {"q": QUESTION, "limit": 2, "format": "text"}, "as they were understood"
