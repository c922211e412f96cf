"""Papers that meet a condition, all of them counted, in any order.

A condition is a tree of words, names, categories, days, ids and values, joined by and, or and not. SQLite evaluates it
on every paper, so that totals are exact and pages of any sort are parts of one list. Searches
(:mod:`scholarbase.indexes.fulltext`) rank texts by words; this lists papers also without any word.
"""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from scholarbase.databases import json_list
from scholarbase.indexes import author_names, query_syntax
from scholarbase.indexes.filters import VENUE_KEYS, category_forms, venue_key
from scholarbase.indexes.fulltext import TITLE_WEIGHT

ListOrder: TypeAlias = Literal[
    "-relevance", "relevance", "-date", "date", "-id", "id", "-citation_count", "citation_count",
    "-reference_count", "reference_count", "-updated", "updated",
    "-title", "title", "-place", "place",
]  # fmt: skip
"""By BM25 of the condition's words (without any, by date), by date, day of the last change, arXiv id, counts, title or
place in the library; with ``-`` the greatest first."""
Presence: TypeAlias = Literal[
    "abstract", "doi", "references", "open_access", "closed_access", "retracted", "fields_of_study"
]


@dataclass(frozen=True, slots=True)
class Text:
    """Papers that match an FTS5 expression (:mod:`scholarbase.indexes.query_syntax`).

    Args:
        ranked: the parts of the expression that raise a paper's rank, of which too frequent ones are left out; without
            any, the expression itself.
    """

    expression: str
    ranked: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Authors:
    """Papers with an author known by one of these names: all words of a name, in any order. Case and accents are
    ignored, a single letter is an initial, and ``*`` ends the beginning of a word."""

    names: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Venue:
    """Papers whose venue has all these words, read as those of :class:`Authors`."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comment:
    """Papers whose comment on arXiv has all these words in any order. Case and accents are ignored, and ``*`` ends the
    beginning of a word."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AtVenue:
    """Papers of one of these venues, by any of their names (:meth:`.Catalog.venue_keys`)."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Labels:
    """Papers with one of these fields of study or publication types. Case and spaces are ignored."""

    field: Literal["fields_of_study", "publication_types"]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Categories:
    """Papers of any of these categories (``cs.CL``) or archives (``cs``)."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Days:
    """Papers whose whole range of possible days is in a range of days ``yyyymmdd``; with ``changed``, those whose
    record arXiv last changed in it, if that day is known."""

    first: int | None = None
    last: int | None = None
    changed: bool = False


@dataclass(frozen=True, slots=True)
class ArxivIds:
    """Papers with one of these arXiv ids, without versions; None for all papers with an arXiv id."""

    ids: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Number:
    """Papers with a number in a range, whose ends are included: ``year``, or a count of the source."""

    field: Literal["year", "citation_count", "reference_count"]
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True, slots=True)
class Has:
    """Papers with an abstract, a publisher's DOI, references in the library, an access that the source knows, or its
    fields of study."""

    what: Presence


@dataclass(frozen=True, slots=True)
class Among:
    """Papers with these catalogue ids (``id``), that cite one of them (``cites``), or that one cites (``cited_by``)."""

    relation: Literal["id", "cites", "cited_by"]
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """A comparison of a paper's text in a field, code point by code point.

    Args:
        field: of :data:`FIELDS`.
        operator: ``=``, ``<``, ``<=``, ``>``, ``>=``, ``starts``, ``ends``, ``has``, or ``glob`` (of SQLite).
    """

    field: str
    operator: str
    text: str


@dataclass(frozen=True, slots=True)
class OneOf:
    """Papers whose text in a field of :data:`FIELDS` is one of several."""

    field: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Every:
    """Papers that meet every part; all papers without parts."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """Papers that meet any part; no papers without parts."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Without:
    """Papers that do not meet a condition."""

    part: Condition


Condition: TypeAlias = (
    Text | Authors | Venue | Comment | AtVenue | Labels | Categories | Days | ArxivIds | Number | Has | Among | Value
    | OneOf | Every | Either | Without
)  # fmt: skip

