from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scholarbase.indexes.vectors.base import ScoredId
from scholarbase.indexes.vectors.cut import best


@given(
    scores=st.lists(st.sampled_from([0.5, 1.0, 1.5, 2.0]), max_size=120),
    limit=st.integers(1, 130),
    seed=st.integers(0, 1000),
)
def test_the_cut_is_that_of_a_full_sort_however_the_engine_orders_ties(
    scores: list[float], limit: int, seed: int
) -> None:
    hits = [ScoredId(number, score) for number, score in enumerate(scores)]
    as_it_likes = [hits[i] for i in np.random.default_rng(seed).permutation(len(hits))]
    ranked = sorted(as_it_likes, key=lambda hit: -hit.score)
    expected = sorted(hits, key=lambda hit: (-hit.score, hit.id))[:limit]
    assert best(lambda count: ranked[:count], limit) == expected
