"""Scales of scores: their labels, from the lowest to the highest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from scholarbase.errors import InvalidRequest
from scholarbase.models.checks import shown

MAX_LABELS: Final = 20


@dataclass(frozen=True, slots=True)
class Scale:
    """The labels of a scale, ascending. The highest is a strict match, all but the lowest are relaxed matches."""

    labels: tuple[float, ...]

    @classmethod
    def parse(cls, text: str) -> Scale:
        """A scale such as ``0,1,2``. Raises InvalidRequest: fewer than 2 labels, or not ascending numbers."""
        try:
            labels = tuple(float(part) for part in text.split(","))
        except ValueError:
            labels = ()
        ascending = all(a < b for a, b in pairwise(labels))
        if not 2 <= len(labels) <= MAX_LABELS or not ascending or not all(map(math.isfinite, labels)):
            raise InvalidRequest(
                f"The scale is {shown(text, 80)}: give 2 to {MAX_LABELS} ascending numbers, such as 0,1,2."
            )
        return cls(labels)

    @property
    def shown(self) -> tuple[str, ...]:
        return tuple(f"{label:g}" for label in self.labels)

    def label(self, value: Any) -> float:
        """The label that a number, or the text of one, means. Raises InvalidRequest: it is not on the scale."""
        try:
            if isinstance(value, bool):
                raise TypeError
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if number not in self.labels:
            raise InvalidRequest(f"{shown(value, 80)} is not on the scale {', '.join(self.shown)}.")
        return number

    def place(self, score: float) -> int | None:
        """The index of the highest label that is not above a score; None if all are."""
        return max((index for index, label in enumerate(self.labels) if label <= score), default=None)


DEFAULT: Final = Scale((0.0, 1.0, 2.0))
"""ScholarQuest's: 0 mismatch, 1 partial match, 2 strict match."""
