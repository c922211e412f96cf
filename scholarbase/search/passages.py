"""Searches of passages: over all papers, and inside one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Final, NamedTuple

import numpy as np

from scholarbase.deadlines import check
from scholarbase.documents.chunkers import CHUNKERS, passages
from scholarbase.documents.model import Document
from scholarbase.documents.ranking import rank_passages
from scholarbase.documents.tokens import tokens_of
from scholarbase.errors import InvalidRequest, UnsupportedMode
from scholarbase.indexes import query_syntax
from scholarbase.indexes.filters import NO_FILTERS, ResolvedFilters
from scholarbase.indexes.passages import Documents, StoredPassage, Text, parameters_of
from scholarbase.indexes.vectors.base import BM25, ScoredId, SparseVector
from scholarbase.indexes.vectors.bm25 import Bm25Text
from scholarbase.indexes.vectors.index import VectorIndex
from scholarbase.manifest import Manifest
from scholarbase.models.checks import as_of_day
from scholarbase.models.document_requests import (
    MAX_PASSAGE_DEPTH,
    InPaperEngine,
    PaperPassagesBody,
    PassageSearch,
)
from scholarbase.models.document_responses import (
    Passage,
    PassageHit,
    PassagesResponse,
)
from scholarbase.models.limits import Mode, TotalRelation
from scholarbase.models.paging import next_offset
from scholarbase.search.cache import Cache
from scholarbase.search.documents import Texts, in_document, unread
from scholarbase.search.fusion import fuse
from scholarbase.search.legs import Bm25Queries
from scholarbase.search.lookup import Lookup
from scholarbase.search.opening import Opened, Part
from scholarbase.search.plan import FEW, INVALID_SYNTAX, few_match, free_text, without_markup
from scholarbase.timing import stages

_NO_MATCH: Final = "No passage matches q as query syntax: use syntax=plain to rank passages by its words."
_SEARCH: Final = ("The search of passages", "use fewer words, filters and ids, or a smaller limit")
FIRST_DEPTH: Final = 100
"""The passages that a search by words or by meaning alone ranks for its first pages."""
WORDS_WEIGHT: Final = 2.0
"""The weight of BM25 in the fusion, where dense vectors have 1. Sentences of full texts are found in the first five
passages for 95% of 500 questions, with equal weights for 91% (`docs/measurements.md`); the sentences of 49 abstracts
find passages of their papers as well with both."""
ENCODED_AT_ONCE: Final = 32
"""Passages that are encoded between checks of the time limit, where a chunking is not the library's own."""
CACHED_CHARACTERS: Final = 8 << 20
"""Characters of the texts that are kept cut into passages. Agents ask one paper several questions."""


class _Ranking(NamedTuple):
    """Passages, best first, how they were ranked, and their number."""

    hits: list[ScoredId]
    mode: Mode
    total: int
    relation: TotalRelation
    warnings: tuple[str, ...] = ()


class Cut(NamedTuple):
    """A text cut into passages: their offsets, texts, and numbers in the index if they are there."""

    document: Document
    spans: list[tuple[int, int]]
    texts: list[str]
    ids: list[int]


class PassageIndex(NamedTuple):
    """The indexes of the passages of a library, and the encoder of their queries."""

    documents: Documents
    vectors: VectorIndex
    bm25: Bm25Text
    queries: Bm25Queries
    chunker: str

    @classmethod
    def of(cls, manifest: Manifest, documents: Documents, vectors: VectorIndex) -> PassageIndex:
        assert manifest.documents is not None
        chunker = manifest.documents["chunker"]
        text = Bm25Text(parameters_of(chunker))
        return cls(documents, vectors, text, Bm25Queries(text, documents.frequencies), chunker)


