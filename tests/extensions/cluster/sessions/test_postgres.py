"""Sessions in PostgreSQL: servers that share a database, and a database that stops, hangs or refuses."""

import json
import logging
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from scholarbase.cli import doctor
from scholarbase.errors import InvalidRequest, SessionNotFound, StorageError
from scholarbase.search.library import Library
from scholarbase.sessions.session import CallRecord, Limits, Session, unix_time
from scholarbase.sessions.store import SessionStore
from scholarbase.sessions.writer import wait_for
from scholarbase.settings import load_settings
from tests.conftest import run_cli, serving_in_thread
from tests.extensions.cluster.postgres import PASSWORD, QUOTED, Postgres
from tests.sessions.agents import QUESTION, SECONDS, Agent, wait_until
from tests.sessions.test_store import reserve

pytest.importorskip("psycopg")

from scholarbase_cluster import postgres as module


@pytest.fixture
def url(postgres: Postgres) -> str:
    return postgres.emptied()


def a_call(q: str = "strings", **rest: Any) -> CallRecord:
    return CallRecord("search_papers", "search", {"q": q}, ("arXiv:hep-th/9301068",), **rest)


def lines(store: SessionStore, name: str = "s") -> list[dict[str, Any]]:
    return [json.loads(line) for line in store.lines(name)]


def result(future: Any) -> Any:
    return wait_for(future, SECONDS)


