"""Connections to SQLite databases, which one module opens."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from scholarbase.databases import open_for_reading, open_for_writing, open_immutable

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


def test_a_relative_path_and_one_that_is_not_utf_8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("relative.sqlite", b"latin-\xe9.sqlite".decode(errors="surrogateescape")):
        with closing(open_for_writing(Path(name))) as connection:
            connection.execute("CREATE TABLE t (a)")
        assert Path(name).is_file()