FIELDS: Final = {
    "id": "coalesce(p.arxiv_id, 'CorpusId:' || p.corpus_id, 'Doc:' || (p.external_ids ->> 'Doc'), "
    "'OpenAlex:' || (p.external_ids ->> 'OpenAlex'), "
    "'DOI:' || (p.external_ids ->> 'DOI'))",
    "title": "p.title",
    "abstract": "(SELECT abstract FROM abstracts WHERE paper_id = p.id)",
    "authors": "(SELECT group_concat(value ->> 0, ', ') FROM json_each(p.authors))",
    "categories": "p.categories",
    "update_date": "coalesce(p.details ->> 'update_date', p.publication_date)",
}
"""The SQL of the fields that :class:`Value` compares. An id is the arXiv id, else the canonical id."""
_LISTED: Final = "IN (SELECT value FROM json_each(?))"
_LISTED_ID: Final = f"p.arxiv_id {_LISTED} OR (p.arxiv_id IS NULL AND {FIELDS['id']} {_LISTED})"
"""In two parts, each of which uses the index of arXiv ids."""
_UPDATED: Final = "CAST(replace(p.details ->> 'update_date', '-', '') AS INTEGER)"
"""The day of the last change as a number; NULL if it is unknown."""
_COMPARED: Final = {
    **{operator: f"{{}} {operator} ?" for operator in ("=", "<", "<=", ">", ">=")},
    "starts": "substr({}, 1, length(?)) = ?",
    "ends": "substr({}, -length(?)) = ?",
    "has": "instr({}, ?)",
    "glob": "{} GLOB ?",
}
_DAYS: Final = ("first_day", "last_day")
_CHANGED: Final = f"coalesce({_UPDATED}, p.first_day)"
_SORTED: Final[dict[ListOrder, tuple[str, str]]] = {
    "-relevance": ("s.score DESC NULLS LAST", "p.first_day DESC NULLS LAST, p.id DESC"),
    "relevance": ("s.score NULLS FIRST", "p.first_day NULLS FIRST, p.id"),
    "-date": ("p.first_day DESC NULLS LAST, p.last_day DESC", "p.id DESC"),
    "date": ("p.first_day NULLS LAST, p.last_day", "p.id"),
    "-updated": (f"{_CHANGED} DESC NULLS LAST", "p.id DESC"),
    "updated": (f"{_CHANGED} NULLS LAST", "p.id"),
    "id": ("p.arxiv_id NULLS LAST", "p.id"),
    "-id": ("p.arxiv_id DESC NULLS LAST", "p.id DESC"),
    "-citation_count": ("p.citation_count DESC NULLS LAST", "p.id"),
    "citation_count": ("p.citation_count NULLS LAST", "p.id"),
    "-reference_count": ("p.reference_count DESC NULLS LAST", "p.id"),
    "reference_count": ("p.reference_count NULLS LAST", "p.id"),
    "-title": ("p.title DESC", "p.id DESC"),
    "title": ("p.title", "p.id"),
    "-place": ("p.id DESC", "p.id DESC"),
    "place": ("p.id", "p.id"),
}
"""The SQL of each order, and the order of papers that are equal in it. Unknown values come last."""
_BY_DATE: Final[dict[ListOrder, ListOrder]] = {"-relevance": "-date", "relevance": "date"}
_COUNTS: Final = ("citation_count", "reference_count")
_PRESENT: Final = {
    "abstract": "EXISTS (SELECT 1 FROM abstracts WHERE paper_id = p.id AND abstract <> '')",
    "doi": "p.external_ids ->> 'DOI' IS NOT NULL",
    "references": "EXISTS (SELECT 1 FROM edges WHERE citing = p.id)",
    "open_access": "p.details ->> 'is_open_access' = 1",
    "closed_access": "p.details ->> 'is_open_access' = 0",
    "retracted": "p.status = 'retracted'",
    "fields_of_study": "json_array_length(p.details, '$.fields_of_study') > 0",
}
_AMONG: Final = {
    "id": "p.id IN (SELECT value FROM json_each(?))",
    "cites": "p.id IN (SELECT citing FROM edges WHERE cited IN (SELECT value FROM json_each(?)))",
    "cited_by": "p.id IN (SELECT cited FROM edges WHERE citing IN (SELECT value FROM json_each(?)))",
}
_MAX_WORD: Final = 200
"""Letters of the longest word of an author's name."""
_WORD: Final = re.compile(r"[^\W_]+")
_UNDECOMPOSED: Final = str.maketrans("łøıđ", "loid")
"""Letters with marks that Unicode does not divide into a letter and a mark."""
_BATCH: Final = 50_000
"""Rows per fetch: a list of a million tuples takes ten times the memory of its array."""
MAX_RANKED: Final = 1_000_000
"""Places of words by which a list is ranked: reading them takes about a second."""
_BY_AUTHORS: Final = """p.id IN (
    SELECT wrote.paper FROM json_each(?) AS one CROSS JOIN author_words AS w
    CROSS JOIN author_papers AS wrote ON wrote.author = w.rowid WHERE w.author_words MATCH one.value
)"""
_OF_CATEGORIES: Final = """EXISTS (
    SELECT 1 FROM json_each('[' || replace(json_quote(p.categories), ' ', '","') || ']') AS one
    WHERE one.value IN (SELECT value FROM json_each(?))
    OR substr(one.value, 1, instr(one.value, '.') - 1) IN (SELECT value FROM json_each(?))
)"""


