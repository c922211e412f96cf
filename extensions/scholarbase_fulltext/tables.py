"""Tables of JATS and LaTeXML, as HTML and as text. The elements have the names of HTML's tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape
from typing import Final
from xml.etree.ElementTree import Element

_CELLS: Final = frozenset({"td", "th"})
_TAGS: Final = frozenset({"table", "thead", "tbody", "tfoot", "tr"}) | _CELLS
TextOf = Callable[[Element], str]


def html_of(table: Element, text_of: TextOf) -> str:
    """The table with its rows, cells and spans. The text of cells is escaped."""
    pieces: list[str] = []
    _write(table, text_of, pieces)
    return "".join(pieces)


def rows_of(table: Element, text_of: TextOf) -> Iterator[str]:
    """The rows that have a text, their cells separated by bars."""
    for child in table:
        if local_name(child) == "tr":
            cells = [text_of(cell) for cell in child if local_name(cell) in _CELLS]
            if any(cells):
                yield " | ".join(cells)
        else:
            yield from rows_of(child, text_of)


def local_name(element: Element) -> str:
    """The name without its namespace; empty for comments."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _write(element: Element, text_of: TextOf, pieces: list[str]) -> None:
    tag = local_name(element)
    if tag in _CELLS:
        spans = "".join(
            f' {name}="{int(value)}"'
            for name in ("colspan", "rowspan")
            if (value := element.get(name, "")).isascii() and value.isdigit() and len(value) < 5
        )
        pieces.append(f"<{tag}{spans}>{escape(' '.join(text_of(element).split()))}</{tag}>")
        return
    shown = tag in _TAGS
    if shown:
        pieces.append(f"<{tag}>")
    for child in element:
        _write(child, text_of, pieces)
    if shown:
        pieces.append(f"</{tag}>")
