"""``Client`` and ``AsyncClient``: the methods of :class:`scholarbase.search.library.Library`, over HTTP.

    with Client("http://127.0.0.1:8000") as client:
        for hit in client.search("graph neural networks", limit=5).results:
            print(hit.score, hit.paper.title)

Every call only reads, so that one that met no answer, or a server too busy to give one, is sent again. A call of a
session has a key by which a server knows it again, and records it once.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar

import httpx

from scholarbase import __version__
from scholarbase.client import wire
from scholarbase.errors import ClientError, InvalidRequest
from scholarbase.http import is_loopback
from scholarbase.models import (
    MIN_TITLE_SCORE,
    Citation,
    CitationSort,
    CitationsResponse,
    Direction,
    Engine,
    ExpandResponse,
    Filters,
    Hit,
    Mode,
    Paper,
    SearchRequest,
    SearchResponse,
    TitleMatchResponse,
    search_request,
    search_requests,
)
from scholarbase.settings import load_settings

log = logging.getLogger("scholarbase.client")

DEFAULT_TIMEOUT: Final = httpx.Timeout(60.0, connect=10.0)
"""Seconds: for connecting, and between two bytes of an answer."""
DEFAULT_RETRIES: Final = 3
DEFAULT_BACKOFF: Final = 0.5
_KEY: Final = re.compile(r"[\x21-\x7e]+")

T = TypeVar("T")

ToolForm = Literal["openai", "anthropic", "mcp"]


class _Base:
    """What both clients are: an address, and how a call becomes a request."""

    def __init__(
        self,
        base_url: str | None,
        timeout: float | httpx.Timeout,
        retries: int,
        backoff: float,
        headers: Mapping[str, str] | None,
        api_key: str | None,
    ) -> None:
        if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
            raise InvalidRequest(f"retries is {retries!r}: it must be a whole number of 0 or more.")
        for name, seconds in (("timeout", timeout), ("backoff", backoff)):
            if not isinstance(seconds, httpx.Timeout) and not seconds > 0:
                raise InvalidRequest(f"{name} is {seconds!r}: it must be more than 0 seconds.")
        settings = load_settings()
        url = _address(settings.url if base_url is None else base_url)
        # A password in the address goes to the server, and never to a log or a message.
        self._auth = (url.username, url.password) if url.userinfo else None
        self.base_url: Final = str(url.copy_with(userinfo=b""))
        """The server's address, without a user's name and password."""
        self._retries = retries
        self._backoff = backoff
        # A proxy for the world outside cannot reach this machine's own addresses.
        self._trust_env = not is_loopback(url.host)
        self._headers = httpx.Headers(
            {"User-Agent": f"scholarbase/{__version__}", "Accept": "application/json"}
        )
        if api_key is None and settings.api_key is not None:
            api_key = settings.api_key.get_secret_value()
        # A user's name and password stand in the header in which a key would.
        if api_key and self._auth is None:
            self._headers["Authorization"] = f"Bearer {_checked_key(api_key)}"
        self._headers.update(headers)

    def _request(self, call: wire.Call[Any]) -> dict[str, Any]:
        """The arguments of httpx's ``request``."""
        request: dict[str, Any] = {"method": call.method, "url": self.base_url + call.target}
        headers = dict(call.headers)
        if call.body is not None:
            request["content"] = call.body
            headers["Content-Type"] = "application/json"
        return {**request, "headers": headers} if headers else request

    def _attempts(self, call: wire.Call[Any]) -> wire.Attempts:
        return wire.Attempts(self.base_url + call.path, self._retries, self._backoff)

    def _check_open(self, closed: bool) -> None:
        if closed:
            raise ClientError(f"The client of {self.base_url} is closed: make a new one.")


def _checked_key(api_key: str) -> str:
    """A key that a header can hold. httpx would quote one that it cannot in its message."""
    if not isinstance(api_key, str) or not _KEY.fullmatch(api_key.strip()):
        raise InvalidRequest(
            "The API key has characters that no key has, such as spaces or line breaks: give it as "
            '"scholarbase key create" printed it.'
        )
    return api_key.strip()


