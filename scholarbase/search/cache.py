"""A cache of bounded size."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

V = TypeVar("V")


class Cache(Generic[V]):
    """A thread-safe LRU cache of values that never change, since libraries do not.

    Args:
        size: the weight of all values together. A value that is heavier is not kept.
        weight: the weight of a value, such as its bytes; by default 1.
    """

    def __init__(self, size: int, weight: Callable[[V], int] = lambda value: 1) -> None:
        self._size = size
        self._weight = weight
        self._total = 0
        self._lock = Lock()
        self._values: OrderedDict[Hashable, V] = OrderedDict()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
            self._total = 0

    def peek(self, key: Hashable) -> V | None:
        """The cached value, which counts as used."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def get(self, key: Hashable, compute: Callable[[], V]) -> V:
        """The cached value, else a computed one. Errors and None are not cached."""
        if (known := self.peek(key)) is not None:
            return known
        value = compute()
        weight = self._weight(value)
        with self._lock:
            if value is not None and weight <= self._size and key not in self._values:
                self._values[key] = value
                self._total += weight
                while self._total > self._size:
                    _, oldest = self._values.popitem(last=False)
                    self._total -= self._weight(oldest)
        return value
