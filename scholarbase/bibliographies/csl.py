"""CSL-JSON: https://citeproc-js.readthedocs.io/en/latest/csl-json/markup.html."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from scholarbase.bibliographies.ids import field_ids, find_ids, invalid_ids, leading_ids
from scholarbase.bibliographies.json_items import EXPECTED, as_item, json_items
from scholarbase.bibliographies.names import authors_in, listed_names, name_of, split_keywords
from scholarbase.bibliographies.references import (
    CHECKING,
    Purpose,
    Reference,
    plain_texts,
    too_long,
    unreadable,
    with_subtitle,
)
from scholarbase.bibliographies.years import first_year, whole_day
from scholarbase.markup import plain
from scholarbase.models.checks import shown

SHOWN_KEYS: Final = 12
"""Keys of an object that a message names."""
_WITH_IDS: Final = ("DOI", "arXiv", "PMID", "PMCID", "URL", "note", "number", "container-title")


def read_csl(text: str, purpose: Purpose = CHECKING) -> list[Reference]:
    """The references of JSON: items of CSL-JSON, or what :mod:`.json_items` reads as such."""
    try:
        items = json_items(text)
    except orjson.JSONDecodeError as error:
        return [unreadable(text.strip(), 1, f"The JSON is not valid: {error}.")]
    # JSON has no lines of its own: items are numbered.
    return [reference_of(item, number, purpose) for number, item in enumerate(items, 1)]


def is_item(record: Mapping[str, Any]) -> bool:
    """Whether a JSON object has keys of CSL-JSON that other lists of papers do not have."""
    authors = record.get("author")
    people = authors if isinstance(authors, list) else []
    return ("title" in record and ("issued" in record or "container-title" in record)) or any(
        isinstance(person, dict) and not person.keys().isdisjoint(("family", "literal")) for person in people
    )


def reference_of(item: Any, place: int, purpose: Purpose = CHECKING) -> Reference:
    """The reference of an item, which is at this place or on this line."""
    record = item
    item = as_item(record) if isinstance(record, dict) else {}
    is_paper = any(item.get(key) for key in ("title", "author", "issued", *_WITH_IDS))
    raw = orjson.dumps(item if is_paper else record).decode()
    if (refused := too_long(raw, place, purpose.max_length)) is not None:
        return refused
    if not isinstance(record, dict):
        return unreadable(raw, place, "The item is not a JSON object.")
    if not is_paper:
        keys = ", ".join(map(shown, list(record)[:SHOWN_KEYS])) or "none"
        return unreadable(raw, place, f"The keys of the JSON object are {keys}. {EXPECTED}")
    people = item.get("author") or item.get("editor") or []
    people = listed_names(people) if isinstance(people, str) else people
    names = [name for name in map(_name, authors_in(people)) if name] if isinstance(people, list) else []
    ids = []
    invalid = []
    for key in _WITH_IDS:
        value = _text(item.get(key))
        if key in ("DOI", "arXiv", "PMID", "PMCID"):
            ids += field_ids(key, value)
            invalid += invalid_ids(key, key, [value]) if key in ("DOI", "arXiv") else []
        elif purpose.own_ids and key in ("note", "container-title"):
            ids += leading_ids(value)
        else:
            ids += [match.id for match in find_ids(value)]
    return Reference(
        raw,
        place,
        _text(item.get("citation-key")) or _text(item.get("id")) or None,
        tuple(dict.fromkeys(ids)),
        authors=tuple(names[: purpose.max_authors]),
        more_authors=len(names) > purpose.max_authors,
        year=_year(item.get("issued") or item.get("year")),
        kind=_text(item.get("type")),
        date=_day(item.get("issued")),
        keywords=split_keywords(_text(item.get("keyword"))),
        url=_text(item.get("URL")) or None,
        volume=_text(item.get("volume")) or None,
        pages=_text(item.get("page")) or None,
        invalid_ids=tuple(invalid),
        **plain_texts(
            with_subtitle(_text(item.get("title")), _text(item.get("subtitle"))),
            _text(item.get("abstract")),
            _text(item.get("container-title")) or _text(item.get("publisher")),
        ),
    )


def _name(person: Any) -> str:
    """A name as :attr:`.Reference.authors` has it."""
    if not isinstance(person, dict):
        return plain(_text(person))
    name = plain(name_of(person))
    is_whole = name in (plain(_text(person.get(key))) for key in ("literal", "name"))
    return f"{{{name}}}" if name and is_whole else name


def _text(value: Any) -> str:
    if isinstance(value, list):
        value = value[0] if value else ""
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _year(issued: Any) -> int | None:
    if not isinstance(issued, dict):
        return first_year(_text(issued))
    parts = issued.get("date-parts")
    if isinstance(parts, list) and parts and isinstance(parts[0], list) and parts[0]:
        return first_year(_text(parts[0][0]))
    return first_year(_text(issued.get("raw")) or _text(issued.get("literal")))


def _day(issued: Any) -> str | None:
    """The day of a date with year, month and day."""
    parts = issued.get("date-parts") if isinstance(issued, dict) else None
    first = parts[0] if isinstance(parts, list) and parts else None
    if isinstance(first, list) and len(first) == 3:
        return whole_day("-".join(map(_text, first)))
    return whole_day(_text(issued.get("raw")) if isinstance(issued, dict) else "")
