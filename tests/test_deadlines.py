"""Time limits within each other."""

import pytest

from scholarbase.deadlines import DEADLINE, check, time_limit
from scholarbase.errors import TimeLimit


def test_a_shorter_limit_within_a_longer_one_ends_with_its_block() -> None:
    with time_limit(3600) as outer:
        assert outer is not None
        end = outer.end
        with (
            time_limit(1e-9),
            pytest.raises(TimeLimit, match="Reading was stopped at the time limit of 1e-09 s"),
        ):
            check("Reading", "read less")
        assert (outer.seconds, outer.end) == (3600, end)
        check("Reading", "read less")
        with time_limit(7200) as same:
            assert same is outer
            assert outer.end == end
    assert DEADLINE.get() is None
