"""Real HTTP servers for the tests: Granian in a thread, on a free port or a Unix socket."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scholarbase.asgi import Embedded, options
from scholarbase.settings import Settings, load_settings


@contextmanager
def running(
    app: Any,
    uds: Path | None = None,
    *,
    settings: Settings | None = None,
    listener: socket.socket | None = None,
) -> Iterator[str]:
    """Run an ASGI application. Yields its base URL, or ``unix:`` and its socket."""
    if listener is None:
        listener = socket.create_server(("127.0.0.1", 0)) if uds is None else socket.socket(socket.AF_UNIX)
    if uds is not None:
        listener.bind(str(uds))
        listener.listen()
    server = Embedded(app, listener, **options((settings or load_settings()).max_connections))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=_run, args=(loop, server), daemon=True)
    thread.start()
    try:
        yield f"unix:{uds}" if uds is not None else f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        loop.call_soon_threadsafe(server.stop)
        thread.join(60)
        listener.close()


def _run(loop: asyncio.AbstractEventLoop, server: Embedded) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(server.serve())
    finally:
        loop.close()
