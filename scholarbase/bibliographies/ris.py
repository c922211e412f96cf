"""RIS: https://en.wikipedia.org/wiki/RIS_(file_format).

A record starts with ``TY  -`` and ends with ``ER  -``; a line without a tag continues the one before it. Text between
records, such as the numbers that Ovid writes, is no part of any.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from scholarbase.bibliographies.ids import field_ids, find_ids, invalid_ids, leading_ids
from scholarbase.bibliographies.references import (
    CHECKING,
    Purpose,
    Reference,
    plain_texts,
    timed,
    too_long,
    unreadable,
)
from scholarbase.bibliographies.years import first_year, whole_day
from scholarbase.markup import plain
from scholarbase.markup.html import decode_entities

START: Final = re.compile(r"^TY[ ]{1,4}-", re.MULTILINE)
_TAG: Final = re.compile(r"([A-Z][A-Z0-9])[ ]{1,4}-[ ]?(.*)")
_LISTS: Final = frozenset({"A1", "A2", "AU", "ED", "KW", "N1"})
"""Tags whose next lines are values of their own."""
_TITLES: Final = ("TI", "T1", "BT", "TT", "ST")
"""``BT`` is the title of a book, and in its chapters, which have a title too, the book's."""
_AUTHORS: Final = ("AU", "A1", "A2", "ED")
_YEARS: Final = ("PY", "Y1", "DA")
_DAYS: Final = ("DA", "PY", "Y1")
_VENUES: Final = ("JO", "T2", "JF", "BT", "C3", "J2", "JA", "J1", "T3", "PB")
_ID_TAGS: Final = {"DO": "DOI", "DI": "DOI", "L3": "DOI", "M3": "DOI", "C2": "PMID"}
"""Tags with ids: EBSCO has DOIs in ``L3``, Scopus ids of PubMed in ``C2``, and EndNote those of PubMed Central."""
_LINKS: Final = ("UR", "LK")

_Values = Mapping[str, Sequence[str]]
"""The values of each tag that are not empty."""


def read_ris(text: str, purpose: Purpose = CHECKING) -> list[Reference]:
    """The references of a RIS file."""
    return [_reference(lines, begin, purpose) for begin, lines in timed(_records(text))]


def _records(text: str) -> Iterator[tuple[int, list[str]]]:
    """The lines of each record, and the number of the first."""
    record: list[str] = []
    begin = 1
    for number, line in enumerate(text.split("\n"), 1):
        tag = _TAG.match(line)
        if tag is not None and tag[1] == "TY" and record:
            yield begin, record
            record = []
        begin = begin if record else number
        if record or tag is not None:
            record.append(line.rstrip())
        if tag is not None and tag[1] == "ER":
            yield begin, record
            record = []
    if record:
        yield begin, record


def _values(lines: Sequence[str]) -> _Values:
    values: dict[str, list[str]] = {}
    name = "TY"
    for line in lines:
        tag = _TAG.match(line)
        name, text = (tag[1], tag[2].strip()) if tag else (name, line.strip())
        listed = values.setdefault(name, [])
        if tag or not listed or name in _LISTS:
            listed += [text] if text else []
        else:
            listed[-1] = f"{listed[-1]} {text}"
    return values


def _reference(lines: list[str], begin: int, purpose: Purpose) -> Reference:
    raw = "\n".join(lines).strip()
    if (refused := too_long(raw, begin, purpose.max_length)) is not None:
        return refused
    if not START.match(raw):
        return unreadable(raw, begin, "The RIS record is broken: it does not start with TY  -.")
    record = _values(lines)
    names = next((record[tag] for tag in _AUTHORS if record.get(tag)), ())
    names = [
        name for listed in names for part in decode_entities(listed).split(";") if (name := part.strip())
    ]
    ids = [
        name
        for tag, scheme in _ID_TAGS.items()
        for value in record.get(tag, ())
        for name in field_ids(scheme, value)
    ]
    ids += [match.id for tag in _LINKS for match in find_ids(" ".join(record.get(tag, ())))]
    notes = "\n".join((*record.get("N1", ()), *record.get("IS", ())))
    ids += leading_ids(notes) if purpose.own_ids else [match.id for match in find_ids(notes)]
    days = (whole_day(day) for tag in _DAYS for day in record.get(tag, ()))
    has_title = any(record.get(tag) for tag in ("TI", "T1"))
    return Reference(
        raw,
        begin,
        _first(record, "ID"),
        tuple(dict.fromkeys(ids)),
        authors=tuple(map(_name, names[: purpose.max_authors])),
        more_authors=len(names) > purpose.max_authors,
        year=first_year(_first(record, *_YEARS) or ""),
        kind=_first(record, "TY") or "",
        date=next(filter(None, days), None),
        keywords=tuple(dict.fromkeys(record.get("KW", ()))),
        url=(_first(record, *_LINKS) or "").partition(";")[0].strip() or None,
        volume=_first(record, "VL"),
        pages="-".join(filter(None, (_first(record, "SP"), _first(record, "EP")))) or None,
        invalid_ids=tuple(invalid_ids("DOI", "DO", record.get("DO", ()))),
        **plain_texts(
            _first(record, *_TITLES) or "",
            _first(record, "AB", "N2") or "",
            _first(record, *(tag for tag in _VENUES if has_title or tag != "BT")) or "",
        ),
    )


def _name(text: str) -> str:
    """A name as :attr:`.Reference.authors` has it. EndNote ends those of groups with a comma."""
    name = plain(text)
    return f"{{{name.rstrip(', ')}}}" if name.endswith(",") else name


def _first(record: _Values, *tags: str) -> str | None:
    return next((" ".join(record[tag][0].split()) for tag in tags if record.get(tag)), None)
