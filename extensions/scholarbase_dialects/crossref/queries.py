"""The queries, filters and orders of lists of works, as conditions on papers, and the original's errors.

The checks and their messages are those of the original's server (cayenne.api.v1.validate).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import orjson

from scholarbase.errors import InvalidRequest
from scholarbase.identifiers import MAX_LENGTH, Identifier, parse
from scholarbase.indexes.query_syntax import MAX_WORDS
from scholarbase.models.checks import date_bounds
from scholarbase_dialects.base import Body, DialectRequest, invalid
from scholarbase_dialects.listing.conditions import (
    Among,
    ArxivIds,
    Authors,
    Condition,
    Days,
    Either,
    Has,
    ListOrder,
    Venue,
    Without,
    either,
    every,
    name_words,
)
from scholarbase_dialects.texts import any_word

Held = Callable[[Sequence[str]], tuple[int, ...]]
"""The catalogue ids of those papers that the library holds."""

MAX_FILTERS: Final = 100
"""Filters of one request."""
MAX_NAMES: Final = 20
"""Words of an author's or a venue's name that are read."""
QUERIES: Final = (
    "query", "query.bibliographic", "query.title", "query.author", "query.contributor", "query.container-title",
)  # fmt: skip
_PREPRINT: Final = every([ArxivIds(), Without(Has("doi"))])
_TYPES: Final = {"posted-content": _PREPRINT, "journal-article": Without(_PREPRINT)}
_OTHER_TYPES: Final = frozenset(
    (
        "book", "book-chapter", "book-part", "book-section", "book-series", "book-set", "book-track", "component",
        "database", "dataset", "dissertation", "edited-book", "grant", "journal", "journal-issue", "journal-volume",
        "monograph", "other", "peer-review", "proceedings", "proceedings-article", "proceedings-series",
        "reference-book", "reference-entry", "report", "report-component", "report-series", "standard",
    )
)  # fmt: skip
_FROM: Final = ("from-pub-date", "from-issued-date")
_UNTIL: Final = ("until-pub-date", "until-issued-date")
_HAS: Final[Mapping[str, Condition]] = {"has-abstract": Has("abstract"), "has-references": Has("references")}
FILTERS: Final = (*_FROM, *_UNTIL, *_HAS, "doi", "type")
SORTS: Final[Mapping[str, tuple[ListOrder, ListOrder]]] = {
    "score": ("relevance", "-relevance"),
    "relevance": ("relevance", "-relevance"),
    "published": ("date", "-date"),
    "issued": ("date", "-date"),
    "is-referenced-by-count": ("citation_count", "-citation_count"),
    "references-count": ("reference_count", "-reference_count"),
}
"""The ascending and the descending order of each field."""


NOT_FOUND = b"Resource not found."


def failure(kind: str, value: str | None, message: str) -> InvalidRequest:
    """The error of a parameter: its kind, the value and a sentence, in which ``{}`` stands for the value."""
    shown = None if value is None else value[:200]
    message = message.replace("{}", shown or "")
    return invalid(message, _validation(kind, shown, message))


def _not_one_of(what: str, value: str, valid: Iterable[str]) -> InvalidRequest:
    message = f"{what.capitalize()} specified as {{}} but must be one of: {', '.join(valid)}"
    return failure(f"{what.replace(' ', '-')}-not-valid", value, message)


def unavailable(what: str, name: str, valid: Iterable[str]) -> InvalidRequest:
    """The error of a name that the route does not know."""
    message = f"{what.capitalize()} {{}} specified but there is no such {what} for this route. Valid {what}s for this "
    return failure(f"{what}-not-available", name, f"{message}route are: {', '.join(valid)}")


def _validation(kind: str, value: object, message: str) -> Body:
    content = {
        "status": "failed",
        "message-type": "validation-failure",
        "message": [{"type": kind, "value": value, "message": message}],
    }
    return Body(orjson.dumps(content), status=400)


def error(status: int, message: str) -> Body:
    """Any other error: text, as the original's; of an invalid request, JSON."""
    if status == 400:
        return _validation("request-not-valid", None, message)
    if status == 404:
        return Body(NOT_FOUND, "text/plain", 404)
    return Body(message.encode(), "text/plain", status)


