"""Users' queries as FTS5 expressions: free text as an OR of its words, query syntax as written.

Query syntax is ``"a phrase"``, ``AND``, ``OR`` and ``NOT`` in upper case between words, ``prefix*``, ``title:``
and ``abstract:`` before a word, a phrase or parentheses, and parentheses around operators. Words side by side
must all match; they bind more tightly than ``AND`` and ``NOT``, which bind more tightly than ``OR``. Everything else
is free text. ``docs/search-syntax.md`` documents it for users.

Every word is in quotation marks in the expression, so that no text is read as FTS5's own syntax
(https://sqlite.org/fts5.html#full_text_query_syntax).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from scholarbase.errors import InvalidRequest
from scholarbase.indexes.stop_words import STOP_WORDS
from scholarbase.markup import searchable

MAX_PREFIXES: Final = 10
"""Prefixes of a query: 1,419 of them took 379 seconds of CPU time."""
MAX_WORDS: Final = 256
"""Words of a query that FTS5 runs. Long abstracts have fewer."""
MAX_TERMS: Final = 5
"""Words in sequence, without quotation marks and operators, of a text that is not prose."""
MAX_DEPTH: Final = 10
"""Nested parentheses. FTS5's own parser overflows a little above thirty."""

_ASCII_WORD: Final = re.compile(r"[a-zA-Z0-9]+")
_COLUMN: Final = re.compile(r"(?:title|abstract):")
_FOREIGN_FIELD: Final = re.compile(
    r"(?:all|au|author|authors|ti|abs|cat|category|venue|year|date):(?=[^\s:/])"
)
_OPERATORS: Final = ("AND", "OR", "NOT")
_PIECE: Final = re.compile(
    r'(?P<phrase>"[^"]*(?P<close>"\*?)?)|(?P<open>\()|(?P<closing>\))|(?P<bare>[^\s"()]+)'
)
# Possessive and only from the beginning of a word, so that a long word is read once.
_PREFIX: Final = re.compile(r"(?<!\w)\w{2,}+\*(?=$|[\s,;.?!)])")
_PART: Final = re.compile(r"[^-/\u2010-\u2015]+")
_AROUND: Final = ".,;:?!()[]{}\"'"
"""Punctuation around a word."""
_INNER_STAR: Final = re.compile(r"(?<=\w\w)\*\w")

MARKS: Final = re.compile('["\u201c-\u201f*:]|\\b(?:AND|OR|NOT|NEAR)\\b')
"""What every text in query syntax contains one of; most questions have none, and need no parser."""

# Suffixes that Porter's algorithm removes. A prefix that ends inside one is not a prefix of the stem: "computatio" and
# "comput".
_SUFFIXES: Final = (
    "ies ing ings ed eed ational ation ations ator izer ization izations ize izes ized izing ism isms alism "
    "alize alization iveness ivity iviti fulness fully ousness ously ally ality aliti ability ably ability bility "
    "icate ication ications icative ical ically icity iciti ative atively ate ates ated ating ion ions ement ements "
    "ment ments ness ance ances ence ences ency ancy able ible ant ent ently ely ly ous ive ity ities er ers ful y"
)
_VOWEL: Final = re.compile(r"[aeiouyà-öø-ÿ]")
_COMPLETIONS: Final = tuple(dict.fromkeys(_SUFFIXES.split()))


def words(text: str) -> list[str]:
    """Return the words of a text in its searchable form: runs of letters and digits of any script, with their combining
    marks.

    Underscores, hyphens and apostrophes separate words, as they do in FTS5.
    """
    text = searchable(text)
    if text.isascii():  # most texts, at a tenth of the time
        return _ASCII_WORD.findall(text)
    spaced = "".join(char if _is_word_character(char) else " " for char in text)
    return [word for word in spaced.split() if any(map(str.isalnum, word))]


def _written(text: str) -> list[tuple[str, list[str]]]:
    """The words of a text as it has them, *c++* or *k-nn*, each with its words in the searchable form."""
    written: list[tuple[str, list[str]]] = []
    for piece in text.split():
        parts = _PART.findall(piece)
        if searchable(piece) == piece or [word for part in parts for word in words(part)] != words(piece):
            parts = words(piece) if searchable(piece) == piece else [piece]
        written += [(part.strip(_AROUND), of) for part in parts if (of := words(part))]
    return written


