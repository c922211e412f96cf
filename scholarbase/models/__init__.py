"""The plain data that everything else speaks: papers, citations, requests and responses.

All of it is frozen. ``SearchRequest`` checks itself when it is made, so that a route, the client and the
library refuse the same things with the same sentences. ``to_dict`` gives the JSON of the HTTP contract,
``from_dict`` reads it back: ``Paper.from_dict(paper.to_dict()) == paper``.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

from scholarbase.errors import InvalidRequest, ScholarBaseError
from scholarbase.identifiers import parse

Mode = Literal["hybrid", "sparse", "dense"]
Engine = Literal["bm25", "feedback", "fts5", "learned"]
Direction = Literal["citations", "references", "both"]
CitationSort = Literal["citation_count", "-citation_count", "date", "-date"]

MODES: Final = ("hybrid", "sparse", "dense")
ENGINES: Final = ("bm25", "feedback", "fts5", "learned")
DIRECTIONS: Final = ("citations", "references", "both")
CITATION_SORTS: Final = ("-citation_count", "citation_count", "-date", "date")

MAX_LIMIT: Final = 1000
MAX_QUERY_LENGTH: Final = 10_000
"""Characters of a query. Longer than any title or question; a whole abstract still fits."""
MAX_IDS: Final = 10_000
"""Ids in one list: of a batch, of ``within``, of ``exclude_ids``, of the seeds of an expansion."""
MAX_PHRASES: Final = 20
"""Phrases in one ``exclude``."""
MAX_PHRASE_LENGTH: Final = 500
"""Characters of a phrase to exclude."""
MAX_BATCH: Final = 100
"""Searches in one HTTP request."""
MAX_TITLES: Final = 1000
"""Titles in one HTTP request."""
MAX_TITLE_MATCHES: Final = 100
"""Matches of one title: those beyond are hardly like it."""
MIN_TITLE_SCORE: Final = 0.7
"""How alike titles must be unless a call says otherwise; :mod:`scholarbase.indexes.titles` says what was measured."""


@dataclass(frozen=True, slots=True)
class Author:
    name: str
    author_id: str | None = None


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper as the library holds it. What is not known, or was not asked for, is None or empty.

    ``citation_count`` and ``reference_count`` are the source's own, worldwide figures, which are not told as of a
    point in time; how many edges this library holds is the ``total`` of a citations or references call.
    """

    id: str
    corpus_id: int | None = None
    external_ids: Mapping[str, str] = field(default_factory=dict)
    title: str | None = None
    abstract: str | None = None
    tldr: str | None = None
    authors: tuple[Author, ...] = ()
    year: int | None = None
    publication_date: str | None = None
    venue: str | None = None
    categories: tuple[str, ...] = ()
    citation_count: int | None = None
    reference_count: int | None = None
    url: str | None = None

    def to_dict(self, names: Sequence[str] | None = None) -> dict[str, Any]:
        """The paper's JSON, with all fields or only those named (``id`` always stands first)."""
        out: dict[str, Any] = {
            name: getattr(self, name) for name in (PAPER_FIELDS if names is None else names)
        }
        if "authors" in out:
            out["authors"] = [{"name": a.name, "author_id": a.author_id} for a in self.authors]
        if "categories" in out:
            out["categories"] = list(self.categories)
        if "external_ids" in out:
            out["external_ids"] = dict(self.external_ids)
        return out

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Paper:
        """Read a paper's JSON. Keys that a newer server may send are passed over."""
        known = {name: data[name] for name in PAPER_FIELDS if name in data}
        if "authors" in known:
            known["authors"] = tuple(Author(a["name"], a.get("author_id")) for a in known["authors"])
        if "categories" in known:
            known["categories"] = tuple(known["categories"])
        return cls(**known)


class PaperJson(dict[str, Any]):
    """A paper's JSON, made from what is stored without a :class:`Paper` on the way: for who only sends it on."""

    def to_dict(self, names: Sequence[str] | None = None) -> dict[str, Any]:
        """Itself: it holds the fields that were asked for."""
        return self


PAPER_FIELDS: Final[tuple[str, ...]] = tuple(f.name for f in fields(Paper))


