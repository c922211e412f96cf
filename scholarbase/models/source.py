"""Protocols of an open library and of the client of a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from scholarbase.models import (
    MIN_TITLE_SCORE,
    CitationSort,
    CitationsResponse,
    Direction,
    Engine,
    ExpandResponse,
    Mode,
    Paper,
    SearchRequest,
    SearchResponse,
    TitleMatchResponse,
)


class Source(Protocol):
    """The methods that ``Library`` and ``Client`` share; see :class:`scholarbase.search.library.Library`."""

    def search(
        self,
        q: str,
        *,
        mode: Mode | None = None,
        engine: Engine | None = None,
        limit: int = 10,
        offset: int = 0,
        fields: Sequence[str] | None = None,
        from_: str | None = None,
        to: str | None = None,
        category: Sequence[str] = (),
        venue: Sequence[str] = (),
        min_citations: int | None = None,
        exclude: Sequence[str] = (),
        exclude_ids: Sequence[str] = (),
        within: Sequence[str] | None = None,
        as_of: str | None = None,
        exact: bool = False,
        explain: bool = False,
        partial: bool = False,
    ) -> SearchResponse: ...

    def run(self, request: SearchRequest) -> SearchResponse: ...

    def search_batch(self, requests: Sequence[SearchRequest | Mapping[str, Any]]) -> list[SearchResponse]: ...

    def match_titles(
        self,
        titles: Sequence[str],
        *,
        limit: int = 1,
        min_score: float = MIN_TITLE_SCORE,
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
    ) -> list[TitleMatchResponse]: ...

    def papers(
        self, ids: Sequence[str], *, as_of: str | None = None, fields: Sequence[str] | None = None
    ) -> list[Paper | None]: ...

    def citations(
        self,
        paper_id: str,
        *,
        limit: int = 100,
        offset: int = 0,
        sort: CitationSort | None = None,
        from_: str | None = None,
        to: str | None = None,
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
    ) -> CitationsResponse: ...

    def references(
        self,
        paper_id: str,
        *,
        limit: int = 100,
        offset: int = 0,
        sort: CitationSort | None = None,
        from_: str | None = None,
        to: str | None = None,
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
    ) -> CitationsResponse: ...

    def expand(
        self,
        seeds: Sequence[str],
        *,
        direction: Direction = "both",
        hops: int = 1,
        limit: int = 100,
        offset: int = 0,
        from_: str | None = None,
        to: str | None = None,
        category: Sequence[str] = (),
        venue: Sequence[str] = (),
        min_citations: int | None = None,
        exclude: Sequence[str] = (),
        exclude_ids: Sequence[str] = (),
        within: Sequence[str] | None = None,
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
    ) -> ExpandResponse: ...

    def snapshot(self) -> dict[str, Any]: ...


class ToolServer(Protocol):
    """Tool calls by name, which ``Client`` has in addition to the methods of a library."""

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        session: str | None = None,
        parent: int | None = None,
        round: int | None = None,
    ) -> dict[str, Any] | str: ...
