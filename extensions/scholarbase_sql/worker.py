"""The worker that runs SQL statements, one at a time. It is killed when a statement takes too long.

Limits of the process: address space, no bytes in files, and a lower priority. Limits of SQLite: read-only files, an
authorizer with a list of what is allowed, the size of values, statements, expressions and all its memory
(https://sqlite.org/security.html).
"""

from __future__ import annotations

import math
import os
import resource
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import orjson

from scholarbase.databases import attach_immutable, open_immutable, open_memory
from scholarbase.documents.schema import decompress
from scholarbase.errors import InvalidRequest, InvalidSql
from scholarbase.identifiers import parse
from scholarbase.indexes import catalog
from scholarbase.indexes.catalog import canonical_id, find, id_columns
from scholarbase.memory import limit_process
from scholarbase.workers import Send, requests, work
from scholarbase_sql import dialect, views

HEAP_BYTES: Final = 256 << 20
"""Memory of SQLite: its cache, sorting and values."""
ADDRESS_BYTES: Final = 1 << 30
"""Address space of the process."""
VALUE_BYTES: Final = 16 << 20
"""The longest value of a statement: the text of a long book."""
CELL_CHARACTERS: Final = 50_000
"""Characters of a value in a response. Longer ones are cut."""
RESPONSE_BYTES: Final = 1_000_000
"""Bytes of the rows of a response as JSON."""
COLUMNS: Final = 200
NICE: Final = 5
"""How far the priority is lowered, so that other requests come first."""
_CACHED_TEXTS: Final = 4
TOO_MUCH_MEMORY: Final = (
    f"The statement needs more than {HEAP_BYTES >> 20} MB of memory: select fewer rows and columns, cut texts with "
    "substr, or group and sort less at once."
)

_LIMITS: Final = {
    sqlite3.SQLITE_LIMIT_LENGTH: VALUE_BYTES,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_COLUMN: COLUMNS,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 250,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 100,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 100_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 100,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1000,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}

# fmt: off
FUNCTIONS: Final = frozenset({
    "abs", "avg", "ceil", "ceiling", "char", "coalesce", "concat", "contains", "count", "cume_dist",
    "date", "datetime", "dense_rank", "exp", "first_value", "floor", "format", "glob", "group_concat",
    "hex", "ifnull", "iif", "instr", "json", "json_array", "json_array_length", "json_extract",
    "json_group_array", "json_group_object", "json_object", "json_patch", "json_quote", "json_remove",
    "json_set", "json_type", "json_valid", "julianday", "lag", "last_value", "lead", "length", "like",
    "list_contains", "ln", "log", "log10", "log2", "lower", "ltrim", "max", "min", "mod", "nth_value",
    "ntile", "nullif", "paper_id", "percent_rank", "pi", "pow", "power", "printf", "quote", "radians",
    "rank", "regexp", "regexp_matches", "replace", "round", "row_number", "rtrim", "sign", "sqrt",
    "starts_with", "strftime", "substr", "substring", "sum", "time", "total", "trim", "trunc", "typeof",
    "unicode", "unixepoch", "upper", "->", "->>",
})
# fmt: on
"""The functions that statements may call."""
_DATES: Final = ("date", "datetime", "julianday", "strftime", "time", "unixepoch")
_MACHINES: Final = frozenset({"now", "localtime", "utc"})
"""Arguments of these functions that mean another time on another day or machine."""
_OF_VIEWS: Final = "document_text"
"""A function that only the views may call: a statement would read texts that its ``as_of`` excludes."""
_LISTS: Final = frozenset({"json_each", "json_tree"})
_REFUSED: Final = {
    sqlite3.SQLITE_ATTACH: "ATTACH is not available",
    sqlite3.SQLITE_DETACH: "DETACH is not available",
    sqlite3.SQLITE_PRAGMA: "PRAGMA is not available",
    sqlite3.SQLITE_INSERT: "INSERT is not available",
    sqlite3.SQLITE_UPDATE: "UPDATE is not available",
    sqlite3.SQLITE_DELETE: "DELETE is not available",
}


