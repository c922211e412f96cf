"""Published figures of query sets, with their sources: ``published.toml`` beside this module."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple


class Published(NamedTuple):
    """Published figures of one system: ``values`` by ir_measures' names."""

    system: str
    values: Mapping[str, float]
    source: str
    url: str


class Collection(NamedTuple):
    """A query set with published figures, recognised by its name or query ids and its number of queries."""

    shown: str
    word: str
    prefix: str
    queries: int
    figures: tuple[Published, ...]


@cache
def collections() -> tuple[Collection, ...]:
    """All query sets with published figures."""
    content = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return tuple(
        Collection(**row | {"figures": tuple(Published(**figure) for figure in row["figures"])})
        for row in content["collections"]
    )


def published(queries: Mapping[str, Any], first_id: str) -> Collection | None:
    """The published figures for a run's query set (``manifest.queries`` and the id of its first query), or None."""
    name = str(queries.get("name", "")).casefold()
    for collection in collections():
        matches = collection.word in name or (collection.prefix and first_id.startswith(collection.prefix))
        if matches and queries.get("count") == collection.queries:
            return collection
    return None
