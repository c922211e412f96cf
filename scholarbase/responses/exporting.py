"""The papers of a response, to be written as a bibliography."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scholarbase.models.papers import Paper


def papers_in(response: Mapping[str, Any]) -> list[Paper]:
    """The papers of a response's JSON in their order: one paper, papers, or results that have one each."""
    if "results" not in response:
        return [Paper.from_dict(response)]
    return [Paper.from_dict(item.get("paper", item)) for item in response["results"]]
