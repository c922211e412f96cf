"""The arXiv metadata snapshot (``arxiv-metadata-oai-snapshot.json``): one JSON line to one record.

The 14 keys of a line are described at https://www.kaggle.com/datasets/Cornell-University/arxiv. Some lines have
authors as one string and not parsed, versions without dates, or several DOIs in one string.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, time
from typing import Any, Final

from scholarbase import identifiers
from scholarbase.ingest.records import DeletedRecord, PaperRecord
from scholarbase.ingest.sources.s2ag import BadRecord, clean, clean_title, iso_date, parser
from scholarbase.markup import plain
from scholarbase.models.status import PaperStatus

_MONTHS: Final = {
    name: month
    for month, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1
    )
}

_NOTE = re.compile(r"\s*\((?:[^()]|\([^()]*\))*\)")
_HYPHENATED = re.compile(r"\. -(?=\w)")
"""What arXiv's parser of authors makes of initials such as ``C.-P.``."""
_SUFFIX = re.compile(r"(?:Jr|Sr|II|III|IV)\.?")


def split_authors(text: str) -> list[str]:
    """The names in arXiv's author string: split at commas and ``and``, without affiliations in parentheses.

    ``A. Einstein (IAS), B. Podolsky and N. Rosen`` gives the three names. A suffix such as ``Jr.`` stays with the
    name before it.
    """
    if "\n" in text or "  " in text:
        text = " ".join(text.split())
    if "(" in text:
        text = _NOTE.sub("", text)
    names: list[str] = []
    for part in text.replace(" and ", ",").replace(";", ",").split(","):
        name = part.strip()
        if name.startswith("and "):
            name = name[4:]
        if names and _SUFFIX.fullmatch(name):
            names[-1] = f"{names[-1]} {name}"
        elif name and name not in ("et al.", "et al"):
            names.append(name)
    return names


