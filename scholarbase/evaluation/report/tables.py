"""Tables of a report, rendered as Markdown, CSV, by the template as HTML, and for a terminal.

Figures are rounded the same way everywhere (:meth:`Cell.shown`) except in CSV, which has full precision and separate
columns for intervals and p-values.
"""

from __future__ import annotations

import csv
import io
import math
import re
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
class Column:
    """A column: its heading, and whether it has numbers, which are aligned right."""

    heading: str
    numeric: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """A table. ``name`` is its file's; the first ``stubs`` columns name the row; ``notes`` are shown below it."""

    name: str
    caption: str
    columns: tuple[Column, ...]
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
        columns = (*(Column(heading, False) for heading in stubs), *(Column(heading) for heading in headings))
        cells = tuple(tuple(map(_cell, row)) for row in rows)
        return cls(name, caption, columns, cells, len(stubs), tuple(notes))


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
    for place, index in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        least = max(least, min(1.0, ps[index] * (len(ps) - place)))
        corrected[index] = least
    return corrected


# -- Markdown -------------------------------------------------------------------------------------------

_MARKDOWN: Final = re.compile(r"([\\`*_\[\]|$~]|^[#+-]|(?<=\d)\.(?= ))")
_MARKDOWN_HTML: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def markdown_text(text: str) -> str:
    """Escape a text for Markdown, also for tables, in one line."""
    line = " ".join(text.split())
    escaped = _MARKDOWN.sub(r"\\\1", line)
    return re.sub(r"[&<>]", lambda match: _MARKDOWN_HTML[match[0]], escaped)


def to_markdown(table: Table) -> str:
    """The table with its caption and notes."""
    lines = [f"**{markdown_text(table.caption)}**", ""]
    lines.append("| " + " | ".join(markdown_text(column.heading) for column in table.columns) + " |")
    lines.append("|" + "|".join(" ---: " if column.numeric else " :--- " for column in table.columns) + "|")
    lines += ["| " + " | ".join(map(_markdown_cell, row)) + " |" for row in table.rows]
    lines += [f"\n{markdown_text(note)}" for note in table.notes]
    return "\n".join(lines) + "\n"


def _markdown_cell(cell: Cell) -> str:
    shown = markdown_text(cell.shown) if cell.text is not None else cell.shown
    if cell.url is not None:
        shown = f"[{shown}](<{cell.url}>)"
    shown = f"**{shown}**" if cell.best else shown
    return " ".join(part for part in (shown + cell.mark, cell.interval) if part)


# -- CSV ------------------------------------------------------------------------------------------------


def to_csv(table: Table) -> str:
    """The table in full precision (RFC 4180). A column ``X`` is followed by ``X low``, ``X high`` and ``X p`` if its
    cells have them. Missing values are empty."""
    intervals = [any(row[i].low is not None for row in table.rows) for i in range(len(table.columns))]
    tested = [any(row[i].p is not None for row in table.rows) for i in range(len(table.columns))]
    linked = [any(row[i].url is not None for row in table.rows) for i in range(len(table.columns))]
    out = io.StringIO()
    writer = csv.writer(out)
    header: list[str] = []
    for i, column in enumerate(table.columns):
        header.append(column.heading)
        header += [f"{column.heading} {end}" for end in ("low", "high") if intervals[i]]
        header += [f"{column.heading} p"] * tested[i] + [f"{column.heading} URL"] * linked[i]
    writer.writerow(header)
    for row in table.rows:
        fields: list[str] = []
        for i, cell in enumerate(row):
            fields.append(cell.text if cell.text is not None else _exact(cell.value))
            fields += [_exact(cell.low), _exact(cell.high)] * intervals[i]
            fields += [_exact(cell.p)] * tested[i] + [cell.url or ""] * linked[i]
        writer.writerow(fields)
    return out.getvalue()


def _exact(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else repr(value)
