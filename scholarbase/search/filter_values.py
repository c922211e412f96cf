"""Values of filters as requests write them: those that papers of the library have, and the nearest to others.

A category, a venue or a publication type is understood if a paper has it, in its own or another spelling: case, spaces
and punctuation, ``cs.*``, an archive's old name. Another value matches no paper, and a warning names the nearest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from rapidfuzz import fuzz, process

from scholarbase.errors import InvalidRequest, VectorIndexError
from scholarbase.indexes.catalog import Catalog
from scholarbase.indexes.filters import (
    NO_FILTERS,
    NUMBER_FILTERS,
    ResolvedFilters,
    category_forms,
    venue_key,
)
from scholarbase.indexes.vectors.index import VectorIndex
from scholarbase.models.checks import shown
from scholarbase.search.cache import Cache

Field = Literal["category", "venue", "type"]

WARNED_VALUES: Final = 10
"""Unknown values that a warning names."""
MAX_SHOWN: Final = 60
"""Characters of an unknown value that a warning shows."""
CACHED_VALUES: Final = 4096
"""Cached values of requests, each with whether a paper has it."""
_LISTED: Final = 20_000
"""The most frequent values of a field, to which unknown ones are compared in a hundredth of a second each."""
_COMPARED: Final = 3
"""Unknown values whose nearest ones a warning names."""
_NEAREST: Final = 3
_LEAST: Final = 65
"""The least similarity (rapidfuzz's, 0 to 100) of a near value."""
_EVERY: Final = frozenset(("all", "any", "*"))
"""Values that mean no filter."""
_FIELDS: Final[Mapping[Field, tuple[str, str]]] = {
    "category": ("categories", "a category"),
    "venue": ("venue", "a venue"),
    "type": ("types", "a publication type"),
}
"""The field of a payload, and its value in words."""
_FILTERS: Final[Mapping[Field, str]] = {"category": "categories", "venue": "venues", "type": "types"}
"""The attribute of resolved filters."""
_NOT: Final = re.compile(r"(?:[-!~]\s*|(?:no|not|non)\s+)(?=\w)", re.IGNORECASE)
_PLAIN: Final = re.compile(r"[\w.&/-]+")
"""Categories that a warning names. Records of arXiv's have notes too: *(Learning*, *68T50,*."""
_NOT_LETTERS: Final = re.compile(r"[\W_]+")
_ABBREVIATION: Final = re.compile(r"\(([\w &-]{2,20})\)")
_SMALL_WORDS: Final = frozenset(("a", "an", "and", "der", "des", "et", "for", "in", "of", "on", "the"))

_PREFIX: Final = re.compile(r"(?:cat:|arxiv[.:]|physics\.)(?=.)", re.IGNORECASE)
"""A field of arXiv's query syntax, and the group of archives that no category is in: ``physics.hep-th``."""
_OTHER_CATEGORIES: Final = {
    "acc-phys": "physics.acc-ph", "adap-org": "nlin.AO", "alg-geom": "math.AG", "ao-sci": "physics.ao-ph",
    "atom-ph": "physics.atom-ph", "bayes-an": "physics.data-an", "chao-dyn": "nlin.CD", "chem-ph": "physics.chem-ph",
    "cmp-lg": "cs.CL", "comp-gas": "nlin.CG", "dg-ga": "math.DG", "funct-an": "math.FA",
    "mtrl-th": "cond-mat.mtrl-sci", "patt-sol": "nlin.PS", "plasm-ph": "physics.plasm-ph", "q-alg": "math.QA",
    "solv-int": "nlin.SI", "supr-con": "cond-mat.supr-con", "cs.sy": "eess.SY", "eess.sy": "cs.SY",
    "cs.it": "math.IT", "math.it": "cs.IT", "cs.na": "math.NA", "math.na": "cs.NA", "math-ph": "math.MP",
    "math.mp": "math-ph", "math.st": "stat.TH", "stat.th": "math.ST", "q-fin.ec": "econ.GN", "econ.gn": "q-fin.EC",
    "computer science": "cs", "mathematics": "math", "statistics": "stat", "economics": "econ",
    "quantitative biology": "q-bio", "quantitative finance": "q-fin", "astrophysics": "astro-ph",
    "condensed matter": "cond-mat", "quantum physics": "quant-ph", "electrical engineering": "eess",
}  # fmt: skip
"""Old names of archives, names that arXiv treats alike (https://arxiv.org/category_taxonomy,
https://arxiv.org/archive), and archives in words."""
_OTHER_VENUES: Final = {"arxiv": ("arxiv.org",), "arxiv.org": ("arxiv",)}
_OTHER_TYPES: Final = {
    **dict.fromkeys(
        ("survey", "reviewarticle", "literaturereview", "surveyarticle", "surveypaper"), "review"
    ),
    **dict.fromkeys(("article", "journal", "journalpaper"), "journalarticle"),
    **dict.fromkeys(("conferencepaper", "inproceedings", "proceedings", "proceedingsarticle"), "conference"),
    **dict.fromkeys(("chapter", "bookchapter", "incollection", "inbook"), "booksection"),
    **dict.fromkeys(("letter", "comment"), "lettersandcomments"),
    **dict.fromkeys(("thesis", "phdthesis"), "dissertation"),
}
"""Names of types in OpenAlex, BibTeX and questions, and those of libraries, both as :func:`_compact`."""


class FilterValues:
    """Reads the values of filters against one library's own. Thread-safe.

    A payload index of the vectors tells in less than a millisecond whether a paper has a value. All values are listed
    at the first unknown one, which takes some hundredths of a second for a million papers. If the vectors cannot be
    read, values are used unchanged.
    """

    def __init__(self, catalog: Catalog, vectors: VectorIndex, snapshot: str) -> None:
        self._catalog = catalog
        self._vectors = vectors
        self._where = f"this library (snapshot {snapshot})"
        self._present: Cache[bool] = Cache(CACHED_VALUES)
        self._lists: Cache[dict[str, int]] = Cache(len(_FIELDS))
        self._spellings: Cache[dict[str, list[str]]] = Cache(len(_FIELDS))
        self._limits: Cache[int | None] = Cache(8)

    def categories(self, names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The library's categories for these names, () if a name means all, and a warning about unknown names.

        Raises:
            InvalidRequest: a name begins with a sign that leaves out.
        """
        check_kept("category", names)
        return self._resolve("category", names, _category_spellings)

    def venues(self, names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The keys of these venues, () if a name means all, and a warning about unknown names.

        Raises:
            InvalidRequest: a name begins with a sign that leaves out.
        """
        check_kept("venue", names)
        return self._resolve("venue", names, self._venue_spellings)

    def types(self, names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """The publication types to keep, those to leave out (written after a hyphen), and a warning about unknown
        names."""
        wanted = [name for name in names if _NOT.match(name) is None]
        left_out = [_NOT.sub("", name) for name in names if _NOT.match(name) is not None]
        types, warning = self._resolve("type", wanted, _as_it_is)
        not_types, other = self._resolve("type", left_out, _as_it_is)
        return types, not_types, warning + other

    def authors(self, unknown: Sequence[str]) -> tuple[str, ...]:
        """A warning that nobody has these names or ids."""
        near = {name: self._catalog.near_authors(name, _NEAREST) for name in unknown[:_COMPARED]}
        return (f"author: nobody in {self._where} has the name or id {listed(unknown)}.{_nearest(near)}",)

    def numbers(self, filters: ResolvedFilters) -> tuple[str, ...]:
        """Warnings about dates before or after all papers, and more citations than any paper has."""
        warnings = []
        for number_filter in NUMBER_FILTERS:
            value = getattr(filters, number_filter.limit)
            if value is None:
                continue
            try:
                limit = self._limit(number_filter.column, greatest=number_filter.is_least)
            except VectorIndexError:
                continue
            if limit is None or (value > limit if number_filter.is_least else value < limit):
                what = number_filter.has
                if limit is not None:
                    what = number_filter.passes.format(
                        _date(limit) if number_filter.column.endswith("_day") else limit
                    )
                warnings.append(f"{number_filter.argument}: no paper of {self._where} {what}.")
        return tuple(warnings)

    def _limit(self, field: str, *, greatest: bool) -> int | None:
        """The greatest or the least value of a field of numbers; None if no paper has it."""

        def read() -> int | None:
            first = self._vectors.first(NO_FILTERS, (field, greatest))
            return None if first is None else first.get(field)

        return self._limits.get((field, greatest), read)

    def _resolve(
        self, field: Field, names: Sequence[str], spellings: Callable[[str], Iterator[Sequence[str]]]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        resolved: set[str] = set()
        unknown: list[str] = []
        for name in dict.fromkeys(names):
            try:
                values = self._understood(field, name, spellings)
            except VectorIndexError:
                values = next(spellings(name))
            if not values and name.strip().casefold() in _EVERY:
                return (), ()
            if not values:
                unknown.append(name)
            resolved.update(values or next(spellings(name)))
        return tuple(sorted(resolved)), self._warning(field, unknown) if unknown else ()

    def _understood(
        self, field: Field, name: str, spellings: Callable[[str], Iterator[Sequence[str]]]
    ) -> Sequence[str]:
        for values in spellings(name):
            if any(self._has(field, value) for value in values):
                return values
        known = self._by_spelling(field)
        return next((known[key] for key in _keys(field, name) if key in known), ())

    def _has(self, field: Field, value: str) -> bool:
        """Whether a paper has a value."""
        condition: dict[str, Any] = {_FILTERS[field]: (value,)}
        filters = ResolvedFilters(**condition)
        return self._present.get((field, value), lambda: self._vectors.first(filters) is not None)

    def _values(self, field: Field) -> dict[str, int]:
        """The most frequent values, and the number of papers of each; none if the index cannot list them."""

        def read() -> dict[str, int]:
            values = self._vectors.values(_FIELDS[field][0], _LISTED)
            return {
                value: values[value] for value in values if field != "category" or _PLAIN.fullmatch(value)
            }

        try:
            return self._lists.get(field, read)
        except VectorIndexError:
            return {}

    def _by_spelling(self, field: Field) -> dict[str, list[str]]:
        """The values by their letters alone, those of venues by abbreviations in parentheses too."""

        def read() -> dict[str, list[str]]:
            by_spelling: dict[str, list[str]] = {}
            for value in self._values(field):
                by_spelling.setdefault(_compact(value), []).append(value)
            if field == "venue":
                for value in self._values(field):
                    for short in _ABBREVIATION.findall(value):
                        by_spelling.setdefault(_compact(short), []).append(value)
            return by_spelling

        return self._spellings.get(field, read)

    def _venue_spellings(self, name: str) -> Iterator[Sequence[str]]:
        yield self._catalog.venue_keys([name])
        yield _OTHER_VENUES.get(venue_key(name), ())

    def _warning(self, field: Field, unknown: Sequence[str]) -> tuple[str, ...]:
        values = self._values(field)
        if not values:
            return (f"{field}: no paper of {self._where} has {_FIELDS[field][1]}.",)
        near = _nearest({name: _near(field, name[:MAX_SHOWN], values) for name in unknown[:_COMPARED]})
        frequent = ", ".join(map(repr, list(values)[:_NEAREST]))
        known = near or f" The most frequent are {frequent}."
        return (f"{field}: no paper of {self._where} has {listed(unknown)}.{known}",)


def _near(field: Field, name: str, values: Mapping[str, int]) -> list[str]:
    """The values nearest to a name: those with its letters as their subject or initials, then the most similar; of a
    category, else the most frequent of its archive."""
    key = _compact(name)
    scorer = fuzz.ratio
    nearest: list[str] = []
    if field == "category":
        nearest = [value for value in values if _compact(value.partition(".")[2]) == key != ""]
    elif field == "venue":
        scorer = fuzz.token_set_ratio
        key = venue_key(name)
        nearest = [value for value in values if len(key) > 2 and key in _initials(value)]
    choices = {value: venue_key(value) if field == "venue" else _compact(value) for value in values}
    nearest += (
        match[2]
        for match in process.extract(key, choices, scorer=scorer, limit=_NEAREST, score_cutoff=_LEAST)
    )
    if field == "category" and not nearest:
        archive = name.casefold().partition(".")[0]
        nearest = [value for value in values if value.partition(".")[0] == archive]
    return list(dict.fromkeys(nearest))[:_NEAREST]


def _nearest(near: Mapping[str, Sequence[str]]) -> str:
    """Sentences that name the values near to unknown ones."""
    return "".join(
        f" Nearest to {shown(name, MAX_SHOWN)}: {', '.join(shown(value, MAX_SHOWN) for value in values)}."
        for name, values in near.items()
        if values
    )


def check_kept(field: str, names: Sequence[str]) -> None:
    """Raise InvalidRequest for a name that begins with a minus, ``!`` or ``~``: only types can be left out."""
    for name in names:
        if name[:1] in ("-", "!", "~"):
            raise InvalidRequest(
                f"{field} {shown(name, MAX_SHOWN)} would leave papers out, but this filter only keeps papers: name "
                "what to keep, or leave papers out with exclude or exclude_ids."
            )


def listed(values: Sequence[str], most: int = WARNED_VALUES) -> str:
    """Values as a message lists them, the first of many."""
    more = len(values) - most
    first = ", ".join(shown(value, MAX_SHOWN) for value in values[:most])
    return first + (f" and {more:,} more" if more > 0 else "")


def _category_spellings(name: str) -> Iterator[Sequence[str]]:
    yield sorted(category_forms(name))
    bare = _PREFIX.sub("", re.sub(r"[.\s]*\*$", "", name.strip()))
    yield sorted(category_forms(bare))
    if (other := _OTHER_CATEGORIES.get(bare.lower())) is not None:
        yield (other,)


def _as_it_is(name: str) -> Iterator[Sequence[str]]:
    yield (name,)


def _keys(field: Field, name: str) -> Iterator[str]:
    """The keys by which :meth:`FilterValues._by_spelling` may have a name."""
    key = _compact(name)
    yield key
    if field == "type":
        yield _OTHER_TYPES.get(key, "")
        yield (singular := key.removesuffix("s"))
        yield _OTHER_TYPES.get(singular, "")


def _compact(text: str) -> str:
    return _NOT_LETTERS.sub("", text.casefold())


def _initials(venue: str) -> str:
    return "".join(word[0] for word in venue.split() if word not in _SMALL_WORDS)


def _date(day: int) -> str:
    return f"{day // 10000:04}-{day // 100 % 100:02}-{day % 100:02}"
