"""The text of one block, put together from pieces: white space is collapsed and citation marks get offsets."""

from __future__ import annotations

from typing import NamedTuple

from scholarbase.documents.building import MAX_CHARACTERS, clean
from scholarbase.documents.model import BadDocument


class Inline(NamedTuple):
    """A block's text, and the citation marks in it: start, end, and the place of the entry in the bibliography."""

    text: str
    citations: list[tuple[int, int, int]]


class InlineBuilder:
    """Joins pieces of text: each run of white space becomes one space, none at the ends.

    Raises:
        BadDocument: the text has more than ``MAX_CHARACTERS``.
    """

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._space = False
        self._citations: list[tuple[int, int, int]] = []

    @property
    def is_empty(self) -> bool:
        return not self._length

    def add(self, text: str) -> None:
        """Add text as it is in running text."""
        text = clean(text)
        words = text.split()
        if not words:
            self._space |= bool(text)
            return
        self._space |= text[0].isspace()
        self._append(" ".join(words))
        self._space = text[-1].isspace()

    @property
    def ends_with_bracket(self) -> bool:
        """Whether an opening bracket is still open at the end, as in ``[1, ``."""
        end = "".join(self._pieces[-6:])[-40:]
        return end.rfind("[") > end.rfind("]")

    def cite(self, mark: str, *entries: int) -> None:
        """Add a citation mark, of entries of the bibliography."""
        mark = " ".join(clean(mark).split())
        if mark:
            self._append(mark)
            self._citations += [(self._length - len(mark), self._length, entry) for entry in entries]

    def line_break(self) -> None:
        """Begin a new line, unless this one is empty."""
        if self._pieces and self._pieces[-1] != "\n":
            self._space = False
            self._append("\n")

    def build(self) -> Inline:
        while self._pieces and self._pieces[-1] == "\n":
            self._pieces.pop()
        return Inline("".join(self._pieces), self._citations)

    def _append(self, text: str) -> None:
        if self._space and self._pieces and self._pieces[-1] != "\n":
            self._pieces.append(" ")
            self._length += 1
        self._space = False
        self._pieces.append(text)
        self._length += len(text)
        if self._length > MAX_CHARACTERS:
            raise BadDocument(
                "too-long",
                f"The text has more than {MAX_CHARACTERS:,} characters: split the document, or leave it out.",
            )
