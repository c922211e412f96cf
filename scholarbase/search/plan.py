"""The plan of a search: everything that is decided before an index is searched.

With ``syntax=auto`` a text that contains query syntax is read strictly, with two exceptions: invalid syntax, and prose
that fewer than :data:`FEW` papers match. Quotation marks, parentheses and capitals in a pasted question or abstract are
seldom meant as operators. Such a text is ranked by its words, after the papers that match it strictly, and the response
has a warning.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from scholarbase.errors import InvalidRequest, UnsupportedMode
from scholarbase.indexes import query_syntax
from scholarbase.indexes.filters import ResolvedFilters
from scholarbase.indexes.vectors.base import BM25, EngineVector
from scholarbase.indexes.vectors.bm25 import Bm25Text, without_shortened
from scholarbase.markup import MAY_CHANGE, plain
from scholarbase.models.checks import as_of_day, shown
from scholarbase.models.document_requests import PaperPassagesBody, PassageSearch
from scholarbase.models.encoders import STATIC
from scholarbase.models.limits import MAX_DEPTH, MODES, Engine, Fusion, Mode
from scholarbase.models.requests import SearchRequest
from scholarbase.models.responses import Understood
from scholarbase.search.exclusions import Exclusions, excludes_quoted
from scholarbase.search.fusion import FIRST
from scholarbase.search.known_items import MAY_BE_ID, MOST_SHARING, KnownItem, KnownItems
from scholarbase.search.lookup import MAX_SYNTAX_MATCHES, Lookup
from scholarbase.search.negations import may_exclude
from scholarbase.search.opening import Opened

Q = TypeVar("Q", SearchRequest, PassageSearch, PaperPassagesBody)

FEEDBACK_UP_TO: Final = 500_000
"""Papers of a library in which hybrid searches use feedback by default. Feedback brings recall, and its time grows with
the library (docs/measurements.md): above this number it would be most of a search's."""
FEW: Final = 10
"""Matches that prose in query syntax must have."""
TIERS: Final = (100, 1000, MAX_DEPTH)
"""The numbers of results that a leg can fetch; the smallest that includes the page is used. All pages within a tier
come from one ranking, so they have no overlaps or gaps if an index is approximate."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What the legs of a search run, and how far."""

    request: SearchRequest
    """The request; its ``q`` is what is searched for, without exclusions that were read."""
    mode: Mode
    engine: Engine | None
    """The sparse leg; None in a dense search."""
    fusion: Fusion | None
    """How the legs are fused; None in a search with one leg."""
    graph_weight: float
    """The weight of the citation graph; 0 in a search without it."""
    filters: ResolvedFilters
    day: int | None
    """The last day of ``as_of``."""
    terms: Sequence[int]
    """The terms of BM25 in the text, without stop words."""
    frequencies: Mapping[int, int]
    """The document frequencies of the terms, where a leg or the floor needs them."""
    expression: str | None
    """The FTS5 expression; None for a text without words, or with terms for another engine."""
    is_syntax: bool
    """Whether ``q`` is query syntax, not free text."""
    known: tuple[KnownItem, ...]
    """The papers whose id or title ``q`` is, or the few that match its syntax. They come first."""
    depth: int
    """The number of results that each leg fetches, and of those of a fusion or preference that come from them."""
    deepest: int
    """The last result that a search reaches. Those after ``depth`` come from legs of this length."""
    floor: float | None
    """The least cosine of a dense result; None without a limit, infinite where no paper can be near."""
    reranked: int
    """The number of places whose papers are reranked; 0 if the page has none of them."""
    matches_nothing: bool
    """Whether no paper can match: ``q`` has no letter or digit, or is the id of a paper that is not there."""
    understood: Understood | None = None
    """What ``q`` wants and excludes, if it excludes something."""
    lowered: frozenset[int] = frozenset()
    """The papers that come after all others. ``filters`` excludes them."""


