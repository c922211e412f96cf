"""A table of the report, and its four renderings: HTML (by the template), Markdown, CSV and LaTeX.

What a reader sees is rounded the same way everywhere (:meth:`Cell.shown`); CSV has the full precision, and the
intervals and p-values in columns of their own.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

MISSING: Final = "–"
"""What stands where there is no value: nothing was measured, which is not zero."""
DAGGERS: Final = ((0.01, "‡"), (0.05, "†"))
"""Marks of a p-value, the smallest first."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A value of a table: a text, or a number with what is known of it.

    ``low`` and ``high`` are the ends of its interval, ``p`` says how likely such a difference from the first run
    is by chance. ``digits`` are shown after the point; 0 for counts.
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
        """The text, or the number as a reader sees it."""
        if self.text is not None:
            return self.text
        return rounded(self.value, self.digits)

    @property
    def interval(self) -> str:
        """``[low, high]``, or nothing."""
        if self.low is None or self.high is None:
            return ""
        return f"[{rounded(self.low, self.digits)}, {rounded(self.high, self.digits)}]"

    @property
    def mark(self) -> str:
        """How sure the difference from the first run is: ``†`` p < 0.05, ``‡`` p < 0.01."""
        if self.p is None:
            return ""
        return next((mark for limit, mark in DAGGERS if self.p < limit), "")


def rounded(value: float | None, digits: int) -> str:
    """``0.1235``, or ``12,345`` where no digits are wanted; :data:`MISSING` where there is no number."""
    return MISSING if value is None or math.isnan(value) else f"{value:,.{digits}f}"


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, and whether numbers stand in it (set to the right, with equal digits)."""

    heading: str
    numeric: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """A table. ``name`` is its file's; the first ``stubs`` columns name the row; ``notes`` stand below it."""

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    stubs: int = 1
    notes: tuple[str, ...] = ()


def table(
    name: str,
    caption: str,
    stubs: Sequence[str],
    headings: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    notes: Sequence[str] = (),
) -> Table:
    """A table whose first columns, ``stubs``, are texts and whose others are numbers."""
    columns = (*(Column(heading, False) for heading in stubs), *(Column(heading) for heading in headings))
    return Table(name, caption, columns, tuple(map(tuple, rows)), len(stubs), tuple(notes))


