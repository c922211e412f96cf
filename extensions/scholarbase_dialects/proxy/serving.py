"""The proxy: connections, tunnels, and requests that are passed on.

A client sends ``CONNECT host:port``, or a request with a whole URL (RFC 9110, 9.3.6; RFC 9112, 3.2.2). Tunnels to the
hosts of :mod:`~scholarbase_dialects.proxy.destinations` end here, with a certificate of the proxy's authority; others
are passed on byte by byte.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import h11
import httpx

from scholarbase.errors import InvalidRequest
from scholarbase_dialects.proxy.authority import Authority
from scholarbase_dialects.proxy.destinations import (
    HOSTS,
    PORTS,
    library_target,
    may_be_elsewhere,
    split_authority,
    split_target,
)

log = logging.getLogger("scholarbase_dialects.proxy")

MAX_CONNECTIONS: Final = 256
"""Clients at once. Others get 503."""
MAX_HEAD: Final = 2**16
"""Bytes of the head of a request."""
CHUNK: Final = 2**16
CONNECT_SECONDS: Final = 30.0
IDLE_SECONDS: Final = 120.0
"""How long a client may take for its next request."""
ANSWER_SECONDS: Final = 900.0
"""How long a server may take for each part of its response."""
MAX_DISCARDED: Final = 2**28
"""Bytes of a body that are read after the response, before the connection is closed."""
_BETWEEN_TWO: Final = frozenset(
    b"connection keep-alive proxy-connection proxy-authorization proxy-authenticate te trailer "
    b"transfer-encoding upgrade host expect".split()
)
"""Headers of one connection (RFC 9110, 7.6.1), and two that are written anew."""
_KEYS: Final = frozenset((b"authorization", b"x-api-key"))
"""Headers with keys of the original services, which no other server gets."""
_FAILURES: Final = (OSError, EOFError, TimeoutError, h11.ProtocolError, httpx.HTTPError)
_TIMEOUT: Final = httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS).as_dict()

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Backend:
    """The ScholarBase server that answers, and the headers that each of its requests gets."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)


class _Refused(Exception):
    """The client gets a response with this status and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Client:
    """HTTP/1.1 with a client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)

    async def event(self, seconds: float) -> Any:
        while (event := self.http.next_event()) is h11.NEED_DATA:
            if self.http.they_are_waiting_for_100_continue:
                await self.send(h11.InformationalResponse(status_code=100, headers=[]))
            self.http.receive_data(await asyncio.wait_for(self.reader.read(CHUNK), seconds))
        return event

    async def body(self) -> AsyncIterator[bytes]:
        """The rest of the body of a request."""
        while self.http.their_state is h11.SEND_BODY:
            if isinstance(event := await self.event(IDLE_SECONDS), h11.Data):
                yield bytes(event.data)

    async def send(self, event: Any) -> None:
        self.writer.write(self.http.send(event) or b"")
        await self.writer.drain()

    async def refuse(self, status: int, message: str) -> None:
        """End the exchange with an error, if no response has begun."""
        if self.http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        text = f"scholarbase proxy: {message}\n".encode("utf-8", "replace")
        headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(text)))]
        await self.send(h11.Response(status_code=status, headers=[*headers, ("Connection", "close")]))
        await self.send(h11.Data(data=text))
        await self.send(h11.EndOfMessage())


