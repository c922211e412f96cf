"""``AsyncClient``: the methods of ``Client`` for asyncio."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, cast

import httpx
from tenacity import AsyncRetrying

from scholarbase.client import endpoints
from scholarbase.client.client import Client
from scholarbase.client.core import BaseClient
from scholarbase.client.endpoints import Request, T
from scholarbase.models.paging import Paging
from scholarbase.models.requests import title_batches
from scholarbase.models.responses import Citation, Hit, TitleMatchResponse

P = ParamSpec("P")


def _awaitable(
    method: Callable[Concatenate[Any, P], T],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """A method of ``Client`` as a coroutine function, with its signature and docstring.

    It returns what another method of ``self`` returns, which is a coroutine here.
    """

    @functools.wraps(method)
    async def awaitable(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: Any = method(self, *args, **kwargs)
        if inspect.isawaitable(result):
            result = await result
        return cast(T, result)

    awaitable.__qualname__ = f"AsyncClient.{method.__name__}"
    return awaitable


class AsyncClient(BaseClient):
    """:class:`Client` for asyncio, with the same arguments and errors: await its methods, and use ``async for`` with
    ``iter_`` methods. Close it with ``aclose``, or use it in an ``async with`` statement.
    """

    _http_class = httpx.AsyncClient
    _http: httpx.AsyncClient

    async def aclose(self) -> None:
        """Close the connections. A second call does nothing."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _send(self, request: Request[T]) -> T:
        retrying = AsyncRetrying(**self._retry_options(request))
        with self._raising(request, retrying):
            response: httpx.Response = await retrying(self._http.request, **request.arguments(self.base_url))
        return self._read(request, response, retrying)

    async def _send_all(self, requests: Sequence[Request[list[T]]]) -> list[T]:
        return [result for request in requests for result in await self._send(request)]

    async def _match_all(self, titles: Sequence[str], **options: Any) -> list[TitleMatchResponse]:
        return await self._send_all(
            [endpoints.match_titles(some) for some in title_batches(titles, **options)]
        )

    async def _pages(
        self, page: Callable[[int, int], Awaitable[Any]], limit: int | None
    ) -> AsyncIterator[Any]:
        paging = Paging(limit)
        while (window := paging.next_page()) is not None:
            for result in paging.add(await page(*window)):
                yield result

    search = _awaitable(Client.search)
    search_batch = _awaitable(Client.search_batch)
    run = _awaitable(Client.run)
    run_searches = _awaitable(Client.run_searches)
    run_title = _awaitable(Client.run_title)
    run_citations = _awaitable(Client.run_citations)
    run_references = _awaitable(Client.run_references)
    run_expand = _awaitable(Client.run_expand)
    _paper = _awaitable(Client._paper)
    _papers = _awaitable(Client._papers)

    def iter_search(self, q: str, *, limit: int | None = None, **arguments: Any) -> AsyncIterator[Hit]:
        """The results of a search, fetched in pages, up to ``limit`` or the end of paging: 10,000 results, or
        ``fusion_depth`` in a hybrid search. Each paper is returned once. The arguments are those of ``search``."""
        return self._pages(lambda size, offset: self.search(q, limit=size, offset=offset, **arguments), limit)

    match_title = _awaitable(Client.match_title)
    match_titles = _awaitable(Client.match_titles)

    paper = _awaitable(Client.paper)
    papers = _awaitable(Client.papers)

    citations = _awaitable(Client.citations)
    references = _awaitable(Client.references)

    def iter_citations(
        self, paper_id: str, *, limit: int | None = None, **arguments: Any
    ) -> AsyncIterator[Citation]:
        """All citations, fetched in pages, up to ``limit``. The arguments are those of ``citations``."""
        return self._pages(
            lambda size, offset: self.citations(paper_id, limit=size, offset=offset, **arguments), limit
        )

    def iter_references(
        self, paper_id: str, *, limit: int | None = None, **arguments: Any
    ) -> AsyncIterator[Citation]:
        """All references, fetched in pages, up to ``limit``. The arguments are those of ``references``."""
        return self._pages(
            lambda size, offset: self.references(paper_id, limit=size, offset=offset, **arguments), limit
        )

    expand = _awaitable(Client.expand)

    tools = _awaitable(Client.tools)
    call_tool = _awaitable(Client.call_tool)
    open_session = _awaitable(Client.open_session)
    trajectory = _awaitable(Client.trajectory)
    session_report = _awaitable(Client.session_report)
    record_answer = _awaitable(Client.record_answer)
    delete_session = _awaitable(Client.delete_session)

    snapshot = _awaitable(Client.snapshot)
