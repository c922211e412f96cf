"""Observations of the tool set ``airqa`` in responses: as text, and cut to a size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from scholarbase.responses.lines import plain

CUT: Final = "[The rest is cut: ask for less.]"


def as_text(response: Mapping[str, Any]) -> str:
    """What the agent reads, and what its session's budgets have left."""
    lines = [response["observation"]]
    if response.get("budget"):
        budget = (f"{plain(name)} {left:,}" for name, left in response["budget"].items())
        lines.append(f"Left of the budget: {', '.join(budget)}.")
    return "\n".join(lines)


def fit(response: dict[str, Any], fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """A response whose observation is cut at the end of a line, or else of a character, until it ``fits``. Without any
    of it, it may still not fit."""
    if fits(response):
        return response
    text: str = response["observation"]

    def cut(length: int) -> dict[str, Any]:
        return {**response, "observation": f"{text[:length]}\n{CUT}"}

    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(cut(middle)) else (low, middle - 1)
    line = text.rfind("\n", low // 2, low)
    return cut(line if line > 0 else low)
