"""A real HTTP server in a thread, whose answers a test writes, with the faults of real ones."""

from __future__ import annotations

import hashlib
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from scholarbase_download.requests import Patience
from tests.forks import Fork, fork

QUICK = Patience(retries=4, backoff=0.001, timeout=60.0)
"""Tests wait for nothing but a server's ``Retry-After``."""
PIECE = 512
"""Bytes that the server sends at once, so that it can stop within a body."""


@dataclass
class Reply:
    """A response. ``ranges``: whether the server answers requests for parts of it."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    ranges: bool = False
    length: int | None = None
    """The length that the server claims; None: the true one; -1: none, the body ends with the connection."""


@dataclass
class Request:
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    time: float


class Web:
    """A server.

    Attributes:
        answer: called with each request, in the order of their arrival.
        requests: all requests.
        connections: how many were opened.
        sent: bytes of bodies sent, in all.
        stops: numbers of sent bytes at which ``stop`` is called, ascending.
        stop: returns whether the connection is cut off.
    """

    def __init__(self, answer: Callable[[Request], Reply]) -> None:
        self.answer = answer
        self.requests: list[Request] = []
        self.sent = 0
        self.connections = 0
        self.stops: list[int] = []
        self.stop: Callable[[], bool] = lambda: True
        self._lock = threading.Lock()
        web = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                web.connections += 1
                super().setup()

            def do_GET(self) -> None:
                web._serve(self)

            def log_message(self, *_: object) -> None:
                """Logs nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                """A client that was killed is no error."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @contextmanager
    def running(self) -> Iterator[Web]:
        self._thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join(60)

    def paths(self) -> list[str]:
        return [request.path for request in self.requests]

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        headers = {name.lower(): value for name, value in handler.headers.items()}
        with self._lock:
            request = Request(parts.path, query, headers, time.monotonic())
            self.requests.append(request)
            reply = self.answer(request)
        body, status, extra = reply.body, reply.status, dict(reply.headers)
        wanted = headers.get("range", "")
        same = headers.get("if-range") in {None, extra.get("ETag"), extra.get("Last-Modified")}
        if reply.ranges and wanted and same and status == 200:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            begin, total = int(first), len(body) if reply.length is None else reply.length
            if begin >= total:
                status, body, extra["Content-Range"] = 416, b"", f"bytes */{total}"
            else:
                body = body[begin : int(last) + 1 if last else None]
                end = begin + len(body) - 1
                status, extra["Content-Range"] = 206, f"bytes {begin}-{end}/{total}"
        elif reply.length is not None:
            extra["Content-Length"] = str(reply.length)
        if reply.length == -1:
            extra = {**reply.headers, "Connection": "close"}
        else:
            extra = {"Content-Length": str(len(body))} | extra
        handler.send_response(status)
        for name, value in extra.items():
            handler.send_header(name, value)
        handler.end_headers()
        self._send(handler, body)

    def _send(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        at = 0
        while at < len(body):
            size = min(PIECE, len(body) - at)
            if self.stops and self.sent + size > self.stops[0]:
                size = max(self.stops[0] - self.sent, 0)
            # Counted first: the client may have read everything, and its test go on, before ``write`` returns.
            self.sent += size
            handler.wfile.write(body[at : at + size])
            at += size
            if self.stops and self.sent >= self.stops[0]:
                del self.stops[0]
                handler.wfile.flush()
                if self.stop():
                    handler.close_connection = True
                    handler.connection.shutdown(socket.SHUT_RDWR)
                    return


class PackedLibrary:
    """A server with a packed library and its hash beside it, and how it sends them.

    ``requests`` has the ranges of the requests for the library.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.headers: dict[str, str] = {"ETag": '"one"'}
        self.hash: bytes | None = f"{hashlib.sha256(data).hexdigest()}  papers.tar.zst\n".encode()
        self.cuts: list[int] = []  # bytes after which the next connections are closed
        self.ranges = True
        self.length: int | None = None
        self.refusals: list[int] = []
        self.replacement: bytes | None = None  # sent from the second request on
        self.wrong_range = False
        self.requests: list[str | None] = []
        self.web = Web(self._answer)
        self.url = f"{self.web.url}/papers.tar.zst"

    def _answer(self, request: Request) -> Reply:
        if request.path == "/elsewhere":
            return Reply(status=302, headers={"Location": "/papers.tar.zst"})
        if request.path.endswith(".sha256"):
            return Reply(status=404) if self.hash is None else Reply(self.hash)
        self.requests.append(request.headers.get("range"))
        if self.refusals:
            return Reply(b"no", self.refusals.pop(0))
        if len(self.requests) > 1 and self.replacement is not None:
            self.data, self.headers, self.replacement = self.replacement, {"ETag": '"two"'}, None
        if self.cuts:
            self.web.stops = [self.web.sent + self.cuts.pop(0)]
        if self.wrong_range and len(self.requests) > 1:
            last = len(self.data) - 1
            return Reply(self.data[1:], 206, {"Content-Range": f"bytes 1-{last}/{last + 1}"})
        return Reply(self.data, headers=self.headers, ranges=self.ranges, length=self.length)


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder that are not hidden, by their paths."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


def run_killed(web: Web, script: str, module: str, points: list[int]) -> int:
    """Run a script, which uses a module, again and again; kill it each time the server has sent so many more bytes.

    Returns the number of kills. The last run ends by itself.
    """
    for kills, point in enumerate([*points, None]):
        started: Future[Fork] = Future()

        def kill(started: Future[Fork] = started) -> bool:
            process = started.result(60)
            process.kill()
            process.wait(60)
            return True

        web.stop = kill
        web.stops = [] if point is None else [web.sent + point]
        process = fork(script, imports=[module])
        started.set_result(process)
        _, said = process.communicate()
        if process.returncode == 0:
            web.stops = []
            return kills
        assert process.returncode == -signal.SIGKILL, said
    raise AssertionError("the last run was killed")
