"""Encoders with different models for documents and queries, and models of term weights."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scholarbase.encoders import Encodings, LearnedSparse, open_encoder
from scholarbase.encoders.paired import PairedEncoder
from scholarbase.encoders.probe import check_probe, check_spec, probe
from scholarbase.encoders.sentence_transformers import SentenceTransformersEncoder
from scholarbase.encoders.static import StaticEncoder
from scholarbase.errors import EncoderError, EncoderMismatch
from scholarbase.models.encoders import EncoderSpec
from tests.encoders.static_models import VECTORS, make_model
from tests.encoders.tiny_pairs import (
    DOCUMENT_TOKENS,
    WORDS,
    make_bert,
    make_splade,
)

pytestmark = pytest.mark.slow

TEXTS = ["dark matter in galaxies", "Graphs of neural networks", "the " * 40]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the models, whose names are those of their folders."""
    folder = tmp_path_factory.mktemp("pairs")
    make_splade(folder / "splade", seed=4)
    make_bert(folder / "documents", seed=5)
    make_model(folder / "queries")
    return folder


@pytest.fixture(scope="module")
def splade(models: Path) -> SentenceTransformersEncoder:
    return SentenceTransformersEncoder(models / "splade", device="cpu")


@pytest.fixture(scope="module")
def pair(models: Path) -> PairedEncoder:
    documents = SentenceTransformersEncoder(models / "documents", device="cpu")
    return PairedEncoder(documents, StaticEncoder(models / "queries"))


def _table(weights: list[LearnedSparse] | None) -> np.ndarray[Any, Any]:
    rows = np.zeros((len(weights or []), len(WORDS)), dtype=np.float32)
    for row, one in zip(rows, weights or [], strict=True):
        row[one.indices] = one.values
    return rows


# -- term weights ---------------------------------------------------------------------------------------


def test_term_weights_are_those_of_sentence_transformers(
    splade: SentenceTransformersEncoder, models: Path
) -> None:
    from sentence_transformers import SparseEncoder

    theirs = SparseEncoder(str(models / "splade"), device="cpu")
    documents = theirs.encode_document(TEXTS, convert_to_sparse_tensor=False).numpy()
    ours = splade.encode_documents(TEXTS)
    assert ours.dense.shape == (3, 0)
    np.testing.assert_allclose(_table(ours.sparse), documents, atol=1e-6)
    assert splade.encode_queries([]).sparse == []
    spec = splade.spec
    assert (spec.dimensions, spec.learned_sparse, spec.max_tokens) == (0, True, DOCUMENT_TOKENS)
    assert spec.query is None


def test_a_router_is_refused(models: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(models / "documents", tmp_path / "router")
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["type"] = "sentence_transformers.base.modules.router.Router"
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(EncoderError, match="has a Router, and so several models: save that of documents"):
        open_encoder(str(folder), device="cpu")


# -- two models -----------------------------------------------------------------------------------------


def test_documents_and_queries_have_their_own_models(pair: PairedEncoder, models: Path) -> None:
    from sentence_transformers import SentenceTransformer

    theirs = SentenceTransformer(str(models / "documents"), device="cpu")
    expected = theirs.encode_document(TEXTS, normalize_embeddings=True)
    np.testing.assert_allclose(pair.encode_documents(TEXTS).dense, expected, atol=1e-6)
    dark_matter = VECTORS[2] + VECTORS[3]  # the words dark and matter of the static model
    [query] = pair.encode_queries(["dark matter"]).dense
    np.testing.assert_allclose(query, dark_matter / np.linalg.norm(dark_matter), atol=1e-6)


class _Letters:
    """An encoder with dense vectors of 8 dimensions and term weights, if ``learned``."""

    def __init__(self, learned: bool, vocabulary_size: int = 3) -> None:
        self.spec = EncoderSpec("letters", "letters", 8, learned_sparse=learned)
        self.vocabulary_size = vocabulary_size

    def encode_documents(self, texts: list[str]) -> Encodings:
        weights = LearnedSparse(np.array([1], np.uint32), np.array([1.0], np.float32))
        dense = np.tile(np.eye(8, dtype=np.float32)[0], (len(texts), 1))
        return Encodings(dense, [weights] * len(texts) if self.spec.learned_sparse else None)

    encode_queries = encode_documents

    def close(self) -> None:
        pass


@pytest.mark.parametrize(("first", "second"), [(True, True), (True, False), (False, True)])
def test_a_pair_has_term_weights_if_both_models_have(first: bool, second: bool) -> None:
    encoder = PairedEncoder(_Letters(first), _Letters(second))
    assert encoder.spec.learned_sparse == (first and second)
    for encodings in (encoder.encode_documents(["x"]), encoder.encode_queries(["x"])):
        assert (encodings.sparse is not None) == (first and second)
    check_spec(encoder.spec, _Letters(second).spec)


# -- checks ---------------------------------------------------------------------------------------------


def test_another_query_model_does_not_pass(pair: PairedEncoder, models: Path, tmp_path: Path) -> None:
    other = StaticEncoder(make_model(tmp_path / "others", {"embeddings": VECTORS[::-1].copy()}))
    message = r"built with the query encoder queries \(static\), and the specified query encoder is others \(static\)"
    with pytest.raises(EncoderMismatch, match=message):
        check_spec(pair.spec, other.spec)
    documents = SentenceTransformersEncoder(models / "documents", device="cpu")
    with pytest.raises(EncoderMismatch, match="query name 'queries' in the library and 'others' in the enc"):
        check_spec(pair.spec, PairedEncoder(documents, other).spec)
    with pytest.raises(EncoderMismatch, match=r"query encoder queries .* query encoder is documents"):
        check_spec(pair.spec, documents.spec)
    with pytest.raises(EncoderMismatch, match="query None in the library and 'queries' in the encoder"):
        check_spec(documents.spec, pair.spec)
    # Its files may be unknown, as those of a service.
    with pytest.raises(EncoderMismatch, match="The encoder others returns another vector for the probe text"):
        check_probe(other, probe(pair))


def test_the_probe_is_a_query(models: Path, tmp_path: Path) -> None:
    """Of two models that differ only in the prompt of queries, one does not pass for the other."""
    encoders = []
    for prompt in ("dark matter in galaxies ", "graph neural network "):
        folder = shutil.copytree(models / "documents", tmp_path / prompt[:5].strip())
        config = json.loads((folder / "config_sentence_transformers.json").read_text())
        config["prompts"] = {"query": prompt, "document": ""}
        (folder / "config_sentence_transformers.json").write_text(json.dumps(config))
        encoders.append(SentenceTransformersEncoder(folder, device="cpu"))
    dark, graph = encoders
    check_probe(dark, probe(dark))
    with pytest.raises(EncoderMismatch, match="returns another vector for the probe text"):
        check_probe(graph, probe(dark))


def test_other_term_weights_do_not_pass(splade: SentenceTransformersEncoder) -> None:
    stored = probe(splade)
    check_probe(splade, stored)
    stored["sparse"]["indices"][0] -= 1
    with pytest.raises(EncoderMismatch, match="returns another vector for the probe text"):
        check_probe(splade, stored)


# -- services -------------------------------------------------------------------------------------------
