"""Fusion of scores, compared with values computed by hand."""

import pytest

from scholarbase.indexes.vectors.base import ScoredId
from scholarbase.search.fusion import combine, scaled, stands_out, zero
from scholarbase.search.legs import append_scaled

SPARSE = [ScoredId(7, 12.0), ScoredId(3, 9.0), ScoredId(9, 6.0)]
DENSE = [ScoredId(3, 0.9), ScoredId(4, 0.5), ScoredId(7, 0.1)]
WEIGHTS = {"bm25": 0.4, "dense": 0.6}


def test_a_score_is_the_weighted_sum_of_scaled_scores() -> None:
    """Complete legs: BM25 from 0 to 12, cosines from the floor 0.1 to 0.9."""
    hits, count, _ = combine({"bm25": SPARSE, "dense": DENSE}, WEIGHTS, {"bm25": 0.0, "dense": 0.1}, limit=10)
    expected = {3: 0.4 * 9 / 12 + 0.6, 7: 0.4 + 0.6 * 0, 4: 0.6 * 0.5, 9: 0.4 * 6 / 12}
    assert [hit.id for hit in hits] == [3, 7, 4, 9]
    assert [hit.score for hit in hits] == pytest.approx(list(expected.values()))
    assert count == 4


def test_the_last_score_of_a_leg_that_was_cut_is_zero() -> None:
    """Papers behind the cut may score anything up to it, and they add nothing."""
    assert zero(SPARSE, 3, 0.0) == 6.0
    assert zero(SPARSE, 4, 0.0) == 0.0
    assert zero([], 4, 0.5) == 0.5
    assert scaled(SPARSE, 6.0).tolist() == [1.0, 0.5, 0.0]
    assert scaled(SPARSE, 0.0).tolist() == [1.0, 0.75, 0.5]


def test_equal_scores_and_single_results_count_whole() -> None:
    assert scaled([ScoredId(1, 5.0)], 5.0).tolist() == [1.0]
    assert scaled([ScoredId(1, 5.0), ScoredId(2, 5.0)], 5.0).tolist() == [1.0, 1.0]
    assert scaled([], 0.0).tolist() == []


def test_scores_below_the_floor_stay_between_0_and_1() -> None:
    """A request can lower the floor below 0."""
    hits = [ScoredId(1, 0.5), ScoredId(2, -0.5)]
    assert scaled(hits, zero(hits, 10, 0.0)).tolist() == [1.0, 0.0]


def test_ties_break_by_id() -> None:
    hits, _, _ = combine(
        {"bm25": [ScoredId(8, 1.0)], "dense": [ScoredId(2, 1.0)]},
        {"bm25": 0.5, "dense": 0.5},
        {"bm25": 0.0, "dense": 0.0},
        limit=10,
    )
    assert [hit.id for hit in hits] == [2, 8]


def test_an_empty_leg_changes_no_order() -> None:
    hits, _, _ = combine({"bm25": SPARSE, "dense": []}, WEIGHTS, {"bm25": 0.0, "dense": 0.0}, limit=2)
    assert [hit.id for hit in hits] == [7, 3]
    assert combine({}, {}, {}, limit=2) == ([], 0, {})


def test_shares_are_in_the_order_of_each_leg() -> None:
    _, _, shares = combine({"bm25": SPARSE, "dense": DENSE}, WEIGHTS, {"bm25": 0.0, "dense": 0.1}, limit=1)
    assert shares["bm25"].tolist() == pytest.approx([0.4, 0.3, 0.2])
    assert shares["dense"].tolist() == pytest.approx([0.6, 0.3, 0.0])


def test_the_first_results_are_followed_by_the_others() -> None:
    first = [ScoredId(number, 2.0 - number / 100) for number in range(150)]
    whole = [ScoredId(500, 3.0), ScoredId(99, 1.5), ScoredId(120, 0.5), ScoredId(3, 0.4), ScoredId(501, 0.3)]
    hits, scale = append_scaled(first[:100], whole)
    assert hits[:100] == first[:100]
    assert first[99].score == pytest.approx(1.01)
    assert scale == pytest.approx(1.01 / 3)
    assert [hit.id for hit in hits[100:]] == [500, 120, 501]
    assert [hit.score for hit in hits[100:]] == pytest.approx([1.01, 0.5 * 1.01 / 3, 0.3 * 1.01 / 3])
    assert append_scaled(first[:100], whole[2:]) == ([*first[:100], whole[2], whole[4]], 1.0)
    assert append_scaled([], []) == ([], 1.0)


def test_dense_counts_less_where_the_first_result_stands_out() -> None:
    flat = [ScoredId(i, 20.0 - i) for i in range(1, 21)]  # 19 and 10: a factor of 1.9
    level = [ScoredId(i, 100.0 - i) for i in range(1, 21)]
    assert stands_out(flat)
    assert stands_out(flat[:10])
    assert not stands_out(level)
    assert not stands_out(flat[:9])  # too few to compare
    zeros = {"bm25": 0.0, "dense": 0.0}
    _, _, shares = combine({"bm25": flat, "dense": level}, {}, zeros, limit=1)
    assert shares["bm25"][0] == pytest.approx(0.75)
    assert shares["bm25"][9] == pytest.approx(0.375 * (10 / 19 + 100 / 361))
    assert shares["dense"].tolist() == pytest.approx([0.25 * (100 - i) / 99 for i in range(1, 21)])
    _, _, shares = combine({"bm25": level, "dense": flat}, {}, zeros, limit=1)
    assert shares["bm25"].tolist() == pytest.approx([0.45 * (100 - i) / 99 for i in range(1, 21)])
    assert shares["dense"][0] == pytest.approx(0.55)


def test_configured_weights_take_precedence() -> None:
    flat = [ScoredId(i, 20.0 - i) for i in range(1, 21)]
    _, _, shares = combine({"bm25": flat, "dense": []}, {"dense": 2.0}, {"bm25": 0.0, "dense": 0.0}, limit=1)
    assert shares["bm25"].tolist() == pytest.approx([(20 - i) / 19 for i in range(1, 21)])
