"""The load generator against a real server: its figures and its errors."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import numpy as np
import pytest

from benchmarks.load import Load, LoadError, get, load

HEAD = "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nContent-Length: {length}\r\n\r\n"


def whole(body: bytes, status: str = "200 OK") -> bytes:
    return HEAD.format(status=status, length=len(body)).encode() + body


class _Server(socketserver.ThreadingTCPServer):
    """Sends the bytes of ``respond(target)``; None closes the connection."""

    respond: Callable[[str], bytes | None]

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Requests)
        self.targets: list[str] = []
        self.headers: list[bytes] = []


class _Requests(socketserver.StreamRequestHandler):
    server: _Server
    disable_nagle_algorithm = True

    def handle(self) -> None:
        while line := self.rfile.readline():
            target = line.split()[1].decode()
            while (header := self.rfile.readline()) != b"\r\n":
                self.server.headers.append(header)
            self.server.targets.append(target)
            content = self.server.respond(target)
            if content is None:
                return
            self.wfile.write(content)

    def finish(self) -> None:
        with suppress(OSError):
            super().finish()


@contextmanager
def responding(
    respond: Callable[[str], bytes | None], headers: list[bytes] | None = None
) -> Iterator[tuple[str, list[str]]]:
    """A server: its URL and the requested targets. Header lines are appended to ``headers``."""
    with _Server() as server:
        server.headers = [] if headers is None else headers
        server.respond = respond  # type: ignore[method-assign]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", server.targets
        finally:
            server.shutdown()
            thread.join()


def test_each_request_is_sent_and_counted_in_turn() -> None:
    with responding(lambda target: whole(b"x" * (10 + int(target[1:])))) as (url, targets):
        found = load(url, [get(f"/{n}") for n in range(7)], clients=3, count=20)
    sent = Counter(f"/{n % 7}" for n in range(20))
    sent["/0"] += 3  # by which each connection was opened
    assert Counter(targets) == sent
    assert Counter(found.requested) == Counter(n % 7 for n in range(20))
    assert np.array_equal(found.sizes, 10 + found.requested)
    assert len(found.latencies) == 20
    assert found.seconds >= found.latencies.max() > 0
    assert found.throughput == pytest.approx(20 / found.seconds)


def test_each_client_sends_its_own_header() -> None:
    headers: list[bytes] = []
    with responding(lambda _: whole(b"ok"), headers=headers) as (url, targets):
        load(url, [get("/")], clients=2, count=8, headers=[b"X-Of: one", b"X-Of: other"])
    assert len(targets) == 10
    assert Counter(headers).keys() == {b"Host: localhost\r\n", b"X-Of: one\r\n", b"X-Of: other\r\n"}
    assert Counter(headers)[b"Host: localhost\r\n"] == 10
    with pytest.raises(ValueError, match="1 headers for 2 clients"):
        load(url, [get("/")], clients=2, headers=[b"X-Of: one"])


def test_a_refused_request_is_sent_again_when_asked_to() -> None:
    refused = whole(b"later", "429 Too Many Requests").replace(b"\r\n\r\n", b"\r\nRetry-After: 0\r\n\r\n", 1)
    responses = iter([whole(b"open"), refused, refused, whole(b"done")])
    with responding(lambda _: next(responses)) as (url, targets):
        sent = load(url, [get("/")], clients=1, retrying=True)
    assert len(targets) == 4
    assert (len(sent.latencies), sent.retries, list(sent.sizes)) == (1, 2, [4])
    with responding(lambda _: refused) as (url, _), pytest.raises(LoadError, match="429 Too Many Requests"):
        load(url, [get("/")], clients=1)


def test_a_server_that_is_not_there_fails_the_load() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(LoadError, match=f"port {port}"):
        load(f"http://127.0.0.1:{port}", [get("/")], clients=1)


def test_percentiles_and_timeline_are_milliseconds_by_minute() -> None:
    latencies = np.array([0.001] * 98 + [0.101] * 2)
    ended = np.concatenate([np.linspace(1, 59, 50), np.linspace(61, 119, 50)])
    nothing = np.zeros(100, dtype=np.int64)
    found = Load(120.0, latencies, ended, nothing, nothing, 0.0)
    assert found.percentiles()["p50"] == pytest.approx(1)
    assert found.percentiles()["max"] == pytest.approx(101)
    first, second = found.timeline()
    assert first == pytest.approx({"minute": 0, "p50": 1, "p99": 1, "rps": 50 / 60})
    assert second == pytest.approx({"minute": 1, "p50": 1, "p99": 101, "rps": 50 / 60})


def test_parameters_are_encoded_and_fields_keep_their_comma() -> None:
    request = get("/v1/search", q="graphs & trees", fields="id,title", from_=2019)
    assert (
        request.split(b"\r\n")[0] == b"GET /v1/search?q=graphs+%26+trees&fields=id,title&from=2019 HTTP/1.1"
    )
