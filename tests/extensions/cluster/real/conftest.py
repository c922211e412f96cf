"""The nodes that the tests use, and the command that stops them."""

import os
import shlex
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from scholarbase.errors import VectorIndexError
from scholarbase.indexes.vectors.index import EdgeIndex
from scholarbase.manifest import read_manifest
from scholarbase.models.qdrant_addresses import read_addresses
from scholarbase.search.library import Library
from scholarbase.settings import load_settings
from scholarbase_cluster.qdrant.collection import BY_SNAPSHOT, DEFAULT, Placement, _names, aliases
from scholarbase_cluster.qdrant.nodes import Nodes
from scholarbase_cluster.qdrant.restoring import load_shards
from scholarbase_cluster.qdrant.transfer import Loaded, load_into_server

# Read before a fixture removes the settings of the environment.
URLS = os.environ.get("SCHOLARBASE_TEST_QDRANT_URLS")
API_KEY = os.environ.get("SCHOLARBASE_TEST_QDRANT_API_KEY")
CONTROL = os.environ.get("SCHOLARBASE_TEST_QDRANT_CONTROL")
ENVIRONMENT = dict(os.environ)
"""Of the caller, with certificates and paths that the tests do not have: a node is started with it."""
PREFIX = "scholarbase-test-"
PATIENCE = 300.0
"""Seconds in which a node must be back and its replicas repaired."""

T = TypeVar("T")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection"))
            if URLS is None:
                item.add_marker(pytest.mark.skip(reason="SCHOLARBASE_TEST_QDRANT_URLS is not set"))


@pytest.fixture(scope="session")
def urls() -> tuple[str, ...]:
    assert URLS is not None
    return read_addresses(URLS)


@pytest.fixture(scope="session")
def three(urls: tuple[str, ...]) -> tuple[str, ...]:
    if len(urls) < 3:
        pytest.skip("needs the addresses of three nodes")
    return urls


@pytest.fixture(scope="session")
def control(three: tuple[str, ...]) -> Callable[[str, int], None]:
    """Run the command that stops and starts nodes."""
    if CONTROL is None:
        pytest.skip("SCHOLARBASE_TEST_QDRANT_CONTROL is not set")

    def run(action: str, number: int) -> None:
        command = [*shlex.split(str(CONTROL)), action, str(number)]
        subprocess.run(command, check=True, timeout=120, env=ENVIRONMENT)

    return run


@pytest.fixture
def nodes(urls: tuple[str, ...]) -> Iterator[Nodes]:
    with closing(Nodes(urls, api_key=API_KEY)) as nodes:
        yield nodes


@pytest.fixture
def alias(nodes: Nodes) -> Iterator[str]:
    """An alias of this test alone. Its collections are removed after the test."""
    name = f"{PREFIX}{uuid.uuid4().hex[:12]}"
    yield name

    def remove() -> None:
        for one in _names(nodes):
            if one.startswith(name):
                nodes.change("be cleaned", lambda client, one=one: client.delete_collection(one, timeout=60))

    eventually(remove)


def eventually(call: Callable[[], T], seconds: float = PATIENCE) -> T:
    """The result of a call, repeated while nodes fail or the result is false or an assertion does not hold."""
    end = time.monotonic() + seconds
    while True:
        try:
            return call()
        except (VectorIndexError, AssertionError):
            if time.monotonic() > end:
                raise
        time.sleep(0.5)


def load(
    library: Path,
    nodes: Nodes,
    alias: str,
    placement: Placement = DEFAULT,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Loaded:
    _, snapshot = read_manifest(library)
    with closing(EdgeIndex.open(library / "vectors")) as edge:
        if placement.method == BY_SNAPSHOT:
            return load_shards(edge, nodes, alias, snapshot, progress, replicas=placement.replicas)
        return load_into_server(edge, nodes, alias, snapshot, edge.config, progress, placement=placement)


@contextmanager
def served(library: Path, urls: tuple[str, ...], alias: str) -> Iterator[Library]:
    """The library with its vectors on the cluster."""
    settings = load_settings(qdrant_url=urls, qdrant_alias=alias, qdrant_api_key=API_KEY)
    with Library.open(library, settings=settings) as opened:
        yield opened


def named(nodes: Nodes, alias: str) -> str | None:
    return aliases(nodes).get(alias)
