"""Reciprocal rank fusion, compared with values computed by hand and with Qdrant's own."""

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scholarbase.indexes.vectors.base import ScoredId
from scholarbase.search.fusion import fuse

SPARSE = [ScoredId(7, 12.5), ScoredId(3, 11.0), ScoredId(9, 2.0)]
DENSE = [ScoredId(3, 0.9), ScoredId(4, 0.8), ScoredId(7, 0.7)]


def test_scores_are_the_sums_of_the_published_formula() -> None:
    fused, count, _ = fuse({"sparse": SPARSE, "dense": DENSE})
    assert count == 4
    expected = {
        3: Fraction(1, 62) + Fraction(1, 61),
        7: Fraction(1, 61) + Fraction(1, 63),
        4: Fraction(1, 62),
        9: Fraction(1, 63),
    }
    assert [f.id for f in fused] == [3, 7, 4, 9]
    assert [f.score for f in fused] == pytest.approx([float(score) for score in expected.values()], rel=1e-15)


def test_shares_explain_the_score() -> None:
    fused, _, explanations = fuse({"sparse": SPARSE, "dense": DENSE}, 3, explain=True)
    assert list(explanations) == [hit.id for hit in fused] == [3, 7, 4]
    told = [(leg.leg, leg.rank, leg.score, leg.share) for leg in explanations[7]]
    assert told == [("sparse", 1, 12.5, 1 / 61), ("dense", 3, 0.7, 1 / 63)]
    assert [leg.leg for leg in explanations[4]] == ["dense"]


def test_a_paper_twice_in_a_leg_is_an_error() -> None:
    with pytest.raises(ValueError, match="ranks a paper twice"):
        fuse({"sparse": [ScoredId(7, 2.0), ScoredId(7, 1.0)]})


def exactly(legs: list[list[int]], k: int, weights: Sequence[float]) -> list[tuple[int, float]]:
    """The papers of legs with their scores, each the exact sum rounded once."""
    scores: dict[int, Fraction] = {}
    for leg, weight in zip(legs, weights, strict=True):
        for rank, paper in enumerate(leg, 1):
            scores[paper] = scores.get(paper, Fraction(0)) + Fraction(weight / (k + rank))
    return sorted(
        ((paper, float(score)) for paper, score in scores.items()), key=lambda pair: (-pair[1], pair[0])
    )


LEG = st.lists(st.integers(1, 40), unique=True, max_size=30)


@given(
    LEG,
    LEG,
    st.integers(1, 50),
    st.sampled_from([0, 1, 20, 60]),
    st.sampled_from([(1.0, 1.0), (0.5, 2.0), (0.0, 1.0), (3.0, 0.0), (0.0, 0.0), (1.0, 0.1)]),
)
def test_two_legs_are_ranked_as_the_formula(
    first: list[int], second: list[int], limit: int, k: int, weights: tuple[float, float]
) -> None:
    lists = {
        str(number): [ScoredId(paper, 1.0) for paper in leg] for number, leg in enumerate((first, second))
    }
    named = {str(number): weight for number, weight in enumerate(weights)}
    assert fuse(lists, limit, k=k, weights=named)[0] == exactly([first, second], k, weights)[:limit]


@given(
    st.lists(st.lists(st.integers(0, 30), unique=True), min_size=1, max_size=4),
    st.integers(1, 70),
    st.sampled_from([1.0, 1.5, 0.0]),
    st.integers(1, 40),
)
def test_scores_are_the_sums_to_the_last_bit_with_and_without_explanations(
    legs: list[list[int]], k: int, weight: float, limit: int
) -> None:
    lists = {str(number): [ScoredId(paper, 1.0) for paper in leg] for number, leg in enumerate(legs)}
    expected = exactly(legs, k, [weight, *[1.0] * (len(legs) - 1)])
    for explain in (True, False):
        fused, count, explanations = fuse(lists, limit, k=k, weights={"0": weight}, explain=explain)
        assert (fused, count) == (expected[:limit], len(expected))
        assert list(explanations) == ([paper for paper, _ in fused] if explain else [])
