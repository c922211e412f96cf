"""Tables of results, for a terminal and for reports. Figures are rounded the same way everywhere."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

MISSING: Final = "–"
"""Shown for a missing value, which is not zero."""
DAGGERS: Final = ((0.01, "‡"), (0.05, "†"))
"""Upper limits of p-values to their marks, the smallest first."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A text, or a number with its statistics.

    ``low`` and ``high`` are the ends of its interval, ``p`` is the p-value of the difference from the first run.
    ``digits`` is the number of decimals; 0 for counts.
    """

    text: str | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    digits: int = 3
    best: bool = False
    url: str | None = None

    @property
    def shown(self) -> str:
        """The text, or the rounded number."""
        if self.text is not None:
            return self.text
        return rounded(self.value, self.digits)

    @property
    def interval(self) -> str:
        """``[low, high]``, or an empty text."""
        if self.low is None or self.high is None:
            return ""
        return f"[{rounded(self.low, self.digits)}, {rounded(self.high, self.digits)}]"

    @property
    def mark(self) -> str:
        """``†`` for p < 0.05, ``‡`` for p < 0.01, or an empty text."""
        if self.p is None:
            return ""
        return next((mark for limit, mark in DAGGERS if self.p < limit), "")


def rounded(value: float | None, digits: int) -> str:
    """``0.1235``, or ``12,345`` with 0 digits; :data:`MISSING` without a number."""
    return MISSING if value is None or math.isnan(value) else f"{value:,.{digits}f}"


@dataclass(frozen=True, slots=True)
class Table:
    """A table. ``name`` is its file's; ``notes`` are shown below it.

    The first ``stubs`` columns are texts that name the row; the others are numbers, aligned right.
    """

    name: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    stubs: int = 1
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        name: str,
        caption: str,
        stubs: Sequence[str],
        headings: Sequence[str],
        rows: Iterable[Iterable[Cell | str | float | None]],
        notes: Sequence[str] = (),
    ) -> Table:
        """A table with text columns, ``stubs``, followed by columns of numbers.

        Rows have cells, texts, counts (int) and figures (float); None is a missing value.
        """
        cells = tuple(tuple(map(_cell, row)) for row in rows)
        return cls(name, caption, (*stubs, *headings), cells, len(stubs), tuple(notes))


def _cell(value: Cell | str | float | None) -> Cell:
    if isinstance(value, Cell):
        return value
    if isinstance(value, str):
        return Cell(value)
    return Cell(value=value, digits=0 if isinstance(value, int) else 3)


def with_best(rows: Sequence[Mapping[str, Cell]]) -> list[dict[str, Cell]]:
    """Mark the cells with the highest value of each key, unless there is only one row or all values are equal."""
    out = [dict(row) for row in rows]
    for key in {key for row in rows for key in row} if len(rows) > 1 else ():
        values = [row[key].value for row in rows if key in row]
        known = [value for value in values if value is not None and not math.isnan(value)]
        if not known or min(known) == max(known):
            continue
        for row in out:
            if key in row and row[key].value == max(known):
                row[key] = replace(row[key], best=True)
    return out


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's step-down correction of p-values for multiple tests (Scandinavian Journal of Statistics 6, 1979,
    65-70)."""
    corrected = [0.0] * len(ps)
    least = 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        least = max(least, min(1.0, ps[index] * (len(ps) - rank)))
        corrected[index] = least
    return corrected
