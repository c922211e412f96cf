"""The catalogue: papers by any of their names, out of a read-only SQLite file."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote

import orjson

from scholarbase.errors import LibraryCorrupt, LibraryError
from scholarbase.identifiers import Identifier
from scholarbase.indexes import citations, fulltext, titles
from scholarbase.indexes.filters import venue_key
from scholarbase.models.papers import Author, Paper
from scholarbase.models.responses import Citation

FILE_NAME: Final = "catalog.sqlite"

_COLUMNS: Final = {
    "id": "p.arxiv_id, p.corpus_id, iif(coalesce(p.arxiv_id, p.corpus_id) IS NULL, p.external_ids ->> 'Doc', NULL)",
    "corpus_id": "p.corpus_id",
    "external_ids": "p.external_ids",
    "title": "p.title",
    "abstract": "a.abstract",
    "tldr": "p.tldr",
    "authors": "p.authors",
    "year": "p.year",
    "publication_date": "p.publication_date",
    "venue": "p.venue",
    "categories": "p.categories",
    "citation_count": "p.citation_count",
    "reference_count": "p.reference_count",
    "url": "p.url",
}
"""The SQL that gives each field of a paper. ``id`` takes three columns; it always comes first."""
_LATER: Final = ("citation_count", "reference_count")
"""Fields that go on changing after a paper is out."""
_WITH_ABSTRACT: Final = "LEFT JOIN abstracts a ON a.paper_id = p.id"


class Catalog:
    """A catalogue open for reading, by a pool of connections that many threads share.

    The file is opened ``immutable``: SQLite takes no locks and looks for no journal, so it must not change
    while it is open (https://sqlite.org/uri.html#uriimmutable).
    """

    def __init__(self, path: Path, *, readers: int = 8) -> None:
        """
        Raises:
            LibraryCorrupt: the file is missing or is no catalogue.
        """
        self.path = path
        self._idle: deque[sqlite3.Connection] = deque()
        self._all: list[sqlite3.Connection] = []
        if not path.is_file():
            raise LibraryCorrupt(f"{path} is missing from the library: ingest it again, or restore the copy.")
        try:
            for _ in range(readers):
                connection = _connect(path)
                self._all.append(connection)
                self._idle.append(connection)
            self._all[0].execute("SELECT 1 FROM papers LIMIT 1").fetchone()
        except sqlite3.Error as error:
            self.close()
            raise LibraryCorrupt(f"{path} is no catalogue: {error}. Ingest the library again.") from error

    def close(self) -> None:
        """Close every connection. A second call does nothing."""
        for connection in self._all:
            connection.close()
        self._all.clear()

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """A connection for this thread alone until the block ends: one of the pool, or, when all of those are taken,
        a new one, so that a short question never waits for the long ones.

        Raises:
            LibraryCorrupt: SQLite fails inside the block.
            LibraryError: the catalogue is closed.
        """
        if not self._all:
            raise LibraryError(f"The catalogue {self.path} is closed: open the library again.")
        connection: sqlite3.Connection | None = None
        pooled = True
        try:
            try:
                connection = self._idle.pop()
            except IndexError:
                connection, pooled = _connect(self.path), False
            yield connection
        except sqlite3.DatabaseError as error:
            raise LibraryCorrupt(
                f'{self.path} cannot be read: {error}. Run "scholarbase verify" on the library.'
            ) from error
        finally:
            if connection is not None and pooled:
                self._idle.append(connection)
            elif connection is not None:
                connection.close()

    def meta(self, key: str) -> str | None:
        with self.connection() as connection:
            row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def resolve(self, identifiers: Sequence[Identifier]) -> list[int | None]:
        """The catalogue id of each identifier, None where the library does not hold it."""
        with self.connection() as connection:
            found = find(connection, identifiers)
        return [found.get(identifier) for identifier in identifiers]

    def last_id(self) -> int:
        """The greatest id of a paper, 0 in an empty library."""
        with self.connection() as connection:
            return int(connection.execute("SELECT coalesce(max(id), 0) FROM papers").fetchone()[0])

    def existing(self, ids: Sequence[int], day: int) -> set[int]:
        """Those of the papers that are certainly of the day ``yyyymmdd`` or before."""
        with self.connection() as connection:
            rows = connection.execute(
                """
                SELECT p.id FROM json_each(?) AS wanted CROSS JOIN papers AS p ON p.id = wanted.value
                WHERE p.last_day <= ?
                """,
                (orjson.dumps(list(ids)).decode(), day),
            ).fetchall()
        return {row[0] for row in rows}

    def any_by(self, day: int) -> int | None:
        """The last day of some paper that is certainly of the day ``yyyymmdd`` or before; None where there is none."""
        with self.connection() as connection:
            row = connection.execute(
                "SELECT last_day FROM papers WHERE last_day <= ? LIMIT 1", (day,)
            ).fetchone()
        return None if row is None else int(row[0])

    def first_day(self) -> int | None:
        """The least last day of a paper; None where no paper has a date."""
        with self.connection() as connection:
            return cast("int | None", connection.execute("SELECT min(last_day) FROM papers").fetchone()[0])

    def papers(self, ids: Sequence[int], fields: Sequence[str], *, counts: bool = True) -> list[Paper]:
        """The papers of these catalogue ids, in their order, with the requested fields; without ``counts`` those of
        citations and references are None.

        Raises:
            LibraryCorrupt: an id has no row, so an index and the catalogue disagree.
        """
        if not ids:
            return []
        columns, join, make = paper_reader(tuple(fields), counts)
        # The outer loop goes through the ids, so that the rows come in their order.
        sql = f"""
            SELECT {columns}
            FROM json_each(?) AS wanted CROSS JOIN papers p ON p.id = wanted.value {join}
        """
        with self.connection() as connection:
            rows = connection.execute(sql, (orjson.dumps(list(ids)).decode(),)).fetchall()
        if len(rows) != len(ids):
            found = {row[0] for row in rows}
            missing = next((paper_id for paper_id in ids if paper_id not in found), None)
            raise LibraryCorrupt(
                f"An index names paper {missing}, which {self.path} does not hold: "
                f'run "scholarbase verify" on the library.'
            )
        return list(map(make, rows))

    def matching_ids(self, expression, limit, filters):  # type: ignore
        with self.connection() as c:
            return fulltext.matching_ids(c, expression, limit, filters)

    def holding(self, expressions, ids):  # type: ignore
        with self.connection() as c:
            return fulltext.holding(c, expressions, ids)

    def search_text(self, expression, limit, filters, *, title_weight):  # type: ignore
        with self.connection() as c:
            return fulltext.search(c, expression, limit, filters, title_weight=title_weight)

    def count_text(self, expression, filters):  # type: ignore
        with self.connection() as c:
            return fulltext.count(c, expression, filters)

    def match_title(self, title, limit, min_score, filters):  # type: ignore
        with self.connection() as c:
            return titles.match(c, title, limit, min_score, filters)

    def count_edges(self, paper_id, direction, filters):  # type: ignore
        with self.connection() as c:
            return citations.count(c, paper_id, direction, filters)

    def few_edges(self, paper_id, direction):  # type: ignore
        with self.connection() as c:
            return citations.few(c, paper_id, direction)

    def expand(self, seeds, direction, hops, filters, limit, offset, *, as_of):  # type: ignore
        with self.connection() as c:
            return citations.expand(c, seeds, direction, hops, filters, limit, offset, as_of=as_of)

    def edges(self, paper_id, direction, limit, offset, sort, filters, *, fields, counts, at_most):  # type: ignore
        columns, join, make = paper_reader(tuple(fields), counts)
        with self.connection() as c:
            rows = citations.page(
                c,
                paper_id,
                direction,
                limit,
                offset,
                sort,
                filters,
                columns=columns,
                join=join,
                at_most=at_most,
            )
        return [Citation(make(e.paper), e.is_influential, e.contexts, e.intents) for e in rows]

    def venue_keys(self, names: Iterable[str]) -> tuple[str, ...]:
        """The keys under which papers of these venues may stand: the names given, and all names of every
        venue that goes by one of them. A paper keeps its source's spelling, which may be any of these."""
        keys = {venue_key(name) for name in names}
        if not keys:
            return ()
        with self.connection() as connection:
            rows = connection.execute(
                """
                SELECT name_key FROM venue_names WHERE venue_key IN (
                    SELECT venue_key FROM venue_names WHERE name_key IN (SELECT value FROM json_each(?))
                )
                """,
                (orjson.dumps(sorted(keys)).decode(),),
            ).fetchall()
        return tuple(sorted(keys | {row[0] for row in rows}))


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True, check_same_thread=False
    )
    connection.execute("PRAGMA query_only = 1")
    connection.execute("PRAGMA mmap_size = 1073741824")
    connection.execute("PRAGMA cache_size = -16384")
    return connection


