"""A library, open: the one place where search happens. Routes, tools and the command line only translate."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, cast

import orjson

from scholarbase.encoders import Encoder, open_encoder
from scholarbase.encoders.probe import check_probe, check_spec
from scholarbase.errors import (
    EncoderError,
    InvalidRequest,
    LibraryCorrupt,
    LibraryError,
    NothingLeft,
    PaperNotFound,
    VectorIndexError,
)
from scholarbase.identifiers import parse
from scholarbase.indexes import catalog, query_syntax
from scholarbase.indexes.catalog import Catalog
from scholarbase.indexes.filters import NO_FILTERS, ResolvedFilters, category_forms
from scholarbase.indexes.vectors.base import BM25, SparseVector, VectorIndex
from scholarbase.indexes.vectors.contents import check_contents
from scholarbase.indexes.vectors.edge import EdgeIndex
from scholarbase.manifest import Manifest, read_manifest
from scholarbase.models import (
    MIN_TITLE_SCORE,
    PAPER_FIELDS,
    Citation,
    CitationSort,
    CitationsResponse,
    Direction,
    Engine,
    ExpandResponse,
    Filters,
    Hit,
    Mode,
    Neighbour,
    Paper,
    SearchRequest,
    SearchResponse,
    TitleMatch,
    TitleMatchResponse,
    as_of_day,
    check_expansion,
    check_fields,
    check_ids,
    check_page,
    check_sort,
    check_title,
    check_title_match,
    in_batch,
    search_request,
    search_requests,
)
from scholarbase.search.cache import Cache
from scholarbase.search.ranking import MAX_SYNTAX_MATCHES, Query, Ranker
from scholarbase.settings import Settings, load_settings

log = logging.getLogger("scholarbase.library")

CACHED_IDS: Final = 4096
"""Ids of papers, as calls give them, whose catalogue ids are kept: a quarter of a small call's SQL finds them."""


CACHED_EXCLUSIONS: Final = 4
"""Sets of papers that ``exclude`` takes away, each up to 13 MB."""