class Passages(Part):
    """Searches the passages of one library. Thread-safe. Its errors are those of the methods of a library."""

    def __init__(self, opened: Opened, lookup: Lookup, texts: Texts) -> None:
        super().__init__(opened, lookup)
        self._texts = texts
        self._opened: PassageIndex | None = None
        if opened.documents is not None and opened.passages is not None:
            self._opened = PassageIndex.of(opened.manifest, opened.documents, opened.passages)
        self._encoder = opened.encoder
        self._cut_texts: Cache[Cut] = Cache(CACHED_CHARACTERS, lambda cut: len(cut.document.text) + 1)

    @property
    def _index(self) -> PassageIndex:
        """Raises DocumentNotFound: the library has no full texts."""
        if self._opened is None:
            raise self._texts.missing()
        return self._opened

    def checks(self) -> list[tuple[str, Callable[[], object]]]:
        """A small request to each part, by its name."""
        if self._opened is None:
            return []
        documents, vectors = self._opened.documents, self._opened.vectors
        probe = SparseVector([1], [1.0])
        return [
            ("documents", lambda: documents.frequencies([], None)),
            ("passages", lambda: vectors.search_sparse(BM25, probe, 1, NO_FILTERS)),
        ]

    def search(self, request: PassageSearch) -> PassagesResponse:
        """Search the passages of all papers."""
        request = without_markup(request)
        index = self._index
        start = perf_counter()
        filters, warnings = self._lookup.filters(request)
        stages().append(("filters", start, perf_counter()))
        ranking = self._rank(request, filters)
        hits, total, relation = ranking.hits, ranking.total, ranking.relation
        if request.per_paper is not None:
            hits = _grouped(index.documents, hits, request.per_paper)
            total, relation = (
                len(hits),
                "eq" if ranking.relation == "eq" and total == len(ranking.hits) else "gte",
            )
        page = hits[request.offset : request.offset + request.limit]
        results = self._hydrated(index.documents, page, request.fields, request.as_of)
        following = next_offset(request.offset, len(results), min(total, MAX_PASSAGE_DEPTH))
        return PassagesResponse(
            self._snapshot,
            ranking.mode,
            total,
            relation,
            following,
            tuple(results),
            warnings + ranking.warnings,
            request.fields,
        )

    def _rank(self, request: PassageSearch, filters: ResolvedFilters) -> _Ranking:
        index = self._index
        expression, warnings = _expression(index, request, filters)
        depth = _depth(request)
        if expression is not None:
            check(*_SEARCH)
            hits = index.documents.search_words(expression, depth, filters)
            total = len(hits) if len(hits) < depth else index.documents.count_words(expression, filters)
            return _Ranking(hits, "sparse", total, "eq", warnings)
        has_dense = index.vectors.config.dimensions is not None and self._encoder is not None
        mode = request.mode or ("hybrid" if has_dense else "sparse")
        if mode != "sparse" and not has_dense:
            raise UnsupportedMode(
                f"mode {mode!r} requires dense vectors of passages and a query encoder, which this library was built "
                "or opened without: use mode 'sparse'."
            )
        by_passage = _of_passages(index.documents, filters)
        legs: dict[str, list[ScoredId]] = {}
        whole = True
        if mode != "dense":
            hits = _by_words(index, request, by_passage, depth)
            whole, legs[BM25] = len(hits) <= depth, hits[:depth]
        if mode != "sparse":
            check(*_SEARCH)
            assert self._encoder is not None
            start = perf_counter()
            vector = self._encoder.encode_queries([request.q]).dense[0]
            encoded = perf_counter()
            nearest = []
            if vector.any():
                nearest = index.vectors.search_dense(vector, depth + 1, by_passage, exact=request.exact)
            stages().extend((("encode", start, encoded), ("dense", encoded, perf_counter())))
            whole, legs["dense"] = whole and len(nearest) <= depth, nearest[:depth]
        if len(legs) == 1:
            [hits] = legs.values()
        else:
            hits = _fused(legs)
        return _Ranking(
            hits, mode, len(hits) if whole else max(len(hits), depth + 1), "eq" if whole else "gte", warnings
        )

    def _hydrated(
        self, documents: Documents, hits: Sequence[ScoredId], fields: Sequence[str], as_of: str | None
    ) -> list[PassageHit]:
        start = perf_counter()
        stored: list[StoredPassage] = documents.passages([hit.id for hit in hits])
        numbers = list(dict.fromkeys(passage.paper for passage in stored))
        papers = dict(zip(numbers, self._catalog.papers(numbers, fields, as_of=as_of), strict=True))
        stages().append(("hydrate", start, perf_counter()))
        return [
            PassageHit(
                hit.score,
                papers[passage.paper],
                Passage(
                    passage.start, passage.end, passage.text, passage.heading, passage.version, passage.page
                ),
            )
            for hit, passage in zip(hits, stored, strict=True)
        ]

    # -- one paper --------------------------------------------------------------------------------------

    def in_paper(self, request: PaperPassagesBody) -> PassagesResponse:
        """The passages of one paper that answer a question."""
        request = without_markup(request)
        documents, text = self._texts.text_of(request.paper_id, request.version, request.as_of)
        engine = request.engine or ("bm25" if self._encoder is None else "hybrid")
        if engine != "bm25" and self._encoder is None:
            raise UnsupportedMode(
                f"engine {engine!r} requires the library's encoder, and it has none or was opened without: use engine "
                "'bm25'."
            )
        start = perf_counter()
        cut = self._cut(documents, text, request.chunker or self._index.chunker)
        stages().append(("cut", start, perf_counter()))
        start = perf_counter()
        hits = self._rank_in_paper(cut, request.q, engine)
        stages().append((engine, start, perf_counter()))
        [paper] = self._catalog.papers([text.paper], request.fields, as_of=request.as_of)
        results = tuple(
            PassageHit(hit.score, paper, in_document(cut.document, *cut.spans[hit.id], text.version))
            for hit in hits[request.offset : request.offset + request.limit]
        )
        following = next_offset(request.offset, len(results), len(hits))
        return PassagesResponse(
            self._snapshot, engine, len(hits), "eq", following, results, unread(cut.document), request.fields
        )

    def _cut(self, documents: Documents, text: Text, chunker: str) -> Cut:
        """A text cut into passages: those of the index, or of another chunker."""
        is_indexed = text.is_main and chunker == self._index.chunker

        def compute() -> Cut:
            document = documents.document(text.id)
            ids: list[int] = []
            if is_indexed:
                stored = documents.passages_of_text(text.id)
                ids, spans = [row[0] for row in stored], [(row[1], row[2]) for row in stored]
            else:
                check(*_SEARCH)
                chunks = passages(document, CHUNKERS[chunker], tokens_of(self._encoder))
                spans = [(chunk.start, chunk.end) for chunk in chunks]
            return Cut(document, spans, [document.text[a:b] for a, b in spans], ids)

        return self._cut_texts.get((text.id, chunker), compute)

    def _rank_in_paper(self, cut: Cut, q: str, engine: InPaperEngine) -> list[ScoredId]:
        """The positions of passages, best first."""
        legs: dict[str, list[ScoredId]] = {}
        if engine != "dense":
            legs[BM25] = [ScoredId(position, score) for position, score in rank_passages(cut.texts, q)]
        if engine != "bm25":
            legs["dense"] = self._nearest_in_paper(cut, q)
        if len(legs) == 1:
            [hits] = legs.values()
            return hits
        return _fused(legs)

    def _nearest_in_paper(self, cut: Cut, q: str) -> list[ScoredId]:
        """The passages by the cosine of their vectors with that of the query."""
        assert self._encoder is not None
        query = self._encoder.encode_queries([q]).dense[0]
        vectors: dict[int, np.ndarray] = {}
        if cut.ids:
            stored = self._index.vectors.dense_vectors(cut.ids)
            vectors = {
                position: stored[number] for position, number in enumerate(cut.ids) if number in stored
            }
        else:
            for start in range(0, len(cut.texts), ENCODED_AT_ONCE):
                check(*_SEARCH)
                encoded = self._encoder.encode_documents(cut.texts[start : start + ENCODED_AT_ONCE]).dense
                vectors |= {
                    start + position: vector for position, vector in enumerate(encoded) if vector.any()
                }
        if not vectors or not query.any():
            return []
        scores = np.stack(list(vectors.values())) @ query
        hits = [ScoredId(position, float(score)) for position, score in zip(vectors, scores, strict=True)]
        return sorted(hits, key=lambda hit: (-hit.score, hit.id))


