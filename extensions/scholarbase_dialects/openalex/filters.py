"""The filters of lists of works, as conditions on papers.

The forms of values are those of core/filter.py and core/fields.py of OpenAlex's server: ``a|b`` is either, ``!a|b``
neither, ``a+b`` (a space in a decoded URL) both, ``>5``, ``<5`` and ``2019-2021`` are ranges.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final, Literal, NamedTuple

from scholarbase.errors import InvalidRequest
from scholarbase.indexes.query_syntax import MAX_WORDS
from scholarbase_dialects.listing.conditions import (
    Among,
    ArxivIds,
    Condition,
    Days,
    Either,
    Has,
    ListOrder,
    Number,
    Without,
    either,
    every,
)
from scholarbase_dialects.openalex.ids import paper_id
from scholarbase_dialects.texts import Column, all_words, any_word

MAX_VALUES: Final = 100
"""Values of one filter, as the original allows."""
MAX_FILTERS: Final = 50
"""Filters of one request."""

TEXTS: Final[dict[str, Column | None]] = {
    "default.search": None,
    "title_and_abstract.search": None,
    "title.search": "title",
    "display_name.search": "title",
    "abstract.search": "abstract",
}
NUMBERS: Final[dict[str, Literal["year", "citation_count", "reference_count"]]] = {
    "publication_year": "year",
    "cited_by_count": "citation_count",
    "referenced_works_count": "reference_count",
}
_SCHEMES: Final = ("doi", "mag", "pmid", "pmcid")
IDS: Final[dict[str, Literal["id", "cites", "cited_by"]]] = {
    "openalex_id": "id",
    **{prefix + name: "id" for name in ("openalex", *_SCHEMES) for prefix in ("", "ids.")},
    "cites": "cites",
    "referenced_works": "cites",
    "cited_by": "cited_by",
}
_ON_ARXIV: Final = ArxivIds()
_OPEN: Final = either([_ON_ARXIV, Has("open_access")])
_CLOSED: Final = every([Without(_ON_ARXIV), Has("closed_access")])
FLAGS: Final[dict[str, Condition]] = {
    "is_oa": _OPEN,
    "open_access.is_oa": _OPEN,
    "has_abstract": Has("abstract"),
    "has_doi": either([_ON_ARXIV, Has("doi")]),
    "has_pdf_url": _ON_ARXIV,
    "has_references": Has("references"),
    "is_retracted": Has("retracted"),
}
DATES: Final = ("from_publication_date", "to_publication_date", "publication_date")
TYPES: Final = ("type", "type_crossref")
PREPRINTS: Final = frozenset(("preprint", "posted-content"))
ARTICLES: Final = frozenset(("article", "journal-article"))
NAMES: Final = tuple(sorted([*TEXTS, *NUMBERS, *IDS, *FLAGS, *DATES, *TYPES]))
"""The filters that a library can follow."""
_PREPRINT: Final = every([_ON_ARXIV, Without(Has("doi"))])
_NOTHING: Final = Either(())
Held = Callable[[Sequence[str]], tuple[int, ...]]
"""The catalogue ids of those papers that the library holds."""
_NUMBER: Final = re.compile(r"\d{1,12}", re.ASCII)
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of a request.

    Args:
        condition: all filters and searches.
        fallback: the condition to use where no paper meets the first one; None without one.
        has_search: whether relevance can be compared.
        title: the text of a single search, which may be a title.
    """

    condition: Condition
    fallback: Condition | None
    has_search: bool
    title: str = ""


