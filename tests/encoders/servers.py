"""Real HTTP servers for the tests: uvicorn in a thread, on a free port or a Unix socket."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import uvicorn

from scholarbase.api.accepting import EventLoop
from scholarbase.api.connections import Connections
from scholarbase.api.protocol import HttpProtocol
from scholarbase.settings import Settings, load_settings


@contextmanager
def running(
    app: Any,
    uds: Path | None = None,
    *,
    lifespan: Literal["on", "off"] = "off",
    settings: Settings | None = None,
    listener: socket.socket | None = None,
) -> Iterator[str]:
    """Run an ASGI application with the limits of ``settings``. Yields its base URL, or ``unix:`` and its socket."""
    connections = Connections(settings or load_settings())
    config = uvicorn.Config(
        app,
        uds=None if uds is None else str(uds),
        http=partial(HttpProtocol, connections=connections),  # type: ignore[arg-type]
        loop=partial(EventLoop, connections),  # type: ignore[arg-type]
        log_level="warning",
        access_log=False,
        lifespan=lifespan,
    )
    server = uvicorn.Server(config)
    if uds is None and listener is None:
        listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": None if listener is None else [listener]}, daemon=True
    )
    thread.start()
    try:
        for _ in range(12_000):
            if server.started or not thread.is_alive():
                break
            thread.join(0.01)
        assert server.started, "the test server did not start within 120 s"
        yield f"unix:{uds}" if listener is None else f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        thread.join(60)
        if listener is not None:
            listener.close()
