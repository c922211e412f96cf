from pathlib import Path

import pytest

from tests.encoders.tiny_bge_m3 import make_tiny_bge_m3
from tests.packages import need
from tests.rerankers.tiny_cross_encoder import make_tiny_cross_encoder


@pytest.fixture(scope="session")
def cross_encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sentence_transformers")
    return make_tiny_cross_encoder(tmp_path_factory.mktemp("models") / "tiny-cross-encoder")


@pytest.fixture(scope="session")
def bge_m3_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("FlagEmbedding")
    return make_tiny_bge_m3(tmp_path_factory.mktemp("models") / "tiny-bge-m3")
