"""What the base class does whatever the engine is."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scholarbase.errors import VectorIndexError
from scholarbase.indexes.filters import NO_FILTERS, ResolvedFilters
from scholarbase.indexes.vectors.base import BM25, ScoredId, SparseVector, VectorConfig
from scholarbase.indexes.vectors.index import VectorIndex

QUERY = SparseVector([1], [1.0])


class Ranked(VectorIndex):
    """An index that returns the first of these points for every query."""

    def __init__(self, points: Sequence[Any]) -> None:
        super().__init__(VectorConfig())
        self.ranked = points

    def nearest(
        self, name: str, vector: Any, limit: int, filters: ResolvedFilters, *, ef: int | None
    ) -> Sequence[Any]:
        return self.ranked[:limit]

    def count_points(self, filters: ResolvedFilters, vector: str | None) -> int:
        raise NotImplementedError

    def values(self, field: str, most: int) -> dict[str, int]:
        raise NotImplementedError

    def first(self, filters: ResolvedFilters, order: Any = None) -> Any:
        raise NotImplementedError

    def retrieve(self, name: str, ids: Sequence[int]) -> Sequence[Any]:
        raise NotImplementedError

    def scroll(self, offset: Any, limit: int, *, payload: bool, vectors: bool) -> tuple[list[Any], Any]:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


@given(
    scores=st.lists(st.sampled_from([0.5, 1.0, 1.5, 2.0]), max_size=120),
    limit=st.integers(1, 130),
    seed=st.integers(0, 1000),
)
def test_hits_are_the_first_of_a_full_sort_in_whatever_order_the_engine_returns_ties(
    scores: list[float], limit: int, seed: int
) -> None:
    hits = [ScoredId(number, score) for number, score in enumerate(scores)]
    shuffled = [hits[i] for i in np.random.default_rng(seed).permutation(len(hits))]
    ranked = sorted(shuffled, key=lambda hit: -hit.score)
    expected = sorted(hits, key=lambda hit: (-hit.score, hit.id))[:limit]
    assert Ranked(ranked).search_sparse(BM25, QUERY, limit, NO_FILTERS) == expected


def test_a_point_of_another_program_is_an_error() -> None:
    hits = [ScoredId(3, 2.0), ScoredId("a-uuid", 1.0)]  # type: ignore[arg-type]  # as another program would name it
    with pytest.raises(VectorIndexError, match="'a-uuid' is not an integer"):
        Ranked(hits).search_sparse(BM25, QUERY, 10, NO_FILTERS)