def is_prose(text: str) -> bool:
    """Whether a text in query syntax looks like a sentence, not like a query.

    A sentence has a stop word, a question mark or more than :data:`MAX_TERMS` words in sequence outside quotation
    marks.
    """
    run = 0
    for token in _tokens(text):
        if token.kind != "bare":
            run = 0
            continue
        run += bool(words(token.text))
        if run > MAX_TERMS or "?" in token.text or _is_stop(token.text):
            return True
    return False


def free_text(text: str) -> str | None:
    """Return an expression for papers with any of the text's words; None for a text without words.

    Stop words are left out, unless there are no other words: *the who* is a query too.
    """
    distinct = list(dict.fromkeys(word.casefold() for word in words(text)))
    kept = [word for word in distinct if word not in STOP_WORDS] or distinct
    return " OR ".join(_phrase([word]) for word in kept) or None


def any_phrase(phrases: Iterable[str]) -> str:
    """Return an expression for papers with any of the phrases: its words side by side, in their order."""
    return " OR ".join(_phrase(words(phrase)) for phrase in phrases)


class Term(NamedTuple):
    """A word of a query, in lower case, and the expression for papers with it."""

    word: str
    expression: str


def terms(text: str, *, syntax: bool) -> list[Term]:
    """Return the words that a query searches for, each once, in the query's order.

    They are the words of :func:`free_text`, or with ``syntax`` those of :func:`compile` without the words after NOT. A
    prefix is a word without its star.
    """
    if syntax:
        parser = _Parser(text)
        parser.parse()
        searched = parser.terms
    else:
        every = [Term(word, _phrase(of)) for word, of in _written(text.lower())]
        searched = [term for term in every if term.word not in STOP_WORDS] or every
    distinct: dict[str, Term] = {}
    for term in searched:
        known = distinct.setdefault(term.word, term)
        if known.expression != term.expression:  # the same word in the title and in the abstract
            distinct[term.word] = Term(term.word, f"({known.expression} OR {term.expression})")
    return list(distinct.values())


def is_syntax(text: str) -> bool:
    """Whether a text uses query syntax, so that it must be compiled instead of searched as free text.

    Operators in a text that is all upper case are ordinary words, unless single words and operators alternate
    (``LSTM OR GRU``). Parentheses without operators, a single quotation mark and a star after a symbol
    (``C*-algebra``, ``A* search``, ``RRT*``) are not syntax.
    """
    tokens = list(_tokens(text))
    for token in tokens:
        if token.kind == "phrase" and token.closed and words(token.text):
            return True
        if token.kind == "bare" and _is_marked(token, text):
            return True
    return _has_operators(tokens)


def compile(text: str) -> str:
    """Return the FTS5 expression of a text in query syntax.

    Raises:
        InvalidRequest: the syntax is malformed; the message names the position, counted in characters from 1.
    """
    return _Parser(text).parse()


class _Token(NamedTuple):
    kind: Literal["phrase", "bare", "operator", "column", "open", "close", "end"]
    text: str
    position: int
    closed: bool = True
    prefix: bool = False
    touches: bool = False
    """There is no space between this token and the next."""


def _tokens(text: str) -> Iterator[_Token]:
    # Typographic quotation marks are read as straight ones; the replacement keeps every position.
    text = text.translate({0x201C: '"', 0x201D: '"', 0x201E: '"', 0x201F: '"'})
    for piece in _PIECE.finditer(text):
        touches = piece.end() < len(text) and not text[piece.end()].isspace()
        position = piece.start() + 1
        if piece["phrase"]:
            close = piece["close"] or ""
            inner = piece["phrase"][1 : len(piece["phrase"]) - len(close)]
            prefix = close.endswith("*") or inner.rstrip().endswith("*")
            yield _Token("phrase", inner, position, bool(close), prefix, touches)
        elif piece["open"]:
            yield _Token("open", "(", position)
        elif piece["closing"]:
            yield _Token("close", ")", position)
        else:
            yield from _bare_tokens(piece["bare"], position, touches)


def _bare_tokens(text: str, position: int, touches: bool) -> Iterator[_Token]:
    if text in _OPERATORS:
        yield _Token("operator", text, position)
        return
    column = _COLUMN.match(text)
    if column is None:
        yield _Token("bare", text, position, touches=touches)
        return
    rest = text[column.end() :]
    yield _Token("column", column[0][:-1], position, touches=bool(rest) or touches)
    if rest:
        yield _Token("bare", rest, position + column.end(), touches=touches)


