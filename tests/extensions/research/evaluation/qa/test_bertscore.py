"""BERTScore with a checkpoint of random weights; the expected values are computed from its vectors."""

from __future__ import annotations

from pathlib import Path

import pytest

from scholarbase.errors import EncoderError, InvalidRequest
from scholarbase_research.evaluation.qa.bertscore import BertScorer
from tests.rerankers.tiny_cross_encoder import make_tiny_cross_encoder

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("bert_score")
    return make_tiny_cross_encoder(tmp_path_factory.mktemp("checkpoint"))


def f1(folder: Path, answer: str, reference: str) -> float:
    """Greedy matching of contextual vectors, as section 3 of the paper defines it.

    In bert-score the special tokens at both ends weigh 0, and may be the nearest of others.
    """
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()

    def vectors(text: str) -> torch.Tensor:
        with torch.no_grad():
            out = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True).hidden_states[1][0]
        return torch.nn.functional.normalize(out, dim=-1)

    cosines = vectors(answer) @ vectors(reference).T
    precision, recall = cosines[1:-1].max(1).values.mean(), cosines[:, 1:-1].max(0).values.mean()
    return float(2 * precision * recall / (precision + recall))


def test_f1_of_the_best_reference(checkpoint: Path) -> None:
    scorer = BertScorer(checkpoint, 1)
    found = scorer(["the cat sat", "same"], [["a dog ran far away", "the cat"], ["same"]])
    expected = max(f1(checkpoint, "the cat sat", text) for text in ("a dog ran far away", "the cat"))
    assert found == pytest.approx([expected, 1.0], abs=1e-4)
    assert 0 < expected < 1


def test_a_wrong_folder_or_layer_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"config\.json"):
        BertScorer(tmp_path, 1)
    with pytest.raises(EncoderError, match="layer 9"):
        BertScorer(checkpoint, 9)(["a"], [["a"]])
