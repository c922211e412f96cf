import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scholarbase.client import Client
from scholarbase.search.library import Library
from tests.client.scripted import ScriptedServer


@pytest.fixture(scope="module")
def library(sample_library: Path) -> Iterator[Library]:
    with Library.open(sample_library) as opened:
        yield opened


@pytest.fixture(scope="module")
def client(server: str) -> Iterator[Client]:
    with Client(server) as opened:
        yield opened


@pytest.fixture
def script() -> Iterator[Callable[..., ScriptedServer]]:
    started: list[ScriptedServer] = []

    def start(*responses: bytes | str) -> ScriptedServer:
        server = ScriptedServer(list(responses))
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        started.append(server)
        return server

    yield start
    for server in started:
        server.stopped.set()
        server.shutdown()
        server.server_close()
