"""LaTeX in titles and names as plain text. Each expression takes linear time."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_ACCENTS: Final = {
    "`": "\u0300", "'": "\u0301", "^": "\u0302", "~": "\u0303", "=": "\u0304", "u": "\u0306", ".": "\u0307",
    '"': "\u0308", "r": "\u030a", "H": "\u030b", "v": "\u030c", "c": "\u0327", "k": "\u0328", "d": "\u0323",
    "b": "\u0331",
}  # fmt: skip
_LETTERS: Final = {
    "aa": "å", "AA": "Å", "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "o": "ø", "O": "Ø", "l": "ł", "L": "Ł",
    "ss": "ß", "i": "ı", "j": "ȷ", "dh": "ð", "DH": "Ð", "dj": "đ", "DJ": "Đ", "th": "þ", "TH": "Þ",
}  # fmt: skip
_SPACE: Final = r"[ \t\n]{0,4}"
_ACCENTED: Final = re.compile(
    rf"\\(?:([`'^~=.\"]){_SPACE}|([uvHckrdb])(?:{_SPACE}\{{|[ \t\n]{{1,4}}))"
    rf"\{{?{_SPACE}(?:\\([ij])(?![A-Za-z])|([A-Za-z]))"
)
_LETTER: Final = re.compile(rf"\\({'|'.join(sorted(_LETTERS, key=len, reverse=True))})(?![A-Za-z]){_SPACE}")
_STYLE: Final = re.compile(
    r"\\(?:emph|text(?:it|bf|rm|sf|tt|sc|up|normal)?|it|bf|rm|sf|tt|sc|em|mbox|bibinfo\{\w{1,20}\}|newblock|"
    r"url|href|natexlab|mathrm|mathbf|mathcal|mathit)(?![A-Za-z])"
)
_SYMBOLS: Final = {
    "textendash": "\u2013", "textemdash": "\u2014", "textquoteleft": "\u2018", "textquoteright": "\u2019",
    "textquotedblleft": "\u201c", "textquotedblright": "\u201d", "textquotesingle": "'", "textquotedbl": '"',
    "textellipsis": "\u2026", "ldots": "\u2026", "dots": "\u2026", "textasciitilde": "\ue002", "textless": "<",
    "textgreater": ">", "textbar": "|", "textdegree": "\u00b0", "textbullet": "\u2022", "textregistered": "\u00ae",
    "texttrademark": "\u2122", "textasciicircum": "^", "textbackslash": "\ue001", "textbraceleft": "\ue003",
    "textbraceright": "\ue004",
}  # fmt: skip
"""What programs that export BibTeX write for characters outside ASCII."""
_DOLLAR: Final = "\ue000"
_LAST: Final = str.maketrans({_DOLLAR: "$", "\ue001": "\\", "\ue002": "~", "\ue003": "{", "\ue004": "}"})
"""Characters for private use that stand for escaped marks until LaTeX's own marks are read."""
_SYMBOL: Final = re.compile(
    rf"\\({'|'.join(sorted(_SYMBOLS, key=len, reverse=True))})(?![A-Za-z])(?:\{{\}}|[ \t\n]{{0,4}})"
)
_ESCAPED: Final = re.compile(r"\\([&%$#_{}])")
_DASHES: Final = re.compile(r"-{2,3}")
_BRACES: Final = str.maketrans("", "", "{}")


def plain(text: str) -> str:
    """The text without braces and styles, its accents composed, its white space collapsed. Formulas stay."""
    parts = text.replace(r"\$", _DOLLAR).split("$")
    if len(parts) % 2:  # between each pair of marks stands a formula
        parts[::2] = map(_plain, parts[::2])
        text = "$".join(parts)
    else:
        text = _plain("$".join(parts))
    return " ".join(text.translate(_LAST).split())


def _plain(text: str) -> str:
    if "\\" in text:
        text = _ACCENTED.sub(_accented, text)
        text = _LETTER.sub(lambda match: _LETTERS[match[1]], text)
        text = _SYMBOL.sub(lambda match: _SYMBOLS[match[1]], text)
        text = _STYLE.sub(" ", text)
        text = _ESCAPED.sub(lambda match: match[1] if match[1] not in "{}" else "", text)
    return _DASHES.sub("-", text.replace("``", '"').replace("''", '"')).translate(_BRACES).replace("~", " ")


def _accented(match: re.Match[str]) -> str:
    letter = match[3] or match[4]
    return unicodedata.normalize("NFC", letter + _ACCENTS[match[1] or match[2]])


_MARKS: Final = str.maketrans(
    {
        "\\": r"\textbackslash{}", "{": r"\textbraceleft{}", "}": r"\textbraceright{}",
        "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "$": r"\$", "&": r"\&", "%": r"\%", "#": r"\#",
        "_": r"\_",
    }
)  # fmt: skip
_LIGATURE: Final = re.compile(r"-(?=-)|`(?=`)|'(?=')")
"""Marks that TeX joins with the next one."""
_COMMENT: Final = re.compile(r"[%#]")


def escaped(text: str) -> str:
    """A text in LaTeX, which :func:`plain` reads as the same text. Formulas between ``$`` stay, if their braces are
    balanced."""
    parts = text.split("$")
    if len(parts) % 2 and all(map(_is_formula, parts[1::2])):
        parts[::2] = map(_escaped, parts[::2])
        return "$".join(parts)
    return _escaped(text)


def _escaped(text: str) -> str:
    return _LIGATURE.sub(r"\g<0>{}", text.translate(_MARKS))


def _is_formula(text: str) -> bool:
    """Whether a text can stand in a value of BibTeX, which counts braces, escaped ones too."""
    depth = 0
    for char in text:
        depth += (char == "{") - (char == "}")
        if depth < 0:
            return False
    return not depth and not text.endswith("\\") and _COMMENT.search(text) is None
