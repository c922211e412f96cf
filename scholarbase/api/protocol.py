"""The HTTP protocol: uvicorn's, with limits on the size, the time and the number of requests of a connection.

httptools parses pieces of any size, but joins the pieces of a header by copying: a long one takes quadratic time. So it
gets whole heads of limited size only. One request is parsed at a time; the bytes of the next wait until its
response is complete.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from typing import Any, Final

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from scholarbase.api.connections import Connections
from scholarbase.api.paths import HEALTH_PATHS
from scholarbase.api.problems import problem_of
from scholarbase.errors import (
    HeadTooLarge,
    InvalidRequest,
    RequestIncomplete,
    ScholarBaseError,
    TooManyConnections,
    UrlTooLong,
)

MAX_REQUEST_LINE: Final = 65_536
"""Bytes of method, URL and version. httptools parses URLs of up to 65,535 bytes. A query of 10,000 Latin, Greek or
Cyrillic letters fits, percent-encoded; a longer one needs POST."""
MAX_HEAD: Final = MAX_REQUEST_LINE + 32_768
"""Bytes of request line and headers. Also of chunk extensions and trailers, beyond a few for each chunk."""
MAX_HEADERS: Final = 100
HEAD_SECONDS: Final = 10.0
"""From the first byte of a request, or from the start of a connection, to the end of the head."""
KEEP_ALIVE_SECONDS: Final = 20.0
"""From a response to the next request. Clients such as httpx close their idle connections after 5 seconds."""
RATE_SECONDS: Final = 20.0
MIN_RATE: Final = 1024
"""Bytes per second that a client must send of a body, or read of a response, in each ``RATE_SECONDS``."""
MAX_DISCARDED: Final = 32 * 2**20
"""Bytes of a rejected request that are read and discarded, so that its client can send all of it and then read the
response."""
LINGER_SECONDS: Final = 5.0
"""How long the rest of a request is read after the server refused it."""
ON_STOP: Final = "scholarbase.on_stop"
"""The key of an application's lifespan state that holds a function to call when the server stops. Calls may repeat."""
MAX_PIPELINED: Final = 65_536
"""Bytes of further requests that a client may send before it gets the response. The rest waits in the socket."""
_MAX_PARTS: Final = 64
"""Parts of one packet of a chunked body that are parsed separately. After more empty lines, the connection is closed
instead if a request follows in the same packet."""
_METHOD: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}(?= )")
_UPGRADE: Final = re.compile(rb"\nupgrade(?=:)", re.IGNORECASE)
_UNLIMITED: Final = frozenset(path.encode() for path in (*HEALTH_PATHS, "/metrics"))


