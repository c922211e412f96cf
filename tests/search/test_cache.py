"""Caches are bounded by the weight of their values."""

from __future__ import annotations

from threading import Event, Thread

import numpy as np
import pytest

from scholarbase.deadlines import time_limit
from scholarbase.errors import TimeLimit
from scholarbase.indexes.listing import Days, Every, Listed, Number, Text
from scholarbase.search import lists
from scholarbase.search.cache import Cache
from scholarbase.search.library import Library


def kept(cache: Cache[bytes], keys: str) -> str:
    return "".join(key for key in keys if key in cache)


def test_the_values_used_least_recently_leave_until_the_rest_fits() -> None:
    cache: Cache[bytes] = Cache(10, len)
    for key, size in (("a", 4), ("b", 3), ("c", 3)):
        assert len(cache.get(key, lambda size=size: b"x" * size)) == size  # type: ignore[misc]
    assert kept(cache, "abc") == "abc"
    cache.get("a", lambda: pytest.fail("a is cached"))
    cache.get("d", lambda: b"x" * 5)
    assert kept(cache, "abcd") == "ad"
    cache.get("e", lambda: b"x" * 11)  # heavier than the cache
    assert kept(cache, "abcde") == "ad"
    cache.clear()
    cache.get("f", lambda: b"x" * 10)
    assert kept(cache, "adf") == "f"


def test_a_value_without_a_weight_counts_once() -> None:
    cache: Cache[bytes] = Cache(2)
    for key in "abc":
        cache.get(key, lambda: b"x" * 100)
    assert kept(cache, "abc") == "bc"


def test_lists_are_cached_by_their_bytes(sample: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    theory = Text("theory")
    by_words = len(sample._catalog.listed(theory, ["-relevance"], title_weight=2.0).ids)
    assert sample._catalog.listed(theory, ["-relevance"], title_weight=2.0).nbytes == 12 * by_words
    assert sample._catalog.listed(Every(()), ["id"], title_weight=2.0).nbytes == 8 * 2440
    monkeypatch.setattr(lists, "CONDITION_BYTES", 100)
    monkeypatch.setattr(lists, "CACHED_BYTES", 8 * 2440 + 100)
    cache = lists.list_cache()
    monkeypatch.setattr(sample, "_lists", cache)
    sample.listed(Every(()), order="id", limit=1)
    assert (Every(()), ("id",)) in cache
    sample.listed(Days(1991_01_01), order="id", limit=1)
    assert (Every(()), ("id",)) not in cache
    assert (Days(1991_01_01), ("id",)) in cache


def test_the_cache_is_at_most_40_mb() -> None:
    assert lists.CACHED_BYTES == 40 * 1024 * 1024
    cache = lists.list_cache()
    for number in range(100):
        cache.get(number, lambda: Listed(np.empty(0, np.int64), None))
    assert sum(n in cache for n in range(100)) == 40  # each counts a megabyte for its condition


def test_few_lists_are_made_at_once(sample: Library) -> None:
    for _ in range(lists.LISTS_AT_ONCE):
        sample._making.acquire()
    try:
        with time_limit(0.05), pytest.raises(TimeLimit, match="Listing papers was stopped"):
            sample.listed(Number("year", 1991), limit=1)
        done = Event()
        waiting = Thread(target=lambda: (sample.listed(Number("year", 1992), limit=1), done.set()))
        waiting.start()
        assert not done.wait(0.05)
    finally:
        for _ in range(lists.LISTS_AT_ONCE):
            sample._making.release()
    waiting.join(60)
    assert done.is_set()
