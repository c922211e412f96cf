"""The index of authors: who wrote which papers, and the words of their names.

==============  =======================================================================================
author_names    one row per author: the id, the name, and counts over the papers of the library
author_papers   the papers of each author
author_words    FTS5 over the terms of the names (:mod:`scholarbase.indexes.author_names`)
==============  =======================================================================================

An author is an id of the source, or else a normalized name. A full build numbers authors by their papers, most first,
then by id; an update (:func:`change_authors`) keeps the numbers and gives new authors the next ones. No answer depends
on them. All rows are derived from the papers and the details of authors, and ``scholarbase verify`` derives them again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from scholarbase.databases import json_list, open_for_writing
from scholarbase.errors import LibraryCorrupt
from scholarbase.indexes import author_names
from scholarbase.models.authors import NAMED
from scholarbase.models.limits import MAX_NAME_LENGTH

TABLES: Final = ("author_names", "author_papers", "author_words")

_WORDS: Final = "fts5(terms, content = '', columnsize = 0, detail = none, tokenize = 'ascii')"
SCHEMA: Final = f"""
CREATE TABLE IF NOT EXISTS author_names (
    author INTEGER PRIMARY KEY, author_id TEXT NOT NULL, name TEXT NOT NULL, paper_count INTEGER NOT NULL,
    citation_count INTEGER
);
CREATE TABLE IF NOT EXISTS author_papers (
    author INTEGER NOT NULL, paper INTEGER NOT NULL, PRIMARY KEY (author, paper)
) WITHOUT ROWID;
CREATE VIRTUAL TABLE IF NOT EXISTS author_words USING {_WORDS};
"""
"""A contentless FTS5 table (https://sqlite.org/fts5.html#contentless_tables) without positions: a third of the size."""
_INDEX: Final = "CREATE UNIQUE INDEX author_names_by_id ON author_names (author_id)"

_ROWS: Final = 5_000
_AT_ONCE: Final = 500
"""Authors, or papers, that an update reads at once."""
_CACHE: Final = "PRAGMA cache_size = -65536"
"""64 MB, which is also what sorting takes before it writes to files (https://sqlite.org/tempfiles.html)."""
_GROUPED: Final = """
INSERT INTO numbered (author_id, name, papers, citations)
SELECT author_id, name, papers, citations FROM (
    SELECT author_id, name, count(*) AS papers, sum(citations) AS citations, min(paper)
    FROM mentions GROUP BY author_id
) ORDER BY papers DESC, author_id
"""
"""The name is that of the first paper: https://sqlite.org/lang_select.html#bare_columns_in_an_aggregate_query."""


class AuthorIndex:
    """The rows of the index, derived from a catalogue's papers. Memory does not grow with the library: they are
    sorted in a temporary file."""

    def __init__(
        self, db: sqlite3.Connection, folder: Path, advance: Callable[[int], None] = lambda papers: None
    ) -> None:
        """
        Args:
            db: the catalogue.
            folder: an existing folder for the temporary file, empty at the start.
            advance: called with the number of papers read since the last call.
        """
        self._db = db
        self._advance = advance
        self._scratch = open_for_writing(folder / "authors.sqlite")
        for pragma in ("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", _CACHE):
            self._scratch.execute(pragma)

    def __enter__(self) -> AuthorIndex:
        try:
            self._scratch.execute("BEGIN")
            self._derive()
            self._scratch.execute("COMMIT")
        except BaseException:
            self._scratch.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._scratch.close()

    def _derive(self) -> None:
        self._scratch.execute("CREATE TABLE mentions (author_id TEXT, paper INT, name TEXT, citations INT)")
        for rows in self._mentions():
            self._scratch.executemany("INSERT INTO mentions VALUES (?, ?, ?, ?)", rows)
        self._scratch.execute(
            """
            CREATE TABLE numbered (
                author INTEGER PRIMARY KEY, author_id TEXT, name TEXT, papers INT, citations INT
            )
            """
        )
        self._scratch.execute(_GROUPED)
        self._scratch.execute("CREATE UNIQUE INDEX numbered_by_id ON numbered (author_id)")

    def _mentions(self) -> Iterator[list[tuple[str, int, str, int | None]]]:
        """The authors of each paper, in batches: an open read would block the checkpoints of a write-ahead log."""
        last = -1
        sql = """
            SELECT id, authors, citation_count FROM papers WHERE id > ? AND authors IS NOT NULL ORDER BY id LIMIT ?
        """
        while papers := self._db.execute(sql, (last, _ROWS)).fetchall():
            last = papers[-1][0]
            batch = []
            for paper, authors, citations in papers:
                batch += [(key, paper, name, citations) for key, name in mentions(authors).items()]
            yield batch
            self._advance(len(papers))

    @property
    def count(self) -> int:
        """The number of authors."""
        return int(self._scratch.execute("SELECT count(*) FROM numbered").fetchone()[0])

    def names(self, order: str = "author") -> Iterator[tuple[tuple[Any, ...], str]]:
        """The rows of ``author_names``, and the terms of each, by ``author`` or ``author_id``."""
        cursor = self._scratch.execute(
            f"SELECT author, author_id, name, papers, citations FROM numbered ORDER BY {order}"
        )
        while rows := cursor.fetchmany(_ROWS):
            details = _details(self._db, [row[1] for row in rows if not row[1].startswith(NAMED)])
            for author, author_id, first, papers, citations in rows:
                name, aliases = details.get(author_id, (first, ()))
                row = (author, author_id, name[:MAX_NAME_LENGTH], papers, citations)
                yield row, author_names.terms((name, first, *aliases))

    def papers(self) -> Iterator[tuple[int, int]]:
        """The rows of ``author_papers``, in order."""
        return self._scratch.execute(
            """
            SELECT n.author, m.paper FROM mentions AS m CROSS JOIN numbered AS n ON n.author_id = m.author_id
            ORDER BY n.author, m.paper
            """
        )

    def papers_by_id(self) -> Iterator[tuple[str, int]]:
        """The papers of each author, by the author's id."""
        return self._scratch.execute("SELECT author_id, paper FROM mentions ORDER BY author_id, paper")

    def write(self, advance: Callable[[int], None]) -> None:
        """Write the rows to the catalogue's empty tables. The caller commits. ``advance`` is called with the number of
        authors written since the last call."""
        rows = self.names()
        while batch := list(islice(rows, _ROWS)):
            self._db.executemany("INSERT INTO author_names VALUES (?, ?, ?, ?, ?)", [row for row, _ in batch])
            _insert_words(self._db, batch)
            advance(len(batch))
        self._db.executemany("INSERT INTO author_papers VALUES (?, ?)", self.papers())
        self._db.execute(_INDEX)
        self._db.execute("INSERT INTO author_words (author_words) VALUES ('optimize')")

    def check(self) -> int:
        """Compare the catalogue's rows with those derived, and return the number of authors.

        Authors are compared by their ids: after an update their numbers are others than those of a full build.

        Raises:
            LibraryCorrupt: a row differs.
        """
        self._scratch.execute(f"CREATE VIRTUAL TABLE author_words USING {_WORDS}")
        self._scratch.execute("BEGIN")
        total = 0
        stored = self._db.execute("SELECT * FROM author_names ORDER BY author_id")
        for row, derived in zip_longest(stored, self.names("author_id")):
            _compare("the author", row and row[1:], derived and derived[0][1:])
            _insert_words(self._scratch, [(row, derived[1])])
            total += 1
        self._scratch.execute("COMMIT")
        stored = self._db.execute(
            """
            SELECT n.author_id, p.paper FROM author_papers AS p LEFT JOIN author_names AS n ON n.author = p.author
            ORDER BY n.author_id, p.paper
            """
        )
        for row, pair in zip_longest(stored, self.papers_by_id()):
            _compare("the author and paper", row, pair)
        with (
            closing(_vocabulary(self._db)) as stored_terms,
            closing(_vocabulary(self._scratch)) as derived_terms,
        ):
            for row, counted in zip_longest(stored_terms, derived_terms):
                _compare("the word of authors' names", row, counted)
        return total


def mentions(authors: str) -> dict[str, str]:
    """The authors of a paper by their ids, each with the name that comes first; ``authors`` is the paper's column."""
    listed = reversed(orjson.loads(authors))
    return {author_id or author_names.name_id(name): name[:MAX_NAME_LENGTH] for name, author_id, *_ in listed}


def _insert_words(db: sqlite3.Connection, batch: list[tuple[tuple[Any, ...], str]]) -> None:
    db.executemany(
        "INSERT INTO author_words (rowid, terms) VALUES (?, ?)", [(row[0], terms) for row, terms in batch]
    )


def _vocabulary(db: sqlite3.Connection) -> sqlite3.Cursor:
    """Each term and author of the index (https://sqlite.org/fts5.html#the_fts5vocab_virtual_table_module)."""
    db.execute(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.author_terms USING fts5vocab(main, author_words, instance)"
    )
    return db.execute("SELECT term, doc FROM temp.author_terms")


def _compare(what: str, stored: object, derived: object) -> None:
    if stored != derived:
        raise LibraryCorrupt(
            f"The catalogue has {what} {_shown(stored)}, and the papers give {_shown(derived)}: restore the copy, or "
            "ingest again."
        )


def _shown(row: object) -> str:
    return "none" if row is None else repr(row)


# -- updates -----------------------------------------------------------------------------------------


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
        batch = ids[start : start + _AT_ONCE]
        before = _held(old, batch)
        after = {
            key: _Author(author.number, (author.papers - papers) | written.get(key, set()))
            for key, author in before.items()
        }
        for key in batch:
            if key not in after and written.get(key):
                last += 1
                after[key] = _Author(last, written[key])
        old_terms = _terms(old, {key: author for key, author in before.items() if author.papers})
        _remove(db, before, old_terms)
        kept = {key: author for key, author in after.items() if author.papers}
        for key, (name, terms) in _terms(db, kept).items():
            author = kept[key]
            counts = db.execute(
                "SELECT count(*), sum(citation_count) FROM papers WHERE id IN (SELECT value FROM json_each(?))",
                (json_list(author.papers),),
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
    changed: dict[str, set[int]] = {}
    ordered = sorted(papers)
    for start in range(0, len(ordered), _AT_ONCE):
        rows = db.execute(
            """
            SELECT id, authors FROM papers
            WHERE authors IS NOT NULL AND id IN (SELECT value FROM json_each(?))
            """,
            (json_list(ordered[start : start + _AT_ONCE]),),
        )
        for paper, authors in rows:
            for key in mentions(authors):
                changed.setdefault(key, set()).add(paper)
    return changed


def _held(db: sqlite3.Connection, ids: Sequence[str]) -> dict[str, _Author]:
    """The authors that the index has, with their papers."""
    rows = db.execute(
        """
        SELECT n.author_id, n.author, p.paper FROM json_each(?) AS wanted
        CROSS JOIN author_names AS n ON n.author_id = wanted.value
        CROSS JOIN author_papers AS p ON p.author = n.author
        """,
        (json_list(ids),),
    )
    authors: dict[str, _Author] = {}
    for key, number, paper in rows:
        authors.setdefault(key, _Author(number, set())).papers.add(paper)
    return authors


def _terms(db: sqlite3.Connection, authors: Mapping[str, _Author]) -> dict[str, tuple[str, str]]:
    """The name of each author, and the terms of all names."""
    first_papers = {min(author.papers) for author in authors.values()}
    named = {
        paper: mentions(names)
        for paper, names in db.execute(
            "SELECT id, authors FROM papers WHERE id IN (SELECT value FROM json_each(?))",
            (json_list(first_papers),),
        )
    }
    details = _details(db, list(authors))
    entries = {}
    for key, author in authors.items():
        first = named[min(author.papers)][key]
        name, aliases = details.get(key, (first, ()))
        entries[key] = name, author_names.terms((name, first, *aliases))
    return entries


def _details(db: sqlite3.Connection, ids: Sequence[str]) -> dict[str, tuple[str, Sequence[str]]]:
    rows = db.execute(
        "SELECT author_id, name, aliases FROM authors WHERE author_id IN (SELECT value FROM json_each(?))",
        (json_list(ids),),
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
