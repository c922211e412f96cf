"""A memory of answers, of a size that is given."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

V = TypeVar("V")


class Cache(Generic[V]):
    """The newest answers to questions whose answers cannot change: a library never does."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = Lock()
        self._known: OrderedDict[Hashable, V] = OrderedDict()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._known

    def get(self, key: Hashable, ask: Callable[[], V]) -> V:
        """The answer, remembered or asked for. An error is not remembered."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        answer = ask()
        with self._lock:
            self._known[key] = answer
            if len(self._known) > self._size:
                self._known.popitem(last=False)
        return answer