def _is_marked(token: _Token, text: str) -> bool:
    """Whether a bare token alone is syntax: a prefix, a word in a column, or a field of another search engine."""
    if text.endswith(("title:", "abstract:"), 0, token.position - 1):
        return bool(words(token.text))
    if _FOREIGN_FIELD.match(token.text) or (token.text == "NEAR" and token.touches):
        return True
    # A star is a wildcard after letters that are not all capitals; after capitals it belongs to the name: RRT*.
    return any(
        char.isalpha() and not char.isupper() for match in _PREFIX.finditer(token.text) for char in match[0]
    )


def _has_operators(tokens: list[_Token]) -> bool:
    """Whether there is an operator between operands (or NOT before one), or a column before parentheses."""
    operands = [t for t in tokens if t.kind in ("phrase", "bare") and words(t.text)]
    for token, after in pairwise(tokens):
        if token.kind == "column" and token.touches and after.kind == "open":
            return bool(operands)
    if not operands:
        return False
    first, last = operands[0].position, operands[-1].position
    operators = [
        t
        for t in tokens
        if t.kind == "operator" and t.position < last and (t.text == "NOT" or first < t.position)
    ]
    if not operators:
        return False
    if any(char.islower() for o in operands for char in o.text) or not any(
        char.isupper() for o in operands for char in o.text
    ):
        return True
    return len(operands) == len(operators) + 1 and operators[0].position > operands[0].position


class _Parser:
    """A recursive-descent parser; each method returns the expression of the tokens that it reads."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [*_tokens(text), _Token("end", "", len(text) + 1)]
        self._at = 0
        self._depth = 0
        self._column: str | None = None
        self.terms: list[Term] = []
        self._words = self._prefixes = 0
        """The words read so far, without those after NOT."""

    def parse(self) -> str:
        expression = self._either()
        if self._next.kind == "close":
            raise self._malformed("A closing parenthesis without an opening one", self._next)
        return expression

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._next
        self._at += 1
        return token

    def _malformed(self, what: str, token: _Token) -> InvalidRequest:
        return InvalidRequest(
            f"{what} at character {token.position} of the query {self._text[:200]!r}: "
            "correct it, or leave out quotation marks and operators to search for the words alone."
        )

    def _either(self) -> str:
        parts = [self._all()]
        while self._next.kind == "operator" and self._next.text == "OR":
            self._take()
            if self._next.kind == "operator" and self._next.text == "NOT":
                raise self._malformed("OR NOT, which would match nearly everything,", self._next)
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else f"({' OR '.join(parts)})"

    def _all(self) -> str:
        """Operands joined by AND and NOT. The excluded ones are moved to the end, where FTS5 accepts them."""
        if self._next.kind == "operator" and self._next.text == "NOT":
            raise self._malformed("NOT without something before it to exclude from", self._next)
        required = [self._side_by_side()]
        excluded: list[str] = []
        while self._next.kind == "operator" and self._next.text in ("AND", "NOT"):
            operator = self._take()
            if operator.text == "AND" and self._next.kind == "operator" and self._next.text == "NOT":
                operator = self._take()
            if operator.text == "AND":
                required.append(self._side_by_side())
            else:
                before = len(self.terms)
                excluded.append(self._side_by_side())
                del self.terms[before:]
        expression = required[0] if len(required) == 1 else f"({' AND '.join(required)})"
        return f"({expression} NOT ({' OR '.join(excluded)}))" if excluded else expression

    def _side_by_side(self) -> str:
        """Operands without operators between them. Stop words are left out, as in free text."""
        first = self._next
        operands: list[str] = []
        dropped: list[str] = []
        while self._next.kind not in ("operator", "close", "end"):
            token = self._take()
            if token.kind == "bare" and _is_stop(token.text) and not _PREFIX.search(token.text):
                dropped.append(token.text)
            elif (operand := self._operand(token)) is not None:
                operands.append(operand)
        operands = operands or list(map(self._searched, dropped))
        if not operands:
            what = {"end": "Nothing to search for", "close": "Nothing before the closing parenthesis"}
            raise self._malformed(what.get(first.kind, "A word is missing"), first)
        return operands[0] if len(operands) == 1 else f"({' AND '.join(operands)})"

    def _operand(self, token: _Token) -> str | None:
        """The expression of an operand; None for bare punctuation."""
        if token.kind == "open":
            return self._parentheses(token)
        if token.kind == "column":
            return self._in_column(token)
        if token.kind == "phrase":
            if not token.closed:
                raise self._malformed("A quotation mark that is never closed", token)
            if not words(token.text):
                raise self._malformed("A phrase without a letter or digit", token)
            return self._searched(token.text, prefix=token.prefix)
        self._check_bare(token)
        if not words(token.text):
            return None
        return self._searched(token.text, prefix=_PREFIX.search(token.text) is not None)

    def _searched(self, text: str, *, prefix: bool = False) -> str:
        """The expression of words side by side; each is added to ``terms``."""
        written = _written(text.replace("*", " ") if prefix else text)
        parts = [word for _, of in written for word in of]
        column = f"{self._column} : " if self._column else ""
        self._prefixes += prefix
        if self._prefixes > MAX_PREFIXES:
            raise InvalidRequest(
                f"q has more than {MAX_PREFIXES} prefixes, and each reads every word that begins with it: use fewer, "
                "or whole words."
            )
        self._words += len(parts)
        if self._words > MAX_WORDS:
            raise InvalidRequest(
                f"q has more than {MAX_WORDS} words in query syntax: use fewer, or engine 'bm25', which reads every "
                "query as free text."
            )
        for position, (word, of) in enumerate(written, 1):
            alone = _prefix(of) if prefix and position == len(written) else _phrase(of)
            self.terms.append(Term(word.lower(), f"{column}({alone})" if column else alone))
        return _prefix(parts) if prefix else _phrase(parts)

    def _check_bare(self, token: _Token) -> None:
        if field := _FOREIGN_FIELD.match(token.text):
            raise self._malformed(
                f"{field[0]!r} is not a field of the query (the fields are title: and abstract:; authors, dates, "
                "categories, venues and citation counts are filters),",
                token,
            )
        if token.text == "NEAR" and token.touches:
            raise self._malformed("NEAR, which is not supported (use a phrase, or AND),", token)
        if _INNER_STAR.search(token.text):
            raise self._malformed("A star inside a word, which may only be at its end,", token)

    def _parentheses(self, opening: _Token) -> str:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._malformed(f"More than {MAX_DEPTH} nested parentheses", opening)
        expression = self._either()
        if self._next.kind != "close":
            raise self._malformed("A parenthesis that is never closed", opening)
        self._take()
        self._depth -= 1
        return expression

    def _in_column(self, column: _Token) -> str | None:
        # "title: subtitle" is ordinary text; "title: (...)" and 'title: "..."' are not.
        if not column.touches and self._next.kind not in ("phrase", "open"):
            return self._searched(column.text)
        if self._column is not None:
            raise self._malformed(f"{column.text}: inside {self._column}:", column)
        self._column = column.text
        operand = self._operand(self._take()) if self._next.kind in ("phrase", "open", "bare") else None
        self._column = None
        if operand is None:
            raise self._malformed(f"{column.text}: without a word after it", column)
        return f"{column.text} : ({operand})"


def _is_stop(text: str) -> bool:
    parts = words(text.casefold())
    return bool(parts) and all(word in STOP_WORDS for word in parts)


def _phrase(of: list[str]) -> str:
    """The expression of words side by side."""
    return f'"{" ".join(of)}"'


def _has_changed_end(word: str) -> bool:
    """Whether Porter's algorithm changes the ending, which it does after a vowel: not those of *sky* and *bring*."""
    ending = next((ending for ending in ("ing", "ed", "y") if word.endswith(ending)), None)
    return word.endswith("ys") or (ending is not None and _VOWEL.search(word[: -len(ending)]) is not None)