def condition(request: DialectRequest, held: Held) -> Condition:
    """The papers of all queries and filters.

    Raises:
        InvalidRequest: a filter is unknown or cannot be followed, or has an invalid value.
    """
    texts = [(name, request.text(name)) for name in QUERIES if request.text(name).strip()]
    most = max(MAX_WORDS // max(len(texts), 1), 1)
    return every(
        [
            *(_query(name, text, most) for name, text in texts),
            *_filters(request.query.get("filter", ()), held),
        ]
    )


def _query(name: str, text: str, most: int) -> Condition:
    """Any word of a title or text; all words of names. No paper has a text without words."""
    if name in ("query", "query.bibliographic", "query.title"):
        return any_word(text, "title" if name == "query.title" else None, most) or Either(())
    words = tuple(dict.fromkeys(word.casefold() for word in name_words(text)))[:MAX_NAMES]
    if not words:
        return Either(())
    return Venue(words) if name == "query.container-title" else every([Authors(((word,),)) for word in words])


def _filters(texts: Sequence[str], held: Held) -> list[Condition]:
    """Values of one filter in one text are alternatives; all filters hold, and all texts."""
    parts = [
        (position, part) for position, text in enumerate(texts) if text.strip() for part in text.split(",")
    ]
    values: dict[tuple[int, str], list[str]] = {}
    if len(parts) > MAX_FILTERS:
        message = f"There are {len(parts)} filters: send {MAX_FILTERS} at most."
        raise failure("filter-not-valid", None, message)
    for position, part in parts:
        name, colon, value = part.partition(":")
        if not colon:
            form = "Pair list form specified as '{}' but should be of the form: key:val,...,keyN:valN"
            raise failure("pair-list-form-invalid", texts[position], form)
        if name not in FILTERS:
            raise unavailable("filter", name, FILTERS)
        values.setdefault((position, name), []).append(value)
    return [_filter(name, given, held) for (_, name), given in values.items()]


def _filter(name: str, values: list[str], held: Held) -> Condition:
    if name == "doi":
        return Among("id", held([str(_doi(value)) for value in values]))
    return either([_value(name, value.strip()) for value in values])


def _value(name: str, value: str) -> Condition:
    if name in _FROM:
        return Days(first=_day(value)[0])
    if name in _UNTIL:
        return Days(last=_day(value)[1])
    if name == "type":
        if value not in _TYPES and value not in _OTHER_TYPES:
            raise _not_one_of("type", value, sorted([*_TYPES, *_OTHER_TYPES]))
        return _TYPES.get(value, Either(()))
    if value not in ("t", "true", "1", "f", "false", "0"):
        raise _not_one_of("boolean", value, ("t", "true", "1", "f", "false", "0"))
    return _HAS[name] if value in ("t", "true", "1") else Without(_HAS[name])


def _day(value: str) -> tuple[int, int]:
    try:
        return date_bounds(value)
    except InvalidRequest:
        pass
    form = "Date specified as {} but must be of the form: yyyy or yyyy-MM or yyyy-MM-dd"
    raise failure("date-not-valid", value, form)


def _doi(value: str) -> Identifier:
    identifier = paper_of(value)
    if identifier is None:
        raise failure(
            "doi-not-valid",
            value,
            "DOI specified as {} but must be of the form: 10.prefix/suffix where prefix is 4 or more "
            "digits and suffix is a string",
        )
    return identifier


def paper_of(text: str) -> Identifier | None:
    """The paper's id in a DOI, a link to it, or any other form; None for another text."""
    try:
        return parse(text.strip()[: MAX_LENGTH + 1])
    except InvalidRequest:
        return None


def reference(request: DialectRequest) -> str:
    """The text that may be a title or a whole reference: the first of the queries for them; empty without one."""
    texts = map(request.text, ("query.bibliographic", "query.title", "query"))
    return next((text for text in texts if text.strip()), "")


def orders(request: DialectRequest) -> tuple[ListOrder, ...]:
    """The order of the parameters ``sort`` and ``order``. By default by score, without a query by date.

    Raises:
        InvalidRequest: a value is unknown.
    """
    name, direction = request.text("sort") or "score", request.text("order") or "desc"
    if direction not in ("asc", "desc", "1", "-1"):
        raise _not_one_of("sort order", direction, ("asc", "desc", "1", "-1"))
    if name not in SORTS:
        raise _not_one_of("sort field", name, SORTS)
    return (SORTS[name][direction in ("desc", "-1")],)
