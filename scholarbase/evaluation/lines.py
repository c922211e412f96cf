"""Text files line by line, for the readers of runs and trajectories: they say of each line where it stands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from scholarbase.errors import QueryFileError
from scholarbase.evaluation.formats.streams import opened


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file, packed by gzip or xz or not at all, numbered from 1, with their ends.

    Raises:
        QueryFileError: the file is missing, cut off, or no UTF-8 text.
    """
    with opened(path) as lines:
        for number, line in enumerate(lines, 1):
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                raise QueryFileError(f"{path}, line {number} is no UTF-8 text: {error}.") from error
            yield number, text
