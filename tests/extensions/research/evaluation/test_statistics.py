"""Intervals and paired tests, against enumeration, scipy's own figures and simulated data."""

import itertools

import numpy as np
import pytest

from scholarbase.errors import InvalidRequest
from scholarbase_research.evaluation.statistics import bootstrap_interval, paired_test


def enumerated(differences: list[float]) -> float:
    """The share of all ways to set the signs whose sum is at least as far from 0."""
    observed = abs(sum(differences))
    flips = list(itertools.product((1, -1), repeat=len(differences)))
    far = [abs(sum(s * d for s, d in zip(signs, differences, strict=True))) for signs in flips]
    return sum(value >= observed - 1e-12 for value in far) / len(flips)


@pytest.mark.parametrize(("n", "seed"), [(1, 0), (2, 1), (4, 2), (6, 3), (8, 4)])
def test_the_paired_test_of_few_queries_counts_every_flip(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    # Recall values have few levels, so that sums tie and some differences are 0.
    a, b = rng.integers(0, 5, n) / 4, rng.integers(0, 5, n) / 4
    tested = paired_test(a, b)
    assert tested.test == "exact"
    assert tested.n == n
    assert tested.difference == pytest.approx(float((b - a).mean()))
    assert tested.p == pytest.approx(enumerated((b - a).tolist()))


def test_queries_that_did_not_change_change_no_p_value() -> None:
    few = paired_test([0, 0, 0, 0], [0.1, 0.2, -0.3, 0.4])
    many = paired_test([0.0] * 2000, [0.1, 0.2, -0.3, 0.4] + [0.0] * 1996)
    assert many.p == pytest.approx(few.p)
    assert many.difference == pytest.approx(few.difference / 500)
    assert many.test == "exact"


def test_more_queries_than_a_float_has_flips_for_are_tested() -> None:
    rng = np.random.default_rng(5)
    a = rng.random(1500)
    tested = paired_test(a, a + rng.normal(0, 0.1, 1500), resamples=500)
    assert tested.test == "random"
    assert 0 < tested.p <= 1


def test_the_least_p_value_that_drawn_flips_can_show_is_one_in_all_of_them_and_one() -> None:
    assert paired_test([0.0] * 50, [0.5] * 50, resamples=999).p == pytest.approx(1 / 1000)


@pytest.mark.parametrize("shift", [0.0, 0.05])
def test_the_paired_test_of_many_queries_is_near_students(shift: float) -> None:
    from scipy import stats  # takes a second

    rng = np.random.default_rng(3)
    a = rng.random(200)
    b = a + rng.normal(shift, 0.2, 200)
    tested = paired_test(a, b)
    assert tested.test == "random"
    assert tested.p == pytest.approx(stats.ttest_rel(b, a).pvalue, abs=0.03)
    assert tested.low < tested.difference < tested.high


@pytest.mark.parametrize(("resamples", "test"), [(8, "exact"), (7, "random")])
def test_sign_flips_are_all_counted_if_they_are_no_more_than_the_samples(resamples: int, test: str) -> None:
    tested = paired_test([0.0, 0.0, 0.0], [1.0, 1.0, 1.0], resamples=resamples)
    assert tested.test == test
    if test == "exact":
        assert tested.p == 0.25  # two of eight: all positive, all negative


def test_no_queries_have_no_p_value() -> None:
    tested = paired_test([], [])
    assert tested.n == 0
    assert np.isnan([tested.difference, tested.low, tested.high, tested.p]).all()


def test_a_paired_test_of_unlike_lengths_is_an_error() -> None:
    with pytest.raises(InvalidRequest, match="a has 2 values and b has 1"):
        paired_test([0.1, 0.2], [0.3])


# -- intervals ------------------------------------------------------------------------------------------


def test_the_interval_is_the_middle_of_all_resamples_of_five_values() -> None:
    values = [0.0, 0.2, 0.3, 0.5, 1.0]
    means = [sum(drawn) / 5 for drawn in itertools.product(values, repeat=5)]
    low, high = np.quantile(means, [0.025, 0.975])
    found = bootstrap_interval(values, resamples=50_000)
    assert found.mean == pytest.approx(0.4)
    assert found.low == pytest.approx(low, abs=0.02)
    assert found.high == pytest.approx(high, abs=0.02)


def test_equal_values_have_an_interval_without_width() -> None:
    for values in ([0.1], [0.1, 0.1, 0.1], [0.0] * 40):
        assert bootstrap_interval(values) == (values[0], values[0], values[0], len(values))


def test_a_value_that_is_not_a_number_is_an_error() -> None:
    with pytest.raises(InvalidRequest, match="values holds nan"):
        bootstrap_interval([0.5, float("nan")])
