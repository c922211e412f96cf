"""The database of a construction: ``construction.sqlite``.

What costs time or money is a row as soon as it is known: rewrites, results of each source, citations of each seed,
verdicts. A question that was interrupted is computed again from these rows, and only what is missing is requested. Its
candidates and decisions are written in one transaction with the state ``done``.

Tables are ``WITHOUT ROWID`` and have no times, so a run that was killed has the same rows as one that was not.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson
from msgspec.structs import astuple

from scholarbase.databases import open_for_writing
from scholarbase.errors import ConstructionError, StorageError
from scholarbase.files import storage_errors
from scholarbase_research.construction.rewrites import Rewrite, Rewritten
from scholarbase_research.llm.base import Usage
from scholarbase_research.llm.judges import Verdict

FORMAT: Final = 1
_SCHEMA: Final = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE questions (
    question TEXT PRIMARY KEY, number INTEGER NOT NULL, text TEXT NOT NULL, date TEXT, state TEXT NOT NULL, stop TEXT
) WITHOUT ROWID;
CREATE TABLE known (question TEXT, paper TEXT, PRIMARY KEY (question, paper)) WITHOUT ROWID;
CREATE TABLE rewritten (
    question TEXT PRIMARY KEY, origin TEXT NOT NULL, prompt_hash TEXT, error TEXT, replies INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, uncounted INTEGER NOT NULL, model TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE rewrites (
    question TEXT, number INTEGER, kind TEXT NOT NULL, text TEXT NOT NULL, PRIMARY KEY (question, number)
) WITHOUT ROWID;
CREATE TABLE searches (
    question TEXT, rewrite INTEGER, source TEXT, PRIMARY KEY (question, rewrite, source)
) WITHOUT ROWID;
CREATE TABLE results (
    question TEXT, rewrite INTEGER, source TEXT, rank INTEGER, paper TEXT NOT NULL,
    PRIMARY KEY (question, rewrite, source, rank)
) WITHOUT ROWID;
CREATE TABLE plain (question TEXT, rank INTEGER, paper TEXT NOT NULL, PRIMARY KEY (question, rank)) WITHOUT ROWID;
CREATE TABLE expansions (
    question TEXT, seed TEXT, direction TEXT, hop INTEGER NOT NULL, total INTEGER NOT NULL, taken INTEGER NOT NULL,
    PRIMARY KEY (question, seed, direction)
) WITHOUT ROWID;
CREATE TABLE edges (
    question TEXT, seed TEXT, direction TEXT, rank INTEGER, paper TEXT NOT NULL,
    PRIMARY KEY (question, seed, direction, rank)
) WITHOUT ROWID;
CREATE TABLE verdicts (
    question TEXT, paper TEXT, round TEXT, judge TEXT, score REAL, reason TEXT NOT NULL, error TEXT,
    prompt_hash TEXT NOT NULL, replies INTEGER NOT NULL, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,
    uncounted INTEGER NOT NULL, PRIMARY KEY (question, paper, round, judge)
) WITHOUT ROWID;
CREATE TABLE candidates (
    question TEXT, paper TEXT, hop INTEGER NOT NULL, routes INTEGER NOT NULL, best_rank INTEGER, overlap REAL NOT NULL,
    kept INTEGER NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (question, paper)
) WITHOUT ROWID;
CREATE TABLE decisions (
    question TEXT, paper TEXT, score REAL, grade INTEGER, decision TEXT NOT NULL, flag TEXT NOT NULL,
    decided_by TEXT NOT NULL, position INTEGER NOT NULL, answer INTEGER NOT NULL, PRIMARY KEY (question, paper)
) WITHOUT ROWID;
"""


@contextmanager
def _database_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise StorageError(
            f"Cannot read or write {path} ({error}): free some disk space, or choose another --out."
        ) from error
    except sqlite3.DatabaseError as error:
        raise ConstructionError(f"{path} cannot be used ({error}): start again with --restart.") from error


VerdictKey = tuple[str, str, str]
"""Paper, round and judge."""


class Expansion(NamedTuple):
    """The papers that a seed cites or that cite it: ``total`` in the library, and those that were taken."""

    seed: str
    direction: str
    total: int
    papers: tuple[str, ...]


