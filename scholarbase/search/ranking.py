"""Ranking: running the legs of a search and fusing their results.

A search is sparse (by words), dense (by meaning) or hybrid (both, fused by scores or by rank). The sparse leg has four
engines. Every leg applies the filters before it takes its first results; ties break by id.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from types import MappingProxyType
from typing import Final

import msgspec

from scholarbase.encoders import Encoder
from scholarbase.errors import (
    InvalidRequest,
    UnsupportedMode,
)
from scholarbase.indexes import query_syntax
from scholarbase.indexes.catalog import Catalog
from scholarbase.indexes.filters import ResolvedFilters
from scholarbase.indexes.vectors.base import BM25, DENSE, ScoredId, append_scaled
from scholarbase.indexes.vectors.bm25 import Bm25Parameters, Bm25Text
from scholarbase.indexes.vectors.index import VectorIndex
from scholarbase.manifest import Manifest
from scholarbase.models.limits import MAX_DEPTH, Engine, Mode, TotalRelation
from scholarbase.models.requests import SearchRequest
from scholarbase.models.responses import FailedLeg, LegExplanation
from scholarbase.rerankers import Reranker
from scholarbase.search.fusion import fuse_first
from scholarbase.search.known_items import (
    MAY_BE_ID,
    MOST_SHARING,
    KnownItem,
    KnownItems,
    explain_known,
    put_first,
)
from scholarbase.search.legs import WORD_LEGS, Legs, Query, Ranking, free_text
from scholarbase.search.reading import FEW, read
from scholarbase.search.reranking import Reranked, Reranking, check_reranker
from scholarbase.search.score_fusion import (
    DENSE_FIRST,
    FIRST,
    Combined,
    combine,
    leg_weights,
    zero,
    zero_of_first,
)
from scholarbase.settings import Settings
from scholarbase.timing import stages

log = logging.getLogger("scholarbase.ranking")

TIERS: Final = (100, 1000, MAX_DEPTH)
"""The numbers of results that a leg can fetch; the smallest that includes the page is used. All pages within a tier
come from one ranking, so they have no overlaps or gaps if an index is approximate."""


class Ranker:
    """Ranks the papers of one library. Thread-safe."""

    def __init__(
        self,
        manifest: Manifest,
        papers: Catalog,
        vectors: VectorIndex,
        encoder: Encoder | None,
        settings: Settings,
        rerankers: Mapping[str, Reranker] = MappingProxyType({}),
    ) -> None:
        self._manifest = manifest
        self._catalog = papers
        self._vectors = vectors
        self._encoder = encoder
        self._settings = settings
        self._bm25 = Bm25Text(Bm25Parameters.from_dict(manifest.bm25))
        self._legs = Legs(manifest, papers, vectors, encoder, settings, self._bm25)
        self._known_items = KnownItems(papers, self._bm25)
        self._rerankers = rerankers
        self._reranking = Reranking(papers, rerankers)
        has_dense = manifest.vectors["dimensions"] is not None and encoder is not None
        self.best_mode: Final[Mode] = "hybrid" if has_dense else "sparse"

    def close(self) -> None:
        """Shut down the threads of the legs. Running searches finish."""
        self._legs.close()

    def forget_queries(self) -> None:
        """Empty the caches of query vectors, of known words and of rerankers' scores."""
        self._legs.forget_queries()
        self._reranking.forget()

    def resolve(self, request: SearchRequest, filters: ResolvedFilters) -> Query:
        """Decide which legs run, and how many results they fetch.

        Raises:
            InvalidRequest: the page is too deep, the query syntax is malformed, or the reranker is unknown.
            UnsupportedMode: the library has no index for the mode or engine.
        """
        mode = request.mode or self.best_mode
        engine = None if mode == "dense" else request.engine or self._default_engine(mode)
        self._check_mode(mode, engine)
        if request.rerank is not None:
            check_reranker(request.rerank, self._rerankers)
        q = request.q
        depth = self._depth(request, mode)
        words = query_syntax.without_shortened(q) if query_syntax.SHORTENED.search(q) else q
        if request.min_similarity is not None and mode == "sparse":
            raise InvalidRequest(
                f"min_similarity {request.min_similarity:g} applies to dense vectors, which mode 'sparse' does not "
                "use: leave it out, or use mode 'hybrid' or 'dense'."
            )
        expression: str | None = None
        syntax = False
        warnings: tuple[str, ...] = ()
        strict: list[ScoredId] = []
        if self._may_be_syntax(request, mode):
            reading = read(q, request.syntax, filters, self._catalog, hybrid=mode == "hybrid")
            warnings = reading.warnings
            if reading.expression is not None:
                engine, expression, syntax = "fts5", reading.expression, True
                filters = (
                    filters if reading.matches is None else replace(filters, within=reading.matches, sets=())
                )
            elif reading.first is not None:
                weight = self._settings.fts5_title_weight
                strict = self._catalog.search_text(reading.first, FEW, filters, title_weight=weight)
        if engine == "fts5" and not syntax:
            expression = free_text(words)
        known: tuple[KnownItem, ...] = ()
        matches_nothing = not any(map(str.isalnum, q))
        if self._settings.known_items and request.syntax != "query":
            titled = self._catalog.titled(q, filters, MOST_SHARING)
            if titled or MAY_BE_ID.fullmatch(q):
                known, absent = self._known_items.find(q, titled, filters)
                if absent is not None and not syntax and not strict:
                    matches_nothing, warnings = True, (absent,)
            if known and expression is not None and syntax:
                [matching] = self._catalog.holding([expression], [item.id for item in known])
                known = tuple(item for item in known if item.id in matching)
        named = {item.id for item in known}
        known += tuple(KnownItem(hit.id, "syntax") for hit in strict if hit.id not in named)
        # The other pages are the same with and without the reranker.
        has_reranked = request.rerank is not None and request.offset < request.rerank_depth
        reranked = min(request.rerank_depth, depth) if has_reranked else 0
        is_split = mode == "hybrid" and self._settings.fusion == "scores" and depth > DENSE_FIRST
        return Query(
            request,
            mode,
            engine,
            filters,
            depth,
            expression,
            syntax,
            words,
            known,
            warnings,
            reranked,
            is_split,
            is_split and max(request.offset + request.limit, reranked) <= FIRST,
            matches_nothing,
        )

    def _default_engine(self, mode: Mode) -> Engine:
        if self._settings.engine is not None:
            return self._settings.engine
        return "feedback" if mode == "hybrid" and self._settings.fusion == "scores" else "bm25"

    def has_bm25_terms(self, q: str) -> bool:
        """Whether ``q`` has words besides stop words, so that BM25 vectors can rank it."""
        return len(self._bm25.query(query_syntax.without_shortened(q)).indices) > 0

    def _may_be_syntax(self, request: SearchRequest, mode: Mode) -> bool:
        if mode == "dense" or request.syntax == "plain" or request.engine not in (None, "fts5"):
            return False
        return request.syntax == "query" or query_syntax.MARKS.search(request.q) is not None

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

    def _depth(self, request: SearchRequest, mode: Mode) -> int:
        end = request.offset + request.limit
        if request.rerank is not None:
            end = max(end, request.rerank_depth)
        deepest = self._settings.fusion_depth if mode == "hybrid" else MAX_DEPTH
        if request.offset >= deepest:
            raise InvalidRequest(
                f"offset {request.offset} is beyond result {deepest}, the last of a {mode} search: narrow the search "
                "with filters" + (", or use mode 'sparse' or 'dense'." if mode == "hybrid" else ".")
            )
        # A page that extends beyond the last result ends there.
        return deepest if mode == "hybrid" else next(tier for tier in TIERS if min(end, deepest) <= tier)

    def rank(self, query: Query) -> Ranking:
        """Run the legs, fuse them, rerank the first papers, and cut the page.

        Raises:
            EncoderError, VectorIndexError, LibraryCorrupt: all legs failed, or one failed without ``partial``.
            RerankerError: the reranker failed without ``partial``.
        """
        request = query.request
        legs, failed = self._legs.run(query)
        end = min(request.offset + request.limit, query.depth)
        explanations: dict[int, tuple[LegExplanation, ...]] = {}
        if query.mode == "hybrid":
            start = perf_counter()
            # A known item may be the last of either leg.
            most = 2 * query.depth if query.known else max(end, query.reranked)
            hits, found, explanations = self._fuse(query, legs, most)
            stages().append(("fusion", start, perf_counter()))
            total, relation = self._hybrid_total(query, legs, found)
        else:
            [leg] = legs.values()
            hits, total, relation = leg.hits, leg.total, leg.relation
            complete = relation == "eq" or len(hits) < query.depth
            found = max(total, len(hits)) if complete else MAX_DEPTH
        own = hits
        if query.known:
            hits = put_first(query.known, own)
            absent = len(hits) - len(own)
            found += absent
            if relation == "gte":
                total = max(total, len(hits))
            elif absent:
                total += self._uncounted(query, legs)
        reachable = min(found, query.depth if query.mode == "hybrid" else MAX_DEPTH)
        reranked = self._rerank(query, hits)
        if isinstance(reranked, Reranked):
            hits = reranked.hits
        elif reranked is not None:
            failed.append(reranked)
            reranked = None
        hits = hits[request.offset : end]
        if request.explain:
            if query.mode != "hybrid":
                explanations = _explained(legs, {hit.id for hit in hits})
            explanations = explain_known(query.known, hits, own, explanations)
            explanations = self._with_terms(query, explanations, [hit.id for hit in hits])
            for number, entry in reranked.explanations.items() if reranked else ():
                if number in explanations:
                    explanations[number] += (entry,)
        reached = request.offset + len(hits)
        next_offset = reached if hits and reached < reachable else None
        name = request.rerank if reranked else None
        return Ranking(hits, total, relation, next_offset, explanations, tuple(failed), name)

    def _rerank(self, query: Query, hits: list[ScoredId]) -> Reranked | FailedLeg | None:
        """The hits with the first ones reranked, behind the known items; None if there are none to rerank."""
        request, known = query.request, len(query.known)
        if request.rerank is None or len(hits[known : query.reranked]) == 0:
            return None
        text = request.q
        if query.syntax:  # without operators, columns and what follows NOT
            text = " ".join(term.word for term in query_syntax.terms(text, syntax=True)) or text
        return self._reranking.rerank(
            request.rerank, text, hits, known, query.reranked, partial=request.partial
        )

    def _fuse(
        self, query: Query, legs: Mapping[str, Ranking], end: int
    ) -> tuple[list[ScoredId], int, dict[int, tuple[LegExplanation, ...]]]:
        """The best papers of the fusion, the number of papers in all legs together, and explanations."""
        lists = {name: leg.hits for name, leg in legs.items()}
        weights = {k: v for k, v in (self._settings.fusion_weights or {}).items() if k in lists}
        if self._settings.fusion == "scores":
            return self._fuse_scores(query, legs, leg_weights(lists, weights), end)
        return fuse_first(lists, end, k=self._settings.rrf_k, weights=weights, explain=query.request.explain)

    def _fuse_scores(
        self, query: Query, legs: Mapping[str, Ranking], weights: Mapping[str, float], end: int
    ) -> tuple[list[ScoredId], int, dict[int, tuple[LegExplanation, ...]]]:
        """:meth:`_fuse` by scores, the first results from fewer dense ones."""
        lists = {name: leg.hits for name, leg in legs.items()}
        least = {DENSE: self._legs.floor(query) or 0.0}
        zeros = {name: zero(hits, query.depth, least.get(name, 0.0)) for name, hits in lists.items()}
        explain = query.request.explain
        if not query.is_split or DENSE not in legs:
            fused = combine(lists, weights, zeros, limit=end)
            return fused.hits, fused.found, _shares(lists, fused) if explain else {}
        of_first = legs[DENSE].first
        dense = lists[DENSE] if of_first is None else of_first
        firsts = {**lists, DENSE: dense}
        zero_first = zero_of_first(dense, least[DENSE])
        first = combine(
            firsts, weights, {**zeros, DENSE: zero_first}, limit=end if of_first is None else FIRST
        )
        explained = _shares(firsts, first) if explain else {}
        if of_first is None:
            return first.hits, first.found, explained
        whole = combine(lists, weights, zeros, limit=end)
        hits, scale = append_scaled(first.hits, whole.hits)
        explained = {**_shares(lists, whole, scale), **explained} if explain else {}
        found = {hit.id for leg in lists.values() for hit in leg}.union(hit.id for hit in first.hits)
        return hits[:end], len(found), explained

    def _with_terms(
        self, query: Query, explanations: Mapping[int, tuple[LegExplanation, ...]], page: Sequence[int]
    ) -> dict[int, tuple[LegExplanation, ...]]:
        """The explanations of a page, with the words of the query that each paper contains."""
        own = query.engine if query.engine in WORD_LEGS else None
        ids = [paper_id for paper_id in page if any(leg.leg == own for leg in explanations[paper_id])]
        terms = self._matching_terms(query, ids) if ids else {}
        return {
            paper_id: tuple(
                msgspec.structs.replace(leg, terms=terms[paper_id]) if leg.leg == own else leg
                for leg in explanations[paper_id]
            )
            for paper_id in page
        }

    def _matching_terms(self, query: Query, ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
        q = query.words
        if query.engine != "fts5" and len(self._bm25.query(q).indices):
            numbers = {
                word: set(self._bm25.query(word).indices)
                for word in dict.fromkeys(word.lower() for word in query_syntax.words(q))
            }
            vectors = {
                paper_id: set(vector.indices)
                for paper_id, vector in self._vectors.sparse_vectors(BM25, ids).items()
            }
            return {
                paper_id: tuple(
                    word for word, own in numbers.items() if own and own <= vectors.get(paper_id, set())
                )
                for paper_id in ids
            }
        terms = query_syntax.terms(query.request.q if query.syntax else q, syntax=query.syntax)
        holding = self._catalog.holding([term.expression for term in terms], ids)
        return {
            paper_id: tuple(t.word for t, having in zip(terms, holding, strict=True) if paper_id in having)
            for paper_id in ids
        }

    def _uncounted(self, query: Query, legs: Mapping[str, Ranking]) -> int:
        """The number of known items that no leg matches, so that the total lacks them."""
        ranked = {hit.id for leg in legs.values() for hit in leg.hits}
        absent = {item.id for item in query.known} - ranked
        if all(len(leg.hits) == leg.total for leg in legs.values()):
            return len(absent)
        among = replace(query.filters, within=frozenset(absent), sets=())
        again, _ = self._legs.run(replace(query, filters=among))
        return len(absent - {hit.id for leg in again.values() for hit in leg.hits})

    def _hybrid_total(
        self, query: Query, legs: Mapping[str, Ranking], found: int
    ) -> tuple[int, TotalRelation]:
        """The matches of a hybrid search: the papers of either leg. Without a floor of similarity, all papers with
        dense vectors that pass the filters are matches."""
        dense = legs.get(DENSE)
        sparse = next((leg for name, leg in legs.items() if name != DENSE), None)
        if sparse is not None and (dense is None or dense.total == 0):
            return sparse.total, sparse.relation
        assert dense is not None
        counts = self._manifest.counts
        if self._legs.floor(query) is None and counts["dense_vectors"] == counts["papers"]:
            return dense.total, "eq"
        exhausted = all(leg.relation == "eq" and len(leg.hits) == leg.total for leg in legs.values())
        return (found, "eq") if exhausted else (max(found, *(leg.total for leg in legs.values())), "gte")


def _explained(legs: Mapping[str, Ranking], page: Collection[int]) -> dict[int, tuple[LegExplanation, ...]]:
    """The explanations of a page of a search with one leg."""
    [(name, leg)] = legs.items()
    return {
        hit.id: (LegExplanation(name, rank, hit.score, hit.score),)
        for rank, hit in enumerate(leg.hits, 1)
        if hit.id in page
    }


def _shares(
    lists: Mapping[str, Sequence[ScoredId]], fused: Combined, scale: float = 1.0
) -> dict[int, tuple[LegExplanation, ...]]:
    """The explanations of the papers of a fusion of scores, which were multiplied by ``scale``."""
    explanations: dict[int, tuple[LegExplanation, ...]] = {hit.id: () for hit in fused.hits}
    for name, hits in lists.items():
        for rank, (hit, share) in enumerate(zip(hits, (scale * fused.shares[name]).tolist(), strict=True), 1):
            if hit.id in explanations:
                explanations[hit.id] += (LegExplanation(name, rank, hit.score, share),)
    return explanations