def read(search: str | None, text: str, held: Held) -> Filters:
    """The filters of the parameters ``search`` and ``filter``.

    Raises:
        InvalidRequest: a filter is unknown or cannot be followed, or has an invalid value.
    """
    pairs = _split(text)
    if len(pairs) > MAX_FILTERS:
        raise InvalidRequest(f"There are {len(pairs)} filters: send {MAX_FILTERS} at most.")
    searches = [_Search(TEXTS[name], value) for name, value in pairs if name in TEXTS]
    if search is not None and search != '""':
        searches.insert(0, _Search(None, search, is_filter=False))
    others = [_condition(name, value, held) for name, value in pairs if name not in TEXTS]
    fallback = None
    if len(searches) == 1 and searches[0].is_plain:
        words = any_word(searches[0].value)
        fallback = None if words is None else every([words, *others])
    most = max(MAX_WORDS // max(sum(len(clause.values) for clause in searches), 1), 1)
    conditions = [clause.condition(most) for clause in searches]
    title = searches[0].value if len(searches) == 1 else ""
    return Filters(every([*conditions, *others]), fallback, bool(searches), title)


def _split(text: str) -> list[tuple[str, str]]:
    """The names and values of filters. A comma in a text that is searched for does not end it, unless the name of
    another filter follows."""
    pairs: list[tuple[str, str]] = []
    for part in text.split(",") if text.strip() else ():
        key, colon, value = part.partition(":")
        name = key.strip().replace("-", "_")
        if pairs and pairs[-1][0] in TEXTS and (not colon or name not in NAMES):
            pairs[-1] = (pairs[-1][0], f"{pairs[-1][1]},{part}")
        elif not colon:
            raise InvalidRequest(f"Invalid query parameter in {part[:200]}.")
        elif name not in NAMES:
            raise InvalidRequest(
                f"{name[:200]} is not a valid field. Valid fields of this library are underscore or hyphenated "
                f"versions of: {', '.join(NAMES)}"
            )
        else:
            pairs.append((name, value))
    return pairs


class _Search(NamedTuple):
    """A text that is searched for. One of a filter may have several values, and be negated."""

    column: Column | None
    value: str
    is_filter: bool = True

    @property
    def values(self) -> list[str]:
        return self.value.removeprefix("!").split("|") if self.is_filter else [self.value]

    @property
    def is_plain(self) -> bool:
        return self.column is None and len(self.values) == 1 and not self._is_negated

    @property
    def _is_negated(self) -> bool:
        return self.is_filter and self.value.startswith("!")

    def condition(self, most: int) -> Condition:
        """The papers with all words of one of the values. No paper has a text without words."""
        matching = either([words for value in self.values if (words := all_words(value, self.column, most))])
        return Without(matching) if self._is_negated else matching


def _condition(name: str, value: str, held: Held) -> Condition:
    """Raises InvalidRequest: the value is invalid."""
    is_negated = value.startswith("!")
    values = value.split("|")
    if is_negated:
        values = [alternative.removeprefix("!") for alternative in values]
    if len(values) > MAX_VALUES:
        raise InvalidRequest(
            f"Maximum number of values exceeded for {name}. Decrease values to {MAX_VALUES} or below"
        )
    if any(alternative.startswith("!") for alternative in values):
        raise InvalidRequest(
            "The ! operator can only be used at the beginning of an OR query, meaning NOT (a or b). Problem value: "
            f"{value[:200]}"
        )
    if name in FLAGS or name in DATES:
        if len(values) > 1 or is_negated:
            raise InvalidRequest(f"Value for {name} must be one value, not {value[:200]}.")
        return _flag(name, values[0]) if name in FLAGS else _days(name, values[0].strip())
    if name in NUMBERS:
        condition = either([_range(name, alternative.strip()) for alternative in values])
    elif name in IDS:
        condition = _ids(name, values, held)
    else:
        condition = either([_type(alternative.strip().lower()) for alternative in values])
    return Without(condition) if is_negated else condition


def _range(name: str, value: str) -> Condition:
    """The papers with ``5``, ``>5``, ``<5``, ``5-``, ``-5`` or ``5-9``, or ``null`` for an unknown number."""
    field = NUMBERS[name]
    if value == "null":
        return Without(Number(field))
    sign, number = value[:1], value[1:]
    if sign in ("<", ">") and _NUMBER.fullmatch(number):
        return Number(field, high=int(number) - 1) if sign == "<" else Number(field, low=int(number) + 1)
    first, dash, last = value.partition("-")
    if all(not part or _NUMBER.fullmatch(part) for part in (first, last)) and (first or last):
        low = int(first) if first else None
        return Number(field, low, (int(last) if last else None) if dash else low)
    raise InvalidRequest(f"Value for param {name} must be a number or a range, not {value[:200]}.")


def _days(name: str, value: str) -> Condition:
    sign = value[:1] if value[:1] in ("<", ">") else ""
    day = _day(name, value.removeprefix(sign))
    number = day.year * 10_000 + day.month * 100 + day.day
    if sign:
        return Days(first=number + 1) if sign == ">" else Days(last=number - 1)
    if name == "from_publication_date":
        return Days(first=number)
    return Days(last=number) if name == "to_publication_date" else Days(number, number)


def _day(name: str, value: str) -> date:
    try:
        if _DAY.fullmatch(value):
            return date.fromisoformat(value)
    except ValueError:
        pass
    raise InvalidRequest(
        f"Value for param {name} is an invalid date. Format is yyyy-mm-dd (e.g. 2020-05-17)."
    )


def _ids(name: str, values: list[str], held: Held) -> Condition:
    """One of the ids; those that a space joins, all of them."""
    scheme = name.removeprefix("ids.")
    prefix = f"{scheme}:" if scheme in _SCHEMES else ""
    groups = [[_id(name, text, prefix) for text in value.split()] for value in values]
    if any(not group for group in groups):
        raise InvalidRequest(f"'' is not a valid OpenAlex ID, in {name}.")
    if sum(map(len, groups)) > MAX_VALUES:
        raise InvalidRequest(
            f"Maximum number of values exceeded for {name}. Decrease values to {MAX_VALUES} or below"
        )
    if all(len(group) == 1 for group in groups):
        return Among(IDS[name], held([identifier for group in groups for identifier in group]))
    return either([every([Among(IDS[name], held([identifier])) for identifier in group]) for group in groups])


def _id(name: str, text: str, prefix: str) -> str:
    known = paper_id(text)
    if known is None and prefix:
        known = paper_id(prefix + text)
    if known is None:
        raise InvalidRequest(f"'{text[:200]}' is not a valid OpenAlex ID, in {name}.")
    return known


def _flag(name: str, text: str) -> Condition:
    value = text.strip().lower()
    if value not in ("true", "false"):
        raise InvalidRequest(f"Value for {name} must be true or false, not {text[:200]}.")
    if value == "true":
        return FLAGS[name]
    # Of some papers it is unknown whether they are open.
    return _CLOSED if FLAGS[name] is _OPEN else Without(FLAGS[name])


def _type(name: str) -> Condition:
    if name in PREPRINTS:
        return _PREPRINT
    return Without(_PREPRINT) if name in ARTICLES else _NOTHING


def orders(text: str, *, has_search: bool) -> tuple[ListOrder, ...] | None:
    """The native orders of the parameter ``sort``; None without one.

    Raises:
        InvalidRequest: a field or direction is unknown, or there is no relevance.
    """
    native_orders: list[ListOrder] = []
    for part in text.split(",") if text.strip() else ():
        key, colon, direction = part.partition(":")
        name = key.strip().replace("-", "_")
        if name not in SORTS:
            raise InvalidRequest(
                f"{name[:200]} is not a valid field. Valid fields of this library for sort are: {', '.join(SORTS)}"
            )
        if colon and direction not in ("asc", "desc"):
            raise InvalidRequest(f"Invalid query parameter in {part[:200]}.")
        if name == "relevance_score":
            if not has_search:
                raise InvalidRequest(
                    "Must include a search query (such as ?search=example or "
                    "?filter=display_name.search:example) in order to sort by relevance_score."
                )
            native_orders.append("-relevance")
        else:
            native_orders.append(SORTS[name][direction == "desc"])
    if len(native_orders) > MAX_SORTS:
        raise InvalidRequest(f"sort has {len(native_orders)} fields: send {MAX_SORTS} at most.")
    return tuple(native_orders) or None


SORTS: Final[Mapping[str, tuple[ListOrder, ListOrder]]] = {
    "relevance_score": ("-relevance", "-relevance"),
    "cited_by_count": ("citation_count", "-citation_count"),
    "publication_date": ("date", "-date"),
    "publication_year": ("date", "-date"),
    "referenced_works_count": ("reference_count", "-reference_count"),
    "display_name": ("title", "-title"),
    "title": ("title", "-title"),
    "id": ("id", "-id"),
}
"""The ascending and the descending order of each field."""
MAX_SORTS: Final = 5
