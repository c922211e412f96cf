"""Clients that send or read too much, too slowly or never. Each test is named after what went wrong."""

from __future__ import annotations

import asyncio
import gc
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from scholarbase.api import connections, protocol
from scholarbase.settings import load_settings
from tests.api.raw import connected, exchange, problem, read_all, send, statuses
from tests.api.test_attacks import workers_of
from tests.conftest import serving
from tests.encoders.servers import running
from tests.sessions.agents import wait_until

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
POST = b"POST /body HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


class App:
    """Routes that return a body, wait, and send much."""

    def __init__(self) -> None:
        self.waiting = 0
        self.go_on = asyncio.Event()
        self.app = Starlette(
            routes=[
                Route("/healthz", self.health),
                Route("/body", self.body, methods=["POST"]),
                Route("/wait", self.wait),
                Route("/much", self.much),
            ]
        )
        self.url = ""

    async def health(self, request: Request) -> Response:
        return PlainTextResponse("ok")

    async def body(self, request: Request) -> Response:
        return PlainTextResponse(b"got " + await request.body())

    async def wait(self, request: Request) -> Response:
        self.waiting += 1
        await self.go_on.wait()
        return PlainTextResponse("waited")

    async def much(self, request: Request) -> Response:
        return PlainTextResponse(b" " * 2**25)


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    """A server with few connections and short times."""
    monkeypatch.setattr(connections, "SWEEP_SECONDS", 0.05)
    made = App()
    with running(made.app, settings=load_settings(max_connections=10, max_body_bytes=1024)) as url:
        made.url = url.removesuffix("/v1")
        yield made


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch, app: App) -> App:
    for name in ("HEAD_SECONDS", "KEEP_ALIVE_SECONDS", "RATE_SECONDS"):
        monkeypatch.setattr(protocol, name, 0.5)
    return app


# -- size -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [b"GET", b"BREW"])
@pytest.mark.parametrize("before", [b"", GET, b"\r\n" * 1000])
@pytest.mark.parametrize("line", [b"X-A: ", b""], ids=["one header", "many headers"])
def test_a_long_header_took_a_minute(app: App, method: bytes, before: bytes, line: bytes) -> None:
    pieces = [b"X" * 1022 + (b"" if line else b":\r")] * 300
    received = exchange(
        app.url, before + method + b" /healthz HTTP/1.1\r\nHost: localhost\r\n" + line, *pieces
    )
    if before == GET:
        assert received.startswith(b"HTTP/1.1 200 ")
        received = received[received.index(b"HTTP/1.1 431") :]
    assert "more than 98,304 bytes" in problem(received)["detail"]


def test_a_long_url_was_parsed_in_quadratic_time(app: App) -> None:
    for size, status in ((65_536, 200), (65_537, 414)):
        line = b"GET /healthz?" + b"a" * (size - 24) + b" HTTP/1.1\r\n"
        assert len(line) == size
        received = exchange(app.url, line, b"Host: localhost\r\nConnection: close\r\n\r\n")
        assert statuses(received) == [status]
    assert problem(received)["type"].endswith("#url-too-long")
    assert problem(exchange(app.url, *[b"GET /" + b"a" * 4096] + [b"a" * 4096] * 16))["status"] == 414


def test_a_query_of_the_maximum_length_fits_into_a_url(server: str) -> None:
    words = ("теория струн " * 1000)[:9_999]
    response = httpx.get(f"{server}/v1/search", params={"q": words})
    assert "has 10,000" not in response.text
    assert response.status_code in (200, 400)


def test_thousands_of_headers_were_accepted(app: App) -> None:
    for number, status in ((98, 200), (99, 431)):
        received = exchange(app.url, LAST[:-2] + b"a: b\r\n" * number + b"\r\n")
        assert statuses(received) == [status]
    assert "more than 100 headers" in problem(received)["detail"]


@pytest.mark.parametrize("start", [b"1;a=", b"1\r\n{\r\n0\r\nX-A: ", b"1\r\n{\r\n0\r\n"])
def test_trailers_and_chunk_extensions_had_no_limit(app: App, start: bytes) -> None:
    received = exchange(app.url, CHUNKED + start, *[b"a: b\r\n" * 1000] * 60)
    if start != b"1;a=":
        assert "chunk extensions or trailers" in problem(received)["detail"]
    else:  # a line break in an extension
        assert problem(received)["status"] == 400
    received = exchange(app.url, CHUNKED + start, *[b"a" * 6000] * 60)
    assert problem(received)["status"] in (400, 431)


