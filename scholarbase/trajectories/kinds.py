"""The kinds of the calls of tools."""

from __future__ import annotations

from typing import Final

from scholarbase.extensions import added_tool
from scholarbase.models.calls import CallKind

TOOLS: Final[dict[str, CallKind]] = {
    "search_papers": "search",
    "match_titles": "match",
    "check_references": "inspect",
    "get_papers": "inspect",
    "get_citations": "expand",
    "get_references": "expand",
    "expand_papers": "expand",
    "similar_papers": "expand",
    "sql": "inspect",
    "search_passages": "search",
    "read_paper": "inspect",
    "paper_text": "inspect",
    "find_in_paper": "inspect",
    "paper_passages": "inspect",
    "citation_contexts": "expand",
    "answer": "answer",
}
"""The kind of call of each of ScholarBase's tools."""


def kind_of(tool: str) -> CallKind | None:
    """The kind of the calls of a tool of ScholarBase, or of an extension that says so."""
    if tool in TOOLS:
        return TOOLS[tool]
    added = added_tool(tool)
    kind: CallKind | None = added and added.kind
    return kind