class Planner:
    """Makes the plans of searches in one library. Thread-safe."""

    def __init__(self, opened: Opened, lookup: Lookup, bm25: Bm25Text) -> None:
        self._manifest = opened.manifest
        self._catalog = opened.catalog
        self._vectors = opened.vectors
        self._encoder = opened.encoder
        self._settings = opened.settings
        self._bm25 = bm25
        self._rerankers = opened.rerankers
        self._known_items = KnownItems(self._catalog, bm25)
        self._exclusions = Exclusions(self._catalog, lookup)
        has_dense = self._manifest.vectors["dimensions"] is not None and self._encoder is not None
        self.best_mode: Final[Mode] = "hybrid" if has_dense else "sparse"
        # With fewer edges than papers, most papers could not be reached.
        has_edges = self._manifest.counts["edges"] >= self._manifest.counts["papers"]
        self.graph_weight: Final = self._settings.graph_weight if has_edges else 0.0
        """The weight of the citation graph in hybrid searches that fuse scores, by default."""
        is_small = self._manifest.counts["papers"] <= FEEDBACK_UP_TO
        self.engines: Final[Mapping[Mode, Engine]] = {
            mode: self._settings.engine or ("feedback" if mode == "hybrid" and is_small else "bm25")
            for mode in MODES
        }
        """The sparse leg of free text in searches that name none."""

    def plan(self, request: SearchRequest, filters: ResolvedFilters) -> tuple[Plan, tuple[str, ...]]:
        """The plan of a request, and warnings.

        Raises:
            InvalidRequest: the page is too deep, the query syntax is malformed, or the reranker is unknown.
            UnsupportedMode: the library has no index for the mode or engine.
        """
        request = without_markup(request)
        mode = request.mode or self.best_mode
        fusion = request.fusion or self._settings.fusion if mode == "hybrid" else None
        engine = None if mode == "dense" else request.engine or self.engines[mode]
        self._check_mode(mode, engine)
        self._check_options(request, mode, fusion)
        graph_weight = self._graph_weight(request, fusion)
        depth, deepest = self._depths(request, mode, fusion)
        day = None if request.as_of is None else as_of_day(request.as_of)
        filters, is_syntax, expression, warnings = self._read(request, mode, filters)
        if is_syntax:
            engine = "fts5"
        warnings += self._without_effect(request)
        known, absent_warning = self._known(request, filters, expression, is_syntax=is_syntax)
        understood, lowered = None, frozenset[int]()
        if not is_syntax and request.negation == "auto" and not known and may_exclude(request.q):
            understood, filters, lowered, exclusion_warnings = self._exclusions.read(request.q, filters, day)
            warnings += exclusion_warnings
            if understood is not None:
                request = request.model_copy(update={"q": understood.wanted})
        terms = tuple(self._bm25.query(request.q).indices)
        if not is_syntax:
            # BM25 vectors have no stop words, so FTS5 runs queries that consist only of stop words.
            by_fts5 = engine == "fts5" or (engine in ("bm25", "feedback") and not terms)
            expression = free_text(without_shortened(request.q)) if by_fts5 else None
        # The other pages are the same with and without the reranker.
        has_reranked = request.rerank is not None and request.offset < request.rerank_depth
        reranked = min(request.rerank_depth, depth) if has_reranked else 0
        frequencies: Mapping[int, int] = {}
        if terms and (mode != "sparse" or engine in ("bm25", "feedback")):
            frequencies = self._catalog.document_frequencies(terms, day)
        plan = Plan(
            request,
            mode,
            engine,
            fusion,
            graph_weight,
            filters,
            day,
            terms,
            frequencies,
            expression,
            is_syntax,
            known,
            depth,
            deepest,
            None if mode == "sparse" else self._floor(request, terms, frequencies, day),
            reranked,
            absent_warning is not None or not any(map(str.isalnum, request.q)),
            understood,
            lowered,
        )
        return plan, warnings if absent_warning is None else (absent_warning,)

    # -- mode, engine and depth -------------------------------------------------------------------------

    def _check_mode(self, mode: Mode, engine: Engine | None) -> None:
        if mode != "sparse":
            if self._manifest.encoder is None:
                raise UnsupportedMode(
                    f"mode {mode!r} requires dense vectors, and this library was built without them: "
                    "use mode 'sparse', or ingest again with an --encoder other than none."
                )
            if self._manifest.vectors["dimensions"] is None:
                raise UnsupportedMode(
                    f"mode {mode!r} requires dense vectors, and {self._manifest.encoder.name}, the encoder of this "
                    "library, has learned term weights only: use mode 'sparse', with engine 'learned'."
                )
            if self._encoder is None:
                raise UnsupportedMode(
                    f"mode {mode!r} requires the query encoder {self._manifest.encoder.for_queries.name}, and this "
                    "process was started without it: use mode 'sparse', or start it with --encoder."
                )
        if engine == "learned":
            if not self._manifest.vectors["learned"]:
                raise UnsupportedMode(
                    "engine 'learned' requires term weights of a model such as BGE-M3, and this library has none: "
                    "use engine 'bm25' or 'fts5'."
                )
            if self._encoder is None:
                raise UnsupportedMode(
                    "engine 'learned' requires the query encoder, and this process was started without it: "
                    "use engine 'bm25' or 'fts5', or start it with --encoder."
                )

    def _graph_weight(self, request: SearchRequest, fusion: Fusion | None) -> float:
        if fusion != "scores":
            return 0.0
        if request.graph_weight is not None:
            return request.graph_weight if self._manifest.counts["edges"] else 0.0
        return self.graph_weight

    def _check_options(self, request: SearchRequest, mode: Mode, fusion: Fusion | None) -> None:
        """Reject an unknown reranker, and what the mode of the search has no use for."""
        if request.rerank is not None:
            check_reranker(request.rerank, self._rerankers)
        if request.fusion is not None and mode != "hybrid":
            raise InvalidRequest(
                f"fusion {request.fusion!r} applies to hybrid searches, and mode {mode!r} has one leg: leave it out, "
                "or use mode 'hybrid'."
            )
        if request.graph_weight and fusion != "scores":
            what = f"mode {mode!r}" if fusion is None else f"fusion {fusion!r}"
            raise InvalidRequest(
                f"graph_weight {request.graph_weight:g} applies to hybrid searches that fuse scores, not to {what}: "
                "leave it out."
            )
        if request.prefer == "cited" and request.as_of is not None and not self._manifest.counts["edges"]:
            raise InvalidRequest(
                f"prefer 'cited' cannot be combined with as_of {request.as_of!r}, because this library has no "
                "citations from which to count those of that day: leave one out."
            )
        if request.min_similarity is not None and mode == "sparse":
            raise InvalidRequest(
                f"min_similarity {request.min_similarity:g} applies to dense vectors, which mode 'sparse' does not "
                "use: leave it out, or use mode 'hybrid' or 'dense'."
            )

    def _without_effect(self, request: SearchRequest) -> tuple[str, ...]:
        """A warning for a preference that raises no paper of this library."""
        if request.prefer == "recent" and self._catalog.newest_day is None:
            return ("prefer 'recent' changes nothing, because no paper of this library has a date.",)
        if request.prefer == "cited" and request.as_of is None and not self._catalog.has_citation_counts:
            return ("prefer 'cited' changes nothing, because no paper of this library has a citation count.",)
        return ()

    def _depths(self, request: SearchRequest, mode: Mode, fusion: Fusion | None) -> tuple[int, int]:
        """The ``depth`` and ``deepest`` of a plan."""
        end = request.offset + request.limit
        if request.rerank is not None:
            end = max(end, request.rerank_depth)
        deepest = self._settings.fusion_depth if mode == "hybrid" else MAX_DEPTH
        if request.offset >= deepest:
            raise InvalidRequest(
                f"offset {request.offset} is beyond result {deepest}, the last of a {mode} search: narrow the search "
                "with filters" + (", or use mode 'sparse' or 'dense'." if mode == "hybrid" else ".")
            )
        if mode == "hybrid" and fusion != "scores":
            return deepest, deepest
        if mode == "hybrid" or request.prefer != "none":
            # A preference has a new order for all results of a leg, so their number is the same for all pages.
            return min(FIRST, deepest), deepest
        # A page that extends beyond the last result ends there.
        return next(tier for tier in TIERS if min(end, deepest) <= tier), deepest

    # -- the text ---------------------------------------------------------------------------------------

    def _read(
        self, request: SearchRequest, mode: Mode, filters: ResolvedFilters
    ) -> tuple[ResolvedFilters, bool, str | None, tuple[str, ...]]:
        """Read the text as words or as query syntax.

        Returns the filters, in a hybrid search with the papers that match the syntax; whether the text is query syntax
        alone; its FTS5 expression, also that of the few papers that come before a ranking by words; and warnings.
        """
        q, syntax = request.q, request.syntax
        if mode == "dense" or syntax == "plain" or request.engine not in (None, "fts5"):
            return filters, False, None, ()
        if syntax == "auto" and not (query_syntax.MARKS.search(q) and query_syntax.is_syntax(q)):
            return filters, False, None, ()
        if syntax == "auto" and request.negation == "auto" and excludes_quoted(q):
            return filters, False, None, ()
        matches: frozenset[int] | None = None
        try:
            expression = query_syntax.compile(q)
            if mode == "hybrid":
                matches = self._matches(expression, filters)
        except InvalidRequest as error:
            if syntax == "query":
                raise
            return filters, False, None, (INVALID_SYNTAX.format(error),)
        if syntax == "auto" and query_syntax.is_prose(q):
            matching = self._catalog.matching_ids(expression, FEW, filters) if matches is None else matches
            if len(matching) < FEW:
                warning = few_match(
                    len(matching), "paper", {1: ", which comes first", 0: ""}, ", which come first"
                )
                return filters, False, expression if matching else None, (warning,)
        if matches is not None:
            filters = replace(filters, within=matches, sets=())
        return filters, True, expression, ()

    def _matches(self, expression: str, filters: ResolvedFilters) -> frozenset[int]:
        """The papers to which a hybrid search limits its dense leg."""
        matches = self._catalog.matching_ids(expression, MAX_SYNTAX_MATCHES + 1, filters)
        if len(matches) > MAX_SYNTAX_MATCHES:
            raise InvalidRequest(
                f"The query matches more than {MAX_SYNTAX_MATCHES:,} papers, too many for a hybrid search: "
                "use mode 'sparse', or add required words."
            )
        return frozenset(matches)

    def _known(
        self, request: SearchRequest, filters: ResolvedFilters, expression: str | None, *, is_syntax: bool
    ) -> tuple[tuple[KnownItem, ...], str | None]:
        """The papers that come first: those that the text names, then the few that match its syntax; and a warning if
        the text is the id of a paper that cannot be a result."""
        known: tuple[KnownItem, ...] = ()
        absent_warning: str | None = None
        if self._settings.known_items and request.syntax != "query":
            titled = self._catalog.titled(request.q, filters, MOST_SHARING)
            if titled or MAY_BE_ID.fullmatch(request.q):
                known, absent_warning = self._known_items.find(request.q, titled, filters)
            if known and is_syntax and expression is not None:
                [matching] = self._catalog.holding([expression], [item.id for item in known])
                known = tuple(item for item in known if item.id in matching)
        if expression is None:
            return known, absent_warning
        if not is_syntax:
            weight = self._settings.fts5_title_weight
            strict = self._catalog.search_text(expression, FEW, filters, title_weight=weight)
            named = {item.id for item in known}
            known += tuple(KnownItem(hit.id, "syntax") for hit in strict if hit.id not in named)
        return known, None

    # -- the floor of similarity ------------------------------------------------------------------------

    def _floor(
        self, request: SearchRequest, terms: tuple[int, ...], frequencies: Mapping[int, int], day: int | None
    ) -> float | None:
        if request.min_similarity is not None:
            return request.min_similarity if request.min_similarity > -1 else None
        random = self._manifest.vectors["random_similarity"]
        if not self._settings.similarity_floor or random is None:
            return None
        if self._has_known_words(terms, frequencies, day):
            least: float = random["p75"] if "p75" in random else random["p95"]
            return least
        # A static encoder has pieces of words that no paper has, which are near to other strange words. In a library
        # with few papers they may be common words.
        is_static = self._encoder is not None and self._encoder.spec.kind == STATIC
        return math.inf if is_static and "p75" in random else random["p999"]

    def _has_known_words(
        self, terms: tuple[int, ...], frequencies: Mapping[int, int], day: int | None
    ) -> bool:
        """Whether a paper of the library, as of the day, has one of the terms, or there are only stop words."""
        if not terms or any(term in frequencies for term in terms):
            return True
        # The frequencies end with the last full month.
        this_month = ResolvedFilters(last_day=day)
        vector = EngineVector(list(terms), [1.0] * len(terms))
        return day is not None and bool(self._vectors.search_sparse(BM25, vector, 1, this_month))


