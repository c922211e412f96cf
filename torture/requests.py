"""Requests on new connections, as attackers and as other clients send them."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

MOST_SECONDS: Final = 120.0
_REQUIRED: Final = {"{paper_id}": "arXiv:hep-th/9301068"}


@dataclass(frozen=True, slots=True)
class Answer:
    """A response; ``status`` is None where the connection ended or timed out without one."""

    status: int | None
    seconds: float
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    error: str = ""

    def json(self) -> Any:
        return json.loads(self.body)


def request(
    url: str,
    method: str,
    path: str,
    body: Any = None,
    *,
    headers: Mapping[str, str] | None = None,
    timeout: float = MOST_SECONDS,
) -> Answer:
    """Send one request on a new connection. ``body`` is sent as JSON unless it is bytes."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)
    sent: dict[str, str] = dict(headers or {})
    if body is not None:
        sent.setdefault("Content-Type", "application/json")
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
    began = time.monotonic()
    try:
        connection.request(method, path, body=body, headers=sent)
        response = connection.getresponse()
        content = response.read()
    except (OSError, http.client.HTTPException) as error:
        return Answer(None, time.monotonic() - began, error=f"{type(error).__name__}: {error}")
    finally:
        connection.close()
    found = {name.lower(): value for name, value in response.getheaders()}
    return Answer(response.status, time.monotonic() - began, content, found)


@contextmanager
def connected(url: str, source: str | None = None, timeout: float = 10.0) -> Iterator[socket.socket]:
    """A connection to a server, from another loopback address if ``source`` is given."""
    connection = connect(url, source, timeout)
    try:
        yield connection
    finally:
        connection.close()


def connect(url: str, source: str | None = None, timeout: float = 10.0) -> socket.socket:
    """Open a connection. Raises OSError."""
    parts = urlsplit(url)
    address = (parts.hostname or "", parts.port or 80)
    return socket.create_connection(address, timeout, source_address=(source, 0) if source else None)


def routes(url: str, headers: Mapping[str, str] | None = None) -> list[tuple[str, str, Any]]:
    """Method, path and an example body of each operation in the OpenAPI document."""
    document = request(url, "GET", "/openapi.json", headers=headers).json()
    found = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            filled = path.replace("{paper_id}", _REQUIRED["{paper_id}"])
            filled = filled.replace("{name}", "search_papers" if "/tools/" in path else "torture")
            body = _example(document, operation) if "requestBody" in operation else None
            found.append((method.upper(), filled, body))
    return found


def _example(document: dict[str, Any], operation: dict[str, Any]) -> dict[str, Any]:
    """A body of the required keys, from the examples of the schema."""
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "examples" in schema:
        example: dict[str, Any] = schema["examples"][0]
        return example
    return {key: schema["properties"][key]["examples"][0] for key in schema.get("required", ())}
