"""The plain text of a title, an abstract, a venue or a name, from any source, and of a query.

Search compares plain texts: ``B\\"acklund``, ``B&auml;cklund`` and ``Bäcklund`` are one word, and so are ``CO$_2$``,
``CO<sub>2</sub>`` and ``CO₂``. Of Unicode's compatibility forms those are replaced that are only other shapes of a
letter or digit: mathematical letters, ligatures, full-width letters, lowered digits. ``²``, ``½`` and ``™`` stay. Soft
hyphens, characters without width and marks of direction are removed.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from scholarbase.markup import html, tex
from scholarbase.markup.symbols import SYMBOLS

MAY_CHANGE: Final = re.compile(r"[^ -~]|[<&\\${~]|--|``|  ")
"""What a text has in which :func:`plain` may change more than spaces at its ends. Most queries have none."""
_ODD: Final = re.compile(
    "[\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064\u2066-\u2069\ufeff"
    "\u2080-\u2089\u2102\u210a-\u2113\u2115\u2119-\u211d\u2124\u2128\u212a-\u212d\u212f-\u2134\u2139"
    "\ufb00-\ufb06\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d7ff]"
)
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]+")
"""Few characters of most texts, and a much smaller set to look for than :data:`_ODD`."""
_JOINERS: Final = re.compile("(?<![^\x00-\u024f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\u024f])")
"""Joiners beside Latin letters. Persian and Indic scripts and emoji need theirs."""
_COMMAND: Final = re.compile(r"\\([A-Za-z]{2,})")
_JOINING: Final = re.compile(r"~(?<=[^\W_]~|[.,)]~)(?=[^\s/~])")
"""A space that does not break, between two words."""
_LONGEST: Final = 5_000
_LONGEST_WORD: Final = 500
_FORMULA: Final = re.compile(r"\\[(\[]|\\(?:ce|ensuremath)\b|<(?:mml:|m:)?math\b|<(?:jats:)?tex-math\b")
_HEADING: Final = re.compile(
    r"\s*(?:(?:<[\w:-]{1,40}(?:\s[^<>]{0,200})?>\s*){1,4}(?:abstract|summary)\s*[:.]?\s*"
    r"(?:</[\w:-]{1,40}>\s*)+(?=\s*(?-i:[^\sa-z]))"
    r"|(?:abstract|summary)(?:\s*[:.\u2014\u2013]|\s+-|\s*\n)\s*"
    r"|(?-i:ABSTRACT|SUMMARY)\s+(?=(?-i:[A-Z0-9]))"
    r"|(?-i:Abstract)\s+(?=(?-i:An?\s|[A-Z][A-Za-z-]*(?::|\s+[a-z]))))",
    re.IGNORECASE,
)
_RIGHTS: Final = re.compile(
    r"(?:\s?(?:copyright\s?)?\u00a9\s?(?:\(c\)\s?)?(?:19|20)\d\d(?=\W*(?-i:[^\Wa-z]|by\b|the\b|all\b|$))[^\n]{0,120}"
    r"|(?:\s?copyright\s?\(c\)|(?:^|(?<=[.!?)\]])\s)(?:copyright|\(c\)))\s?(?:19|20)\d\d"
    r"(?:[\s,]+(?:(?-i:[^\sa-z])\S*"
    r"|(?:by|the|of|and|for|on|in|behalf|de|des|all|rights|reserved|published|under|license)\b\S*)){0,20}"
    r")[.\s]*$",
    re.IGNORECASE,
)
"""Without the sign of copyright, only names and the usual words follow the year."""
_RIGHTS_FIRST: Final = re.compile(
    r"\s*(?:copyright\s*)?\u00a9\s*(?:19|20)\d\d,?(?:\s+(?:by\s+)?(?:the\s+)?[A-Z][\w&.-]*){0,6}[.:]?\s+(?=[A-Z])"
)


def plain(text: str, *, braces: bool = False) -> str:
    """The text without markup, in one line, in Unicode's form NFC.

    Args:
        braces: every brace is markup, as in BibTeX.
    """
    if "<" in text or "&" in text:
        text = html.decode_html(text)
    if "\\" in text or "$" in text or "{" in text or (braces and ("}" in text or "~" in text)):
        text = tex.decode(text, braces=braces)
        if braces and ("$" in text or any(name in SYMBOLS for name in _COMMAND.findall(text))):
            # Zotero escapes the marks of formulas.
            text = tex.decode(text)
    else:
        if "~" in text:
            text = _JOINING.sub(" ", text)
        if "--" in text or "`" in text:
            text = tex.quotes(text)
    if not text.isascii():
        if _ODD.search("".join(_NOT_ASCII.findall(text))):
            text = _ODD.sub(_usual, text)
        if "\u200c" in text or "\u200d" in text:
            text = _JOINERS.sub("", text)
        if len(text) > _LONGEST or not unicodedata.is_normalized("NFC", text):
            return " ".join(map(_composed, text.split()))
    return one_line(text)


def one_line(text: str) -> str:
    """The text with one space for white space, and none at its ends."""
    if "  " not in text and text.isprintable():
        # The common case. Line breaks and tabs are not printable.
        return text.strip(" ")
    return " ".join(text.split())


def plain_abstract(text: str, *, braces: bool = False) -> str:
    """As :func:`plain`, without the heading of the abstract and the publisher's line of rights."""
    text = plain(_without_heading(text), braces=braces) or plain(text, braces=braces)
    if "\u00a9" in text or "opyright" in text or ("(" in text and ("(c)" in text or "(C)" in text)):
        if text.startswith(("\u00a9", "Copyright")):
            text = _RIGHTS_FIRST.sub("", text, count=1)
        text = _RIGHTS.sub("", text) or text
    return text


def read_text(text: str, *, braces: bool = False) -> tuple[str, str | None]:
    """The plain text, and the text as it was written if it has formulas."""
    plain_text = plain(text, braces=braces)
    return plain_text, formulas_of(text, plain_text)


def read_abstract(text: str, *, braces: bool = False) -> tuple[str, str | None]:
    """As :func:`read_text`, of an abstract, without its heading and line of rights."""
    plain_text = plain_abstract(text, braces=braces)
    return plain_text, formulas_of(_without_heading(text), plain_text)


def _without_heading(abstract: str) -> str:
    """An abstract without the word "Abstract" before it."""
    heading = _HEADING.match(abstract)
    return abstract[heading.end() :] if heading else abstract


def formulas_of(text: str, plain_text: str) -> str | None:
    """The text as its author wrote it, in one line, if it has formulas that the plain text writes otherwise."""
    if "$" not in text and not (("\\" in text or "<" in text) and _FORMULA.search(text)):
        return None
    written = one_line(text)
    return written if written != plain_text else None


def _composed(word: str) -> str:
    """A word in the form NFC, which takes quadratic time for a run of combining marks."""
    return word if word.isascii() or len(word) > _LONGEST_WORD else unicodedata.normalize("NFC", word)


def _usual(match: re.Match[str]) -> str:
    char = match[0]
    if char in "\u2028\u2029":
        return " "
    return "" if unicodedata.category(char) == "Cf" else unicodedata.normalize("NFKC", char)
