"""The filters of lists of works, as conditions of native lists.

The forms of values are those of core/filter.py and core/fields.py of OpenAlex's server: ``a|b`` is either, ``!a|b``
neither, ``a+b`` (a space in a decoded URL) both, ``>5``, ``<5`` and ``2019-2021`` are ranges.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Final, NamedTuple

from scholarbase.api.dialects.openalex.ids import paper_id
from scholarbase.api.dialects.texts import Column, all_words, any_word
from scholarbase.errors import InvalidRequest
from scholarbase.indexes.query_syntax import MAX_WORDS
from scholarbase.models.listing import Among, Condition, Has, IdsOf, InRange, Presence, RangeOf

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
NUMBERS: Final[dict[str, RangeOf]] = {
    "publication_year": "year",
    "cited_by_count": "citation_count",
    "referenced_works_count": "reference_count",
}
IDS: Final[dict[str, IdsOf]] = {
    "openalex": "id",
    "openalex_id": "id",
    "ids.openalex": "id",
    "doi": "id",
    "ids.doi": "id",
    "mag": "id",
    "ids.mag": "id",
    "pmid": "id",
    "ids.pmid": "id",
    "pmcid": "id",
    "ids.pmcid": "id",
    "cites": "cites",
    "referenced_works": "cites",
    "cited_by": "cited_by",
}
_SCHEMES: Final = ("doi", "mag", "pmid", "pmcid")
FLAGS: Final[dict[str, Presence]] = {
    "is_oa": "arxiv",
    "open_access.is_oa": "arxiv",
    "has_abstract": "abstract",
    "has_pdf_url": "arxiv",
    "has_references": "references",
}
DATES: Final = ("from_publication_date", "to_publication_date", "publication_date")
TYPES: Final = ("type", "type_crossref")
PREPRINTS: Final = frozenset(("preprint", "posted-content"))
ARTICLES: Final = frozenset(("article", "journal-article"))
NAMES: Final = tuple(sorted([*TEXTS, *NUMBERS, *IDS, *FLAGS, *DATES, *TYPES, "has_doi"]))
"""The filters that a library can follow."""
_NOTHING: Final = Among("id", ())
_NUMBER: Final = re.compile(r"\d{1,12}", re.ASCII)
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


@dataclass(slots=True)
class Filters:
    """The filters of a request.

    Args:
        text: query syntax for the papers' texts, None without a search.
        conditions: all hold.
        fallback: the query to use where no paper matches ``text``, None without one.
        has_search: whether relevance can be compared.
    """

    text: str | None = None
    conditions: list[Condition] = field(default_factory=list)
    fallback: str | None = None
    has_search: bool = False


def read(search: str | None, text: str) -> Filters:
    """The filters of the parameters ``search`` and ``filter``.

    Raises:
        InvalidRequest: a filter is unknown or cannot be followed, or has an invalid value.
    """
    found = Filters()
    pairs = _split(text)
    if len(pairs) > MAX_FILTERS:
        raise InvalidRequest(f"There are {len(pairs)} filters: send {MAX_FILTERS} at most.")
    searches = [_Search(TEXTS[name], value) for name, value in pairs if name in TEXTS]
    if search is not None and search != '""':
        searches.insert(0, _Search(None, search, is_filter=False))
    _read_searches(found, searches)
    for name, value in pairs:
        if name not in TEXTS:
            found.conditions += _conditions(name, value)
    return found


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
    def is_negated(self) -> bool:
        return self.is_filter and self.value.startswith("!")

    @property
    def values(self) -> list[str]:
        return self.value.removeprefix("!").split("|") if self.is_filter else [self.value]


def _read_searches(found: Filters, searches: list[_Search]) -> None:
    """Raises InvalidRequest: all searches are negated."""
    if not searches:
        return
    found.has_search = True
    most = max(MAX_WORDS // sum(len(one.values) for one in searches), 1)
    wanted: list[str] = []
    unwanted: list[str] = []
    for one in searches:
        queries = [query for value in one.values if (query := all_words(value, one.column, most)) is not None]
        if queries:
            joined = f"({' OR '.join(queries)})" if len(queries) > 1 else queries[0]
            (unwanted if one.is_negated else wanted).append(joined)
        elif not one.is_negated:
            found.conditions.append(_NOTHING)  # no paper has a text without words
            return
    if not wanted:
        raise InvalidRequest(
            "A search that is only negated cannot be followed by this library: add one without !."
        )
    found.text = " AND ".join(wanted) + "".join(f" NOT {query}" for query in unwanted)
    if len(searches) == 1 and searches[0].column is None and len(searches[0].values) == 1:
        found.fallback = any_word(searches[0].value)


def _conditions(name: str, value: str) -> list[Condition]:
    values = value.split("|")
    negated = value.startswith("!")
    if negated:
        values = [one.removeprefix("!") for one in values]
    if len(values) > MAX_VALUES:
        raise InvalidRequest(
            f"Maximum number of values exceeded for {name}. Decrease values to {MAX_VALUES} or below"
        )
    if any(one.startswith("!") for one in values):
        raise InvalidRequest(
            "The ! operator can only be used at the beginning of an OR query, meaning NOT (a or b). Problem value: "
            f"{value[:200]}"
        )
    for kinds, condition in _READERS:
        if name in kinds:
            return condition(name, values, negated)
    raise AssertionError(name)


def _number_range(name: str, values: list[str], negated: bool) -> list[Condition]:
    if values == ["null"]:
        return [InRange(NUMBERS[name], ((None, None),), not negated)]
    ranges = tuple(_range(name, value.strip()) for value in values)
    return [InRange(NUMBERS[name], ranges, negated)]


def _range(name: str, value: str) -> tuple[int | None, int | None]:
    """The first and last number of ``5``, ``>5``, ``<5``, ``5-``, ``-5`` or ``5-9``."""
    sign, number = value[:1], value[1:]
    if sign in ("<", ">") and _NUMBER.fullmatch(number):
        return (None, int(number) - 1) if sign == "<" else (int(number) + 1, None)
    first, dash, last = value.partition("-")
    if all(not part or _NUMBER.fullmatch(part) for part in (first, last)) and (first or last):
        low = int(first) if first else None
        return low, (int(last) if last else None) if dash else low
    raise InvalidRequest(f"Value for param {name} must be a number or a range, not {value[:200]}.")


def _days(name: str, values: list[str], negated: bool) -> list[Condition]:
    if len(values) != 1 or negated:
        raise InvalidRequest(f"{name} takes one date, such as 2020-05-17.")
    value = values[0].strip()
    sign = value[:1] if value[:1] in ("<", ">") else ""
    day = _day(name, value.removeprefix(sign))
    if sign == ">":
        return [_from(day + timedelta(days=1))] if day < date.max else [_NOTHING]
    if sign == "<":
        return [_to(day - timedelta(days=1))] if day > date.min else [_NOTHING]
    if name == "from_publication_date":
        return [_from(day)]
    return [_to(day)] if name == "to_publication_date" else [_from(day), _to(day)]


def _from(day: date) -> Condition:
    return InRange("first_day", ((_digits(day), None),))


def _to(day: date) -> Condition:
    return InRange("last_day", ((None, _digits(day)),))


def _digits(day: date) -> int:
    return day.year * 10_000 + day.month * 100 + day.day


def _day(name: str, value: str) -> date:
    try:
        if _DAY.fullmatch(value):
            return date.fromisoformat(value)
    except ValueError:
        pass
    raise InvalidRequest(
        f"Value for param {name} is an invalid date. Format is yyyy-mm-dd (e.g. 2020-05-17)."
    )


def _ids(name: str, values: list[str], negated: bool) -> list[Condition]:
    """A space joins ids of which each must hold."""
    scheme = name.removeprefix("ids.")
    prefix = f"{scheme}:" if scheme in _SCHEMES else ""
    found = [[_id(name, one, prefix) for one in value.split()] for value in values]
    if any(not group for group in found):
        raise InvalidRequest(f"'' is not a valid OpenAlex ID, in {name}.")
    if len(found) == 1 and not negated:
        return [Among(IDS[name], (one,)) for one in found[0][:MAX_VALUES]]
    return [Among(IDS[name], tuple(one for group in found for one in group), negated)]


def _id(name: str, text: str, prefix: str) -> str:
    known = paper_id(text)
    if known is None and prefix:
        known = paper_id(prefix + text)
    if known is None:
        raise InvalidRequest(f"'{text[:200]}' is not a valid OpenAlex ID, in {name}.")
    return known


def _flag(name: str, values: list[str], negated: bool) -> list[Condition]:
    value = values[0].strip().lower()
    if len(values) != 1 or negated or value not in ("true", "false"):
        raise InvalidRequest(f"Value for {name} must be true or false, not {'|'.join(values)[:200]}.")
    if name in ("is_oa", "open_access.is_oa") and value == "false":
        return [_NOTHING]  # of papers that are not on arXiv it is unknown
    return [Has(FLAGS[name], value == "false")]


def _has_doi(name: str, values: list[str], negated: bool) -> list[Condition]:
    _flag("has_abstract", values, negated)
    return [Has("any_doi", values[0].strip().lower() == "false")]


def _types(name: str, values: list[str], negated: bool) -> list[Condition]:
    names = {value.strip().lower() for value in values}
    is_preprint, is_article = bool(names & PREPRINTS), bool(names & ARTICLES)
    if is_preprint and is_article:
        return [_NOTHING] if negated else []
    if not is_preprint and not is_article:
        return [] if negated else [_NOTHING]
    return [Has("preprint", is_preprint == negated)]


_READERS: Final[tuple[tuple[Container[str], Callable[[str, list[str], bool], list[Condition]]], ...]] = (
    (NUMBERS, _number_range),
    (DATES, _days),
    (IDS, _ids),
    (FLAGS, _flag),
    (TYPES, _types),
    (("has_doi",), _has_doi),
)


def sorts(text: str, *, has_search: bool) -> tuple[str, ...] | None:
    """The native sorts of the parameter ``sort``; None without one.

    Raises:
        InvalidRequest: a field or direction is unknown, or there is no relevance.
    """
    found: list[str] = []
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
            found.append("-relevance")
        else:
            found.append(("-" if direction == "desc" else "") + SORTS[name])
    if len(found) > MAX_SORTS:
        raise InvalidRequest(f"sort has {len(found)} fields: send {MAX_SORTS} at most.")
    return tuple(found) or None


SORTS: Final[Mapping[str, str]] = {
    "relevance_score": "relevance",
    "cited_by_count": "citation_count",
    "publication_date": "date",
    "publication_year": "date",
    "referenced_works_count": "reference_count",
    "display_name": "title",
    "title": "title",
    "id": "id",
}
MAX_SORTS: Final = 5
