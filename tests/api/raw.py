"""HTTP over plain sockets, for requests that no HTTP client sends."""

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import orjson

SECONDS = 120.0
"""How long a response or the end of a connection is waited for."""


@contextmanager
def connected(url: str) -> Iterator[socket.socket]:
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), timeout=SECONDS) as connection:
        yield connection


def read_all(connection: socket.socket) -> bytes:
    """What the server sends until it closes the connection."""
    received = b""
    with suppress(ConnectionError):
        while data := connection.recv(65536):
            received += data
    return received


def send(connection: socket.socket, data: bytes) -> None:
    """Send until the server closes the connection."""
    with suppress(ConnectionError):
        connection.sendall(data)


def exchange(url: str, *parts: bytes) -> bytes:
    """Send each part in a packet of its own, then read until the server closes the connection."""
    with connected(url) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in parts:
            send(connection, part)
        return read_all(connection)


def statuses(received: bytes) -> list[int]:
    """The statuses of all responses."""
    return [int(status) for status in re.findall(rb"HTTP/1\.[01] (\d{3}) ", received)]


def problem(received: bytes) -> dict[str, Any]:
    """The problem document of the only response, after which the connection was closed."""
    head, _, body = received.partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    assert b"connection: close" in lines, received
    assert b"content-type: application/problem+json" in lines, received
    content: dict[str, Any] = orjson.loads(body)
    assert statuses(received) == [content["status"]]
    return content
