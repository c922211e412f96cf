"""HTML, JATS and MathML as plain text: ``CO<sub>2</sub> &amp; water`` as CO2 & water.

Only tags with the names of these formats are markup: ``a < b``, ``p<0.05`` and ``List<T>`` stay. A tag of a style is
one only where its other end stands too, so that a sentence about ``<b>`` keeps it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Final
from xml.etree import ElementTree

from scholarbase.markup.symbols import names
from scholarbase.markup.tex import decode, script

MARKS: Final = ("<", "&")
"""A text without these has no HTML."""
_DEPTH: Final = 60
"""Elements within each other that are read as such."""
_TIMES: Final = 3
"""How often entities are decoded: some texts were escaped twice."""
_ENTITY: Final = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_TAG: Final = re.compile(
    r"<(/?)(?:(jats|mml|m|ns\d|xocs|ce|o|st1|tei):)?([A-Za-z][A-Za-z0-9-]{0,30})"
    r"((?:\s+[\w:.-]{1,40}\s{0,3}=\s{0,3}(?:\"[^\"<]{0,500}\"|'[^'<]{0,500}'|[^\s\"'<>=]{1,500}?))*)\s{0,5}(/?)>"
)
_NO_TEXT: Final = re.compile(
    r"<!--.{0,300}?-->|<!\[CDATA\[|\]\]>|<\?[^<>]{0,200}\?>|<(?P<code>script|style)\b[^<>]{0,200}>.{0,1000}?</(?P=code)>",
    re.DOTALL | re.IGNORECASE,
)
_STYLES: Final = names(
    """
    i b u em strong sub sup inf sc scp tt span italic bold small big font a abbr roman sans-serif monospace
    underline overline strike s del ins mark code cite ext-link xref named-content styled-content
    inline-formula tex-math math q uri email tiny label alternatives inline-graphic hi
    """
)
_ALONE: Final = names("img graphic wbr")
"""Tags without another end."""
_BLOCKS: Final = names(
    """
    p div br hr li ul ol dl dt dd title sec list list-item h1 h2 h3 h4 h5 h6 abstract abstracttext td tr th
    table tbody disp-formula break section para sec-type blockquote pre center
    """
)
_MATH: Final = (
    re.compile(r"<(?:mml:|m:)?math(?:\s[^<>]{0,1000})?>"),
    re.compile(r"</(?:mml:|m:)?math>"),
)
_TEX_MATH: Final = (
    re.compile(r"<(?:jats:)?tex-math(?:\s[^<>]{0,300})?>"),
    re.compile(r"</(?:jats:)?tex-math>"),
)
_PREFIX: Final = re.compile(r"(</?)(?:mml|m):")
_NO_TAG: Final = re.compile(r"<(?![A-Za-z/!])")
_ANY_TAG: Final = re.compile(r"</?[A-Za-z][^<>]*>")


def decode_entities(text: str) -> str:
    """The text with characters in place of the entities of HTML."""
    for _ in range(_TIMES):
        if "&" not in text or text == (text := _ENTITY.sub(lambda match: html.unescape(match[0]), text)):
            break
    return text


def decode_html(text: str) -> str:
    """The text without entities and tags. Blocks are separated by a space."""
    text = decode_entities(text)
    if "<" not in text:
        return text
    if "math" in text:
        if _MATH[0].search(text):
            text = _replaced(_replaced(text, _TEX_MATH, lambda _: ""), _MATH, _formula)
        text = _replaced(text, _TEX_MATH, lambda tex: decode(f"${tex_body(tex).strip().strip('$')}$"))
    text = _NO_TEXT.sub("", text)
    tags = list(_TAG.finditer(text))
    ends = {tag[3].lower() for tag in tags if tag[1]}
    begins = {tag[3].lower() for tag in tags if not tag[1]}
    pieces: list[str] = []
    at = 0
    for match in tags:
        name = match[3].lower()
        if name in _BLOCKS:
            instead = " "
        elif (
            match[2]
            or (name in _STYLES and (match[5] or (name in ends and name in begins)))
            or (name in _ALONE and (name == "wbr" or match[4] or match[5]))
        ):
            instead = _caret(text, match) if name == "sup" and not match[1] else ""
        else:
            continue
        pieces += (text[at : match.start()], instead)
        at = match.end()
    return "".join((*pieces, text[at:]))


def _replaced(text: str, tags: tuple[re.Pattern[str], re.Pattern[str]], instead: Callable[[str], str]) -> str:
    """The text with what ``instead`` makes of the content of each element that these tags enclose."""
    begin, end = tags
    pieces: list[str] = []
    at = 0
    while (opening := begin.search(text, at)) is not None:
        if (closing := end.search(text, opening.end())) is None:
            break
        pieces += (text[at : opening.start()], instead(text[opening.end() : closing.start()]))
        at = closing.end()
    return "".join((*pieces, text[at:]))


def _caret(text: str, opening: re.Match[str]) -> str:
    """What stands for the beginning of raised text."""
    end = text.find("<", opening.end())
    raised = text[opening.end() : end].strip()
    return "^" if script(text[opening.start() - 1 : opening.start()], raised) != raised else ""


def tex_body(content: str) -> str:
    """What a document of TeX has between its begin and end, or the text itself if it is not such a document."""
    _, begin, rest = content.partition("\\begin{document}")
    body, end, _ = rest.partition("\\end{document}")
    return body if begin and end else content


def _formula(content: str) -> str:
    """MathML in one line: ``msub`` and ``msup`` with their indices, ``mfrac`` with a slash."""
    # Its entities are decoded already.
    content = _NO_TAG.sub("&lt;", _PREFIX.sub(r"\1", content.replace("&", "&amp;")))
    try:
        root = ElementTree.fromstring(f"<math>{content}</math>")
    except ElementTree.ParseError:
        return html.unescape(_ANY_TAG.sub("", content))
    return _linear(root)


def _linear(element: ElementTree.Element, depth: int = 0) -> str:
    if depth == _DEPTH:
        return "".join(element.itertext())
    name = element.tag
    parts = [
        _linear(child, depth + 1) for child in element if child.tag not in ("annotation", "annotation-xml")
    ]
    if name == "mfrac" and len(parts) == 2:
        return f"{_grouped(parts[0])}/{_grouped(parts[1])}"
    if name in ("msub", "munder") and len(parts) == 2:
        return parts[0] + _lowered(parts[1])
    if name in ("msup", "mover") and len(parts) == 2:
        return parts[0] + (f"^{_grouped(parts[1])}" if parts[0] else parts[1])
    if name in ("msubsup", "munderover") and len(parts) == 3:
        return f"{parts[0]}{_lowered(parts[1])}^{_grouped(parts[2])}"
    text = (element.text or "").strip() + "".join(parts)
    return f"√{_grouped(text)}" if name == "msqrt" else text


def _lowered(text: str) -> str:
    """An index below the line. Digits join what stands before them."""
    return text if text.isdigit() else f"_{_grouped(text)}"


def _grouped(text: str) -> str:
    return text if len(text) < 2 or text.isalnum() else f"({text})"
