"""Connections to SQLite databases, which one module opens."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from contextvars import copy_context
from pathlib import Path
from time import monotonic

import pytest

from scholarbase.databases import ReadPool, open_for_reading, open_for_writing, open_immutable, small_cache
from scholarbase.deadlines import DEADLINE, Deadline, check, time_limit
from scholarbase.errors import Cancelled, LibraryError, TimeLimit

PACKAGE = Path(__file__).parent.parent / "scholarbase"


def test_only_one_module_connects_to_sqlite() -> None:
    connecting = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if "sqlite3.connect(" in path.read_text()
    }
    assert connecting == {"databases.py"}


def test_connections_for_reading_cannot_write_or_create(tmp_path: Path) -> None:
    path = tmp_path / "50% of #1? é & more.sqlite"
    for opened in (open_immutable, open_for_reading):
        with pytest.raises(sqlite3.OperationalError, match="unable to open"):
            opened(path)
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        open_for_writing(path, create=False)
    with closing(open_for_writing(path)) as connection:
        connection.execute("CREATE TABLE t (a)")
    for opened in (open_immutable, open_for_reading):
        with closing(opened(path)) as connection:
            with pytest.raises(sqlite3.OperationalError, match="readonly"):
                connection.execute("INSERT INTO t VALUES (1)")
            assert connection.execute("SELECT * FROM t").fetchall() == []
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_reading_beside_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "written.sqlite"
    with closing(open_for_writing(path)) as writer, closing(open_for_reading(path)) as reader:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("CREATE TABLE t (a)")
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("INSERT INTO t VALUES (1)")
        assert reader.execute("SELECT * FROM t").fetchall() == []
        writer.execute("COMMIT")
        assert reader.execute("SELECT * FROM t").fetchall() == [(1,)]


def test_a_small_cache_is_for_a_while(tmp_path: Path) -> None:
    with closing(open_for_writing(tmp_path / "t.sqlite")) as db:
        db.execute("PRAGMA cache_size = -65536")
        for error in (None, ValueError()):
            with suppress(ValueError), small_cache(db):
                [inside] = db.execute("PRAGMA cache_size").fetchone()
                if error is not None:
                    raise error
            assert -10_000 < inside < 0
            assert db.execute("PRAGMA cache_size").fetchone() == (-65536,)


def test_a_relative_path_and_one_that_is_not_utf_8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("relative.sqlite", b"latin-\xe9.sqlite".decode(errors="surrogateescape")):
        with closing(open_for_writing(Path(name))) as connection:
            connection.execute("CREATE TABLE t (a)")
        assert Path(name).is_file()


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
WORK = ("The count", "count less")


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[ReadPool]:
    path = tmp_path / "t.sqlite"
    with closing(open_for_writing(path)) as connection:
        connection.execute("CREATE TABLE t (a)")
    pool = ReadPool(path, 2, open_immutable)
    yield pool
    pool.close()


def test_a_statement_without_end_is_stopped_at_the_time_limit(pool: ReadPool) -> None:
    for _ in range(2):  # the connection can be used again
        with (
            time_limit(0.05),
            pytest.raises(
                TimeLimit, match=r"The count was stopped at the time limit of 0.05 s: count less\."
            ),
            pool.lend(*WORK) as connection,
        ):
            connection.execute(ENDLESS).fetchall()
    with time_limit(60), pool.lend(*WORK) as connection:
        assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_statements_without_a_limit_are_not_stopped_by_those_of_others(pool: ReadPool) -> None:
    counting = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 2000000) SELECT count(*) FROM n"
    )
    with pool.lend(*WORK) as unlimited, ThreadPoolExecutor(1) as thread:
        result = thread.submit(lambda: unlimited.execute(counting).fetchall())
        for _ in range(3):
            with time_limit(0.03), pytest.raises(TimeLimit), pool.lend(*WORK) as connection:
                connection.execute(ENDLESS).fetchall()
        assert result.result(60) == [(2_000_000,)]


def test_a_cancelled_statement_ends(pool: ReadPool) -> None:
    deadline = Deadline(3600, monotonic() + 3600)
    running = threading.Event()

    def count() -> None:
        DEADLINE.set(deadline)
        with pool.lend(*WORK) as connection:
            connection.set_progress_handler(running.set, 1000)
            connection.execute(ENDLESS).fetchall()

    with ThreadPoolExecutor(1) as thread:
        result = thread.submit(copy_context().run, count)
        assert running.wait(60)
        deadline.cancel()
        with pytest.raises(Cancelled, match="The count was cancelled"):
            result.result(60)


def test_a_thread_waits_for_a_free_connection_until_its_deadline(pool: ReadPool) -> None:
    with pool.lend(*WORK) as first, pool.lend(*WORK) as second:
        with time_limit(0.05), pytest.raises(TimeLimit), pool.lend(*WORK):
            pass

        def lent() -> sqlite3.Connection:
            with pool.lend(*WORK) as connection:
                return connection

        thread = ThreadPoolExecutor(1)
        waiting = thread.submit(lent)
        assert first is not second
    assert waiting.result(60) in (first, second)
    thread.shutdown()


def test_a_closed_pool_lends_nothing(pool: ReadPool) -> None:
    pool.close()
    with pytest.raises(LibraryError, match="is closed"), pool.lend(*WORK):
        pass


def test_the_time_limit_is_that_of_the_context() -> None:
    check("The search", "search less")
    with time_limit(3600) as outer:
        check("The search", "search less")
        with time_limit(-1), pytest.raises(TimeLimit, match="The search was stopped"):
            check("The search", "search less")
        assert DEADLINE.get() is outer
        with time_limit(None) as same, time_limit(7200) as longer:
            assert same is longer is outer
        with time_limit(1800):
            assert outer is not None
            outer.cancel()
            with pytest.raises(Cancelled):
                check("The search", "search less")
    assert DEADLINE.get() is None
