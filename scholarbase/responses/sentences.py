"""Sentence boundaries, where abstracts are cut."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

# Possessive and only from the beginning of a run, so that a long run of dots is read once.
_END: Final = re.compile(
    r"""(?<![.!?])[.!?]++["'”’»)\]]*+(?=\s+(\S))|(?<![。！？｡])[。！？｡]++[」』”’»)）]*+(?=\s*\S)"""
)
_ABBREVIATIONS: Final = frozenset(
    """
    al approx ca cf ch chap dr ed eds eq eqn eqns eqs etc ex fig figs inc jr lem mr mrs ms no nos p pp prof prop ref
    refs resp sec sect sects sr st tab thm viz vol vols vs
    """.split()  # noqa: SIM905
)
_LETTERS: Final = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")


def sentence_ends(text: str) -> Iterator[int]:
    """Yield the index after each sentence but the last, closing quotes and brackets included.

    Ambiguous places are skipped: after an abbreviation or a single letter (``e.g.``, ``et al.``, ``Fig. 3``,
    ``J. Doe``), and before a lower-case letter. Ideographic full stops need no following space.
    """
    for match in _END.finditer(text):
        if match[1] is not None and match[1].islower():
            continue
        if match[0][0] == "." and _abbreviated(text, match.start()):
            continue
        yield match.end()


def _abbreviated(text: str, end: int) -> bool:
    words = text[max(0, end - 24) : end].rsplit(None, 1)
    word = words[-1].lstrip("([{\"'“‘$~") if words else ""
    return word.lower() in _ABBREVIATIONS or _LETTERS.fullmatch(word) is not None