def test_trailers_are_not_headers(app: App) -> None:
    body = b"4;a=b\r\nwell\r\n0\r\nConnection: close\r\nX-A: b\r\n\r\n"
    assert statuses(exchange(app.url, CHUNKED + body + LAST)) == [200]


def test_the_rest_of_a_rejected_body_was_read_without_limit(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "MAX_DISCARDED", 2**20)
    with connected(app.url) as connection:
        connection.sendall(
            b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000000000\r\n\r\n"
        )
        with pytest.raises(ConnectionError):
            connection.sendall(b" " * 2**30)


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_client_that_closes_its_connection_got_a_reset_instead_of_the_error(
    app: App, version: bytes, chunked: bool
) -> None:
    """Python's urllib sends ``Connection: close``, and all of the body before it reads the response."""
    size = 9_000_000
    length = b"Content-Length: %d" % size
    part = b"x" * size
    if chunked:
        length, part = b"Transfer-Encoding: chunked", b"%x\r\n%b\r\n0\r\n\r\n" % (size, part)
    with connected(app.url) as connection:
        connection.sendall(
            b"POST /nowhere HTTP/%b\r\nHost: localhost\r\nConnection: close\r\n%b\r\n\r\n" % (version, length)
        )
        for start in range(0, len(part), 100_000):
            connection.sendall(part[start : start + 100_000])
        received = b""
        while data := connection.recv(65536):  # a reset is an error
            received += data
    assert statuses(received) == [404]
    assert received.endswith(b"Not Found")


def test_a_rejected_body_that_goes_on_is_cut_off_after_the_response(
    impatient: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "MAX_DISCARDED", 2**20)
    head = b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 10000000000\r\n\r\n"
    with connected(impatient.url) as connection:
        connection.sendall(head)
        with pytest.raises(ConnectionError):
            connection.sendall(b" " * 2**30)
    with connected(impatient.url) as connection:
        connection.sendall(head)
        assert statuses(read_all(connection)) == [404]
        wait_until(lambda: _is_closed(connection))


def _is_closed(connection: socket.socket) -> bool:
    try:
        connection.send(b" ")
    except ConnectionError:
        return True
    return False


# -- time -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [b"G", b"GET / HTTP/1.1\r\nHost: localhost\r\n"])
def test_a_slow_head_held_its_connection(impatient: App, part: bytes) -> None:
    assert problem(exchange(impatient.url, part))["status"] == 408
    received = exchange(impatient.url, GET, part)
    assert statuses(received) == [200, 408]


@pytest.mark.parametrize("sent", [b"", GET, GET + b"\r\n"])
def test_an_idle_client_held_its_connection(impatient: App, sent: bytes) -> None:
    assert statuses(exchange(impatient.url, sent)) == ([200] if sent else [])


@pytest.mark.parametrize("head", [POST + b"Content-Length: 1000\r\n\r\n", CHUNKED + b"100\r\n"])
def test_a_slow_body_held_its_connection(impatient: App, head: bytes) -> None:
    content = problem(exchange(impatient.url, head, b"x"))
    assert content["status"] == 408
    assert "of the body" in content["detail"]


def test_a_client_that_does_not_read_held_memory_and_connection(impatient: App) -> None:
    with connected(impatient.url) as connection:
        connection.sendall(b"GET /much HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2)
        assert b"200 OK" in connection.recv(100)
        wait_until(lambda: _is_reset(connection))


def _is_reset(connection: socket.socket) -> bool:
    return bool(connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))