class Store:
    """The database at ``path``. Safe to share between threads; ``close`` it.

    Args:
        identity: what the rows depend on: questions, library, settings, judges.

    Raises:
        ConstructionError: the database is of other questions or settings, or is not one.
        StorageError: it cannot be written.
    """

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        self.path = path
        self._lock = threading.Lock()
        with storage_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        with _database_errors(path):
            self._connection = open_for_writing(path)
            try:
                self._open(identity)
            except BaseException:
                self._connection.close()
                raise

    def _open(self, identity: Mapping[str, Any]) -> None:
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        wanted = {
            name: orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
            for name, value in identity.items()
        }
        wanted["format"] = str(FORMAT)
        tables = {row[0] for row in self.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables:
            with self.transaction() as connection:
                for statement in _SCHEMA.split(";"):
                    connection.execute(statement)
                _insert(connection, "meta", sorted(wanted.items()))
            return
        stored = dict(self.rows("SELECT name, value FROM meta")) if "meta" in tables else {}
        differing = sorted(
            name for name in wanted.keys() | stored.keys() if wanted.get(name) != stored.get(name)
        )
        if differing:
            name = differing[0]
            raise ConstructionError(
                f"{self.path} is of another construction: its {name} is {str(stored.get(name))[:200]}, not "
                f"{str(wanted.get(name))[:200]}. Use another --out, or start again with --restart."
            )

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All statements of the block or none."""
        with self._lock, _database_errors(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # a full disk may have ended it
                    self._connection.execute("ROLLBACK")
                raise

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._lock, _database_errors(self.path):
            return self._connection.execute(sql, values).fetchall()

    def close(self) -> None:
        """Close the database. Its rows are then in one file."""
        with self._lock, _database_errors(self.path), closing(self._connection):
            self._connection.execute("PRAGMA journal_mode = DELETE")

    # -- questions ------------------------------------------------------------------------------------------

    def add_questions(
        self, rows: Iterable[tuple[str, int, str, str | None]], known: Iterable[tuple[str, str]]
    ) -> None:
        """The questions, and the known answers that the library holds. Rows that exist are kept."""
        with self.transaction() as connection:
            _insert(connection, "questions", [(*row, "open", None) for row in rows])
            _insert(connection, "known", known)

    def done(self) -> set[str]:
        return {row[0] for row in self.rows("SELECT question FROM questions WHERE state = 'done'")}

    def finish(
        self,
        question: str,
        stop: str,
        candidates: Sequence[tuple[Any, ...]],
        decisions: Sequence[tuple[Any, ...]],
    ) -> None:
        """Write what was derived for a question, and that it is done."""
        with self.transaction() as connection:
            for table, rows in (("candidates", candidates), ("decisions", decisions)):
                connection.execute(f"DELETE FROM {table} WHERE question = ?", (question,))
                _insert(connection, table, rows)
            connection.execute(
                "UPDATE questions SET state = 'done', stop = ? WHERE question = ?", (stop, question)
            )

    # -- what costs time or money ---------------------------------------------------------------------------

    def rewrites(self, question: str) -> list[Rewrite]:
        """The stored rewrites; empty where the question was not rewritten yet."""
        stored = self.rows(
            "SELECT number, kind, text FROM rewrites WHERE question = ? ORDER BY number", (question,)
        )
        return [Rewrite(*row) for row in stored]

    def add_rewrites(self, question: str, model: str, rewritten: Rewritten) -> None:
        about = (
            question,
            rewritten.origin,
            rewritten.prompt_hash,
            rewritten.error,
            *astuple(rewritten.usage),
            model,
        )
        with self.transaction() as connection:
            _insert(connection, "rewritten", [about])
            _insert(connection, "rewrites", [(question, *rewrite) for rewrite in rewritten.rewrites])

    def searched(self, question: str) -> set[tuple[Any, ...]]:
        """Rewrite and source of each stored search."""
        return set(self.rows("SELECT rewrite, source FROM searches WHERE question = ?", (question,)))

    def add_search(self, question: str, rewrite: int, source: str, papers: Sequence[str]) -> None:
        search = (question, rewrite, source)
        with self.transaction() as connection:
            _insert(connection, "searches", [search])
            _insert(connection, "results", [(*search, rank, paper) for rank, paper in enumerate(papers, 1)])

    def add_plain(self, question: str, papers: Sequence[str]) -> None:
        """One plain search of the same depth as the pool, to compare with."""
        with self.transaction() as connection:
            _insert(connection, "plain", [(question, rank, paper) for rank, paper in enumerate(papers, 1)])

    def results(self, question: str) -> list[tuple[Any, ...]]:
        """Rank and paper of each result."""
        return self.rows(
            "SELECT rank, paper FROM results WHERE question = ? ORDER BY rewrite, source, rank", (question,)
        )

    def expansions(self, question: str) -> dict[tuple[str, str], Expansion]:
        papers: dict[tuple[str, str], list[str]] = {}
        for seed, direction, paper in self.rows(
            "SELECT seed, direction, paper FROM edges WHERE question = ? ORDER BY seed, direction, rank",
            (question,),
        ):
            papers.setdefault((seed, direction), []).append(paper)
        return {
            (seed, direction): Expansion(seed, direction, total, tuple(papers.get((seed, direction), ())))
            for seed, direction, total in self.rows(
                "SELECT seed, direction, total FROM expansions WHERE question = ?", (question,)
            )
        }

    def add_expansion(self, question: str, hop: int, expansion: Expansion) -> None:
        key = (question, expansion.seed, expansion.direction)
        with self.transaction() as connection:
            _insert(connection, "expansions", [(*key, hop, expansion.total, len(expansion.papers))])
            _insert(
                connection, "edges", [(*key, rank, paper) for rank, paper in enumerate(expansion.papers, 1)]
            )

    def verdicts(self, question: str) -> dict[VerdictKey, Verdict]:
        return {
            (paper, turn, judge): Verdict(judge, score, reason, error, key, Usage(*used))
            for _, paper, turn, judge, score, reason, error, key, *used in self.rows(
                "SELECT * FROM verdicts WHERE question = ?", (question,)
            )
        }

    def add_verdict(self, question: str, paper: str, turn: str, verdict: Verdict) -> None:
        *facts, usage = astuple(verdict)
        with self.transaction() as connection:
            _insert(connection, "verdicts", [(question, paper, turn, *facts, *astuple(usage))])

    def usage(self) -> dict[str, Usage]:
        """What each model used so far."""
        total: dict[str, Usage] = {}
        for name_column, table in (("model", "rewritten"), ("judge", "verdicts")):
            sums = "SUM(replies), SUM(input_tokens), SUM(output_tokens), SUM(uncounted)"
            sql = f"SELECT {name_column}, {sums} FROM {table} GROUP BY 1"
            for name, *used in self.rows(sql):
                total[name] = total.get(name, Usage()) + Usage(*used)
        return {name: usage for name, usage in sorted(total.items()) if usage.replies}


def _insert(connection: sqlite3.Connection, table: str, rows: Iterable[Sequence[Any]]) -> None:
    """Add rows. A row whose key exists is left out."""
    for row in rows:
        connection.execute(f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * len(row))})", row)