def check_fields(names: Sequence[str] | None) -> tuple[str, ...]:
    """The fields asked for, in the paper's own order, ``id`` always among them.

    Raises:
        InvalidRequest: a name is no field of a paper.
    """
    if names is None:
        return PAPER_FIELDS
    if isinstance(names, str):
        raise InvalidRequest(f"fields is {names!r}: give a list of names, such as ['title', 'year'].")
    unknown = [name for name in names if name not in PAPER_FIELDS]
    if unknown:
        raise InvalidRequest(
            f"Unknown field {unknown[0]!r} in fields: a paper has {', '.join(PAPER_FIELDS)}."
        )
    wanted = {"id", *names}
    return tuple(name for name in PAPER_FIELDS if name in wanted)


_DATE = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?", re.ASCII)


def date_bounds(text: str, name: str = "date") -> tuple[int, int]:
    """First and last day of a ``YYYY``, ``YYYY-MM`` or ``YYYY-MM-DD`` as numbers ``yyyymmdd``.

    Raises:
        InvalidRequest: another form, or no such day.
    """
    match = _DATE.fullmatch(text) if isinstance(text, str) else None
    problem = InvalidRequest(
        f"{text!r} is no date for {name}: give YYYY, YYYY-MM or YYYY-MM-DD, such as 2023-06."
    )
    if match is None:
        raise problem
    year, month, day = (int(part) if part else None for part in match.groups())
    assert year is not None
    if year == 0 or (month is not None and not 1 <= month <= 12):
        raise problem
    if month is None:
        return year * 10000 + 101, year * 10000 + 1231
    last = calendar.monthrange(year, month)[1]
    if day is None:
        return year * 10000 + month * 100 + 1, year * 10000 + month * 100 + last
    if not 1 <= day <= last:
        raise problem
    exact = year * 10000 + month * 100 + day
    return exact, exact


def as_of_day(text: str | None) -> int | None:
    """The last day ``yyyymmdd`` of a point in time ``YYYY-MM`` or ``YYYY-MM-DD``; None of None.

    Raises:
        InvalidRequest: another form, a year alone, or no such day.
    """
    if text is None:
        return None
    if isinstance(text, str) and re.fullmatch(r"[0-9]{4}", text):
        raise InvalidRequest(
            f"as_of {text!r} is a year and does not say which end of it: give YYYY-MM or YYYY-MM-DD, such as "
            f"{text}-12."
        )
    try:
        return date_bounds(text, "as_of")[1]
    except InvalidRequest as error:
        raise InvalidRequest(
            f"{text!r} is no date for as_of: give YYYY-MM or YYYY-MM-DD, such as 2023-06."
        ) from error


def _choice(value: str | None, name: str, choices: Sequence[str]) -> None:
    if value is not None and value not in choices:
        raise InvalidRequest(f"Unknown {name} {value!r}: it is one of {', '.join(choices)}.")


_GREATEST: Final = 2**63 - 1
"""SQLite's greatest integer: https://sqlite.org/datatype3.html."""


def _whole(value: int, name: str, low: int, high: int = _GREATEST) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        open_ended = high == _GREATEST and not (isinstance(value, int) and value > high)
        span = f"of {low} or more" if open_ended else f"from {low} to {high}"
        raise InvalidRequest(f"{name} is {value!r}: it must be a whole number {span}.")


