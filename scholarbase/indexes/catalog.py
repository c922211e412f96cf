"""The catalogue of a library: one SQLite file of papers, their texts and their citations.

:class:`Catalog` runs every statement on a finished catalogue. The SQL of searches and citations is in
:mod:`~scholarbase.indexes.fulltext`, :mod:`~scholarbase.indexes.titles` and :mod:`~scholarbase.indexes.citations`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, lru_cache, wraps
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

import msgspec
import orjson

from scholarbase.databases import ReadPool, json_list, open_immutable
from scholarbase.errors import LibraryCorrupt
from scholarbase.identifiers import Identifier
from scholarbase.indexes import author_index, citation_keys, citations, facets, fulltext, title_spans, titles
from scholarbase.indexes import authors as author_rows
from scholarbase.indexes.citations import Edge
from scholarbase.indexes.facets import COUNTING
from scholarbase.indexes.filters import VENUE_KEYS, WITH_STATUS, ResolvedFilters, filter_sql, venue_key
from scholarbase.indexes.frequencies import ANY_TERM, OF_TERMS, UNDATED, last_full_month
from scholarbase.models.checks import as_of_day
from scholarbase.models.limits import CitationSort, Direction
from scholarbase.models.papers import AsWritten, Author, Journal, Paper
from scholarbase.models.status import Notice, notices_until, status_on

FILE_NAME: Final = "catalog.sqlite"

_TABLES: Final = frozenset(
    (
        "papers",
        "abstracts",
        "aliases",
        "authors",
        "venue_names",
        "edges",
        "document_frequencies",
        "sets",
        "written",
        "meta",
        "fulltext",
        "title_words",
        *author_index.TABLES,
    )
)


def id_columns(alias: str) -> str:
    """The three columns that :func:`canonical_id` takes."""
    shown = ", ".join(
        f"'{scheme}:' || ({alias}.external_ids ->> '{scheme}')" for scheme in ("Doc", "OpenAlex", "DOI")
    )
    other = f"iif(coalesce({alias}.arxiv_id, {alias}.corpus_id) IS NULL, coalesce({shown}), NULL)"
    return f"{alias}.arxiv_id, {alias}.corpus_id, {other}"


_COLUMNS: Final = {
    "id": id_columns("p"),
    "corpus_id": "p.corpus_id",
    "external_ids": "p.external_ids",
    "title": "p.title",
    "abstract": "a.abstract",
    "tldr": "p.tldr",
    "authors": "p.authors",
    "year": "p.year",
    "publication_date": "p.publication_date",
    "venue": "p.venue",
    "status": "p.status",
    "categories": "p.categories",
    "citation_count": "p.citation_count",
    "reference_count": "p.reference_count",
    "url": "p.url",
    "as_written": "iif(w.paper_id IS NULL, NULL, json_array(w.title, w.abstract))",
}
"""The SQL of each field of a paper. ``id`` takes three columns; it always comes first."""


class Details(msgspec.Struct, frozen=True):
    """The JSON column ``details``: fields of a paper that are read and not searched. Unknown ones are missing."""

    journal: tuple[str | None, str | None, str | None] | None = None
    publication_types: tuple[str, ...] = ()
    fields_of_study: tuple[str, ...] = ()
    is_open_access: bool | None = None
    comment: str | None = None
    versions: tuple[str | None, ...] = ()
    update_date: str | None = None
    notices: Mapping[str, Notice] = {}


_DETAILS: Final = Details.__struct_fields__
_decode_details: Final = msgspec.json.Decoder(Details).decode
_PAPERS: Final = ("Reading the catalogue", "request fewer papers or fields")
_FULL_TEXT: Final = (
    "The full-text search",
    "use fewer or longer words, prefixes and phrases, or engine 'bm25'",
)
_TITLES: Final = ("The title match", "use a shorter title, or fewer titles in one request")
_EDGES: Final = ("Reading citations", "request a smaller limit, or no filters")
_AUTHORS: Final = ("Reading authors", "request a smaller limit, or use a longer name or an id")
_COCITATIONS: Final = ("Counting co-citations", "request it with fewer filters, or a longer timeout")
"""Activities and advice for the error at the time limit."""
_LATER: Final = ("citation_count", "reference_count", "status", "comment", "versions", "update_date")
"""Fields that change after a paper's publication."""
_WITH_ABSTRACT: Final = "LEFT JOIN abstracts a ON a.paper_id = p.id"
_JOINS: Final = {"abstract": _WITH_ABSTRACT, "as_written": "LEFT JOIN written w ON w.paper_id = p.id"}
"""The joins of the fields that other tables have."""


