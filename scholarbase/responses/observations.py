"""Observations of the tool set ``airqa`` in responses: as text, and cut to a size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from scholarbase.responses.fitting import greatest
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

    length = greatest(len(text), lambda kept: fits(cut(kept)))
    line = text.rfind("\n", length // 2, length)
    return cut(line if line > 0 else length)
