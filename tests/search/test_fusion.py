"""Reciprocal rank fusion, compared with values computed by hand and with Qdrant's own."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qdrant_client.hybrid.fusion import reciprocal_rank_fusion
from qdrant_client.models import ScoredPoint

from scholarbase.errors import InvalidRequest
from scholarbase.indexes.vectors.base import ScoredId
from scholarbase.search.fusion import FusionTable, fuse, fuse_first

SPARSE = [ScoredId(7, 12.5), ScoredId(3, 11.0), ScoredId(9, 2.0)]
DENSE = [ScoredId(3, 0.9), ScoredId(4, 0.8), ScoredId(7, 0.7)]


def test_scores_are_the_sums_of_the_published_formula() -> None:
    fused = fuse({"sparse": SPARSE, "dense": DENSE})
    expected = {
        3: Fraction(1, 62) + Fraction(1, 61),
        7: Fraction(1, 61) + Fraction(1, 63),
        4: Fraction(1, 62),
        9: Fraction(1, 63),
    }
    assert [f.id for f in fused] == [3, 7, 4, 9]
    assert [f.score for f in fused] == pytest.approx([float(score) for score in expected.values()], rel=1e-15)


def test_shares_explain_the_score() -> None:
    seven = fuse({"sparse": SPARSE, "dense": DENSE})[1]
    assert seven.shares["sparse"] == (1, 12.5, 1 / 61)
    assert seven.shares["dense"] == (3, 0.7, 1 / 63)
    only_dense = fuse({"sparse": SPARSE, "dense": DENSE})[2]
    assert set(only_dense.shares) == {"dense"}


def test_qdrant_counts_ranks_from_zero_so_that_its_61_is_our_60() -> None:
    def points(leg: list[ScoredId]) -> list[ScoredPoint]:
        return [ScoredPoint(id=i, version=0, score=s) for i, s in leg]

    theirs = reciprocal_rank_fusion([points(SPARSE), points(DENSE)], limit=10, ranking_constant_k=61)
    ours = fuse({"sparse": SPARSE, "dense": DENSE}, k=60)
    assert [f.id for f in ours] == [p.id for p in theirs]
    assert [f.score for f in ours] == pytest.approx([p.score for p in theirs])


def test_weights_scale_a_leg() -> None:
    fused = fuse({"sparse": SPARSE, "dense": DENSE}, weights={"dense": 0.0})
    assert [(f.id, f.score) for f in fused] == [(7, 1 / 61), (3, 1 / 62), (9, 1 / 63), (4, 0.0)]
    doubled = fuse({"sparse": SPARSE, "dense": DENSE}, weights={"dense": 2.0})
    assert next(f.score for f in doubled if f.id == 4) == pytest.approx(2 / 62)


def test_ties_break_by_id_and_not_by_the_order_of_legs() -> None:
    one, two = [ScoredId(8, 1.0)], [ScoredId(2, 1.0)]
    assert [f.id for f in fuse({"a": one, "b": two})] == [2, 8]
    assert [f.id for f in fuse({"b": two, "a": one})] == [2, 8]


def test_no_legs_and_empty_legs_fuse_to_an_empty_list() -> None:
    assert fuse({}) == []
    assert fuse({"sparse": [], "dense": []}) == []


def test_a_paper_twice_in_a_leg_is_an_error() -> None:
    with pytest.raises(ValueError, match="'sparse' ranks paper 7 twice"):
        fuse({"sparse": [ScoredId(7, 2.0), ScoredId(7, 1.0)]})


@pytest.mark.parametrize(
    ("k", "weights"),
    [
        (-1, None),
        (float("nan"), None),
        (60, {"dense": -1.0}),
        (60, {"dense": float("inf")}),
        (60, {"title": 1.0}),
    ],
)
def test_invalid_constants_are_rejected(k: float, weights: dict[str, float] | None) -> None:
    with pytest.raises(InvalidRequest):
        fuse({"dense": DENSE}, k=k, weights=weights)


LEG = st.lists(st.integers(1, 40), unique=True, max_size=30)


@given(
    LEG,
    LEG,
    st.integers(1, 35),
    st.integers(1, 50),
    st.sampled_from([0, 1, 20, 60]),
    st.sampled_from([(1.0, 1.0), (0.5, 2.0), (0.0, 1.0), (3.0, 0.0), (0.0, 0.0), (1.0, 0.1)]),
)
def test_a_table_ranks_as_fuse_does(
    first: list[int], second: list[int], depth: int, limit: int, k: int, weights: tuple[float, float]
) -> None:
    legs = {"a": first[:depth], "b": second[:depth]}
    fused = fuse(
        {name: [ScoredId(paper, 1.0) for paper in leg] for name, leg in legs.items()},
        k=k,
        weights=dict(zip(legs, weights, strict=True)),
    )
    best = FusionTable(first, second, depth=depth).best(limit, k=k, weights=weights)
    assert best.tolist() == [paper.id for paper in fused[:limit]]


def test_a_paper_twice_in_a_leg_of_a_table_is_an_error() -> None:
    with pytest.raises(ValueError, match="twice"):
        FusionTable([1, 2, 1], [3], depth=10)


@given(
    st.lists(st.integers(0, 30), unique=True),
    st.lists(st.integers(0, 30), unique=True),
    st.integers(1, 70),
    st.sampled_from([(1.0, 1.0), (1.5, 1.0), (0.0, 1.0)]),
    st.integers(1, 40),
)
def test_a_tables_scores_equal_those_of_fuse_to_the_last_bit(
    first: list[int], second: list[int], k: int, weights: tuple[float, float], limit: int
) -> None:
    legs = {"a": [ScoredId(i, 1.0) for i in first], "b": [ScoredId(i, 1.0) for i in second]}
    fused = fuse(legs, k=k, weights=dict(zip("ab", weights, strict=True)))
    table = FusionTable(first, second, depth=50)
    assert table.best_scored(limit, k=k, weights=weights) == [(f.id, f.score) for f in fused[:limit]]


@given(st.lists(st.lists(st.integers(0, 30), unique=True), min_size=1, max_size=4), st.integers(1, 40))
def test_any_number_of_legs_is_fused_alike_with_and_without_explanations(
    legs: list[list[int]], limit: int
) -> None:
    lists = {str(number): [ScoredId(paper, 1.0) for paper in leg] for number, leg in enumerate(legs)}
    explained, plain = (fuse_first(lists, limit, weights={}, explain=explain) for explain in (True, False))
    assert plain[:2] == explained[:2]
