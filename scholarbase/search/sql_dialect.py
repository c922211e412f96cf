"""Statements before they run, and the errors of SQLite as sentences.

Agents often write DuckDB's dialect. What SQLite writes otherwise is named in the error, with SQLite's way.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from scholarbase.errors import InvalidSql
from scholarbase.models.checks import shown
from scholarbase.search.sql_views import COLUMNS, FUNCTIONS, NAMES

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


_BEFORE: Final = {
    "EXPLAIN": "EXPLAIN is not available: send the statement itself.",
    "SHOW": f"SHOW is not SQLite's: the views are {_LISTED}, and {_SCHEMA}.",
    "SUMMARIZE": "SUMMARIZE is not SQLite's: use SELECT count(*), min(x), max(x), avg(x) FROM a view.",
    "FROM": "A statement cannot begin with FROM in SQLite: write SELECT * FROM the view.",
    "PIVOT": "PIVOT is not SQLite's: use sum(x) FILTER (WHERE y = 'value') for each column.",
    "UNPIVOT": "UNPIVOT is not SQLite's: use a SELECT for each column and UNION ALL.",
}
"""What a statement must not begin with, besides what writes."""

_CLAUSES: Final = (
    (
        ("QUALIFY",),
        "QUALIFY is not SQLite's: put the window function into a subquery and its condition into WHERE.",
    ),
    (("USING", "SAMPLE"), "USING SAMPLE is not SQLite's: use LIMIT, or a condition such as year % 10 = 0."),
    (("TABLESAMPLE",), "TABLESAMPLE is not SQLite's: use LIMIT, or a condition such as year % 10 = 0."),
    (("STRUCT",), "STRUCT is not SQLite's: select the columns, or use json_object('name', value)."),
    (("STRUCT_PACK",), "struct_pack is not SQLite's: use json_object('name', value)."),
    (("ARRAY",), "ARRAY is not SQLite's: use json_array(1, 2), and json_each(list) to read a list."),
    (("EXCLUDE",), "* EXCLUDE is not SQLite's: name the columns."),
    (("ANTI", "JOIN"), "ANTI JOIN is not SQLite's: use WHERE NOT EXISTS (SELECT 1 FROM ...)."),
    (("SEMI", "JOIN"), "SEMI JOIN is not SQLite's: use WHERE EXISTS (SELECT 1 FROM ...)."),
    (("ASOF", "JOIN"), "ASOF JOIN is not SQLite's: use a subquery with ORDER BY and LIMIT 1."),
    (("LATERAL",), "LATERAL is not SQLite's: use a subquery in the SELECT list, or json_each."),
    (("GROUP", "BY", "ALL"), "GROUP BY ALL is not SQLite's: name the columns."),
    (("ORDER", "BY", "ALL"), "ORDER BY ALL is not SQLite's: name the columns."),
    (("SIMILAR", "TO"), "SIMILAR TO is not SQLite's: use regexp_matches(text, '^pattern$')."),
    (("INTERVAL",), "INTERVAL is not SQLite's: use date(publication_date, '+1 year')."),
    (("EXTRACT",), "extract is not SQLite's: use year, or substr(publication_date, 6, 2)."),
    (("ROLLUP",), "ROLLUP is not SQLite's: use UNION ALL."),
    (("CUBE",), "CUBE is not SQLite's: use UNION ALL."),
    (("MATCH",), "MATCH is not available in the views: use LIKE, regexp_matches, or the search of passages."),
)
_FUNCTIONS: Final = {
    "string_agg": "group_concat(text, ', ')",
    "listagg": "group_concat(text, ', ')",
    "list": "json_group_array(x)",
    "array_agg": "json_group_array(x)",
    "list_value": "json_array(1, 2)",
    "list_has": "list_contains(list, value)",
    "array_contains": "list_contains(list, value)",
    "unnest": "json_each(list), whose column value has the items",
    "len": "length(text), or json_array_length(list)",
    "array_length": "json_array_length(list)",
    "list_length": "json_array_length(list)",
    "strpos": "instr(text, part)",
    "position": "instr(text, part)",
    "left": "substr(text, 1, n)",
    "right": "substr(text, -n)",
    "split_part": "substr and instr",
    "string_split": "json_each over a JSON list",
    "regexp_extract": "regexp_matches(text, pattern), and read the text",
    "regexp_replace": "replace(text, old, new)",
    "regexp_full_match": "regexp_matches(text, '^pattern$')",
    "ends_with": "text LIKE '%end'",
    "suffix": "text LIKE '%end'",
    "prefix": "starts_with(text, start)",
    "greatest": "max(a, b)",
    "least": "min(a, b)",
    "concat": "a || b",
    "concat_ws": "a || ', ' || b",
    "if": "iif(condition, a, b)",
    "median": "a subquery with ORDER BY and LIMIT",
    "any_value": "max(x)",
    "arg_max": "max(x) beside the other columns",
    "year": "substr(publication_date, 1, 4), or the column year",
    "date_part": "substr(publication_date, 1, 4)",
    "now": "a date as text, such as '2025-01-31'",
    "random": "an order by a column: results must be the same each time",
    "to_json": "json_object or json_array",
    "json_extract_string": "json ->> '$.key'",
    "levenshtein": "LIKE; GET /v1/title-match finds similar titles",
}
"""Functions of DuckDB, and what to write in SQLite."""
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
    found = tokens(query)
    while found and found[-1].text == ";":
        found.pop()
    if not found:
        raise InvalidSql("query is empty: send one SELECT statement.")
    if any(token.text == ";" for token in found):
        raise InvalidSql("query has several statements: send one SELECT statement at a time.")
    _check_start(found)
    if any(token.text in ("[", "{") for token in found):  # SQLite would read x[1] as x AS "1"
        raise InvalidSql(
            "SQLite has no lists and structs: use json_array(1, 2), and list ->> 0 for the first item."
        )
    _check_quotes(found)
    parts, end = [], 0
    last = found[-1].start + len(found[-1].text)
    for place, token in enumerate(found):
        is_view = token.word == "REFERENCES" and (place == 0 or found[place - 1].text != ".")
        if token.word == "ILIKE" or is_view:
            parts += [query[end : token.start], '"references"' if is_view else "LIKE"]
            end = token.start + len(token.text)
    return "".join((*parts, query[end:last]))


def _check_start(found: Sequence[Token]) -> None:
    first = found[0].word
    if first in ("SELECT", "WITH", "VALUES"):
        return
    if first in ("DESCRIBE", "DESC"):
        names = [token.text.strip('"').lower() for token in found[1:]]
        view = next((name for name in names if name in COLUMNS), None)
        if view is not None:
            raise InvalidSql(
                f"DESCRIBE is not SQLite's: the columns of {view} are {', '.join(COLUMNS[view])}, and {_SCHEMA}."
            )
        raise InvalidSql(f"DESCRIBE is not SQLite's: the views are {_LISTED}, and {_SCHEMA}.")
    if first in _BEFORE:
        raise InvalidSql(_BEFORE[first])
    raise InvalidSql(
        f"The statement begins with {shown(found[0].text[:40])}: the library is read-only, so send one SELECT, "
        "WITH ... SELECT or VALUES."
    )


def _check_quotes(found: Sequence[Token]) -> None:
    """SQLite would read an unknown name in double quotes as a text."""
    known = {name for columns in COLUMNS.values() for name in columns} | set(NAMES)
    known |= {token.text.lower() for token in found if token.kind == "word"}
    quoted = [place for place, token in enumerate(found) if token.text[0] == '"']
    for place in quoted:
        before = found[place - 1] if place else None
        follows_value = before is not None and (
            before.word == "AS"
            or before.text == ")"
            or before.kind in ("text", "number", "quoted")
            or (before.kind == "word" and before.word not in _NO_ALIAS)
        )
        is_with = before is not None and before.word == "WITH"
        is_named = place + 1 < len(found) and found[place + 1].text in (".", "(")
        if follows_value or is_named or is_with:
            known.add(_unquoted(found[place]))
    for place in quoted:
        if _unquoted(found[place]) not in known:
            text = found[place].text[1:-1]
            raise InvalidSql(
                f'"{text[:80]}" is in double quotes, which are for names, and nothing has this name: write a text in '
                "single quotes."
            )


def _unquoted(token: Token) -> str:
    return token.text[1:-1].replace('""', '"').lower()


def explained(message: str, query: str) -> str:
    """A message of SQLite as a sentence, with SQLite's way of what the statement has of another dialect."""
    found = tokens(query)
    what = _what(message, found)
    hints = [hint for hint in dict.fromkeys(_hints(found)) if not message.startswith("no such function")]
    return " ".join((what, *hints[:3]))


