"""Matching titles, exactly and approximately.

Exact matches have the same normalised form, whose hash is indexed in the catalogue. So is the hash of the part before a
subtitle: BERT finds "BERT: Pre-training of ...". Approximate matches share the title's rarest words: a few typing
errors change a few words, and the others find the paper.
"""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from hashlib import blake2b
from itertools import combinations
from typing import Final, NamedTuple

from rapidfuzz.distance import Indel

from scholarbase.indexes.filters import NO_FILTERS, ResolvedFilters, filter_sql
from scholarbase.indexes.query_syntax import words
from scholarbase.indexes.stop_words import STOP_WORDS
from scholarbase.indexes.vectors.base import ScoredId
from scholarbase.markup import MAY_CHANGE, plain, searchable
from scholarbase.models.limits import MAX_TITLE_LENGTH, MIN_TITLE_SCORE

SUBTITLE_SCORE: Final = 0.9
"""The least score of a title that is this one with a subtitle."""
MAX_PHRASE_WORDS: Final = 4
"""Words of a common phrase. More than ten titles contain *attention is all you need*, but it names a paper."""
COMMON_TITLES: Final = 10
"""Titles that contain a common phrase. Of 3,000 arXiv papers no title was one, of the 2,440 of the sample four were."""
_SUBTITLE: Final = re.compile(
    r"[:?!\s\u2014](?:(?<=[:?!])(?=\s)|(?<=[^\W\d]:)(?=[^\W\d])|(?<=\s)(?:-{1,3}|\u2013)\s|(?<=\u2014))"
)
"""What separates a subtitle. It begins with a set of characters, which is found much faster than alternatives."""
_CANDIDATES: Final = 100
_MAX_MATCHES: Final = 2000
"""Titles that the rare words together may match: ranking them takes a few milliseconds."""
_MAX_COUNT: Final = 5000
"""Where counting the titles of a word, or of a combination of words, stops."""
_MAX_WORDS: Final = 60
"""Words of a title that are counted; the longest titles have about forty."""
_MAX_COMBINED: Final = 4
"""Words of a title that are combined when each alone is too common."""

UNDIVIDED: Final = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ð": "d", "ı": "i", "æ": "ae", "œ": "oe"})
"""Letters that Unicode does not decompose. LaTeX writes them as \\o, \\l, \\dj, \\dh, \\i, \\ae, \\oe."""
_MARKUP: Final = re.compile(r"[&<\\]")
"""The first character of an entity, a tag or a command."""
_ACCENTS: Final = re.compile("[\u0300-\u036f]+")
_STARS: Final = str.maketrans(dict.fromkeys("*∗⋆"))
"""Many records of a title lack the star of *C*-algebra*, and others end with one for a footnote."""
_ASCII_DROPPED: Final = {code: None for code in range(128) if not chr(code).isalnum()}
_KEPT_MARKS: Final = frozenset({0, 7, 8, 9})
"""Combining classes of marks that change the letter: vowel signs, nukta, kana voicing, virama. Accents, Hebrew points
and Arabic vowels have other classes (https://www.unicode.org/reports/tr44/#Canonical_Combining_Class_Values)."""


def normalize_title(text: str) -> str:
    """Return a title in the form in which titles are compared.

    It keeps the lower-case letters and digits of any script, without accents, punctuation, spaces and markup, of the
    searchable form without stars (:mod:`scholarbase.markup`): *C++*, *C#* and *C* differ, *β* and *beta* do not.
    """
    text = text[
        :MAX_TITLE_LENGTH
    ]  # Unicode's normalization takes quadratic time for a run of combining marks
    if text.isascii() and not _MARKUP.search(text):  # most titles, ten times as fast
        return searchable(text.replace("*", "")).lower().translate(_ASCII_DROPPED)
    text = searchable(plain(text).translate(_STARS))
    # Case folding can undo a decomposition (U+0345), so the text is decomposed before and after.
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    # Without its accent, a letter may be a Greek one that has a name.
    return searchable("".join(filter(is_kept, _ACCENTS.sub("", folded)))).translate(UNDIVIDED)