# -- addresses and passwords ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "location",
    [
        "postgresql://u:hidden/x@127.0.0.1/db",  # a slash that should be %2F
        "postgresql://u:hidden#x@127.0.0.1/db",
        "postgresql://u:hidden@127.0.0.1:port/db",
        "postgresql://u:hidden@127.0.0.1/db?no_such=1",
        "postgresql://u:hidden@127.0.0.1,127.0.0.2,127.0.0.3:1,2/db",
        "host=127.0.0.1 user=u password=hidden dbname=db",
    ],
)
def test_an_invalid_url_is_refused_without_its_password(location: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        SessionStore(location)
    assert "hidden" not in str(refused.value)
    assert "postgresql://USER" in str(refused.value)
    assert refused.value.__cause__ is None


def test_another_scheme_is_refused_without_its_password() -> None:
    with pytest.raises(
        InvalidRequest, match=r"scheme 'mysql'.* \(its schemes: postgres, postgresql\)"
    ) as refused:
        SessionStore("mysql://u:hidden@127.0.0.1/db")
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize("wrong", ["password", "port"])
def test_a_failed_connection_is_an_error_without_the_password(
    url: str, wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    location = (
        url.replace(QUOTED, "wr%2Fong") if wrong == "password" else url.replace("127.0.0.1:", "127.0.0.1:1")
    )
    if wrong == "port":
        location = f"postgresql://library:wr%2Fong@127.0.0.1:1/{url.rpartition('/')[2]}"
    with SessionStore(location) as store:
        for fails in (lambda: result(store.open(Session("s"))), lambda: store.session("s")):
            with pytest.raises(StorageError, match=r"127\.0\.0\.1") as failed:
                fails()
            assert "SCHOLARBASE_SESSIONS" in str(failed.value)
            assert not any(
                secret in str(failed.value) for secret in ("wr/ong", "wr%2Fong", "library:", '"library"')
            )
        assert "wr/ong" not in caplog.text + repr(store.name)
        assert "wr%2Fong" not in caplog.text


def test_of_several_hosts_the_first_that_answers_is_used(url: str) -> None:
    parts = urlsplit(url)
    several = parts._replace(netloc=parts.netloc.replace("127.0.0.1", "127.0.0.1:1,127.0.0.1", 1)).geturl()
    assert several != url
    with SessionStore(several) as store:
        assert store.name.startswith("postgresql://127.0.0.1:1,127.0.0.1:")
        assert result(store.record(Session("s"), [a_call()])) == [1]
    with SessionStore(url) as store:
        assert len(lines(store)) == 1


def test_the_character_nul_is_no_failure_of_the_database(url: str) -> None:
    with SessionStore(url) as store:
        with pytest.raises(InvalidRequest, match="has the character NUL: leave it out"):
            store.open(Session("s", query="a\0b"))
        with pytest.raises(SessionNotFound):
            store.session("a\0b")


def test_sessions_of_version_1_stay(url: str) -> None:
    import psycopg

    with SessionStore(url) as store:
        assert result(store.record(Session("s", owner="k1"), [a_call()])) == [1]
    with psycopg.connect(url) as database:
        database.execute("UPDATE calls SET session = 's'")
        database.execute("UPDATE sessions SET id = 's'")
        database.execute("UPDATE schema_version SET version = 1")
    with SessionStore(url) as store:
        assert result(store.record(Session("s", owner="k1"), [a_call()])) == [2]
        assert [facts.session.key for facts in store.sessions()[1]] == ["k1/s"]
        assert len(list(store.lines("k1/s"))) == 2


# -- servers that share a database ------------------------------------------------------------------------


def test_the_tables_are_created_once_by_many_at_once(url: str) -> None:
    stores = [SessionStore(url) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        numbers = list(pool.map(lambda store: result(store.record(Session("s"), [a_call()])), stores))
    assert sorted(numbers) == [[number] for number in range(1, 7)]
    for store in stores:
        store.close()


def test_transactions_of_other_sessions_run_at_the_same_time(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that hangs inside a transaction delays the calls of its sessions only, and not for ever."""
    monkeypatch.setattr(module, "_stripe", lambda name: {"s": 1, "t": 2}.get(name, 3))
    import psycopg

    with SessionStore(url) as store:
        session, other = (result(store.open(Session(name))) for name in "st")
        with psycopg.connect(url) as hangs:
            hangs.execute("SELECT pg_advisory_xact_lock(%s, 1)", (module._LOCKS,))
            assert result(store.record(other, [a_call()])) == [1]
            waits = store.record(session, [a_call()])
            time.sleep(0.2)
            assert not waits.done()
        assert result(waits) == [1]


def test_the_time_of_a_call_is_that_of_the_database(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clocks of two servers differ by an hour, and the trajectory is in the order of the calls."""
    with SessionStore(url) as one:
        session = result(one.open(Session("s")))
        result(one.record(session, [a_call("first")]))
        late = unix_time() - 3_600_000_000
        monkeypatch.setattr(module, "unix_time", lambda: unix_time() - 3_600_000_000)
        with SessionStore(url) as two:
            result(two.record(session, [a_call("second", ended=late + 1_000_000)]))
        assert [line["arguments"]["q"] for line in lines(one)] == ["first", "second"]


# -- a database that stops or hangs -----------------------------------------------------------------------


@pytest.mark.slow
def test_a_restart_of_the_database_loses_no_call(postgres: Postgres, url: str) -> None:
    with SessionStore(url) as store:
        session = result(store.open(Session("s", limits=Limits(calls=50))))
        assert result(store.record(session, [a_call("before")])) == [1]
        assert len(lines(store)) == 1
        postgres.stop()
        try:
            waits = [store.record(session, [a_call(f"{number}")]) for number in range(3)]
            with pytest.raises(StorageError, match="postgresql://"):
                result(reserve(store, session))
            with pytest.raises(StorageError):
                store.session("s")
        finally:
            postgres.start()
        assert [result(one) for one in waits] == [[2], [3], [4]]
        assert [line["arguments"]["q"] for line in lines(store)] == ["before", "0", "1", "2"]
        assert result(reserve(store, session)).remaining == {"calls": 45}
        postgres.stop()
        postgres.start()
        assert result(reserve(store, session)).remaining == {"calls": 44}, "connected again at once"


@pytest.mark.slow
def test_searches_answer_while_the_database_hangs(
    sample: Library,
    postgres: Postgres,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The same searches as while another process holds the file: each waits a quarter of a second, at most twice."""
    monkeypatch.setattr(module, "STATEMENT_SECONDS", 1.0)
    caplog.set_level(logging.DEBUG)
    with serving_in_thread(sample, sessions=url) as address:
        agent = Agent(address)
        assert agent.search().headers["X-ScholarBase-Call"] == "1"
        postgres.signal(signal.SIGSTOP)
        try:
            responses = [agent.search(f"{QUESTION} {number}") for number in range(4)]
            assert all(one.status_code == 200 for one in responses), responses
            assert all("X-ScholarBase-Call" not in one.headers for one in responses)
            failed = httpx.get(f"{address}/v1/sessions/{agent.name}", timeout=SECONDS)
            assert failed.status_code == 507
            assert PASSWORD not in failed.text
        finally:
            postgres.signal(signal.SIGCONT)
        wait_until(lambda: len(agent.http.get(f"/v1/sessions/{agent.name}").text.splitlines()) == 5)
        # The trajectory is in the order in which the agent searched.
        text = agent.http.get(f"/v1/sessions/{agent.name}").text
        asked = [json.loads(line)["arguments"]["q"] for line in text.splitlines()]
        assert asked == [QUESTION, *(f"{QUESTION} {number}" for number in range(4))]
    assert PASSWORD not in caplog.text
    assert QUOTED not in caplog.text


def test_commands_and_doctor_read_the_database(url: str) -> None:
    with SessionStore(url) as store:
        result(store.record(Session("s"), [a_call()]))
    assert "search_papers" in run_cli("session", "show", "s", "--sessions", url).stdout
    assert '"s"' in run_cli("session", "list", "--json", SCHOLARBASE_SESSIONS=url).stdout
    wrong = url.replace(QUOTED, "wr%2Fong")
    failed = run_cli("session", "list", "--sessions", wrong)
    assert failed.returncode == StorageError.exit_code
    assert "wr%2Fong" not in failed.stdout + failed.stderr
    settings = [load_settings(sessions=one) for one in (url, wrong, "mysql://x")]
    states = [doctor._finding("sessions", doctor._sessions, one) for one in settings]
    assert [one.state for one in states] == ["ok", "failed", "failed"]
    assert not any(QUOTED in one.detail for one in states)
    assert run_cli("session", "delete", "s", "--sessions", url).returncode == 0


@pytest.fixture(autouse=True)
def _no_threads_left() -> Iterator[None]:
    # A server of other tests in this process may have one.
    before = _writers()
    yield
    wait_until(lambda: _writers() <= before)


def _writers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "sessions"}