def with_best(rows: Sequence[Mapping[str, Cell]]) -> list[dict[str, Cell]]:
    """The rows with the greatest value of each key marked, all of them where several are equal; one row alone is
    nothing to be the best of."""
    out = [dict(row) for row in rows]
    for key in {key for row in rows for key in row} if len(rows) > 1 else ():
        values = [row[key].value for row in rows if key in row]
        known = [value for value in values if value is not None and not math.isnan(value)]
        if not known or min(known) == max(known):
            continue
        for row in out:
            if key in row and row[key].value == max(known):
                cell = row[key]
                row[key] = Cell(
                    cell.text, cell.value, cell.low, cell.high, cell.p, cell.digits, True, cell.url
                )
    return out


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's step-down correction of p-values that are tested together (Scandinavian Journal of Statistics 6,
    1979, 65-70): their chance of one false mark is that of a single test."""
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
    """Text that Markdown shows as it is, in a table too: one line, with everything escaped that it would read."""
    line = " ".join(text.split())
    escaped = _MARKDOWN.sub(r"\\\1", line)
    return re.sub(r"[&<>]", lambda match: _MARKDOWN_HTML[match[0]], escaped)


def to_markdown(made: Table) -> str:
    """The table with its caption above and its notes below."""
    lines = [f"**{markdown_text(made.caption)}**", ""]
    lines.append("| " + " | ".join(markdown_text(column.heading) for column in made.columns) + " |")
    lines.append("|" + "|".join(" ---: " if column.numeric else " :--- " for column in made.columns) + "|")
    lines += ["| " + " | ".join(map(_markdown_cell, row)) + " |" for row in made.rows]
    lines += [f"\n{markdown_text(note)}" for note in made.notes]
    return "\n".join(lines) + "\n"


def _markdown_cell(cell: Cell) -> str:
    shown = markdown_text(cell.shown) if cell.text is not None else cell.shown
    if cell.url is not None:
        shown = f"[{shown}](<{cell.url}>)"
    shown = f"**{shown}**" if cell.best else shown
    return " ".join(part for part in (shown + cell.mark, cell.interval) if part)


# -- CSV ------------------------------------------------------------------------------------------------


def to_csv(made: Table) -> str:
    """The table in full precision (RFC 4180): a column ``X`` is followed by ``X low``, ``X high`` and ``X p``
    where its cells have them. A value that there is none of is empty."""
    intervals = [any(row[i].low is not None for row in made.rows) for i in range(len(made.columns))]
    tested = [any(row[i].p is not None for row in made.rows) for i in range(len(made.columns))]
    linked = [any(row[i].url is not None for row in made.rows) for i in range(len(made.columns))]
    out = io.StringIO()
    writer = csv.writer(out)
    header: list[str] = []
    for i, column in enumerate(made.columns):
        header.append(column.heading)
        header += [f"{column.heading} {end}" for end in ("low", "high") if intervals[i]]
        header += [f"{column.heading} p"] * tested[i] + [f"{column.heading} URL"] * linked[i]
    writer.writerow(header)
    for row in made.rows:
        fields: list[str] = []
        for i, cell in enumerate(row):
            fields.append(cell.text if cell.text is not None else _exact(cell.value))
            fields += [_exact(cell.low), _exact(cell.high)] * intervals[i]
            fields += [_exact(cell.p)] * tested[i] + [cell.url or ""] * linked[i]
        writer.writerow(fields)
    return out.getvalue()


def _exact(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else repr(value)


# -- LaTeX ----------------------------------------------------------------------------------------------

_LATEX: Final = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # \textquotedbl is not there in LaTeX's own font encoding, OT1.
    '"': r"\char34{}",
    "–": "--",
    "†": r"\textdagger{}",
    "‡": r"\textdaggerdbl{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


def latex_text(text: str) -> str:
    """Text that LaTeX sets as it is, in one line; letters beyond ASCII stay as they are, in UTF-8."""
    return "".join(_LATEX.get(character, character) for character in " ".join(text.split()))


def to_latex(made: Table) -> str:
    """The table for ``\\input``, with the rules of booktabs (``\\usepackage{booktabs}``)."""
    alignment = "".join("r" if column.numeric else "l" for column in made.columns)
    lines = [
        r"\begin{table}",
        r"  \centering",
        f"  \\caption{{{latex_text(made.caption)}}}",
        f"  \\label{{tab:{made.name}}}",
        f"  \\begin{{tabular}}{{{alignment}}}",
        r"    \toprule",
        "    " + " & ".join(latex_text(column.heading) for column in made.columns) + r" \\",
        r"    \midrule",
        *(line for row in made.rows for line in _latex_row(row)),
        r"    \bottomrule",
        r"  \end{tabular}",
        *(f"  \\par\\smallskip\\footnotesize {latex_text(note)}" for note in made.notes),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_row(row: Sequence[Cell]) -> list[str]:
    """The row, and where it has intervals a line of them below: side by side they are too wide for a page."""
    lines = ["    " + " & ".join(map(_latex_cell, row)) + r" \\"]
    if any(cell.interval for cell in row):
        below = (f"{{\\scriptsize {cell.interval}}}" if cell.interval else "" for cell in row)
        lines.append("    " + " & ".join(below).strip() + r" \\[2pt]")
    return lines


def _latex_cell(cell: Cell) -> str:
    shown = latex_text(cell.shown)
    shown = f"\\textbf{{{shown}}}" if cell.best else shown
    if cell.mark:
        shown += f"\\textsuperscript{{{latex_text(cell.mark)}}}"
    # A bracket at the start of a row would be read as the option of the line break before it.
    return f"{{}}{shown}" if shown.startswith("[") else shown
