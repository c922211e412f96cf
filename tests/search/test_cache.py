"""Caches are bounded by the weight of their values."""

import pytest

from scholarbase.search.cache import Cache


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
