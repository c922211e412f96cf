"""The file of sessions: while it cannot be written, where it is damaged or deleted, and when it is closed."""

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from scholarbase.databases import open_for_reading
from scholarbase.errors import SessionsUnavailable, StorageError
from scholarbase.sessions import sqlite
from scholarbase.sessions import writer as module
from scholarbase.sessions.session import Limits, Session
from scholarbase.sessions.store import SessionStore
from scholarbase.sessions.writer import wait_for
from tests.conftest import ROOT
from tests.sessions.agents import wait_until
from tests.sessions.test_store import SOON, A, B, C, a_call, kept, lines, opened, reserve


def test_a_cancelled_reservation_counts_nothing(file_store: SessionStore) -> None:
    session = opened(file_store, limits=Limits(calls=2))
    with closing(sqlite3.connect(Path(file_store.name), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        file_store.record(session, [a_call()])  # the thread waits for the lock with this one
        with pytest.raises(StorageError, match=r"within 0\.2 seconds"):
            wait_for(reserve(file_store, session), 0.2)
        other.execute("COMMIT")
    assert reserve(file_store, session).result(SOON).remaining == {
        "calls": 0
    }  # of 2, one recorded and this one


def test_a_cancelled_operation_does_not_fail_again(tmp_path: Path) -> None:
    """set_running_or_notify_cancel was called twice on its future, which is an error, and ended the thread."""
    folder = tmp_path / "sessions"
    with SessionStore(folder) as store:
        session = opened(store, limits=Limits(calls=2))
        with closing(sqlite3.connect(Path(store.name), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            store.record(session, [a_call()])
            cancelled = reserve(store, session)
            assert cancelled.cancel()
            store.record(session, [a_call()])
            other.execute("DROP TABLE calls")
            other.execute("COMMIT")
        wait_until(lambda: isinstance(reserve(store, session).exception(SOON), StorageError))
        for file in folder.iterdir():
            file.unlink()
        assert store.record(session, [a_call()]).result(SOON) == [3]


def test_old_sessions_go_and_one_still_used_opens_again(tmp_path: Path) -> None:
    with SessionStore(tmp_path) as keeps:
        session = opened(keeps)
        opened(keeps, "fresh")
        kept(keeps, session, a_call(ids=(A,)), a_call(ids=(B,)))
        with closing(sqlite3.connect(Path(keeps.name))) as connection:
            connection.execute("UPDATE calls SET ended = 1577836800000000 WHERE session = 's'")
            connection.commit()
        with SessionStore(tmp_path, keep_days=30) as sweeps:
            opened(sweeps, "other")
            wait_until(lambda: len(keeps.sessions()[1]) == 2)
        assert {one.session.id for one in keeps.sessions()[1]} == {"fresh", "other"}
        assert kept(keeps, session, a_call(ids=(C,))) == [1]
        assert lines(keeps)[0]["ids"] == [C]


def test_a_folder_that_cannot_be_made(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "sessions"
    folder.write_text("in the way")
    with SessionStore(folder) as store:
        # It said to free disk space.
        with pytest.raises(StorageError, match=r"File exists.*\): set SCHOLARBASE_SESSIONS to another"):
            opened(store)
        session = store.find("s", "")
        futures = [store.record(session, [a_call(arguments={"q": str(i)})]) for i in range(5)]
        assert "Sessions cannot be written" in caplog.text
        folder.unlink()
        assert [future.result(SOON) for future in futures] == [[1], [2], [3], [4], [5]]
        assert [line["arguments"]["q"] for line in lines(store)] == list("01234")


@pytest.fixture
def small_disk(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """A file limited to so many pages, as on a disk of that size: change ``pages`` to make room."""
    room = {"pages": 40}

    def limited(connect: Callable[[Path, float], sqlite3.Connection]) -> Any:
        def connected(path: Path, seconds: float) -> sqlite3.Connection:
            connection = connect(path, seconds)
            connection.execute(f"PRAGMA max_page_count = {room['pages']}")
            return connection

        return connected

    monkeypatch.setattr(sqlite, "_connect", limited(sqlite._connect))
    return room


def test_a_full_disk_delays_calls_and_loses_none(
    file_store: SessionStore, small_disk: dict[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    session = opened(file_store)
    text = "x" * 5000
    # The disk stays full until all of these have returned: they do not wait for it.
    futures = [file_store.record(session, [a_call(arguments={"q": f"{i} {text}"})]) for i in range(100)]
    wait_until(lambda: "database or disk is full" in caplog.text)
    assert not futures[-1].done()
    small_disk["pages"] = 100_000
    assert [future.result(SOON) for future in futures] == [[i] for i in range(1, 101)]
    assert [line["arguments"]["q"].split()[0] for line in lines(file_store)] == [str(i) for i in range(100)]
    assert file_store.session("s").lost == 0


def test_calls_dropped_while_the_disk_is_full_are_counted(
    file_store: SessionStore, small_disk: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAITING_CALLS", 10)
    session = opened(file_store)
    kept(file_store, session, a_call())
    huge = "x" * 500_000
    futures = [file_store.record(session, [a_call(arguments={"q": huge})])]
    wait_until(lambda: file_store._writer._error is not None)
    futures += [file_store.record(session, [a_call(arguments={"q": huge})]) for _ in range(24)]
    assert [isinstance(future.exception(SOON), StorageError) for future in futures[10:]] == [True] * 15
    small_disk["pages"] = 100_000
    assert [future.result(SOON) for future in futures[:10]] == [[number] for number in range(2, 12)]
    wait_until(lambda: file_store.session("s").lost == 15)  # written with the next transaction


def test_calls_keep_their_order_behind_another_processes_transaction(file_store: SessionStore) -> None:
    session = opened(file_store)
    kept(file_store, session, a_call())
    with closing(sqlite3.connect(Path(file_store.name), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = [file_store.record(session, [a_call(arguments={"q": f"{n}"})]) for n in range(5)]
        assert file_store.session("s").calls == 1, "reading waits for no lock"
        assert not any(future.done() for future in waiting)
        other.execute("COMMIT")
    numbers = [future.result(SOON) for future in waiting]
    assert [*numbers, kept(file_store, session, a_call(arguments={"q": "5"}))] == [[n] for n in range(2, 8)]
    assert [line["arguments"]["q"] for line in lines(file_store)][1:] == [f"{n}" for n in range(6)]


def test_closing_writes_waiting_calls(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    session = opened(store)
    for _ in range(1000):
        store.record(session, [a_call()])
    store.close()
    with SessionStore(tmp_path) as again:
        assert [line["call"] for line in lines(again)] == list(range(1, 1001))


def test_closing_ends_while_the_file_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Requests were counted, not their calls, and not those that were dropped before."""
    monkeypatch.setattr(module, "WAITING_CALLS", 1)
    monkeypatch.setattr(module, "CLOSE_SECONDS", 0.5)
    folder = tmp_path / "sessions"
    folder.write_text("in the way")
    store = SessionStore(folder)
    futures = [store.record(Session("s"), [a_call()] * number) for number in (2, 3)]
    store.close()
    assert all(isinstance(future.exception(SOON), StorageError) for future in futures)
    assert "5 calls of sessions could not be written to" in caplog.text


def test_a_file_deleted_under_a_server_is_made_again(file_store: SessionStore) -> None:
    session = opened(file_store)
    kept(file_store, session, a_call(ids=(A,)))
    for file in Path(file_store.name).parent.iterdir():
        file.unlink()
    assert kept(file_store, session, a_call(ids=(B,)), a_call(ids=(C,))) == [1, 2]
    assert [line["ids"] for line in lines(file_store)] == [[B], [C]]


def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "sessions.sqlite"
    path.write_bytes(b"no database" * 1000)
    with SessionStore(tmp_path) as store:
        with pytest.raises(StorageError, match=r"sessions\.sqlite"):
            store.sessions()
        with pytest.raises(StorageError):
            opened(store)
        with pytest.raises(StorageError):
            store.find("s", "")  # it might have a date after which nothing exists
        waits = store.record(Session("s"), [a_call()])
        path.unlink()
        assert waits.result(SOON) == [1]
    assert "cannot be read" in caplog.text


def test_a_call_is_written_at_once_where_nothing_waits(file_store: SessionStore) -> None:
    session = opened(file_store)
    wait_until(lambda: file_store.record(session, [a_call()]).done())
    before = len(lines(file_store))
    written = file_store.record(session, [a_call()])
    assert written.done()
    assert written.result(0) == [before + 1] == [len(lines(file_store))]


def test_the_log_is_copied_to_the_file_as_calls_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHECKPOINT_OPERATIONS", 20)
    with SessionStore(tmp_path) as store:
        session = opened(store)
        kept(store, session, *[a_call() for _ in range(500)])

        def copied() -> bool:
            """Whether the file itself has most calls, without its write-ahead log."""
            (tmp_path / "copy.sqlite").write_bytes(Path(store.name).read_bytes())
            with closing(sqlite3.connect(f"file:{tmp_path / 'copy.sqlite'}?immutable=1", uri=True)) as copy:
                try:
                    [count] = copy.execute("SELECT count(*) FROM calls").fetchone()
                except sqlite3.DatabaseError:  # copied while pages were being written
                    return False
            return int(count) >= 400

        wait_until(copied)


LOCKED = """
import os, signal, sys
from pathlib import Path
from scholarbase.sessions.session import CallRecord
from scholarbase.sessions.store import SessionStore

store = SessionStore(Path(sys.argv[1]))
with store._storage.reading() as connection:
    connection.execute("SELECT count(*) FROM calls").fetchone()
    session = store.find("s", "")
    store.record(session, [CallRecord("search_papers", "search", {}, ())]).result()  # opens the file for writing
print("open", flush=True)
sys.stdin.readline()
for _ in range(4):
    store.record(session, [CallRecord("search_papers", "search", {}, ())]).result()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_file_opened_for_writing_while_it_was_read_lost_calls_at_a_kill(tmp_path: Path) -> None:
    """Closing a descriptor of the file released SQLite's locks on it, so that another process deleted the write-ahead
    log (https://sqlite.org/howtocorrupt.html, 2.2)."""
    with SessionStore(tmp_path) as store:
        kept(store, opened(store), a_call())
    with subprocess.Popen(
        [sys.executable, "-c", LOCKED, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        with SessionStore(tmp_path) as other:
            assert len(lines(other)) == 2
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.wait(SOON) == -signal.SIGKILL
    with SessionStore(tmp_path) as store:
        assert len(lines(store)) == 6


def test_a_long_question_is_not_stored_with_each_call(file_store: SessionStore) -> None:
    session = opened(file_store, query="\U0001f4da" * 10_000, query_id="\U0001f4da" * 10_000)
    kept(file_store, session, a_call(), a_call(error="\U0001f4da" * 10_000, ids=()))
    with closing(open_for_reading(Path(file_store.name))) as db:
        assert db.execute("SELECT max(length(line)) FROM calls").fetchone()[0] < 10_000
    assert {line["query"] for line in lines(file_store)} == {session.query}


def test_a_locked_file_said_to_free_disk_space_after_thirty_seconds(
    file_store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOCK_SECONDS", 0.05)
    session = opened(file_store)
    kept(file_store, session, a_call())
    with closing(sqlite3.connect(Path(file_store.name), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        refused = file_store.open(Session("another")).exception(SOON)
        assert isinstance(refused, SessionsUnavailable)
        assert str(refused).endswith(
            "sessions.sqlite cannot be read or written (database is locked): another process locks it, so retry when "
            "that has ended."
        )
        later = file_store.record(session, [a_call()])
        other.execute("COMMIT")
    assert later.result(SOON) == [2]
    wait_until(lambda: file_store._writer._error is None)
    assert file_store.open(Session("another")).result(SOON).id == "another"


def test_a_file_locked_for_readers_blocked_the_event_loop_for_thirty_seconds(tmp_path: Path) -> None:
    with SessionStore(tmp_path) as store:
        store.open(Session("s")).result(SOON)
    with closing(sqlite3.connect(tmp_path / "sessions.sqlite", isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN IMMEDIATE")
        with SessionStore(tmp_path) as store:
            with pytest.raises(SessionsUnavailable, match="another process locks it") as first:
                store.find("s", "")
            with pytest.raises(SessionsUnavailable) as second:
                store.find("s", "")
            assert second.value is first.value, "it read the file again at once"


def test_a_damaged_file_said_to_free_disk_space(tmp_path: Path) -> None:
    (tmp_path / "sessions.sqlite").write_bytes(b"no database " * 1000)
    with SessionStore(tmp_path) as store:
        refused = store.open(Session("s")).exception(SOON)
        assert isinstance(refused, SessionsUnavailable)
        assert "(file is not a database): it is damaged, so replace it by a backup" in str(refused)
        with pytest.raises(SessionsUnavailable, match="it is damaged"):
            store.find("s", "")


def test_sessions_of_version_1_stay(tmp_path: Path) -> None:
    with SessionStore(tmp_path) as store:
        for session in (Session("s", owner="k1"), Session("t")):
            store.record(session, [a_call()]).result(SOON)
    with closing(sqlite3.connect(tmp_path / "sessions.sqlite")) as file, file:
        file.execute("UPDATE sessions SET id = 's' WHERE id = 'k1/s'")
        file.execute("UPDATE calls SET session = 's' WHERE session = 'k1/s'")
        file.execute("PRAGMA user_version = 1")
    with SessionStore(tmp_path) as store:
        assert sorted(facts.session.key for facts in store.sessions()[1]) == ["k1/s", "t"]
        assert store.record(store.find("s", "k1"), [a_call()]).result(SOON) == [2]
        assert len(list(store.lines("k1/s"))) == 2


def test_rows_that_no_store_wrote_are_a_sentence(tmp_path: Path) -> None:
    """They ended in a traceback."""

    def read_all(store: SessionStore) -> None:
        store.sessions()
        list(store.lines("a"))

    with SessionStore(tmp_path) as store:
        store.open(Session("a")).result()
        store.record(Session("a"), [a_call()]).result()
    for change in (
        "UPDATE sessions SET limits = '[1]'",
        "UPDATE sessions SET limits = '{', opened_at = 1",
        "UPDATE sessions SET limits = '{}', opened_at = 'x'; UPDATE calls SET ended = 'x'",
        "UPDATE calls SET ended = 1, line = '{'",
        "UPDATE calls SET line = x'5b5d'",
    ):
        with closing(sqlite3.connect(tmp_path / "sessions.sqlite")) as file:
            file.executescript(change)
        with (
            SessionStore(tmp_path) as store,
            pytest.raises(StorageError, match="not as ScholarBase writes it"),
        ):
            read_all(store)


def test_a_file_in_the_folders_place_is_no_empty_list(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with SessionStore(tmp_path / "file") as store:
        with pytest.raises(
            StorageError, match=r"Not a directory.*set SCHOLARBASE_SESSIONS to another folder"
        ):
            store.sessions()
        assert store.find("a", "").id == "a"  # its calls can run
