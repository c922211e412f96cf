"""Overlap of texts: Lin's example, values of rouge-score 0.1.2 and manual counts."""

import pytest

from scholarbase_research.evaluation.qa.overlap import evidence_f1, rouge, token_f1

EPOCHS = "The model was trained with the Adam optimizer for 10 epochs at a learning rate of 1e-4."


@pytest.mark.parametrize(
    ("answer", "reference", "expected"),
    [
        ("the cat sat on the mat", "the cat is on the mat", (0.833333, 0.6, 0.833333)),
        ("A B C D B D A B", "B D C A B A", (0.857143, 0.333333, 0.571429)),
        ("", "x", (0, 0, 0)),
        ("Results: 42.5% (Table 3).", "The result is 42.5 % in Table 3", (0.615385, 0.363636, 0.615385)),
        ("naïve Bayes", "naive bayes", (0.4, 0, 0.4)),
        ("one", "one", (1, 0, 1)),
        ("We train for 10 epochs with Adam, lr=1e-4.", EPOCHS, (0.5, 0.230769, 0.357143)),
    ],
)
def test_rouge_has_the_values_of_rouge_score(
    answer: str, reference: str, expected: tuple[float, ...]
) -> None:
    assert rouge(answer, reference) == pytest.approx(expected, abs=1e-6)
    assert rouge(answer, reference).mean == pytest.approx(sum(expected) / 3, abs=1e-6)


@pytest.mark.parametrize(
    ("answer", "reference", "expected"),
    [
        ("The cat sat.", "a cat sat", 1.0),
        ("cat sat", "cat sat down here", 2 * 1 * 0.5 / 1.5),
        ("cat cat", "cat", 2 * 0.5 * 1 / 1.5),
        ("dog", "cat", 0.0),
        ("the", "", 1.0),
        ("", "cat", 0.0),
        ("state-of-the-art", "stateoftheart", 1.0),
    ],
)
def test_token_f1(answer: str, reference: str, expected: float) -> None:
    assert token_f1(answer, reference) == pytest.approx(expected)


def test_evidence_counts_passages_as_sets() -> None:
    # Two of three that are named, and of five, are in both.
    assert evidence_f1(["p 1", "p  1", "p2", "p3"], ["p 1", "p2", "p4", "p5", "p6"]) == pytest.approx(0.5)
    assert evidence_f1([], []) == 1
    assert evidence_f1([], ["p1"]) == evidence_f1(["p1", " "], []) == 0
