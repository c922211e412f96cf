from collections.abc import Iterator
from pathlib import Path

import pytest

from scholarbase.search.library import Library
from tests.extensions.research.construction.toy import toy_library


@pytest.fixture(scope="session")
def toy_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_library(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="session")
def toy(toy_path: Path) -> Iterator[Library]:
    with Library.open(toy_path) as library:
        yield library
