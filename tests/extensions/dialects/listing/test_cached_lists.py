"""Lists are kept for the next page, within a number of bytes, and few are made at once."""

from threading import Event, Thread

import pytest

from scholarbase.deadlines import time_limit
from scholarbase.errors import TimeLimit
from scholarbase.search.library import Library
from scholarbase_dialects.listing import lists
from scholarbase_dialects.listing.conditions import Number


def test_few_lists_are_made_at_once(sample: Library) -> None:
    for _ in range(lists.LISTS_AT_ONCE):
        lists.kept_of(sample).making.acquire()
    try:
        with time_limit(0.05), pytest.raises(TimeLimit, match="Listing papers was stopped"):
            lists.listed(sample, Number("year", 1991), limit=1)
        done = Event()
        waiting = Thread(target=lambda: (lists.listed(sample, Number("year", 1992), limit=1), done.set()))
        waiting.start()
        assert not done.wait(0.05)
    finally:
        for _ in range(lists.LISTS_AT_ONCE):
            lists.kept_of(sample).making.release()
    waiting.join(60)
    assert done.is_set()
