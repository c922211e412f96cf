"""Connections that are accepted many at once, health requests first."""

from __future__ import annotations

import resource
import socket
import sys
import time
from contextlib import ExitStack

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from scholarbase.api import accepting
from scholarbase.api.accepting import MAX_OPENED
from tests.api.raw import SECONDS, read_all, statuses
from tests.encoders.servers import running


class App:
    """Notes the order of its requests, each of which keeps the event loop busy for a moment."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.app = Starlette(routes=[Route(path, self.respond) for path in ("/work", "/other", "/healthz")])

    async def respond(self, request: Request) -> Response:
        self.paths.append(request.url.path)
        time.sleep(0.001)
        return PlainTextResponse("done")


def send(listener: socket.socket, path: str, source: str = "127.0.0.1") -> socket.socket:
    connection = socket.create_connection(listener.getsockname(), SECONDS, source_address=(source, 0))
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    return connection


def test_a_health_request_waited_for_all_that_were_sent_before() -> None:
    app, count = App(), 250
    with socket.create_server(("127.0.0.1", 0), backlog=count + 1) as listener, ExitStack() as clients:
        # All are in the queue of the listening socket before the server starts.
        work = [clients.enter_context(send(listener, "/work")) for _ in range(count)]
        health = clients.enter_context(send(listener, "/healthz"))
        with running(app.app, listener=listener):
            assert statuses(read_all(health)) == [200]
            assert app.paths.index("/healthz") <= 4 * MAX_OPENED
            assert [statuses(read_all(one)) for one in work] == [[200]] * count
    assert len(app.paths) == count + 1


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
def test_a_client_waited_for_all_requests_of_another_address() -> None:
    app, count = App(), 250
    with socket.create_server(("127.0.0.1", 0), backlog=count + 1) as listener, ExitStack() as clients:
        work = [clients.enter_context(send(listener, "/work", "127.0.0.2")) for _ in range(count)]
        other = clients.enter_context(send(listener, "/other"))
        with running(app.app, listener=listener):
            assert statuses(read_all(other)) == [200]
            assert app.paths.index("/other") <= 4 * MAX_OPENED
            assert [statuses(read_all(one)) for one in work] == [[200]] * count


def test_a_client_that_was_gone_before_it_was_accepted_stops_nothing() -> None:
    app = App()
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        for _ in range(50):
            connection = send(listener, "/work")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # sends a reset
            connection.close()
        with running(app.app, listener=listener), send(listener, "/healthz") as health:
            assert statuses(read_all(health)) == [200]


@pytest.mark.slow
def test_connections_are_accepted_again_when_there_are_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepting, "PAUSE_SECONDS", 0.05)
    app = App()
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener, running(app.app, listener=listener):
        with send(listener, "/healthz") as health:
            assert statuses(read_all(health)) == [200]
        waiting = send(listener, "/healthz")  # has its descriptor before there are none
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert statuses(read_all(waiting)) == [200]
        waiting.close()
        late = socket.socket()
        late.settimeout(SECONDS)
        resource.setrlimit(resource.RLIMIT_NOFILE, (late.fileno() + 1, hard))
        try:
            late.connect(listener.getsockname())
            late.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            time.sleep(0.2)  # the server tries, and pauses
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        with late:
            assert statuses(read_all(late)) == [200]