def _address(base_url: str) -> httpx.URL:
    problem = InvalidRequest(
        f"{base_url!r} is no address of a server: give one that begins with http:// or https://, such as "
        "http://127.0.0.1:8000, without ? and #."
    )
    if not isinstance(base_url, str) or "?" in base_url or "#" in base_url:
        raise problem
    try:
        url = httpx.URL(base_url.strip().rstrip("/"))
    except httpx.InvalidURL as error:
        raise problem from error
    if url.scheme not in ("http", "https") or not url.host:
        raise problem
    return url


class Client(_Base):
    """A ScholarBase server, with the methods and types of a library. Safe to share between threads; ``close`` it,
    or use it in a ``with``.

    Args:
        base_url: the server's address; None takes the setting ``SCHOLARBASE_URL``.
        timeout: seconds to connect and between two bytes of an answer, or httpx's own ``Timeout``.
        retries: further attempts after one without an answer or with a status of 429, 502, 503 or 504.
        backoff: seconds before the second attempt, at most, doubled for each one after it; a server that says
            how long to wait (``Retry-After``) is heeded up to a minute.
        headers: sent with every request.
        api_key: the key that a shared server asks for; None takes the setting ``SCHOLARBASE_API_KEY``. It is not sent
            where the address has a user's name and password.
        transport: how requests are sent, where it is not httpx's own way.

    Raises:
        InvalidRequest: an argument cannot be right.

    Every call raises what the library's call of that name raises, and besides:
        ServerUnreachable: no answer after all attempts.
        ServerFailure: an answer that is not ScholarBase's.
        ClientError: the client is closed.
    """

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
        self._http = httpx.Client(
            auth=self._auth,
            timeout=timeout,
            headers=self._headers,
            transport=transport,
            trust_env=self._trust_env,
        )

    def close(self) -> None:
        """Close the connections. A second call does nothing."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, call: wire.Call[T]) -> T:
        attempts = self._attempts(call)
        while True:
            self._check_open(self._http.is_closed)
            try:
                response = self._http.request(**self._request(call))
            except httpx.RequestError as error:
                wait, why = attempts.after_error(error), type(error).__name__
            else:
                again = attempts.after_answer(response)
                if again is None:
                    return attempts.read(call, response)
                wait, why = again, str(response.status_code)
            log.warning("%s%s: %s; trying again in %.1f s", self.base_url, call.path, why, wait)
            time.sleep(wait)

    # -- search -----------------------------------------------------------------------------------------

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
        """Many searches, answered in order; a request is a :class:`SearchRequest` or the arguments of one
        ``search``. A hundred go in one request."""
        asked = search_requests(requests)
        return [answer for call in wire.search_batch(asked) for answer in self._send(call)]

    def run(self, request: SearchRequest) -> SearchResponse:
        """Answer one :class:`SearchRequest`."""
        return self._send(wire.search(request))

    def iter_search(self, q: str, *, limit: int | None = None, **arguments: Any) -> Iterator[Hit]:
        """The results of a search, page after page, up to ``limit``, or to where paging ends: 10,000 results, in
        a hybrid search as many as ``fusion_depth``. Each paper comes once. The arguments are those of ``search``."""
        return self._pages(lambda size, offset: self.search(q, limit=size, offset=offset, **arguments), limit)

    # -- titles -----------------------------------------------------------------------------------------

    def match_title(
        self,
        title: str,
        *,
        limit: int = 5,
        min_score: float = MIN_TITLE_SCORE,
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
    ) -> TitleMatchResponse:
        """The papers whose title is this one, then those with titles like it, best first; none is empty."""
        return self._send(wire.match_title(title, limit, min_score, as_of, fields))

    def match_titles(
        self,
        titles: Sequence[str],
        *,
        limit: int = 1,
        min_score: float = MIN_TITLE_SCORE,
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
    ) -> list[TitleMatchResponse]:
        """Many titles, answered in order. A thousand go in one request."""
        calls = wire.match_titles(titles, limit, min_score, as_of, fields)
        return [answer for call in calls for answer in self._send(call)]

    # -- papers -----------------------------------------------------------------------------------------

    def paper(self, paper_id: str, *, as_of: str | None = None, fields: Sequence[str] | None = None) -> Paper:
        """The paper that an id of any form names."""
        return self._send(wire.paper(paper_id, as_of, fields))

    def papers(
        self, ids: Sequence[str], *, as_of: str | None = None, fields: Sequence[str] | None = None
    ) -> list[Paper | None]:
        """Many papers, in order, None in the place of one that the library does not hold, or not ``as_of`` then."""
        return [found for call in wire.papers(ids, as_of, fields) for found in self._send(call)]

    # -- citations --------------------------------------------------------------------------------------

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
        """The papers of the library that cite the paper, most cited first, or with ``as_of`` newest first."""
        filters = Filters(from_=from_, to=to, as_of=as_of)
        call = wire.edges(paper_id, "citations", limit, offset, sort, filters, fields)
        return self._send(call)

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
        """The papers of the library that the paper cites, sorted as citations are."""
        filters = Filters(from_=from_, to=to, as_of=as_of)
        call = wire.edges(paper_id, "references", limit, offset, sort, filters, fields)
        return self._send(call)

    def iter_citations(
        self, paper_id: str, *, limit: int | None = None, **arguments: Any
    ) -> Iterator[Citation]:
        """All citations, page after page, up to ``limit``. The arguments are those of ``citations``."""
        return self._pages(
            lambda size, offset: self.citations(paper_id, limit=size, offset=offset, **arguments), limit
        )

    def iter_references(
        self, paper_id: str, *, limit: int | None = None, **arguments: Any
    ) -> Iterator[Citation]:
        """All references, page after page, up to ``limit``. The arguments are those of ``references``."""
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
        """The neighbours of a set of papers along citations, each once and no seed among them; those that
        most seeds reach come first."""
        filters = Filters.of(
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
        return self._send(wire.expand(seeds, direction, hops, limit, offset, filters, fields))

    # -- tools and sessions -----------------------------------------------------------------------------

    def tools(self, form: ToolForm = "openai") -> list[dict[str, Any]]:
        """The tools as function schemas, for a model: ``openai``, ``anthropic`` or ``mcp``."""
        return self._send(wire.tools(form))

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        session: str | None = None,
        parent: int | None = None,
        round: int | None = None,
    ) -> dict[str, Any] | str:
        """Call a tool on the server; JSON, or a text where its ``format`` is ``text``.

        Args:
            session: what the call is recorded as; one that is new opens.
            parent: the number of the call that this one follows from; told from its arguments where not given.
            round: the agent's turn.
        """
        return self._send(wire.call_tool(name, arguments, session, parent, round))

    def open_session(
        self,
        session: str | None = None,
        *,
        query_id: str | None = None,
        query: str | None = None,
        as_of: str | None = None,
        limits: Mapping[str, int] | None = None,
    ) -> dict[str, Any]:
        """Open a session with a question, a cut-off date or limits; its name is made where none is given."""
        return self._send(wire.open_session(session, query_id, query, as_of, limits))

    def trajectory(self, session: str) -> list[dict[str, Any]]:
        """Every call of a session, as docs/trajectories.md describes them."""
        return self._send(wire.trajectory(session))

    def session_report(self, session: str, answers: Sequence[str] | None = None) -> dict[str, Any]:
        """What a session cost and, where the papers that answer its question are given, what it found."""
        return self._send(wire.session_report(session, answers))

    def record_answer(self, session: str, ids: Sequence[str]) -> int:
        """Record the agent's own answer, best first; the number of the call."""
        return self._send(wire.record_answer(session, ids))

    def delete_session(self, session: str) -> None:
        """Delete a session and its calls."""
        self._send(wire.delete_session(session))

    # -- about ------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """The snapshot id, the settings that decide rankings, and the manifest."""
        return self._send(wire.snapshot())

    def _pages(self, page: Callable[[int, int], Any], limit: int | None) -> Iterator[Any]:
        paging = wire.Paging(limit)
        while (window := paging.window()) is not None:
            yield from paging.take(page(*window))