def _by_words(
    index: PassageIndex, request: PassageSearch, filters: ResolvedFilters, depth: int
) -> list[ScoredId]:
    check(*_SEARCH)
    start = perf_counter()
    day = None if request.as_of is None else as_of_day(request.as_of)
    vector = index.queries.vector(request.q, day)
    hits = []
    if len(vector.indices):
        hits = index.vectors.search_sparse(BM25, vector, depth + 1, filters)
    elif (expression := free_text(request.q)) is not None:
        # Only stop words, which the vectors lack.
        hits = index.documents.search_words(expression, depth + 1, filters)
    stages().append((BM25, start, perf_counter()))
    return hits


def _expression(
    index: PassageIndex, request: PassageSearch, filters: ResolvedFilters
) -> tuple[str | None, tuple[str, ...]]:
    """The FTS5 expression of a text that is read as query syntax, and warnings."""
    q = request.q
    is_syntax = request.syntax == "query" or (
        request.syntax == "auto" and request.mode in (None, "sparse") and query_syntax.is_syntax(q)
    )
    if not is_syntax:
        return None, ()
    if request.mode == "hybrid":
        raise InvalidRequest(
            "syntax 'query' cannot be combined with mode 'hybrid': use mode 'sparse', or leave mode out."
        )
    try:
        expression = query_syntax.compile(q)
        few = len(index.documents.search_words(expression, FEW, filters))
    except InvalidRequest as error:
        if request.syntax == "query":
            raise
        return None, (INVALID_SYNTAX.format(error),)
    if request.syntax == "auto" and query_syntax.is_prose(q) and few < FEW:
        return None, (few_match(few, "passage", {}),)
    return expression, () if few or request.syntax == "query" else (_NO_MATCH,)


