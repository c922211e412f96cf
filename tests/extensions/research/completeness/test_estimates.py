"""Formulas against published examples, other implementations and counts by hand."""

from math import lgamma, log

import pytest

from scholarbase_research.completeness.estimates import (
    LEVEL,
    chao,
    chapman,
    removal,
    share,
    stopping_risk,
)


def test_two_samples_give_chapmans_estimate() -> None:
    """10 turtles, then 15, 5 of them again: 28 by Chapman, the example of Wikipedia's page on mark and recapture."""
    assert chapman(10, 15, 5).total == pytest.approx(28.33, abs=0.01)


@pytest.mark.parametrize(
    ("first", "second", "both", "tails"),
    [(10, 15, 5, (0.1, 0.1)), (3, 1, 0, (0.1, 0.1)), (2, 7, 2, (0, 0.2)), (9, 1, 1, (0, 0.2))],
)
def test_the_interval_has_two_tails_or_one(
    first: int, second: int, both: int, tails: tuple[float, float]
) -> None:
    """Castledine's posterior, added up one total after the other; none is below if a sample has all of the other's."""
    seen = first + second - both

    def probability(total: int) -> float:
        logs = lgamma(total + 1) - lgamma(total - seen + 1) - log(total) / 4
        logs += sum(lgamma(n + 1) + lgamma(total - n + 1) - lgamma(total + 2) for n in (first, second))
        return 2.0 ** (logs / log(2))

    shares = [probability(total) for total in range(seen, 10_001)]
    interval = chapman(first, second, both)
    below = sum(shares[: int(interval.low) - seen])
    above = sum(shares[int(interval.high) + 1 - seen :])
    ends = shares[int(interval.low) - seen], shares[int(interval.high) - seen]
    for tail, expected, end in zip((below, above), tails, ends, strict=True):
        if not expected:
            assert tail == 0
        elif tail:
            assert tail / sum(shares) == pytest.approx(expected, abs=end / sum(shares))
    assert sum(tails) == pytest.approx(1 - LEVEL)


def test_the_interval_contains_the_estimate() -> None:
    """Of fifteen papers and one of them, and of two samples of thirty, where the upper tail alone has the estimate."""
    assert chapman(15, 1, 1)[:2] == (15, 15)
    assert chapman(30, 30, 29).high == pytest.approx(31**2 / 30 - 1)


def test_rabbits_give_chaos_lower_bound() -> None:
    """Cottontail rabbits of Edwards and Eberhardt (1967), of which there were 135: 134 in Chao (1987)."""
    rabbits = (43, 16, 8, 6, 0, 2, 1)
    found = chao(rabbits)
    assert found.total == pytest.approx(76 + 43**2 / 32)
    assert round(found.total) == 134
    assert found.low < 134 < found.high
    assert chao(rabbits, 18).total == pytest.approx(76 + 17 / 18 * 43**2 / 32)
    assert chao((4,), 2).total == 4 + 0.5 * 4 * 3 / 2
    assert chao((0, 3), 2) == (3, 3, 3)
    assert chao((1,), 2) == (1, 1, 1)


def test_catches_give_carle_and_strubs_estimate() -> None:
    """38, 26 and 12 fish: 91, the example of Carle and Strub (1978), and of ``removal`` of the R package FSA."""
    found = removal((38, 26, 12))
    assert found.total == 91
    assert 76 <= found.low < 91 < found.high
    assert removal((9, 0, 0)).total == 9


def test_wilsons_interval() -> None:
    """None of ten is up to 0.278 with 95%, as tables say."""
    assert share(0, 10, 0.95) == (0, pytest.approx(0.2775, abs=1e-4))
    assert share(10, 10, 0.95) == pytest.approx((0.7225, 1), abs=1e-4)


@pytest.mark.parametrize(
    ("labels", "population", "target", "risk"),
    [
        ([1, 1, 1, 0, 1, 0, 0, 1] + [0] * 42, 100, 0.95, 0.5434782608695653),
        ([1] * 10 + [0] * 90, 200, 0.95, 0.5263157894736843),
        ([1] * 10 + [0] * 90, 120, 0.8, 0.0052821795941062),
        ([0] * 5, 10, 0.95, 0.5),
    ],
)
def test_the_stopping_risk_is_that_of_buscarpy(
    labels: list[int], population: int, target: float, risk: float
) -> None:
    """``calculate_h0`` of buscarpy 0.0.2, by the authors of the rule."""
    assert stopping_risk([label == 1 for label in labels], population, target) == pytest.approx(risk)


def test_all_papers_read_leave_no_risk() -> None:
    assert stopping_risk([True, False, False, True], 4) == 0
    assert stopping_risk([], 4) == 1
