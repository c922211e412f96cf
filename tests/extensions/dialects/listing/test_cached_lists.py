"""Lists are kept for the next page, within a number of bytes, and few are made at once."""

import gc
from pathlib import Path
from threading import Event, Thread
from weakref import ref

import pytest

from scholarbase.deadlines import time_limit
from scholarbase.errors import TimeLimit
from scholarbase.search.library import Library
from scholarbase_dialects.listing import conditions, lists
from scholarbase_dialects.listing.conditions import Days, Every, Number, Text


def test_lists_are_cached_by_their_bytes(sample: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    theory = Text("theory")
    with sample.catalog.reading() as connection:
        by_words = conditions.listed(connection, theory, ["-relevance"])
        assert by_words.nbytes == 12 * len(by_words.ids)
        assert conditions.listed(connection, Every(()), ["id"]).nbytes == 8 * 2440
    monkeypatch.setattr(lists, "CONDITION_BYTES", 100)
    monkeypatch.setattr(lists, "CACHED_BYTES", 8 * 2440 + 100)
    cache = lists.list_cache()
    monkeypatch.setattr(lists.kept_of(sample), "lists", cache)
    lists.listed(sample, Every(()), order="id", limit=1)
    assert (Every(()), ("id",)) in cache
    lists.listed(sample, Days(1991_01_01), order="id", limit=1)
    assert (Every(()), ("id",)) not in cache
    assert (Days(1991_01_01), ("id",)) in cache


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


@pytest.mark.slow
def test_nothing_is_kept_of_a_library_that_is_gone(sample_library: Path) -> None:
    with Library.open(sample_library) as library:
        lists.listed(library, Every(()), limit=1)
        kept = ref(lists.kept_of(library))
    del library
    gc.collect()
    assert kept() is None
