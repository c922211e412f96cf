"""``AsyncClient``: the methods of ``Client`` for asyncio."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, cast

import anyio
import httpx
from tenacity import AsyncRetrying

from scholarbase.client.client import Client, U
from scholarbase.client.core import BaseClient
from scholarbase.client.endpoints import Batch, Request, T
from scholarbase.models.paging import Paging
from scholarbase.models.source import Source

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


def _with_awaited_pages(
    method: Callable[Concatenate[Any, P], Iterator[T]],
) -> Callable[Concatenate[Any, P], AsyncIterator[T]]:
    """An ``iter_`` method of ``Client``, which calls ``_pages``, for ``async for``."""

    @functools.wraps(method)
    def iterate(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        return cast(AsyncIterator[T], method(self, *args, **kwargs))

    signature = inspect.signature(method)
    returned = f"Async{signature.return_annotation}"
    iterate.__signature__ = signature.replace(return_annotation=returned)  # type: ignore[attr-defined]
    iterate.__qualname__ = f"AsyncClient.{method.__name__}"
    return iterate


class AsyncClient(BaseClient):
    """:class:`Client` for asyncio, with the same arguments and errors: await its methods, and use ``async for`` with
    ``iter_`` methods. Close it with ``aclose``, or use it in an ``async with`` statement.

    Any number of tasks can share a client: up to 64 requests are sent at once, and the others wait.
    """

    _http_class = httpx.AsyncClient
    _semaphore_class = anyio.Semaphore
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
            response: httpx.Response = await retrying(self._request, **request.arguments(self.base_url))
        return self._read(request, response, retrying)

    async def _request(self, **arguments: Any) -> httpx.Response:
        async with self._slots:
            return await self._http.request(**arguments)

    async def _send_all(self, batches: Sequence[Batch[Any, T]], joined: Callable[[list[T]], U]) -> U:
        for batch in batches:
            while (request := batch.next_request()) is not None:
                batch.add(await self._send(request))
        return joined([result for batch in batches for result in batch.results])

    async def _pages(
        self, page: Callable[[int, int], Awaitable[Any]], limit: int | None, offset: int
    ) -> AsyncIterator[Any]:
        paging = Paging(limit, offset)
        while (window := paging.next_page()) is not None:
            for result in paging.add(await page(*window)):
                yield result

    search = _awaitable(Client.search)
    search_batch = _awaitable(Client.search_batch)
    facets = _awaitable(Client.facets)
    run = _awaitable(Client.run)
    text = _awaitable(Client.text)
    find = _awaitable(Client.find)
    passages = _awaitable(Client.passages)
    search_passages = _awaitable(Client.search_passages)
    citation_contexts = _awaitable(Client.citation_contexts)
    page_image = _awaitable(Client.page_image)
    match_title = _awaitable(Client.match_title)
    match_titles = _awaitable(Client.match_titles)
    check_references = _awaitable(Client.check_references)
    paper = _awaitable(Client.paper)
    papers = _awaitable(Client.papers)
    similar = _awaitable(Client.similar)
    search_authors = _awaitable(Client.search_authors)
    author = _awaitable(Client.author)
    authors = _awaitable(Client.authors)
    author_papers = _awaitable(Client.author_papers)
    citations = _awaitable(Client.citations)
    references = _awaitable(Client.references)
    expand = _awaitable(Client.expand)
    tools = _awaitable(Client.tools)
    call_tool = _awaitable(Client.call_tool)
    call_tool_as_text = _awaitable(Client.call_tool_as_text)
    open_session = _awaitable(Client.open_session)
    trajectory = _awaitable(Client.trajectory)
    session_report = _awaitable(Client.session_report)
    replay_session = _awaitable(Client.replay_session)
    record_answer = _awaitable(Client.record_answer)
    delete_session = _awaitable(Client.delete_session)
    sql = _awaitable(Client.sql)
    sql_schema = _awaitable(Client.sql_schema)
    check_claim = _awaitable(Client.check_claim)
    check_draft = _awaitable(Client.check_draft)
    snapshot = _awaitable(Client.snapshot)
    snapshots = _awaitable(Client.snapshots)

    iter_search = _with_awaited_pages(Client.iter_search)
    iter_similar = _with_awaited_pages(Client.iter_similar)
    iter_author_papers = _with_awaited_pages(Client.iter_author_papers)
    iter_citations = _with_awaited_pages(Client.iter_citations)
    iter_references = _with_awaited_pages(Client.iter_references)


# What the methods of Source call.
for _name in sorted(Source.__abstractmethods__ - vars(AsyncClient).keys() - {"close"}):
    setattr(AsyncClient, _name, _awaitable(getattr(Client, _name)))
