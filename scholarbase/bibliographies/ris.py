"""RIS, one record at a time, each read by rispy.

The format is described at https://en.wikipedia.org/wiki/RIS_(file_format): a record starts with ``TY  -`` and ends with
``ER  -``.
"""

from __future__ import annotations

import re
from typing import Any, Final

import rispy

from scholarbase.bibliographies.ids import find_ids, leading_ids
from scholarbase.bibliographies.references import (
    CHECKING,
    Purpose,
    Reference,
    plain_texts,
    too_long,
    unreadable,
)
from scholarbase.bibliographies.years import first_year, whole_day
from scholarbase.identifiers import field_ids
from scholarbase.markup import plain

START: Final = re.compile(r"^TY[ ]{1,4}-", re.MULTILINE)
_TAG: Final = re.compile(r"([A-Z][A-Z0-9])[ ]{1,4}-[ ]?(.*)")
_ID_TAGS: Final = {"DO": "DOI", "DI": "DOI", "L3": "DOI", "C2": "PMID"}
"""Tags with ids: EBSCO has DOIs in ``L3``, Scopus ids of PubMed in ``C2``, and EndNote those of PubMed Central."""
_TITLES: Final = ("title", "primary_title", "translated_title")
_AUTHORS: Final = ("authors", "first_authors", "secondary_authors")
_YEARS: Final = ("year", "publication_year", "date")
_VENUES: Final = (
    "journal_name",
    "secondary_title",
    "alternate_title1",
    "alternate_title2",
    "alternate_title3",
    "publisher",
)


def read_ris(text: str, purpose: Purpose = CHECKING) -> list[Reference]:
    """The references of a RIS file."""
    references: list[Reference] = []
    record: list[str] = []
    begin = 1
    for number, line in enumerate(text.split("\n"), 1):
        tag = _TAG.match(line)
        if tag is not None and tag[1] == "TY" and record:
            references.append(_reference(record, begin, purpose))
            record = []
        if not record:
            begin = number
        if record or line.strip():
            record.append(line.rstrip())
        if tag is not None and tag[1] == "ER" and record:
            references.append(_reference(record, begin, purpose))
            record = []
    if record:
        references.append(_reference(record, begin, purpose))
    return references


def _reference(lines: list[str], begin: int, purpose: Purpose) -> Reference:
    raw = "\n".join(lines).strip()
    if (refused := too_long(raw, begin, purpose.max_length)) is not None:
        return refused
    if not START.match(raw):
        return unreadable(raw, begin, "The RIS record is broken: it does not start with TY  -.")
    tags = [_TAG.match(line) for line in lines]
    written: dict[str, list[str]] = {}
    for tag in filter(None, tags):
        written.setdefault(tag[1], []).append(tag[2].strip())
    # rispy wants two spaces, and an end.
    normal = [
        f"{tag[1]}  - {tag[2]}" if tag else line
        for tag, line in zip(tags, lines, strict=True)
        if not (tag and tag[1] == "ER")
    ]
    try:
        [record] = rispy.loads("\n".join([*normal, "ER  - "]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return unreadable(raw, begin, f"The RIS record is broken: {error or type(error).__name__}.")
    names: list[str] = next((record[key] for key in _AUTHORS if record.get(key)), [])
    ids = [
        name
        for tag, scheme in _ID_TAGS.items()
        for value in written.get(tag, ())
        for name in field_ids(scheme, value)
    ]
    ids += [one.id for key in ("urls", "url") for one in find_ids(_joined(record.get(key)))]
    notes = "\n".join(_values(record.get("notes")) + _values(record.get("number")))
    ids += leading_ids(notes) if purpose.own_ids else [one.id for one in find_ids(notes)]
    days = (whole_day(_joined(record.get(key))) for key in ("date", "year", "publication_year"))
    keywords = (" ".join(word.split()) for word in _values(record.get("keywords")))
    pages = "-".join(filter(None, (_first(record, ("start_page",)), _first(record, ("end_page",)))))
    return Reference(
        raw,
        begin,
        _joined(record.get("id")) or None,
        tuple(dict.fromkeys(ids)),
        authors=tuple(plain(str(name)) for name in names[: purpose.max_authors]),
        more_authors=len(names) > purpose.max_authors,
        year=first_year(_first(record, _YEARS) or ""),
        kind=str(record.get("type_of_reference") or ""),
        date=next(filter(None, days), None),
        keywords=tuple(dict.fromkeys(filter(None, keywords))),
        url=next(iter(_values(record.get("urls")) + _values(record.get("url"))), None),
        volume=_first(record, ("volume",)),
        pages=pages or None,
        **plain_texts(
            _first(record, _TITLES) or "",
            _first(record, ("abstract", "notes_abstract")) or "",
            _first(record, _VENUES) or "",
        ),
    )


def _first(record: dict[str, Any], keys: tuple[str, ...]) -> str | None:
    return next((" ".join(_joined(record[key]).split()) for key in keys if record.get(key)), None)


def _values(value: Any) -> list[str]:
    return [str(one) for one in (value if isinstance(value, list) else [value]) if one]


def _joined(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value or "")
