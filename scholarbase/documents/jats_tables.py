"""Tables of JATS: as HTML without anything but cells, and as lines of text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape
from typing import Final
from xml.etree.ElementTree import Element

_TAGS: Final = frozenset({"table", "thead", "tbody", "tfoot", "tr", "th", "td"})
_SPANS: Final = ("colspan", "rowspan")


def html_of(table: Element) -> str:
    """The table with its rows, cells and spans; text in cells is escaped."""
    pieces: list[str] = []
    _write(table, pieces)
    return "".join(pieces)


def rows_of(table: Element, text_of: Callable[[Element], str]) -> Iterator[str]:
    """The rows, their cells separated by bars."""
    for row in table.iter():
        if _tag(row) == "tr":
            cells = [text_of(cell) for cell in row if _tag(cell) in ("td", "th")]
            if any(cells):
                yield " | ".join(cells)


def _tag(element: Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _write(element: Element, pieces: list[str]) -> None:
    tag = _tag(element)
    if tag in ("td", "th"):
        spans = "".join(
            f' {name}="{int(value)}"'
            for name in _SPANS
            if (value := element.get(name, "")).isascii() and value.isdigit() and len(value) < 5
        )
        text = " ".join("".join(element.itertext()).split())
        pieces.append(f"<{tag}{spans}>{escape(text)}</{tag}>")
        return
    shown = tag in _TAGS
    if shown:
        pieces.append(f"<{tag}>")
    for child in element:
        _write(child, pieces)
    if shown:
        pieces.append(f"</{tag}>")
