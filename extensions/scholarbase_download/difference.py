"""The difference of two libraries: papers and citations that were added, removed and changed.

The integer ids of two libraries are unrelated. Papers are paired by corpus id, else by arXiv id, else by another id;
each is paired with one at most, so that the old papers less the removed ones plus the added ones are the new papers.
SQLite joins the catalogues by their indexes. The pairs are in a temporary file of some 40 bytes a paper, and memory
does not grow with the libraries.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import orjson

from scholarbase.databases import attach_immutable
from scholarbase.indexes.catalog import FILE_NAME, Catalog, canonical_id, id_columns
from scholarbase.manifest import read_manifest

Kind = Literal["paper", "edge"]
What = Literal["added", "removed", "changed"]

_INTERNAL: Final = frozenset({"id", "title_hash", "main_title_hash", "first_day", "last_day", "venue_key"})
"""Columns of a paper that are derived from others, or mean something only in their library."""
_EDGE_FIELDS: Final = ("is_influential", "contexts", "intents")
_MATCHES: Final = """
CREATE TEMP TABLE {target} (own INTEGER PRIMARY KEY, other INTEGER);
INSERT INTO {target} SELECT p.id, coalesce(
    (SELECT q.id FROM {other}.papers q WHERE q.corpus_id = p.corpus_id),
    (SELECT q.id FROM {other}.papers q WHERE q.arxiv_id = p.arxiv_id),
    (
        SELECT min(a.paper_id) FROM json_each(p.external_ids) name
        CROSS JOIN {other}.aliases a ON a.scheme = name.key AND a.value = name.value
        WHERE name.key <> 'Key'
    )
) FROM {own}.papers p ORDER BY p.id;
"""
_PAIRS: Final = """
CREATE TEMP TABLE pairs (old INTEGER PRIMARY KEY, new INTEGER NOT NULL);
INSERT INTO pairs
    SELECT f.own, f.other FROM forwards f JOIN backwards b ON b.own = f.other AND b.other = f.own ORDER BY f.own;
