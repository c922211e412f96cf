"""``Client``: the methods of :class:`scholarbase.search.library.Library` over HTTP.

    with Client("http://127.0.0.1:8000") as client:
        for hit in client.search("graph neural networks", limit=5).results:
            print(hit.score, hit.paper.title)

Searches are safe to retry. Tool calls and answers of a session have an ``Idempotency-Key``, so that a retried call is
recorded once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self

import httpx
from tenacity import Retrying

from scholarbase.client import endpoints
from scholarbase.client.core import DEFAULT_BACKOFF, DEFAULT_RETRIES, DEFAULT_TIMEOUT, BaseClient
from scholarbase.client.endpoints import Request, T
from scholarbase.client.paging import Paging
from scholarbase.models import (
    MIN_TITLE_SCORE,
    Citation,
    CitationSort,
    CitationsResponse,
    Direction,
    Engine,
    ExpandResponse,
    Hit,
    Mode,
    Paper,
    SearchRequest,
    SearchResponse,
    TitleMatchResponse,
    search_request,
    search_requests,
)

ToolForm = Literal["openai", "anthropic", "mcp"]


class Client(BaseClient):
    """A ScholarBase server, with the methods and types of a library. Thread-safe. Close it with ``close``, or use it
    in a ``with`` statement.

    Args:
        base_url: the server's address; the setting ``SCHOLARBASE_URL`` by default.
        timeout: seconds to connect and between two bytes of a response, or an ``httpx.Timeout``.
        retries: how often a request is retried after a connection error or a status of 429, 502, 503 or 504.
        backoff: longest wait before the first retry, in seconds; it doubles with each retry, up to 10 s. A
            ``Retry-After`` of at most a minute replaces it.
        headers: sent with every request.
        api_key: the key for a shared server; the setting ``SCHOLARBASE_API_KEY`` by default. Not sent if the address
            has a user name and password.
        transport: an httpx transport to send requests with.

    Raises:
        InvalidRequest: an argument is not valid.

    All methods raise what the library's methods raise, and:
        ServerUnreachable: no response after all attempts.
        ServerFailure: not a response of a ScholarBase server.
        ClientError: the client is closed.
    """

    _http: httpx.Client

    def __init__(
        self,
        base_url: str | None = None,
        *,
        timeout: float | httpx.Timeout = DEFAULT_TIMEOUT,
        retries: int = DEFAULT_RETRIES,
        backoff: float = DEFAULT_BACKOFF,
        headers: Mapping[str, str] | None = None,
        api_key: str | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        super().__init__(base_url, timeout, retries, backoff, headers, api_key)
        self._http = httpx.Client(transport=transport, **self._options)

    def close(self) -> None:
        """Close the connections. A second call does nothing."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # AsyncClient reuses the public methods and replaces these three with coroutines.

    def _send(self, request: Request[T]) -> T:
        retrying = Retrying(**self._retry_options(request))
        with self._raising(request, retrying):
            response = retrying(self._http.request, **request.arguments(self.base_url))
        return self._read(request, response, retrying)

    def _send_all(self, requests: Sequence[Request[list[T]]]) -> list[T]:
        return [result for request in requests for result in self._send(request)]

    def _pages(self, page: Callable[[int, int], Any], limit: int | None) -> Iterator[Any]:
        paging = Paging(limit)
        while (window := paging.next_page()) is not None:
            yield from paging.add(page(*window))

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
    ) -> SearchResponse:
        """Search for papers. The arguments are those of :class:`SearchRequest` and :class:`Filters`."""
        return self.run(
            search_request(
                q,
                mode=mode,
                engine=engine,
                limit=limit,
                offset=offset,
                fields=fields,
                from_=from_,
                to=to,
                category=category,
                venue=venue,
                min_citations=min_citations,
                exclude=exclude,
                exclude_ids=exclude_ids,
                within=within,
                as_of=as_of,
                exact=exact,
                explain=explain,
                partial=partial,
            )
        )

    def search_batch(self, requests: Sequence[SearchRequest | Mapping[str, Any]]) -> list[SearchResponse]:
        """Run many searches: each is a :class:`SearchRequest`, or a mapping with the arguments of ``search``. One HTTP
        request holds up to 100."""
        return self._send_all(endpoints.search_batch(search_requests(requests)))

    def run(self, request: SearchRequest) -> SearchResponse:
        """Run a :class:`SearchRequest`."""
        return self._send(endpoints.search(request))

    def iter_search(self, q: str, *, limit: int | None = None, **arguments: Any) -> Iterator[Hit]:
        """The results of a search, fetched in pages, up to ``limit`` or the end of paging: 10,000 results, or
        ``fusion_depth`` in a hybrid search. Each paper is returned once. The arguments are those of ``search``."""
        return self._pages(lambda size, offset: self.search(q, limit=size, offset=offset, **arguments), limit)

    def match_title(
        self,
        title: str,
        *,
        limit: int = 5,
        min_score: float = MIN_TITLE_SCORE,
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
    ) -> TitleMatchResponse:
        """The papers with this title or a similar one, best first. No match gives no results."""
        return self._send(
            endpoints.match_title(title=title, limit=limit, min_score=min_score, as_of=as_of, fields=fields)
        )

    def match_titles(
        self,
        titles: Sequence[str],
        *,
        limit: int = 1,
        min_score: float = MIN_TITLE_SCORE,
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
    ) -> list[TitleMatchResponse]:
        """Match many titles. One HTTP request holds up to 1000."""
        return self._send_all(
            endpoints.match_titles(titles, limit=limit, min_score=min_score, as_of=as_of, fields=fields)
        )

    def paper(self, paper_id: str, *, as_of: str | None = None, fields: Sequence[str] | None = None) -> Paper:
        """The paper with this id, in any form."""
        return self._send(endpoints.paper(paper_id, as_of=as_of, fields=fields))

    def papers(
        self, ids: Sequence[str], *, as_of: str | None = None, fields: Sequence[str] | None = None
    ) -> list[Paper | None]:
        """The papers with these ids, in order. A paper that the library does not hold at ``as_of`` is None."""
        return self._send_all(endpoints.papers(ids, as_of=as_of, fields=fields))

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
    ) -> CitationsResponse:
        """The library's papers that cite this one, most cited first, or newest first with ``as_of``."""
        return self._send(
            endpoints.citations(
                "citations",
                paper_id=paper_id,
                limit=limit,
                offset=offset,
                sort=sort,
                from_=from_,
                to=to,
                as_of=as_of,
                fields=fields,
            )
        )

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
    ) -> CitationsResponse:
        """The library's papers that this one cites, in the order of ``citations``."""
        return self._send(
            endpoints.citations(
                "references",
                paper_id=paper_id,
                limit=limit,
                offset=offset,
                sort=sort,
                from_=from_,
                to=to,
                as_of=as_of,
                fields=fields,
            )
        )

    def iter_citations(
        self, paper_id: str, *, limit: int | None = None, **arguments: Any
    ) -> Iterator[Citation]:
        """All citations, fetched in pages, up to ``limit``. The arguments are those of ``citations``."""
        return self._pages(
            lambda size, offset: self.citations(paper_id, limit=size, offset=offset, **arguments), limit
        )

    def iter_references(
        self, paper_id: str, *, limit: int | None = None, **arguments: Any
    ) -> Iterator[Citation]:
        """All references, fetched in pages, up to ``limit``. The arguments are those of ``references``."""
        return self._pages(
            lambda size, offset: self.references(paper_id, limit=size, offset=offset, **arguments), limit
        )

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
    ) -> ExpandResponse:
        """The neighbours of the seeds in the citation graph, without the seeds, most connected to seeds first."""
        return self._send(
            endpoints.expand(
                seeds=seeds,
                direction=direction,
                hops=hops,
                limit=limit,
                offset=offset,
                fields=fields,
                from_=from_,
                to=to,
                category=category,
                venue=venue,
                min_citations=min_citations,
                exclude=exclude,
                exclude_ids=exclude_ids,
                within=within,
                as_of=as_of,
            )
        )

    def tools(self, form: ToolForm = "openai") -> list[dict[str, Any]]:
        """The function schemas of the tools, in the format of ``openai``, ``anthropic`` or ``mcp``."""
        return self._send(endpoints.tools(form))

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        session: str | None = None,
        parent: int | None = None,
        round: int | None = None,
    ) -> dict[str, Any] | str:
        """Call a tool. Returns JSON, or text if its ``format`` is ``text``.

        Args:
            session: the session that records the call. A new name opens a session.
            parent: the number of the call that this one follows from; derived from the arguments by default.
            round: the agent's turn.
        """
        return self._send(endpoints.call_tool(name, arguments, session, parent, round))

    def open_session(
        self,
        session: str | None = None,
        *,
        query_id: str | None = None,
        query: str | None = None,
        as_of: str | None = None,
        limits: Mapping[str, int] | None = None,
    ) -> dict[str, Any]:
        """Open a session with a query, a cut-off date or limits. The server generates its name by default."""
        return self._send(
            endpoints.open_session(
                session=session, query_id=query_id, query=query, as_of=as_of, limits=limits
            )
        )

    def trajectory(self, session: str) -> list[dict[str, Any]]:
        """All calls of a session, in the format of docs/trajectories.md."""
        return self._send(endpoints.trajectory(session))

    def session_report(self, session: str, answers: Sequence[str] | None = None) -> dict[str, Any]:
        """The costs of a session and, with the relevant papers as ``answers``, its recall."""
        return self._send(endpoints.session_report(session, answers))

    def record_answer(self, session: str, ids: Sequence[str]) -> int:
        """Record the agent's final answer, best first. Returns the number of the call."""
        return self._send(endpoints.record_answer(session, ids))

    def delete_session(self, session: str) -> None:
        """Delete a session and its calls."""
        return self._send(endpoints.delete_session(session))

    def snapshot(self) -> dict[str, Any]:
        """The snapshot id, the settings that affect ranking, and the manifest."""
        return self._send(endpoints.snapshot())
