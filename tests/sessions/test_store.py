"""The file of sessions: used by one process or several, and while it cannot be written."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from scholarbase.errors import (
    BudgetExhausted,
    InvalidRequest,
    QuotaExceeded,
    SessionExists,
    SessionNotFound,
)
from scholarbase.models.calls import CallKind
from scholarbase.sessions import store as store_module
from scholarbase.sessions.progress import BudgetState
from scholarbase.sessions.session import CallRecord, Limits, Quotas, Session
from scholarbase.sessions.store import SessionStore
from scholarbase_research.trajectory_lines import read_trajectory
from tests.conftest import ROOT

A, B, C = "arXiv:hep-th/9301068", "arXiv:hep-th/9303046", "CorpusId:7"
SOON = 120.0


@pytest.fixture
def location(tmp_path: Path) -> Path | str:
    """Where sessions are kept: an empty folder."""
    return tmp_path


@pytest.fixture
def store(location: Path | str) -> Iterator[SessionStore]:
    with SessionStore(location) as opened:
        yield opened


def a_call(kind: CallKind = "search", ids: tuple[str, ...] = (A,), **rest: Any) -> CallRecord:
    tool = {"search": "search_papers", "expand": "expand_papers", "inspect": "get_papers", "answer": "answer"}
    defaults: dict[str, Any] = {"arguments": {"q": "strings"}, "seconds": 0.5, "tokens": 10, "snapshot": "s1"}
    return CallRecord(tool[kind], kind, ids=ids, **{**defaults, **rest})


def lines(store: SessionStore, name: str = "s") -> list[dict[str, Any]]:
    return [json.loads(line) for line in store.lines(name)]


def opened(store: SessionStore, name: str = "s", **rest: Any) -> Session:
    return store.open(Session(name, **rest)).result(SOON)


def kept(store: SessionStore, session: Session, *calls: CallRecord) -> list[int]:
    return [number for call in calls for number in store.record(session, [call]).result(SOON)]


def reserve(
    store: SessionStore,
    session: Session,
    kind: CallKind = "search",
    *,
    count: int = 1,
    key: str | None = None,
    **rest: Any,
) -> Future[BudgetState]:
    calls = [
        a_call(kind, (), error="No response.", tokens=None, key=key and f"{key}:{i}") for i in range(count)
    ]
    return store.reserve(session, calls, **rest)


# -- sessions ---------------------------------------------------------------------------------------------


def test_a_session_opens_once(store: SessionStore) -> None:
    opened(store, "s", query="a question", query_id="q1", as_of="2003-06", limits=Limits(calls=3))
    with pytest.raises(SessionExists, match="'s'"):
        opened(store, "s")
    facts = store.session("s")
    assert (facts.calls, facts.lost) == (0, 0)
    assert facts.session.to_dict() | {"opened": ""} == {
        "session": "s",
        "query_id": "q1",
        "query": "a question",
        "as_of": "2003-06",
        "limits": {"calls": 3},
        "opened": "",
    }


def test_a_session_of_a_new_name_opens_with_its_first_call(store: SessionStore) -> None:
    session = store.find("s", "")
    with pytest.raises(SessionNotFound, match="'s'"):
        store.session("s")
    assert kept(store, session, a_call()) == [1]
    assert store.find("s", "") == store.session("s").session
    assert store.find("s", "").query_id == "s"
    opened(store, "t", query="a question", as_of="2003-06", limits=Limits(calls=3))
    assert store.find("t", "") == store.session("t").session


def test_keys_have_sessions_of_one_name(store: SessionStore) -> None:
    one, two = (opened(store, "s", owner=owner, query=owner) for owner in ("k1", "k2"))
    assert (store.find("s", "k1"), store.find("s", "k2")) == (one, two)
    with pytest.raises(SessionExists):
        opened(store, "s", owner="k1")
    assert store.find("s", "k3").query is None, "a name of another key is as unknown as any"
    assert kept(store, one, a_call(), a_call()) == [1, 2]
    assert kept(store, Session("s", owner="k2"), a_call()) == [1]
    assert [len(lines(store, session.key)) for session in (one, two)] == [2, 1]
    assert {line["session"] for line in lines(store, two.key)} == {"s"}
    assert [facts.session.key for facts in store.sessions("k1")[1]] == ["k1/s"]
    with pytest.raises(InvalidRequest, match=r"2 keys have a session 's'.* session show k1/s"):
        store.session("s", of_any_owner=True)
    store.delete(one.key).result(SOON)
    assert store.session("s", of_any_owner=True).session == two
    with pytest.raises(SessionNotFound):
        store.session("s")


def test_an_unknown_session_is_not_found(store: SessionStore) -> None:
    assert store.sessions() == (0, [])
    with pytest.raises(SessionNotFound):
        store.session("s")
    with pytest.raises(SessionNotFound):
        list(store.lines("s"))
    with pytest.raises(SessionNotFound):
        store.delete("s").result(SOON)


def test_a_deleted_session_is_gone_with_its_calls(store: SessionStore) -> None:
    session = opened(store)
    kept(store, session, a_call(), a_call())
    store.delete("s").result(SOON)
    with pytest.raises(SessionNotFound):
        store.session("s")
    again = opened(store)
    assert kept(store, again, a_call()) == [1]


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    store.close()
    store.close()
    with pytest.raises(InvalidRequest, match="closed"):
        opened(store)


# -- calls ------------------------------------------------------------------------------------------------


def test_a_call_is_read_as_it_was_recorded(store: SessionStore, tmp_path: Path) -> None:
    session = opened(store, query="a question", query_id="q1")
    arguments = {"q": "é ∂", "limit": 2, "category": ["hep-th"]}
    first = a_call(
        ids=(A, B),
        scores=(0.1 + 0.2, 1e-17),
        arguments=arguments,
        time="2026-01-02T03:04:05.678Z",
        ended=1_767_323_046_178_900,
    )
    assert kept(store, session, first, a_call("answer", (B,), arguments={}, seconds=None, tokens=None)) == [
        1,
        2,
    ]
    assert lines(store)[0] == {
        "query_id": "q1",
        "call": 1,
        "tool": "search_papers",
        "kind": "search",
        "arguments": arguments,
        "ids": [A, B],
        "scores": [0.30000000000000004, 1e-17],
        "time": "2026-01-02T03:04:05.678Z",
        "ended": "2026-01-02T03:04:06.178900Z",
        "seconds": 0.5,
        "tokens": 10,
        "round": 1,
        "snapshot": "s1",
        "session": "s",
        "query": "a question",
    }
    file = tmp_path / "calls.jsonl"
    file.write_bytes(b"".join(line + b"\n" for line in store.lines("s")))
    read = read_trajectory(file)
    assert [(call.call, call.tool, call.ids) for call in read] == [
        (1, "search_papers", (A, B)),
        (2, "answer", (B,)),
    ]
    assert {(call.session, call.query_id, call.query) for call in read} == {("s", "q1", "a question")}


def test_numbers_rise_without_gaps_from_many_threads(store: SessionStore) -> None:
    session = opened(store)
    numbers: list[int] = []

    def work() -> None:
        for _ in range(50):
            numbers.extend(kept(store, session, a_call()))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == list(range(1, 401))
    assert sorted(line["call"] for line in lines(store)) == list(range(1, 401))


def test_the_parent_is_the_call_that_last_returned_a_named_paper(store: SessionStore) -> None:
    session = opened(store)
    kept(
        store,
        session,
        a_call(ids=(A, B)),  # 1
        a_call(ids=(B,)),  # 2
        a_call("expand", (), arguments={"seeds": [A]}),  # 3, from 1
        a_call("expand", (), arguments={"seeds": [A, B]}),  # 4, from 2
        a_call("inspect", (A,), arguments={"ids": ["https://arxiv.org/abs/hep-th/9301068v2"]}),  # 5, from 1
        a_call("expand", (), arguments={"paper_id": C}),  # 6, from none
        a_call("search", ()),  # 7: a search follows from none
        a_call("expand", (), arguments={"seeds": [A]}, parent=2),  # 8
        a_call("expand", (), arguments={"seeds": [A]}, parent=99),  # 9: no such call yet, so from 5
    )
    assert [line.get("parent") for line in lines(store)] == [None, None, 1, 2, 1, None, None, 2, 5]


def test_an_answer_returns_no_paper(store: SessionStore) -> None:
    session = opened(store)
    kept(store, session, a_call("answer", (A,)), a_call("expand", (B,), arguments={"seeds": [A]}))
    assert lines(store)[1].get("parent") is None
    assert reserve(store, session, with_seen=True).result(SOON).seen == {B}


def test_rounds_default_to_the_next_and_never_fall(store: SessionStore) -> None:
    session = opened(store)
    kept(store, session, *(a_call(round=number) for number in (None, None, 7, 7, 3, None, 9)))
    assert [line["round"] for line in lines(store)] == [1, 2, 7, 7, 7, 8, 9]


class _Odd:
    def __repr__(self) -> str:
        return "odd \ud800"


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_any_arguments_of_an_invalid_call_are_recorded(store: SessionStore) -> None:
    session = opened(store)
    values: list[tuple[Any, str]] = [
        ("half \ud800", "{'value': 'half \\ud800'}"),
        (10**40, f"{{'value': {10**40}}}"),
        ({1: None}, "{'value': {1: None}}"),
        (_Odd(), "{'value': odd \\ud800}"),
        (10**5000, "a dict that cannot be shown"),
        (_deep(300), f"{{'value': {_deep(300)}}}"),
        (_deep(5000), "a dict that cannot be shown"),
    ]
    for value, expected in values:
        kept(store, session, a_call(ids=(), error="No.", arguments={"value": value}))
        assert lines(store)[-1]["arguments"] == {"arguments": expected}
    kept(store, session, a_call(ids=(), error="No.", arguments={"value": (1, 2.5, float("nan"), _deep(90))}))
    assert lines(store)[-1]["arguments"] == {"value": [1, 2.5, None, _deep(90)]}


# -- budgets ----------------------------------------------------------------------------------------------


def test_budgets_are_counted_and_exhausted(store: SessionStore) -> None:
    session = opened(store, limits=Limits(calls=4, expansions=1))
    assert reserve(store, session).result(SOON).remaining == {"calls": 3, "expansions": 1}
    # Neither an answer nor a refused call counts.
    kept(store, session, a_call("answer"), a_call(ids=(), error="No.", error_type="budget-exhausted"))
    assert reserve(store, session, "expand").result(SOON).remaining == {"calls": 2, "expansions": 0}
    with pytest.raises(BudgetExhausted, match=r"1 expansions, and 0 are left: answer with"):
        reserve(store, session, "expand").result(SOON)
    with pytest.raises(BudgetExhausted, match=r"4 calls, and 2 are left: this call takes 3"):
        reserve(store, session, count=3).result(SOON)
    assert reserve(store, session, count=2).result(SOON).remaining == {"calls": 0, "expansions": 0}


def test_papers_and_tokens_are_counted_when_the_response_is_there(location: Path | str) -> None:
    with SessionStore(location) as one, SessionStore(location) as two:
        session = opened(one, limits=Limits(candidates=9, tokens=100))
        state = reserve(one, session).result(SOON)
        assert state.remaining == {"candidates": 9, "tokens": 100}
        assert reserve(two, session).result(SOON).remaining == {"candidates": 9, "tokens": 100}
        assert kept(one, session, a_call(ids=(A, B), number=state.numbers[0])) == list(state.numbers)
        for store in (one, two):
            assert reserve(store, session).result(SOON).remaining == {"candidates": 7, "tokens": 90}
        assert [line.get("error") for line in lines(two)].count(None) == 1


def test_concurrent_reservations_get_exactly_the_budget(location: Path | str) -> None:
    stores = [SessionStore(location), SessionStore(location)]
    session = opened(stores[0], limits=Limits(calls=5))
    futures = [reserve(stores[i % 2], session) for i in range(40)]
    errors = [future.exception(SOON) for future in futures]
    assert sum(error is None for error in errors) == 5
    assert all(error is None or isinstance(error, BudgetExhausted) for error in errors)
    for one in stores:
        one.close()


# -- the same call sent twice -----------------------------------------------------------------------------


def test_a_key_records_a_call_once_over_two_stores(location: Path | str) -> None:
    with SessionStore(location) as one, SessionStore(location) as two:
        session = opened(one, limits=Limits(calls=5))
        states = []
        for store in (one, two, one):
            states.append(reserve(store, session, key="k").result(SOON))
            [number] = states[-1].numbers or (None,)
            assert kept(store, session, a_call(key="k:0", number=number)) == [1]
        assert [state.remaining["calls"] for state in states] == [4, 4, 4]
        assert [state.numbers for state in states] == [(1,), (), ()]
        assert len(lines(two)) == 1


def test_a_key_sent_twice_at_once_counts_once(store: SessionStore) -> None:
    session = opened(store, limits=Limits(calls=5, expansions=5))
    both = [reserve(store, session, "expand", key="k").result(SOON) for _ in range(2)]
    assert [one.numbers for one in both] == [(1,), ()]
    assert kept(
        store, session, a_call("expand", (B,), key="k:0"), a_call("expand", (A,), key="k:0", number=1)
    ) == [1, 1]
    assert [line["ids"] for line in lines(store)] == [[B]], "the response that was ready first"
    assert reserve(store, session, "expand").result(SOON).remaining == {"calls": 3, "expansions": 3}


def test_a_failed_call_does_not_hide_the_result_of_its_twin(store: SessionStore) -> None:
    session = opened(store, limits=Limits(calls=5))
    [number] = reserve(store, session, key="k").result(SOON).numbers
    assert reserve(store, session, key="k").result(SOON).numbers == ()
    kept(store, session, a_call(ids=(), error="No.", number=number), a_call(key="k:0"))
    assert [(line["call"], line["ids"]) for line in lines(store)] == [(1, []), (2, [A])]


def test_a_repeated_call_sees_the_state_before_it(store: SessionStore) -> None:
    session = opened(store)
    kept(store, session, a_call(ids=(A,)), a_call(ids=(B,), key="k:0"), a_call(ids=(A, C)))
    assert reserve(store, session, with_seen=True).result(SOON).seen == {A, B, C}
    assert reserve(store, session, with_seen=True, key="k").result(SOON).seen == {A}


# -- several processes ------------------------------------------------------------------------------------

WRITER = """
import sys
from pathlib import Path
from scholarbase.sessions.session import CallRecord
from scholarbase.sessions.store import SessionStore
folder, name, count = sys.argv[1:]
with SessionStore(folder if "://" in folder else Path(folder)) as store:
    session = store.find("s", "")
    for i in range(int(count)):
        call = CallRecord("search_papers", "search", {"q": f"{name}-{i}"}, ("arXiv:hep-th/9301068",))
        print(*store.record(session, [call]).result(60), f"{name}-{i}", flush=True)
