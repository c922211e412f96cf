"""Passages of a paper, ranked without an index."""

import math

import pytest
from rank_bm25 import BM25Okapi

from scholarbase.documents.ranking import rank_passages

PASSAGES = [
    "We train a model of proteins.",
    "The energy of the ground state is low.",
    "Proteins fold; the model predicts how proteins fold.",
    "Thanks to all.",
    "Our data are public.",
]


def test_a_score_computed_by_hand() -> None:
    """*fold* is in one of five passages, twice among its eight words; the passages have 6 + 8 + 8 + 3 + 4 words."""
    [(place, score)] = rank_passages(PASSAGES, "fold")
    idf = math.log(5 - 1 + 0.5) - math.log(1 + 0.5)
    assert place == 2
    assert score == pytest.approx(idf * 2 * 2.5 / (2 + 1.5 * (0.25 + 0.75 * 8 / (29 / 5))))


def test_scores_are_those_of_rank_bm25() -> None:
    words = [passage.lower().replace(".", "").replace(";", "").split() for passage in PASSAGES]
    expected = BM25Okapi(words, k1=1.2, b=0.5).get_scores(["model", "proteins", "energy"])
    ranked = rank_passages(PASSAGES, "Model, PROTEINS? energy!", k1=1.2, b=0.5)
    assert [place for place, _ in ranked] == [1, 2, 0]  # energy is in one passage, the others in two
    assert [score for _, score in ranked] == pytest.approx([expected[1], expected[2], expected[0]])


def test_passages_without_a_word_of_the_query_are_left_out() -> None:
    assert rank_passages(PASSAGES, "quantum gravity") == []
    assert rank_passages(PASSAGES, "?!") == []
    assert rank_passages([], "model") == []
    assert rank_passages(["", "..."], "model") == []


def test_equal_passages_are_in_their_order() -> None:
    texts = ["other words", "the same", "more of it", "the same", "the same", "once more", "and more", "yes"]
    assert [place for place, _ in rank_passages(texts, "same")] == [1, 3, 4]


@pytest.mark.parametrize(
    ("texts", "places"),
    [
        (["a model"], [0]),
        (["a model", "a model"], [0, 1]),
        (["a dog", "a model"], [1]),  # a word in half of the passages has the weight 0 in rank-bm25
        (["a model of some kind", "a model of a model", "the model of all that", "dog"], [1, 0, 2]),
        (["model of all", "cat", "dog model model", "the model x"], [2, 0, 3]),
    ],
)
def test_a_frequent_word_loses_no_passage_and_counts_for_it(texts: list[str], places: list[int]) -> None:
    ranked = rank_passages(texts, "model")
    assert [place for place, _ in ranked] == places
    assert all(score > 0 for _, score in ranked)


def test_ligatures_and_composed_letters_match() -> None:
    ranked = rank_passages(["an e\ufb03cient way", "a caf\u00e9", "no match"], "efficient cafe\u0301")
    assert {place for place, _ in ranked} == {0, 1}
