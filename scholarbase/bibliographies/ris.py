"""RIS, one record at a time, each read by rispy.

The format is described at https://en.wikipedia.org/wiki/RIS_(file_format): a record starts with ``TY  -`` and ends with
``ER  -``.
"""

from __future__ import annotations

import re
from typing import Any, Final

import rispy

from scholarbase.bibliographies.ids import find_ids
from scholarbase.bibliographies.references import (
    MAX_AUTHORS,
    MAX_REFERENCE_LENGTH,
    Reference,
    too_long,
    unreadable,
)
from scholarbase.bibliographies.years import first_year

START: Final = re.compile(r"^TY[ ]{1,4}-", re.MULTILINE)
_TAG: Final = re.compile(r"([A-Z][A-Z0-9])[ ]{1,4}-[ ]?(.*)")
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


def read_ris(text: str) -> list[Reference]:
    """The references of a RIS file."""
    references: list[Reference] = []
    record: list[str] = []
    begin = 1
    for number, line in enumerate(text.split("\n"), 1):
        tag = _TAG.match(line)
        if tag is not None and tag[1] == "TY" and record:
            references.append(_reference(record, begin))
            record = []
        if not record:
            begin = number
        if record or line.strip():
            record.append(line.rstrip())
        if tag is not None and tag[1] == "ER" and record:
            references.append(_reference(record, begin))
            record = []
    if record:
        references.append(_reference(record, begin))
    return references


def _reference(lines: list[str], begin: int) -> Reference:
    raw = "\n".join(lines).strip()
    if (refused := too_long(raw, begin, MAX_REFERENCE_LENGTH)) is not None:
        return refused
    if not START.match(raw):
        return unreadable(raw, begin, "The RIS record is broken: it does not start with TY  -.")
    tags = (_TAG.match(line) for line in lines)
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
    ids = [one.id for key in ("doi", "urls", "url", "notes") for one in find_ids(_joined(record.get(key)))]
    return Reference(
        raw,
        begin,
        _joined(record.get("id")) or None,
        tuple(dict.fromkeys(ids)),
        _first(record, _TITLES),
        tuple(str(name) for name in names[:MAX_AUTHORS]),
        len(names) > MAX_AUTHORS,
        first_year(_first(record, _YEARS) or ""),
        venue=_first(record, _VENUES),
    )


def _first(record: dict[str, Any], keys: tuple[str, ...]) -> str | None:
    return next((" ".join(_joined(record[key]).split()) for key in keys if record.get(key)), None)


def _joined(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value or "")