"""


def writer(folder: Path | str, name: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), name, str(count)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


@pytest.mark.slow
def test_processes_that_write_one_session_at_once_keep_every_call_once(location: Path | str) -> None:
    # They also make the file at once.
    processes = [writer(location, name, 60) for name in "abcd"]
    outputs = [process.communicate(timeout=120)[0].split("\n") for process in processes]
    assert [process.returncode for process in processes] == [0] * 4
    printed = dict(line.split() for lines_ in outputs for line in lines_ if line)
    with SessionStore(location) as store:
        found = {str(line["call"]): line["arguments"]["q"] for line in lines(store)}
    assert found == printed
    assert sorted(map(int, found)) == list(range(1, 241))
    for name in "abcd":
        of_one = [q for _, q in sorted(found.items(), key=lambda pair: int(pair[0])) if q.startswith(name)]
        assert of_one == [f"{name}-{i}" for i in range(60)], "in the order in which it was made"


def test_a_process_that_is_killed_loses_no_call_that_was_answered(location: Path | str) -> None:
    process = writer(location, "a", 100_000)
    assert process.stdout is not None
    printed = [process.stdout.readline() for _ in range(20)]
    os.kill(process.pid, signal.SIGKILL)
    printed += process.stdout.readlines()
    process.wait(120)
    process.stdout.close()
    with SessionStore(location) as store:
        found = [f"{line['call']} {line['arguments']['q']}" for line in lines(store)]
    whole = [line.strip() for line in printed if line.endswith("\n")]
    assert found[: len(whole)] == whole


def test_a_session_deleted_and_opened_elsewhere_is_numbered_from_1(location: Path | str) -> None:
    with SessionStore(location) as one, SessionStore(location) as two:
        session = opened(one)
        kept(one, session, a_call(ids=(A,)), a_call(ids=(A,)))
        kept(two, session, a_call(ids=(B,)))
        assert one.find("s", "") == session
        two.delete("s").result(SOON)
        time.sleep(0.002)
        other = opened(two, as_of="2003-12", limits=Limits(calls=2))
        assert one.find("s", "") == other
        assert kept(one, session, a_call(ids=(C,))) == [1]
        assert reserve(one, session, with_seen=True).result(SOON).seen == {C}
        assert kept(two, other, a_call()) == [2]


def test_days_beyond_the_calendar_delete_nothing(location: Path | str) -> None:
    with SessionStore(location, keep_days=1e12) as store:
        assert kept(store, opened(store), a_call(), a_call()) == [1, 2]


def test_a_trajectory_is_read_by_many_threads_in_turn(store: SessionStore) -> None:
    """A streamed response reads each line in another thread, which SQLite did not allow."""
    session = opened(store)
    store.record(session, [a_call()] * 100).result(SOON)
    read = iter(store.lines("s"))
    found: list[bytes] = []
    for _ in range(100):
        thread = threading.Thread(target=lambda: found.append(next(read)))
        thread.start()
        thread.join()
    assert [json.loads(line)["call"] for line in found] == list(range(1, 101))


# -- order, and calls of killed processes -------------------------------------------------------------------


def test_overlapping_calls_were_read_in_the_order_in_which_they_were_written(store: SessionStore) -> None:
    session = opened(store)
    kept(store, session, a_call(ids=(B,), ended=3_000_000))
    kept(store, session, a_call(ids=(A,), ended=1_000_000))
    kept(store, session, a_call(ids=(A,), ended=2_000_000))
    kept(store, session, a_call("inspect", ids=(A,), arguments={"ids": [A]}, ended=2_500_000))
    found = lines(store)
    assert [line["call"] for line in found] == [2, 3, 4, 1]
    assert [line["ended"] for line in found] == [
        "1970-01-01T00:00:01.000000Z",
        "1970-01-01T00:00:02.000000Z",
        "1970-01-01T00:00:02.500000Z",
        "1970-01-01T00:00:03.000000Z",
    ]
    assert [line["round"] for line in found] == [1, 2, 3, 4]
    assert found[2]["parent"] == 3


def test_a_trajectory_out_of_number_makes_calls(store: SessionStore, tmp_path: Path) -> None:
    session = opened(store)
    kept(store, session, a_call(ended=3_000_000), a_call(ended=1_000_000, parent=1))
    file = tmp_path / "calls.jsonl"
    file.write_bytes(b"".join(line + b"\n" for line in store.lines("s")))
    assert [(call.call, call.parent) for call in read_trajectory(file)] == [(2, None), (1, None)]


ADMITTED = """
import os, signal, sys
from pathlib import Path
from scholarbase.sessions.recording import Recording
from scholarbase.sessions.session import Limits, Session
from scholarbase.sessions.store import SessionStore

