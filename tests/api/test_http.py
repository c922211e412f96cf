"""HTTP as the server speaks it: what clients send or read too much, too slowly or never. Granian parses it."""

import asyncio
import json
import re
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from scholarbase import asgi
from scholarbase.api import middleware, sending
from scholarbase.api.middleware import BodyLimit
from scholarbase.search.library import Library
from scholarbase.settings import load_settings
from tests.api.raw import connected, exchange, read_all, send, statuses
from tests.conftest import serving_in_thread
from tests.encoders.servers import running
from tests.sessions.agents import wait_until

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
POST = b"POST /body HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
LIMIT = 200_000


class App:
    """Routes that return a body, wait, and send much."""

    def __init__(self) -> None:
        self.waiting = 0
        self.may_go_on = False
        app = Starlette(
            routes=[
                Route("/healthz", self.health),
                Route("/body", self.body, methods=["POST"]),
                Route("/wait", self.wait),
            ]
        )
        self.app = BodyLimit(app, settings=load_settings(max_body_bytes=LIMIT, queue=100, timeout=60))
        self.url = ""

    async def health(self, request: Request) -> Response:
        return PlainTextResponse("ok")

    async def body(self, request: Request) -> Response:
        return PlainTextResponse(b"got " + await request.body())

    async def wait(self, request: Request) -> Response:
        self.waiting += 1
        while not self.may_go_on:
            await asyncio.sleep(0.01)
        return PlainTextResponse("waited")


@pytest.fixture
def app() -> Iterator[App]:
    made = App()
    with running(made.app) as url:
        made.url = url.removesuffix("/v1")
        yield made


# -- heads ------------------------------------------------------------------------------------------------


def test_a_head_has_limits(app: App) -> None:
    for sent, status in (
        (
            b"GET /healthz?" + b"a" * 60_000 + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            200,
        ),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414),
        (LAST[:-2] + b"X-A: " + b"a" * 4 * asgi.MAX_HEAD + b"\r\n\r\n", 431),
        (LAST[:-2] + b"a: b\r\n" * 200 + b"\r\n", 431),
    ):
        assert statuses(exchange(app.url, sent)) == [status]


def test_a_query_of_the_maximum_length_fits_into_a_url(server: str) -> None:
    words = ("теория струн " * 1000)[:9_999]
    response = httpx.get(f"{server}/v1/search", params={"q": words})
    assert "has 10,000" not in response.text
    assert response.status_code in (200, 400)


@pytest.mark.slow
def test_an_idle_client_or_a_slow_head_held_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "HEAD_SECONDS", 1)
    made = App()
    with running(made.app) as url, ExitStack() as stack:
        clients = {sent: stack.enter_context(connected(url)) for sent in (b"", b"GET / HTTP/1.1\r\nHos", GET)}
        for sent, client in clients.items():
            client.sendall(sent)
        for sent, client in clients.items():
            assert statuses(read_all(client)) == ([200] if sent == GET else [])


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET  HTTP/1.1\r\n\r\n",
        b"G@T / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        POST + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nbody",
        POST + b"Content-Length: +4\r\n\r\nbody",
        POST + b"Content-Length : 4\r\n\r\nbody",
        POST + b"Transfer-Encoding: gzip\r\n\r\nbody",
        POST + b"X-A: b\x00c\r\n\r\n",
    ],
)
def test_malformed_http_is_refused_and_closes_the_connection(app: App, sent: bytes) -> None:
    assert statuses(exchange(app.url, sent + LAST)) == [400]


def test_the_body_of_a_request_that_offers_http_2_was_not_read(app: App) -> None:
    """Java's client offers it with every request."""
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\n"
    received = exchange(app.url, POST + offer + b"Content-Length: 4\r\n\r\nbody" + LAST)
    assert statuses(received) == [200, 200]
    assert b"got body" in received


def test_requests_are_cut_where_they_end(app: App) -> None:
    """Requests that follow each other in one packet, which is divided at many places."""
    sent = (
        CHUNKED
        + b"5;a=b\r\nfi\r\nr\r\n2\r\nst\r\n0\r\nA: b\r\n\r\n"
        + POST
        + b"Content-Length: 6\r\n\r\nsecond"
        + b"BREW /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nthird"
        + LAST
    )
    for at in range(1, len(sent), 7):
        assert statuses(exchange(app.url, sent[:at], sent[at:])) == [200, 200, 405, 200], at


def test_thousands_of_pipelined_requests_are_answered_in_order(app: App) -> None:
    with connected(app.url) as connection:
        connection.sendall(GET * 2000 + LAST)
        assert statuses(read_all(connection)) == [200] * 2001


# -- bodies -----------------------------------------------------------------------------------------------


@pytest.fixture
def api(sample: Library) -> Iterator[str]:
    """The URL of a server that accepts small bodies."""
    with serving_in_thread(sample, max_body_bytes=LIMIT) as url:
        yield url