def without_markup(request: Q) -> Q:
    """A request whose text has no markup, as texts of a library have none."""
    q = text_without_markup(request.q)
    return request if q == request.q else request.model_copy(update={"q": q})


def text_without_markup(q: str) -> str:
    """A text without markup; the same text if it has nothing else."""
    return (MAY_CHANGE.search(q) and plain(q)) or q


INVALID_SYNTAX: Final = "q is ranked as plain text, because its query syntax is invalid. {}"


def few_match(count: int, what: str, endings: Mapping[int, str], ending: str = "") -> str:
    """The warning for prose that few papers or passages match as query syntax."""
    matches = f"{what}s match" if count > 1 else f"{what} matches"
    number = {0: "no", 1: "only 1"}.get(count, f"only {count}")
    return (
        f"q is ranked as plain text, because {number} {matches} it as query syntax{endings.get(count, ending)}: "
        "use syntax=query for those alone."
    )


def check_reranker(name: str, known: Mapping[str, object]) -> None:
    """Raise InvalidRequest for a reranker that is not in ``known``."""
    if name not in known:
        raise InvalidRequest(
            f"Unknown reranker {shown(name)}: "
            + (f"use one of {', '.join(known)}." if known else "none is configured (SCHOLARBASE_RERANKERS).")
        )


def free_text(q: str) -> str | None:
    """The FTS5 expression of any of the words of ``q``; None without words.

    Raises:
        InvalidRequest: they are too many.
    """
    count = len({word.casefold() for word in query_syntax.words(q)})
    if count > query_syntax.MAX_WORDS:
        raise InvalidRequest(
            f"q has {count} different words, and engine 'fts5' ranks up to {query_syntax.MAX_WORDS}: use engine "
            "'bm25', or a shorter text."
        )
    return query_syntax.free_text(q)