store = SessionStore(sys.argv[1] if "://" in sys.argv[1] else Path(sys.argv[1]))
session = store.open(Session("s", limits=Limits(calls=9, expansions=5))).result()
for tool, count in (("search_papers", 1), ("expand_papers", 1), ("search_papers", 3)):
    recording = Recording(session=session, tool=tool, store=store, snapshot="snapshot", count=count, key=tool)
    recording.budget = recording.reserve(False).result()
    if tool == "expand_papers":
        recording.record_failure({"seeds": ["x"]}, ValueError("failed")).result()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_calls_of_a_killed_process_were_counted_and_nowhere_recorded(location: Path | str) -> None:
    done = subprocess.run([sys.executable, "-c", ADMITTED, str(location)], check=False, cwd=ROOT)
    assert done.returncode == -signal.SIGKILL
    with SessionStore(location) as store:
        found = lines(store)
        assert [(line["call"], line["kind"], line["error_type"]) for line in found] == [
            (1, "search", "internal"),
            (2, "expand", "internal"),
        ]
        assert "no response" in found[0]["error"]
        session = store.session("s").session
        assert reserve(store, session).result(SOON).remaining == {"calls": 9 - 2 - 1, "expansions": 4}


def test_a_call_repeated_after_a_kill_is_counted_once(store: SessionStore) -> None:
    session = opened(store, limits=Limits(calls=9))
    reserve(store, session, count=3, key="k").result(SOON)  # by a process that was killed
    with pytest.raises(BudgetExhausted):
        reserve(store, session, count=7).result(SOON)
    assert reserve(store, session, count=3, key="k").result(SOON).remaining == {"calls": 6}
    assert store.record(session, [a_call(key=f"k:{i}") for i in range(3)]).result(SOON) == [1, 2, 3]
    assert ["error" in line for line in lines(store)] == [False] * 3


