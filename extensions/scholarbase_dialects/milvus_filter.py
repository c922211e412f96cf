"""Filter expressions of Milvus on texts: https://milvus.io/docs/boolean.md

Comparisons (``id <= "2404"``, ``"2301" <= id < "2404"``), ``in``, ``not in``, ``like`` with ``%`` and ``_``,
``and``, ``or``, ``not``, their signs ``&&``, ``||``, ``!``, and parentheses. Values are texts, compared code point by
code point.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from scholarbase.errors import InvalidRequest
from scholarbase.models.checks import shown
from scholarbase_dialects.listing.conditions import (
    FIELDS,
    Condition,
    Every,
    OneOf,
    Value,
    Without,
    either,
    every,
)

MAX_LENGTH: Final = 10_000
"""Characters of an expression."""
MAX_DEPTH: Final = 20
"""Nested parentheses and negations."""
MAX_COMPARISONS: Final = 100
"""Comparisons of an expression, and the sum of the costs of different ones."""
COSTS: Final = {"update_date": 4, "abstract": 25, "authors": 25}
"""The time of a comparison of each field; that of other fields is 1, 25 milliseconds among 335,000 papers."""
_TOKEN: Final = re.compile(
    r"""(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<sign><=|>=|==|!=|&&|\|\||[<>=!()\[\],])|(?P<word>\w+)""",
    re.DOTALL,
)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_CHARACTER: Final = re.compile(r"\\(.)|.", re.DOTALL)
_ANY: Final = ("%", False)
_GLOB: Final = {_ANY: "*", ("_", False): "?"}
"""The wildcards of SQLite's GLOB: a character, and whether a backslash makes it literal."""
_WORDS: Final = {"and": "and", "or": "or", "not": "not", "in": "in", "like": "like"}
_SIGNS: Final = {"&&": "and", "||": "or", "!": "not", "==": "="}
_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


class _Token(NamedTuple):
    kind: str
    """``text``, ``field``, ``end``, or the operator or sign itself."""
    text: str
    position: int


def read_filter(expression: str) -> Condition:
    """The condition of an expression; all papers for an empty one.

    Raises:
        InvalidRequest: the expression is invalid, too long or too deep.
    """
    if len(expression) > MAX_LENGTH:
        raise InvalidRequest(f"filter has {len(expression):,} characters: send {MAX_LENGTH:,} at most.")
    if not expression.strip():
        return Every(())
    return _Parser(expression).parse()


def tokens(expression: str) -> Iterator[_Token]:
    at = 0
    while at < len(expression):
        if expression[at].isspace():
            at += 1
            continue
        match = _TOKEN.match(expression, at)
        if match is None:
            raise _invalid(f"unexpected {shown(expression[at : at + 20])}", at)
        if match["text"]:
            yield _Token("text", match["text"][1:-1], at)
        elif match["sign"]:
            yield _Token(_SIGNS.get(match["sign"], match["sign"]), match["sign"], at)
        else:
            word = match["word"]
            yield _Token(_WORDS.get(word.lower(), "field"), word, at)
        at = match.end()
    yield _Token("end", "the end", len(expression))


def _invalid(what: str, position: int) -> InvalidRequest:
    return InvalidRequest(f"filter is not a valid expression: {what} at character {position + 1}.")