class Library:
    """A library open for searching. Safe to share between threads; ``close`` it, or use it in a ``with``.

    :class:`scholarbase.client.Client` has the same methods with the same types.
    """

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        snapshot: str,
        papers: Catalog,
        vectors: VectorIndex,
        encoder: Encoder | None,
        settings: Settings,
    ) -> None:
        """Use :meth:`open`."""
        self.path = path
        self.manifest = manifest
        self.snapshot_id = snapshot
        self.settings = settings
        self._catalog = papers
        self._papers: Callable[..., list[Paper]] = papers.papers
        self._vectors = vectors
        self._encoder = encoder
        self._ranker = Ranker(manifest, papers, vectors, encoder, settings)
        self._as_json = False
        self._numbers: Cache[int] = Cache(CACHED_IDS)
        self._excluded: Cache[frozenset[int]] = Cache(CACHED_EXCLUSIONS)
        self._few_edges: Cache[int | None] = Cache(CACHED_IDS)
        self._begun = (_NEVER, False)
        """The last day of some paper, and whether it is the first of all."""
        self._closed = False

    @classmethod
    def open(
        cls, path: str | Path, *, encoder: str | Encoder | None = None, settings: Settings | None = None
    ) -> Self:
        """Open the library at ``path``.

        Args:
            encoder: makes query vectors: an open encoder, or the name, path or URL of one. None opens what the
                library was built with; ``"none"`` opens no encoder, and dense and hybrid searches are refused.

        Raises:
            LibraryNotFound: no library there.
            LibraryCorrupt: files are missing or of another build.
            EncoderMismatch: the encoder is not the one that the library was built with.
            EncoderError: the encoder cannot be opened.
            VectorIndexError: the vectors cannot be opened, or their server not be reached.
        """
        path = Path(path)
        settings = settings or load_settings()
        manifest, snapshot = read_manifest(path)
        papers = Catalog(path / catalog.FILE_NAME, readers=settings.readers)
        opened: list[Any] = [papers]
        try:
            built_as = papers.meta("snapshot")
            if built_as != snapshot:
                raise LibraryCorrupt(
                    f"The manifest of {path} hashes to {snapshot}, and its catalogue was built as {built_as}: one of "
                    "them is another library's or was changed. Restore the copy, or ingest again."
                )
            vectors = _open_vectors(path, snapshot, settings)
            opened.append(vectors)
            model = _open_encoder(path, manifest, encoder, settings)
        except BaseException:
            for part in reversed(opened):
                part.close()
            raise
        return cls(path, manifest, snapshot, papers, vectors, model, settings)

    def close(self) -> None:
        """Let go of files, vectors and the model. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self._ranker.close()
        self._vectors.close()
        self._catalog.close()
        if self._encoder is not None:
            self._encoder.close()

    def for_sending(self) -> Self:
        """The same library for who only sends its answers on: their ``to_dict`` is all that may be asked of them.

        Their papers are JSON from the start, which is why the types of its answers promise too much. It stays open as
        long as the library does.
        """
        sending = copy.copy(self)
        sending._papers = cast(Callable[..., list[Paper]], self._catalog.papers_json)
        sending._as_json = True
        return sending

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- search -----------------------------------------------------------------------------------------

    def search(
        self,
        q: str,
        *,
        mode: Mode | None = None,
        engine: Engine | None = None,
        limit: int = 10,
        offset: int = 0,
        fields: Sequence[str] | None = None,
        from_: str | None = None,
        to: str | None = None,
        category: Sequence[str] = (),
        venue: Sequence[str] = (),
        min_citations: int | None = None,
        exclude: Sequence[str] = (),
        exclude_ids: Sequence[str] = (),
        within: Sequence[str] | None = None,
        as_of: str | None = None,
        exact: bool = False,
        explain: bool = False,
        partial: bool = False,
    ) -> SearchResponse:
        """Search for papers. The arguments are those of :class:`SearchRequest` and :class:`Filters`.

        Raises:
            InvalidRequest: an argument cannot be right; ``UnsupportedMode``: this library has no such index.
            NothingLeft: ``as_of`` is before every paper of this library, or all that match have a phrase of
                ``exclude``.
            PaperNotFound: ``exclude_ids`` or ``within`` names a paper that the library does not hold (then).
            EncoderError, VectorIndexError, LibraryCorrupt: a leg failed, and ``partial`` is off.
        """
        return self.run(
            search_request(
                q,
                mode=mode,
                engine=engine,
                limit=limit,
                offset=offset,
                fields=fields,
                from_=from_,
                to=to,
                category=category,
                venue=venue,
                min_citations=min_citations,
                exclude=exclude,
                exclude_ids=exclude_ids,
                within=within,
                as_of=as_of,
                exact=exact,
                explain=explain,
                partial=partial,
            )
        )

    def search_batch(self, requests: Sequence[SearchRequest | Mapping[str, Any]]) -> list[SearchResponse]:
        """Many searches, answered in order; a request is a :class:`SearchRequest` or the arguments of one
        ``search``.

        Raises: as ``search``, for the first request that cannot be answered; the sentence says which it is.
        """
        queries = []
        for request in search_requests(requests):
            with in_batch("search", request.q):
                queries.append(self._resolve(request))
        answers = []
        for query in queries:
            with in_batch("search", query.request.q):
                answers.append(self._answer(query))
        return answers

    def run(self, request: SearchRequest) -> SearchResponse:
        """Answer one :class:`SearchRequest`. Raises as ``search``."""
        return self._answer(self._resolve(request))

    def iter_search(self, q: str, *, limit: int | None = None, **arguments: Any) -> Iterator[Hit]:
        """The results of a search, page after page, up to ``limit``, or to where paging ends: 10,000 results, in
        a hybrid search as many as ``fusion_depth``. Each paper comes once. The arguments are those of ``search``."""
        yield from _pages(lambda size, offset: self.search(q, limit=size, offset=offset, **arguments), limit)

    def is_brief(self, request: SearchRequest) -> bool:
        """Whether this search takes a few milliseconds of this process's own work and waits for nothing: a server
        then need not answer it in a thread of its own."""
        return self.settings.qdrant_url is None and self._ranker.is_brief(request)

    @property
    def best_mode(self) -> Mode:
        """Hybrid where the library has dense vectors and an encoder for queries, else sparse."""
        return self._ranker.best_mode

    def _resolve(self, request: SearchRequest) -> Query:
        if self._closed:
            raise LibraryError(f"The library at {self.path} is closed: open it again.")
        return self._ranker.resolve(request, self._resolve_filters(request.filters))

    def _resolve_filters(self, filters: Filters) -> ResolvedFilters:
        if filters is _NO_REQUEST_FILTERS or filters == _NO_REQUEST_FILTERS:
            return NO_FILTERS
        day = self._day_of(filters.as_of)
        within = None if filters.within is None else frozenset(self._ids(filters.within, filters.as_of))
        return ResolvedFilters(
            first_day=filters.first_day,
            last_day=filters.last_day,
            categories=tuple(sorted(set[str]().union(*map(category_forms, filters.category)))),
            venues=self._catalog.venue_keys(filters.venue) if filters.venue else (),
            min_citations=filters.min_citations,
            within=within,
            exclude=frozenset(self._ids(filters.exclude_ids, filters.as_of))
            | self._having(filters.exclude, day),
        )

    def _having(self, phrases: Sequence[str], day: int | None) -> frozenset[int]:
        """The papers, as of a day, whose title or abstract holds one of the phrases.

        Raises:
            InvalidRequest: they are too many.
        """
        if not phrases:
            return frozenset()
        # An agent excludes the same in search after search.
        key = tuple(phrases), day
        return self._excluded.get(key, lambda: frozenset(self._find_having(phrases, day)))

    def _find_having(self, phrases: Sequence[str], day: int | None) -> set[int]:
        expression = query_syntax.any_phrase(phrases)
        found = self._catalog.matching_ids(expression, MAX_SYNTAX_MATCHES + 1, ResolvedFilters(last_day=day))
        if len(found) > MAX_SYNTAX_MATCHES:
            raise InvalidRequest(
                f"exclude {list(phrases)!r} matches more than {MAX_SYNTAX_MATCHES:,} papers: name what you mean more "
                "closely."
            )
        return found

    def _day_of(self, as_of: str | None) -> int | None:
        """The day after which no paper exists.

        Raises:
            InvalidRequest: no date; ``NothingLeft``: no paper exists on that day.
        """
        day = as_of_day(as_of)
        if day is not None and not self._has_begun_by(day):
            raise NothingLeft(
                f"as_of {as_of!r} is before every paper of this library, so nothing can match: give a later date."
            )
        return day

    def _has_begun_by(self, day: int) -> bool:
        begun, is_first = self._begun
        if day < begun and not is_first:
            # The day of one paper is mostly enough: a large library takes a second to look through for the first.
            some = self._catalog.any_by(day)
            first = self._catalog.first_day() if some is None else None
            begun = first or _NEVER if some is None else some
            self._begun = begun, some is None
        return day >= begun

    def _answer(self, query: Query) -> SearchResponse:
        ranking = self._ranker.rank(query)
        if not ranking.total and query.request.filters.exclude:
            self._check_left(query)
        fields = query.request.fields
        papers = self._papers(
            [ranked.id for ranked in ranking.page], fields, counts=query.request.filters.as_of is None
        )
        return SearchResponse(
            snapshot=self.snapshot_id,
            mode=query.mode,
            engine=query.engine,
            total=ranking.total,
            total_relation=ranking.relation,
            next_offset=ranking.next_offset,
            results=tuple(
                Hit(ranked.score, paper, ranked.explain)
                for ranked, paper in zip(ranking.page, papers, strict=True)
            ),
            fields=fields,
            failed_legs=ranking.failed,
        )

    def _check_left(self, query: Query) -> None:
        """Raises NothingLeft: papers match, and every one of them has a phrase of ``exclude``."""
        request = query.request
        without = replace(
            request,
            filters=replace(request.filters, exclude=()),
            limit=1,
            offset=0,
            exact=request.exact or query.mode == "sparse",
        )
        ranking = self._ranker.rank(self._resolve(without))
        if ranking.total:
            least = "at least " if ranking.relation == "gte" else ""
            raise NothingLeft(
                f"Every one of the {least}{ranking.total:,} papers that match {request.q[:200]!r} has a phrase of "
                f"exclude {list(request.filters.exclude)!r}: leave one out."
            )

    # -- titles -----------------------------------------------------------------------------------------

    def match_title(
        self,
        title: str,
        *,
        limit: int = 5,
        min_score: float = MIN_TITLE_SCORE,
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
    ) -> TitleMatchResponse:
        """The papers whose title is this one, then those with titles like it, best first; none is empty.

        Raises:
            InvalidRequest: an empty title, or an argument out of range; ``NothingLeft``: ``as_of`` is before every
                paper.
        """
        check_title_match(limit, min_score)
        check_title(title)
        wanted = check_fields(fields)
        day = self._day_of(as_of)
        filters = NO_FILTERS if day is None else ResolvedFilters(last_day=day)
        matches = self._catalog.match_title(title, limit, min_score, filters)
        papers = self._papers([match.id for match in matches], wanted, counts=day is None)
        results = tuple(TitleMatch(m.score, p) for m, p in zip(matches, papers, strict=True))
        return TitleMatchResponse(self.snapshot_id, results, wanted)

    def match_titles(
        self,
        titles: Sequence[str],
        *,
        limit: int = 1,
        min_score: float = MIN_TITLE_SCORE,
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
    ) -> list[TitleMatchResponse]:
        """Many titles, answered in order. Raises as ``match_title``; the sentence says for which title."""
        check_title_match(limit, min_score)
        answers = []
        for title in titles:
            with in_batch("title", title):
                answers.append(
                    self.match_title(title, limit=limit, min_score=min_score, as_of=as_of, fields=fields)
                )
        return answers

    # -- papers -----------------------------------------------------------------------------------------

    def paper(self, paper_id: str, *, as_of: str | None = None, fields: Sequence[str] | None = None) -> Paper:
        """The paper that an id of any form names.

        Raises:
            InvalidRequest: no form of an id; ``NothingLeft``: ``as_of`` is before every paper.
            PaperNotFound: the library does not hold it, or not ``as_of`` then.
        """
        wanted = check_fields(fields)
        return self._papers([self._id(paper_id, as_of)], wanted, counts=as_of is None)[0]

    def papers(
        self, ids: Sequence[str], *, as_of: str | None = None, fields: Sequence[str] | None = None
    ) -> list[Paper | None]:
        """Many papers, in order, None in the place of one that the library does not hold, or not ``as_of`` then.

        Raises:
            InvalidRequest: one of the ids has no form of an id; ``NothingLeft``: ``as_of`` is before every paper.
        """
        wanted = check_fields(fields)
        day = self._day_of(as_of)
        found = self._catalog.resolve([parse(i) for i in check_ids(ids, "ids") or ()])
        held = [paper_id for paper_id in found if paper_id is not None]
        if day is not None:
            existing = self._catalog.existing(held, day)
            held = [paper_id for paper_id in held if paper_id in existing]
        by_id = dict(zip(held, self._papers(held, wanted, counts=day is None), strict=True))
        return [None if paper_id is None else by_id.get(paper_id) for paper_id in found]

    def _id(self, paper_id: str, as_of: str | None = None) -> int:
        day = self._day_of(as_of)
        # Agents look a paper up, then its references, then its citations.
        number = self._numbers.get(paper_id, lambda: self._ids([paper_id])[0])
        if day is not None:
            self._check_existing([paper_id], [number], as_of, day)
        return number

    def _check_existing(
        self, ids: Sequence[str], numbers: Sequence[int], as_of: str | None, day: int
    ) -> None:
        existing = self._catalog.existing(numbers, day)
        later = [given for given, number in zip(ids, numbers, strict=True) if number not in existing]
        if later:
            what = "Paper {} is" if len(later) == 1 else "Papers {} are"
            raise PaperNotFound(
                f"{what.format(_shown(later))} not there as of {as_of}: later than that, or of a day not known. "
                "Ask with a later as_of, or without."
            )

    def _ids(self, ids: Sequence[str], as_of: str | None = None) -> list[int]:
        found = self._catalog.resolve([parse(i) for i in ids])
        missing = [given for given, paper_id in zip(ids, found, strict=True) if paper_id is None]
        if missing:
            raise PaperNotFound(
                f"No paper {_shown(missing)} in this library (snapshot {self.snapshot_id}): "
                "try a title match or another id of the paper."
            )
        numbers = [paper_id for paper_id in found if paper_id is not None]
        if as_of is not None and (day := self._day_of(as_of)) is not None:
            self._check_existing(ids, numbers, as_of, day)
        return numbers

    # -- citations --------------------------------------------------------------------------------------

    def citations(
        self,
        paper_id: str,
        *,
        limit: int = 100,
        offset: int = 0,
        sort: CitationSort | None = None,
        from_: str | None = None,
        to: str | None = None,
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
    ) -> CitationsResponse:
        """The papers of this library that cite the paper, most cited first, or with ``as_of`` newest first.

        Raises:
            InvalidRequest: an argument cannot be right; ``NothingLeft``: ``as_of`` is before every paper.
            PaperNotFound: the library does not hold the paper, or not ``as_of`` then.
        """
        return self._edges(paper_id, "citations", limit, offset, sort, _between(from_, to, as_of), fields)

    def references(
        self,
        paper_id: str,
        *,
        limit: int = 100,
        offset: int = 0,
        sort: CitationSort | None = None,
        from_: str | None = None,
        to: str | None = None,
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
    ) -> CitationsResponse:
        """The papers of this library that the paper cites, sorted as citations are. Raises as ``citations``."""
        return self._edges(paper_id, "references", limit, offset, sort, _between(from_, to, as_of), fields)

    def iter_citations(
        self, paper_id: str, *, limit: int | None = None, **arguments: Any
    ) -> Iterator[Citation]:
        """All citations, page after page, up to ``limit``. The arguments are those of ``citations``."""
        yield from _pages(
            lambda size, offset: self.citations(paper_id, limit=size, offset=offset, **arguments), limit
        )

    def iter_references(
        self, paper_id: str, *, limit: int | None = None, **arguments: Any
    ) -> Iterator[Citation]:
        """All references, page after page, up to ``limit``. The arguments are those of ``references``."""
        yield from _pages(
            lambda size, offset: self.references(paper_id, limit=size, offset=offset, **arguments), limit
        )

    def has_few_edges(self, paper_id: str, direction: Direction, *, as_of: str | None = None) -> bool:
        """Whether a page of the paper's citations or references takes well below a millisecond: a server then need
        not make it in a thread of its own. Raises as ``citations``."""
        return self._few_edges_of(self._id(paper_id, as_of), direction) is not None

    def _few_edges_of(self, number: int, direction: Direction) -> int | None:
        return self._few_edges.get((number, direction), lambda: self._catalog.few_edges(number, direction))

    def _edges(
        self,
        paper_id: str,
        direction: Direction,
        limit: int,
        offset: int,
        sort: CitationSort | None,
        asked: Filters,
        fields: Sequence[str] | None,
    ) -> CitationsResponse:
        check_page(limit, offset)
        order = check_sort(sort, asked.as_of)
        wanted = check_fields(fields)
        filters = self._resolve_filters(asked)
        number = self._id(paper_id, asked.as_of)
        edges = self._catalog.edges(
            number,
            direction,
            limit,
            offset,
            order,
            filters,
            fields=wanted,
            counts=asked.as_of is None,
            at_most=self._few_edges_of(number, direction),
            as_json=self._as_json,
        )
        # A first page that is not full is all there is.
        whole = offset == 0 and len(edges) < limit
        total = len(edges) if whole else self._catalog.count_edges(number, direction, filters)
        results = tuple(
            Citation(edge.paper, edge.is_influential, edge.contexts, edge.intents) for edge in edges
        )
        return CitationsResponse(self.snapshot_id, total, _next(offset, len(results), total), results, wanted)

    def expand(
        self,
        seeds: Sequence[str],
        *,
        direction: Direction = "both",
        hops: int = 1,
        limit: int = 100,
        offset: int = 0,
        from_: str | None = None,
        to: str | None = None,
        category: Sequence[str] = (),
        venue: Sequence[str] = (),
        min_citations: int | None = None,
        exclude: Sequence[str] = (),
        exclude_ids: Sequence[str] = (),
        within: Sequence[str] | None = None,
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
    ) -> ExpandResponse:
        """The neighbours of a set of papers along citations, each once and no seed among them; those that
        most seeds reach come first.

        Raises:
            InvalidRequest: an argument cannot be right, or the walk takes too many edges; ``NothingLeft``: ``as_of``
                is before every paper.
            PaperNotFound: the library does not hold a paper that the call names, or not ``as_of`` then.
        """
        checked = check_expansion(seeds, direction, limit, offset)
        wanted = check_fields(fields)
        asked = Filters(from_, to, category, venue, min_citations, exclude, exclude_ids, within, as_of)  # type: ignore[arg-type]  # it makes tuples
        filters = self._resolve_filters(asked)
        starts = self._ids(checked, as_of)
        total, rows = self._catalog.expand(
            starts, direction, hops, filters, limit, offset, as_of=asked.as_of_day
        )
        papers = self._papers([row.paper_id for row in rows], wanted, counts=as_of is None)
        results = tuple(Neighbour(p, row.seeds, row.hops) for row, p in zip(rows, papers, strict=True))
        return ExpandResponse(self.snapshot_id, total, _next(offset, len(results), total), results, wanted)

    # -- about ------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """The snapshot id, what besides it decides rankings (settings, by their names), and the manifest."""
        content: dict[str, Any] = orjson.loads(self.manifest.to_bytes())
        return {"snapshot": self.snapshot_id, "ranking": self.settings.ranking, "manifest": content}

    def ready(self) -> dict[str, str]:
        """Ask each part for something small: ``ok``, ``absent`` or a sentence of what is wrong."""
        state: dict[str, str] = {}
        checks: list[tuple[str, Callable[[], object]]] = [
            ("catalog", lambda: self._catalog.meta("snapshot")),
            ("vectors", lambda: self._vectors.search_sparse(BM25, SparseVector([1], [1.0]), 1, NO_FILTERS)),
        ]
        if self._encoder is not None:
            checks.append(("encoder", lambda: self._encoder and self._encoder.encode_queries(["ready"])))
        else:
            state["encoder"] = "absent"
        for name, check in checks:
            try:
                check()
                state[name] = "ok"
            except (EncoderError, VectorIndexError, LibraryCorrupt) as error:
                state[name] = str(error)
        return state


_NO_REQUEST_FILTERS: Final = Filters()
_NEVER: Final = 10**8
"""After the last day there is, 99991231."""


def _between(from_: str | None, to: str | None, as_of: str | None) -> Filters:
    unlimited = from_ is None and to is None and as_of is None
    return _NO_REQUEST_FILTERS if unlimited else Filters(from_=from_, to=to, as_of=as_of)


def _shown(ids: Sequence[str]) -> str:
    return ", ".join(map(repr, ids[:5])) + (" ..." if len(ids) > 5 else "")


def _open_vectors(path: Path, snapshot: str, settings: Settings) -> VectorIndex:
    if settings.qdrant_url is None:
        check_contents(path / "vectors", snapshot)
        return EdgeIndex.open(
            path / "vectors", temporary=settings.runtime_dir, threads=_search_threads(settings.workers)
        )
    from scholarbase.indexes.vectors.server import ServerIndex, connect  # gRPC loads only where it serves

    key = settings.qdrant_api_key.get_secret_value() if settings.qdrant_api_key else None
    return ServerIndex.open(connect(settings.qdrant_url, api_key=key), settings.qdrant_alias, snapshot)


def _search_threads(workers: int) -> int | None:
    """How many threads search in each of several serving processes, so that together they take every core once;
    None leaves it to the index."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return None if workers == 1 else max(1, cores // workers)


