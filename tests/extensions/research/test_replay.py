"""Sessions that a real server recorded, run again: nothing differs on the same snapshot, and something on another."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from scholarbase import Client
from scholarbase.api.holding import Libraries
from scholarbase.errors import QueryFileError, SessionNotFound
from scholarbase.ingest.job import ingest
from scholarbase.search.library import Library
from scholarbase.sessions.store import SessionStore
from scholarbase_research.replay.calls import differences, read_recorded, replay
from tests.api.test_openapi_truth import Document
from tests.conftest import SAMPLE, run_cli, serving_in_thread
from tests.sessions.agents import QUESTION, SEED, Agent, close_all, ids
from tests.tables import rows

MISSING = "arXiv:2001.00001"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sessions")


@pytest.fixture(scope="module")
def url(sample: Library, folder: Path) -> Iterator[str]:
    with serving_in_thread(sample, sessions=str(folder)) as address:
        yield address


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    close_all()


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A smaller library: the sample's S2AG part without its arXiv part."""
    path = tmp_path_factory.mktemp("libraries") / "other"
    ingest([SAMPLE / "s2ag"], path)
    return path


def recorded(folder: Path, agent: Agent) -> tuple[Any, list[bytes]]:
    agent.wait_recorded()
    with SessionStore(folder) as store:
        return store.session(agent.name).session, list(store.lines(agent.name))


def seen_to_be_same(library: Library, folder: Path, agent: Agent, calls: int) -> None:
    session, lines = recorded(folder, agent)
    again = list(replay(library, session, lines))
    assert [str(difference) for difference in differences(again)] == []
    assert len(again) == len(lines) == calls


def post(agent: Agent, path: str, **body: Any) -> httpx.Response:
    return agent.send("POST", path, json=body)


SIZED = [
    ("GET", "/v1/title-match", {"title": "String Theory", "min_score": 0.2, "max_tokens": n})
    for n in range(200, 320, 10)
]
"""A native response for one title has a list less than the tool's, and now and then room for one paper more."""


def test_nothing_differs_of_any_route(url: str, folder: Path, sample: Library) -> None:
    agent = Agent(url)
    calls = [*rows("replayed"), *((200, *call) for call in SIZED)]
    for status, method, path, content in calls:
        answer = agent.send(method, path, **{"params" if method == "GET" else "json": content})
        assert answer.status_code == status, answer.text
    assert agent.send("POST", "/v1/search", content=b"{").status_code == 400
    answered = agent.http.post(f"/v1/sessions/{agent.name}/answer", json={"ids": [SEED, MISSING]})
    assert answered.status_code == 200
    # The first batch that was answered is two calls.
    seen_to_be_same(sample, folder, agent, len(calls) + 3)


def test_nothing_differs_of_a_session_with_budgets_date_and_what_was_seen(
    url: str, folder: Path, sample: Library
) -> None:
    limits = {"calls": 12, "expansions": 2, "candidates": 60, "tokens": 30_000}
    agent = Agent(url, query=QUESTION, as_of="1996-06", limits=limits)
    seen = {"exclude_seen": True, "limit": 10}
    steps = [
        agent.search(limit=10),
        agent.search(**seen),
        post(agent, "/v1/search/batch", searches=[{"q": QUESTION, **seen}, {"q": QUESTION, **seen}]),
        agent.expand(SEED, **seen),
        agent.search(as_of="1993-01"),
        agent.search(as_of="1999-01"),
        agent.expand(SEED, **seen),
        agent.expand(SEED),
        *(agent.search("black holes", **seen) for _ in range(8)),
    ]
    assert {step.status_code for step in steps} == {200, 400, 403}
    seen_to_be_same(sample, folder, agent, len(steps) + 1)


def test_nothing_differs_where_calls_were_refused_side_by_side(
    url: str, folder: Path, sample: Library
) -> None:
    """Which of them the budget refused depends on timing: run one after the other, others would be refused."""
    agent = Agent(url, limits={"calls": 5, "tokens": 2000})
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: agent.search(limit=n), range(1, 17)))
    seen_to_be_same(sample, folder, agent, 16)


def test_a_smaller_library_gives_something_else(url: str, folder: Path, other: Path) -> None:
    agent = Agent(url)
    agent.send("GET", f"/v1/papers/{SEED}")
    found = ids(agent.search(limit=20))
    session, lines = recorded(folder, agent)
    with Library.open(other, encoder="none") as library:
        now = [hit.paper.id for hit in library.search(QUESTION, limit=20).results]
        [difference] = [one for one in differences(replay(library, session, lines)) if one.call == 2]
    place = next(place for place, (a, b) in enumerate(zip(found, now, strict=True), 1) if a != b)
    assert (difference.tool, difference.what) == ("search_papers", "ids")
    assert str(difference).startswith(f"call 2 (search_papers): ids differ from place {place}: ")
    assert repr(found[place - 1]) in str(difference)


# -- the server -------------------------------------------------------------------------------------------