class AsyncClient(_Base):
    """As :class:`Client`, with its arguments and errors, for asyncio: methods are awaited, and ``iter_`` methods
    go with ``async for``. ``aclose`` it, or use it in an ``async with``.
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        timeout: float | httpx.Timeout = DEFAULT_TIMEOUT,
        retries: int = DEFAULT_RETRIES,
        backoff: float = DEFAULT_BACKOFF,
        headers: Mapping[str, str] | None = None,
        api_key: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(base_url, timeout, retries, backoff, headers, api_key)
        self._http = httpx.AsyncClient(
            auth=self._auth,
            timeout=timeout,
            headers=self._headers,
            transport=transport,
            trust_env=self._trust_env,
        )

    async def aclose(self) -> None:
        """Close the connections. A second call does nothing."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _send(self, call: wire.Call[T]) -> T:
        attempts = self._attempts(call)
        while True:
            self._check_open(self._http.is_closed)
            try:
                response = await self._http.request(**self._request(call))
            except httpx.RequestError as error:
                wait, why = attempts.after_error(error), type(error).__name__
            else:
                again = attempts.after_answer(response)
                if again is None:
                    return attempts.read(call, response)
                wait, why = again, str(response.status_code)
            log.warning("%s%s: %s; trying again in %.1f s", self.base_url, call.path, why, wait)
            await asyncio.sleep(wait)

    # -- search -----------------------------------------------------------------------------------------

    async def search(
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
        return await self.run(
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

    async def search_batch(
        self, requests: Sequence[SearchRequest | Mapping[str, Any]]
    ) -> list[SearchResponse]:
        """Many searches, answered in order; a request is a :class:`SearchRequest` or the arguments of one
        ``search``. A hundred go in one request."""
        asked = search_requests(requests)
        return [answer for call in wire.search_batch(asked) for answer in await self._send(call)]

    async def run(self, request: SearchRequest) -> SearchResponse:
        """Answer one :class:`SearchRequest`."""
        return await self._send(wire.search(request))

    def iter_search(self, q: str, *, limit: int | None = None, **arguments: Any) -> AsyncIterator[Hit]:
        """The results of a search, page after page, up to ``limit``, or to where paging ends: 10,000 results, in
        a hybrid search as many as ``fusion_depth``. Each paper comes once. The arguments are those of ``search``."""
        return self._pages(lambda size, offset: self.search(q, limit=size, offset=offset, **arguments), limit)

    # -- titles -----------------------------------------------------------------------------------------

    async def match_title(
        self,
        title: str,
        *,
        limit: int = 5,
        min_score: float = MIN_TITLE_SCORE,
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
    ) -> TitleMatchResponse:
        """The papers whose title is this one, then those with titles like it, best first; none is empty."""
        return await self._send(wire.match_title(title, limit, min_score, as_of, fields))

    async def match_titles(
        self,
        titles: Sequence[str],
        *,
        limit: int = 1,
        min_score: float = MIN_TITLE_SCORE,
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
    ) -> list[TitleMatchResponse]:
        """Many titles, answered in order. A thousand go in one request."""
        calls = wire.match_titles(titles, limit, min_score, as_of, fields)
        return [answer for call in calls for answer in await self._send(call)]

    # -- papers -----------------------------------------------------------------------------------------

    async def paper(
        self, paper_id: str, *, as_of: str | None = None, fields: Sequence[str] | None = None
    ) -> Paper:
        """The paper that an id of any form names."""
        return await self._send(wire.paper(paper_id, as_of, fields))

    async def papers(
        self, ids: Sequence[str], *, as_of: str | None = None, fields: Sequence[str] | None = None
    ) -> list[Paper | None]:
        """Many papers, in order, None in the place of one that the library does not hold, or not ``as_of`` then."""
        return [found for call in wire.papers(ids, as_of, fields) for found in await self._send(call)]

    # -- citations --------------------------------------------------------------------------------------

    async def citations(
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
        """The papers of the library that cite the paper, most cited first, or with ``as_of`` newest first."""
        filters = Filters(from_=from_, to=to, as_of=as_of)
        call = wire.edges(paper_id, "citations", limit, offset, sort, filters, fields)
        return await self._send(call)

    async def references(
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
        """The papers of the library that the paper cites, sorted as citations are."""
        filters = Filters(from_=from_, to=to, as_of=as_of)
        call = wire.edges(paper_id, "references", limit, offset, sort, filters, fields)
        return await self._send(call)

    def iter_citations(
        self, paper_id: str, *, limit: int | None = None, **arguments: Any
    ) -> AsyncIterator[Citation]:
        """All citations, page after page, up to ``limit``. The arguments are those of ``citations``."""
        return self._pages(
            lambda size, offset: self.citations(paper_id, limit=size, offset=offset, **arguments), limit
        )

    def iter_references(
        self, paper_id: str, *, limit: int | None = None, **arguments: Any
    ) -> AsyncIterator[Citation]:
        """All references, page after page, up to ``limit``. The arguments are those of ``references``."""
        return self._pages(
            lambda size, offset: self.references(paper_id, limit=size, offset=offset, **arguments), limit
        )

    async def expand(
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
        """The neighbours of a set of papers along citations, each once and no seed among them; those that
        most seeds reach come first."""
        filters = Filters.of(
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
        return await self._send(wire.expand(seeds, direction, hops, limit, offset, filters, fields))

    # -- tools and sessions -----------------------------------------------------------------------------

    async def tools(self, form: ToolForm = "openai") -> list[dict[str, Any]]:
        """The tools as function schemas, for a model: ``openai``, ``anthropic`` or ``mcp``."""
        return await self._send(wire.tools(form))

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        session: str | None = None,
        parent: int | None = None,
        round: int | None = None,
    ) -> dict[str, Any] | str:
        """Call a tool on the server; JSON, or a text where its ``format`` is ``text``.

        Args:
            session: what the call is recorded as; one that is new opens.
            parent: the number of the call that this one follows from; told from its arguments where not given.
            round: the agent's turn.
        """
        return await self._send(wire.call_tool(name, arguments, session, parent, round))

    async def open_session(
        self,
        session: str | None = None,
        *,
        query_id: str | None = None,
        query: str | None = None,
        as_of: str | None = None,
        limits: Mapping[str, int] | None = None,
    ) -> dict[str, Any]:
        """Open a session with a question, a cut-off date or limits; its name is made where none is given."""
        return await self._send(wire.open_session(session, query_id, query, as_of, limits))

    async def trajectory(self, session: str) -> list[dict[str, Any]]:
        """Every call of a session, as docs/trajectories.md describes them."""
        return await self._send(wire.trajectory(session))

    async def session_report(self, session: str, answers: Sequence[str] | None = None) -> dict[str, Any]:
        """What a session cost and, where the papers that answer its question are given, what it found."""
        return await self._send(wire.session_report(session, answers))

    async def record_answer(self, session: str, ids: Sequence[str]) -> int:
        """Record the agent's own answer, best first; the number of the call."""
        return await self._send(wire.record_answer(session, ids))

    async def delete_session(self, session: str) -> None:
        """Delete a session and its calls."""
        await self._send(wire.delete_session(session))

    # -- about ------------------------------------------------------------------------------------------

    async def snapshot(self) -> dict[str, Any]:
        """The snapshot id, the settings that decide rankings, and the manifest."""
        return await self._send(wire.snapshot())

    async def _pages(
        self, page: Callable[[int, int], Awaitable[Any]], limit: int | None
    ) -> AsyncIterator[Any]:
        paging = wire.Paging(limit)
        while (window := paging.window()) is not None:
            for item in paging.take(await page(*window)):
                yield item