def _open_encoder(
    path: Path, manifest: Manifest, encoder: str | Encoder | None, settings: Settings
) -> Encoder | None:
    """The query encoder, seen to be the library's own."""
    if manifest.encoder is None:
        return None
    stored = _stored_encoder(path)
    wanted = encoder or encoder_location(path, manifest, settings)
    if wanted is None or wanted == "none":
        return None
    if isinstance(wanted, str):
        key = settings.encoder_api_key.get_secret_value() if settings.encoder_api_key else None
        wanted = open_encoder(wanted, device=settings.device, api_key=key)
    try:
        check_spec(manifest.encoder, wanted.spec)
        if "probe" in stored:
            check_probe(wanted, stored["probe"])
    except BaseException:
        wanted.close()
        raise
    return wanted


def _stored_encoder(path: Path) -> dict[str, Any]:
    """Where the encoder was when the library was built, and its vector of a known text."""
    about = path / "encoder.json"
    stored: dict[str, Any] = orjson.loads(about.read_bytes()) if about.is_file() else {}
    return stored


def encoder_location(path: Path, manifest: Manifest, settings: Settings) -> str | None:
    """The name, path or URL by which the library's query encoder opens; None where it needs none."""
    if manifest.encoder is None or settings.encoder == "none":
        return None
    return settings.encoder or _stored_encoder(path).get("location") or manifest.encoder.name


def _next(offset: int, count: int, total: int) -> int | None:
    end = offset + count
    return end if count and end < total else None


def _pages(page: Callable[[int, int], Any], limit: int | None) -> Iterator[Any]:
    """Items of one page after the other, until there are no more or ``limit`` are given. Each paper comes once:
    where vectors are searched approximately, two pages may share one."""
    offset: int | None = 0
    seen: set[str] = set()
    while offset is not None and (limit is None or len(seen) < limit):
        answer = page(100 if limit is None else min(100, limit - len(seen)), offset)
        for item in answer.results:
            if item.paper.id not in seen:
                seen.add(item.paper.id)
                yield item
        offset = answer.next_offset


__all__ = ["PAPER_FIELDS", "Library", "search_request"]