class Proxy:
    """A proxy that listens on the loopback interface.

    Args:
        authority: makes the certificates of the hosts.
        backend: answers for them.
        proxies: the user's own proxies by scheme, for all other hosts; by default those of the environment.

    Raises:
        InvalidRequest: a proxy has no valid URL.
    """

    def __init__(
        self, authority: Authority, backend: Backend, proxies: Mapping[str, str] | None = None
    ) -> None:
        self._authority = authority
        self._backend = backend
        urls = getproxies() if proxies is None else proxies
        self._proxies = {scheme: _checked_proxy(urls[scheme]) for scheme in PORTS if urls.get(scheme)}
        trusting = ssl.create_default_context(cadata=authority.roots)
        transport = partial(httpx.AsyncHTTPTransport, verify=trusting, trust_env=False, limits=httpx.Limits())
        self._direct = transport()
        self._proxied = {scheme: transport(proxy=proxy.geturl()) for scheme, proxy in self._proxies.items()}
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.url = ""

    async def start(self, port: int) -> None:
        """Listen on a port of 127.0.0.1; 0 is a free one.

        Raises:
            OSError: the port is in use.
        """
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port, limit=CHUNK)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        """Stop listening, and close all connections."""
        assert self._server is not None
        self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        for transport in (self._direct, *self._proxied.values()):
            await transport.aclose()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        client = _Client(reader, writer)
        is_full = len(self._connections) >= MAX_CONNECTIONS
        self._connections.add(task)
        try:
            if is_full:
                # Closing a connection with unread bytes would reset it, and the client could miss the response.
                with suppress(TimeoutError, h11.RemoteProtocolError):
                    await client.event(1.0)
                await client.refuse(503, f"{MAX_CONNECTIONS} connections are open: close some.")
            else:
                await self._requests(client, None)
        except* _FAILURES as failures:
            log.debug("A connection ended: %r", failures.exceptions)
        finally:
            self._connections.discard(task)
            await _close(client.writer)

    async def _requests(self, client: _Client, host: str | None) -> None:
        """Serve a client's requests until it, or a response, closes the connection.

        Args:
            host: the host of the tunnel that the client is in.
        """
        while True:
            try:
                request = await client.event(IDLE_SECONDS)
            except h11.RemoteProtocolError as error:
                await client.refuse(error.error_status_hint, f"The request is not valid HTTP: {error}.")
                return
            if not isinstance(request, h11.Request):
                return
            try:
                if request.method == b"CONNECT" and host is None:
                    await self._connect(client, request)
                    return
                await self._pass_on(client, request, host)
            except InvalidRequest as error:
                await client.refuse(400, str(error))
            except _Refused as error:
                await client.refuse(error.status, str(error))
            size = 0
            async for data in client.body():  # many clients read a response only when they have sent all
                size += len(data)
                if size > MAX_DISCARDED:
                    return
            if client.http.our_state is not h11.DONE or client.http.their_state is not h11.DONE:
                return
            client.http.start_next_cycle()

    # -- tunnels ----------------------------------------------------------------------------------------

    async def _connect(self, client: _Client, request: h11.Request) -> None:
        host, port = split_authority(request.target.decode("ascii", "backslashreplace"))
        established = b"HTTP/1.1 200 Connection established\r\n\r\n"
        if host in HOSTS and port == PORTS["https"]:
            client.writer.write(established)
            await client.writer.drain()
            await client.writer.start_tls(
                self._authority.context(host), ssl_handshake_timeout=CONNECT_SECONDS
            )
            await self._requests(_Client(client.reader, client.writer), host)
            return
        reader, writer = await self._open(host, port)
        try:
            client.writer.write(established)
            writer.write(client.http.trailing_data[0])
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(client.reader, writer))
                group.create_task(_pump(reader, client.writer))
        finally:
            await _close(writer)

    async def _open(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to a host, through the user's proxy if there is one.

        Raises:
            _Refused: the host cannot be reached.
        """
        proxy = self._proxy_for("https", host)
        address = (host, port) if proxy is None else (proxy.hostname or "", proxy.port or 80)
        try:
            opening = asyncio.open_connection(*address, limit=CHUNK)
            reader, writer = await asyncio.wait_for(opening, CONNECT_SECONDS)
        except (OSError, TimeoutError, UnicodeError) as error:
            at = f"{address[0]} port {address[1]}"
            raise _Refused(502, f"Cannot reach {at}: {error or type(error).__name__}.") from error
        if proxy is None:
            return reader, writer
        try:
            named = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            head = [f"CONNECT {named} HTTP/1.1", f"Host: {named}", *_credentials(proxy)]
            writer.write("".join(f"{line}\r\n" for line in [*head, ""]).encode())
            answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), CONNECT_SECONDS)
            status = answer.split(b"\r\n", 1)[0].decode("ascii", "replace")
            if status.split(" ")[1:2] != ["200"]:
                raise _Refused(502, f"The proxy {address[0]} does not connect to {named}: {status}.")
        except BaseException as error:
            await _close(writer)
            if isinstance(error, (*_FAILURES, asyncio.LimitOverrunError)):
                raise _Refused(502, f"The proxy {address[0]} does not answer: {error!r}.") from error
            raise
        return reader, writer

    def _proxy_for(self, scheme: str, host: str) -> SplitResult | None:
        proxy = self._proxies.get(scheme)
        if proxy is None or proxy_bypass(host):
            return None
        # In a shell with the variables of this proxy, they name itself.
        return None if f"http://{proxy.netloc}" == self.url else proxy

    # -- requests ---------------------------------------------------------------------------------------

    async def _pass_on(self, client: _Client, request: h11.Request, tunnel: str | None) -> None:
        """Send a request to its destination, and the response to the client.

        Raises:
            InvalidRequest: the target of the request is not valid.
            _Refused: the destination cannot be reached, or sends no response.
        """
        destinations = self._destinations(request, tunnel)
        for url, is_library in destinations:
            response = await self._sent(client, request, url, is_library)
            if response.status_code != 404 or (url, is_library) == destinations[-1]:
                break
            await response.aclose()
        try:
            status, reason = response.status_code, response.extensions.get("reason_phrase", b"")
            kept = _kept(response.headers.raw)
            await client.send(h11.Response(status_code=status, headers=kept, reason=reason))
            async for data in response.aiter_raw():
                await client.send(h11.Data(data=data))
            await client.send(h11.EndOfMessage())
        finally:
            await response.aclose()

    async def _sent(
        self, client: _Client, request: h11.Request, url: httpx.URL, is_library: bool
    ) -> httpx.Response:
        headers: Headers = []
        if is_library:
            headers = [(name.encode(), value.encode()) for name, value in self._backend.headers.items()]
        dropped = _KEYS | {name.lower() for name, _ in headers} if is_library else frozenset()
        headers += _kept(request.headers.raw_items(), dropped)
        has_body = any(name in (b"content-length", b"transfer-encoding") for name, _ in request.headers)
        outgoing = httpx.Request(
            request.method.decode(),
            url,
            headers=headers,
            content=client.body() if has_body else None,
            extensions={"timeout": _TIMEOUT},
        )
        is_direct = is_library or self._proxy_for(url.scheme, url.host) is None
        transport = self._direct if is_direct else self._proxied[url.scheme]
        try:
            return await transport.handle_async_request(outgoing)
        except httpx.TransportError as error:
            server = f"The ScholarBase server at {url.host}:{url.port}" if is_library else url.host
            raise _Refused(502, f"{server} cannot be reached: {error or repr(error)}.") from error

    def _destinations(self, request: h11.Request, tunnel: str | None) -> list[tuple[httpx.URL, bool]]:
        """Where a request is sent, and whether that is the library: to the second if the first answers 404.

        Raises:
            InvalidRequest: the target is not valid.
        """
        target = request.target.decode("ascii", "backslashreplace")
        if tunnel is None or not target.startswith("/"):
            scheme, host, port, target = split_target(target)
        if tunnel is not None:
            scheme, host, port = "https", tunnel, PORTS["https"]
        library_path = library_target(scheme, host, port, target)
        itself = (httpx.URL(scheme=scheme, host=host, port=port, raw_path=target.encode()), False)
        if library_path is None:
            return [itself]
        library = (httpx.URL(self._backend.url.rstrip("/") + library_path), True)
        return (
            [library, itself]
            if request.method in (b"GET", b"HEAD") and may_be_elsewhere(library_path)
            else [library]
        )


def _kept(headers: Iterable[tuple[bytes, bytes]], dropped: Iterable[bytes] = ()) -> Headers:
    """The headers that are passed on, with their names as they were written."""
    headers = list(headers)
    named = {
        part.strip().lower()
        for name, value in headers
        if name.lower() == b"connection"
        for part in value.split(b",")
    }
    without = _BETWEEN_TWO | named | set(dropped)
    return [(name, value) for name, value in headers if name.lower() not in without]


def _checked_proxy(url: str) -> SplitResult:
    proxy = urlsplit(url if "://" in url else f"http://{url}")
    shown = f"{proxy.scheme}://{proxy.netloc.rpartition('@')[2]}"
    try:
        is_valid = proxy.scheme == "http" and bool(proxy.hostname) and proxy.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise InvalidRequest(f"The environment names the proxy {shown}: only http://host:port can be used.")
    return proxy


def _credentials(proxy: SplitResult) -> Sequence[str]:
    if proxy.username is None:
        return []
    text = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return [f"Proxy-Authorization: Basic {base64.b64encode(text.encode()).decode()}"]


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(*_FAILURES, asyncio.CancelledError):
        await asyncio.wait_for(writer.wait_closed(), 1)
        return
    writer.transport.abort()  # asyncio waits 30 seconds for the end of TLS
