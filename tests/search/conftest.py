"""The library that a file of tests searches: that of its fixture ``path``, by default the default library."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from scholarbase.search.library import Library
from tests.conftest import serving_in_thread


@pytest.fixture(scope="module")
def path(default_library: Path) -> Path:
    return default_library


@pytest.fixture(scope="module")
def library(path: Path) -> Iterator[Library]:
    with Library.open(path) as opened:
        yield opened


@pytest.fixture(scope="module")
def url(library: Library) -> Iterator[str]:
    """The URL of a server over the library."""
    with serving_in_thread(library) as address:
        yield address