class HttpProtocol(HttpToolsProtocol):
    """A client's connection.

    Unknown methods reach the application, which responds with status 405; httptools alone rejects them.
    """

    def __init__(self, *arguments: Any, connections: Connections, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.address = ""
        self.held = 0
        self.since = self.loop.time()
        self._all = connections
        self._unparsed = bytearray()
        """The start of the next request, or pipelined requests."""
        self._searched = 0
        """The first bytes of ``_unparsed``, in which no head ends."""
        self._in_body = False
        self._has_ended = False
        """Whether the current request is complete."""
        self._is_chunked = False
        self._left = 0
        """Remaining bytes of a body of declared length."""
        self._received = 0
        """Bytes received of the body."""
        self._excess = 0
        """Bytes of chunk extensions and trailers."""
        self._tail = b""
        """The last three bytes of a chunked body."""
        self._discarded = 0
        self._is_refused = False
        self._mark: tuple[float, int] | None = None
        """The time when the progress of the client was last checked, and the bytes then sent or unread."""

    # -- the connection -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self._all.add(self, self.loop)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.remove(self)
        self._unparsed.clear()
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        self._mark = None
        super().resume_writing()

    def unread(self) -> int:
        return self.transport.get_write_buffer_size()

    def abort(self) -> None:
        if self.unread():
            # Otherwise the kernel would keep what the client does not read.
            linger = struct.pack("ii", 1, 0)
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.transport.abort()

    def check(self, now: float) -> None:
        waited = now - self.since
        if unread := self.unread():
            self._check_rate(now, -unread, "did not read its response")
        elif self._is_refused:
            if waited > LINGER_SECONDS:
                self.abort()
        elif self._in_body:
            if self.flow.read_paused:
                self._mark = None
            else:
                self._check_rate(now, self._received, "did not send its body")
        elif self._is_waiting():
            self._mark = None
        elif self._unparsed:
            if waited > HEAD_SECONDS:
                self._refuse(
                    RequestIncomplete(
                        f"The head of the request was not complete after {HEAD_SECONDS:g} seconds: send it at once."
                    )
                )
        elif waited > (HEAD_SECONDS if self.cycle is None else KEEP_ALIVE_SECONDS):
            self.transport.close()

    def _check_rate(self, now: float, done: int, fault: str) -> None:
        """Close the connection if its client did not read or send enough since the last mark."""
        if self._mark is None:
            self._mark = now, done
            return
        began, before = self._mark
        if now - began <= RATE_SECONDS:
            return
        if done - before >= MIN_RATE * RATE_SECONDS:
            self._mark = now, done
        elif self._in_body and self._is_waiting() and not self.unread():
            self._refuse(
                RequestIncomplete(
                    f"The client sent less than {MIN_RATE * RATE_SECONDS:,.0f} bytes of the body in "
                    f"{RATE_SECONDS:g} seconds: send the request again, faster."
                )
            )
        else:
            self._all.closed(f"the client {fault}")
            self.abort()

    def _is_waiting(self) -> bool:
        """Whether a complete request has no complete response yet."""
        return self.cycle is not None and not self.cycle.response_complete

    # -- receiving ----------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            self._discard(len(data))
            return
        if self._in_body:
            data = self._parse_body(data)
        if self._unparsed:
            self._unparsed += data
        else:
            # RFC 9112, section 2.2: empty lines before a request are ignored
            self._unparsed = bytearray(data.lstrip(b"\r\n"))
            if not self._unparsed:
                return
            if not self._is_waiting():
                self.since = self.loop.time()
        if self._is_waiting() and not self.cycle.keep_alive:
            self._unparsed.clear()
        else:
            self._parse()

    def _parse(self) -> None:
        """Parse one request after the other, until one is incomplete or waits for its response."""
        while self._unparsed and not self.transport.is_closing():
            if self._is_waiting():
                if len(self._unparsed) > MAX_PIPELINED:
                    self.flow.pause_reading()
                break
            head = self._next_head()
            if not head:
                break
            self._left = self._received = self._excess = 0
            self._is_chunked = self._has_ended = False
            self._tail = b""
            self._mark = None
            self._parse_head(head)
            if self._in_body:
                body, self._unparsed = bytes(self._unparsed), bytearray()
                self._unparsed += self._parse_body(body)
        if self._unparsed or self.held:
            self._all.hold(self, len(self._unparsed) + (self._received if self._in_body else 0))

    def _next_head(self) -> bytes:
        """Take the next head from the received bytes; nothing if it is incomplete or was refused."""
        received = self._unparsed
        if received[0] in b"\r\n":
            received = self._unparsed = received.lstrip(b"\r\n")
        end = received.find(b"\n\r\n", self._searched) + 3
        if end < 3:  # the parser rejects bare line feeds
            end = received.find(b"\n\n", self._searched) + 2
        is_complete = end >= 2
        size = end if is_complete else len(received)
        error: ScholarBaseError | None = None
        if received and received[0] <= 0x20:
            error = InvalidRequest("The request is not HTTP, or is encrypted: use http:// and not https://.")
        elif size > MAX_REQUEST_LINE and received.find(b"\n", 0, MAX_REQUEST_LINE) < 0:
            error = UrlTooLong(
                f"The request line has more than {MAX_REQUEST_LINE:,} bytes: send long parameters in the body of a "
                "POST request."
            )
        elif size > MAX_HEAD:
            error = HeadTooLarge(
                f"The head of the request has more than {MAX_HEAD:,} bytes: send less headers."
            )
        elif is_complete and received.count(b"\n", 0, end) > MAX_HEADERS + 2:
            error = HeadTooLarge(
                f"The request has more than {MAX_HEADERS} headers: send {MAX_HEADERS} at most."
            )
        if error is not None:
            self._refuse(error)
            return b""
        if not is_complete:
            self._searched = max(0, size - 2)
            return b""
        head = bytes(received[:end])
        del received[:end]
        self._searched = 0
        # No protocol is offered. The parser would take the body of such a request for another protocol.
        return _UPGRADE.sub(b"\nx-upgrade", head) if b"pgrade" in head or b"PGRADE" in head else head

    def _parse_head(self, head: bytes) -> None:
        try:
            self.parser.feed_data(head)
        except httptools.HttpParserInvalidMethodError:
            method = _METHOD.match(head)
            if method is None:
                self._refuse_malformed()
                return
            self.parser = httptools.HttpRequestParser(self)
            self._feed(b"POST" + head[method.end() :])
            if not self._is_refused:
                self.scope["method"] = method[0].decode()
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._refuse_malformed()

    def _parse_body(self, data: bytes) -> bytes:
        """Parse a part of a body. Returns what follows the body."""
        if self._is_chunked:
            data = self._parse_chunks(data)
        else:
            size = min(self._left, len(data))
            self._left -= size
            self._feed(data[:size])
            data = data[size:]
        if self._in_body or self.held:
            self._all.hold(self, self._received if self._in_body and self._is_waiting() else 0)
        return b"" if self._is_refused or not self.cycle.keep_alive else data

    def _parse_chunks(self, data: bytes) -> bytes:
        """Parse a part of a chunked body. Returns what follows the body.

        Only the parser knows where the body ends, and it does not tell. But an empty line is there, so the parser gets
        the bytes up to each empty line, and does not see the next request.
        """
        done, received = len(self._tail), self._tail + data
        for number in range(len(data)):
            end = received.find(b"\r\n\r\n", max(0, done - 3)) + 4 if number < _MAX_PARTS else 0
            end = end if end >= 4 else len(received)
            self._excess += end - done
            self._feed(received[done:end])
            self._excess = max(0, self._excess)
            done = end
            if not self._in_body or self._is_refused or done == len(received):
                break
        if self._excess > MAX_HEAD and self._in_body:
            self._refuse(
                HeadTooLarge(
                    f"The body has more than {MAX_HEAD:,} bytes of chunk extensions or trailers: omit them."
                )
            )
        self._tail = received[-3:]
        return received[done:]

    def _feed(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            if not self._has_ended:
                self._refuse_malformed()
            elif self.cycle.response_complete:  # see on_message_begin
                self.transport.close()
            else:
                self.cycle.keep_alive = False

    # -- callbacks of the parser --------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._has_ended:
            raise ValueError("A request follows a chunked body in the same part of a packet.")
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_body:
            return  # a trailer (RFC 9110, section 6.5)
        name = name.lower()
        self.headers.append((name, value))
        if name == b"content-length":
            self._left = int(value)
        elif name == b"transfer-encoding":
            self._is_chunked = True
        elif name == b"expect":
            self.expect_100_continue = value.lower() == b"100-continue"

    def on_headers_complete(self) -> None:
        app = self.app
        if self._all.is_refused(self) and self.url not in _UNLIMITED:
            self.app = _too_many_connections
        super().on_headers_complete()
        self.app = app
        self._in_body = True
        if self._left or self._is_chunked:
            self.cycle.transport = _ResponseTransport(self)  # type: ignore[assignment]

    def on_chunk_header(self) -> None:
        self._excess -= 16

    def on_body(self, body: bytes) -> None:
        self._received += len(body)
        self._excess -= 3 * len(body)
        if self.cycle.response_complete:
            self._discard(len(body))
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_body = False
        self._has_ended = True
        self._discarded = 0
        self._mark = None
        is_last = self._is_chunked and not self.parser.should_keep_alive()  # a trailer can say so
        if self.cycle.response_complete:
            self.since = self.loop.time()
            self._all.idle(self)
            if is_last or not self.cycle.keep_alive:
                self.transport.close()
        else:
            self._all.busy(self)
            self.cycle.more_body = False
            self.cycle.message_event.set()
            if is_last:
                self.cycle.keep_alive = False

    # -- responding ---------------------------------------------------------------------------------------

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if not self._in_body:
            self.since = self.loop.time()
            self._all.idle(self)
            if self._unparsed:
                self._parse()

    def close_after_body(self) -> None:
        """Close the connection. If its request has a complete response, the rest of its body is read before."""
        if self._in_body and self.cycle.response_complete:
            self._mark = None
            self.transport.write_eof()
        else:
            self.transport.close()

    def shutdown(self) -> None:
        """The server stops: close the connection, after the response if a request has none yet."""
        if (on_stop := self.app_state.get(ON_STOP)) is not None:
            on_stop()
        if self.cycle is None or self._is_waiting() or not self._in_body:
            super().shutdown()
        elif self.cycle.keep_alive:
            self.cycle.keep_alive = False
            self.close_after_body()

    def _refuse_malformed(self) -> None:
        self._refuse(InvalidRequest("The request is not valid HTTP/1.1 (RFC 9112): use an HTTP client."))

    def _refuse(self, error: ScholarBaseError) -> None:
        """Respond to a request that cannot be parsed, and close the connection.

        What the client still sends is read for a while. Otherwise the operating system would reset the connection, and
        the client might not get the response.
        """
        if self._is_refused or self.transport.is_closing():
            return
        self._is_refused = True
        self._unparsed.clear()
        self._all.hold(self, 0)
        self._all.closed(f"a request was refused with status {error.status}")
        self.since = self.loop.time()
        if self._in_body and self.cycle.response_complete and not self.cycle.keep_alive:
            return  # nothing can be sent any more
        if self._is_waiting():
            has_started = self.cycle.response_started
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            if has_started:
                self.abort()
                return
            self._all.idle(self)
        response = problem_of(error)
        headers = [*self.server_state.default_headers, *response.raw_headers, (b"connection", b"close")]
        lines = b"".join(b"%b: %b\r\n" % header for header in headers)
        self.transport.write(b"%b%b\r\n%b" % (STATUS_LINE[error.status], lines, bytes(response.body)))
        self.flow.resume_reading()
        self.transport.write_eof()

    def _discard(self, size: int) -> None:
        self._discarded += size
        if self._discarded > MAX_DISCARDED:
            self.abort()


class _ResponseTransport:
    """The transport for the response to a request with a body, which may be complete before the body.

    If the connection were closed then, the operating system would reset it, and the client might not get the response.
    """

    __slots__ = ("close", "is_closing", "write")

    def __init__(self, protocol: HttpProtocol) -> None:
        self.write = protocol.transport.write
        self.is_closing = protocol.transport.is_closing
        self.close = protocol.close_after_body


async def _too_many_connections(scope: Any, receive: Any, send: Any) -> None:
    error = TooManyConnections("The server has too many connections: try again later.")
    response = problem_of(error)
    response.headers["Connection"] = "close"
    response.headers["Retry-After"] = "1"
    await response(scope, receive, send)
