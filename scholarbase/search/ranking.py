"""Ranking: running the plan of a search, fusing its legs and cutting the page.

A search is sparse (by words), dense (by meaning) or hybrid (both, fused by scores or by rank). The sparse leg has four
engines. Every leg applies the filters before it takes its first results; ties break by id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Final

import msgspec

from scholarbase.indexes import query_syntax
from scholarbase.indexes.citations import Edges
from scholarbase.indexes.vectors.base import BM25, DENSE, ScoredId
from scholarbase.indexes.vectors.bm25 import Bm25Text, without_shortened
from scholarbase.models.limits import MAX_DEPTH, TotalRelation
from scholarbase.models.responses import FailedLeg, LegExplanation
from scholarbase.search.fusion import GRAPH, GraphLeg, combine, explained, fuse, zero
from scholarbase.search.known_items import explain_known, put_first
from scholarbase.search.legs import WORD_LEGS, Legs, Ranking, append_scaled
from scholarbase.search.opening import Opened
from scholarbase.search.plan import Plan
from scholarbase.search.preference import preferred
from scholarbase.search.reranking import Reranked, Reranking
from scholarbase.timing import stages

AVOIDED: Final = "avoided"
"""The name, in explanations, of what lowers a paper with a phrase that the question avoids."""

Explanations = Mapping[int, tuple[LegExplanation, ...]]
"""What each leg contributed to a paper."""


class Ranker:
    """Ranks the papers of one library. Thread-safe."""

    def __init__(self, opened: Opened, bm25: Bm25Text) -> None:
        self._catalog = opened.catalog
        self._vectors = opened.vectors
        self._settings = opened.settings
        counts = opened.manifest.counts
        self._has_all_vectors = counts["dense_vectors"] == counts["papers"]
        self._bm25 = bm25
        self._legs = Legs(opened, bm25)
        self._graph = GraphLeg(opened.catalog)
        self._reranking = Reranking(opened.catalog, opened.rerankers)

    def close(self) -> None:
        """Shut down the threads of the legs. Running searches finish."""
        self._legs.close()

    def forget_queries(self) -> None:
        """Empty the caches of query vectors and of rerankers' scores."""
        self._legs.forget_queries()
        self._reranking.forget()

    def rank(self, plan: Plan) -> Ranking:
        """Run the legs, fuse them, rerank the first papers, and cut the page.

        Raises:
            EncoderError, VectorIndexError, LibraryCorrupt: all legs failed, or one failed without ``partial``.
            RerankerError: the reranker failed without ``partial``.
        """
        request = plan.request
        legs, failed = self._legs.run(plan)
        end = min(request.offset + request.limit, plan.deepest)
        ranking = self._ranked(plan, legs, end, failed)
        last_reranked = (
            min(plan.reranked, len(plan.known) + len(ranking.hits)) if plan.lowered else plan.reranked
        )
        if plan.lowered:
            ranking = self._with_lowered(plan, ranking, end, failed)
        leg_hits = hits = ranking.hits
        total, pageable = ranking.total, ranking.pageable
        if plan.known:
            hits = put_first(plan.known, leg_hits)
            absent = len(hits) - len(leg_hits)
            pageable += absent
            if ranking.relation == "gte":
                total = max(total, len(hits))
            elif absent:
                total += self._uncounted(plan, legs, leg_hits)
        outcome = self._rerank(plan, hits, last_reranked)
        reranked = outcome if isinstance(outcome, Reranked) else None
        if reranked:
            hits = reranked.hits
        elif isinstance(outcome, FailedLeg):
            failed.append(outcome)
        hits = hits[request.offset : end]
        explanations: Explanations = {}
        if request.explain:
            explanations = explain_known(plan.known, hits, leg_hits, ranking.explanations)
            explanations = self._with_terms(plan, explanations, [hit.id for hit in hits])
            if reranked:
                explanations = reranked.explain(explanations)
        if reranked and not any(hit.id in reranked.explanations for hit in hits):
            reranked = None
        reached = request.offset + len(hits)
        return Ranking(
            hits,
            total,
            ranking.relation,
            next_offset=reached if hits and reached < min(pageable, plan.deepest) else None,
            explanations=explanations,
            failed_legs=tuple(failed),
            rerank=request.rerank if reranked else None,
            reranked=len(reranked.explanations) if reranked else None,
        )

    def _ranked(self, plan: Plan, legs: Mapping[str, Ranking], end: int, failed: list[FailedLeg]) -> Ranking:
        """The ranking of the legs, up to ``end`` at least."""
        ranked = partial(self._fused, end=end) if plan.mode == "hybrid" else self._single
        first = ranked(plan, legs)
        if plan.depth == plan.deepest or max(end, plan.reranked) <= plan.depth:
            return first
        # The first results are those of a shorter page.
        deeper = replace(plan, depth=plan.deepest)
        legs, others = self._legs.run(deeper)
        failed += [leg for leg in others if leg not in failed]
        whole = ranked(deeper, legs)
        hits, scale = append_scaled(first.hits[: plan.depth], whole.hits)
        explanations = {
            number: tuple(msgspec.structs.replace(leg, share=scale * leg.share) for leg in shares)
            for number, shares in whole.explanations.items()
        }
        if plan.request.explain:
            explanations |= {hit.id: first.explanations[hit.id] for hit in first.hits[: plan.depth]}
        total, pageable = max(whole.total, len(hits)), max(whole.pageable, len(hits))
        return whole._replace(hits=hits, total=total, pageable=pageable, explanations=explanations)

    def _with_lowered(self, plan: Plan, ranking: Ranking, end: int, failed: list[FailedLeg]) -> Ranking:
        """A ranking with the lowered papers after all others. They are searched for only where a page has some."""
        if ranking.pageable > end:
            return ranking._replace(relation="gte")
        filters = plan.filters
        within = plan.lowered
        if filters.within is not None or filters.sets:
            members = self._catalog.in_sets(within, filters.sets) if filters.sets else frozenset[int]()
            within = members | within & (filters.within or frozenset())
        among = replace(filters, within=within, sets=(), exclude=filters.exclude - plan.lowered)
        rest_plan = replace(plan, filters=among, lowered=frozenset())
        legs, others = self._legs.run(rest_plan)
        failed += [leg for leg in others if leg not in failed]
        rest = self._ranked(rest_plan, legs, end, failed)
        hits, _ = append_scaled(ranking.hits, rest.hits)
        explanations: Explanations = {}
        if plan.request.explain:
            scores = dict(hits)
            lowered = {
                hit.id: (
                    *rest.explanations[hit.id],
                    LegExplanation(AVOIDED, rank, hit.score, scores[hit.id] - hit.score),
                )
                for rank, hit in enumerate(rest.hits, 1)
            }
            explanations = {**lowered, **ranking.explanations}
        return Ranking(
            hits,
            ranking.total + rest.total,
            "eq" if ranking.relation == rest.relation == "eq" else "gte",
            pageable=ranking.pageable + rest.pageable,
            explanations=explanations,
        )

    def _single(self, plan: Plan, legs: Mapping[str, Ranking]) -> Ranking:
        """The ranking of a search with one leg."""
        [(name, leg)] = legs.items()
        is_complete = leg.relation == "eq" or len(leg.hits) < plan.depth
        explanations: Explanations = {}
        if plan.request.explain:
            explanations = {
                hit.id: (LegExplanation(name, rank, hit.score, hit.score),)
                for rank, hit in enumerate(leg.hits, 1)
            }
        pageable = max(leg.total, len(leg.hits)) if is_complete else MAX_DEPTH
        hits = leg.hits
        if plan.request.prefer != "none":
            hits, explanations = preferred(self._catalog, hits, plan, explanations)
        return leg._replace(hits=hits, pageable=pageable, explanations=explanations)

    def _fused(self, plan: Plan, legs: Mapping[str, Ranking], end: int) -> Ranking:
        """The best papers of both legs, those of the pages up to ``end`` at least."""
        start = perf_counter()
        # A known item may be the last of any leg.
        has_preference = plan.request.prefer != "none"
        most = 3 * plan.depth if plan.known or has_preference else max(end, plan.reranked)
        weights = {k: v for k, v in (self._settings.fusion_weights or {}).items() if k in legs}
        lists = {name: leg.hits for name, leg in legs.items()}
        explain = plan.request.explain
        explanations: Explanations
        if plan.fusion == "scores":
            least = {DENSE: plan.floor or 0.0}
            zeros = {name: zero(hits, plan.depth, least.get(name, 0.0)) for name, hits in lists.items()}
            limit = 3 * plan.depth if plan.graph_weight else most
            hits, count, shares = combine(lists, weights, zeros, limit=limit)
            explanations = explained(hits, lists, shares) if explain else {}
        else:
            hits, count, explanations = fuse(
                lists, most, k=self._settings.rrf_k, weights=weights, explain=explain
            )
        stages().append(("fusion", start, perf_counter()))
        total, relation = self._hybrid_total(plan, legs, count)
        has_more = plan.depth < plan.deepest and any(leg.total > len(leg.hits) for leg in legs.values())
        if plan.graph_weight:
            is_whole, of_text = relation == "eq" and total == count, count
            hits, count, linked, edges = self._graph.added_to(
                hits,
                most,
                weight=plan.graph_weight,
                depth=plan.deepest,
                filters=plan.filters,
                day=plan.day,
            )
            if plan.floor is not None or not self._has_all_vectors:
                total = max(total, count)
                relation = relation if is_whole or count == of_text else "gte"
            if explain:
                explanations = self._with_graph(plan, explanations, linked, edges)
        if has_preference:
            hits, explanations = preferred(self._catalog, hits, plan, explanations)
        pageable = plan.deepest if has_more else count
        return Ranking(hits, total, relation, pageable=pageable, explanations=explanations)

    def _with_graph(
        self, plan: Plan, explanations: Explanations, linked: Sequence[ScoredId], edges: Edges
    ) -> Explanations:
        """The explanations of the text legs with those of the linked papers."""
        seeds = self._graph.linked(edges)
        with_graph = dict(explanations)
        for rank, (number, score) in enumerate(linked, 1):
            share = plan.graph_weight * score
            leg = LegExplanation(GRAPH, rank, score, share, (), *seeds.get(number, ((), ())))
            with_graph[number] = (*with_graph.get(number, ()), leg)
        return with_graph

    def _rerank(self, plan: Plan, hits: list[ScoredId], last: int) -> Reranked | FailedLeg | None:
        """The hits with the first ones up to ``last`` reranked, behind the known items; None if there are none to
        rerank, or the time was not enough for any."""
        request, known = plan.request, len(plan.known)
        if request.rerank is None or len(hits[known:last]) == 0:
            return None
        text = request.q
        if plan.is_syntax:  # without operators, columns and what follows NOT
            text = " ".join(term.word for term in query_syntax.terms(text, syntax=True)) or text
        return self._reranking.rerank(
            request.rerank,
            text,
            hits,
            known,
            last,
            partial=request.partial,
            weight=request.rerank_weight,
            milliseconds=request.rerank_ms or self._settings.rerank_ms,
        )

    def _with_terms(
        self, plan: Plan, explanations: Explanations, page: Sequence[int]
    ) -> dict[int, tuple[LegExplanation, ...]]:
        """The explanations of a page, with the words of the query that each paper contains."""
        word_leg = plan.engine if plan.engine in WORD_LEGS else None
        ids = [paper_id for paper_id in page if any(leg.leg == word_leg for leg in explanations[paper_id])]
        terms = self._matching_terms(plan, ids) if ids else {}
        return {
            paper_id: tuple(
                msgspec.structs.replace(leg, terms=terms[paper_id]) if leg.leg == word_leg else leg
                for leg in explanations[paper_id]
            )
            for paper_id in page
        }

    def _matching_terms(self, plan: Plan, ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
        q = without_shortened(plan.request.q)
        if plan.engine != "fts5" and plan.terms:
            numbers = {
                term.word: set(self._bm25.query(term.word).indices)
                for term in query_syntax.terms(q, syntax=False)
            }
            vectors = {
                paper_id: set(vector.indices)
                for paper_id, vector in self._vectors.sparse_vectors(BM25, ids).items()
            }
            return {
                paper_id: tuple(
                    word
                    for word, word_numbers in numbers.items()
                    if not word_numbers.isdisjoint(vectors.get(paper_id, ()))
                )
                for paper_id in ids
            }
        terms = query_syntax.terms(plan.request.q if plan.is_syntax else q, syntax=plan.is_syntax)
        holding = self._catalog.holding([term.expression for term in terms], ids)
        return {
            paper_id: tuple(t.word for t, having in zip(terms, holding, strict=True) if paper_id in having)
            for paper_id in ids
        }

    def _uncounted(self, plan: Plan, legs: Mapping[str, Ranking], leg_hits: Sequence[ScoredId]) -> int:
        """The number of known items that no leg matches, so that the total lacks them."""
        ranked = {hit.id for leg in legs.values() for hit in leg.hits} | {hit.id for hit in leg_hits}
        absent = {item.id for item in plan.known} - ranked
        if all(len(leg.hits) == leg.total for leg in legs.values()):
            return len(absent)
        among = replace(plan.filters, within=frozenset(absent), sets=())
        again, _ = self._legs.run(replace(plan, filters=among))
        return len(absent - {hit.id for leg in again.values() for hit in leg.hits})

    def _hybrid_total(self, plan: Plan, legs: Mapping[str, Ranking], count: int) -> tuple[int, TotalRelation]:
        """The matches of a hybrid search: the papers of either leg. Without a floor of similarity, all papers with
        dense vectors that pass the filters are matches."""
        dense = legs.get(DENSE)
        sparse = next((leg for name, leg in legs.items() if name != DENSE), None)
        if sparse is not None and (dense is None or dense.total == 0):
            return sparse.total, sparse.relation
        assert dense is not None
        if plan.floor is None and self._has_all_vectors:
            return dense.total, "eq"
        exhausted = all(leg.relation == "eq" and len(leg.hits) == leg.total for leg in legs.values())
        return (count, "eq") if exhausted else (max(count, *(leg.total for leg in legs.values())), "gte")
