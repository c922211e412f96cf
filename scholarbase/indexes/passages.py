"""The full texts and passages of a library: every statement on ``documents.sqlite`` when it is served, and what
full texts add to the content (:mod:`.content_hash`).

Passages are indexed as papers are: BM25 and dense vectors in a Qdrant shard, words in FTS5.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from scholarbase.databases import ReadPool, attach_immutable, json_list, open_immutable
from scholarbase.documents.model import Document
from scholarbase.documents.schema import FILE_NAME, decompress
from scholarbase.documents.store import MAIN_ORDER, content_rows, passage_rows, read_document
from scholarbase.errors import LibraryCorrupt
from scholarbase.indexes import catalog, fulltext
from scholarbase.indexes.content_hash import sum_of, vector_sums
from scholarbase.indexes.filters import ResolvedFilters, filter_sql
from scholarbase.indexes.frequencies import ANY_TERM, OF_TERMS, UNDATED, FrequencyCounter, last_full_month
from scholarbase.indexes.vectors.base import ScoredId
from scholarbase.indexes.vectors.bm25 import Bm25Parameters
from scholarbase.indexes.vectors.index import VectorIndex

FOLDER: Final = "passages"
"""The shard of the passages, in the library's folder."""

AVERAGE_LENGTHS: Final[Mapping[str, float]] = {
    "tokens-512": 220.0,
    "sentences-512": 205.0,
    "sentences-10-1": 105.0,
    "paragraphs": 60.0,
}
"""Terms of a passage of each chunker on average, without stop words: constants of the format, as for papers."""
MONTHS: Final = """
    SELECT passages.id, coalesce(catalog.papers.last_day / 100, ?) FROM passages
    JOIN documents ON documents.id = passages.document
    JOIN catalog.papers ON catalog.papers.id = documents.paper
    WHERE passages.id BETWEEN ? AND ? ORDER BY passages.id
"""
"""The SQL of the months of passages, for :class:`.FrequencyCounter`. The catalogue is the schema ``catalog``."""
_READING: Final = ("Reading full texts", "request less of the text, or fewer results")
_SEARCHING: Final = (
    "The search of passages",
    "use fewer or longer words, prefixes and phrases, or syntax plain",
)


class Text(NamedTuple):
    """A full text of a paper, without its parts. ``pages`` are those that can be drawn."""

    id: int
    paper: int
    version: int | None
    source: str
    is_main: bool
    characters: int
    tokens: int
    pages: int


class StoredPassage(NamedTuple):
    """A passage as it is indexed. ``heading`` is the title of its section with its number."""

    id: int
    document: int
    paper: int
    version: int | None
    start: int
    end: int
    text: str
    heading: str | None
    page: int | None


class Mark(NamedTuple):
    """A citation mark: its document, its offsets, and the entry of the bibliography with the cited paper, if held."""

    document: int
    paper: int
    version: int | None
    start: int
    end: int
    reference: str
    cited: int | None


