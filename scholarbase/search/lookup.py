"""Resolve the ids, filters and points in time of requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final

from scholarbase.errors import InvalidRequest, NothingLeft, PaperNotFound
from scholarbase.identifiers import Identifier, parse
from scholarbase.indexes import author_names, query_syntax
from scholarbase.indexes.catalog import Catalog
from scholarbase.indexes.filters import NO_FILTERS, ResolvedFilters
from scholarbase.indexes.vectors.index import VectorIndex
from scholarbase.models.author_requests import AuthorPapersBody
from scholarbase.models.authors import is_author_id, no_author
from scholarbase.models.checks import as_of_day, date_bounds, shown
from scholarbase.models.limits import MAX_IDS
from scholarbase.models.requests import EdgeBody, Filters
from scholarbase.models.sets import PREFIX, is_set
from scholarbase.models.status import EVERY_PAPER, STATUSES
from scholarbase.search.cache import Cache
from scholarbase.search.filter_values import FilterValues, check_kept, listed

MAX_SYNTAX_MATCHES: Final = 200_000
"""Matches of one FTS5 expression whose ids are needed."""
CACHED_IDS: Final = 4096
"""Cached paper ids. Looking one up takes a quarter of the SQL time of a short request."""
CACHED_EXCLUSIONS: Final = 4
"""Cached sets of papers that ``exclude`` removes, of up to 13 MB each."""
WARNED_IDS: Final = 20
"""Ids that a warning names."""
MAX_LISTED_SET: Final = MAX_IDS
"""Papers of a set up to which it is treated as a list of ids, so that dense vectors are compared exactly. Indexes find
the papers of larger sets by their own fields: within 100,000 of 130,000 papers BM25 took 1.7 ms so, and 191 ms with the
list of their ids (the fastest of 20 searches)."""
CACHED_SETS: Final = 16
"""Cached sets of up to ``MAX_LISTED_SET`` papers, a megabyte each."""
SHOWN_SETS: Final = 50
"""Names of sets that an error lists."""
MAX_AUTHOR_PAPERS: Final = MAX_IDS
"""The maximum number of papers, and of authors, that a filter by authors may stand for: that of ``within``."""
_LAST_DAY: Final = 9999_12_31


class Lookup:
    """Looks up ids, filters and days in one catalogue. Thread-safe."""

    def __init__(
        self,
        papers: Catalog,
        vectors: VectorIndex,
        snapshot: str,
        sets: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """
        Args:
            sets: the number of papers of each named set.
        """
        self._catalog = papers
        self._snapshot = snapshot
        self._values = FilterValues(papers, vectors, snapshot)
        self._sizes = sets
        self._sets: Cache[frozenset[int]] = Cache(CACHED_SETS)
        self._noticed: Cache[frozenset[int]] = Cache(len(STATUSES))
        self._numbers: Cache[int] = Cache(CACHED_IDS)
        self._excluded: Cache[frozenset[int]] = Cache(CACHED_EXCLUSIONS)
        self._earliest: tuple[int, bool] = (_LAST_DAY + 1, False)
        """A day not before that of the earliest paper, and whether it is the same."""

    def filters(self, request: Filters | EdgeBody) -> tuple[ResolvedFilters, tuple[str, ...]]:
        """The filters of a request, with days and catalogue ids, and warnings about those without effect.

        Raises:
            InvalidRequest: an id is invalid, or a phrase matches too many papers.
            NothingLeft: ``as_of`` is before every paper.
            PaperNotFound: the library does not hold a paper in the request.
        """
        by_authors, author_warnings = self._papers_by(request.author)
        dates = self.dates(request)
        if dates.within is not None:
            by_authors = dates.within if by_authors is None else by_authors & dates.within
        if isinstance(request, EdgeBody):
            return replace(dates, within=by_authors), author_warnings + self._values.numbers(dates)
        as_of, day = request.as_of, self.day(request.as_of)
        within, sets = self._within(request.within, as_of)
        if by_authors is not None and sets:
            members = self._catalog.in_sets(by_authors, sets)
            within, sets = (members if within is None else members | within), ()
        excluded, warnings = self._excluded_ids(request.exclude_ids, as_of, day)
        categories, category_warnings = self._values.categories(request.category)
        venues, venue_warnings = self._values.venues(request.venue)
        types, not_types, type_warnings = self._values.types(request.type)
        filters = replace(
            dates,
            categories=categories,
            venues=venues,
            types=types,
            not_types=not_types,
            within=within if by_authors is None else by_authors if within is None else within & by_authors,
            sets=sets,
            exclude=excluded | self._matching_phrases(request.exclude, day),
            min_citations=request.min_citations,
        )
        warnings += (
            author_warnings
            + category_warnings
            + venue_warnings
            + type_warnings
            + self._values.numbers(filters)
        )
        return (NO_FILTERS if filters == NO_FILTERS else filters), warnings

    def _within(
        self, within: Sequence[str] | None, as_of: str | None
    ) -> tuple[frozenset[int] | None, tuple[str, ...]]:
        """The papers that ``within`` lists, those of its small sets among them, and the names of its large sets.

        Raises:
            InvalidRequest: an id is invalid, or a set is unknown.
            PaperNotFound: the library does not hold a paper.
        """
        if within is None:
            return None, ()
        named = list(dict.fromkeys(entry.strip()[len(PREFIX) :].strip() for entry in within if is_set(entry)))
        for name in named:
            if name not in self._sizes:
                known = ", ".join(sorted(self._sizes)[:SHOWN_SETS]) or "none"
                raise InvalidRequest(
                    f"within names the set {shown(name)}, which this library (snapshot {self._snapshot}) does not "
                    f"have. Its sets: {known}."
                )
        ids = [entry for entry in within if not is_set(entry)]
        listed = frozenset(self.ids(ids, as_of)) if ids or not named else frozenset()
        large = tuple(sorted(name for name in named if self._sizes[name] > MAX_LISTED_SET))
        for name in named:
            if name not in large:
                listed |= self._sets.get(name, partial(self._catalog.set_papers, name))
        return (listed or None if large else listed), large

    def dates(self, request: Filters | EdgeBody | AuthorPapersBody) -> ResolvedFilters:
        """The filters of a request's dates and status. Raises NothingLeft: ``as_of`` is before every paper."""
        to = None if request.to is None else date_bounds(request.to, "to")[1]
        days = [limit for limit in (to, self.day(request.as_of)) if limit is not None]
        first = None if request.from_ is None else date_bounds(request.from_, "from")[0]
        statuses = () if set(request.status) == EVERY_PAPER else tuple(sorted(request.status))
        noticed = None
        if not EVERY_PAPER.issuperset(statuses):
            noticed, statuses = self._noticed.get(statuses, partial(self._catalog.with_notices, statuses)), ()
        return ResolvedFilters(
            first_day=first, last_day=min(days, default=None), statuses=statuses, within=noticed
        )

    def _papers_by(self, authors: Sequence[str]) -> tuple[frozenset[int] | None, tuple[str, ...]]:
        """The papers by any of the authors, None without authors, and a warning about unknown ones.

        Raises:
            InvalidRequest: they are too many or have too many papers, or a name is only initials or begins with a sign
                that leaves out.
        """
        if not authors:
            return None, ()
        check_kept("author", authors)
        ids = {author: author_names.canonical_id(author) for author in authors}
        by_id = self._catalog.find_authors(ids.values())
        numbers, unknown = set(by_id.values()), []
        for author, author_id in ids.items():
            if author_id in by_id:
                continue
            named = []
            if not is_author_id(author):
                named = self._catalog.authors_named(name_expression(author, "author"), MAX_AUTHOR_PAPERS)
            numbers.update(named)
            if not named:
                unknown.append(author)
            if len(numbers) > MAX_AUTHOR_PAPERS:
                raise _too_many(authors)
        papers = self._catalog.papers_of_authors(numbers, MAX_AUTHOR_PAPERS)
        if len(papers) > MAX_AUTHOR_PAPERS:
            raise _too_many(authors)
        return frozenset(papers), self._values.authors(unknown) if unknown else ()

    def authors(self, ids: Sequence[str], as_of: str | None) -> list[int | None]:
        """The numbers of authors, None for those without a paper (as of a day)."""
        canonical = list(map(author_names.canonical_id, ids))
        by_id = self._catalog.find_authors(canonical, self.day(as_of))
        return list(map(by_id.get, canonical))

    def author(self, author_id: str, as_of: str | None) -> int:
        """The number of an author. Raises AuthorNotFound."""
        [number] = self.authors([author_id], as_of)
        if number is None:
            raise no_author(author_id, self._snapshot, as_of)
        return number

    def _excluded_ids(
        self, ids: Sequence[str], as_of: str | None, day: int | None
    ) -> tuple[frozenset[int], tuple[str, ...]]:
        """The papers of ``exclude_ids``. A paper that is not there cannot be a result, so it needs only a warning."""
        if not ids:
            return frozenset(), ()
        numbers = self.find(ids, day)
        existing = frozenset(number for number in numbers if number is not None)
        if day is not None:
            existing = frozenset(self._catalog.existing(list(existing), day))
        missing = [paper_id for paper_id, number in zip(ids, numbers, strict=True) if number not in existing]
        if not missing:
            return existing, ()
        where = f"this library (snapshot {self._snapshot})" + ("" if as_of is None else f" as of {as_of}")
        return existing, (
            f"exclude_ids has no effect for papers that are not in {where}: {listed(missing, WARNED_IDS)}.",
        )

    def _matching_phrases(self, phrases: Sequence[str], day: int | None) -> frozenset[int]:
        """The papers, as of a day, whose title or abstract contains one of the phrases."""
        if not phrases:
            return frozenset()

        papers = self.matching(query_syntax.any_phrase(phrases), day)
        if len(papers) > MAX_SYNTAX_MATCHES:
            raise InvalidRequest(
                f"exclude {list(phrases)!r} matches more than {MAX_SYNTAX_MATCHES:,} papers: use longer phrases."
            )
        return papers

    def matching(self, expression: str, day: int | None) -> frozenset[int]:
        """The papers, as of a day, that match an FTS5 expression, one more than ``MAX_SYNTAX_MATCHES`` at most."""

        def find() -> frozenset[int]:
            filters = ResolvedFilters(last_day=day)
            return frozenset(self._catalog.matching_ids(expression, MAX_SYNTAX_MATCHES + 1, filters))

        # Agents repeat the same phrases from search to search.
        return self._excluded.get((expression, day), find)

    def day(self, as_of: str | None) -> int | None:
        """The last day of ``as_of``. Raises NothingLeft if every paper is later."""
        if as_of is None:
            return None
        day = as_of_day(as_of)
        earliest, is_first = self._earliest
        if day < earliest and not is_first:
            # The day of any paper is usually enough: finding the earliest takes a second in a large library.
            any_day = self._catalog.any_by(day)
            first = self._catalog.first_day() if any_day is None else None
            earliest = first or _LAST_DAY + 1 if any_day is None else any_day
            self._earliest = earliest, any_day is None
        if day < earliest:
            raise NothingLeft(
                f"as_of {as_of!r} is before every paper of this library, so nothing can match: give a later date."
            )
        return day

    def id(self, paper_id: str, as_of: str | None = None) -> int:
        """The catalogue id of a paper. Raises as ``paper``."""
        # Agents look up a paper, then its references, then its citations.
        return self._numbers.get((paper_id, as_of), lambda: self.ids([paper_id], as_of)[0])

    def find(self, ids: Sequence[str], day: int | None = None) -> list[int | None]:
        """The catalogue ids of papers, None for those that the library lacks. Where it has citation keys, a text of no
        other form may be one; a key of several papers names the only one, if there is one, that had appeared by a day.

        Raises:
            InvalidRequest: an id has no valid form, or is a citation key of several papers.
        """
        identifiers = [parse(paper_id, keys=not is_set(paper_id)) for paper_id in ids]
        numbers = self._catalog.resolve(identifiers)
        for place, identifier in enumerate(identifiers):
            if numbers[place] is None and identifier.scheme == "Key":
                numbers[place] = self._of_key(ids[place], identifier, day)
        return numbers

    def _of_key(self, paper_id: str, key: Identifier, day: int | None) -> int | None:
        """The only paper by a day with a key that several have, None without one.

        Raises:
            InvalidRequest: it is that of several papers by then, or the library has no keys, and the text is not an id
                of another form.
        """
        sharing = self._catalog.sharing_key(key.value, day)
        if not sharing:
            if not self._catalog.has_keys():
                parse(paper_id)
            return None
        if len(sharing) == 1:
            return sharing[0][0]
        papers = self._catalog.papers([number for number, _ in sharing], ("id", "title"))
        names = [
            f"{paper.id if of_file is None else f'Key:{of_file}'} ({shown(paper.title, 60)})"
            for paper, (_, of_file) in zip(papers, sharing, strict=True)
        ]
        raise InvalidRequest(
            f"The citation key {key.value!r} is that of {len(names)} papers: use {' or '.join(names)}."
        )

    def ids(self, ids: Sequence[str], as_of: str | None = None) -> list[int]:
        day = self.day(as_of)
        resolved = self.find(ids, day)
        missing = [paper_id for paper_id, number in zip(ids, resolved, strict=True) if number is None]
        if missing:
            first = parse(missing[0], keys=True)
            near = self._catalog.near_keys(first.value, day) if first.scheme == "Key" else []
            advice = (
                f"similar citation keys are {', '.join(map(repr, near))} (case matters)."
                if near
                else "try a title match or another id of the paper."
            )
            raise PaperNotFound(
                f"No paper {listed(missing)} in this library (snapshot {self._snapshot}): {advice}"
            )
        numbers = [number for number in resolved if number is not None]
        existing = set(numbers) if day is None else self._catalog.existing(numbers, day)
        later = [paper_id for paper_id, number in zip(ids, numbers, strict=True) if number not in existing]
        if later:
            which = "Paper {} does" if len(later) == 1 else "Papers {} do"
            raise PaperNotFound(
                f"{which.format(listed(later))} not exist as of {as_of}: published later, or on an unknown day. "
                "Use a later as_of, or leave it out."
            )
        return numbers


def name_expression(name: str, argument: str) -> str:
    """The FTS5 expression of a name. Raises InvalidRequest: it is only initials."""
    expression = author_names.expression(name)
    if expression is None:
        raise InvalidRequest(
            f"{argument} {shown(name)} has no word of two letters: give a family name, not only initials."
        )
    return expression


def _too_many(authors: Sequence[str]) -> InvalidRequest:
    return InvalidRequest(
        f"author {listed(authors)} stands for more than {MAX_AUTHOR_PAPERS:,} authors or papers: use whole names, or "
        "ids."
    )
