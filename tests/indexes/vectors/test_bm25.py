from __future__ import annotations

import pytest

from scholarbase.errors import LibraryCorrupt
from scholarbase.indexes.vectors.bm25 import Bm25Parameters, Bm25Text


@pytest.fixture(scope="module")
def text() -> Bm25Text:
    return Bm25Text(Bm25Parameters(average_length=10.0))


def weights(text: Bm25Text, title: str, abstract: str | None = None) -> dict[int, float]:
    vector = text.document(title, abstract)
    return dict(zip(vector.indices, vector.values, strict=True))


def term(text: Bm25Text, word: str) -> int:
    (index,) = text.query(word).indices
    return index


def test_a_documents_weights_follow_the_formula(text: Bm25Text) -> None:
    # The title counts twice: neural 2, graph 2; the abstract adds neural 1, kernel 1. Six terms of ten:
    # k1 * (1 - b + b * 6 / 10) = 1 * 0.7 = 0.7, and a term's weight is tf * 2 / (tf + 0.7).
    found = weights(text, "Neural graph", "The neural kernel.")
    assert found == pytest.approx(
        {
            term(text, "neural"): 3 * 2 / 3.7,
            term(text, "graph"): 2 * 2 / 2.7,
            term(text, "kernel"): 1 * 2 / 1.7,
        }
    )


def test_each_term_of_a_query_has_weight_1(text: Bm25Text) -> None:
    assert text.query("neural Neural graph NEURAL").values == [1.0, 1.0]


def test_terms_are_distinct(text: Bm25Text) -> None:
    for vector in (
        text.document("Attention is all you need", "We propose a new architecture"),
        text.query("b c d e e"),
    ):
        assert len(vector.indices) == len(set(vector.indices)) > 2


def test_count_tokens_counts_the_title_twice_and_no_stop_words(text: Bm25Text) -> None:
    assert text.count_tokens("Neural graph", "The neural kernel.") == 6
    assert text.count_tokens("The study", None) == 0
    once = Bm25Text(Bm25Parameters(title_weight=1))
    assert once.count_tokens("Neural graph", "The neural kernel.") == 4
    assert once.count_tokens("word " * 5000, None) == 5000


@pytest.mark.parametrize(
    ("written", "other"),
    [
        ("naïve Bayes", "naive bayes"),
        ("Erdős–Rényi", "Erdos-Renyi"),
        ("Gödel’s", "Godel's"),
        ("networks", "network"),
        ("state-of-the-art", "state of the art"),
        ("МОСКВА", "москва"),
        ("ΕΝΤΡΟΠΙΑ", "εντροπια"),
    ],
)
def test_the_same_word_however_it_is_written(text: Bm25Text, written: str, other: str) -> None:
    assert sorted(text.query(written).indices) == sorted(text.query(other).indices)
    assert text.query(written).indices


@pytest.mark.parametrize("word", ["θεωρία", "машинное", "学习", "λ", "ñandú", "ø"])
def test_letters_beyond_ascii_survive(text: Bm25Text, word: str) -> None:
    """Fault: non-ASCII letters were dropped from queries."""
    assert len(text.query(word).indices) == 1
    assert text.query(f"{word} deep").indices != text.query("deep").indices


def test_words_of_every_question_are_left_out(text: Bm25Text) -> None:
    question = text.query(
        "Could you list some papers and studies which show how attention is used in research?"
    )
    assert (question.indices, question.values) == (text.query("attention").indices, [1.0])
    # Words of content are kept, however frequent they are in questions.
    assert len(text.query("survey review benchmark dataset method").indices) == 5


def test_a_question_of_stop_words_alone_is_empty(text: Bm25Text) -> None:
    for question in ("Which studies show this?", "  ?! "):
        assert (text.query(question).indices, text.query(question).values) == ([], [])


def test_parameters_survive_the_manifest() -> None:
    parameters = Bm25Parameters(k1=0.9, b=0.4, average_length=103.25, title_weight=3)
    assert Bm25Parameters.from_dict(parameters.to_dict()) == parameters


@pytest.mark.parametrize(
    "wrong", [{"k1": -1.0}, {"b": 1.5}, {"average_length": 0.0}, {"title_weight": 0}, {"k2": 1.0}]
)
def test_parameters_outside_of_bm25s_domain_are_rejected(wrong: dict[str, float]) -> None:
    with pytest.raises(LibraryCorrupt, match=next(iter(wrong))):
        Bm25Parameters.from_dict(wrong)
