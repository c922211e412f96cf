"""Rerankers in the process, compared with the libraries that they use."""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from scholarbase.deadlines import DEADLINE, time_limit
from scholarbase.errors import Cancelled, RerankerError, TimeLimit
from scholarbase.rerankers.base import BATCH_SIZE, LocalReranker
from scholarbase.rerankers.bge_m3 import BgeM3Reranker
from scholarbase.rerankers.cross_encoder import CrossEncoderReranker
from tests.encoders.tiny_bge_m3 import MAX_POSITIONS, SENTENCES

QUERY = "dense retrieval with hard negatives"
TEXTS = [
    *SENTENCES,
    "",
    "量子 computing",
    "dense retrieval " * 100,  # longer than the models' maximum
    *(f"Passage {number}: {SENTENCES[number % 6]}" for number in range(2 * BATCH_SIZE)),
]


@pytest.fixture(scope="module")
def cross_encoder(cross_encoder_folder: Path) -> Iterator[CrossEncoderReranker]:
    reranker = CrossEncoderReranker(cross_encoder_folder, device="cpu")
    yield reranker
    reranker.close()


@pytest.fixture(scope="module")
def colbert(tiny_bge_m3_folder: Path) -> Iterator[BgeM3Reranker]:
    reranker = BgeM3Reranker(tiny_bge_m3_folder, device="cpu")
    yield reranker
    reranker.close()


def test_scores_are_those_of_the_cross_encoder(
    cross_encoder: CrossEncoderReranker, cross_encoder_folder: Path
) -> None:
    from sentence_transformers import CrossEncoder

    model = CrossEncoder(str(cross_encoder_folder), device="cpu")
    theirs = model.predict([(QUERY, text) for text in TEXTS], show_progress_bar=False)
    ours = cross_encoder.score(QUERY, TEXTS)
    assert ours.dtype == np.float32
    assert np.ptp(theirs) > 0.1
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.slow
def test_scores_are_those_of_flag_embedding(colbert: BgeM3Reranker, tiny_bge_m3_folder: Path) -> None:
    from FlagEmbedding import BGEM3FlagModel

    model = BGEM3FlagModel(str(tiny_bge_m3_folder), devices="cpu", use_fp16=False)
    query, *texts = model.encode([QUERY, *TEXTS], return_colbert_vecs=True, max_length=MAX_POSITIONS - 2)[
        "colbert_vecs"
    ]
    theirs = [float(model.colbert_score(query, text)) for text in texts]
    ours = colbert.score(QUERY, TEXTS)
    assert ours.dtype == np.float32
    assert np.ptp(theirs) > 0.1
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.fixture(params=["cross-encoder", "bge-m3"])
def model(
    request: pytest.FixtureRequest, cross_encoder: CrossEncoderReranker, colbert: BgeM3Reranker
) -> LocalReranker:
    return cross_encoder if request.param == "cross-encoder" else colbert


def test_no_texts_have_no_scores(model: LocalReranker) -> None:
    assert model.score(QUERY, []).shape == (0,)


@pytest.mark.slow
def test_threads_get_their_own_scores(model: LocalReranker) -> None:
    queries = [QUERY, "the mass of the top quark", "machine translation"] * 3
    alone = {query: model.score(query, SENTENCES) for query in queries}
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda query: model.score(query, SENTENCES), queries))
    for query, scores in zip(queries, together, strict=True):
        np.testing.assert_array_equal(scores, alone[query])


@pytest.mark.slow
def test_a_time_limit_that_is_over_stops_it(model: LocalReranker) -> None:
    with (
        time_limit(1e-9),
        pytest.raises(TimeLimit, match=r"Reranking was stopped at .* use a smaller rerank_depth"),
    ):
        model.score(QUERY, TEXTS)


def test_the_time_limit_is_checked_between_batches(cross_encoder: CrossEncoderReranker) -> None:
    batches: list[int] = []

    def cancel(*_: object) -> None:
        batches.append(1)
        deadline = DEADLINE.get()
        assert deadline is not None
        deadline.cancel()

    hook = cross_encoder._model.register_forward_hook(cancel)
    try:
        with time_limit(600), pytest.raises(Cancelled):
            cross_encoder.score(QUERY, TEXTS)
    finally:
        hook.remove()
    assert len(batches) == 1
    assert len(TEXTS) > 2 * BATCH_SIZE


@pytest.mark.slow
def test_scores_that_are_not_finite_are_an_error(cross_encoder_folder: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(cross_encoder_folder, tmp_path / "nan")
    weights = load_file(folder / "model.safetensors")
    weights["classifier.bias"] = weights["classifier.bias"] * float("nan")
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(
        RerankerError, match="The model nan returned the score nan for text 1 of 2, which is not"
    ):
        CrossEncoderReranker(folder, "cpu").score(QUERY, ["a", "b"])