def test_a_slow_application_is_not_the_clients_fault(impatient: App) -> None:
    with connected(impatient.url) as connection:
        connection.sendall(b"GET /wait HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        wait_until(lambda: impatient.waiting == 1)
        assert problem(exchange(impatient.url, b"G"))["status"] == 408  # later, by more than all limits
        assert problem(exchange(impatient.url, b"G"))["status"] == 408
        impatient.go_on.set()
        assert read_all(connection).endswith(b"waited")


# -- number -----------------------------------------------------------------------------------------------


def test_idle_clients_locked_others_out(app: App) -> None:
    with ExitStack() as stack:
        idle = [stack.enter_context(connected(app.url)) for _ in range(40)]
        for connection in idle[20:]:
            send(connection, b"GET / HTTP/1.1\r\n")
        assert statuses(exchange(app.url, LAST)) == [200]
        for connection in idle[:20]:
            assert read_all(connection) == b""
        send(idle[-1], b"Host: localhost\r\nConnection: close\r\n\r\n")
        assert statuses(read_all(idle[-1])) == [404]


def test_a_keep_alive_client_waits_at_the_end_of_the_line(app: App) -> None:
    with connected(app.url) as kept, ExitStack() as stack:
        kept.sendall(GET)
        kept.recv(1000)
        older = [stack.enter_context(connected(app.url)) for _ in range(5)]
        assert statuses(exchange(app.url, LAST)) == [200]
        kept.sendall(GET)
        kept.recv(1000)
        for _ in range(9):
            stack.enter_context(connected(app.url))
        assert read_all(older[0]) == b""
        kept.sendall(LAST)
        assert statuses(read_all(kept)) == [200]


def test_with_all_connections_busy_others_get_503_and_health_answers(app: App) -> None:
    with ExitStack() as stack:
        busy = [stack.enter_context(connected(app.url)) for _ in range(10)]
        for connection in busy:
            connection.sendall(b"GET /wait HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        wait_until(lambda: app.waiting == 10)
        refused = exchange(app.url, b"GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert problem(refused)["type"].endswith("#too-many-connections")
        assert b"retry-after: 1" in refused
        assert statuses(exchange(app.url, LAST)) == [200]
        app.go_on.set()
        assert all(read_all(connection).endswith(b"waited") for connection in busy)
    assert statuses(exchange(app.url, LAST.replace(b"/healthz", b"/wait"))) == [200]


def test_one_address_took_all_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    made = App()
    settings = load_settings(max_connections=100, max_connections_per_address=3)
    with running(made.app, settings=settings) as url, ExitStack() as stack:
        app_url = url.removesuffix("/v1")
        assert all(  # this machine has no such limit
            statuses(exchange(app_url, LAST)) == [200]
            for _ in [stack.enter_context(connected(app_url)) for _ in range(5)]
        )
    monkeypatch.setattr(connections, "is_loopback", lambda _: False)
    with running(made.app, settings=settings) as url, ExitStack() as stack:
        app_url = url.removesuffix("/v1")
        one, *_ = [stack.enter_context(connected(app_url)) for _ in range(4)]
        assert read_all(one) == b""
        assert statuses(exchange(app_url, LAST)) == [200]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="sets the limit of another process")
@pytest.mark.parametrize("workers", ["1", "2"])
def test_idle_clients_took_all_descriptors(sample_library: Path, workers: str) -> None:
    said: list[str] = []
    with (
        serving(sample_library, "--workers", workers, said=said, SCHOLARBASE_SESSIONS="none") as (
            url,
            server,
        ),
        ExitStack() as stack,
    ):
        if workers == "2":
            wait_until(lambda: len(workers_of(server.pid)) == 2)
        for pid in workers_of(server.pid) if workers == "2" else [server.pid]:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (64, 64))
        for _ in range(300):
            stack.enter_context(connected(url))
        for _ in range(20):
            for path in ("/healthz", "/readyz", "/v1/papers/hep-th/9301068", "/v1/search?q=string"):
                assert httpx.get(url + path, timeout=120).status_code == 200
        assert any("may open 64 files" in line for line in said)


@pytest.mark.parametrize("size", [1000, 100])
def test_incomplete_requests_took_memory_without_limit(
    app: App, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(connections, "MAX_HELD", 4096)
    settings = load_settings(max_connections=100, max_body_bytes=1024)
    with running(app.app, settings=settings) as address, ExitStack() as stack:
        url = address.removesuffix("/v1")
        held = [stack.enter_context(connected(url)) for _ in range(20)]
        for connection in held:
            connection.sendall(POST + b"Connection: close\r\nContent-Length: 1001\r\n\r\n" + b"x" * size)
            assert statuses(exchange(url, LAST)) == [200]  # what was sent before is read before
        if size == 1000:
            assert read_all(held[0]) == b""
        send(held[-1], b"x" * (1001 - size))
        assert read_all(held[-1]).endswith(b"got " + b"x" * 1001)


def test_unread_responses_took_memory_without_limit(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_UNREAD", 2**26)
    monkeypatch.setattr(connections, "UNREAD_SECONDS", 0.1)
    with ExitStack() as stack:
        unread = [stack.enter_context(connected(app.url)) for _ in range(5)]
        for connection in unread:
            connection.sendall(b"GET /much HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_until(lambda: sum(map(_is_reset, unread)) >= 2)
        assert statuses(exchange(app.url, LAST)) == [200]


# -- pipelining and framing -------------------------------------------------------------------------------


def test_ten_thousand_pipelined_requests_were_parsed_at_once(app: App) -> None:
    def cycles() -> int:
        return sum(type(one) is RequestResponseCycle for one in gc.get_objects())

    before = cycles()
    with connected(app.url) as connection:
        connection.sendall(b"GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n" + GET * 2000)
        wait_until(lambda: app.waiting == 1)
        assert statuses(exchange(app.url, LAST)) == [200]
        assert cycles() - before <= 2
        app.go_on.set()
        connection.sendall(GET * 7999 + LAST)
        assert statuses(read_all(connection)) == [200] * 10_001


def test_requests_are_cut_where_they_end(app: App) -> None:
    """Requests that follow each other in one packet, which is divided at every byte."""
    sent = (
        CHUNKED
        + b"5;a=b\r\nfi\r\nr\r\n2\r\nst\r\n0\r\nA: b\r\n\r\n"
        + b"\r\n"
        + POST
        + b"Content-Length: 6\r\n\r\nsecond"
        + b"BREW /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nthird"
        + CHUNKED
        + b"6\r\nfourth\r\n0\r\n\r\n"
        + LAST
    )
    for at in range(1, len(sent), 3):
        received = exchange(app.url, sent[:at], sent[at:])
        assert statuses(received) == [200, 200, 405, 200, 200], at
        bodies = [part.partition(b"\r\n\r\n")[2] for part in received.split(b"HTTP/1.1 ")[1:]]
        assert bodies == [b"got fi\r\nrst", b"got second", b"Method Not Allowed", b"got fourth", b"ok"], at


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        b"Content-Length: 4\r\nContent-Length: 4\r\n",
        b"Content-Length: 4, 4\r\n",
        b"Content-Length: +4\r\n",
        b"Content-Length: -4\r\n",
        b"Content-Length: 0x4\r\n",
        b"Content-Length : 4\r\n",
        b"Content-Length: 99999999999999999999\r\n",
        b"Content-Length:\n 4\r\n",
        b"X-A: b\n",
        b"X-A: b\r\n c\r\n",
        b"X-A: b\x00c\r\n",
        b"Transfer-Encoding: gzip\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b": b\r\n",
    ],
)
def test_a_request_could_be_smuggled_in_a_body(app: App, head: bytes) -> None:
    for method in (b"POST", b"BREW"):
        sent = method + b" /body HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n0\r\n\r\n" + LAST
        assert problem(exchange(app.url, sent))["status"] == 400, method


@pytest.mark.parametrize(
    "chunk", [b"x\r\n\r\n", b"-1\r\n", b"0x1\r\na\r\n", b"1\r\nab\r\n", b"1\na\r\n", b"f" * 20]
)
def test_a_chunk_of_an_invalid_size_is_an_error(app: App, chunk: bytes) -> None:
    assert problem(exchange(app.url, CHUNKED + chunk + b"\r\n\r\n" + LAST))["status"] == 400


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /healthz HTTP/1.1\n\n",
        b"GET  HTTP/1.1\r\n\r\n",
        b"CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"G@T / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_what_is_not_http_gets_a_problem_document(app: App, sent: bytes) -> None:
    assert problem(exchange(app.url, sent))["status"] == 400


def test_the_body_of_a_request_that_offers_http_2_was_not_read(app: App) -> None:
    """Java's client offers it with every request."""
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\n"
    received = exchange(app.url, POST + offer + b"Content-Length: 4\r\n\r\nbody" + LAST)
    assert statuses(received) == [200, 200]
    assert b"got body" in received


def test_a_process_raises_its_limit_of_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(list(Path("/dev/fd").iterdir()))
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 40, hard))
        assert connections._connection_limit(100) == 100
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= used + 100
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
