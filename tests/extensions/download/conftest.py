"""A library that is packed and unpacked in little time."""

from pathlib import Path

import pytest

from scholarbase_download.packing import pack
from tests.extensions.download.archives import without_zeros


@pytest.fixture(scope="session")
def light_library(sample_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample without the large files of its vectors, which are mostly zeros: 14 MB instead of 216."""
    return without_zeros(sample_library, tmp_path_factory.mktemp("light") / "library")


@pytest.fixture(scope="session")
def light_file(light_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The light library as one file, with its hash beside it."""
    file = tmp_path_factory.mktemp("packed") / "sample.tar.zst"
    pack(light_library, file)
    return file
