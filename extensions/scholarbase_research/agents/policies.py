"""Agents by rule: one search, and search with expansion."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from scholarbase.models.limits import MAX_TOKENS
from scholarbase.tools.calling import Tools
from scholarbase_research.agents.base import Trace

SEEDS: Final = 5
TITLES: Final = 3
NEIGHBOURS: Final = 50
_WHOLE: Final = {"max_tokens": MAX_TOKENS}
"""All ``limit`` papers, also where they exceed the default size of a tool's response."""
_FUSION_K: Final = 60
_CITED: Final = 0.5
"""The weight of a list of references or citations; the search for the question has 1."""
_ALIKE: Final = 0.1
"""The weight of a search for a title. With 0.5, R@25 of AutoScholarQuery is 0.526 instead of 0.563 of one search."""


class SearchPolicy:
    """One search for the question. Its results are the answer."""

    name = "search"

    def __init__(self, limit: int = 100) -> None:
        self._limit = limit

    @property
    def identity(self) -> dict[str, Any]:
        return {"policy": self.name, "limit": self._limit}

    def run(self, tools: Tools, trace: Trace, to: str | None) -> None:
        observed = trace.call(tools, "search_papers", _arguments(trace.query.text, self._limit, to), 1)
        trace.answer(observed.ids, 2)
        trace.stop = "answered"


class SearchExpandPolicy:
    """One search, then the references and citations of its first results and searches for their titles, fused by
    rank."""

    name = "search-expand"

    def __init__(self, limit: int = 100) -> None:
        self._limit = limit

    @property
    def identity(self) -> dict[str, Any]:
        rule = {"seeds": SEEDS, "titles": TITLES, "neighbours": NEIGHBOURS, "weights": [_CITED, _ALIKE]}
        return {"policy": self.name, "limit": self._limit, **rule}

    def run(self, tools: Tools, trace: Trace, to: str | None) -> None:
        first = trace.call(tools, "search_papers", _arguments(trace.query.text, self._limit, to), 1)
        ids = first.ids
        lists: list[tuple[float, Sequence[str]]] = [(1.0, ids)]
        dated = {} if to is None else {"to": to}
        if seeds := list(ids[:SEEDS]):
            for direction in ("references", "citations"):
                arguments = {"seeds": seeds, "direction": direction, "limit": NEIGHBOURS, **_WHOLE, **dated}
                lists.append((_CITED, trace.call(tools, "expand_papers", arguments, 2, parent=1).ids))
        for hit in (first.content or {}).get("results", [])[:TITLES]:
            arguments = _arguments(hit["paper"]["title"], NEIGHBOURS, to)
            lists.append((_ALIKE, trace.call(tools, "search_papers", arguments, 2, parent=1).ids))
        trace.answer(tuple(fused(lists)[: self._limit]), 3)
        trace.stop = "answered"


def _arguments(text: str, limit: int, to: str | None) -> dict[str, Any]:
    return {"q": text, "limit": limit, **_WHOLE} | ({} if to is None else {"to": to})


def fused(lists: Sequence[tuple[float, Sequence[str]]]) -> list[str]:
    """Reciprocal rank fusion of weighted lists, ties by id."""
    scores: dict[str, float] = defaultdict(float)
    for weight, ids in lists:
        for rank, paper in enumerate(ids, 1):
            scores[paper] += weight / (_FUSION_K + rank)
    return sorted(scores, key=lambda paper: (-scores[paper], paper))
