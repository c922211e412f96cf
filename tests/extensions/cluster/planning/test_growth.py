"""Laws of growth and their intervals, by hand."""

import math

import pytest

from scholarbase_cluster.planning.growth import Estimate, Law, Measured, Width, log_linear, shipped, total


def test_a_law_is_the_line_of_least_squares() -> None:
    """Through (1, 1), (2, 2), (3, 4) goes y = -2/3 + 3/2 x."""
    law = Law.through({1: 1, 2: 2, 3: 4})
    assert (law.at(4), law.at(0)) == (pytest.approx(16 / 3), 0.0)
    # n log2 n is 2, 8 and 24.
    assert Law.through({2: 1, 4: 4, 8: 12}, log_linear).at(16) == pytest.approx(32)


def test_an_interval_grows_with_the_factor_by_the_error_of_smaller_libraries() -> None:
    """10 and 20 predict 40 for size 4, where 44 was measured: ln 1.1 at a factor of 2. One library was predicted: t is
    6.314. The law through all is y = -2 + 80/7 x, which is 66/7 at size 1, where 10 was measured."""
    width = Width.of([(1, 10), (2, 20), (4, 44), (4, 44), (4, 44.1)])
    spread = math.log(70 / 66)
    near, far, below = width.around(30, 3), width.around(366, 32), width.around(5, 0.125)
    assert (near.basis, far.basis) == ("measured", "extrapolated 8.0 times from 4 papers")
    assert below.basis == "extrapolated 8.0 times down from 1 papers"
    assert below.high / 5 == pytest.approx(far.high / 366)
    assert math.log(near.high / 30) == pytest.approx(spread)
    # Three doublings.
    assert math.log(far.high / 366) == pytest.approx(spread + 6.314 * 3 * math.log(1.1))
    assert far.high / 366 == pytest.approx(366 / far.low)


def test_two_sizes_say_nothing_about_extrapolation() -> None:
    with pytest.raises(ValueError, match=r"No size is .* times the greatest of two smaller ones"):
        Width.of([(1, 10), (2, 20)])


def test_a_total_is_as_uncertain_as_its_parts_together() -> None:
    parts = Estimate(10, 8, 13, "measured"), Estimate(5, 5, 5, "published"), Estimate(0, 0, 0, "nothing")
    assert total(*parts) == Estimate(15, 13, 18, "measured; published")
    assert total(total(*parts), parts[0]).basis == "measured; published"


def test_the_shipped_measurements_are_of_four_sizes_and_say_their_source() -> None:
    measured = shipped()
    assert Measured.from_bytes(measured.to_bytes()) == measured
    for dense in (False, True):
        sizes = [papers for papers, _ in measured.runs("disk_bytes", dense=dense)]
        assert len(set(sizes)) >= 4
        assert max(sizes) == 334_917
    assert "arXiv" in measured.source
    assert "cores" in measured.machine