class _Parser:
    """A recursive-descent parser; each method returns the condition of the tokens that it reads."""

    def __init__(self, expression: str) -> None:
        self._tokens = list(tokens(expression))
        self._compared_field = ""
        self._at = self._depth = self._comparisons = 0
        self._different: dict[Condition, int] = {}

    def parse(self) -> Condition:
        condition = self._any()
        self._take("end")
        return condition

    @property
    def _next(self) -> str:
        return self._tokens[self._at].kind

    def _take(self, *kinds: str) -> _Token:
        token = self._tokens[self._at]
        if token.kind not in kinds:
            raise _invalid(f"{shown(token.text)} in place of {' or '.join(kinds)}", token.position)
        self._at += 1
        return token

    def _any(self) -> Condition:
        parts = [self._every()]
        while self._next == "or":
            self._at += 1
            parts.append(self._every())
        return either(list(dict.fromkeys(parts)))

    def _every(self) -> Condition:
        parts = [self._one()]
        while self._next == "and":
            self._at += 1
            parts.append(self._one())
        return every(list(dict.fromkeys(parts)))

    def _one(self) -> Condition:
        if self._next not in ("not", "("):
            return self._comparison()
        token = self._take("not", "(")
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _invalid(f"more than {MAX_DEPTH} nested parentheses and negations", token.position)
        if token.kind == "not":
            condition: Condition = Without(self._one())
        else:
            condition = self._any()
            self._take(")")
        self._depth -= 1
        return condition

    def _comparison(self) -> Condition:
        position = self._tokens[self._at].position
        condition = self._read_comparison()
        self._different[condition] = COSTS.get(self._compared_field, 1)
        if sum(self._different.values()) > MAX_COMPARISONS:
            costs = ", ".join(f"of {name} {cost}" for name, cost in COSTS.items())
            raise _invalid(f"more than {MAX_COMPARISONS} comparisons (one {costs})", position)
        return condition

    def _read_comparison(self) -> Condition:
        self._comparisons += 1
        if self._comparisons > MAX_COMPARISONS:
            raise _invalid(f"more than {MAX_COMPARISONS} comparisons", self._tokens[self._at].position)
        if self._next == "text":
            value = self._text()
            operator = self._take(*_MIRRORED).kind
            field = self._field()
            condition = _compared(field, _MIRRORED[operator], value)
            if self._next not in _MIRRORED:
                return condition
            return Every((condition, _compared(field, self._take(*_MIRRORED).kind, self._text())))
        field = self._field()
        operator = self._take(*_MIRRORED, "in", "not", "like").kind
        if operator == "not":
            self._take("in")
            return Without(OneOf(field, self._list()))
        if operator == "in":
            return OneOf(field, self._list())
        if operator == "like":
            return _like(field, self._take("text"))
        return _compared(field, operator, self._text())

    def _field(self) -> str:
        token = self._take("field")
        name = "id" if token.text == "arxiv_id" else token.text
        if name not in FIELDS:
            raise _invalid(
                f"unknown field {shown(token.text)} (there are {', '.join(FIELDS)})", token.position
            )
        self._compared_field = name
        return name

    def _text(self) -> str:
        return _ESCAPED.sub(r"\1", self._take("text").text).replace("\0", "")

    def _list(self) -> tuple[str, ...]:
        self._take("[")
        found: list[str] = []
        while self._next != "]":
            found.append(self._text())
            if self._next != "]":
                self._take(",")
        self._at += 1
        return tuple(found)


def _compared(field: str, operator: str, value: str) -> Condition:
    return Without(Value(field, "=", value)) if operator == "!=" else Value(field, operator, value)


def _like(field: str, token: _Token) -> Condition:
    """A pattern with ``%`` for any text and ``_`` for a character, both of which a backslash makes literal."""
    parts = [(one[1] or one[0], bool(one[1])) for one in _CHARACTER.finditer(token.text) if one[0] != "\0"]
    starts = next((at for at, part in enumerate(parts) if part != _ANY), len(parts))
    ends = next((at for at, part in enumerate(reversed(parts)) if part != _ANY), 0)
    inside = parts[starts : len(parts) - ends]
    if not any(part in _GLOB for part in inside):
        text = "".join(character for character, _ in inside)
        if (starts and ends) or not text:
            return Value(field, "has", text) if parts else Value(field, "=", "")
        return Value(field, "ends" if starts else "starts" if ends else "=", text)
    if field != "id":
        raise _invalid("a pattern with _ or an inner %, which only id supports,", token.position)
    return Value(field, "glob", "".join(_GLOB.get(part, _literal(part[0])) for part in parts))


def _literal(character: str) -> str:
    return f"[{character}]" if character in "*?[" else character