class Statements:
    """Runs statements on one connection.

    Args:
        catalogue: the catalogue of a library.
        texts: the database of its full texts.
        keys: the file of :func:`.sql.build_keys`.
    """

    def __init__(self, catalogue: Path, texts: Path, keys: Path) -> None:
        secret = secrets.token_hex(16)
        self._prefix = f"inner_{secret}"
        # No statement can name the databases. Their unqualified names come after those of the views.
        self._schemas = {name: f"{name}_{secret}" for name in ("catalogue", "texts", "keys")}
        self._inner = {views.inner_name(self._prefix, name) for name in views.NAMES}
        self._reason: str | None = None
        """Why the authorizer or a function refused the statement."""
        self._lookup = open_immutable(catalogue)
        self._connection = connection = open_memory()
        for name, path in (("catalogue", catalogue), ("texts", texts), ("keys", keys)):
            attach_immutable(connection, path, self._schemas[name])
        self._tables = {(self._schemas[schema], table) for schema, table in views.TABLES}
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        for pragma in (
            "temp_store = MEMORY",
            f"hard_heap_limit = {HEAP_BYTES}",
            *(f"{schema}.cache_size = -16384" for schema in self._schemas.values()),
            "trusted_schema = 0",
        ):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        self._add_functions(texts)
        self._day: int | None = None
        views.create(connection, self._prefix, self._schemas, None)
        for name in (
            _LISTS
        ):  # a table-valued function is declared at its first use, which the authorizer would refuse
            connection.execute(f"SELECT count(*) FROM {name}('[]')").fetchall()
        for limit, value in _LIMITS.items():
            connection.setlimit(limit, value)
        connection.execute("PRAGMA query_only = 1")
        connection.set_authorizer(self._authorize)

    @property
    def snapshot(self) -> str | None:
        """The snapshot id of the catalogue."""
        return catalog.read_meta(self._lookup, "snapshot")

    def run(self, query: str, limit: int, day: int | None) -> dict[str, Any]:
        """Run a statement.

        Args:
            limit: the most rows.
            day: only papers by this day, ``yyyymmdd``.

        Raises:
            InvalidSql: the statement is refused.
        """
        self._set_day(day)
        self._reason = None
        statement = dialect.prepared(query)
        cursor = None
        try:
            cursor = self._connection.execute(statement)
            columns = [column[0] for column in cursor.description or ()]
            return {"columns": columns, **_taken(iter(cursor.fetchone, None), limit)}
        except sqlite3.Error as error:
            raise InvalidSql(self._explained(error, query)) from error
        except sqlite3.Warning as error:  # several statements
            raise InvalidSql(f"{error} Send one SELECT statement at a time.") from error
        except MemoryError as error:
            raise InvalidSql(TOO_MUCH_MEMORY) from error
        except (ValueError, OverflowError, RecursionError) as error:
            raise InvalidSql(f"The statement cannot be run ({error}): simplify it.") from error
        finally:
            if cursor is not None:
                cursor.close()

    def _explained(self, error: sqlite3.Error, query: str) -> str:
        if self._reason is not None:
            return self._reason
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOMEM:
            return TOO_MUCH_MEMORY
        if str(error).startswith("Incorrect number of bindings"):
            return "Parameters are not available: write the value into the statement."
        return dialect.explained(str(error), query)

    def _set_day(self, day: int | None) -> None:
        if day == self._day:
            return
        self._connection.set_authorizer(None)
        self._connection.execute("PRAGMA query_only = 0")
        views.create(self._connection, self._prefix, self._schemas, day)
        self._connection.execute("PRAGMA query_only = 1")
        self._connection.set_authorizer(self._authorize)
        self._day = day

    # -- the authorizer ---------------------------------------------------------------------------------

    def _authorize(
        self, action: int, first: str | None, second: str | None, schema: str | None, view: str | None
    ) -> int:
        first, second = first or "", second or ""
        sentence = None
        if action == sqlite3.SQLITE_READ:
            if not self._may_read(first, second, schema, view):
                sentence = _no_view(first)
        elif action == sqlite3.SQLITE_FUNCTION:
            name = second.lower()
            if name == views.NO_VIEW and view is not None:
                sentence = _no_view(view)
            elif name not in FUNCTIONS and not (name == _OF_VIEWS and view in self._inner):
                sentence = dialect.refused_function(second)
        elif action == sqlite3.SQLITE_UPDATE and first == "sqlite_master":  # how SQLite opens a virtual table
            sentence = f"The statement reads what is not a view: the views are {', '.join(views.NAMES)}."
        elif action not in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
            what = _REFUSED.get(action, "The statement changes or inspects the database")
            sentence = f"{what}: the library is read-only, so send one SELECT."
        if sentence is None:
            return sqlite3.SQLITE_OK
        if self._reason is None:
            self._reason = sentence
        return sqlite3.SQLITE_DENY

    def _may_read(self, table: str, column: str, schema: str | None, view: str | None) -> bool:
        """Whether a statement may read a column of a table.

        Only the inner views, whose names it cannot know, read the columns of files: ``view`` may also be the name of a
        WITH clause, which it can choose. A read of no column, as for ``count(*)``, is reported without the view;
        without a schema it is that of a WITH clause or a view, since every table's name is that of a view too.
        """
        if not column and schema is None:
            return not table.lower().startswith("sqlite_")
        if table in _LISTS:
            return True
        if (view in self._inner or not column) and (schema, table) in self._tables:
            return True
        return schema == "temp" and (table in views.NAMES or (table in self._inner and view in views.NAMES))

    # -- functions --------------------------------------------------------------------------------------

    def _add_functions(self, texts: Path) -> None:
        add_text_function(self._connection, open_immutable(texts))
        for name, arguments, function in (
            ("paper_id", 1, self._paper_id),
            ("regexp_matches", 2, _matches),
            ("regexp", 2, lambda pattern, text: _matches(text, pattern)),
            ("list_contains", 2, _list_contains),
            ("contains", 2, lambda text, part: _text_test(text, part, lambda a, b: b in a)),
            ("starts_with", 2, lambda text, start: _text_test(text, start, str.startswith)),
        ):
            self._connection.create_function(name, arguments, self._reporting(function), deterministic=True)
        for name in _DATES:
            function = self._reporting(partial(self._date, name))
            self._connection.create_function(name, -1, function, deterministic=True)

    def _reporting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function whose error is that of the statement: SQLite has only a general message."""

        def call(*values: Any) -> Any:
            try:
                return function(*values)
            except MemoryError:
                self._reason = TOO_MUCH_MEMORY
                raise
            except InvalidRequest as error:
                self._reason = str(error)
                raise

        return call

    def _date(self, name: str, *values: Any) -> Any:
        """SQLite's function of dates, without those that depend on the clock or the time zone of this machine.

        SQLite reads bytes as text, and a text only up to a NUL (https://sqlite.org/lang_datefunc.html).
        """
        texts = [_written(value) for value in values]
        times = texts[name == "strftime" :]
        if not times or times[0].startswith("subsec") or not _MACHINES.isdisjoint(times):
            raise InvalidSql(
                f"{name} of the current time or in local time is not available, because a statement has the same "
                "result on any day: write the date, such as '2024-01-31'."
            )
        return self._lookup.execute(f"SELECT {name}({', '.join('?' * len(values))})", values).fetchone()[0]

    def _paper_id(self, text: Any) -> str | None:
        if text is None:
            return None
        identifier = parse(str(text), keys=True)
        number = find(self._lookup, [identifier]).get(identifier)
        if number is None:
            parse(str(text))  # raises for an unknown citation key without its prefix
        row = self._lookup.execute(
            f"SELECT {id_columns('p')} FROM papers p WHERE p.id = ? AND (?2 IS NULL OR p.last_day <= ?2)",
            (number, self._day),
        ).fetchone()
        return str(identifier) if row is None else canonical_id(*row)


def add_text_function(connection: sqlite3.Connection, texts: sqlite3.Connection) -> None:
    """Let the connection call ``document_text(document, start, end)``: a part of the text of a document, read with
    ``texts``; start and end may be null. The texts of the last documents stay in memory."""

    @lru_cache(_CACHED_TEXTS)
    def text_of(document: int) -> str | None:
        row = texts.execute("SELECT text FROM documents WHERE id = ?", (document,)).fetchone()
        return None if row is None else decompress(row[0])

    def document_text(document: int | None, start: int | None, end: int | None) -> str | None:
        text = None if document is None else text_of(document)
        return None if text is None else text[start:end]

    connection.create_function("document_text", 3, document_text, deterministic=True)


def _written(value: Any) -> str:
    """An argument as SQLite's functions of dates read it, in lower case."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return text.partition("\0")[0].lower()


def _no_view(name: str) -> str:
    return f"There is no view {name!r}: the views are {', '.join(views.NAMES)}."


def _matches(text: Any, pattern: Any) -> int | None:
    if text is None or pattern is None:
        return None
    try:
        re2 = import_module("re2")
    except ModuleNotFoundError:
        raise InvalidSql(
            "Regular expressions need the package google-re2, which is not installed: use LIKE or GLOB."
        ) from None
    options = re2.Options()
    options.log_errors = False
    try:
        return int(re2.search(str(pattern), str(text), options) is not None)
    except re2.error as error:
        reason = error.args[0].decode() if isinstance(error.args[0], bytes) else error.args[0]
        raise InvalidSql(
            f"{str(pattern)[:200]!r} is not a regular expression of RE2 ({reason}): correct it, or use LIKE."
        ) from error


def _list_contains(text: Any, value: Any) -> int | None:
    if text is None or value is None:
        return None
    try:
        items = orjson.loads(text) if isinstance(text, str) else None
    except orjson.JSONDecodeError:
        items = None
    if not isinstance(items, list):
        raise InvalidSql(f"list_contains needs a JSON list such as categories, not {str(text)[:80]!r}.")
    return int(value in items)


def _text_test(text: Any, other: Any, test: Callable[[str, str], bool]) -> int | None:
    return None if text is None or other is None else int(test(str(text), str(other)))


# -- responses ------------------------------------------------------------------------------------------


def _taken(rows: Iterator[tuple[Any, ...]], limit: int) -> dict[str, Any]:
    """The first rows, as many as a response may have."""
    taken: list[list[Any]] = []
    size = cut = 0
    truncated = False
    warnings = []
    for row in rows:
        if len(taken) == limit:
            truncated = True
            break
        cells, was_cut = _cells(row, CELL_CHARACTERS)
        row_bytes = len(orjson.dumps(cells))
        if not taken and row_bytes > RESPONSE_BYTES:
            cells, was_cut = _cells(row, max(10, RESPONSE_BYTES // (8 * len(row))))
            row_bytes = len(orjson.dumps(cells))
        if size + row_bytes > RESPONSE_BYTES:
            truncated = True
            warnings.append(
                f"The rows after the first {len(taken)} are left out, because the response would be larger than "
                f"{RESPONSE_BYTES:,} bytes: select fewer columns, or cut texts with substr."
            )
            break
        size += row_bytes
        cut += was_cut
        taken.append(cells)
    if cut:
        warnings.append(
            f"{cut} long value{'s end' if cut > 1 else ' ends'} early, with ...: read the parts with "
            "substr(text, start, length)."
        )
    return {"rows": taken, "truncated": truncated or bool(cut), "warnings": warnings}


def _cells(row: tuple[Any, ...], most: int) -> tuple[list[Any], int]:
    """The values of a row as JSON, and how many were cut."""
    cells = [_cell(value, most) for value in row]
    cut = sum(isinstance(cell, str) and len(cell) > most for cell in cells)
    return [
        cell[:most] + "..." if isinstance(cell, str) and len(cell) > most else cell for cell in cells
    ], cut


def _cell(value: Any, most: int) -> Any:
    if isinstance(value, bytes):
        return f"x'{value[:most].hex()}'"
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


# -- the process ----------------------------------------------------------------------------------------


def _serve(paths: dict[str, str], send: Send) -> None:
    """Run statements until the input ends, on the files of a job."""
    statements = Statements(*(Path(paths[name]) for name in ("catalogue", "texts", "keys")))
    limit_process(ADDRESS_BYTES)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    with suppress(OSError):
        os.nice(NICE)
    send(statements.snapshot)
    for request, _ in requests():
        try:
            response = statements.run(request["query"], request["limit"], request["day"])
        except InvalidSql as error:
            response = {"refused": str(error)}
        except MemoryError:
            response = {"refused": TOO_MUCH_MEMORY}
        send(response)


if __name__ == "__main__":
    work(_serve, outlives_thread=True)
