"""The citation keys of people's own files: ids with the scheme ``Key`` among the aliases.

Each entry has its key, and the key behind the name of its file (``refs.bib/smith2020``). A key of several papers names
none of them (:func:`.catalog.find`).
"""

from __future__ import annotations

import sqlite3
from typing import Final

from rapidfuzz import process
from rapidfuzz.distance import Indel

MAX_NEAR: Final = 3
"""Similar keys that an error shows."""
_MIN_SIMILARITY: Final = 0.75
"""``smith2020`` has 0.89 to ``smith2021`` and 0.82 to ``smith2020deep``."""
_MAX_COMPARED: Final = 200_000


def add(connection: sqlite3.Connection, paper: int, key: str) -> None:
    """Add a key of a paper."""
    connection.execute("INSERT OR IGNORE INTO aliases VALUES ('Key', ?, ?)", (key, paper))


def qualify(connection: sqlite3.Connection) -> None:
    """Show a key of several papers, in the ids of each, with the name of its file."""
    connection.execute(
        """
        WITH keys AS (SELECT value, paper_id FROM aliases WHERE scheme = 'Key'),
            repeated AS (SELECT value FROM keys GROUP BY value HAVING count(*) > 1)
        UPDATE papers SET external_ids = json_set(external_ids, '$.Key', coalesce(
            (
                SELECT min(k.value) FROM keys k
                WHERE k.paper_id = papers.id AND k.value NOT IN repeated
                AND substr(k.value, -1 - length(external_ids ->> 'Key')) = '/' || (external_ids ->> 'Key')
            ),
            external_ids ->> 'Key'
        ))
        WHERE id IN (SELECT paper_id FROM keys WHERE value IN repeated) AND external_ids ->> 'Key' IN repeated
        """
    )


def exist(connection: sqlite3.Connection) -> bool:
    """Whether any paper has a citation key."""
    return connection.execute("SELECT 1 FROM aliases WHERE scheme = 'Key' LIMIT 1").fetchone() is not None


_BY_DAY: Final = """
(?2 IS NULL OR EXISTS (SELECT 1 FROM papers p WHERE p.id = k.paper_id AND p.last_day <= ?2))
"""
"""The condition that the paper of an alias ``k`` had appeared by a day, if there is one."""


def sharing(connection: sqlite3.Connection, key: str, day: int | None = None) -> list[tuple[int, str | None]]:
    """The papers with a key, as of a day, and their keys with the name of a file, None where other papers share that
    too."""
    return connection.execute(
        f"""
        SELECT paper_id, (
            SELECT min(f.value) FROM aliases f
            WHERE f.paper_id = k.paper_id AND f.scheme = 'Key'
            AND substr(f.value, -1 - length(?1)) = '/' || ?1 AND NOT EXISTS (
                SELECT 1 FROM aliases o WHERE o.scheme = 'Key' AND o.value = f.value AND o.paper_id <> f.paper_id
            )
        ) FROM aliases k WHERE scheme = 'Key' AND value = ?1 AND {_BY_DAY} ORDER BY paper_id
        """,
        (key, day),
    ).fetchall()


def near(connection: sqlite3.Connection, key: str, day: int | None = None) -> list[str]:
    """Keys of papers, as of a day, similar to an unknown one, the most similar first: keys in another case come before
    the others."""
    rows = connection.execute(
        f"SELECT DISTINCT value FROM aliases k WHERE scheme = 'Key' AND {_BY_DAY} LIMIT ?1",
        (_MAX_COMPARED, day),
    )
    similar = process.extract(
        key,
        (value for (value,) in rows if "/" in key or "/" not in value),
        scorer=Indel.normalized_similarity,
        processor=str.casefold,
        limit=MAX_NEAR,
        score_cutoff=_MIN_SIMILARITY,
    )
    return [value for value, _, _ in similar]
