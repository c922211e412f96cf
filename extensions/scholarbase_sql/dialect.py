"""Statements before they run, and the errors of SQLite as sentences."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from scholarbase.errors import InvalidSql
from scholarbase.models.checks import shown
from scholarbase_sql.views import COLUMNS, FUNCTIONS, NAMES

_TOKENS: Final = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*|/\*.*?(?:\*/|\Z))
    | (?P<text>'(?:[^']|'')*')
    | (?P<quoted>"(?:[^"]|"")*"|`[^`]*`)
    | (?P<number>\d[\w.]*)
    | (?P<word>[^\W\d]\w*)
    | (?P<sign>::|\|\||->>|->|<=|>=|<>|!=|==|<<|>>|.)
    """,
    re.X | re.S,
)
_LISTED: Final = ", ".join(NAMES)
_SCHEMA: Final = "GET /v1/sql/schema describes them"


class Token(NamedTuple):
    kind: str
    text: str
    start: int

    @property
    def word(self) -> str:
        """An unquoted name or keyword in capitals; empty for other tokens."""
        return self.text.upper() if self.kind == "word" else ""


_OTHERWISE: Final = "docs/sql.md names what DuckDB and PostgreSQL write otherwise"

# fmt: off
_NO_ALIAS: Final = frozenset({
    "SELECT", "FROM", "WHERE", "AND", "OR", "NOT", "IN", "LIKE", "ILIKE", "BY", "ON", "HAVING", "GROUP",
    "ORDER", "LIMIT", "OFFSET", "UNION", "ALL", "EXCEPT", "INTERSECT", "DISTINCT", "WHEN", "THEN", "ELSE",
    "CASE", "BETWEEN", "IS", "AS", "JOIN", "GLOB", "REGEXP", "USING", "VALUES", "WITH", "ESCAPE",
    "RETURNING", "OVER", "FILTER", "PARTITION", "COLLATE", "EXISTS", "CAST",
})
# fmt: on
"""Keywords that no alias follows without AS."""


def tokens(query: str) -> list[Token]:
    """The tokens of a statement without white space and comments."""
    return [
        Token(str(match.lastgroup), match[0], match.start())
        for match in _TOKENS.finditer(query)
        if match.lastgroup != "space"
    ]


def prepared(query: str) -> str:
    """The statement as it runs: ILIKE as LIKE, which ignores case in SQLite, and the view references in quotes.

    Raises:
        InvalidSql: not one SELECT, or WITH ... SELECT, or VALUES; or a text is in double quotes.
    """
    statement = tokens(query)
    while statement and statement[-1].text == ";":
        statement.pop()
    if not statement:
        raise InvalidSql("query is empty: send one SELECT statement.")
    if any(token.text == ";" for token in statement):
        raise InvalidSql("query has several statements: send one SELECT statement at a time.")
    _check_start(statement)
    if any(token.text in ("[", "{") for token in statement):  # SQLite would read x[1] as x AS "1"
        raise InvalidSql(
            "SQLite has no lists and structs: use json_array(1, 2), and list ->> 0 for the first item."
        )
    _check_quotes(statement)
    parts, end = [], 0
    last = statement[-1].start + len(statement[-1].text)
    for position, token in enumerate(statement):
        is_view = token.word == "REFERENCES" and (position == 0 or statement[position - 1].text != ".")
        if token.word == "ILIKE" or is_view:
            parts += [query[end : token.start], '"references"' if is_view else "LIKE"]
            end = token.start + len(token.text)
    return "".join((*parts, query[end:last]))


def _check_start(statement: Sequence[Token]) -> None:
    first = statement[0].word
    if first in ("SELECT", "WITH", "VALUES"):
        return
    raise InvalidSql(
        f"The statement begins with {shown(statement[0].text[:40])}: the library is read-only, so send one SELECT, "
        f"WITH ... SELECT or VALUES. The views are {_LISTED}, and {_SCHEMA}."
    )


def _check_quotes(statement: Sequence[Token]) -> None:
    """SQLite would read an unknown name in double quotes as a text."""
    known = {name for columns in COLUMNS.values() for name in columns} | set(NAMES)
    known |= {token.text.lower() for token in statement if token.kind == "word"}
    quoted = [position for position, token in enumerate(statement) if token.text[0] == '"']
    for position in quoted:
        before = statement[position - 1] if position else None
        follows_value = before is not None and (
            before.word == "AS"
            or before.text == ")"
            or before.kind in ("text", "number", "quoted")
            or (before.kind == "word" and before.word not in _NO_ALIAS)
        )
        is_with = before is not None and before.word == "WITH"
        is_named = position + 1 < len(statement) and statement[position + 1].text in (".", "(")
        if follows_value or is_named or is_with:
            known.add(_unquoted(statement[position]))
    for position in quoted:
        if _unquoted(statement[position]) not in known:
            text = statement[position].text[1:-1]
            raise InvalidSql(
                f'"{text[:80]}" is in double quotes, which are for names, and nothing has this name: write a text in '
                "single quotes."
            )


def _unquoted(token: Token) -> str:
    return token.text[1:-1].replace('""', '"').lower()


def explained(message: str, query: str) -> str:
    """A message of SQLite as a sentence."""
    kind, _, name = message.partition(": ")
    if kind == "no such table":
        near = difflib.get_close_matches(name.rpartition(".")[2].lower(), NAMES, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        sentence = f"There is no view {shown(name)}: the views are {_LISTED}.{hint}"
    elif kind == "no such column":
        sentence = _no_column(name, tokens(query))
    elif kind == "no such function":
        sentence = _no_function(name)
    elif kind == "ambiguous column name":
        sentence = f"Several views of the statement have the column {name}: write view.{name}."
    elif kind.startswith("misuse of"):
        sentence = f"{name} cannot stand there: use it in the SELECT list or in HAVING, or in a subquery."
    elif (
        "syntax error" in message or message == "incomplete input" or message.startswith("unrecognized token")
    ):
        sentence = f"SQLite cannot read the statement ({message}): {_OTHERWISE}."
    elif "too big" in message:
        sentence = "A value of the statement would be longer than 16 MB: cut texts with substr, or select fewer rows."
    else:
        sentence = f"SQLite refuses the statement ({message})."
    return sentence


def _no_column(name: str, statement: Sequence[Token]) -> str:
    views = [
        view
        for view in NAMES
        if any(
            view == token.text.strip('"').lower() for token in statement if token.kind in ("word", "quoted")
        )
    ]
    listed = "; ".join(f"{view} has {', '.join(COLUMNS[view])}" for view in views[:3])
    near = difflib.get_close_matches(
        name.rpartition(".")[2].lower(), {column for view in views for column in COLUMNS[view]}, n=1
    )
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"There is no column {shown(name)}: {listed or _SCHEMA}.{hint}"


def _no_function(name: str) -> str:
    names = [signature.partition("(")[0] for signature in FUNCTIONS]
    return f"There is no function {shown(name)}: besides SQLite's own there are {', '.join(names)}, and {_OTHERWISE}."


def refused_function(name: str) -> str:
    """The sentence for a function of SQLite that is not on the list."""
    return f"The function {name} is not available: a statement may use the functions of docs/sql.md."
