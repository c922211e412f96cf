"""Filter expressions of Milvus on texts: https://milvus.io/docs/boolean.md

Comparisons (``id <= "2404"``, ``"2301" <= id < "2404"``), ``in``, ``not in``, ``like`` with ``%`` and ``_``,
``and``, ``or``, ``not``, their signs ``&&``, ``||``, ``!``, and parentheses. Values are texts, compared code point by
code point.
"""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from typing import Final

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
"""Nested alternatives and negations."""
MAX_COMPARISONS: Final = 100
"""Comparisons of an expression, and the sum of the costs of different ones."""
COSTS: Final = {"update_date": 4, "abstract": 25, "authors": 25}
"""The time of a comparison of each field; that of other fields is 1, 25 milliseconds among 335,000 papers."""
_TOKEN: Final = re.compile(
    r"""(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|<=|>=|==|!=|&&|\|\||[<>=!()\[\],]|\w+""", re.DOTALL
)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_CHARACTER: Final = re.compile(r"\\(.)|.", re.DOTALL)
_ANY: Final = ("%", False)
_GLOB: Final = {_ANY: "*", ("_", False): "?"}
"""The wildcards of SQLite's GLOB: a character, and whether a backslash makes it literal."""
_PYTHON: Final = {
    **{"&&": "and", "||": "or", "!": "not", "=": "==", "like": "@"},
    **{word: word for word in ("and", "or", "not", "in")},
}
"""Words and signs in Python's form. Python's parser reads the rest; ``@`` stands for ``like``."""
_SIGNS: Final[dict[type[ast.cmpop], str]] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "=", ast.NotEq: "!=",
}  # fmt: skip
_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def read_filter(expression: str) -> Condition:
    """The condition of an expression; all papers for an empty one.

    Raises:
        InvalidRequest: the expression is invalid, too long or too deep.
    """
    if len(expression) > MAX_LENGTH:
        raise InvalidRequest(f"filter has {len(expression):,} characters: send {MAX_LENGTH:,} at most.")
    if not expression.strip():
        return Every(())
    if unknown := _TOKEN.sub("", expression).strip():
        raise _invalid(f"unexpected {shown(unknown[:20])}")
    matches = list(_TOKEN.finditer(expression))
    # Python would join two texts side by side.
    if any(match["text"] and following["text"] for match, following in pairwise(matches)):
        raise _invalid("two texts side by side")
    tokens = list(map(_as_python, matches))
    if tokens.count("not") > MAX_COMPARISONS:
        raise _invalid(f"more than {MAX_COMPARISONS} negations")
    try:
        tree = ast.parse(" ".join(tokens), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise _invalid(getattr(error, "msg", None) or "too deeply nested") from error
    reader = _Reader()
    condition = reader.read(tree.body, 0)
    if reader.comparisons > MAX_COMPARISONS or sum(reader.costs.values()) > MAX_COMPARISONS:
        costs = ", ".join(f"of {name} {cost}" for name, cost in COSTS.items())
        raise _invalid(f"more than {MAX_COMPARISONS} comparisons (one {costs})")
    return condition


def _as_python(match: re.Match[str]) -> str:
    if match["text"]:
        return repr(match["text"][1:-1])
    return _PYTHON.get(match[0].lower(), match[0])


def _invalid(what: str) -> InvalidRequest:
    return InvalidRequest(f"filter is not a valid expression: {what}.")


class _Reader:
    """Reads conditions, and counts their comparisons and the costs of different ones."""

    def __init__(self) -> None:
        self.comparisons = 0
        self.costs: dict[Condition, int] = {}

    def read(self, node: ast.expr, depth: int) -> Condition:
        if depth > MAX_DEPTH:
            raise _invalid(f"more than {MAX_DEPTH} nested alternatives and negations")
        match node:
            case ast.BoolOp(op=operator, values=values):
                parts = list(dict.fromkeys(self.read(value, depth + 1) for value in values))
                return either(parts) if isinstance(operator, ast.Or) else every(parts)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return Without(self.read(operand, depth + 1))
        condition, field = _comparison(node)
        self.comparisons += 1
        self.costs[condition] = COSTS.get(field, 1)
        return condition


def _comparison(node: ast.expr) -> tuple[Condition, str]:
    """The condition of one comparison, and its field."""
    match node:
        case ast.BinOp(left=ast.Name(id=name), op=ast.MatMult(), right=right):
            return _like(field := _field(name), _text(right)), field
        case ast.Compare(left=ast.Name(id=name), ops=[ast.In() | ast.NotIn() as sign], comparators=[listed]):
            if not isinstance(listed, ast.List):
                raise _invalid("in without a list of texts")
            one_of = OneOf(field := _field(name), tuple(_unescaped(item) for item in listed.elts))
            return one_of if isinstance(sign, ast.In) else Without(one_of), field
        case ast.Compare(left=ast.Name(id=name), ops=[sign], comparators=[right]) if type(sign) in _SIGNS:
            return _compared(field := _field(name), _SIGNS[type(sign)], _unescaped(right)), field
        case ast.Compare(left=left, ops=[sign, *rest], comparators=[ast.Name(id=name), *right]) if (
            all(type(op) in _SIGNS for op in (sign, *rest)) and len(rest) < 2
        ):
            operator = _SIGNS[type(sign)]
            field = _field(name)
            first = _compared(field, _MIRRORED.get(operator, operator), _unescaped(left))
            if not rest:
                return first, field
            return Every((first, _compared(field, _SIGNS[type(rest[0])], _unescaped(right[0])))), field
    raise _invalid(f"{shown(ast.unparse(node)[:80])} is not a comparison of a field and a text")


def _field(name: str) -> str:
    field = "id" if name == "arxiv_id" else name
    if field not in FIELDS:
        raise _invalid(f"unknown field {shown(name)} (there are {', '.join(FIELDS)})")
    return field


def _text(node: ast.expr) -> str:
    """The text of a literal, with its backslashes."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise _invalid(f"{shown(ast.unparse(node)[:80])} in place of a text")


def _unescaped(node: ast.expr) -> str:
    return _ESCAPED.sub(r"\1", _text(node)).replace("\0", "")


def _compared(field: str, operator: str, value: str) -> Condition:
    return Without(Value(field, "=", value)) if operator == "!=" else Value(field, operator, value)


def _like(field: str, pattern: str) -> Condition:
    """A pattern with ``%`` for any text and ``_`` for a character, both of which a backslash makes literal."""
    parts = [
        (match[1] or match[0], bool(match[1])) for match in _CHARACTER.finditer(pattern) if match[0] != "\0"
    ]
    starts = next((at for at, part in enumerate(parts) if part != _ANY), len(parts))
    ends = next((at for at, part in enumerate(reversed(parts)) if part != _ANY), 0)
    inside = parts[starts : len(parts) - ends]
    if not any(part in _GLOB for part in inside):
        text = "".join(character for character, _ in inside)
        if (starts and ends) or not text:
            return Value(field, "has", text) if parts else Value(field, "=", "")
        return Value(field, "ends" if starts else "starts" if ends else "=", text)
    if field != "id":
        raise _invalid("a pattern with _ or an inner %, which only id supports")
    return Value(field, "glob", "".join(_GLOB.get(part, _literal(part[0])) for part in parts))


def _literal(character: str) -> str:
    return f"[{character}]" if character in "*?[" else character