def _prefix(of: list[str]) -> str:
    """Return an expression for words of which the last is a prefix.

    The index contains stems, which may end before the prefix does, so that the words that a suffix would make of the
    prefix are searched for as well.
    """
    prefix = of[-1].casefold()
    open_ended = of
    completions = [
        prefix + suffix[size:]
        for suffix in _COMPLETIONS
        for size in range(1, len(suffix))
        if len(prefix) - size >= 2 and prefix.endswith(suffix[:size])
    ]
    if prefix[-1] == prefix[-2:-1]:
        completions.append(f"{prefix}ing")  # hopp, of hopping, whose stem is hop
    if _has_changed_end(prefix):
        # Porter's algorithm would change the ending and find "poli" for "poly", which "policies" has too. It removes
        # "ness" after that step, so that the prefix remains as it is; the whole word is searched for separately.
        open_ended = [*of[:-1], f"{prefix}ness"]
        completions.append(prefix)
    expressions = [
        f"{_phrase(open_ended)} *",
        *(_phrase([*of[:-1], word]) for word in dict.fromkeys(completions)),
    ]
    return expressions[0] if len(expressions) == 1 else f"({' OR '.join(expressions)})"


def _is_word_character(char: str) -> bool:
    return char.isalnum() or unicodedata.category(char)[0] == "M"
