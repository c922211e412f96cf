"""Titles: the paper that a title names, exactly or nearly.

Exact is by the normalised form, whose hash the catalogue keeps and indexes. Nearly is by the rarest words: a
handful of typing errors spoils a handful of words, and those that are left find the paper.
"""

from __future__ import annotations

import html
import re
import sqlite3
import unicodedata
from hashlib import blake2b
from itertools import combinations
from typing import Final, NamedTuple

from rapidfuzz.distance import Indel

from scholarbase.errors import InvalidRequest
from scholarbase.indexes.filter_sql import filter_sql, reading
from scholarbase.indexes.filters import NO_FILTERS, ResolvedFilters
from scholarbase.indexes.query_syntax import words
from scholarbase.indexes.stop_words import STOP_WORDS
from scholarbase.indexes.vectors.base import ScoredId
from scholarbase.models import MIN_TITLE_SCORE

MIN_SCORE: Final = MIN_TITLE_SCORE
"""Three typing errors leave a title of usual length above 0.87, a lost word above 0.72; of 200 arXiv papers six
had another paper's title above this."""

_CANDIDATES: Final = 100
_TELLING: Final = 2000
"""Titles that the rare words may match together: ranking them takes a few milliseconds."""
_COUNTED: Final = 5000
"""Where counting the titles of a word, or of several together, stops."""
_LOOKED_UP: Final = 60
"""Words of a title that are counted; the longest titles have about forty."""
_COMBINED: Final = 4
"""Words of a title that are combined when they are too common to stand alone."""

_READING: Final = "The titles"

_TAG: Final = re.compile(
    r"</?(?:i|b|u|em|strong|sub|sup|sc|scp|tt|span|italic|bold|mml:\w+|inline-formula|tex-math)(?:\s[^<>]*)?/?>",
    re.IGNORECASE,
)
_COMMAND: Final = re.compile(r"\\([A-Za-z]+)\*?")
_UNSPOKEN: Final = """
H c v u k r b d t G
it bf rm sf tt sc em cal bm bar hat tilde vec dot ddot overline underline left right big Big displaystyle
text textit textbf textrm textsf texttt textsc textup textsuperscript textsubscript emph mbox hbox
math mathit mathbf mathrm mathsf mathtt mathcal mathbb mathfrak mathscr boldsymbol operatorname ensuremath
to rightarrow leftarrow leftrightarrow longrightarrow Rightarrow mapsto times cdot cdots ldots dots pm mp sim
simeq approx equiv propto le ge leq geq lesssim gtrsim ll gg neq ne in subset infty partial nabla circ
quad qquad prime dagger ast star otimes oplus wedge vee langle rangle lbrace rbrace
"""
_SILENT: Final = frozenset(_UNSPOKEN.split())
"""LaTeX commands that stand for no letter: accents, styles, operators and arrows."""
_GREEK: Final = {
    "lambda": "lamda",  # as Unicode spells it
    "Lambda": "lamda",
    "varepsilon": "epsilon",
    "vartheta": "theta",
    "varphi": "phi",
}
_UNDIVIDED: Final = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ð": "d", "ı": "i", "æ": "ae", "œ": "oe"})
"""Letters that Unicode does not decompose, and LaTeX writes as \\o, \\l, \\dj, \\dh, \\i, \\ae, \\oe."""
_MARKUP: Final = re.compile(r"[&<\\]")
"""What begins an entity, a tag or a command."""
_ASCII_DROPPED: Final = {code: None for code in range(128) if not chr(code).isalnum()}
_KEPT_MARKS: Final = frozenset({0, 7, 8, 9})
"""Combining classes of marks that make another letter: vowel signs, nukta, kana voicing, virama. Accents, Hebrew
points and Arabic vowels have others (https://www.unicode.org/reports/tr44/#Canonical_Combining_Class_Values)."""