def is_kept(char: str) -> bool:
    if char.isalnum():
        return True
    return unicodedata.category(char)[0] == "M" and unicodedata.combining(char) in _KEPT_MARKS


def title_hash(text: str) -> int:
    """Hash a title's normalised form to a number from 0 to 2**63 - 1, the same in every process and release.

    It is the first 63 bits of the BLAKE2b hash of the form in UTF-8 (https://www.rfc-editor.org/rfc/rfc7693).
    """
    return title_hash_of(normalize_title(text))


def title_hash_of(normalized: str) -> int:
    """The :func:`title_hash` of a normalised form."""
    return int.from_bytes(blake2b(normalized.encode(), digest_size=8).digest(), "big") >> 1


def main_title(title: str) -> str | None:
    """The part of a title before its subtitle, None if it has no subtitle.

    A colon, a dash between spaces, or a question or exclamation mark separates them.
    """
    main, normalized = _main_title(title)
    return main if normalized else None


def main_title_hash(title: str) -> int | None:
    """The :func:`title_hash` of a title's part before its subtitle."""
    _, normalized = _main_title(title)
    return title_hash_of(normalized) if normalized else None


def _main_title(title: str) -> tuple[str, str]:
    """The part of a title before its subtitle, and its normalised form; both empty if it has no subtitle."""
    match = _SUBTITLE.search(title)
    main = "" if match is None else title[: match.start()]
    return main, normalize_title(main) if main else ""


class Titled(NamedTuple):
    """A paper with a title that was looked for."""

    id: int
    name: str
    """Its title, or the part before the subtitle, as written."""
    first_day: int | None
    """The first possible day of its publication."""


def titled(connection: sqlite3.Connection, title: str, filters: ResolvedFilters, most: int) -> list[Titled]:
    """Return the papers with this title, or if there are none, those with it before a subtitle, by id.

    Titles are equal if their normalised forms are. Returns nothing if more than ``most`` papers share it.
    """
    if MAY_CHANGE.search(title):
        title = plain(title)
    normalized = normalize_title(title)
    if not normalized or len(title) > MAX_TITLE_LENGTH:
        return []
    key = title_hash_of(normalized)
    condition, params = ("1", []) if filters is NO_FILTERS else filter_sql(filters, "p")
    for column, part in (("title_hash", str), ("main_title_hash", main_title)):
        rows = connection.execute(
            f"""
            SELECT p.id, p.title, p.first_day FROM papers AS p
            WHERE p.{column} = ? AND {condition} ORDER BY p.id LIMIT ?
            """,
            [key, *params, most + 1],
        ).fetchall()
        if rows:
            papers = [Titled(number, part(stored) or "", day) for number, stored, day in rows]
            same = [paper for paper in papers if normalize_title(paper.name) == normalized]
            return same if len(rows) <= most else []
    return []


def is_common_phrase(connection: sqlite3.Connection, title: str, last_day: int | None) -> bool:
    """Whether a title is a phrase of the field rather than the name of a paper: *machine translation*, *attention*.

    Such a phrase has at most :data:`MAX_PHRASE_WORDS` words, and :data:`COMMON_TITLES` titles or more contain it. A
    single word is a name all the same if most abstracts of these papers do not write it in lower case: *BERT*. Papers
    after ``last_day`` do not count.
    """
    phrase = words(title)
    if not phrase or len(phrase) > MAX_PHRASE_WORDS:
        return False
    condition, params = filter_sql(ResolvedFilters(last_day=last_day), "p")
    rows = connection.execute(
        f"""
        SELECT p.title, a.abstract FROM title_words CROSS JOIN papers AS p ON p.id = title_words.rowid
        LEFT JOIN abstracts AS a ON a.paper_id = p.id
        WHERE title_words MATCH ? AND {condition} ORDER BY title_words.rowid LIMIT ?
        """,
        [f'"{" ".join(phrase)}"', *params, COMMON_TITLES],
    ).fetchall()
    if len(rows) < COMMON_TITLES:
        return False
    if len(phrase) > 1:
        return True
    word = re.compile(rf"(?<!\w){re.escape(phrase[0])}(?:s|es)?(?!\w)", re.IGNORECASE)
    written = [match[0] for _, abstract in rows if (match := word.search(searchable(abstract or "")))]
    return not written or 2 * sum(text == text.lower() for text in written) >= len(written)


