"""The query syntax of the bulk search, as expressions of FTS5.

Words side by side must all match; ``+`` is AND, ``|`` is OR and ``-`` is NOT, ``"a phrase"``, ``prefix*``, and
parentheses; ``~N`` after a phrase lets up to N words stand between its words. Every text is read somehow: marks without
a meaning in their place are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from scholarbase.indexes.query_syntax import MAX_PREFIXES, MAX_WORDS, compile, words
from scholarbase.indexes.stop_words import STOP_WORDS

MAX_NESTED: Final = 5
"""Nested parentheses; those within are ignored. FTS5's parser has room for about thirty levels of its own."""
DEFAULT_DISTANCE: Final = 2
MAX_DISTANCE: Final = 1000
_TOKEN: Final = re.compile(
    r'"(?P<phrase>[^"]*)"(?:(?P<near>~)(?P<distance>\d{0,9}))?'
    r'|(?P<mark>[()|+])|(?P<minus>-(?=\S))|(?P<word>[^\s"()|+]+)'
)
_FUZZY: Final = re.compile(r"~\d*\Z")


class Query(NamedTuple):
    """What papers must match.

    Args:
        expression: of FTS5; None if the text has no words.
        excludes: whether papers must not match it.
        fuzzy: whether the text asked for similar words, which are not searched.
        cut: whether it has more words than are searched.
    """

    expression: str | None
    excludes: bool = False
    fuzzy: bool = False
    cut: bool = False


_Term = tuple[str, bool]
"""An expression, and whether it is negated."""


def read(text: str) -> Query:
    """The condition of a text in query syntax."""
    parser = _Parser(text, STOP_WORDS)
    parsed = parser.parse()
    if parsed is None:  # only stop words are words too
        parser = _Parser(text, frozenset())
        parsed = parser.parse()
    expression, excludes = parsed or (None, False)
    return Query(expression, excludes, parser.fuzzy, parser.cut)


class _Parser:
    def __init__(self, text: str, dropped: frozenset[str]) -> None:
        self._tokens = list(_TOKEN.finditer(text))
        self._at = 0
        self._dropped = dropped
        self._prefixes = 0
        self._words = [0, 0]
        """Words to find, and words to exclude, so that the first never leave out the second."""
        self._terms: set[tuple[bool, tuple[str, ...]]] = set()
        """Terms that are counted: a repeated one is joined once."""
        self._excludes = False
        self.fuzzy = self.cut = False

    def parse(self) -> _Term | None:
        parts = []
        while self._at < len(self._tokens):
            parts.append(self._either(0))
            self._at += 1  # a closing parenthesis without an opening one
        return _all([part for part in parts if part is not None])

    def _either(self, depth: int) -> _Term | None:
        """Alternatives, up to a closing parenthesis or the end."""
        alternatives: list[list[_Term]] = [[]]
        negated = False
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            if token["mark"] == ")":
                break
            self._at += 1
            if token["mark"] == "|":
                alternatives.append([])
            elif token["minus"]:
                negated = not negated
                continue
            elif token["mark"] != "+":
                outside, self._excludes = self._excludes, self._excludes or negated
                term = self._operand(token, depth)
                self._excludes = outside
                if term is not None:
                    alternatives[-1].append((term[0], term[1] != negated))
            negated = False
        conjunctions = [_all(terms) for terms in alternatives]
        return _any([conjunction for conjunction in conjunctions if conjunction is not None])

    def _operand(self, token: re.Match[str], depth: int) -> _Term | None:
        if token["mark"] == "(":
            if depth == MAX_NESTED:
                return None
            inside = self._either(depth + 1)
            self._at += 1  # the closing parenthesis
            return inside
        if token["phrase"] is not None:
            return self._phrase(token)
        text = token["word"]
        self.fuzzy = self.fuzzy or _FUZZY.search(text) is not None
        text = _FUZZY.sub("", text)
        return self._expression(words(text), is_prefix=text.endswith("*"))

    def _phrase(self, token: re.Match[str]) -> _Term | None:
        phrase = words(token["phrase"])
        if token["near"] is None or len(phrase) < 2:
            return self._expression(phrase)
        # A repeated word would be joined once more for each time.
        phrase = list(dict.fromkeys(word.casefold() for word in phrase))
        if len(phrase) == 1:
            return self._expression(phrase)
        if not self._counted(phrase):
            return None
        distance = min(int(token["distance"] or DEFAULT_DISTANCE), MAX_DISTANCE)
        return "NEAR({}, {})".format(" ".join(f'"{word}"' for word in phrase), distance), False

    def _expression(self, phrase: list[str], *, is_prefix: bool = False) -> _Term | None:
        is_prefix = is_prefix and bool(phrase) and len(phrase[-1]) > 1 and self._prefixes < MAX_PREFIXES
        if not is_prefix and len(phrase) == 1 and phrase[0].casefold() in self._dropped:
            return None
        if not self._counted(phrase):
            return None
        self._prefixes += is_prefix
        return compile('"{}"{}'.format(" ".join(phrase), "*" if is_prefix else "")), False

    def _counted(self, phrase: Sequence[str]) -> bool:
        """Whether there are words, and the query has no more than FTS5 can run."""
        term = (self._excludes, tuple(word.casefold() for word in phrase))
        if term in self._terms:
            return True
        if not phrase or self._words[self._excludes] + len(phrase) > MAX_WORDS:
            self.cut = self.cut or bool(phrase)
            return False
        self._terms.add(term)
        self._words[self._excludes] += len(phrase)
        return True


def _all(terms: Sequence[_Term]) -> _Term | None:
    """Papers that match all terms. FTS5 has no NOT without something before it, so that of a whole is kept apart."""
    required = [expression for expression, negated in terms if not negated]
    excluded = [expression for expression, negated in terms if negated]
    if not terms:
        return None
    if not required:
        return _joined("OR", excluded), True
    expression = _joined("AND", required)
    return (f"({expression} NOT {_joined('OR', excluded)})" if excluded else expression), False


def _any(terms: Sequence[_Term]) -> _Term | None:
    """Papers that match one of the terms."""
    included = [expression for expression, negated in terms if not negated]
    excluded = [expression for expression, negated in terms if negated]
    if not terms:
        return None
    if not excluded:
        return _joined("OR", included), False
    expression = _joined("AND", excluded)  # either not A, or B: not (A without B)
    return (f"({expression} NOT {_joined('OR', included)})" if included else expression), True


def _joined(operator: str, expressions: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(expressions))
    return distinct[0] if len(distinct) == 1 else f"({f' {operator} '.join(distinct)})"