class Listed(NamedTuple):
    """All papers that meet a condition, in order, and the scores of BM25; None where no words are compared."""

    ids: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float32] | None

    def with_first(self, ids: Sequence[int]) -> Listed:
        """The same list with those of these papers that it has at its beginning, with the score of the best."""
        there = np.isin(self.ids, ids)
        present = set(self.ids[there].tolist())
        if not present:
            return self
        begin = np.array([paper_id for paper_id in ids if paper_id in present], np.int64)
        scores = self.scores
        if scores is not None:
            scores = np.concatenate([np.full(len(begin), scores.max(), np.float32), scores[~there]])
        return Listed(np.concatenate([begin, self.ids[~there]]), scores)

    @property
    def nbytes(self) -> int:
        """The bytes of the list: 8 a paper, and 4 more with scores."""
        return self.ids.nbytes + (0 if self.scores is None else self.scores.nbytes)


def listed(
    connection: sqlite3.Connection,
    condition: Condition,
    orders: Sequence[ListOrder],
    *,
    title_weight: float = TITLE_WEIGHT,
) -> Listed:
    """All papers that meet a condition, by the first order, then by the next ones.

    SQLite must sort all of them for any page: a caller that keeps the list has every page, and the exact total.
    """
    by_words = any(order.endswith("relevance") for order in orders)
    texts = _texts_of(condition) if by_words else []
    ranked = _ranked(connection, texts)
    is_whole = ranked == [text.expression for text in texts]
    scores, score, source, words = "", "NULL", "papers AS p", []
    if ranked:
        scores = f"""
            WITH s AS MATERIALIZED (
                SELECT rowid AS id, -bm25(fulltext, {float(title_weight)!r}, 1.0) AS score FROM fulltext
                WHERE fulltext MATCH ?
            )
        """
        score, words = "s.score", [" OR ".join(f"({expression})" for expression in ranked)]
        rest = _without_words(condition) if len(texts) == 1 and is_whole else None
        if rest is None:
            source += " LEFT JOIN s ON s.id = p.id"
        else:  # every paper has the words, so they need not be looked up again
            source, condition = "s CROSS JOIN papers AS p ON p.id = s.id", rest
    else:
        orders = [_BY_DATE.get(order, order) for order in orders]
    connection.create_function("has_words", 2, _has_words, deterministic=True)
    where, params = condition_sql(condition)
    keys = ", ".join([*(_SORTED[order][0] for order in orders), _SORTED[orders[0]][1]])
    cursor = connection.execute(
        f"{scores} SELECT p.id, coalesce({score}, 0) FROM {source} WHERE {where} ORDER BY {keys}",
        [*words, *params],
    )
    ids, scored = bytearray(), bytearray()  # which grow in place, as arrays do not
    while rows := cursor.fetchmany(_BATCH):
        ids += np.fromiter((row[0] for row in rows), np.int64, len(rows)).tobytes()
        if ranked:
            scored += np.fromiter((row[1] for row in rows), np.float32, len(rows)).tobytes()
    return Listed(np.frombuffer(ids, np.int64), np.frombuffer(scored, np.float32) if ranked else None)