def check_text(text: str, name: str) -> None:
    """Raises InvalidRequest: ``text`` holds half of a surrogate pair, which has no UTF-8."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidRequest(
                f"{name} holds {text[error.start]!r} at character {error.start + 1}, half of a surrogate pair: "
                "send whole characters."
            ) from error


def _flag(value: bool, name: str) -> None:
    if not isinstance(value, bool):
        raise InvalidRequest(f"{name} is {value!r}: it must be true or false.")


def check_title(title: str) -> None:
    """Raises InvalidRequest: not a text, or an empty one."""
    if not isinstance(title, str) or not title.strip():
        raise InvalidRequest("title is empty: give the title of a paper.")
    check_text(title, "title")


def check_title_match(limit: int, min_score: float) -> None:
    """Raises InvalidRequest: ``limit`` is not within 1..100, or ``min_score`` not above 0 and at most 1."""
    _whole(limit, "limit", 1, MAX_TITLE_MATCHES)
    if isinstance(min_score, bool) or not isinstance(min_score, int | float) or not 0 < min_score <= 1:
        raise InvalidRequest(f"min_score is {min_score!r}: it must be above 0 and at most 1.")


def check_page(limit: int, offset: int) -> None:
    """Raises InvalidRequest: ``limit`` is not within 1..1000, or ``offset`` is negative."""
    _whole(limit, "limit", 1, MAX_LIMIT)
    _whole(offset, "offset", 0)


def check_sort(sort: CitationSort | None, as_of: str | None = None) -> CitationSort:
    """How citations are sorted: as was asked for, else most cited first, or with ``as_of`` newest first.

    Raises:
        InvalidRequest: citations are not sorted that way, or not at a point in time.
    """
    if sort is None:
        return "-citation_count" if as_of is None else "-date"
    _choice(sort, "sort", CITATION_SORTS)
    if as_of is not None and sort.endswith("citation_count"):
        raise InvalidRequest(
            f"sort {sort!r} does not go with as_of {as_of!r}: the counts are the snapshot's, made after that. Sort by "
            "'-date' or 'date'."
        )
    return sort


def check_expansion(seeds: Sequence[str], direction: str, limit: int, offset: int) -> tuple[str, ...]:
    """The seeds of an expansion.

    Raises:
        InvalidRequest: there are none or too many, or the direction or the page cannot be right.
    """
    check_page(limit, offset)
    _choice(direction, "direction", DIRECTIONS)
    checked = check_ids(seeds, "seeds")
    if not checked:
        raise InvalidRequest("seeds is empty: give at least one paper id.")
    return checked


def check_ids(ids: Sequence[str] | None, name: str) -> tuple[str, ...] | None:
    """Raises InvalidRequest: not a list of texts, or longer than ``MAX_IDS``."""
    if ids is None:
        return None
    if isinstance(ids, str) or not all(isinstance(i, str) for i in ids):
        raise InvalidRequest(f"{name} must be a list of paper ids, such as ['arXiv:1706.03762'].")
    if len(ids) > MAX_IDS:
        raise InvalidRequest(f"{name} holds {len(ids)} ids: {MAX_IDS} is the most in one call.")
    for paper_id in ids:
        check_text(paper_id, name)
    return tuple(ids)


def check_phrases(phrases: Sequence[str], name: str) -> tuple[str, ...]:
    """The phrases; a text is one.

    Raises:
        InvalidRequest: not texts, too many or too long, one without a word, or one that is the id of a paper.
    """
    given = (phrases,) if isinstance(phrases, str) else tuple(phrases)
    if not all(isinstance(phrase, str) for phrase in given):
        raise InvalidRequest(f"{name} must be a list of phrases, such as ['local replication'].")
    if len(given) > MAX_PHRASES:
        raise InvalidRequest(f"{name} holds {len(given)} phrases: {MAX_PHRASES} is the most in one call.")
    for phrase in given:
        check_text(phrase, name)
        if len(phrase) > MAX_PHRASE_LENGTH:
            raise InvalidRequest(
                f"A phrase of {name} has {len(phrase)} characters: {MAX_PHRASE_LENGTH} is the most."
            )
        if not any(map(str.isalnum, phrase)):
            raise InvalidRequest(f"{name} holds {phrase!r}, which has no word: leave it out, or name one.")
        if _is_id(phrase):
            raise InvalidRequest(
                f"{name} holds {phrase!r}, the id of a paper: give phrases, and the ids of papers to leave out in "
                f"{name}_ids."
            )
    return given


def _is_id(text: str) -> bool:
    try:
        parse(text)
    except InvalidRequest:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Filters:
    """What every result must satisfy. Applied before any leg takes its first k.

    A date limit holds for papers that are *certainly* inside it: one of which only the year is known passes
    ``from_='2006'`` but not ``from_='2006-03'``, and one without a date passes no date limit.
    ``category`` matches a category (``cs.CL``) or a whole archive (``cs``); ``category`` and ``venue`` each
    pass when any of their values does. ``exclude`` are phrases: a paper whose title or abstract holds one, its words
    side by side and compared without their endings, does not pass. With ``as_of`` papers that are not certainly of that
    day (a month: its last) or before do not exist.
    """

    from_: str | None = None
    to: str | None = None
    category: tuple[str, ...] = ()
    venue: tuple[str, ...] = ()
    min_citations: int | None = None
    exclude: tuple[str, ...] = ()
    exclude_ids: tuple[str, ...] = ()
    within: tuple[str, ...] | None = None
    as_of: str | None = None

    def __post_init__(self) -> None:
        self._check_days()
        for name in ("category", "venue"):
            values = getattr(self, name)
            values = (values,) if isinstance(values, str) else tuple(values)
            if not all(isinstance(v, str) and v.strip() for v in values):
                raise InvalidRequest(f"{name} holds an empty value: leave it out, or name one.")
            for value in values:
                check_text(value, name)
            object.__setattr__(self, name, values)
        if self.min_citations is not None:
            _whole(self.min_citations, "min_citations", 0)
            if self.as_of is not None:
                raise InvalidRequest(
                    f"min_citations {self.min_citations} does not go with as_of {self.as_of!r}: the counts are the "
                    "snapshot's, made after that. Leave one of them out."
                )
        object.__setattr__(self, "exclude", check_phrases(self.exclude, "exclude"))
        object.__setattr__(self, "exclude_ids", check_ids(self.exclude_ids, "exclude_ids") or ())
        object.__setattr__(self, "within", check_ids(self.within, "within"))

    def _check_days(self) -> None:
        first = self.first_day
        for name, last in (("to", self._to_day), ("as_of", self.as_of_day)):
            if first is not None and last is not None and first > last:
                raise InvalidRequest(
                    f"from {self.from_!r} is later than {name} {getattr(self, name)!r}: nothing can lie between."
                )

    @property
    def first_day(self) -> int | None:
        """The first day allowed, ``yyyymmdd``."""
        return None if self.from_ is None else date_bounds(self.from_, "from")[0]

    @property
    def last_day(self) -> int | None:
        """The last day allowed, ``yyyymmdd``."""
        return min((day for day in (self._to_day, self.as_of_day) if day is not None), default=None)

    @property
    def as_of_day(self) -> int | None:
        """The day after which no paper exists, ``yyyymmdd``."""
        return as_of_day(self.as_of)

    @property
    def _to_day(self) -> int | None:
        return None if self.to is None else date_bounds(self.to, "to")[1]


FILTER_NAMES: Final[tuple[str, ...]] = tuple(f.name for f in fields(Filters))


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """One search. ``mode`` None is the best the library has: hybrid, or sparse where it has no dense vectors.

    ``engine`` names the sparse leg: ``bm25`` (vectors in Qdrant), ``feedback`` (the same, asked again with words of
    its first results), ``fts5`` (SQLite, with query syntax) or ``learned`` (BGE-M3's own weights). None sends query
    syntax to FTS5 and free text to BM25.
    ``exact`` searches dense vectors without approximation and counts every match.
    ``partial`` allows an answer from the legs that work, with those that failed named in it.

    Raises:
        InvalidRequest: on any value that cannot be right.
    """

    q: str
    mode: Mode | None = None
    engine: Engine | None = None
    limit: int = 10
    offset: int = 0
    fields: tuple[str, ...] = PAPER_FIELDS
    filters: Filters = Filters()
    exact: bool = False
    explain: bool = False
    partial: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.q, str) or not self.q.strip():
            raise InvalidRequest("q is empty: give the words to search for.")
        if len(self.q) > MAX_QUERY_LENGTH:
            raise InvalidRequest(f"q has {len(self.q)} characters: {MAX_QUERY_LENGTH} is the most.")
        check_text(self.q, "q")
        _choice(self.mode, "mode", MODES)
        _choice(self.engine, "engine", ENGINES)
        if self.engine is not None and self.mode == "dense":
            raise InvalidRequest(f"engine {self.engine!r} names a sparse leg, and mode 'dense' has none.")
        check_page(self.limit, self.offset)
        for name in ("exact", "explain", "partial"):
            _flag(getattr(self, name), name)
        object.__setattr__(self, "fields", check_fields(self.fields))


def search_request(q: str, *, fields: Sequence[str] | None = None, **arguments: Any) -> SearchRequest:
    """A :class:`SearchRequest` from the arguments of ``search``.

    Raises:
        InvalidRequest: an argument that ``search`` does not have, or that cannot be right.
    """
    own_names = ("mode", "engine", "limit", "offset", "exact", "explain", "partial")
    unknown = [name for name in arguments if name not in (*FILTER_NAMES, *own_names)]
    if unknown:
        raise InvalidRequest(
            f"Unknown argument {unknown[0]!r}: a search takes q, fields, {', '.join((*own_names, *FILTER_NAMES))}."
        )
    given = {name: arguments[name] for name in FILTER_NAMES if name in arguments}
    own = {name: arguments[name] for name in own_names if name in arguments}
    return SearchRequest(q, filters=Filters(**given), fields=check_fields(fields), **own)


def search_requests(requests: Sequence[SearchRequest | Mapping[str, Any]]) -> list[SearchRequest]:
    """Requests of a batch: each is one, or the arguments of one ``search``. Raises as ``search_request``."""
    asked = []
    for request in requests:
        if not isinstance(request, SearchRequest):
            if not isinstance(request, Mapping):
                raise InvalidRequest(
                    f"A batch holds {request!r}: each of its searches is a mapping with a q."
                )
            with in_batch("search", request.get("q")):
                request = search_request(**{"q": None, **request})  # noqa: PLW2901
        asked.append(request)
    return asked


@contextmanager
def in_batch(kind: str, value: object) -> Iterator[None]:
    """Say of an error inside the block which search or title of a batch it is about."""
    try:
        yield
    except ScholarBaseError as error:
        shown = repr(value)
        shown = shown if len(shown) <= 80 else shown[:80] + "..."
        raise type(error)(f"In the {kind} {shown}: {error}") from error


@dataclass(frozen=True, slots=True)
class LegExplanation:
    """What one leg said of a hit: its rank counted from 1, its own score, its share of the fused score, and those of
    the query's words that the paper holds where the leg compares words."""

    leg: str
    rank: int
    score: float
    share: float
    terms: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "leg": self.leg,
            "rank": self.rank,
            "score": self.score,
            "share": self.share,
            "terms": list(self.terms),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LegExplanation:
        return cls(data["leg"], data["rank"], data["score"], data["share"], tuple(data.get("terms", ())))


@dataclass(frozen=True, slots=True)
class Hit:
    score: float
    paper: Paper
    explain: tuple[LegExplanation, ...] | None = None


@dataclass(frozen=True, slots=True)
class FailedLeg:
    leg: str
    detail: str


TotalRelation = Literal["eq", "gte"]


@dataclass(frozen=True, slots=True)
class SearchResponse:
    """Results in rank order.

    ``total`` is how many papers match: exactly where ``total_relation`` is ``eq``, at least where it is
    ``gte``. ``next_offset`` is where the next page begins, None after the last that can be had.
    """

    snapshot: str
    mode: Mode
    engine: Engine | None
    total: int
    total_relation: TotalRelation
    next_offset: int | None
    results: tuple[Hit, ...]
    fields: tuple[str, ...] = PAPER_FIELDS
    failed_legs: tuple[FailedLeg, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        results = []
        for hit in self.results:
            item: dict[str, Any] = {"score": hit.score, "paper": hit.paper.to_dict(self.fields)}
            if hit.explain is not None:
                item["explain"] = [leg.to_dict() for leg in hit.explain]
            results.append(item)
        out: dict[str, Any] = {
            "snapshot": self.snapshot,
            "mode": self.mode,
            "engine": self.engine,
            "total": self.total,
            "total_relation": self.total_relation,
            "next_offset": self.next_offset,
            "results": results,
        }
        if self.failed_legs:
            out["failed_legs"] = [{"leg": f.leg, "detail": f.detail} for f in self.failed_legs]
        return out

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], asked: Sequence[str] | None = None) -> SearchResponse:
        """Read the answer's JSON. ``asked`` are the fields asked for, which an answer without papers cannot show."""
        hits = tuple(
            Hit(
                item["score"],
                Paper.from_dict(item["paper"]),
                tuple(map(LegExplanation.from_dict, item["explain"])) if "explain" in item else None,
            )
            for item in data["results"]
        )
        return cls(
            snapshot=data["snapshot"],
            mode=data["mode"],
            engine=data["engine"],
            total=data["total"],
            total_relation=data["total_relation"],
            next_offset=data["next_offset"],
            results=hits,
            fields=_fields_of((item["paper"] for item in data["results"]), asked),
            failed_legs=tuple(FailedLeg(f["leg"], f["detail"]) for f in data.get("failed_legs", ())),
        )


