from pathlib import Path

import pytest

from tests.rerankers.tiny_cross_encoder import make_tiny_cross_encoder


@pytest.fixture(scope="session")
def cross_encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sentence_transformers")
    return make_tiny_cross_encoder(tmp_path_factory.mktemp("models") / "tiny-cross-encoder")
