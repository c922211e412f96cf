from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from scholarbase.encoders import Encoder, open_encoder
from scholarbase.encoders.bge_m3 import BgeM3Encoder
from scholarbase.encoders.service import create_service
from scholarbase.models.encoders import PACKAGED
from tests.encoders.servers import running


@pytest.fixture(scope="session")
def tiny_bge_m3(tiny_bge_m3_folder: Path) -> Iterator[BgeM3Encoder]:
    encoder = BgeM3Encoder(tiny_bge_m3_folder, device="cpu")
    yield encoder
    encoder.close()


@pytest.fixture(scope="session")
def packaged() -> Iterator[Encoder]:
    """The encoder in the package, which loads no torch."""
    with closing(open_encoder(PACKAGED)) as encoder:
        yield encoder


@pytest.fixture(scope="session")
def packaged_service(packaged: Encoder) -> Iterator[str]:
    with running(create_service(packaged)) as url:
        yield url


@pytest.fixture(scope="session")
def bge_m3_service(tiny_bge_m3: BgeM3Encoder) -> Iterator[str]:
    with running(create_service(tiny_bge_m3)) as url:
        yield url
