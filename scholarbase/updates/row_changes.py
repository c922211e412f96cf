"""The rows of a catalogue that change: triggers store each as it was before its first change."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any, Final

import orjson

from scholarbase.indexes.content_hash import KEYS

_ROWS: Final = 2_000
Row = list[Any]


class RowChanges:
    """Records the changes of the content's tables from its creation on.

    The temporary table ``row_changes`` has the key of each row that was written, and the row before, NULL if there was
    none. https://sqlite.org/lang_createtrigger.html#temp_triggers_on_non_temp_tables
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.columns = {
            table: [row[1] for row in db.execute(f"PRAGMA table_info({table})")] for table in KEYS
        }
        db.execute(
            """
            CREATE TEMP TABLE row_changes (
                of_table TEXT NOT NULL, key TEXT NOT NULL, before TEXT, PRIMARY KEY (of_table, key)
            ) WITHOUT ROWID
            """
        )
        for table, key in KEYS.items():
            added, removed = (
                f"""
                INSERT INTO row_changes SELECT '{table}', {_json(key, side)}, {row} WHERE NOT EXISTS (
                    SELECT 1 FROM row_changes WHERE of_table = '{table}' AND key = {_json(key, side)}
                );
                """
                for side, row in (("NEW", "NULL"), ("OLD", _json(self.columns[table], "OLD")))
            )
            for event, steps in (("INSERT", added), ("DELETE", removed), ("UPDATE", removed + added)):
                db.execute(
                    f"CREATE TEMP TRIGGER {table}_{event} AFTER {event} ON main.{table} BEGIN {steps} END"
                )

    def __iter__(self) -> Iterator[tuple[str, Row | None, Row | None]]:
        """Each row that differs: its table, the row before and the row now, None where there is none."""
        for table, key in KEYS.items():
            same = " AND ".join(f"t.{column} = c.key ->> {position}" for position, column in enumerate(key))
            sql = f"""
                SELECT c.key, c.before, {self._now(table)} FROM row_changes AS c LEFT JOIN {table} AS t ON {same}
                WHERE c.of_table = ? AND c.key > ? ORDER BY c.key LIMIT ?
            """
            last = ""
            while rows := self._db.execute(sql, (table, last, _ROWS)).fetchall():
                last = rows[-1][0]
                yield from ((table, _row(before), _row(now)) for _, before, now in rows if before != now)

    def versions(self, table: str, keys: Iterable[int]) -> Iterator[tuple[Row | None, Row | None]]:
        """The rows with these keys before and now, changed or not, in their order."""
        rows = self._db.execute(
            f"""
            SELECT iif(c.key IS NULL, {self._now(table)}, c.before), {self._now(table)}
            FROM json_each(?) AS wanted LEFT JOIN {table} AS t ON t.{KEYS[table][0]} = wanted.value
            LEFT JOIN row_changes AS c ON c.of_table = ? AND c.key = json_array(wanted.value)
            ORDER BY wanted.key
            """,
            (orjson.dumps(list(keys)).decode(), table),
        )
        return ((_row(before), _row(now)) for before, now in rows.fetchall())

    def _now(self, table: str) -> str:
        return f"iif(t.{KEYS[table][0]} IS NULL, NULL, {_json(self.columns[table], 't')})"


def _json(columns: Iterable[str], of: str) -> str:
    return f"json_array({', '.join(f'{of}.{column}' for column in columns)})"


def _row(stored: str | None) -> Row | None:
    return None if stored is None else orjson.loads(stored)