class Documents:
    """The full texts of a library. Safe to share between threads."""

    def __init__(self, library: Path, snapshot: str, *, readers: int) -> None:
        """
        Raises:
            LibraryCorrupt: the file is missing, or belongs to another library.
        """
        path = library / FILE_NAME
        if not path.is_file():
            raise LibraryCorrupt(f"{path} is missing from the library: ingest it again, or restore the copy.")

        def connect(file: Path) -> sqlite3.Connection:
            connection = open_immutable(file, ())
            attach_immutable(connection, library / catalog.FILE_NAME, "catalog")
            return connection

        try:
            self._pool = ReadPool(path, readers, connect)
            row = (
                next(iter(self._pool.connections()))
                .execute("SELECT value FROM meta WHERE key = 'snapshot'")
                .fetchone()
            )
        except sqlite3.Error as error:
            raise LibraryCorrupt(
                f"{path} cannot be read: {error}. Ingest again, or restore the copy."
            ) from error
        if row is None or row[0] != snapshot:
            self.close()
            raise LibraryCorrupt(
                f"{path} was built as {row[0] if row else 'nothing'}, and the library is {snapshot}: restore the copy, "
                "or ingest again."
            )

    def close(self) -> None:
        self._pool.close()

    def _rows(
        self, sql: str, *values: int | str, limited: tuple[str, str] = _READING
    ) -> list[tuple[Any, ...]]:
        with self._pool.lend(*limited) as connection:
            return connection.execute(sql, values).fetchall()

    # -- texts ------------------------------------------------------------------------------------------

    def texts(self, paper: int) -> list[Text]:
        """The full texts of a paper, the best one of the latest version first."""
        sql = f"""
            SELECT id, paper, version, source, is_main, characters, tokens,
                iif(EXISTS (SELECT 1 FROM originals WHERE document = id),
                    (SELECT count(*) FROM pages WHERE document = id), 0)
            FROM documents WHERE paper = ? ORDER BY {MAIN_ORDER}
        """
        return [Text(*row)._replace(is_main=bool(row[4])) for row in self._rows(sql, paper)]

    def document(self, number: int) -> Document:
        """A full text with its parts."""
        with self._pool.lend(*_READING) as connection:
            return read_document(connection, number)

    def section_tokens(self, number: int) -> list[int]:
        """The tokens of each section of a text."""
        sql = "SELECT tokens FROM sections WHERE document = ? ORDER BY place"
        return [row[0] for row in self._rows(sql, number)]

    def original(self, number: int) -> bytes | None:
        """The PDF of a text."""
        rows = self._rows("SELECT data FROM originals WHERE document = ?", number)
        return bytes(rows[0][0]) if rows else None

    def cited(self, number: int, papers: ResolvedFilters) -> list[int | None]:
        """The paper of each entry of a text's bibliography; None for those that the library does not hold, or that do
        not pass the filters."""
        condition, params = filter_sql(papers, "p")
        sql = f"""
            SELECT (SELECT p.id FROM papers AS p WHERE p.id = b.paper AND {condition})
            FROM bibliography b WHERE b.document = ? ORDER BY b.place
        """
        return [row[0] for row in self._rows(sql, *params, number)]

    # -- citation marks ---------------------------------------------------------------------------------

    def marks_of(
        self, number: int, limit: int, offset: int, papers: ResolvedFilters
    ) -> tuple[int, list[Mark]]:
        """The number of citation marks in a text, and a page of them. Cited papers that do not pass the filters are
        shown as if the library did not hold them."""
        condition, params = filter_sql(papers, "p")
        with self._pool.lend(*_READING) as connection:
            total = connection.execute(
                "SELECT count(*) FROM citations WHERE document = ?", (number,)
            ).fetchone()[0]
            rows = connection.execute(
                f"""
                SELECT d.id, d.paper, d.version, c.start, c.end, b.text,
                    (SELECT p.id FROM papers AS p WHERE p.id = b.paper AND {condition})
                FROM citations c JOIN documents d ON d.id = c.document
                JOIN bibliography b ON b.document = c.document AND b.place = c.entry
                WHERE c.document = ? ORDER BY c.place LIMIT ? OFFSET ?
                """,
                [*params, number, limit, offset],
            ).fetchall()
        return total, [Mark(*row) for row in rows]

    def marks_on(
        self, paper: int, limit: int, offset: int, papers: ResolvedFilters
    ) -> tuple[int, list[Mark]]:
        """The number of marks that cite a paper in the main texts of other papers that pass the filters, and a page."""
        condition, params = filter_sql(papers, "p")
        source = f"""
            FROM bibliography b JOIN documents d ON d.id = b.document AND d.is_main AND d.paper != b.paper
            JOIN papers AS p ON p.id = d.paper
            JOIN citations c ON c.document = b.document AND c.entry = b.place
            WHERE b.paper = ? AND {condition}
        """
        with self._pool.lend(*_READING) as connection:
            total = connection.execute(f"SELECT count(*) {source}", [paper, *params]).fetchone()[0]
            rows = connection.execute(
                f"""
                SELECT d.id, d.paper, d.version, c.start, c.end, b.text, b.paper
                {source} ORDER BY d.paper, d.id, c.place LIMIT ? OFFSET ?
                """,
                [paper, *params, limit, offset],
            ).fetchall()
        return total, [Mark(*row) for row in rows]

    # -- passages ---------------------------------------------------------------------------------------

    def passages(self, ids: Sequence[int]) -> list[StoredPassage]:
        """The passages with these numbers, in this order."""
        if not ids:
            return []
        with self._pool.lend(*_READING) as connection:
            rows = connection.execute(
                """
                SELECT x.id, d.id, d.paper, d.version, x.start, x.end, s.number, s.title,
                    (SELECT max(number) FROM pages WHERE document = d.id AND start <= x.start)
                FROM json_each(?) wanted JOIN passages x ON x.id = wanted.value
                JOIN documents d ON d.id = x.document
                LEFT JOIN sections s ON s.document = x.document AND s.place = x.section
                """,
                (json_list(ids),),
            ).fetchall()
            sql = "SELECT id, text FROM documents WHERE id IN (SELECT value FROM json_each(?))"
            packed = connection.execute(sql, (json_list({row[1] for row in rows}),)).fetchall()
        texts = {number: decompress(text) for number, text in packed}
        passages = {
            passage_id: StoredPassage(
                passage_id,
                document,
                paper,
                version,
                start,
                end,
                texts[document][start:end],
                heading(number, title),
                page,
            )
            for passage_id, document, paper, version, start, end, number, title, page in rows
        }
        return [passages[number] for number in ids]

    def passages_of_text(self, number: int) -> list[tuple[int, int, int, int | None]]:
        """The numbers, offsets and sections of the indexed passages of a text, in its order."""
        return self._rows(
            "SELECT id, start, end, section FROM passages WHERE document = ? ORDER BY id", number
        )

    def passages_of(self, papers: Iterable[int]) -> frozenset[int]:
        """The numbers of the indexed passages of papers."""
        sql = """
            SELECT x.id FROM json_each(?) wanted JOIN documents d ON d.paper = wanted.value AND d.is_main
            JOIN passages x ON x.document = d.id
        """
        return frozenset(row[0] for row in self._rows(sql, json_list(papers), limited=_SEARCHING))

    def papers_of(self, ids: Sequence[int]) -> dict[int, int]:
        """The paper of each of these passages."""
        sql = """
            SELECT x.id, d.paper FROM json_each(?) wanted JOIN passages x ON x.id = wanted.value
            JOIN documents d ON d.id = x.document
        """
        return dict(self._rows(sql, json_list(ids), limited=_SEARCHING))

    # -- words ------------------------------------------------------------------------------------------

    def search_words(self, expression: str, limit: int, filters: ResolvedFilters) -> list[ScoredId]:
        """The best passages that match an FTS5 expression, best first, ties by number.

        Raises:
            InvalidRequest: the expression is malformed, or names a column.
        """
        source, params = _matches(filters)
        sql = f"SELECT passage_words.rowid, -bm25(passage_words) AS score {source} ORDER BY score DESC, 1 LIMIT ?"
        with self._pool.lend(*_SEARCHING) as connection:
            rows = fulltext.rows(connection, sql, [expression, *params, limit], expression)
        return [ScoredId(number, score) for number, score in rows]

    def count_words(self, expression: str, filters: ResolvedFilters) -> int:
        """The number of passages that match. Raises as :meth:`search_words`."""
        source, params = _matches(filters)
        with self._pool.lend(*_SEARCHING) as connection:
            rows = fulltext.rows(connection, f"SELECT count(*) {source}", [expression, *params], expression)
        return int(rows[0][0])

    def frequencies(self, terms: Sequence[int], day: int | None) -> dict[int, int]:
        """Return how many passages have each term, as :meth:`.Catalog.document_frequencies`."""
        month = UNDATED if day is None else last_full_month(day)
        rows = self._rows(OF_TERMS, json_list([ANY_TERM, *terms]), month, limited=_SEARCHING)
        return {term: count for term, count in rows if count is not None}