def test_a_server_runs_a_session_again_on_the_snapshot_that_is_named(
    url: str, folder: Path, sample: Library, other: Path
) -> None:
    agent = Agent(url, query=QUESTION)
    agent.search(limit=20)
    agent.search(limit=20, exclude_seen=True)
    agent.search(limit=0)
    agent.send("POST", f"/v1/sessions/{agent.name}/answer", json={"ids": [SEED]})
    agent.wait_recorded()
    with Library.open(other, encoder="none") as small:
        libraries = Libraries(small)
        libraries.add(sample)
        with serving_in_thread(libraries, sessions=str(folder)) as address:
            with Client(address) as client:
                assert [one["snapshot"] for one in client.snapshots()] == [
                    small.snapshot_id,
                    sample.snapshot_id,
                ]
                differs = client.replay_session(agent.name)
            with Client(address, headers={"X-ScholarBase-Snapshot": sample.snapshot_id}) as client:
                same = client.replay_session(agent.name)
                with pytest.raises(SessionNotFound, match="nobody"):
                    client.replay_session("nobody")
            Document(address).check(httpx.post(f"{address}/v1/sessions/{agent.name}/replay"))
    assert same == {
        "session": agent.name,
        "snapshot": sample.snapshot_id,
        "recorded_on": [sample.snapshot_id],
        "calls": 4,
        "replayed": 2,
        "differences": [],
    }
    assert differs["snapshot"] == small.snapshot_id
    first = differs["differences"][0]
    assert (first["call"], first["tool"], first["what"]) == (1, "search_papers", "ids")
    assert first["message"].startswith("call 1 (search_papers): ids differ from place ")
    assert len(agent.lines()) == 4, "a replay records nothing"


def test_a_replay_ends_at_the_time_limit_of_the_server(url: str, folder: Path, sample: Library) -> None:
    agent = Agent(url)
    agent.search()
    agent.wait_recorded()
    with serving_in_thread(sample, sessions=str(folder), timeout=0.000_001) as address:
        response = httpx.post(f"{address}/v1/sessions/{agent.name}/replay")
    assert response.status_code == 504
    assert f'run "scholarbase session replay {agent.name}"' in response.json()["detail"]


# -- the command line -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_line_runs_a_session_again(
    url: str, folder: Path, sample_library: Path, other: Path, tmp_path: Path
) -> None:
    agent = Agent(url, query=QUESTION)
    agent.search(limit=20)
    agent.expand(SEED)
    agent.search(limit=0)
    agent.wait_recorded()
    where = ("--sessions", folder)
    again = run_cli("session", "replay", agent.name, "--library", sample_library, *where)
    assert (again.returncode, again.stdout.startswith("2 of 3 calls replayed on")) == (0, True), again.stderr
    assert again.stdout.endswith("No differences.\n")
    differs = run_cli("session", "replay", agent.name, "--library", other, *where)
    assert differs.returncode == 15
    assert run_cli("session", "replay", "nosuch", "--library", other, *where).returncode == 29
    assert "call 1 (search_papers): ids differ from place" in differs.stdout
    assert "recorded on" in differs.stderr
    shown = run_cli("session", "show", agent.name, *where)
    assert [json.loads(line) for line in shown.stdout.splitlines()] == agent.lines()
    file = tmp_path / "calls.jsonl"
    file.write_text(shown.stdout)
    session, lines, failed = read_recorded(file)
    assert (session.id, len(lines), failed) == (agent.name, 2, 1)
    of_file = run_cli("session", "replay", file, "--library", sample_library)
    assert of_file.stdout.startswith("2 of 3 calls replayed on")
    assert of_file.stdout.endswith("No differences.\n")
    listed = run_cli("session", "list", "--json", *where)
    assert agent.name in [one["session"] for one in json.loads(listed.stdout)]
    assert f"{agent.name}  3 calls" in run_cli("session", "list", *where).stdout
    assert run_cli("session", "delete", agent.name, *where).returncode == 0
    for command in ("show", "delete", "report"):
        gone = run_cli("session", command, agent.name, *where)
        assert (gone.returncode, "There is no session" in gone.stderr) == (29, True)


@pytest.mark.slow
def test_a_call_whose_arguments_were_too_long_says_so(sample: Library, url: str, folder: Path) -> None:
    agent = Agent(url)
    agent.search()
    absent = [f"arXiv:2001.{number:05}" for number in range(10_000)]
    # Three searches with 200 kB each are more than is recorded of a request.
    searches = [{"q": "strings", "limit": 2, "fields": ["id"], "exclude_ids": absent}] * 3
    assert post(agent, "/v1/search/batch", searches=searches).status_code == 200
    agent.search("black holes", exclude_ids=absent)
    session, lines = recorded(folder, agent)
    assert [list(json.loads(line)["arguments"]) for line in lines[1:]] == [
        *[["not_recorded"]] * 3,
        ["q", "exclude_ids"],
    ]
    assert sum(map(len, lines)) < 250_000
    found = differences(replay(sample, session, lines))
    assert [(one.call, one.what) for one in found] == [(2, "error"), (3, "error"), (4, "error")]
    assert "The arguments of this call were not recorded, since they have 190,041 bytes" in str(found[0])


def test_a_file_of_calls_from_elsewhere_ended_in_a_traceback(sample: Library, tmp_path: Path) -> None:
    call = {"query_id": "q", "tool": "search_papers", "ids": []}
    path = tmp_path / "calls.jsonl"
    path.write_text(json.dumps({**call, "arguments": {"not_recorded": "many"}}))
    session, lines, _ = read_recorded(path)
    [found] = differences(replay(sample, session, lines))
    assert "since they have 'many' bytes" in str(found)
    deep = '{"a":' * 400 + "{}" + "}" * 400
    for key, value in (
        ("arguments", deep),
        ("tokens", str(10**18)),
        ("seconds", "1e300"),
        ("round", str(10**18)),
    ):
        path.write_text(json.dumps(call)[:-1] + f', "{key}": {value}}}')
        with pytest.raises(QueryFileError, match=f"{key} is .*: it must be"):
            read_recorded(path)
