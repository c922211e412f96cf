"""Lines and intervals, compared with SciPy's and with a textbook's example."""

from __future__ import annotations

import pytest

from scholarbase_cluster.planning.slopes import _T95, Fit, Slopes, shipped

stats = pytest.importorskip("scipy.stats")

PAPERS = [20_000.0, 40_000.0, 80_000.0, 20_100.0, 41_000.0, 79_000.0]
VALUES = [1.1e8, 2.3e8, 4.4e8, 1.2e8, 2.2e8, 4.5e8]


def test_a_line_is_that_of_scipy() -> None:
    fit, expected = Fit.of(PAPERS, VALUES), stats.linregress(PAPERS, VALUES)
    assert fit.slope == pytest.approx(expected.slope)
    assert fit.intercept == pytest.approx(expected.intercept)
    assert fit.residual / fit.spread**0.5 == pytest.approx(expected.stderr)


def test_the_quantiles_are_those_of_students_t() -> None:
    assert list(_T95) == pytest.approx([stats.t.ppf(0.975, n) for n in range(1, 11)], abs=5e-4)
    assert Fit.of(PAPERS, VALUES).t == pytest.approx(stats.t.ppf(0.975, 4), abs=5e-4)


def test_a_prediction_has_the_interval_of_a_new_measurement() -> None:
    """By hand: through (1, 1), (2, 2), (3, 4) go y = -2/3 + 3/2 x, residuals 1/6, -1/3, 1/6, s = sqrt(1/6)."""
    found = Fit.of([1.0, 2.0, 3.0], [1.0, 2.0, 4.0]).at(4.0)
    margin = 12.706 * (1 / 6) ** 0.5 * (1 + 1 / 3 + 4 / 2) ** 0.5
    assert found.value == pytest.approx(16 / 3)
    assert found.high == pytest.approx(16 / 3 + margin)
    assert found.low == 0.0


def test_the_shipped_measurements_are_of_three_sizes_and_say_their_source() -> None:
    slopes = shipped()
    assert Slopes.from_bytes(slopes.to_bytes()) == slopes
    for dense in (False, True):
        sizes = {round(point.papers, -4) for point in slopes.points if point.dense == dense}
        assert sizes == {20_000, 40_000, 80_000}
    assert "arXiv" in slopes.source
    assert "cores" in slopes.machine
