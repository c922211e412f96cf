"""Tables of a report as Markdown and as CSV, which has full precision and columns for intervals and p-values."""

from __future__ import annotations

import csv
import io
import math
import re
from typing import Final

from scholarbase_research.evaluation.tables import Cell, Table

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
    lines.append("| " + " | ".join(map(markdown_text, table.columns)) + " |")
    alignments = [" :--- "] * table.stubs + [" ---: "] * (len(table.columns) - table.stubs)
    lines.append("|" + "|".join(alignments) + "|")
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


_EXTRAS: Final = {"low": "low", "high": "high", "p": "p", "url": "URL"}
"""What a cell may have beside its value, and the end of its heading."""


def to_csv(table: Table) -> str:
    """The table in full precision (RFC 4180). A column ``X`` is followed by ``X low``, ``X high`` and ``X p`` if its
    cells have them. Missing values are empty."""
    out = io.StringIO()
    writer = csv.writer(out)
    extras = [
        [name for name in _EXTRAS if any(getattr(row[i], name) is not None for row in table.rows)]
        for i in range(len(table.columns))
    ]
    header: list[str] = []
    for heading, names in zip(table.columns, extras, strict=True):
        header += [heading, *(f"{heading} {_EXTRAS[name]}" for name in names)]
    writer.writerow(header)
    for row in table.rows:
        fields: list[str] = []
        for cell, names in zip(row, extras, strict=True):
            fields.append(cell.text if cell.text is not None else _exact(cell.value))
            fields += [_exact(getattr(cell, name)) for name in names]
        writer.writerow(fields)
    return out.getvalue()


def _exact(value: float | str | None) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None or math.isnan(value) else repr(value)
