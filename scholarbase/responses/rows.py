"""Responses with rows, of SQL statements, as text and cut to a number of tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from scholarbase.errors import InvalidRequest
from scholarbase.responses.fitting import greatest

SHORTEST: Final = 20
"""Characters of a value that a response keeps at least."""


def has_rows(response: Mapping[str, Any]) -> bool:
    """Whether a response has rows and columns."""
    return "columns" in response and "rows" in response


def cell_text(value: Any, plain: Callable[[Any], str]) -> str:
    """A value on one line. A vertical bar in it is escaped, so that it separates no columns."""
    return "null" if value is None else plain(value).replace("\\", "\\\\").replace("|", "\\|")


def rows_as_text(response: Mapping[str, Any], plain: Callable[[Any], str]) -> str:
    """The rows below the names of the columns, separated by vertical bars."""
    lines = [response["columns"], *response["rows"]]
    return "\n".join(" | ".join(cell_text(value, plain) for value in line) for line in lines)


def fit_rows(
    response: Mapping[str, Any], tokens_of: Callable[[dict[str, Any]], int], max_tokens: int
) -> dict[str, Any]:
    """As many first rows as fit. If none does, the first one with its long values cut.

    Args:
        tokens_of: the estimate of a response.

    Raises:
        InvalidRequest: not even the first row fits.
    """
    rows = response["rows"]
    if tokens_of(dict(response)) <= max_tokens:
        return dict(response)

    def first(count: int) -> dict[str, Any]:
        left = len(rows) - count
        how = (
            f"{left:,} rows are left out: ask for the next ones with LIMIT {max(count, 1)} OFFSET {count}, for fewer "
            "columns, or for more tokens."
        )
        return _cut(response, rows[:count], {"rows": left, "how": how})

    count = greatest(len(rows), lambda one: tokens_of(first(one)) <= max_tokens)
    if count:
        return first(count)
    if not rows:
        raise _too_small(max_tokens)

    def cut(characters: int) -> dict[str, Any]:
        row = [_shortened(value, characters) for value in rows[0]]
        left = len(rows) - 1
        how = "Long values of the row end early, with ...: read the parts with substr(text, start, length)."
        if left:
            how += f" {left:,} rows are left out: ask for them with OFFSET 1."
        return _cut(response, [row], {"rows": left, "how": how})

    longest = max((len(value) for value in rows[0] if isinstance(value, str)), default=0)
    characters = greatest(longest, lambda one: tokens_of(cut(one)) <= max_tokens)
    if characters < SHORTEST:
        raise _too_small(max_tokens)
    return cut(characters)


def _cut(response: Mapping[str, Any], rows: list[Any], left_out: dict[str, Any]) -> dict[str, Any]:
    return {**response, "rows": rows, "row_count": len(rows), "truncated": True, "left_out": left_out}


def _shortened(value: Any, characters: int) -> Any:
    is_long = isinstance(value, str) and len(value) > characters
    return f"{value[:characters]}..." if is_long else value


def _too_small(max_tokens: int) -> InvalidRequest:
    return InvalidRequest(
        f"max_tokens is {max_tokens}, too small for the columns and one row: select fewer columns, or raise it."
    )