def find(connection: sqlite3.Connection, identifiers: Iterable[Identifier]) -> dict[Identifier, int]:
    """The catalogue ids of those identifiers that are a paper's."""
    by_scheme: dict[str, set[str]] = {}
    for identifier in identifiers:
        by_scheme.setdefault(identifier.scheme, set()).add(identifier.value)
    return {
        Identifier(scheme, str(value)): paper_id
        for scheme, values in by_scheme.items()
        for value, paper_id in connection.execute(*_lookup(scheme, values))
    }


def _lookup(scheme: str, values: set[str]) -> tuple[str, tuple[str, ...]]:
    listed = orjson.dumps(sorted(values)).decode()
    if scheme == "arXiv":
        return "SELECT arxiv_id, id FROM papers WHERE arxiv_id IN (SELECT value FROM json_each(?))", (listed,)
    if scheme == "CorpusId":
        numbers = orjson.dumps(sorted(int(v) for v in values if int(v) < 2**63)).decode()
        # A paper may have other corpus ids besides its own: those are aliases.
        return (
            """
            SELECT corpus_id, id FROM papers WHERE corpus_id IN (SELECT value FROM json_each(?1))
            UNION ALL
            SELECT value, paper_id FROM aliases
            WHERE scheme = 'CorpusId' AND value IN (SELECT CAST(value AS TEXT) FROM json_each(?1))
            """,
            (numbers,),
        )
    return (
        "SELECT value, paper_id FROM aliases WHERE scheme = ? AND value IN (SELECT value FROM json_each(?))",
        (scheme, listed),
    )


