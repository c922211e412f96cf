"""Lines through measurements."""

from __future__ import annotations

import pytest

from scholarbase_cluster.planning.slopes import Line, Slopes, shipped


def test_a_line_is_that_of_least_squares() -> None:
    """By hand: through (1, 1), (2, 2), (3, 4) goes y = -2/3 + 3/2 x."""
    found = Line.through("disk_bytes", [1, 2, 3], [1, 2, 4])
    assert (found.at(4), found.at(0)) == (pytest.approx(16 / 3), 0.0)
    # n log2 n is 2, 8 and 24.
    assert Line.through("cpu_seconds", [2, 4, 8], [1, 4, 12]).at(16) == pytest.approx(32)


def test_the_shipped_measurements_are_of_three_sizes_and_say_their_source() -> None:
    slopes = shipped()
    assert Slopes.from_bytes(slopes.to_bytes()) == slopes
    for dense in (False, True):
        sizes = {round(point.papers, -4) for point in slopes.points if point.dense == dense}
        assert sizes == {20_000, 40_000, 80_000}
    assert "arXiv" in slopes.source
    assert "cores" in slopes.machine