def match(
    connection: sqlite3.Connection,
    title: str,
    limit: int,
    min_score: float = MIN_TITLE_SCORE,
    filters: ResolvedFilters = NO_FILTERS,
) -> list[ScoredId]:
    """Return the papers with this title (score 1.0), then those with the most similar titles, ties by id.

    Similar titles share a word with this one, and are scored by :func:`similarity`. A title that is this one with a
    subtitle scores ``SUBTITLE_SCORE`` or more. Among those the most cited come first, or with filters, which may hide
    counts, the lowest ids. A title without letters and digits matches nothing. At the default ``min_score`` three
    typing errors in a title of usual length (above 0.87) or a missing word (above 0.72) still match. For six of 200
    arXiv papers another paper's title also matched.
    """
    title = plain(title)
    normalized = normalize_title(title)
    if not normalized:
        return []
    condition, params = filter_sql(filters, "p")
    same_hash = connection.execute(
        f"SELECT p.id, p.title FROM papers AS p WHERE p.title_hash = ? AND {condition} ORDER BY p.id",
        [title_hash_of(normalized), *params],
    ).fetchall()
    # Different titles may have the same hash, however rarely.
    exact = [
        ScoredId(paper_id, 1.0) for paper_id, stored in same_hash if normalize_title(stored) == normalized
    ]
    if len(exact) >= limit or min_score == 1.0:
        return exact[:limit]
    exact_ids = {hit.id for hit in exact}
    scores = {
        paper_id: similarity(normalized, normalize_title(stored))
        for paper_id, stored in _candidates(connection, title, condition, params)
    }
    beginning = connection.execute(
        f"""
        SELECT p.id, p.title FROM papers AS p WHERE p.main_title_hash = ? AND {condition}
        ORDER BY {"p.id" if params else "p.citation_count DESC, p.id"}
        """,
        [title_hash_of(normalized), *params],
    )
    positions: dict[int, int] = {}
    for position, (paper_id, stored) in enumerate(beginning):
        if position == limit + len(exact):
            break
        if normalize_title(main_title(stored) or "") == normalized:
            scores[paper_id] = max(SUBTITLE_SCORE, similarity(normalized, normalize_title(stored)))
            positions[paper_id] = position
    similar = [
        ScoredId(paper_id, score)
        for paper_id, score in scores.items()
        if paper_id not in exact_ids and score >= min_score
    ]
    similar.sort(key=lambda hit: (-hit.score, positions.get(hit.id, -1), hit.id))
    return [*exact, *similar][:limit]


def similarity(a: str, b: str) -> float:
    """Return the similarity of two normalised titles, 0..1; 1.0 only if they are equal.

    It is the normalised indel similarity, 1 - d / (len(a) + len(b)), where d is the number of insertions and
    deletions that make one title of the other.
    """
    return Indel.normalized_similarity(a, b)