def canonical_id(arxiv_id: str | None, corpus_id: int | None, document_id: str | None = None) -> str:
    """The one id by which answers name a paper: arXiv's where it has one, else the corpus id, else the id that a
    collection gave its document."""
    if arxiv_id is not None:
        return f"arXiv:{arxiv_id}"
    return f"CorpusId:{corpus_id}" if corpus_id is not None else f"Doc:{document_id}"


@lru_cache(maxsize=256)
def paper_reader(
    fields: tuple[str, ...], counts: bool = True
) -> tuple[str, str, Callable[[Sequence[Any]], Paper]]:
    """How papers with these fields are read: the columns of ``papers AS p``, the join that they need, and a function
    that makes a paper of a row.

    The first column is the catalogue id, and ``id`` is always read. Without ``counts`` the counts of citations and
    references are NULL: at a point in time nobody knew them.
    """
    names = tuple(name for name in fields if name != "id")
    columns = ", ".join(
        ("p.id", *(_COLUMNS[n] if counts or n not in _LATER else "NULL" for n in ("id", *names)))
    )
    authors, categories, external_ids = (n in names for n in ("authors", "categories", "external_ids"))

    def make(row: Sequence[Any]) -> Paper:
        arxiv_id, corpus_id = row[1], row[2]
        values = dict(zip(names, row[4:], strict=True))
        if authors:
            pairs = orjson.loads(values["authors"]) if values["authors"] else ()
            values["authors"] = tuple([Author(name, author_id) for name, author_id in pairs])
        if categories:
            values["categories"] = tuple(values["categories"].split()) if values["categories"] else ()
        if external_ids:
            values["external_ids"] = _external_ids(arxiv_id, corpus_id, values["external_ids"])
        return Paper(canonical_id(arxiv_id, corpus_id, row[3]), **values)

    return columns, _WITH_ABSTRACT if "abstract" in names else "", make


def _external_ids(arxiv_id: str | None, corpus_id: int | None, stored: str | None) -> dict[str, str]:
    """Scheme to value: ``f"{scheme}:{value}"`` is an id that every call takes."""
    ids: dict[str, str] = {}
    if arxiv_id is not None:
        ids["arXiv"] = arxiv_id
    if corpus_id is not None:
        ids["CorpusId"] = str(corpus_id)
    if stored:
        ids.update(orjson.loads(stored))
    return ids
