"""Ids of works: ``W`` and digits, as clients expect, from which the library's own id is read.

Papers that only OpenAlex has keep their ids. The number of another work is ``99``, a kind and the digits of the
paper's id: longer than the numbers of OpenAlex, which have ten digits. Those name papers by their OpenAlex ids, or by
their MAG ids, which OpenAlex's first works have as their numbers.
"""

from __future__ import annotations

import re
from typing import Final

from scholarbase.errors import InvalidRequest
from scholarbase.identifiers import ARCHIVES, arxiv_id, parse

SITE: Final = "https://openalex.org/"
_NUMBER: Final = re.compile(r"[Ww](\d{1,4000})", re.ASCII)
"""As many digits as the longest id of a collection's own document has."""
_OWN: Final = "99"
_SHORTEST: Final = 11
"""Digits of a work's number; OpenAlex's have ten or fewer."""
_NEW, _OLD, _CORPUS, _DOCUMENT, _DOI = "12345"
_PREFIXES: Final = (
    SITE,
    "http://openalex.org/",
    "https://api.openalex.org/",
    "https://explore.openalex.org/",
    "openalex:",
    "works/",
)
_LEAD: Final = b"\x01\0\0\0"
"""Bytes before those of a document's id or a DOI, so that none is lost and the number is long enough."""


def work_id(paper_id: str) -> str:
    """The id of a work, such as ``W991230906180`` for ``arXiv:2309.06180``, from the paper's canonical id."""
    scheme, _, value = paper_id.partition(":")
    if scheme == "OpenAlex":
        return value
    if scheme == "arXiv" and "/" in value:
        archive, _, number = value.partition("/")
        digits = f"{_OLD}{ARCHIVES.index(archive):02}{number}"
    elif scheme == "arXiv":
        digits = _NEW + value.replace(".", "")
    elif scheme == "CorpusId":
        digits = f"{_CORPUS}{int(value):015}"
    else:
        digits = f"{_DOI if scheme == 'DOI' else _DOCUMENT}{int.from_bytes(_LEAD + value.encode())}"
    return f"W{_OWN}{digits}"


def work_link(paper_id: str) -> str:
    return SITE + work_id(paper_id)


def paper_id(text: str) -> str | None:
    """The id that the library reads, of a work's id or link, a DOI, or another id of a paper; None for another text."""
    name = text.strip()
    for prefix in _PREFIXES:
        if name.lower().startswith(prefix):
            name = name[len(prefix) :]
    if (match := _NUMBER.fullmatch(name)) is not None:
        name = _decoded(match[1]) or ""
    try:
        parse(name)
    except InvalidRequest:
        return None
    return name


def _decoded(digits: str) -> str | None:
    if not digits.startswith(_OWN) or len(digits) < _SHORTEST:
        return f"OpenAlex:W{int(digits)}" if 0 < int(digits) < 10**18 else None
    kind, rest = digits[2], digits[3:]
    if kind == _NEW and arxiv_id(value := f"{rest[:4]}.{rest[4:]}") == value:
        return f"arXiv:{value}"
    if kind == _OLD and int(rest[:2]) < len(ARCHIVES):
        value = f"{ARCHIVES[int(rest[:2])]}/{rest[2:]}"
        return f"arXiv:{value}" if arxiv_id(value) == value else None
    if kind == _CORPUS and 0 < int(rest) < 10**18:
        return f"CorpusId:{int(rest)}"
    if kind in (_DOCUMENT, _DOI):
        number = int(rest)
        content = number.to_bytes((number.bit_length() + 7) // 8)
        if content.startswith(_LEAD):
            value = content[len(_LEAD) :].decode("utf-8", "replace")
            return f"DOI:{value}" if kind == _DOI else f"Doc:{value}"
    return None
