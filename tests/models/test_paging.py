"""The offset of the next page."""

import pytest

from scholarbase.models.paging import next_offset


@pytest.mark.parametrize(
    ("offset", "count", "total", "expected"),
    [
        (0, 10, 11, 10),
        (0, 10, 10, None),
        (10, 1, 11, None),
        (5, 5, 30, 10),
        (10, 0, 11, None),
        (0, 0, 0, None),
    ],
)
def test_the_last_page_has_no_next_one(offset: int, count: int, total: int, expected: int | None) -> None:
    assert next_offset(offset, count, total) == expected
