import shutil
from pathlib import Path

import numpy as np
import pytest

from scholarbase.encoders.bge_m3 import BgeM3Encoder
from scholarbase.errors import EncoderError
from tests.encoders.tiny_bge_m3 import HIDDEN_SIZE, MAX_POSITIONS, SENTENCES

pytestmark = pytest.mark.slow

TEXTS = [
    *SENTENCES,
    "the the the attention of attention",  # a token's greatest weight counts
    "量子 computing",  # tokens the vocabulary does not know
    "",
    "dense retrieval " * 60,  # longer than the model's maximum
]


@pytest.fixture(scope="module")
def flag_embedding_output(tiny_bge_m3_folder: Path) -> dict:
    """The output of FlagEmbedding's encode; its term weights are dicts by the id as a string."""
    from FlagEmbedding import BGEM3FlagModel

    model = BGEM3FlagModel(str(tiny_bge_m3_folder), devices="cpu", use_fp16=False)
    return model.encode(TEXTS, return_sparse=True, max_length=MAX_POSITIONS - 2)


def test_the_spec_comes_from_the_models_configuration(tiny_bge_m3: BgeM3Encoder) -> None:
    spec = tiny_bge_m3.spec
    assert (spec.kind, spec.name, spec.learned_sparse) == ("bge-m3", "tiny-bge-m3", True)
    assert spec.dimensions == HIDDEN_SIZE
    assert spec.max_tokens == MAX_POSITIONS - 2  # the model has fewer than 1024 positions


def test_dense_vectors_are_those_of_flag_embedding(
    tiny_bge_m3: BgeM3Encoder, flag_embedding_output: dict
) -> None:
    ours = tiny_bge_m3.encode_documents(TEXTS)
    assert ours.dense.dtype == np.float32
    np.testing.assert_allclose(ours.dense, flag_embedding_output["dense_vecs"], atol=1e-6)


def test_term_weights_are_those_of_flag_embedding(
    tiny_bge_m3: BgeM3Encoder, flag_embedding_output: dict
) -> None:
    ours = tiny_bge_m3.encode_documents(TEXTS).sparse
    assert ours is not None
    assert sum(len(weights.indices) for weights in ours) > 40
    for mine, weights in zip(ours, flag_embedding_output["lexical_weights"], strict=True):
        assert mine.indices.dtype == np.uint32
        assert mine.values.dtype == np.float32
        assert mine.indices.tolist() == sorted(int(token) for token in weights)
        expected = [weights[str(token)] for token in mine.indices.tolist()]
        np.testing.assert_allclose(mine.values, expected, atol=1e-6)


def test_small_batches_give_each_text_its_own_vector(
    tiny_bge_m3_folder: Path, flag_embedding_output: dict
) -> None:
    encoder = BgeM3Encoder(tiny_bge_m3_folder, device="cpu", tokens_per_batch=20)
    np.testing.assert_allclose(
        encoder.encode_queries(TEXTS).dense, flag_embedding_output["dense_vecs"], atol=1e-6
    )


@pytest.mark.parametrize("name", ["sparse_linear.pt", "colbert_linear.pt"])
def test_a_missing_layer_would_be_random_and_is_refused(
    tiny_bge_m3_folder: Path, tmp_path: Path, name: str
) -> None:
    folder = shutil.copytree(tiny_bge_m3_folder, tmp_path / "incomplete")
    (folder / name).unlink()
    with pytest.raises(EncoderError, match=rf"has no {name}: .* would be random"):
        BgeM3Encoder(folder, device="cpu")


def test_weights_that_are_not_finite_are_an_error(tiny_bge_m3_folder: Path, tmp_path: Path) -> None:
    import torch

    folder = shutil.copytree(tiny_bge_m3_folder, tmp_path / "nan")
    layer = torch.load(folder / "sparse_linear.pt", weights_only=True)
    torch.save({**layer, "bias": layer["bias"] * float("nan")}, folder / "sparse_linear.pt")
    with pytest.raises(EncoderError, match="a term weight is not finite"):
        BgeM3Encoder(folder, device="cpu").encode_queries(["attention"])
