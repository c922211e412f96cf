"""Scripted servers and calls of both clients."""

import asyncio
import socketserver
import threading
from typing import Any

import orjson
import pytest

from scholarbase import errors
from scholarbase.client import AsyncClient, Client

both = pytest.mark.parametrize("kind", ["sync", "async"])
SNAPSHOT = {
    "snapshot": "s1",
    "ranking": {"rrf_k": 60},
    "rerankers": {},
    "manifest": {"counts": {"papers": 1}},
}
EMPTY = {"snapshot": "s1", "mode": "sparse", "engine": "bm25", "total": 0, "total_relation": "eq",
         "next_offset": None, "results": []}  # fmt: skip
DROP = "drop"
HANG = "hang"


def response(status: str = "200 OK", content: Any = SNAPSHOT, *headers: str) -> bytes:
    """The bytes of an HTTP response."""
    body = content if isinstance(content, bytes) else orjson.dumps(content)
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def problem(slug: str, status: str, detail: str, *headers: str) -> bytes:
    content = {
        "type": errors.PROBLEM_TYPE_BASE + slug,
        "title": "T",
        "status": int(status[:3]),
        "detail": detail,
    }
    return response(status, content, "Content-Type: application/problem+json", *headers)


class ScriptedServer(socketserver.ThreadingTCPServer):
    """A server that sends scripted responses in order, repeats the last one, and keeps the requests."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, responses: list[bytes | str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.responses = responses
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.stopped = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(socketserver.StreamRequestHandler):
    server: ScriptedServer

    def handle(self) -> None:
        first = self.rfile.readline().decode().strip()
        if not first:
            return
        lines = iter(lambda: self.rfile.readline().decode().strip(), "")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        body = self.rfile.read(int(headers.get("content-length", 0)))
        responses = self.server.responses
        scripted = responses[min(len(self.server.requests), len(responses) - 1)]
        self.server.requests.append((first, headers, body))
        if scripted == HANG:
            self.server.stopped.wait(30)
        elif isinstance(scripted, bytes):
            self.wfile.write(scripted)


def call_over(kind: str, url: str, name: str, *args: Any, **options: Any) -> Any:
    """Call a method of a new client, ``sync`` or ``async``, and return its result, iterators as lists."""
    if kind == "sync":
        with Client(url, backoff=0.01, **options) as client:
            result = getattr(client, name)(*args)
            return list(result) if name.startswith("iter_") else result

    async def run() -> Any:
        async with AsyncClient(url, backoff=0.01, **options) as client:
            result = getattr(client, name)(*args)
            return [item async for item in result] if name.startswith("iter_") else await result

    return asyncio.run(run())
