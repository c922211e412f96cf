import numpy as np
import pytest

from scholarbase.indexes.vectors.base import ScoredId
from scholarbase.search.legs import (
    CONSIDERED,
    DENSE_FEEDBACK_PAPERS,
    DENSE_FEEDBACK_WEIGHT,
    expanded_vector,
    first_papers,
)


def test_the_expanded_vector_is_that_of_rocchio() -> None:
    query = np.array([1, 0, 0], dtype=np.float32)
    papers = [np.array([0, 1, 0], dtype=np.float32), np.array([0, 0, 1], dtype=np.float32)]
    mean = np.array([0, 1, 1]) / np.sqrt(2)
    expected = query + DENSE_FEEDBACK_WEIGHT * mean
    np.testing.assert_allclose(expanded_vector(query, papers), expected / np.linalg.norm(expected), rtol=1e-6)
    assert expanded_vector(query, papers).dtype == np.float32


def test_without_papers_and_with_opposite_ones_the_vector_stays() -> None:
    query = np.array([1, 0], dtype=np.float32)
    up = np.array([0, 1], dtype=np.float32)
    np.testing.assert_array_equal(expanded_vector(query, []), query)
    np.testing.assert_array_equal(expanded_vector(query, [up, -up]), query)


def test_first_papers_are_those_of_both_legs() -> None:
    sparse = [ScoredId(i, 1.0) for i in (5, 6, 7, 8, 9, 10)]
    dense = [ScoredId(i, 1.0) for i in (20, 7, 5, 21)]
    assert first_papers(sparse, dense)[:2] == [5, 7]
    assert len(first_papers(sparse, dense)) == DENSE_FEEDBACK_PAPERS
    assert first_papers([], dense) == [20, 7, 5, 21]
    assert first_papers([], []) == []


@pytest.mark.parametrize("leg", ["sparse", "dense"])
def test_results_far_down_are_not_considered(leg: str) -> None:
    long = [ScoredId(i, 1.0) for i in range(1, CONSIDERED + 100)]
    last = [long[-1]]
    found = first_papers(long, last) if leg == "sparse" else first_papers(last, long)
    assert len(long) in found  # first of one leg, and its place in the other has no effect
    assert found[0] == 1