def _fields_of(papers: Iterable[Mapping[str, Any]], asked: Sequence[str] | None) -> tuple[str, ...]:
    """The fields asked for; else those that a server sent, from its first paper; else all."""
    if asked is not None:
        return tuple(asked)
    first = next(iter(papers), None)
    return PAPER_FIELDS if first is None else tuple(name for name in PAPER_FIELDS if name in first)


@dataclass(frozen=True, slots=True)
class TitleMatch:
    """A paper whose title is the one asked for (score 1.0) or like it (0..1)."""

    score: float
    paper: Paper


@dataclass(frozen=True, slots=True)
class TitleMatchResponse:
    snapshot: str
    results: tuple[TitleMatch, ...]
    fields: tuple[str, ...] = PAPER_FIELDS

    def to_dict(self) -> dict[str, Any]:
        results = [{"score": m.score, "paper": m.paper.to_dict(self.fields)} for m in self.results]
        return {"snapshot": self.snapshot, "results": results}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], asked: Sequence[str] | None = None) -> TitleMatchResponse:
        """Read the answer's JSON. ``asked`` are the fields asked for, which an answer without papers cannot show."""
        results = tuple(TitleMatch(m["score"], Paper.from_dict(m["paper"])) for m in data["results"])
        return cls(data["snapshot"], results, _fields_of((m["paper"] for m in data["results"]), asked))


