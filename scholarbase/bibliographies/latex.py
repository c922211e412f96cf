"""Plain text as LaTeX, for BibTeX."""

from __future__ import annotations

import re
from typing import Final

_MARKS: Final = str.maketrans(
    {
        "\\": r"\textbackslash{}", "{": r"\textbraceleft{}", "}": r"\textbraceright{}",
        "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "$": r"\$", "&": r"\&", "%": r"\%", "#": r"\#",
        "_": r"\_",
    }
)  # fmt: skip
_LIGATURE: Final = re.compile(r"-(?=-)|`(?=`)|'(?=')|<(?=[A-Za-z/!?])|&(?=[#A-Za-z])")
"""Marks that TeX joins with the next one, and that begin tags and entities of HTML."""


_MARK: Final = re.compile(r"(?<!\\)[%&#_]")
"""A mark in a text in TeX that its author did not escape."""
_UNSAFE: Final = re.compile(
    r"\^\^|\\(?:input|include|write|openin|openout|read|immediate|special|directlua|usepackage|href|url|csname|catcode"
    r"|expandafter|def|[egx]def|let|futurelet|newcommand|renewcommand|loop|html)(?![A-Za-z])"
)
"""Commands that read or write files, define commands or make links. Formulas do not need them, and typesetting a
bibliography would run them."""


def with_formulas(text: str) -> str | None:
    """A text with formulas in TeX as a value of BibTeX; None if it cannot be one, or has an unsafe command."""
    parts = text.split("$")
    depth = 0
    for char in text.replace("\\{", "").replace("\\}", ""):
        depth += (char == "{") - (char == "}")
        if depth < 0:
            return None
    if depth or len(parts) % 2 == 0 or "<" in text or text.endswith("\\") or _UNSAFE.search(text):
        return None
    parts[::2] = [_MARK.sub(r"\\\g<0>", part) for part in parts[::2]]
    return "$".join(parts)


def escaped(text: str) -> str:
    """A text in LaTeX, which :func:`scholarbase.markup.plain` reads as the same text."""
    return _LIGATURE.sub(r"\g<0>{}", text.translate(_MARKS))