def _grouped(documents: Documents, hits: Sequence[ScoredId], most: int) -> list[ScoredId]:
    """The passages of each paper together, ``most`` at most, papers in the order of their best passages."""
    papers = documents.papers_of([hit.id for hit in hits])
    groups: dict[int, list[ScoredId]] = {}
    for hit in hits:
        group = groups.setdefault(papers[hit.id], [])
        if len(group) < most:
            group.append(hit)
    return [hit for group in groups.values() for hit in group]


def _depth(request: PassageSearch) -> int:
    """The passages that a leg ranks: fewer for the first pages, unless passages are fused or grouped, which must not
    depend on the page."""
    few = request.mode in ("sparse", "dense") and request.per_paper is None
    return FIRST_DEPTH if few and request.offset + request.limit <= FIRST_DEPTH else MAX_PASSAGE_DEPTH


def _fused(legs: Mapping[str, Sequence[ScoredId]]) -> list[ScoredId]:
    """The passages of both legs by reciprocal rank."""
    return fuse(legs, weights={BM25: WORDS_WEIGHT})[0]


def _of_passages(documents: Documents, filters: ResolvedFilters) -> ResolvedFilters:
    """The filters with the passages of listed papers in place of the papers."""
    within = filters.within if filters.within is None else documents.passages_of(filters.within)
    exclude = documents.passages_of(filters.exclude) if filters.exclude else filters.exclude
    if within is filters.within and exclude is filters.exclude:
        return filters
    return replace(filters, within=within, exclude=exclude)