def normalize_title(text: str) -> str:
    """A title as it is compared: lower-case letters and digits of any script, without accents, punctuation,
    spaces, and the markup of LaTeX and HTML. ``$\\alpha$`` is the letter α."""
    if text.isascii() and not _MARKUP.search(text):  # most titles, and ten times as fast
        return text.lower().translate(_ASCII_DROPPED)
    text = _COMMAND.sub(_plain, _TAG.sub("", html.unescape(text)))
    # Folding case can undo a decomposition (U+0345), so it stands between two.
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(filter(_is_kept, folded)).translate(_UNDIVIDED)


def _is_kept(char: str) -> bool:
    if char.isalnum():
        return True
    return unicodedata.category(char)[0] == "M" and unicodedata.combining(char) in _KEPT_MARKS


def _plain(command: re.Match[str]) -> str:
    """What a LaTeX command stands for: nothing, a Greek letter, or the letters of its name."""
    name = command[1]
    if name in _SILENT:
        return ""
    if name in ("aa", "AA"):
        return "å"
    size = "CAPITAL" if name[0].isupper() else "SMALL"
    try:
        return unicodedata.lookup(f"GREEK {size} LETTER {_GREEK.get(name, name).upper()}")
    except KeyError:
        return name


def title_hash(text: str) -> int:
    """A number from 0 to 2**63 - 1 that titles with one normalised form share, in every process and release.

    The first 63 bits of the form's BLAKE2b in UTF-8 (https://www.rfc-editor.org/rfc/rfc7693).
    """
    digest = blake2b(normalize_title(text).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def match(
    connection: sqlite3.Connection,
    title: str,
    limit: int,
    min_score: float = MIN_SCORE,
    filters: ResolvedFilters = NO_FILTERS,
) -> list[ScoredId]:
    """The papers with this title (score 1.0), then those whose titles are most like it, ties by id.

    Like papers are looked for among those that share a word with the title; a score is :func:`similarity`.
    A title without letters and digits names no paper.

    Raises:
        InvalidRequest: ``min_score`` is not within 0..1.
        LibraryCorrupt: the catalogue cannot be read.
    """
    if not 0.0 <= min_score <= 1.0:
        raise InvalidRequest(f"min_score is {min_score!r}: it must be a number from 0 to 1.")
    normalized = normalize_title(title)
    if not normalized:
        return []
    condition, params = filter_sql(filters, "p")
    with reading(_READING):
        same_hash = connection.execute(
            f"SELECT p.id, p.title FROM papers AS p WHERE p.title_hash = ? AND {condition} ORDER BY p.id",
            [title_hash(title), *params],
        ).fetchall()
        # Two titles may share a hash, however rarely.
        found = [
            ScoredId(paper_id, 1.0) for paper_id, stored in same_hash if normalize_title(stored) == normalized
        ]
        if len(found) >= limit or min_score == 1.0:
            return found[:limit]
        candidates = _candidates(connection, title, condition, params)
    exact = {hit.id for hit in found}
    like = [
        ScoredId(paper_id, similarity(normalized, normalize_title(stored)))
        for paper_id, stored in candidates
        if paper_id not in exact
    ]
    like.sort(key=lambda hit: (-hit.score, hit.id))
    return [*found, *(hit for hit in like if hit.score >= min_score)][:limit]


def similarity(a: str, b: str) -> float:
    """How alike two normalised titles are, 0..1: 1 - d / (len(a) + len(b)), with d the letters that must be
    inserted or deleted to make one of the other (the normalised indel similarity). 1.0 only for the same."""
    return Indel.normalized_similarity(a, b)


class _Expression(NamedTuple):
    """An FTS5 expression for like titles. ``telling``: it matches no more than ``_TELLING``."""

    text: str
    telling: bool


def _candidates(
    connection: sqlite3.Connection, title: str, condition: str, params: list[int | str]
) -> list[tuple[int, str]]:
    """The papers whose titles share the most telling words with this one.

    If no words tell it from others, any ``_TELLING`` of the titles that share them are taken: the one that is
    meant may be missed, unless it is the same.
    """
    expression = _rare_words(connection, title, condition, params)
    if expression is None:
        return []
    if params:
        # Telling or not, they are counted among the papers that pass. Those are not ranked: how rare a word is among
        # all papers, by which BM25 would, says nothing of its rank among these.
        return connection.execute(
            f"""
            SELECT p.id, p.title FROM title_words CROSS JOIN papers AS p ON p.id = title_words.rowid
            WHERE title_words MATCH ? AND {condition} LIMIT ?
            """,
            [expression.text, *params, _TELLING],
        ).fetchall()
    if expression.telling:  # the papers' rows are read for the best alone
        return connection.execute(
            """
            SELECT p.id, p.title FROM (
                SELECT rowid FROM title_words WHERE title_words MATCH ? ORDER BY bm25(title_words), rowid LIMIT ?
            ) AS best CROSS JOIN papers AS p ON p.id = best.rowid
            """,
            [expression.text, _CANDIDATES],
        ).fetchall()
    return connection.execute(
        """
        SELECT p.id, p.title
        FROM (SELECT rowid FROM title_words WHERE title_words MATCH ? LIMIT ?) AS some
        CROSS JOIN papers AS p ON p.id = some.rowid
        """,
        [expression.text, _TELLING],
    ).fetchall()


def _rare_words(
    connection: sqlite3.Connection, title: str, condition: str, params: list[int | str]
) -> _Expression | None:
    """The titles that share with this one a rare word, or common ones that are rare together, among the papers that
    meet the condition.

    All alternatives together match no more than ``_TELLING`` papers, so that ranking them takes milliseconds.
    Where there is no such alternative, it is the one that is rarest.
    """
    each = list(dict.fromkeys(word.casefold() for word in words(title)))[:_LOOKED_UP]
    known = _counted(connection, [f'"{word}"' for word in each], condition, params)
    if not known:
        # Every word is misspelt, or unknown in this form: words that begin alike may do.
        prefixes = [f'"{word[: (len(word) + 1) // 2]}" *' for word in words(title) if len(word) >= 6]
        known = _counted(connection, prefixes[:_COMBINED], condition, params)
    if not known:
        return None
    alternatives: list[str] = []
    matched = 0
    while known and (matched + known[0][0] <= _TELLING):
        papers, term = known.pop(0)
        matched += papers
        alternatives.append(term)
    telling = [term for _, term in known if term.strip('"') not in STOP_WORDS]
    common = (telling or [term for _, term in known])[:_COMBINED]
    rarest = common[0] if common else ""
    for size in range(2, len(common) + 1):
        joined = [" AND ".join(some) for some in combinations(common, size)]
        together = _counted(connection, joined, condition, params)
        if not together:
            break
        rarest = together[0][1]
        fitting = 0
        for papers, terms in together:
            if matched + papers > _TELLING:
                break
            matched += papers
            alternatives.append(f"({terms})")
            fitting += 1
        if fitting == len(together):
            break
    if alternatives:
        return _Expression(" OR ".join(alternatives), telling=True)
    return _Expression(rarest, telling=False)


def _counted(
    connection: sqlite3.Connection, expressions: list[str], condition: str, params: list[int | str]
) -> list[tuple[int, str]]:
    """The expressions that some title matches, the rarest first, each with how many do."""
    counted = [
        (_frequency(connection, text, condition, params), place, text)
        for place, text in enumerate(expressions)
    ]
    return [(papers, text) for papers, _, text in sorted(counted) if papers]


def _frequency(
    connection: sqlite3.Connection, expression: str, condition: str, params: list[int | str]
) -> int:
    """How many titles match, with words as FTS5 stems them; counting stops where it is common."""
    join = f"CROSS JOIN papers AS p ON p.id = title_words.rowid AND {condition}" if params else ""
    row = connection.execute(
        f"SELECT count(*) FROM (SELECT 1 FROM title_words {join} WHERE title_words MATCH ? LIMIT ?)",
        (*params, expression, _COUNTED),
    ).fetchone()
    return int(row[0])