def _candidates(
    connection: sqlite3.Connection, title: str, condition: str, params: list[int | str]
) -> list[tuple[int, str]]:
    """Return the papers whose titles share the most rare words with this one.

    If no words are rare, alone or together, these are any ``_MAX_MATCHES`` of the titles that share them. They may
    lack the right paper, unless its title is the same.
    """
    expression = _rare_words(connection, title, condition, params)
    if expression is None:
        return []
    text, is_selective = expression
    if is_selective and not params:  # only the best papers' rows are read
        return connection.execute(
            """
            SELECT p.id, p.title FROM (
                SELECT rowid FROM title_words WHERE title_words MATCH ? ORDER BY bm25(title_words), rowid LIMIT ?
            ) AS best CROSS JOIN papers AS p ON p.id = best.rowid
            """,
            [text, _CANDIDATES],
        ).fetchall()
    # Matches among the papers that pass filters are not ranked: BM25 would weigh words by their frequency among all
    # papers, which says nothing about these.
    return connection.execute(
        f"""
        SELECT p.id, p.title FROM title_words CROSS JOIN papers AS p ON p.id = title_words.rowid
        WHERE title_words MATCH ? AND {condition} LIMIT ?
        """,
        [text, *params, _MAX_MATCHES],
    ).fetchall()


def _rare_words(
    connection: sqlite3.Connection, title: str, condition: str, params: list[int | str]
) -> tuple[str, bool] | None:
    """Return an FTS5 expression for the titles that share rare words with this one, or common words that are rare
    together; and whether it matches ``_MAX_MATCHES`` titles at most.

    Frequencies are counted among the papers that meet the condition. The alternatives together match
    ``_MAX_MATCHES`` papers at most, so that ranking them takes milliseconds. If every alternative matches more, the
    expression is the rarest of them.
    """
    distinct = list(dict.fromkeys(word.casefold() for word in words(title)))[:_MAX_WORDS]
    known = _counted(connection, [f'"{word}"' for word in distinct], condition, params)
    if not known:
        # Every word is misspelt or unknown in this form: search for words with the same beginning.
        prefixes = [f'"{word[: (len(word) + 1) // 2]}" *' for word in words(title) if len(word) >= 6]
        known = _counted(connection, prefixes[:_MAX_COMBINED], condition, params)
    if not known:
        return None
    alternatives: list[str] = []
    matched = 0
    while known and (matched + known[0][0] <= _MAX_MATCHES):
        papers, term = known.pop(0)
        matched += papers
        alternatives.append(term)
    not_stop_words = [term for _, term in known if term.strip('"') not in STOP_WORDS]
    common = (not_stop_words or [term for _, term in known])[:_MAX_COMBINED]
    rarest = common[0] if common else ""
    for size in range(2, len(common) + 1):
        joined = [" AND ".join(group) for group in combinations(common, size)]
        together = _counted(connection, joined, condition, params)
        if not together:
            break
        rarest = together[0][1]
        fitting = 0
        for papers, terms in together:
            if matched + papers > _MAX_MATCHES:
                break
            matched += papers
            alternatives.append(f"({terms})")
            fitting += 1
        if fitting == len(together):
            break
    return (" OR ".join(alternatives), True) if alternatives else (rarest, False)


def _counted(
    connection: sqlite3.Connection, expressions: list[str], condition: str, params: list[int | str]
) -> list[tuple[int, str]]:
    """Return the expressions that match any title, each with its number of titles, the rarest first."""
    counted = [
        (_frequency(connection, text, condition, params), position, text)
        for position, text in enumerate(expressions)
    ]
    return [(papers, text) for papers, _, text in sorted(counted) if papers]


def _frequency(
    connection: sqlite3.Connection, expression: str, condition: str, params: list[int | str]
) -> int:
    """Count the titles that match, up to ``_MAX_COUNT``."""
    join = f"CROSS JOIN papers AS p ON p.id = title_words.rowid AND {condition}" if params else ""
    row = connection.execute(
        f"SELECT count(*) FROM (SELECT 1 FROM title_words {join} WHERE title_words MATCH ? LIMIT ?)",
        (*params, expression, _MAX_COUNT),
    ).fetchone()
    return int(row[0])