def _authors(record: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    """The authors: from ``authors_parsed`` (family name, first names, suffix, ...), else from ``authors``."""
    parsed = record.get("authors_parsed")
    if parsed:
        if not isinstance(parsed, list):
            raise BadRecord("bad-type", "authors_parsed is not a list.")
        authors: list[tuple[str, str | None]] = []
        for parts in parsed:
            if not isinstance(parts, list) or not all(
                part is None or isinstance(part, str) for part in parts
            ):
                raise BadRecord(
                    "bad-type", f"An author is {str(parts)[:80]!r}: a list of strings was expected."
                )
            family, first, suffix = ((*parts[:3], "", "", "")[:3]) if parts else ("", "", "")
            name = plain(f"{first or ''} {family or ''} {suffix or ''}", braces=True)
            name = _HYPHENATED.sub(".-", name)
            if name:
                authors.append((name, None))
        return authors
    text = record.get("authors")
    if text is None:
        return []
    if not isinstance(text, str):
        raise BadRecord("bad-type", f"authors is {str(text)[:80]!r}: a string was expected.")
    return [(plain(name, braces=True), None) for name in split_authors(text)]


def created_time(text: str) -> str | None:
    """The time of a version as ``YYYY-MM-DDTHH:MM:SSZ``, from ``Mon, 2 Apr 2007 19:18:42 GMT``; the day alone if it is
    all that is known, as in ``2007-04-02``."""
    if "," not in text:
        return iso_date(text)
    parts = text.split()
    try:
        day = date(int(parts[3]), _MONTHS[parts[2][:3].title()], int(parts[1])).isoformat()
    except (IndexError, KeyError, ValueError):
        return None
    try:
        # arXiv's times are in UTC, and another zone would need the day before or after.
        if parts[5:] not in (["GMT"], ["UTC"]):
            return day
        return f"{day}T{time.fromisoformat(parts[4]).isoformat()}Z"
    except (IndexError, ValueError):
        return day


def _versions(record: Mapping[str, Any]) -> list[str | None]:
    """The time of each version, None where it is missing or invalid."""
    versions = record.get("versions")
    if not versions:
        return []
    if not isinstance(versions, list) or not all(isinstance(version, dict) for version in versions):
        raise BadRecord("bad-type", f"versions is {str(versions)[:80]!r}: a list of objects was expected.")
    times = [version.get("created") for version in versions]
    return [created_time(text) if isinstance(text, str) else None for text in times]


def _details(record: Mapping[str, Any], versions: list[str | None]) -> dict[str, Any]:
    """The known fields of :class:`.catalog.Details`."""
    comment, journal = (
        clean(record.get("comments"), "comments"),
        clean(record.get("journal-ref"), "journal-ref"),
    )
    details = {
        "is_open_access": True,
        "journal": None if journal is None else [journal, None, None],
        "comment": comment,
        "versions": versions or None,
        "update_date": iso_date(record.get("update_date")),
    }
    return {name: value for name, value in details.items() if value is not None}


def _year_of_id(arxiv_id: str) -> int:
    """The year of an arXiv id: ``9901`` and ``0704`` start ids of 1999 and 2007. arXiv began in 1991."""
    two = int(arxiv_id.rpartition("/")[2][:2])
    return 1900 + two if two >= 91 else 2000 + two


def _created(record: Mapping[str, Any], arxiv_id: str) -> str | None:
    """The day of an OAI record without versions, if it can be that of the first version: in the month of the id, or
    at the end of the one before. Of a revised paper it is the day of the last version."""
    created = iso_date(record.get("created"))
    if created is None:
        return None
    month = _year_of_id(arxiv_id) * 12 + int(arxiv_id.rpartition("/")[2][2:4])
    return created if 0 <= month - (int(created[:4]) * 12 + int(created[5:7])) <= 1 else None


def _status(record: Mapping[str, Any]) -> PaperStatus | None:
    """Whether arXiv says that the last version is a withdrawal: its source type, in OAI records, has an ``I``."""
    versions = record.get("versions") or [{}]
    return "withdrawn" if "I" in str(versions[-1].get("source_type") or "") else None


@parser
def parse_arxiv(record: dict[str, Any]) -> PaperRecord | DeletedRecord:
    """Parse a line of an arXiv metadata snapshot, or one made of an OAI record (:mod:`.oai`).

    The date is that of the first version; if it is missing or invalid, the year comes from the id. The venue is None:
    a journal reference is a citation and not a venue's name. Of several DOIs the first is
    shown, and all name the paper. An id stored as a
    number (``806.1945``) gets its zeros back.
    """
    stored = record.get("id")
    if stored is None:
        raise BadRecord("no-id", "id is missing.")
    arxiv_id, repaired = identifiers.stored_arxiv_id(stored)
    if arxiv_id is None:
        raise BadRecord("bad-id", f"id is {str(stored)[:80]!r}: an arXiv id was expected.")
    if record.get("deleted") is True:
        return DeletedRecord(arxiv_id)
    if "unknown_format" in record:
        raise BadRecord(
            "bad-format",
            f"The record has metadata in {record['unknown_format'] or 'no format'}: arXiv or arXivRaw was "
            "expected.",
        )
    versions = _versions(record)
    published = versions[0][:10] if versions and versions[0] is not None else _created(record, arxiv_id)
    abstract = clean(record.get("abstract"), "abstract")
    categories = clean(record.get("categories"), "categories")
    stored_dois = record.get("doi")
    dois = identifiers.dois(clean(stored_dois, "doi") or "") if stored_dois else []
    return PaperRecord(
        title=clean_title(record.get("title")),
        arxiv_id=arxiv_id,
        external_ids={"DOI": dois[0]} if dois else {},
        further_dois=dois[1:],
        abstract=abstract,
        authors=_authors(record),
        year=int(published[:4]) if published is not None else _year_of_id(arxiv_id),
        publication_date=published,
        categories=[] if categories is None else categories.split(" "),
        details=_details(record, versions),
        url=f"https://arxiv.org/abs/{arxiv_id}",
        repaired=repaired,
        status=_status(record),
    )
