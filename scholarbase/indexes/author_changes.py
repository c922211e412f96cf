"""Changes the index of authors where papers changed, instead of deriving all of it again.

Authors keep their numbers, and new ones get the next: nothing that a search shows depends on them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import orjson

from scholarbase.indexes import author_names
from scholarbase.indexes.author_index import mentions
from scholarbase.models.limits import MAX_NAME_LENGTH

_AT_ONCE: Final = 500


class _Author(NamedTuple):
    number: int
    papers: set[int]


def change_authors(
    old: sqlite3.Connection, db: sqlite3.Connection, author_ids: Iterable[str], papers: set[int]
) -> int:
    """Make the index right for these authors, and return their number. The caller commits.

    Args:
        old: the catalogue before the changes.
        db: the catalogue, whose papers and details of authors have changed, but not its index of authors.
        author_ids: all authors of the changed papers, before and after, and those whose details changed.
        papers: the papers whose authors or counts of citations changed.
    """
    ids = sorted(author_ids)
    written = _written(db, papers)
    last = int(db.execute("SELECT coalesce(max(author), 0) FROM author_names").fetchone()[0])
    for start in range(0, len(ids), _AT_ONCE):
        some = ids[start : start + _AT_ONCE]
        before = _held(old, some)
        after = {
            key: _Author(author.number, (author.papers - papers) | written.get(key, set()))
            for key, author in before.items()
        }
        for key in some:
            if key not in after and written.get(key):
                last += 1
                after[key] = _Author(last, written[key])
        old_terms = _terms(old, {key: author for key, author in before.items() if author.papers})
        _remove(db, before, old_terms)
        held = {key: author for key, author in after.items() if author.papers}
        for key, (name, terms) in _terms(db, held).items():
            author = held[key]
            counts = db.execute(
                "SELECT count(*), sum(citation_count) FROM papers WHERE id IN (SELECT value FROM json_each(?))",
                (_listed(author.papers),),
            ).fetchone()
            db.execute(
                "INSERT INTO author_names VALUES (?, ?, ?, ?, ?)",
                (author.number, key, name[:MAX_NAME_LENGTH], *counts),
            )
            db.executemany(
                "INSERT INTO author_papers VALUES (?, ?)",
                [(author.number, paper) for paper in sorted(author.papers)],
            )
            db.execute("INSERT INTO author_words (rowid, terms) VALUES (?, ?)", (author.number, terms))
    return len(ids)


def _written(db: sqlite3.Connection, papers: set[int]) -> dict[str, set[int]]:
    """The changed papers of each author, as they are now."""
    found: dict[str, set[int]] = {}
    ordered = sorted(papers)
    for start in range(0, len(ordered), _AT_ONCE):
        rows = db.execute(
            """
            SELECT id, authors FROM papers
            WHERE authors IS NOT NULL AND id IN (SELECT value FROM json_each(?))
            """,
            (_listed(ordered[start : start + _AT_ONCE]),),
        )
        for paper, authors in rows:
            for key in mentions(authors):
                found.setdefault(key, set()).add(paper)
    return found


def _held(db: sqlite3.Connection, ids: Sequence[str]) -> dict[str, _Author]:
    """The authors that the index has, with their papers."""
    rows = db.execute(
        """
        SELECT n.author_id, n.author, p.paper FROM json_each(?) AS wanted
        CROSS JOIN author_names AS n ON n.author_id = wanted.value
        CROSS JOIN author_papers AS p ON p.author = n.author
        """,
        (orjson.dumps(list(ids)).decode(),),
    )
    found: dict[str, _Author] = {}
    for key, number, paper in rows:
        found.setdefault(key, _Author(number, set())).papers.add(paper)
    return found


def _terms(db: sqlite3.Connection, authors: Mapping[str, _Author]) -> dict[str, tuple[str, str]]:
    """The name of each author, and the terms of all names."""
    first_papers = {min(author.papers) for author in authors.values()}
    named = {
        paper: mentions(names)
        for paper, names in db.execute(
            "SELECT id, authors FROM papers WHERE id IN (SELECT value FROM json_each(?))",
            (_listed(first_papers),),
        )
    }
    details = _details(db, list(authors))
    found = {}
    for key, author in authors.items():
        first = named[min(author.papers)][key]
        name, aliases = details.get(key, (first, ()))
        found[key] = name, author_names.terms((name, first, *aliases))
    return found


def _details(db: sqlite3.Connection, ids: Sequence[str]) -> dict[str, tuple[str, Sequence[str]]]:
    rows = db.execute(
        "SELECT author_id, name, aliases FROM authors WHERE author_id IN (SELECT value FROM json_each(?))",
        (orjson.dumps(list(ids)).decode(),),
    )
    return {key: (name, orjson.loads(aliases)) for key, name, aliases in rows}


def _remove(
    db: sqlite3.Connection, authors: Mapping[str, _Author], terms: Mapping[str, tuple[str, str]]
) -> None:
    """Remove authors. FTS5 must be given their terms, since a contentless table does not store them
    (https://sqlite.org/fts5.html#the_delete_command)."""
    for key, author in authors.items():
        db.execute(
            "INSERT INTO author_words (author_words, rowid, terms) VALUES ('delete', ?, ?)",
            (author.number, terms[key][1]),
        )
        db.execute("DELETE FROM author_papers WHERE author = ?", (author.number,))
        db.execute("DELETE FROM author_names WHERE author = ?", (author.number,))


def _listed(numbers: Iterable[int]) -> str:
    return orjson.dumps(sorted(numbers)).decode()
