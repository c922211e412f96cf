"""Values in lists, which are written together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import TypeVar

T = TypeVar("T")


def batched(
    values: Iterable[T], most: int, most_bytes: float = inf, size: Callable[[T], int] = lambda value: 0
) -> Iterator[list[T]]:
    """Values in lists that end after ``most`` of them, or when their sizes reach ``most_bytes``."""
    batch: list[T] = []
    total = 0
    for value in values:
        batch.append(value)
        total += size(value)
        if len(batch) == most or total >= most_bytes:
            yield batch
            batch, total = [], 0
    if batch:
        yield batch
