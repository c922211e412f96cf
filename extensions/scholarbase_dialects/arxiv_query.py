"""The query language of the arXiv API: https://info.arxiv.org/help/api/user-manual.html#query_details

Words and phrases with a field before them, ``AND``, ``OR`` and ``ANDNOT``, parentheses, and ranges of dates. Words side
by side are alternatives and bind most tightly; then come ``AND`` and ``ANDNOT``, then ``OR``. A range of dates beside
words limits them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Final, Literal

from scholarbase import identifiers
from scholarbase.errors import InvalidRequest
from scholarbase.indexes import query_syntax
from scholarbase.indexes.query_syntax import MAX_DEPTH
from scholarbase.indexes.stop_words import STOP_WORDS
from scholarbase.models.checks import shown
from scholarbase_dialects.listing.conditions import (
    ArxivIds,
    Authors,
    Categories,
    Comment,
    Condition,
    Days,
    Either,
    Every,
    Text,
    Venue,
    Without,
    either,
    every,
    name_words,
    words_condition,
)

MAX_WORDS: Final = 100
"""Words in a query."""
MAX_PARENTHESES: Final = 100
"""Nested parentheses, also those around one term, which change nothing."""
MAX_RANGES: Final = 100
"""Ranges of ``submittedDate`` in a query."""
MAX_NAMES: Final = 10
"""Journals and comments in a query, each of which is compared with those of every paper."""
MAX_PREFIXES: Final = 5
"""Beginnings of words in a query: that of two letters takes 0.4 seconds among 335,000 papers."""
MAX_UPDATES: Final = 10
"""Ranges of ``lastUpdatedDate`` in a query, each of which is compared with the details of every paper."""
MAX_LISTS: Final = 15
"""Different lists in a query: words, authors, categories or ids that ``OR`` joins are one."""
NOT_STORED: Final = ("rn",)
"""The field that a library does not store: report numbers."""
_OPERATORS: Final = {"AND": "AND", "OR": "OR", "ANDNOT": "NOT", "NOT": "NOT"}
_FIELD: Final = re.compile(
    r"(ti|abs|au|cat|id|jr|all|co|rn|submittedDate|lastUpdatedDate)[ \t]?:\s{0,9}", re.IGNORECASE
)
_LIKE_NOT: Final = frozenset(("not", "andnot", "-", "!"))
_HIDDEN_RANGE: Final = re.compile(r"(?:submitted|lastupdated)date[:=]|:[\[{][\d*]", re.IGNORECASE)
"""A range of dates inside of a word."""
MAX_REPEATED: Final = 50
"""Times that one word is in a phrase: FTS5 reads all its places each time."""
_LISTS: Final = "lists of words, authors, categories and ids"
_MOST: Final = {
    "words": MAX_WORDS,
    "prefixes": MAX_PREFIXES,
    "journals and comments": MAX_NAMES,
    "ranges of dates": MAX_RANGES,
    "ranges of lastUpdatedDate": MAX_UPDATES,
    _LISTS: MAX_LISTS,
}
_CUT: Final = ("prefixes", "words", "journals and comments", _LISTS)
"""What alternatives may be cut for: ranges of dates, exclusions and what ``AND`` joins are never cut."""
_PIECE: Final = re.compile(r'[^\s()"]+')
_RANGE_LENGTH: Final = 100
"""Characters of a range of dates."""
_TIME: Final = frozenset((4, 6, 8, 10, 12, 14))
"""Digits of a year, a month, a day, and of hours, minutes and seconds after it."""


@dataclass(frozen=True, slots=True)
class Read:
    """A query that was read. ``condition`` is None for a query without words; ``ignored`` are fields without effect."""

    condition: Condition | None
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Token:
    kind: Literal["term", "days", "operator", "open", "close", "end"]
    text: str = ""
    field: str = ""
    days: Days | None = None


def read_query(text: str, *, updates: bool = True) -> Read:
    """Read a query. Punctuation that makes no sense in the language is left out. Of a text without fields, operators
    and dates the first words are read, and of a query that is too complex the first alternatives of each list of
    alternatives: they find fewer papers, and none that the query excludes. Without ``updates`` publication dates are
    those of the last change.

    Raises:
        InvalidRequest: a range of dates cannot be read, or the query is too complex even so. Read without what ``AND``
            and ``ANDNOT`` join, it would find papers that it excludes.
    """
    tokens = [*_without_empty_parentheses(_tokens(text, updates)), _Token("end")]
    _check_dates(tokens)
    terms = [token for token in tokens if token.kind == "term"]
    ignored = dict.fromkeys(term.field for term in terms if term.field in NOT_STORED)
    is_plain = not any(token.field or token.kind in ("days", "operator") for token in tokens)
    if (
        is_plain
        and len(plain_words := list(dict.fromkeys(" ".join(term.text for term in terms).split()))) > MAX_WORDS
    ):
        plain_words = [word for word in plain_words[:MAX_WORDS] if word.lower() not in STOP_WORDS]
        words = either([part for word in plain_words if (part := words_condition(word)) is not None])
        return Read(words, (f"words after the first {MAX_WORDS}",))
    if max(accumulate({"open": 1, "close": -1}.get(token.kind, 0) for token in tokens)) > MAX_PARENTHESES:
        raise _too_complex("nested parentheses", MAX_PARENTHESES)
    if any(
        Counter(query_syntax.words(term.text)).most_common(1)[0][1] > MAX_REPEATED
        for term in terms
        if query_syntax.words(term.text)
    ):
        raise _too_complex("times the same word in a phrase", MAX_REPEATED)
    condition, cuts = _Parser(tokens).either(), dict[str, int]()
    if (
        condition is not None and _depth(condition) > 3 * MAX_DEPTH
    ):  # a pair has alternatives of several of several
        raise _too_complex("nested parentheses", MAX_DEPTH)
    for what in _CUT:
        if _complexity(condition)[what] > _MOST[what]:
            cuts[what] = _most_alternatives(tokens, cuts, what)
            condition = _Parser(tokens, cuts).either()
    counts = _complexity(condition)
    for what, most in _MOST.items():
        if counts[what] > most:
            raise _too_complex(what, most)
    named = (
        f"alternatives after the first {most} ({what.partition(' of ')[0]})" for what, most in cuts.items()
    )
    return Read(condition, (*ignored, *named))


def _most_alternatives(tokens: list[_Token], cuts: Mapping[str, int], what: str) -> int:
    """The most alternatives of each list with which a query is simple enough. Raises InvalidRequest: there are none."""
    most = _MOST[what]
    count = bisect_right(
        range(1, most + 1),
        most,
        key=lambda number: _complexity(_Parser(tokens, {**cuts, what: number}).either())[what],
    )
    if not count:
        raise _too_complex(what, most)
    return count


def _too_complex(what: str, most: int) -> InvalidRequest:
    return InvalidRequest(f"search_query has more than {most} {what}: send a simpler query, or several")


def _without_empty_parentheses(tokens: Iterable[_Token]) -> list[_Token]:
    kept: list[_Token] = []
    for token in tokens:
        if token.kind == "close" and kept and kept[-1].kind == "open":
            kept.pop()
        else:
            kept.append(token)
    return kept


def _depth(condition: Condition) -> int:
    """The levels of alternatives and of what ``AND`` joins; parentheses around one term are none."""
    match condition:
        case Every(parts) | Either(parts):
            return 1 + max(map(_depth, parts), default=0)
        case Without(part):
            return _depth(part)
    return 0


def _check_dates(tokens: list[_Token]) -> None:
    """Raises InvalidRequest for a range of dates that seems to be excluded by what is not an operator."""
    has_days = any(token.kind == "days" for token in tokens)
    for token, following in pairwise(tokens):
        is_limit = following.kind == "days" or (has_days and following.kind == "open")
        if is_limit and token.kind == "term" and not token.field and token.text.lower() in _LIKE_NOT:
            raise InvalidRequest(
                f"{shown(token.text)} is not an operator: use ANDNOT to exclude a range of dates"
            )


def _complexity(condition: Condition | None) -> Counter[str]:
    """What a query has of everything that is limited."""
    if condition is None:
        return Counter()
    return _counts(condition) + Counter({_LISTS: len(set(_lists(condition)))})


def _counts(condition: Condition) -> Counter[str]:
    """The words, prefixes, names and ranges of dates of a condition."""
    match condition:
        case Every(parts) | Either(parts):
            return sum(map(_counts, parts), Counter())
        case Without(part):
            return _counts(part)
        case Text(expression):
            words = sum(len(quoted.split()) for quoted in expression.split('"')[1::2])
            return Counter({"words": words, "prefixes": expression.count("*")})
        case Venue() | Comment():
            return Counter(["journals and comments"])
        case Days(changed=changed):
            return Counter(["ranges of lastUpdatedDate" if changed else "ranges of dates"])
    return Counter()


def _lists(condition: Condition) -> Iterator[Condition]:
    """The parts of a condition that are looked up, each of which every paper may be compared with."""
    match condition:
        case Every(parts) | Either(parts):
            for part in parts:
                yield from _lists(part)
        case Without(part):
            yield from _lists(part)
        case Text() | Authors() | Categories() | ArxivIds():
            yield condition


def _tokens(text: str, updates: bool) -> Iterator[_Token]:
    """The tokens of a text, with as many closing parentheses as opening ones."""
    text = text.translate({0x201C: '"', 0x201D: '"'})
    last_quote = text.rfind('"')
    at = opened = 0
    while (at := _space_end(text, at)) < len(text):
        field = ""
        if (match := _FIELD.match(text, at)) is not None:
            field, at = match[1].lower(), match.end()
            if field.endswith("date"):
                days, at = _days_at(text, at)
                yield _Token("days", days=replace(days, changed=updates and field.startswith("last")))
                continue
        if text.startswith("(", at):
            at, opened = at + 1, opened + 1
            yield _Token("open", field=field)
        elif text.startswith(")", at):
            if opened:
                yield _Token("close")
            at, opened = at + 1, max(opened - 1, 0)
        elif text.startswith('"', at):
            # A quotation mark that is never closed is punctuation: what follows may be a range of dates.
            end = text.find('"', at + 1) if at < last_quote else at
            if end > at:
                _check_no_range(text[at + 1 : end])
                yield _Token("term", text[at + 1 : end], field)
            at = end + 1
        elif (piece := _PIECE.match(text, at)) is not None:
            at = piece.end()
            _check_no_range(piece[0])
            operator = _OPERATORS.get(piece[0])
            yield _Token("operator", operator) if operator else _Token("term", piece[0], field)
    yield from [_Token("close")] * opened


def _check_no_range(text: str) -> None:
    """Raises InvalidRequest for words with a range of dates, which would have no effect."""
    if _HIDDEN_RANGE.search(text):
        raise InvalidRequest(
            f"{shown(text[:40])} is not a word: write submittedDate:[YYYYMMDD TO YYYYMMDD] for a range of dates, "
            "with a space before it"
        )


def _space_end(text: str, at: int) -> int:
    """Where white space at a position ends."""
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _days_at(text: str, at: int) -> tuple[Days, int]:
    """The range of dates at a position, ``[202301010000 TO 202312312359]`` or one date, and where it ends.

    A paper's date is a day, which passes if all of it is in the range.

    Raises:
        InvalidRequest: there is none.
    """
    if text[at : at + 1] == "[":
        end = text.find("]", at, at + _RANGE_LENGTH) + 1
        parts = text[at + 1 : end - 1].split() if end else []
        bounds = (parts[0], parts[2]) if len(parts) == 3 and parts[1].upper() == "TO" else None
    else:
        piece = _PIECE.match(text, at, at + _RANGE_LENGTH)
        end = at if piece is None else piece.end()
        bounds = None if piece is None else (piece[0].rstrip("*"), piece[0].rstrip("*"))
    if bounds is not None:
        first, last = map(_digits, bounds)
        if first is not None and last is not None:
            return Days(_first_day(first), _last_day(last)), end
    raise InvalidRequest(
        f"{shown(text[at : at + 40])} is not a range of dates: use [YYYYMMDDHHMM TO YYYYMMDDHHMM]"
    )


def _digits(text: str) -> str | None:
    """The digits of a point in time, empty for ``*``; None for another text."""
    if text == "*":
        return ""
    digits = text.removesuffix("Z").replace("-", "").replace(":", "").replace("T", "")
    return digits if digits.isascii() and digits.isdigit() and len(digits) in _TIME else None


def _first_day(digits: str) -> int | None:
    """The first day as a number ``yyyymmdd``, which need not exist, since it is only compared."""
    if not digits:
        return None
    return int(digits[:8].ljust(8, "0")) + (int(digits[8:] or "0") > 0)


def _last_day(digits: str) -> int | None:
    if not digits:
        return None
    return int(digits[:8].ljust(8, "9")) - (len(digits) > 8 and digits[8:].ljust(4, "0") < "2359")


class _Parser:
    """A recursive-descent parser of balanced tokens; each method returns None for tokens without words.

    Args:
        cuts: how many alternatives with words, prefixes and so on are kept of each list that is not excluded.
    """

    def __init__(self, tokens: list[_Token], cuts: Mapping[str, int] | None = None) -> None:
        self._tokens = tokens
        self._cuts = cuts or {}
        self._at = 0

    def either(self, field: str = "", *, excluded: bool = False) -> Condition | None:
        """The alternatives up to a closing parenthesis or the end."""
        parts: list[Condition] = []
        together: list[Condition] = []
        operator = ""
        while True:
            part = self._side_by_side(field, excluded=excluded or operator == "NOT")
            if operator == "OR":
                parts += [every(_distinct(together))] if together else []
                together = []
            if part is not None:
                together.append(Without(part) if operator == "NOT" else part)
            operator = self._operator()
            if not operator:
                break
        parts += [every(_distinct(together))] if together else []
        return either(self._first(_distinct(parts), excluded=excluded)) if parts else None

    def _first(self, parts: list[Condition], *, excluded: bool) -> list[Condition]:
        """The first alternatives of each kind that is cut, and all others."""
        if excluded or not self._cuts:
            return parts
        kept, counts = [], Counter[str]()
        for part in parts:
            kinds = _alternative_kinds(part)
            counts.update(kinds)
            if all(counts[kind] <= most for kind, most in self._cuts.items() if kind in kinds):
                kept.append(part)
        return kept

    def _operator(self) -> str:
        """The operator of a run of operators, such as ``AND NOT``; empty where there is none."""
        operators = set()
        while self._tokens[self._at].kind == "operator":
            operators.add(self._tokens[self._at].text)
            self._at += 1
        return next((operator for operator in ("NOT", "AND", "OR") if operator in operators), "")

    def _side_by_side(self, field: str, *, excluded: bool) -> Condition | None:
        """Operands without operators between them: any of them, within the ranges of dates. Stop words count only
        where there is nothing else."""
        operands: list[Condition] = []
        stops: list[Condition] = []
        days: list[Condition] = []
        while (token := self._tokens[self._at]).kind not in ("operator", "close", "end"):
            self._at += 1
            if token.kind == "open":
                part = self.either(token.field or field, excluded=excluded)
                self._at += 1  # the closing parenthesis
            elif token.days is not None:
                days.append(token.days)
                continue
            else:
                part = _condition(replace(token, field=token.field or field))
            if part is not None:
                (stops if token.text.lower() in STOP_WORDS and not token.field else operands).append(part)
        operands, days = self._first(_distinct(operands or stops), excluded=excluded), _distinct(days)
        return every([either(operands), *days] if operands else days) if operands or days else None


def _alternative_kinds(part: Condition) -> set[str]:
    """What an alternative has of what alternatives are cut for. One look-up alone joins the list of the others."""
    kinds = {kind for kind, count in _counts(part).items() if count and kind in _CUT}
    return kinds | ({_LISTS} if isinstance(part, Every | Either) else set())


def _distinct(parts: list[Condition]) -> list[Condition]:
    return list(dict.fromkeys(parts))


def _condition(token: _Token) -> Condition | None:
    """The papers of a term; None for a term without words, or in a field that is not stored."""
    text, name = token.text, token.field
    spaced = text.replace("_", " ")
    match name:
        case "au" | "jr" | "co":
            if not (words := name_words(spaced)):
                return None
            return Authors((words,)) if name == "au" else Venue(words) if name == "jr" else Comment(words)
        case "cat":
            category = text.strip().rstrip("*").rstrip(".")
            return Categories((category,)) if category else None
        case "id":
            arxiv_id = identifiers.arxiv_id(text.strip())
            return Either(()) if arxiv_id is None else ArxivIds((arxiv_id,))
        case "ti" | "abs":
            return words_condition(spaced, "title" if name == "ti" else "abstract")
    return None if name in NOT_STORED else words_condition(spaced)