def years(connection: sqlite3.Connection, condition: Condition) -> list[tuple[int, int]]:
    """The number of papers of each year that meet a condition, most papers first; those without one do not count."""
    connection.create_function("has_words", 2, _has_words, deterministic=True)
    where, params = condition_sql(condition)
    return connection.execute(
        f"""
        SELECT p.year, count(*) AS papers FROM papers AS p WHERE p.year IS NOT NULL AND {where}
        GROUP BY 1 ORDER BY papers DESC, 1 DESC
        """,
        params,
    ).fetchall()


def uses_counts(condition: Condition, orders: Sequence[ListOrder] = ()) -> bool:
    """Whether a condition or an order needs what only the snapshot knows: counts of citations or references, or
    retractions."""
    if any(order.removeprefix("-") in _COUNTS for order in orders):
        return True
    match condition:
        case Every(parts) | Either(parts):
            return any(map(uses_counts, parts))
        case Without(part):
            return uses_counts(part)
        case Number(field):
            return field in _COUNTS
        case Has(what):
            return what == "retracted"
    return False


def _without_words(condition: Condition) -> Condition | None:
    """What a condition requires besides its words; None if papers without them may meet it."""
    match condition:
        case Text():
            return Every(())
        case Every(parts) if any(isinstance(part, Text) for part in parts):
            return Every(tuple(part for part in parts if not isinstance(part, Text)))
    return None


def _texts_of(condition: Condition) -> list[Text]:
    """The texts that raise a paper's rank: those outside of Without."""
    match condition:
        case Text():
            return [condition]
        case Every(parts) | Either(parts):
            return list(dict.fromkeys(text for part in parts for text in _texts_of(part)))
    return []


def _parts(texts: Sequence[Text]) -> list[str]:
    return list(dict.fromkeys(part for text in texts for part in text.ranked or (text.expression,)))


def _ranked(connection: sqlite3.Connection, texts: Sequence[Text]) -> list[str]:
    """The FTS5 expressions by which papers are ranked: of the parts of texts those that the fewest papers have, with
    ``MAX_RANKED`` places in all, and one at least. Words of most papers hardly change a rank."""
    parts = {part for text in texts for part in text.ranked}
    whole = [text.expression for text in texts if not text.ranked]
    costs = sorted((_places(connection, part), part) for part in parts)
    total = 0
    for at, (places, part) in enumerate(costs):
        total += places
        if total > MAX_RANKED and (at or _is_short(part)):
            parts.discard(part)
    if total <= MAX_RANKED:
        return [text.expression for text in texts]
    return [part for part in _parts(texts) if part in parts or part in whole]


def _is_short(part: str) -> bool:
    """Whether an expression is the beginning of a word with two letters, as most papers have."""
    return "*" in part and len(part.split('"')[1]) <= 2


def _places(connection: sqlite3.Connection, part: str) -> int:
    """About how many places of the index rank papers by a word or phrase, or by the beginning of a word, which a paper
    has several of."""
    in_each = 32 if _is_short(part) else 8 if "*" in part else 1
    count = connection.execute("SELECT count(*) FROM fulltext WHERE fulltext MATCH ?", (part,)).fetchone()[0]
    return int(count) * in_each


def condition_sql(condition: Condition) -> tuple[str, list[str | int]]:
    """A condition on the row ``p`` of ``papers``, and its parameters in order. NULL is false."""
    params: list[str | int] = []
    match condition:
        case Every(parts):
            sql, params = _joined(parts, "AND", "1")
        case Either(parts):
            sql, params = _joined(parts, "OR", "0")
        case Without(part):
            inner, params = condition_sql(part)
            sql = f"{inner} IS NOT TRUE"
        case Has(what):
            sql = _PRESENT[what]
        case Authors() | Venue() | Comment() | AtVenue() | Labels() | Categories():
            sql, params = _name_sql(condition)
        case _:
            sql, params = _leaf_sql(condition)
    return f"({sql})", params