def heading(number: str | None, title: str | None) -> str | None:
    """A section's number and title, as passages show them."""
    return " ".join(filter(None, (number, title))) or None


def _matches(filters: ResolvedFilters) -> tuple[str, list[int | str]]:
    """FROM and WHERE for the passages that match the first parameter, of papers that pass the filters."""
    if filters.is_empty:
        return "FROM passage_words WHERE passage_words MATCH ?", []
    condition, params = filter_sql(filters, "p")
    source = """
        FROM passage_words CROSS JOIN passages x ON x.id = passage_words.rowid
        CROSS JOIN documents d ON d.id = x.document CROSS JOIN papers AS p ON p.id = d.paper
        WHERE passage_words MATCH ?
    """
    return f"{source} AND {condition}", params


def parameters_of(chunker: str) -> Bm25Parameters:
    """The parameters for the passages of a chunker. A passage has no title. Raises LibraryCorrupt: it is unknown."""
    if chunker not in AVERAGE_LENGTHS:
        raise LibraryCorrupt(
            f"The library's full texts were cut by the chunker {chunker!r}, and the chunkers are "
            f"{', '.join(AVERAGE_LENGTHS)}: use the release that built it."
        )
    return Bm25Parameters(title_weight=1, average_length=AVERAGE_LENGTHS[chunker])


def content_sums(
    db: sqlite3.Connection,
    index: VectorIndex,
    counter: FrequencyCounter,
    advance: Callable[[int], None] = lambda passages: None,
) -> dict[str, int]:
    """The sums of the documents, the passages and their vectors. ``counter`` counts their terms."""
    sums = {f"passages_{name}": total for name, total in vector_sums(index, counter, advance).items()}
    return {**sums, "documents": sum_of(content_rows(db)), "passages": sum_of(passage_rows(db))}