CREATE UNIQUE INDEX temp.pairs_by_new ON pairs (new, old);
DROP TABLE forwards;
DROP TABLE backwards;
"""


@dataclass(frozen=True, slots=True)
class Change:
    """One difference.

    Args:
        ids: the paper's id, or those of the citing and the cited paper: in the new library, or if removed in the old.
        fields: what differs, if changed.
    """

    kind: Kind
    what: What
    ids: tuple[str, ...]
    fields: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        names = ("id",) if self.kind == "paper" else ("citing", "cited")
        about: dict[str, Any] = {
            "kind": self.kind,
            "change": self.what,
            **dict(zip(names, self.ids, strict=True)),
        }
        return about | {"fields": self.fields} if self.fields else about


def differences(old: Path, new: Path) -> Iterator[Change]:
    """The changes from one library to another: papers that were removed, in the old library's order; those that were
    added and changed, in the new one's; then the same of citations.

    Raises:
        LibraryNotFound, LibraryCorrupt: one is not a library, or is damaged.
        StorageError: the pairs need more space than there is.
    """
    snapshots = {read_manifest(path)[1] for path in (old, new)}
    if len(snapshots) == 1:
        return
    with (
        closing(Catalog(new / FILE_NAME, readers=1)),  # checks it
        closing(Catalog(old / FILE_NAME, readers=1)) as papers,
        papers.reading() as db,
    ):
        attach_immutable(db, new / FILE_NAME, "new")
        db.executescript(_MATCHES.format(target="forwards", own="main", other="new"))
        db.executescript(_MATCHES.format(target="backwards", own="new", other="main"))
        db.executescript(_PAIRS)
        yield from _single_papers(db, "removed")
        yield from _single_papers(db, "added")
        yield from _changed_papers(db)
        yield from _single_edges(db, "removed")
        yield from _single_edges(db, "added")
        yield from _changed_edges(db)


def _single_papers(db: sqlite3.Connection, what: Literal["removed", "added"]) -> Iterator[Change]:
    """The papers of one library that have no pair."""
    schema, column = _side(what)
    query = f"""
        SELECT {id_columns("p")} FROM {schema}.papers p
        WHERE NOT EXISTS (SELECT 1 FROM pairs WHERE {column} = p.id) ORDER BY p.id
        """
    return (Change("paper", what, (canonical_id(*row),)) for row in db.execute(query))


def _changed_papers(db: sqlite3.Connection) -> Iterator[Change]:
    columns = [row[1] for row in db.execute("PRAGMA new.table_info(papers)")]
    before = {row[1] for row in db.execute("PRAGMA main.table_info(papers)")}
    compared = [name for name in columns if name in before and name not in _INTERNAL and name != "details"]
    conditions = [f"o.{name} IS NOT n.{name}" for name in (*compared, "details")] + [
        "oa.abstract IS NOT na.abstract"
    ]
    query = f"""
        SELECT {id_columns("n")}, o.details, n.details, {", ".join(conditions)}
        FROM new.papers n
        CROSS JOIN pairs ON pairs.new = n.id
        CROSS JOIN main.papers o ON o.id = pairs.old
        LEFT JOIN main.abstracts oa ON oa.paper_id = o.id
        LEFT JOIN new.abstracts na ON na.paper_id = n.id
        WHERE {" OR ".join(conditions)} ORDER BY n.id
        """
    for row in db.execute(query):
        name, details, differs = row[:3], row[3:5], row[5:]
        fields = [
            column
            for column, is_different in zip((*compared, "", "abstract"), differs, strict=True)
            if is_different and column
        ]
        if details[0] != details[1]:
            fields += _changed_keys(*details)
        if fields:
            yield Change("paper", "changed", (canonical_id(*name),), tuple(sorted(fields)))


def _changed_keys(old: str | None, new: str | None) -> list[str]:
    before, after = (orjson.loads(details) if details else {} for details in (old, new))
    return [key for key in {*before, *after} if before.get(key) != after.get(key)]


def _single_edges(db: sqlite3.Connection, what: Literal["removed", "added"]) -> Iterator[Change]:
    """The citations of one library that the other does not have."""
    schema, side = _side(what)
    other_schema, other = ("new", "new") if what == "removed" else ("main", "old")
    query = f"""
        SELECT {id_columns("p")}, {id_columns("q")} FROM {schema}.edges e
        LEFT JOIN pairs a ON a.{side} = e.citing
        LEFT JOIN pairs b ON b.{side} = e.cited
        LEFT JOIN {other_schema}.edges f ON f.citing = a.{other} AND f.cited = b.{other}
        LEFT JOIN {schema}.papers p ON p.id = e.citing
        LEFT JOIN {schema}.papers q ON q.id = e.cited
        WHERE f.citing IS NULL ORDER BY e.citing, e.cited
        """
    return (
        Change("edge", what, (canonical_id(*row[:3]), canonical_id(*row[3:]))) for row in db.execute(query)
    )


def _changed_edges(db: sqlite3.Connection) -> Iterator[Change]:
    conditions = [f"e.{name} IS NOT f.{name}" for name in _EDGE_FIELDS]
    query = f"""
        SELECT {id_columns("p")}, {id_columns("q")}, {", ".join(conditions)} FROM new.edges e
        CROSS JOIN pairs a ON a.new = e.citing
        CROSS JOIN pairs b ON b.new = e.cited
        CROSS JOIN main.edges f ON f.citing = a.old AND f.cited = b.old
        CROSS JOIN new.papers p ON p.id = e.citing
        CROSS JOIN new.papers q ON q.id = e.cited
        WHERE {" OR ".join(conditions)} ORDER BY e.citing, e.cited
        """
    for row in db.execute(query):
        fields = tuple(name for name, is_different in zip(_EDGE_FIELDS, row[6:], strict=True) if is_different)
        yield Change("edge", "changed", (canonical_id(*row[:3]), canonical_id(*row[3:6])), fields)


def _side(what: Literal["removed", "added"]) -> tuple[str, str]:
    """The schema of the library that has what was removed or added, and its column in the pairs."""
    return ("main", "old") if what == "removed" else ("new", "new")