def _name_sql(
    condition: Authors | Venue | Comment | AtVenue | Labels | Categories,
) -> tuple[str, list[str | int]]:
    params: list[str | int]
    match condition:
        case Authors(names):
            short = (words for words in names if max(map(len, words), default=0) <= _MAX_WORD)
            sql, params = _BY_AUTHORS, [json_list(filter(None, map(author_names.pattern_expression, short)))]
        case Venue(words):
            initials = [word + "*" if len(word) == 1 else word for word in words]
            sql, params = _words_sql("p.venue", initials)
        case Comment(words):
            sql, params = _words_sql("p.details ->> 'comment'", words, "p.details")
        case AtVenue(names):
            sql = f"p.venue_key IN ({VENUE_KEYS})"
            params = [json_list(map(venue_key, names))] * 2
        case Labels(field, names):
            sql = f"""EXISTS (
                SELECT 1 FROM json_each(p.details, '$.{field}') AS one
                WHERE lower(replace(one.value, ' ', '')) IN (SELECT value FROM json_each(?))
            )"""
            params = [json_list(name.replace(" ", "").lower() for name in names)]
        case Categories((name,)):
            of_category = "instr(' ' || p.categories || ' ', ' ' || ? || ' ')"
            of_archive = "instr(' ' || p.categories, ' ' || ? || '.')"
            forms = sorted(category_forms(name))
            sql = " OR ".join([of_category, of_archive] * len(forms))
            params = [form for form in forms for _ in (of_category, of_archive)]
        case Categories(names):
            listed = json_list(sorted({form for name in names for form in category_forms(name)}))
            sql, params = _OF_CATEGORIES, [listed] * 2
    return sql, params


def _words_sql(text: str, words: Sequence[str], column: str | None = None) -> tuple[str, list[str | int]]:
    """Papers whose text has all words. The longest word without accents is first looked for in the whole column, which
    takes a tenth of the time."""
    column = column or text
    wanted = [_folded(word) for word in words]
    may_have = f"({column} LIKE ? OR length({column}) <> length(CAST({column} AS BLOB)))"
    longest = max((word.rstrip("*") for word in wanted), key=len)
    return f"{may_have} AND has_words({text}, ?)", [f"%{longest}%", " ".join(wanted)]


def _folded(text: str) -> str:
    """A text in lower case and without accents."""
    decomposed = unicodedata.normalize("NFD", text.casefold())
    return "".join(c for c in decomposed if not unicodedata.combining(c)).translate(_UNDECOMPOSED)


def _has_words(text: str | None, wanted: str) -> bool:
    """The SQL function ``has_words``: whether a text has all words, of which a star ends the beginning of one."""
    words = set(_WORD.findall(_folded(text or "")))
    return all(
        any(word.startswith(wanted_word[:-1]) for word in words)
        if wanted_word.endswith("*")
        else wanted_word in words
        for wanted_word in wanted.split(" ")
    )


def _leaf_sql(condition: Condition) -> tuple[str, list[str | int]]:
    sql, params = "0", list[str | int]()
    match condition:
        case Text(expression):
            sql, params = "p.id IN (SELECT rowid FROM fulltext WHERE fulltext MATCH ?)", [expression]
        case Days(first, last, changed):
            begin, end = (f"coalesce({_UPDATED}, p.{name})" if changed else f"p.{name}" for name in _DAYS)
            sql, params = _between(begin, end, first, last)
            sql = sql or "1"
        case ArxivIds(None):
            sql = "p.arxiv_id IS NOT NULL"
        case ArxivIds(ids):
            sql, params = f"p.arxiv_id {_LISTED}", [json_list(ids or ())]
        case Number(field, low, high):
            sql, params = _between(f"p.{field}", f"p.{field}", low, high)
            sql = sql or f"p.{field} IS NOT NULL"
        case Among(relation, ids):
            sql, params = _AMONG[relation], [json_list(ids)]
        case OneOf(field, texts):
            sql = _LISTED_ID if field == "id" else f"{FIELDS[field]} {_LISTED}"
            params = [json_list(texts)] * sql.count("?")
        case Value(field, operator, text):
            sql = _COMPARED[operator].format(FIELDS[field])
            params = [text] * sql.count("?")
    return sql, params


