from collections.abc import Sequence

import numpy as np
import pytest

from scholarbase.errors import LibraryCorrupt
from scholarbase.indexes.frequencies import ANY_TERM
from scholarbase.indexes.vectors.bm25 import (
    Bm25Parameters,
    Bm25Text,
    round_document,
)
from scholarbase.search.legs import Bm25Queries, round_query


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
    # k1 * (1 - b + b * 6 / 10) = 1 * 0.7 = 0.7, and a term's weight is tf * 2 / (tf + 0.7): 1.6216, 1.4815 and 1.1765.
    # In 256ths these are 415.1, 379.3 and 301.2.
    assert weights(text, "Neural graph", "The neural kernel.") == {
        term(text, "neural"): 415 / 256,
        term(text, "graph"): 379 / 256,
        term(text, "kernel"): 301 / 256,
    }


def test_a_querys_weights_are_the_idf_of_its_terms(text: Bm25Text) -> None:
    neural, graph, kernel = (term(text, word) for word in ("neural", "graph", "kernel"))
    asked = []

    def frequencies(terms: Sequence[int], day: int | None) -> dict[int, int]:
        asked.append((sorted(terms), day))
        return {ANY_TERM: 1000, neural: 300, graph: 7}

    vector = Bm25Queries(text, frequencies).vector("The neural graph kernel, a neural paper", 20150630)
    # ln(1 + 700.5 / 300.5) = 1.2035, ln(1 + 993.5 / 7.5) = 4.8939, and of a term that no paper has
    # ln(1 + 1000.5 / 0.5) = 7.6019. In 32nds these are 38.5, 156.6 and 243.3.
    assert dict(zip(vector.indices, vector.values, strict=True)) == {
        neural: 39 / 32,
        graph: 157 / 32,
        kernel: 243 / 32,
    }
    assert asked == [(sorted([neural, graph, kernel]), 20150630)]


def test_a_query_of_stop_words_alone_looks_nothing_up(text: Bm25Text) -> None:
    def frequencies(terms: Sequence[int], day: int | None) -> dict[int, int]:
        raise AssertionError("no term to look up")

    assert Bm25Queries(text, frequencies).vector("Which studies show this?").indices == []


def test_terms_are_distinct(text: Bm25Text) -> None:
    for vector in (
        text.document("Attention is all you need", "We propose a new architecture"),
        text.query("b c d e e"),
    ):
        assert len(vector.indices) == len(set(vector.indices)) > 2


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


@pytest.mark.parametrize("word", ["θεωρία", "машинное", "学习", "ñandú", "ø"])
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


def test_parameters_survive_the_manifest() -> None:
    parameters = Bm25Parameters(k1=0.9, b=0.4, average_length=103.25, title_weight=3)
    assert Bm25Parameters.from_dict(parameters.to_dict()) == parameters


@pytest.mark.parametrize(
    "wrong", [{"k1": -1.0}, {"b": 1.5}, {"average_length": 0.0}, {"title_weight": 0}, {"k2": 1.0}]
)
def test_parameters_outside_of_bm25s_domain_are_rejected(wrong: dict[str, float]) -> None:
    with pytest.raises(LibraryCorrupt, match=next(iter(wrong))):
        Bm25Parameters.from_dict(wrong)


# -- rounding -------------------------------------------------------------------------------------------


def test_document_weights_are_in_256ths_and_never_nothing() -> None:
    assert round_document([1.0, 0.25, 1.9999, 0.0021, 0.0001]) == [1.0, 64 / 256, 512 / 256, 1 / 256, 1 / 256]
    assert round_document([]) == []


def test_query_weights_are_in_32nds_and_never_nothing() -> None:
    assert round_query([1.0, 3.14159, 0.02, 0.0001], 2.0) == [1.0, 101 / 32, 1 / 32, 1 / 32]
    assert round_query([], 2.0) == []


def test_the_weights_of_a_long_query_have_a_greater_step() -> None:
    # 100 weights of 10.01 add up to less than 1,024: 320.3 in 32nds. 200 do not: 160.2 in 16ths.
    assert round_query([10.01] * 100, 2.0) == [320 / 32] * 100
    assert round_query([10.01] * 200, 2.0) == [160 / 16] * 200
    assert round_query([10.03] * 200, 2.0) == [160 / 16] * 200
    assert round_query([10.04] * 200, 2.0) == [161 / 16] * 200
    # With weights of documents up to 6 a score may be 6,024. Eighths are exact up to 8,192.
    assert round_query([10.04] * 100, 6.0) == [80 / 8] * 100


@pytest.mark.parametrize("terms", [3, 130, 3000])
def test_no_order_of_the_sum_changes_a_score(terms: int) -> None:
    random = np.random.default_rng(8)
    query = round_query(random.uniform(0.01, 15.7, terms).tolist(), 2.0)
    document = round_document(random.uniform(0.5, 2.0, terms).tolist())
    exact = sum(int(q * 2**20) * int(d * 2**20) for q, d in zip(query, document, strict=True)) / 2**40
    products = np.array(query, np.float32) * np.array(document, np.float32)
    for _ in range(20):
        total = np.float32(0)
        for product in random.permutation(products):
            total += product
        assert float(total) == exact
