"""Pseudo-relevance feedback, compared with its formula computed from the papers' vectors."""

import math
from collections import Counter
from itertools import pairwise

from scholarbase.indexes.filters import NO_FILTERS
from scholarbase.indexes.vectors.base import BM25, ScoredId
from scholarbase.indexes.vectors.index import VectorIndex
from scholarbase.search.legs import FEEDBACK_KEPT, FEEDBACK_PAPERS, FEEDBACK_TERMS, append_scaled
from tests.indexes.vectors.conftest import Corpus

QUESTION = "deep neural networks for image classification"


def by_hand(corpus: Corpus, terms: list[int], first: list[ScoredId]) -> dict[int, float]:
    """The weights of the query's terms and of the added ones, in 32nds."""
    papers = [dict(zip(*point.sparse[BM25], strict=True)) for point in corpus.points]
    frequencies = Counter(term for paper in papers for term in paper)
    idf = {term: math.log(1 + (len(papers) - n + 0.5) / (n + 0.5)) for term, n in frequencies.items()}
    considered = [papers[hit.id - 1] for hit in first[:20]]
    rated = {}
    for term in {term for paper in considered for term in paper} - set(terms):
        weights = [paper[term] for paper in considered if term in paper]
        if len(weights) >= 3:
            rated[term] = sum(weights) * idf[term]
    best = sorted(rated, key=lambda term: (-rated[term], term))[:40]
    weights = {term: idf[term] for term in terms}
    weights |= {term: 0.5 * rated[term] / rated[best[0]] * idf[term] for term in best}
    return {term: round(weight * 32) for term, weight in weights.items()}


def test_the_added_terms_are_those_that_the_first_papers_share(index: VectorIndex, corpus: Corpus) -> None:
    query = corpus.queries.vector(QUESTION)
    first = index.search_sparse(BM25, query, FEEDBACK_PAPERS, NO_FILTERS)
    vectors = index.sparse_vectors(BM25, [hit.id for hit in first[:FEEDBACK_PAPERS]])
    expanded = corpus.queries.expand(query.indices, vectors.values())
    assert expanded is not None
    weights = dict(zip(expanded.indices, expanded.values, strict=True))
    assert len(weights) == len(query.indices) + FEEDBACK_TERMS
    assert {term: weight * 32 for term, weight in weights.items()} == by_hand(corpus, query.indices, first)


def test_papers_that_share_no_term_add_none(index: VectorIndex, corpus: Corpus) -> None:
    query = corpus.queries.vector(QUESTION)
    first = index.search_sparse(BM25, query, 2, NO_FILTERS)
    vectors = index.sparse_vectors(BM25, [hit.id for hit in first])
    assert corpus.queries.expand(query.indices, vectors.values()) is None


def test_the_first_results_of_the_query_stay_first_and_scores_descend() -> None:
    first = [ScoredId(number, 30.0 - number) for number in range(1, 21)]
    second = [ScoredId(50, 160.0), ScoredId(3, 150.0), ScoredId(12, 120.0), ScoredId(60, 80.0)]
    merged, _ = append_scaled(first[:FEEDBACK_KEPT], second)
    assert [hit.id for hit in merged] == [*range(1, FEEDBACK_KEPT + 1), 50, 12, 60]
    assert all(one.score >= other.score for one, other in pairwise(merged))
    # The tenth score of the original query is 20, so the expanded query's 160, 120 and 80 are divided by eight.
    assert [hit.score for hit in merged[FEEDBACK_KEPT:]] == [20.0, 15.0, 10.0]


def test_lower_scores_are_not_raised() -> None:
    first = [ScoredId(number, 30.0 - number) for number in range(1, 21)]
    assert append_scaled(first[:FEEDBACK_KEPT], [ScoredId(50, 7.0)])[0][-1] == ScoredId(50, 7.0)
    assert append_scaled(first[:FEEDBACK_KEPT], [])[0] == first[:FEEDBACK_KEPT]
