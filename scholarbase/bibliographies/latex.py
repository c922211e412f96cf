"""Plain text as LaTeX, for BibTeX."""

from __future__ import annotations

import re
from typing import Final

from scholarbase.bibliographies.names import in_braces, outside_braces

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

_GROUPED: Final = re.compile(r"[^\W_]*(?:\{[^{}\\$]*\}[^\W_]*)+")
"""Words of which letters are in braces."""
_LETTERS: Final = re.compile(r"[^\W_]+")
_WORD: Final = re.compile(r"\$[^$]*\$|\\(?:[A-Za-z]+|.)|[^\W_]+")
"""A formula, a command or a word of a value, whose braces are hidden."""


def with_protected_capitals(title: str, written: str = "") -> str:
    """A title as a value of BibTeX with braces around the capitals that styles would lower (``change.case$`` of
    https://ctan.org/pkg/bibtex keeps the first letter and those after a colon).

    These are capitals behind the first letter of a word, those of formulas and, in a title whose words begin in lower
    case, all others: names. Of a title that has capitals everywhere, names cannot be told from other words.

    Args:
        written: the value that this one replaces, with its delimiters; words keep the braces that they have there.
    """
    inner = written.strip()[1:-1].strip()
    if in_braces(inner):
        return f"{{{title}}}"
    kept: dict[str, str] = {}
    for match in _GROUPED.finditer(inner):
        plain = re.sub("[{}]", "", match[0])
        kept |= (
            {plain: match[0]}
            if plain.isalnum()
            else {word: f"{{{word}}}" for word in _LETTERS.findall(plain)}
        )
    outside = outside_braces(title)
    words = [match for match in _WORD.finditer(outside) if match[0][0].isalnum()]
    long = [word[0] for word in words[1:] if len(word[0]) > 3]
    has_names = sum(word[0].islower() for word in long) * 2 > len(long)

    def protected(match: re.Match[str]) -> str:
        text = title[match.start() : match.end()]
        if text in kept:
            return kept[text]
        is_first = match.start() == 0 or outside[: match.start()].rstrip().endswith(":")
        is_lowered = any(map(str.isupper, text[1:])) or (
            text[0].isupper() and not is_first and (has_names or (len(text) == 1 and text != "A"))
        )
        return f"{{{text}}}" if is_lowered else text

    pieces, end = [], 0
    for match in _WORD.finditer(outside):
        pieces += [title[end : match.start()], protected(match)]
        end = match.end()
    return "".join((*pieces, title[end:]))


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
