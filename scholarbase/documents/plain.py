"""Reads plain text: paragraphs are separated by empty lines, and numbered headings in sequence begin sections."""

from __future__ import annotations

import re
from typing import Final

from scholarbase.documents.building import DocumentBuilder
from scholarbase.documents.headings import HeadingFinder
from scholarbase.documents.markdown import decoded
from scholarbase.documents.model import FullText

_EMPTY_LINES: Final = re.compile(r"\n(?:[^\S\n]*\n)+")


def read_plain(data: bytes) -> FullText:
    """The full text of a file of plain text.

    Raises:
        BadDocument: it is too long or not UTF-8.
    """
    builder = DocumentBuilder()
    finder = HeadingFinder()
    for block in _EMPTY_LINES.split(decoded(data)):
        lines = block.strip("\n").split("\n")
        heading = finder.find(lines[0])
        if heading is not None:
            builder.heading(heading.title, level=heading.level, number=heading.number)
            lines = lines[1:]
        builder.paragraph(" ".join(" ".join(lines).split()))
    return FullText("text", builder.build())
