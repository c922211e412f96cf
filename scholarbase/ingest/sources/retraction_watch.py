"""Rows of Retraction Watch's CSV file, which Crossref publishes: notices about papers.

The columns are those of https://gitlab.com/crossref/retraction-watch-data: dates are ``4/15/2021 0:00`` (month first),
a missing DOI is ``unavailable``, a missing PubMed id ``0``, and reasons are ``+Error in Data;+Error in Analyses;``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import date
from typing import Any, Final

from scholarbase.bibliographies.ids import field_ids
from scholarbase.ingest.records import PaperRecord, Reject
from scholarbase.markup import plain
from scholarbase.models.status import NoticeKind

_COLUMNS: Final = frozenset({"Record ID", "RetractionNature", "RetractionDate", "OriginalPaperDOI", "Title"})
_KINDS: Final[Mapping[str, NoticeKind]] = {
    "retraction": "retraction",
    "correction": "correction",
    "expression of concern": "expression_of_concern",
    "reinstatement": "reinstatement",
}
_DATE: Final = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})(?: .*)?", re.ASCII)
_MARK: Final = re.compile(
    r"^\s*(?:RETRACTED(?: ARTICLE)?|WITHDRAWN|EXPRESSION OF CONCERN)\s*:\s*", re.IGNORECASE
)
_MAX_TEXT: Final = 2000
"""Characters of a title, and of the reasons."""
_MAX_AUTHORS: Final = 20


def is_retraction_watch(names: Collection[str]) -> bool:
    """Whether a header is that of Retraction Watch's file."""
    return frozenset(names) >= _COLUMNS


def notice_of(row: Mapping[str, str]) -> PaperRecord | Reject:
    """The notice of a row: a record with the ids of the paper that the notice is about, whose details have it."""
    texts = {name: _text(value) for name, value in row.items()}
    kind = _KINDS.get(texts["RetractionNature"].casefold())
    number, title = texts["Record ID"], plain(_MARK.sub("", texts["Title"]))
    if kind is None or not number or not title:
        missing = "RetractionNature" if kind is None else "Title" if number else "Record ID"
        return Reject(
            "bad-notice", f"{missing} is {texts[missing][:80]!r}: one of Retraction Watch's was expected."
        )
    ids = {
        identifier.scheme: identifier.value
        for scheme, column in (("PMID", "OriginalPaperPubMedID"), ("DOI", "OriginalPaperDOI"))
        if (value := texts.get(column, "")) not in {"", "0"}
        for identifier in field_ids(scheme, value)
    }
    notice: dict[str, Any] = {"kind": kind}
    if (day := _day(texts["RetractionDate"])) is not None:
        notice["date"] = day
    reasons = [reason for part in texts.get("Reason", "").split(";") if (reason := part.strip().lstrip("+"))]
    if reasons:
        notice["reasons"] = reasons
    if dois := [doi for doi in field_ids("DOI", texts.get("RetractionDOI", "")) if doi.scheme == "DOI"]:
        notice["doi"] = dois[0].value
    names = [name for author in texts.get("Author", "").split(";")[:_MAX_AUTHORS] if (name := plain(author))]
    return PaperRecord(
        title,
        arxiv_id=ids.pop("arXiv", None),
        external_ids={scheme: value for scheme, value in ids.items() if scheme in {"DOI", "PMID"}},
        authors=[(name, None) for name in names],
        details={"notices": {number: notice}},
    )


def _text(value: str) -> str:
    """A value without spaces at its ends; bytes that are not UTF-8 are read as Windows-1252."""
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            value = value.encode("utf-8", "surrogateescape").decode("cp1252", "replace")
    return value.strip()[:_MAX_TEXT]


def _day(text: str) -> str | None:
    """A date as ``YYYY-MM-DD``; None if it is not one."""
    parts = _DATE.fullmatch(text)
    try:
        if parts is None:
            return date.fromisoformat(text[:10]).isoformat()
        return date(int(parts[3]), int(parts[1]), int(parts[2])).isoformat()
    except ValueError:
        return None