def _what(message: str, found: Sequence[Token]) -> str:
    kind, _, name = message.partition(": ")
    if kind == "no such table":
        near = difflib.get_close_matches(name.rpartition(".")[2].lower(), NAMES, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        sentence = f"There is no view {shown(name)}: the views are {_LISTED}.{hint}"
    elif kind == "no such column":
        sentence = _no_column(name, found)
    elif kind == "no such function":
        sentence = _no_function(name)
    elif kind == "ambiguous column name":
        sentence = f"Several views of the statement have the column {name}: write view.{name}."
    elif kind.startswith("misuse of"):
        sentence = f"{name} cannot stand there: use it in the SELECT list or in HAVING, or in a subquery."
    elif (
        "syntax error" in message or message == "incomplete input" or message.startswith("unrecognized token")
    ):
        sentence = f"SQLite cannot read the statement ({message})."
    elif "too big" in message:
        sentence = "A value of the statement would be longer than 16 MB: cut texts with substr, or select fewer rows."
    else:
        sentence = f"SQLite refuses the statement ({message})."
    return sentence


def _no_column(name: str, found: Sequence[Token]) -> str:
    views = [
        view
        for view in NAMES
        if any(view == token.text.strip('"').lower() for token in found if token.kind in ("word", "quoted"))
    ]
    listed = "; ".join(f"{view} has {', '.join(COLUMNS[view])}" for view in views[:3])
    near = difflib.get_close_matches(
        name.rpartition(".")[2].lower(), {column for view in views for column in COLUMNS[view]}, n=1
    )
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"There is no column {shown(name)}: {listed or _SCHEMA}.{hint}"


def _no_function(name: str) -> str:
    other = _FUNCTIONS.get(name.lower())
    if other is not None:
        return f"{name} is not available: use {other}."
    names = [own.partition("(")[0] for own in FUNCTIONS]
    return f"There is no function {shown(name)}: besides SQLite's own there are {', '.join(names)}."


def refused_function(name: str) -> str:
    """The sentence for a function of SQLite that is not on the list."""
    if (other := _FUNCTIONS.get(name.lower())) is not None:
        return f"{name} is not available: use {other}."
    return f"The function {name} is not available: a statement may use the functions of docs/sql.md."


def _hints(found: Sequence[Token]) -> Iterator[str]:
    words = [token.word for token in found]
    for place, token in enumerate(found):
        if token.text == "::":
            yield "SQLite has no casts with ::, use CAST(x AS INTEGER)."
        if token.kind == "word" and token.text.lower() in _FUNCTIONS and _follows(found, place, "("):
            yield f"SQLite has no {token.text}: use {_FUNCTIONS[token.text.lower()]}."
        if token.text in ("?", "$", "@", "#"):
            yield "Parameters are not available: write the value into the statement."
    for clause, hint in _CLAUSES:
        size = len(clause)
        if any(tuple(words[place : place + size]) == clause for place in range(len(words))):
            yield hint


def _follows(found: Sequence[Token], place: int, sign: str) -> bool:
    return place + 1 < len(found) and found[place + 1].text == sign
