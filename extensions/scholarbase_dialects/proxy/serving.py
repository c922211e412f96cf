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
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import h11

from scholarbase.errors import InvalidRequest
from scholarbase_dialects.proxy.authority import Authority
from scholarbase_dialects.proxy.destinations import (
    HOSTS,
    PORTS,
    library_target,
    split_authority,
    split_target,
)

log = logging.getLogger("scholarbase_dialects.proxy")

MAX_CONNECTIONS: Final = 256
"""Clients at once. Others get 503."""
MAX_HEAD: Final = 2**16
"""Bytes of the head of a request or response."""
CHUNK: Final = 2**16
CONNECT_SECONDS: Final = 30.0
IDLE_SECONDS: Final = 120.0
"""How long a client may take for its next request."""
ANSWER_SECONDS: Final = 900.0
"""How long a server may take for each part of its response."""
LARGE_BODY: Final = 2**16
"""Bytes from which on a body is sent only after 100 Continue: the server rejects a body that is too large."""
MAX_DISCARDED: Final = 2**28
"""Bytes of a body that are read after the response, before the connection is closed."""
_BETWEEN_TWO: Final = frozenset(
    b"connection keep-alive proxy-connection proxy-authorization proxy-authenticate te trailer "
    b"transfer-encoding upgrade host expect".split()
)
"""Headers of one connection (RFC 9110, 7.6.1), and two that are written anew."""
_KEYS: Final = frozenset((b"authorization", b"x-api-key"))
"""Headers with keys of the original services, which no other server gets."""
_FAILURES: Final = (OSError, EOFError, TimeoutError, h11.ProtocolError)

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Backend:
    """The ScholarBase server that answers, and the headers that each of its requests gets."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Where:
    """Where a request is sent: an address, the path and query, and headers that replace those of the client."""

    scheme: str
    host: str
    port: int
    target: str
    headers: Headers
    is_library: bool


class _Refused(Exception):
    """The client gets a response with this status and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Side:
    """HTTP/1.1 with a client or a server."""

    def __init__(self, role: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.http = h11.Connection(role, max_incomplete_event_size=MAX_HEAD)

    async def event(self, seconds: float) -> Any:
        while (event := self.http.next_event()) is h11.NEED_DATA:
            if self.http.they_are_waiting_for_100_continue:
                await self.send(h11.InformationalResponse(status_code=100, headers=[]))
            self.http.receive_data(await asyncio.wait_for(self.reader.read(CHUNK), seconds))
        return event

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
        found = getproxies() if proxies is None else proxies
        self._proxies = {scheme: _checked_proxy(found[scheme]) for scheme in PORTS if found.get(scheme)}
        self._trusting = ssl.create_default_context(cadata=authority.roots)
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

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        side = _Side(h11.SERVER, reader, writer)
        is_full = len(self._connections) >= MAX_CONNECTIONS
        self._connections.add(task)
        try:
            if is_full:
                # Closing a connection with unread bytes would reset it, and the client could miss the response.
                with suppress(TimeoutError, h11.RemoteProtocolError):
                    await side.event(1.0)
                await side.refuse(503, f"{MAX_CONNECTIONS} connections are open: close some.")
            else:
                await self._requests(side, None)
        except* _FAILURES as failures:
            log.debug("A connection ended: %r", failures.exceptions)
        finally:
            self._connections.discard(task)
            await _close(side.writer)

    async def _requests(self, side: _Side, host: str | None) -> None:
        """Serve a client's requests until it, or a response, closes the connection.

        Args:
            host: the host of the tunnel that the client is in.
        """
        while True:
            try:
                request = await side.event(IDLE_SECONDS)
            except h11.RemoteProtocolError as error:
                await side.refuse(error.error_status_hint, f"The request is not valid HTTP: {error}.")
                return
            if not isinstance(request, h11.Request):
                return
            try:
                if request.method == b"CONNECT" and host is None:
                    await self._connect(side, request)
                    return
                await self._pass_on(side, request, self._where(request, host))
            except InvalidRequest as error:
                await side.refuse(400, str(error))
            except _Refused as error:
                await side.refuse(error.status, str(error))
            await _discard(side)
            if side.http.our_state is not h11.DONE or side.http.their_state is not h11.DONE:
                return
            side.http.start_next_cycle()

    def _where(self, request: h11.Request, tunnel: str | None) -> _Where:
        """Raises InvalidRequest: the target of the request is not valid."""
        target = request.target.decode("ascii", "backslashreplace")
        if tunnel is None:
            scheme, host, port, target = split_target(target)
        else:
            scheme, host, port = "https", tunnel, PORTS["https"]
            if not target.startswith("/"):
                _, _, _, target = split_target(target)
        found = library_target(scheme, host, port, target)
        if found is None:
            name = f"[{host}]" if ":" in host else host
            named = name if port == PORTS[scheme] else f"{name}:{port}"
            return _Where(scheme, host, port, target, [(b"Host", named.encode())], False)
        server = urlsplit(self._backend.url)
        port = server.port or PORTS[server.scheme]
        headers = [(name.encode(), value.encode()) for name, value in self._backend.headers.items()]
        headers.append((b"Host", server.netloc.rpartition("@")[2].encode()))
        target = server.path.rstrip("/") + found
        return _Where(server.scheme, server.hostname or "", port, target, headers, True)

    # -- tunnels ----------------------------------------------------------------------------------------

    async def _connect(self, side: _Side, request: h11.Request) -> None:
        host, port = split_authority(request.target.decode("ascii", "backslashreplace"))
        established = b"HTTP/1.1 200 Connection established\r\n\r\n"
        if host in HOSTS and port == PORTS["https"]:
            side.writer.write(established)
            await side.writer.drain()
            await side.writer.start_tls(self._authority.context(host), ssl_handshake_timeout=CONNECT_SECONDS)
            await self._requests(_Side(h11.SERVER, side.reader, side.writer), host)
            return
        reader, writer = await self._open("https", host, port)
        try:
            side.writer.write(established)
            writer.write(side.http.trailing_data[0])
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(side.reader, writer))
                group.create_task(_pump(reader, side.writer))
        finally:
            await _close(writer)

    async def _open(
        self, scheme: str, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to a host, through the user's proxy if there is one.

        Raises:
            _Refused: the host cannot be reached.
        """
        proxy = self._proxy_for(scheme, host)
        address = (host, port) if proxy is None else (proxy.hostname or "", proxy.port or 80)
        try:
            opening = asyncio.open_connection(*address, limit=CHUNK)
            reader, writer = await asyncio.wait_for(opening, CONNECT_SECONDS)
        except (OSError, TimeoutError, UnicodeError) as error:
            at = f"{address[0]} port {address[1]}"
            raise _Refused(502, f"Cannot reach {at}: {error or type(error).__name__}.") from error
        if proxy is None or scheme == "http":
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

    async def _pass_on(self, side: _Side, request: h11.Request, where: _Where) -> None:
        """Send a request to its destination, and the response to the client."""
        proxy = None if where.is_library else self._proxy_for(where.scheme, where.host)
        dropped = _KEYS | {name.lower() for name, _ in where.headers} if where.is_library else frozenset()
        headers = where.headers + _kept(request.headers.raw_items(), dropped) + [(b"Connection", b"close")]
        sent = dict(request.headers)
        if b"transfer-encoding" in sent:
            headers.append((b"Transfer-Encoding", b"chunked"))
        wanted = asyncio.Event()
        if where.is_library and int(sent.get(b"content-length", 0)) > LARGE_BODY:
            headers.append((b"Expect", b"100-continue"))
        else:
            wanted.set()
        target = where.target
        if proxy is not None and where.scheme == "http":
            target = f"http://{where.headers[0][1].decode()}{target}"
            headers += [
                (b"Proxy-Authorization", one.partition(": ")[2].encode()) for one in _credentials(proxy)
            ]
        if where.is_library:
            reader, writer = await _direct(where)
        else:
            reader, writer = await self._open(where.scheme, where.host, where.port)
        other = _Side(h11.CLIENT, reader, writer)
        try:
            if where.scheme == "https":
                try:
                    await writer.start_tls(self._trusting, server_hostname=where.host)
                except (OSError, EOFError) as error:
                    raise _Refused(502, f"No TLS connection to {where.host}: {error}.") from error
            await other.send(h11.Request(method=request.method, target=target, headers=headers))
            async with asyncio.TaskGroup() as group:
                upload = group.create_task(_upload(side, other, wanted))
                try:
                    await _download(other, side, wanted)
                except _FAILURES as error:
                    await side.refuse(502, f"{where.host} sent no valid response: {error!r}.")
                upload.cancel()
        finally:
            await _close(writer)


async def _direct(where: _Where) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the ScholarBase server, which no proxy is between."""
    try:
        return await asyncio.wait_for(asyncio.open_connection(where.host, where.port), CONNECT_SECONDS)
    except (OSError, TimeoutError) as error:
        at = f"{where.host}:{where.port}"
        raise _Refused(502, f"The ScholarBase server at {at} cannot be reached: {error}.") from error


async def _upload(side: _Side, other: _Side, wanted: asyncio.Event) -> None:
    """The body of a request. A server may respond, and close, before it has read all."""
    await wanted.wait()
    while isinstance(event := await side.event(IDLE_SECONDS), h11.Data | h11.EndOfMessage):
        try:
            await other.send(h11.Data(data=event.data) if isinstance(event, h11.Data) else h11.EndOfMessage())
        except OSError:
            return
        if isinstance(event, h11.EndOfMessage):
            return


async def _discard(side: _Side) -> None:
    """Read the rest of a request's body: many clients read a response only when they have sent all."""
    size = 0
    while side.http.their_state is h11.SEND_BODY and size < MAX_DISCARDED:
        event = await side.event(IDLE_SECONDS)
        size += len(event.data) if isinstance(event, h11.Data) else 0


async def _download(other: _Side, side: _Side, wanted: asyncio.Event) -> None:
    """The response to a request. ``wanted`` is set when the server asks for the body."""
    while True:
        event = await other.event(ANSWER_SECONDS)
        if isinstance(event, h11.InformationalResponse) and event.status_code == 100:
            wanted.set()
        if isinstance(event, h11.Response):
            headers = _kept(event.headers.raw_items())
            await side.send(h11.Response(status_code=event.status_code, headers=headers, reason=event.reason))
        elif isinstance(event, h11.Data):
            await side.send(h11.Data(data=event.data))
        elif isinstance(event, h11.EndOfMessage):
            await side.send(h11.EndOfMessage())
            return
        elif isinstance(event, h11.ConnectionClosed):
            raise EOFError("the connection was closed")


def _kept(headers: Headers, dropped: Iterable[bytes] = ()) -> Headers:
    """The headers that are passed on, with their names as they were written."""
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