# -- quotas, and the size of what is recorded ---------------------------------------------------------------


def test_a_session_has_at_most_its_calls(location: Path | str) -> None:
    with SessionStore(location, quotas=Quotas(calls=2)) as store:
        kept(store, store.find("s", ""), a_call(), a_call())
        with pytest.raises(QuotaExceeded, match="'s' has 2 calls, and SCHOLARBASE_SESSION_CALLS allows 2"):
            store.find("s", "")
        store.find("t", "")
        store.delete("s").result(SOON)
        store.find("s", "")


def test_a_key_has_at_most_its_sessions(location: Path | str) -> None:
    quotas = Quotas(sessions=2)
    with SessionStore(location, quotas=quotas) as one, SessionStore(location, quotas=quotas) as two:
        opened(one, "a", owner="k1")
        kept(two, two.find("b", "k1"), a_call())
        for store in (one, two):
            with pytest.raises(QuotaExceeded, match="This key has 2 sessions"):
                store.find("c", "k1")
            with pytest.raises(QuotaExceeded, match="SCHOLARBASE_SESSIONS_PER_KEY"):
                opened(store, "c", owner="k1")
        opened(one, "c", owner="k2")
        two.delete("k1/a").result(SOON)
        opened(one, "d", owner="k1")


def test_sessions_take_at_most_their_megabytes(location: Path | str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "MEASURE_SECONDS", 0.0)
    with SessionStore(location, quotas=Quotas(megabytes=1)) as store:
        large = a_call(arguments={"q": "x" * 400_000})
        kept(store, store.find("s", ""), large)
        kept(store, store.find("s", ""), large, large)
        with pytest.raises(QuotaExceeded, match="take 1 MB, and SCHOLARBASE_SESSIONS_MB allows 1"):
            store.find("s", "")
        with pytest.raises(QuotaExceeded, match="delete some"):
            opened(store, "t")
        assert len(lines(store)) == 3
        store.delete("s").result(SOON)
        opened(store, "t")
        store.find("t", "")


@pytest.mark.parametrize(
    ("size", "calls", "is_recorded"), [(500_000, 1, True), (600_000, 1, False), (90_000, 6, False)]
)
def test_long_arguments_are_recorded_by_their_size(
    store: SessionStore, size: int, calls: int, is_recorded: bool
) -> None:
    session = opened(store)
    kept(store, session, a_call(arguments={"q": "x" * size}, calls=calls))
    [line] = lines(store)
    assert line["arguments"] == (
        {"q": "x" * size} if is_recorded else {"not_recorded": size + len('{"q":""}')}
    )
