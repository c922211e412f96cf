"""Papers that meet a condition, all of them counted, by relevance or by date.

A condition is a tree of words, names, categories, days, ids and values, joined by and, or and not. SQLite evaluates it
on every paper, so that totals are exact and pages of any sort are parts of one list. Searches
(:mod:`scholarbase.indexes.fulltext`) rank texts by words; this lists papers also without any word.
"""

from __future__ import annotations

import sqlite3
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, TypeAlias

from scholarbase.indexes import query_syntax
from scholarbase.indexes.filter_sql import json_list
from scholarbase.indexes.filters import category_forms
from scholarbase.indexes.fulltext import TITLE_WEIGHT
from scholarbase.indexes.vectors.base import ScoredId

ListOrder: TypeAlias = Literal["-relevance", "relevance", "-date", "date", "id"]
"""By BM25 of the condition's words (without any, by date), by date, or by arXiv id; with ``-`` the greatest first."""


@dataclass(frozen=True, slots=True)
class Text:
    """Papers that match an FTS5 expression (:mod:`scholarbase.indexes.query_syntax`)."""

    expression: str


@dataclass(frozen=True, slots=True)
class Author:
    """Papers with an author whose name has all these words in any order. Case and accents are ignored, a single letter
    is an initial, and ``*`` ends the beginning of a word."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Venue:
    """Papers whose venue has all these words, read as those of :class:`Author`."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Category:
    """Papers of a category (``cs.CL``) or an archive (``cs``)."""

    name: str


@dataclass(frozen=True, slots=True)
class Days:
    """Papers whose whole range of possible days is in a range of days ``yyyymmdd``."""

    first: int | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True)
class ArxivIds:
    """Papers with one of these arXiv ids, without versions; None for all papers with an arXiv id."""

    ids: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Value:
    """A comparison of a paper's text in a field, code point by code point.

    Args:
        field: of :data:`FIELDS`.
        operator: ``=``, ``<``, ``<=``, ``>``, ``>=``, ``starts``, ``ends`` or ``has``.
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
    Text | Author | Venue | Category | Days | ArxivIds | Value | OneOf | Every | Either | Without
)

FIELDS: Final = {
    "id": "coalesce(p.arxiv_id, 'CorpusId:' || p.corpus_id, 'Doc:' || (p.external_ids ->> 'Doc'))",
    "title": "p.title",
    "abstract": "(SELECT abstract FROM abstracts WHERE paper_id = p.id)",
    "authors": "(SELECT group_concat(value ->> 0, ', ') FROM json_each(p.authors))",
    "categories": "p.categories",
    "update_date": "p.publication_date",
}
"""The SQL of the fields that :class:`Value` compares. An id is the arXiv id, else the canonical id."""
_LISTED: Final = "IN (SELECT value FROM json_each(?))"
_LISTED_ID: Final = f"p.arxiv_id {_LISTED} OR (p.arxiv_id IS NULL AND {FIELDS['id']} {_LISTED})"
"""In two parts, each of which uses the index of arXiv ids."""
_COMPARED: Final = {
    **{operator: f"{{}} {operator} ?" for operator in ("=", "<", "<=", ">", ">=")},
    "starts": "substr({}, 1, length(?)) = ?",
    "ends": "substr({}, -length(?)) = ?",
    "has": "instr({}, ?)",
}
_SORTED: Final[dict[ListOrder, str]] = {
    "-relevance": "s.score DESC NULLS LAST, p.first_day DESC NULLS LAST, p.id DESC",
    "relevance": "s.score NULLS FIRST, p.first_day NULLS FIRST, p.id",
    "-date": "p.first_day DESC NULLS LAST, p.last_day DESC, p.id DESC",
    "date": "p.first_day NULLS LAST, p.last_day, p.id",
    "id": "p.arxiv_id NULLS LAST, p.id",
}
_ENDS: Final = "[ .,'-]"
"""What separates the words of a name, as a class of GLOB."""


def page(
    connection: sqlite3.Connection,
    condition: Condition,
    order: ListOrder,
    limit: int,
    offset: int,
    *,
    title_weight: float = TITLE_WEIGHT,
) -> tuple[int, list[ScoredId]]:
    """The number of papers that meet a condition, and a page of them. Scores of papers without words are 0."""
    where, params = condition_sql(condition)
    by_words = order in ("-relevance", "relevance")
    ranked = _words_of(condition) if by_words else []
    scores, score, join, words = "", "0", "", []
    if ranked:
        scores = f"""
            WITH s AS MATERIALIZED (
                SELECT rowid AS id, -bm25(fulltext, {float(title_weight)!r}, 1.0) AS score FROM fulltext
                WHERE fulltext MATCH ?
            )
        """
        score, join = "s.score", "LEFT JOIN s ON s.id = p.id"
        words = [" OR ".join(f"({expression})" for expression in dict.fromkeys(ranked))]
    elif by_words:
        order = "-date" if order == "-relevance" else "date"
    rows = connection.execute(
        f"""
        {scores} SELECT p.id, coalesce({score}, 0), count(*) OVER () FROM papers AS p {join}
        WHERE {where} ORDER BY {_SORTED[order]} LIMIT ? OFFSET ?
        """,
        [*words, *params, limit, offset],
    ).fetchall()
    if rows:
        total = rows[0][2]
    else:
        total = connection.execute(f"SELECT count(*) FROM papers AS p WHERE {where}", params).fetchone()[0]
    return total, [ScoredId(paper_id, score) for paper_id, score, _ in rows]


def _words_of(condition: Condition) -> list[str]:
    """The FTS5 expressions that raise a paper's rank: those outside of Without."""
    match condition:
        case Text(expression):
            return [expression]
        case Every(parts) | Either(parts):
            return [expression for part in parts for expression in _words_of(part)]
    return []


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
        case Text(expression):
            sql, params = "p.id IN (SELECT rowid FROM fulltext WHERE fulltext MATCH ?)", [expression]
        case Author(words):
            # The longest word without accents is first looked for in the whole column, which takes a tenth of the time.
            each = " AND ".join(["' ' || (one.value ->> 0) || ' ' GLOB ?"] * len(words))
            may_have = "p.authors LIKE ? OR length(p.authors) <> length(CAST(p.authors AS BLOB))"
            sql = f"({may_have}) AND EXISTS (SELECT 1 FROM json_each(p.authors) AS one WHERE {each})"
            params = [f"%{max(map(_folded, words), key=len)}%", *map(_word_pattern, words)]
        case Venue(words):
            sql = " AND ".join(["' ' || p.venue || ' ' GLOB ?"] * len(words))
            params = list(map(_word_pattern, words))
        case Category(name):
            own = "instr(' ' || p.categories || ' ', ' ' || ? || ' ')"
            of_archive = "instr(' ' || p.categories, ' ' || ? || '.')"
            forms = sorted(category_forms(name))
            sql = " OR ".join([own, of_archive] * len(forms))
            params = [form for form in forms for _ in (own, of_archive)]
        case Days(first, last):
            limits = [("p.first_day >= ?", first), ("p.last_day <= ?", last)]
            sql = " AND ".join(limit for limit, day in limits if day is not None) or "1"
            params = [day for _, day in limits if day is not None]
        case ArxivIds(None):
            sql = "p.arxiv_id IS NOT NULL"
        case ArxivIds(ids):
            sql, params = f"p.arxiv_id {_LISTED}", [json_list(ids or ())]
        case OneOf(field, texts):
            sql = _LISTED_ID if field == "id" else f"{FIELDS[field]} {_LISTED}"
            params = [json_list(texts)] * sql.count("?")
        case Value(field, operator, text):
            sql = _COMPARED[operator].format(FIELDS[field])
            params = [text] * sql.count("?")
    return f"({sql})", params