@dataclass(frozen=True, slots=True)
class Citation:
    """One edge seen from one of its ends: the paper at the other end, and what is known of the edge."""

    paper: Paper
    is_influential: bool | None = None
    contexts: tuple[str, ...] = ()
    intents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CitationsResponse:
    """A page of a paper's citations or references; ``total`` counts the edges that paging returns."""

    snapshot: str
    total: int
    next_offset: int | None
    results: tuple[Citation, ...]
    fields: tuple[str, ...] = PAPER_FIELDS

    def to_dict(self) -> dict[str, Any]:
        results = [
            {
                "paper": c.paper.to_dict(self.fields),
                "is_influential": c.is_influential,
                "contexts": list(c.contexts),
                "intents": list(c.intents),
            }
            for c in self.results
        ]
        return {
            "snapshot": self.snapshot,
            "total": self.total,
            "next_offset": self.next_offset,
            "results": results,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], asked: Sequence[str] | None = None) -> CitationsResponse:
        """Read the answer's JSON. ``asked`` are the fields asked for, which an answer without papers cannot show."""
        results = tuple(
            Citation(
                Paper.from_dict(c["paper"]), c["is_influential"], tuple(c["contexts"]), tuple(c["intents"])
            )
            for c in data["results"]
        )
        fields_sent = _fields_of((c["paper"] for c in data["results"]), asked)
        return cls(data["snapshot"], data["total"], data["next_offset"], results, fields_sent)


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A paper reached from the seeds: by how many of them, and over how few hops."""

    paper: Paper
    seeds: int
    hops: int


@dataclass(frozen=True, slots=True)
class ExpandResponse:
    """The neighbours of a set of seeds, each once; those that most seeds reach stand first."""

    snapshot: str
    total: int
    next_offset: int | None
    results: tuple[Neighbour, ...]
    fields: tuple[str, ...] = PAPER_FIELDS

    def to_dict(self) -> dict[str, Any]:
        results = [
            {"paper": n.paper.to_dict(self.fields), "seeds": n.seeds, "hops": n.hops} for n in self.results
        ]
        return {
            "snapshot": self.snapshot,
            "total": self.total,
            "next_offset": self.next_offset,
            "results": results,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], asked: Sequence[str] | None = None) -> ExpandResponse:
        """Read the answer's JSON. ``asked`` are the fields asked for, which an answer without papers cannot show."""
        results = tuple(
            Neighbour(Paper.from_dict(n["paper"]), n["seeds"], n["hops"]) for n in data["results"]
        )
        fields_sent = _fields_of((n["paper"] for n in data["results"]), asked)
        return cls(data["snapshot"], data["total"], data["next_offset"], results, fields_sent)