P = ParamSpec("P")
R = TypeVar("R")


def _reads(
    function: Callable[Concatenate[sqlite3.Connection, P], R], limited: tuple[str, str]
) -> Callable[Concatenate[Catalog, P], R]:
    """A method of the catalogue that runs a function of another module on a connection of the pool.

    ``limited`` are the activity and the advice of :meth:`Catalog.reading`.
    """

    @wraps(function)
    def method(self: Catalog, /, *arguments: P.args, **options: P.kwargs) -> R:
        with self.reading(*limited) as connection:
            return function(connection, *arguments, **options)

    return method


class Catalog:
    """A finished catalogue, opened for reading with a pool of connections. Safe to share between threads.

    Every method raises LibraryCorrupt if the file is damaged, LibraryError if it cannot be read or is closed, and
    TimeLimit at the deadline of its context.
    """

    def __init__(self, path: Path, *, readers: int = 8) -> None:
        """
        Args:
            readers: statements that run at once. Others wait.

        Raises:
            LibraryCorrupt: the file is missing or is not a catalogue.
        """
        self.path = path
        try:
            self._pool = ReadPool(path, readers, _connect)
        except sqlite3.Error as error:
            raise _not_a_catalogue(path, error) from error
        try:
            # Of each connection, since the file could be replaced while they are opened.
            snapshots = {_checked_snapshot(path, connection) for connection in self._pool.connections()}
            if len(snapshots) > 1:
                raise LibraryCorrupt(f"{path} was replaced while it was opened: open the library again.")
        except sqlite3.Error as error:
            self.close()
            raise _not_a_catalogue(path, error) from error
        except BaseException:
            self.close()
            raise
        [self.snapshot] = snapshots
        """The snapshot id that the catalogue was built as."""

    def close(self) -> None:
        """Close every connection. A second call does nothing."""
        self._pool.close()

    def reading(
        self, activity: str = _PAPERS[0], advice: str = _PAPERS[1]
    ) -> AbstractContextManager[sqlite3.Connection]:
        """A connection, for statements of other modules.

        Args:
            activity: what the error at the time limit names.
            advice: how to stay within it.
        """
        return self._pool.lend(activity, advice)

    # -- papers -----------------------------------------------------------------------------------------

    def _rows(self, sql: str, *values: int | str) -> list[tuple[Any, ...]]:
        with self.reading() as connection:
            return connection.execute(sql, values).fetchall()

    def meta(self, key: str) -> str | None:
        with self.reading() as connection:
            return read_meta(connection, key)

    def resolve(self, identifiers: Sequence[Identifier]) -> list[int | None]:
        """Return the catalogue id of each identifier, None for papers that the library does not have."""
        with self.reading() as connection:
            known = find(connection, identifiers)
        return [known.get(identifier) for identifier in identifiers]

    has_keys = _reads(citation_keys.exist, _PAPERS)
    near_keys = _reads(citation_keys.near, _PAPERS)
    sharing_key = _reads(citation_keys.sharing, _PAPERS)

    def texts(self) -> Iterator[tuple[str, str]]:
        """The title and abstract of each paper that has an abstract, by ascending id."""
        with self.reading() as connection:
            yield from connection.execute(
                f"SELECT p.title, a.abstract FROM papers p {_WITH_ABSTRACT} WHERE a.abstract <> '' ORDER BY p.id"
            )

    def existing(self, ids: Iterable[int], day: int) -> set[int]:
        """Return those of the papers that certainly appeared on or before the day ``yyyymmdd``."""
        return self.passing(ids, ResolvedFilters(last_day=day))

    def any_by(self, day: int) -> int | None:
        """Return the last day of any paper that certainly appeared on or before the day ``yyyymmdd``, else None."""
        rows = self._rows("SELECT last_day FROM papers WHERE last_day <= ? LIMIT 1", day)
        return int(rows[0][0]) if rows else None

    def first_day(self) -> int | None:
        """Return the least last day of a paper, None if no paper has a date."""
        return cast("int | None", self._rows("SELECT min(last_day) FROM papers")[0][0])

    @cached_property
    def newest_day(self) -> int | None:
        """The day by which 99% of the papers with a date had appeared, None if no paper has one.

        So a few papers with a wrong date do not decide it. Finding it reads all papers."""
        rows = self._rows(
            """
            SELECT last_day FROM papers WHERE last_day IS NOT NULL ORDER BY last_day DESC
            LIMIT 1 OFFSET (SELECT count(last_day) / 100 FROM papers)
            """
        )
        return int(rows[0][0]) if rows else None

    @cached_property
    def has_citation_counts(self) -> bool:
        """Whether a paper has citations. If none has, finding that reads all papers."""
        return bool(self._rows("SELECT 1 FROM papers WHERE citation_count > 0 LIMIT 1"))

    def last_days(self, ids: Sequence[int]) -> dict[int, int]:
        """Return the last day ``yyyymmdd`` on which each of the papers may have appeared, of those with a date."""
        sql = """
            SELECT p.id, p.last_day FROM json_each(?) AS wanted CROSS JOIN papers AS p ON p.id = wanted.value
            WHERE p.last_day IS NOT NULL
        """
        return dict(self._rows(sql, json_list(ids)))

    def citation_counts(self, ids: Sequence[int], as_of: int | None = None) -> dict[int, int]:
        """Return the citations of each of the papers that has some, as of a day those by papers of the library."""
        if as_of is None:
            sql = """
                SELECT p.id, p.citation_count FROM json_each(?) AS wanted
                CROSS JOIN papers AS p ON p.id = wanted.value WHERE p.citation_count > 0
            """
            return dict(self._rows(sql, json_list(ids)))
        sql = """
            SELECT edges.cited, count(*) FROM json_each(?) AS wanted CROSS JOIN edges ON edges.cited = wanted.value
            CROSS JOIN papers AS p ON p.id = edges.citing AND p.last_day <= ? GROUP BY 1
        """
        return dict(self._rows(sql, json_list(ids), as_of))

    def passing(self, ids: Iterable[int], filters: ResolvedFilters) -> set[int]:
        """Return those of the papers that pass the filters."""
        condition, params = filter_sql(filters, "p")
        sql = f"""
            SELECT p.id FROM json_each(?) AS wanted CROSS JOIN papers AS p ON p.id = wanted.value WHERE {condition}
        """
        return {row[0] for row in self._rows(sql, json_list(ids), *params)}

    def papers(self, ids: Sequence[int], fields: Sequence[str], *, as_of: str | None = None) -> list[Paper]:
        """The papers of these catalogue ids, in their order, with the requested fields; with ``as_of`` the counts of
        citations and references are None.

        Raises:
            LibraryCorrupt: an id has no row, so an index and the catalogue disagree.
        """
        if not ids:
            return []
        columns, join, make = paper_reader(tuple(fields), as_of)
        # The outer loop goes through the ids, so that the rows come in their order.
        rows = self._rows(
            f"SELECT {columns} FROM json_each(?) AS wanted CROSS JOIN papers p ON p.id = wanted.value {join}",
            json_list(ids),
        )
        if len(rows) != len(ids):
            missing = min(set(ids).difference(row[0] for row in rows), default=None)
            raise LibraryCorrupt(
                f"An index names paper {missing}, which {self.path} does not hold: "
                f'run "scholarbase verify" on the library.'
            )
        return list(map(make, rows))

    def set_papers(self, name: str) -> frozenset[int]:
        """Return the ids of the papers of a set."""
        return frozenset(row[0] for row in self._rows("SELECT paper FROM sets WHERE name = ?", name))

    def with_notices(self, statuses: Sequence[str]) -> frozenset[int]:
        """Return the ids of the papers with one of these statuses, or a notice of one of these kinds."""
        sql = f"""
            SELECT id FROM papers WHERE {WITH_STATUS} AND (
                status IN (SELECT value FROM json_each(?)) OR EXISTS (
                    SELECT 1 FROM json_each(details, '$.notices') AS notice
                    WHERE notice.value ->> '$.kind' IN (SELECT value FROM json_each(?))
                )
            )
        """
        return frozenset(row[0] for row in self._rows(sql, *[json_list(statuses)] * 2))

    def in_sets(self, ids: Iterable[int], names: Sequence[str]) -> frozenset[int]:
        """Return those of the papers that are in one of the sets."""
        sql = """
            SELECT wanted.value FROM json_each(?) AS wanted CROSS JOIN json_each(?) AS named CROSS JOIN sets
            WHERE sets.name = named.value AND sets.paper = wanted.value
        """
        return frozenset(row[0] for row in self._rows(sql, json_list(ids), json_list(names)))

    def venue_keys(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the keys of these names, and of all other names of the venues that have one of them.

        A paper's venue is in its source's spelling, which may be any of these.
        """
        keys = json_list(map(venue_key, names))
        return tuple(sorted(row[0] for row in self._rows(VENUE_KEYS, keys, keys)))

    def document_frequencies(self, terms: Sequence[int], day: int | None) -> dict[int, int]:
        """How many papers have each term in their BM25 vector, and under ``ANY_TERM`` a vector.

        Counted are all, or those up to the end of the last full month by ``day``, a number ``yyyymmdd``. Terms of none
        are missing.
        """
        month = UNDATED if day is None else last_full_month(day)
        rows = self._rows(OF_TERMS, json_list([ANY_TERM, *terms]), month)
        return {term: count for term, count in rows if count is not None}

    # -- authors, full text and titles ------------------------------------------------------------------

    find_authors = _reads(author_rows.find, _AUTHORS)
    search_authors = _reads(author_rows.search, _AUTHORS)
    authors_named = _reads(author_rows.matching, _AUTHORS)
    near_authors = _reads(author_rows.near, _AUTHORS)
    authors = _reads(author_rows.read, _AUTHORS)
    author_papers = _reads(author_rows.papers, _AUTHORS)
    papers_of_authors = _reads(author_rows.papers_of, _AUTHORS)

    search_text = _reads(fulltext.search, _FULL_TEXT)
    count_text = _reads(fulltext.count, _FULL_TEXT)
    matching_ids = _reads(fulltext.matching_ids, _FULL_TEXT)
    holding = _reads(fulltext.holding, _FULL_TEXT)
    count_values = _reads(facets.count, COUNTING)

    match_title = _reads(titles.match, _TITLES)
    titled = _reads(titles.titled, _TITLES)
    exact_titles = _reads(title_spans.exact_titles, _TITLES)
    is_common_phrase = _reads(titles.is_common_phrase, _TITLES)

    # -- citations --------------------------------------------------------------------------------------

    count_edges = _reads(citations.count, _EDGES)
    few_edges = _reads(citations.few, _EDGES)
    expand = _reads(citations.expand, citations.EXPANSION)
    cocited = _reads(citations.cocited, _COCITATIONS)
    linked = _reads(citations.linked, _EDGES)

    def edges(
        self,
        paper_id: int,
        direction: Direction,
        limit: int,
        offset: int,
        sort: CitationSort,
        filters: ResolvedFilters,
        *,
        fields: Sequence[str],
        as_of: str | None = None,
        at_most: int | None = None,
    ) -> list[Edge]:
        """Return a page of a paper's citations or references, with the papers (:func:`.citations.page`)."""
        columns, join, make_paper = paper_reader(tuple(fields), as_of)
        with self.reading(*_EDGES) as connection:
            return citations.page(
                connection,
                paper_id,
                direction,
                limit,
                offset,
                sort,
                filters,
                columns=columns,
                join=join,
                make_paper=make_paper,
                at_most=at_most,
            )


def _checked_snapshot(path: Path, connection: sqlite3.Connection) -> str | None:
    """The snapshot id of a catalogue. Raises LibraryCorrupt if it lacks a table."""
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if missing := sorted(_TABLES - tables):
        raise LibraryCorrupt(
            f"{path} is not a catalogue: it has no {', '.join(missing)}. Ingest the library again."
        )
    return read_meta(connection, "snapshot")


def _not_a_catalogue(path: Path, error: sqlite3.Error) -> LibraryCorrupt:
    return LibraryCorrupt(f"{path} is not a catalogue: {error}. Ingest the library again.")


def open_finished(path: Path) -> sqlite3.Connection:
    """Open a finished catalogue for reading.

    Raises:
        LibraryCorrupt: the file is missing, or has SQL that no library has.
    """
    if not path.is_file():
        raise LibraryCorrupt(f"{path} is missing from the library: ingest it again, or restore the copy.")
    return open_immutable(path, fulltext.VIEWS)


def _connect(path: Path) -> sqlite3.Connection:
    connection = open_finished(path)
    connection.execute("PRAGMA mmap_size = 1073741824")
    connection.execute("PRAGMA cache_size = -16384")
    return connection


def read_meta(connection: sqlite3.Connection, key: str) -> str | None:
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


def find(connection: sqlite3.Connection, identifiers: Iterable[Identifier]) -> dict[Identifier, int]:
    """Map each identifier of a paper in the catalogue to the paper's id."""
    by_scheme: dict[str, set[str]] = {}
    for identifier in identifiers:
        by_scheme.setdefault(identifier.scheme, set()).add(identifier.value)
    return {
        Identifier(scheme, str(value)): paper_id
        for scheme, values in by_scheme.items()
        for value, paper_id in connection.execute(*_lookup(scheme, values))
    }


def _lookup(scheme: str, values: set[str]) -> tuple[str, tuple[str, ...]]:
    listed = json_list(sorted(values))
    if scheme == "arXiv":
        return "SELECT arxiv_id, id FROM papers WHERE arxiv_id IN (SELECT value FROM json_each(?))", (listed,)
    if scheme == "CorpusId":
        numbers = json_list(sorted(int(v) for v in values if int(v) < 2**63))
        # A paper's further corpus ids are aliases.
        return (
            """
            SELECT corpus_id, id FROM papers WHERE corpus_id IN (SELECT value FROM json_each(?1))
            UNION ALL
            SELECT value, min(paper_id) FROM aliases
            WHERE scheme = 'CorpusId' AND value IN (SELECT CAST(value AS TEXT) FROM json_each(?1)) GROUP BY value
            """,
            (numbers,),
        )
    if scheme == "OpenAlex":
        # The ids of OpenAlex's first works are those of Microsoft Academic Graph, which other sources have too.
        return (
            """
            SELECT wanted.value, coalesce(
                (SELECT min(paper_id) FROM aliases WHERE scheme = 'OpenAlex' AND value = wanted.value),
                (SELECT min(paper_id) FROM aliases WHERE scheme = 'MAG' AND value = substr(wanted.value, 2))
            ) AS paper FROM json_each(?) AS wanted WHERE paper IS NOT NULL
            """,
            (listed,),
        )
    if scheme == "Key":
        # People's files use one key for different papers: it names none of them.
        return (
            """
            SELECT value, min(paper_id) FROM aliases
            WHERE scheme = 'Key' AND value IN (SELECT value FROM json_each(?)) GROUP BY value HAVING count(*) = 1
            """,
            (listed,),
        )
    # Two papers may claim one id: it names the one with the lowest number.
    return (
        """
        SELECT value, min(paper_id) FROM aliases
        WHERE scheme = ? AND value IN (SELECT value FROM json_each(?)) GROUP BY value
        """,
        (scheme, listed),
    )


def canonical_id(arxiv_id: str | None, corpus_id: int | None, other: str | None = None) -> str:
    """Return a paper's id in responses: its arXiv id if it has one, else its corpus id, else the ``other``: that of its
    collection or file, else that of OpenAlex, else its DOI."""
    if arxiv_id is not None:
        return f"arXiv:{arxiv_id}"
    return f"CorpusId:{corpus_id}" if corpus_id is not None else str(other)


@lru_cache(maxsize=256)
def paper_reader(
    fields: tuple[str, ...], as_of: str | None = None
) -> tuple[str, str, Callable[[Sequence[Any]], Paper]]:
    """How papers with these fields are read: the columns of ``papers AS p``, the join that they need, and a function
    that makes a paper of a row.

    The first column is the catalogue id, and ``id`` is always read. With ``as_of`` the counts of citations and
    references are NULL, and so is what authors changed later: at a point in time nobody knew them. Notices have dates.
    """
    day, counts = None if as_of is None else as_of_day(as_of), as_of is None
    names = tuple(name for name in fields if name != "id" and name not in _DETAILS)
    details = tuple(name for name in fields if name in _DETAILS and (counts or name not in _LATER))
    dated = day is not None and "status" in names
    columns = ", ".join(
        (
            "p.id",
            *(_COLUMNS[n] if counts or n not in _LATER else "NULL" for n in ("id", *names)),
            *(["p.details"] if details or dated else []),
        )
    )
    with_authors, categories, external_ids, written = (
        n in names for n in ("authors", "categories", "external_ids", "as_written")
    )

    def make(row: Sequence[Any]) -> Paper:
        arxiv_id, corpus_id = row[1], row[2]
        values = dict(zip(names, row[4:], strict=not (details or dated)))
        if with_authors:
            listed = orjson.loads(values["authors"]) if values["authors"] else ()
            values["authors"] = tuple([Author(*author) for author in listed])
        if categories:
            values["categories"] = tuple(values["categories"].split()) if values["categories"] else ()
        if external_ids:
            values["external_ids"] = _external_ids(arxiv_id, corpus_id, values["external_ids"])
        if written and values["as_written"]:
            values["as_written"] = AsWritten(*orjson.loads(values["as_written"]))
        if "notices" in details:
            values["notices"] = ()
        if (details or dated) and row[-1]:
            decoded = _decode_details(row[-1])
            for name in details:
                values[name] = getattr(decoded, name)
            if values.get("journal"):
                values["journal"] = Journal(*values["journal"])
            if "notices" in details:
                values["notices"] = notices_until(decoded.notices.values(), day)
            if dated:
                values["status"] = status_on(decoded.notices.values(), day)
        return Paper(canonical_id(arxiv_id, corpus_id, row[3]), **values)

    def checked(row: Sequence[Any]) -> Paper:
        try:
            return make(row)
        except (ValueError, TypeError, AttributeError, RecursionError, msgspec.DecodeError) as error:
            raise LibraryCorrupt(
                f'A row of the library ({str(row[0])[:80]}) is damaged ({error}). Run "scholarbase verify" on it.'
            ) from error

    return columns, " ".join(join for name, join in _JOINS.items() if name in names), checked


def _external_ids(arxiv_id: str | None, corpus_id: int | None, stored: str | None) -> dict[str, str]:
    """Map schemes to values: ``f"{scheme}:{value}"`` is an id that every request accepts."""
    ids: dict[str, str] = {}
    if arxiv_id is not None:
        ids["arXiv"] = arxiv_id
    if corpus_id is not None:
        ids["CorpusId"] = str(corpus_id)
    if stored:
        ids.update(orjson.loads(stored))
    return ids