SEARCH = b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 1000\r\n\r\n",
        b"Content-Length: 100000\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n100\r\n",
    ],
)
def test_a_slow_body_held_its_connection(api: str, monkeypatch: pytest.MonkeyPatch, head: bytes) -> None:
    monkeypatch.setattr(middleware, "SLOW_SECONDS", 0.3)
    with connected(api) as connection:
        connection.sendall(SEARCH + head + b"{")
        received = connection.recv(65536)
    assert statuses(received) == [408]
    assert b"application/problem+json" in received
    assert b"less than 1,024 bytes of the body" in received


def test_a_body_in_chunks_of_one_byte_is_a_body(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "SLOW_SECONDS", 1e9)
    body = b"x" * 5000
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    received = exchange(app.url, CHUNKED + chunks + LAST)
    assert statuses(received) == [200, 200]
    assert b"got " + body in received


def test_clients_that_send_one_byte_at_a_time_kept_others_from_an_answer(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(middleware, "SLOW_SECONDS", 1e9)
    with ExitStack() as stack:
        slow = [stack.enter_context(connected(app.url)) for _ in range(20)]
        for connection in slow:
            connection.sendall(CHUNKED)
        for _ in range(5):
            for connection in slow:
                connection.sendall(b"1\r\nx\r\n" * 200)
            assert statuses(exchange(app.url, LAST)) == [200]


@pytest.mark.slow
def test_a_body_that_is_too_large_is_refused_before_it_is_received(
    api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(middleware, "SLOW_SECONDS", 0.3)  # how long the rest of a body is waited for
    for head in (
        b"Transfer-Encoding: chunked\r\n\r\nfffffff\r\n",
        b"Content-Length: 10000000000000\r\n\r\n",
    ):
        with connected(api) as connection:
            connection.sendall(SEARCH + head)
            send(connection, b" " * (LIMIT + 1))
            received = connection.recv(65536)
            assert statuses(received) == [413]
            with pytest.raises(ConnectionError):
                connection.sendall(b" " * 2**30)


def test_abandoned_bodies_are_forgotten(app: App) -> None:
    """They took memory until the server ended."""
    for _ in range(200):
        with connected(app.url) as connection:
            connection.sendall(CHUNKED + b"10000\r\n" + b"x" * 30_000)
    assert statuses(exchange(app.url, LAST)) == [200]


# -- connections ------------------------------------------------------------------------------------------


def test_more_connections_than_allowed_wait() -> None:
    made = App()
    with running(made.app, settings=load_settings(max_connections=5)) as url, ExitStack() as stack:
        busy = [stack.enter_context(connected(url)) for _ in range(5)]
        for connection in busy:
            connection.sendall(b"GET /wait HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        wait_until(lambda: made.waiting == 5)
        late = stack.enter_context(connected(url))
        late.sendall(LAST)
        late.settimeout(0.2)
        with pytest.raises(TimeoutError):
            late.recv(1)
        late.settimeout(60)
        made.may_go_on = True
        assert all(read_all(connection).endswith(b"waited") for connection in busy)
        assert statuses(read_all(late)) == [200]


WORDS = ("theory", "field", "string", "quantum", "gauge", "space", "model", "group", "black", "matter")
BATCH = json.dumps({"searches": [{"q": word, "limit": 1000} for word in WORDS]}).encode()
MANY = (
    b"POST /v1/search/batch HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n" % len(BATCH)
) + BATCH
"""A request whose response is larger than the buffers of the system."""


def unread(url: str, stack: ExitStack) -> socket.socket:
    """A client that requests a large response and reads none of it."""
    address = urlsplit(url)
    client = stack.enter_context(socket.socket())
    client.setsockopt(
        socket.SOL_SOCKET, socket.SO_RCVBUF, 4096
    )  # before it connects, so that the window is small
    client.settimeout(60)
    client.connect((address.hostname, address.port))
    client.sendall(MANY)
    return client


def is_cut(client: socket.socket, pause: float = 0.02) -> bool:
    """Whether the connection ends before the end of the response. Reads it, with pauses in seconds."""
    received = b""
    with suppress(ConnectionError):
        while data := client.recv(65536):
            received += data
            time.sleep(pause)
    head, _, body = received.partition(b"\r\n\r\n")
    length = int(re.search(rb"content-length: (\d+)", head)[1])  # type: ignore[index]
    return len(body) < length


@pytest.mark.slow
def test_unread_responses_took_memory_without_limit(sample: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "UNREAD_SECONDS", 0.2)
    monkeypatch.setattr(sending, "MAX_UNREAD", 0)
    with serving_in_thread(sample) as url, ExitStack() as stack:
        assert is_cut(unread(url, stack))
        read = stack.enter_context(connected(url))
        read.sendall(MANY)
        assert not is_cut(read, 0)


@pytest.mark.slow
def test_a_client_that_reads_too_slowly_held_its_connection(
    sample: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "SLOW_SECONDS", 0.5)
    monkeypatch.setattr(sending, "MIN_RATE", 10**9)
    with serving_in_thread(sample) as url, ExitStack() as stack:
        assert is_cut(unread(url, stack))


def test_a_process_raises_its_limit_of_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (400, hard))
        assert asgi.options(500)["backpressure"] == 500
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 500 + asgi.SPARE_FILES
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
