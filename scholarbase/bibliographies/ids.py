"""Ids in running text, and in the fields of records that are meant for them: DOIs, arXiv ids and links."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from scholarbase.errors import InvalidRequest
from scholarbase.identifiers import (
    MAX_LENGTH,
    Identifier,
    dois,
    from_doi,
    parse,
    stored_arxiv_id,
    stored_identifier,
    trimmed,
)

_ID: Final = re.compile(
    r"https?://(?:[^\s<>\"{}|^`]|<[\w.]*:[\w.:-]*>(?=\d\.\d))+"
    r"|(?<![\w./])(?:(?:dx\.)?doi\.(?:acm\.)?org/|info:doi/)?10\.\d{4,9}(?:\.\d+)*/(?:[^\s<>\"{}]|<[\w.]*:[\w.:-]*>(?=\d\.\d))+"
    r"|(?<![\w.])(?:CorpusID|PMID|PMCID|ACL|DBLP|MAG)\s?:\s?[\w./-]+"
    r"|(?<![\w./-])[a-z]{2,8}(?:-[a-z]{2,4})?(?:\.[A-Z]{2})?/\d{7}(?!\d)"
    r"|(?<![\w.-])\d{4}\.\d{4,5}(?:v\d{1,2})?(?![\w-])",
    re.ASCII | re.IGNORECASE,
)
_PREFIX: Final = re.compile(
    r"\s{0,4}(?:arxiv preprint\s{1,2})?(?:(?:arxiv|doi|pmid|pmcid|url|corpusid)\s?[:.]?\s{0,2})?",
    re.IGNORECASE,
)
_LEADING: Final = MAX_LENGTH + 100
"""Characters of a line that are read for the id at its start."""


class FoundId(NamedTuple):
    """An id, and where it stands in the text."""

    id: Identifier
    start: int
    end: int


def find_ids(text: str) -> list[FoundId]:
    """The ids in a text, in order. Links to pages that are about no single paper are left out."""
    ids = []
    for match in _ID.finditer(text):
        name = trimmed(match[0][: MAX_LENGTH + 1])
        try:
            identifier = parse(name.replace(" ", ""))
        except InvalidRequest:
            continue
        if identifier.scheme != "URL":
            ids.append(FoundId(identifier, match.start(), match.start() + len(name)))
    return ids


def leading_ids(text: str) -> list[Identifier]:
    """The ids with which a line of the text starts, after their prefixes: those of the paper itself, as in
    ``arXiv:1706.03762 [cs]``. Those within a line may be other papers'."""
    ids = []
    for line in text.splitlines():
        first = next(iter(find_ids(line[:_LEADING])), None)
        if first is not None and _PREFIX.fullmatch(line[: first.start]):
            ids.append(first.id)
    return ids


def whole_id(text: str) -> Identifier | None:
    """The identifier, if the text is nothing but an id of any form."""
    try:
        return parse(text) if len(text) <= MAX_LENGTH and not any(map(str.isspace, text.strip())) else None
    except InvalidRequest:
        return None


def field_ids(scheme: str, value: object) -> list[Identifier]:
    """The ids in a field of a record for ids of one scheme, which may have a prefix, be a link, or have several DOIs.

    An id of another scheme is read too, if its form shows the scheme. ``value`` is a string or a number.
    """
    text = str(value).strip() if isinstance(value, str | int | float) else ""
    if scheme == "DOI" and (listed := dois(text)):
        return [*dict.fromkeys(map(from_doi, listed))]
    if scheme == "arXiv" and (arxiv := stored_arxiv_id(value)[0]) is not None:
        return [Identifier("arXiv", arxiv)]
    for name in (text, f"{scheme}:{text}"):
        identifier = stored_identifier(name)
        if identifier is not None and identifier.scheme != "URL":
            return [identifier]
    return []


def invalid_ids(scheme: str, name: str, values: Iterable[str]) -> list[str]:
    """The values of a field for ids that have none, for a message. Exports have links to pages in such fields."""
    wrong = (value for value in values if value and "://" not in value and not field_ids(scheme, value))
    return [f"{name} = {value}" for value in wrong]