def _joined(parts: Sequence[Condition], operator: str, empty: str) -> tuple[str, list[str | int]]:
    each = [condition_sql(part) for part in parts]
    text = f" {operator} ".join(sql for sql, _ in each)
    return text or empty, [value for _, params in each for value in params]


def every(parts: Sequence[Condition]) -> Condition:
    """Every part; those of words as one expression, which FTS5 joins faster than SQLite."""
    return _with_words_joined(parts, "AND", Every)


def either(parts: Sequence[Condition]) -> Condition:
    """Any part; those of words as one expression."""
    return _with_words_joined(parts, "OR", Either)


def _with_words_joined(
    parts: Sequence[Condition], operator: str, join: Callable[[tuple[Condition, ...]], Condition]
) -> Condition:
    texts = [part.expression for part in parts if isinstance(part, Text)]
    rest = [part for part in parts if not isinstance(part, Text)]
    if len(texts) > 1:
        texts = [f" {operator} ".join(f"({text})" for text in texts)]
    # SQLite evaluates the parts in their order: names take longest.
    joined = (*map(Text, texts), *sorted(rest, key=lambda part: isinstance(part, Author | Venue)))
    return joined[0] if len(joined) == 1 else join(joined)


def words_condition(text: str, column: Literal["title", "abstract"] | None = None) -> Text | None:
    """Papers with a text's words in sequence, in a column or in any; a star at the end makes the last word a prefix.
    None for a text without words."""
    found = query_syntax.words(text)
    if not found:
        return None
    star = "*" if text.rstrip().endswith("*") and len(found[-1]) > 1 else ""
    field = f"{column}:" if column else ""
    return Text(query_syntax.compile(f'{field}"{" ".join(found)}"{star}'))


def name_words(text: str) -> tuple[str, ...]:
    """The words of a name for :class:`Author` and :class:`Venue`."""
    spaced = "".join(c if c == "*" or c.isalnum() or unicodedata.category(c)[0] == "M" else " " for c in text)
    found = (word.split("*")[0] + ("*" if "*" in word else "") for word in spaced.split())
    return tuple(word for word in found if word != "*")


def _word_pattern(word: str) -> str:
    """A GLOB pattern for names between spaces that have a word, its beginning, or for one letter an initial."""
    stem = word.rstrip("*")
    is_open = word.endswith("*") or len(stem) == 1
    return f"*{_ENDS}{_classes(stem)}{'' if is_open else _ENDS}*"


def _folded(word: str) -> str:
    """A word in lower case without accents and a star."""
    return "".join(
        c for c in unicodedata.normalize("NFD", word.lower().rstrip("*")) if not unicodedata.combining(c)
    )


def _classes(word: str) -> str:
    """A GLOB pattern for a word in any case, with and without accents."""
    return "".join(
        f"[{_variants().get(c, c + c.upper() if len(c.upper()) == 1 else c)}]" for c in _folded(word)
    )


@cache
def _variants() -> dict[str, str]:
    """The Latin letters of each letter from a to z: itself, in upper case, and both with accents."""
    found = {letter: letter + letter.upper() for letter in map(chr, range(ord("a"), ord("z") + 1))}
    for code in (*range(0xC0, 0x250), *range(0x1E00, 0x1F00)):
        base = unicodedata.normalize("NFD", chr(code))[0].lower()
        if base in found:
            found[base] += chr(code)
    for letter, special in (("l", "łŁ"), ("o", "øØ"), ("d", "đĐ"), ("i", "ı")):
        found[letter] += special
    return found
