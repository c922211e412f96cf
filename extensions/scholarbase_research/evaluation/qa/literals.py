"""Answers that are written as Python or JSON literals, parsed and never evaluated."""

from __future__ import annotations

import ast
import json
import math
import re
import warnings
from typing import Any, Final

from scholarbase.errors import InvalidRequest

MAX_TEXT: Final = 100_000
"""Characters of the longest text that is parsed."""
MAX_DEPTH: Final = 50
MAX_PARTS: Final = 5_000
"""Items of the largest value, those of its lists and dicts together."""
_NUMBER: Final = re.compile(r"[+-]?(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE][+-]?\d{1,4})?", re.ASCII)
_NAMES: Final = {"true": True, "false": False, "null": None, "none": None, "nan": math.nan}
"""Names outside of strings that JSON or models write instead of Python's."""


class NotALiteral(Exception):
    """The text is not a literal."""


def parse_literal(text: str) -> Any:
    """The value of a JSON or Python literal: lists (also for tuples and sets), dicts, texts, numbers, bool and None.

    Raises:
        NotALiteral: the text is anything else, or too long, too deeply nested or of too many parts.
    """
    if len(text) > MAX_TEXT:
        raise NotALiteral(f"a text of {len(text):,} characters")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = _python_literal(text)
    _check_size(value)
    return value


def _python_literal(text: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as an invalid escape in a string
            tree = ast.parse(text.strip(), mode="eval")
        return _plain(ast.literal_eval(_Names().visit(tree)))
    except (SyntaxError, TypeError, ValueError, MemoryError, RecursionError) as error:
        raise NotALiteral(str(error)) from error


class _Names(ast.NodeTransformer):
    """Replaces names that JSON or models write by their values."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(_NAMES[node.id.lower()]) if node.id.lower() in _NAMES else node


def _plain(value: Any) -> Any:
    """A value with lists in place of tuples and sets. Raises ValueError for bytes, complex numbers and an ellipsis."""
    if isinstance(value, list | tuple | set):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if not isinstance(value, str | int | float | None):
        raise ValueError(f"{type(value).__name__} is not a literal")
    return value


def _check_size(value: Any) -> None:
    """Raise NotALiteral if a value of lists and dicts is nested too deeply or has too many parts."""
    waiting = [(value, 0)]
    parts = 0
    while waiting:
        item, depth = waiting.pop()
        if isinstance(item, list | dict):
            if depth >= MAX_DEPTH:
                raise NotALiteral(f"nested more than {MAX_DEPTH} levels deep")
            parts += len(item)
            if parts > MAX_PARTS:
                raise NotALiteral(f"a value of more than {MAX_PARTS:,} parts")
            waiting += [(part, depth + 1) for part in (item.values() if isinstance(item, dict) else item)]


def number(value: Any) -> int | float | None:
    """A finite number, or the one that a text writes in decimal digits; None for anything else, bool included."""
    if isinstance(value, str):
        text = value.strip()
        if not _NUMBER.fullmatch(text):
            return None
        as_float = float(text)
        exact = int(text) if text.lstrip("+-").isdigit() else as_float
        return exact if math.isfinite(as_float) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if isinstance(value, int) or math.isfinite(value) else None


def parsed(answer: Any) -> Any:
    """The value of an answer that is the text of a literal; any other answer as it is."""
    if isinstance(answer, str):
        try:
            return parse_literal(answer)
        except NotALiteral:
            pass
    return answer


def as_list(answer: Any) -> list[Any] | None:
    """The answer as a list, from the text of one too; None if it is not a list."""
    value = parsed(answer)
    return value if isinstance(value, list) else None


def check_answer(answer: Any) -> None:
    """Refuse an answer that is too large to be compared.

    Raises:
        InvalidRequest: too many characters, levels or parts.
    """
    try:
        _check_size(answer)
    except NotALiteral as error:
        raise InvalidRequest(
            f"The answer is {error}: at most {MAX_DEPTH} levels and {MAX_PARTS:,} parts are compared."
        ) from error
    size = len(answer) if isinstance(answer, str) else len(json.dumps(answer, ensure_ascii=False))
    if size > MAX_TEXT:
        raise InvalidRequest(f"The answer has {size:,} characters: at most {MAX_TEXT:,} are compared.")