def _between(first: str, last: str, low: int | None, high: int | None) -> tuple[str, list[str | int]]:
    """Two columns in a range, which may be open."""
    limits = [(f"{first} >= ?", low), (f"{last} <= ?", high)]
    return (
        " AND ".join(limit for limit, number in limits if number is not None),
        [number for _, number in limits if number is not None],
    )


def _joined(parts: Sequence[Condition], operator: str, empty: str) -> tuple[str, list[str | int]]:
    compiled = [condition_sql(part) for part in parts]
    text = f" {operator} ".join(sql for sql, _ in compiled)
    return text or empty, [value for _, params in compiled for value in params]


def every(parts: Sequence[Condition]) -> Condition:
    """Every part; those of words as one expression, which FTS5 joins faster than SQLite, and what is excluded as one
    condition."""
    excluded = [part.part for part in parts if isinstance(part, Without)]
    if len(excluded) > 1:
        parts = [*(part for part in parts if not isinstance(part, Without)), Without(either(excluded))]
    return _with_words_joined(parts, "AND", Every)


def either(parts: Sequence[Condition]) -> Condition:
    """Any part; those of words as one expression, and lists of names, categories and ids as one list."""
    authors = [part for part in parts if isinstance(part, Authors)]
    categories = [part for part in parts if isinstance(part, Categories)]
    if len(authors) > 1:
        names = tuple(chain.from_iterable(part.names for part in authors))
        parts = [*(part for part in parts if part not in authors), Authors(names)]
    if len(categories) > 1:
        of_any = tuple(chain.from_iterable(part.names for part in categories))
        parts = [*(part for part in parts if part not in categories), Categories(of_any)]
    listed = {part: part.ids for part in parts if isinstance(part, ArxivIds) and part.ids is not None}
    if len(listed) > 1:
        ids = ArxivIds(tuple(chain.from_iterable(listed.values())))
        parts = [*(part for part in parts if part not in listed), ids]
    return _with_words_joined(parts, "OR", Either)


def _with_words_joined(
    parts: Sequence[Condition], operator: str, join: Callable[[tuple[Condition, ...]], Condition]
) -> Condition:
    texts = [part for part in parts if isinstance(part, Text)]
    rest = [part for part in parts if not isinstance(part, Text)]
    if len(texts) > 1:
        joined = f" {operator} ".join(f"({text.expression})" for text in texts)
        texts = [Text(joined, tuple(_parts(texts)) if all(text.ranked for text in texts) else ())]
    # SQLite evaluates the parts in their order: names take longest.
    conditions = (*texts, *sorted(rest, key=lambda part: isinstance(part, Venue | Comment)))
    return conditions[0] if len(conditions) == 1 else join(conditions)


def words_condition(text: str, column: Literal["title", "abstract"] | None = None) -> Text | None:
    """Papers with a text's words in sequence, in a column or in any; a star at the end makes the last word a prefix.
    None for a text without words."""
    words = query_syntax.words(text)
    if not words:
        return None
    star = "*" if text.rstrip().endswith("*") and len(words[-1]) > 1 else ""
    field = f"{column}:" if column else ""
    expression = query_syntax.compile(f'{field}"{" ".join(words)}"{star}')
    return Text(expression, (expression,))


def name_words(text: str) -> tuple[str, ...]:
    """The words of a name for :class:`Authors` and :class:`Venue`."""
    spaced = "".join(c if c == "*" or c.isalnum() or unicodedata.category(c)[0] == "M" else " " for c in text)
    words = (word.split("*")[0] + ("*" if "*" in word else "") for word in spaced.split())
    return tuple(word for word in words if word != "*")
