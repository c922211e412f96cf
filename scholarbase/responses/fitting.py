"""Finds how much of a response fits."""

from __future__ import annotations

from collections.abc import Callable


def greatest(most: int, fits: Callable[[int], bool]) -> int:
    """The greatest number from 0 to ``most`` that fits, if all smaller ones do; 0 if none does."""
    low = 0
    while low < most:
        middle = (low + most + 1) // 2
        if fits(middle):
            low = middle
        else:
            most = middle - 1
    return low
