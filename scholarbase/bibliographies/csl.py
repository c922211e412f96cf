"""CSL-JSON: https://citeproc-js.readthedocs.io/en/latest/csl-json/markup.html."""

from __future__ import annotations

from typing import Any, Final

import orjson

from scholarbase.bibliographies.ids import find_ids, whole_id
from scholarbase.bibliographies.references import (
    MAX_AUTHORS,
    MAX_REFERENCE_LENGTH,
    Reference,
    too_long,
    unreadable,
)
from scholarbase.bibliographies.years import first_year

_WITH_IDS: Final = ("DOI", "arXiv", "PMID", "PMCID", "URL", "note", "number", "container-title")


def read_csl(text: str) -> list[Reference]:
    """The references of a JSON list of items, of one item, or of an object with ``items``."""
    try:
        content = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return [unreadable(text.strip(), 1, f"The CSL-JSON is not valid: {error}.")]
    items = content.get("items", [content]) if isinstance(content, dict) else content
    if not isinstance(items, list):
        return [unreadable(text.strip(), 1, "The CSL-JSON has no list of items.")]
    # JSON has no lines of its own: items are numbered.
    return [_reference(item, place) for place, item in enumerate(items, 1)]


def _reference(item: Any, place: int) -> Reference:
    raw = orjson.dumps(item).decode()
    if (refused := too_long(raw, place, MAX_REFERENCE_LENGTH)) is not None:
        return refused
    if not isinstance(item, dict):
        return unreadable(raw, place, "The item is not a JSON object.")
    people = item.get("author") or item.get("editor") or []
    names = [name for name in map(_name, people) if name] if isinstance(people, list) else []
    ids = []
    for key in _WITH_IDS:
        value = _text(item.get(key))
        prefixed = whole_id(f"{key}:{value}") if value and key in ("DOI", "arXiv", "PMID", "PMCID") else None
        ids += [prefixed] if prefixed is not None else [one.id for one in find_ids(value)]
    title = " ".join(_text(item.get("title")).split())
    return Reference(
        raw,
        place,
        _text(item.get("id")) or None,
        tuple(dict.fromkeys(ids)),
        title or None,
        tuple(names[:MAX_AUTHORS]),
        len(names) > MAX_AUTHORS,
        _year(item.get("issued")),
        venue=_text(item.get("container-title")) or _text(item.get("publisher")) or None,
    )


def _name(person: Any) -> str:
    if not isinstance(person, dict):
        return _text(person)
    family, given = _text(person.get("family")), _text(person.get("given"))
    particle = _text(person.get("non-dropping-particle"))
    family = f"{particle} {family}".strip()
    return f"{family}, {given}" if family and given else family or _text(person.get("literal")) or given


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
