"""The tests that every vector index must pass; expected results are computed independently."""

import math
from collections import Counter

import numpy as np
import pytest
from rank_bm25 import BM25Okapi

from scholarbase.errors import InvalidRequest, VectorIndexError
from scholarbase.indexes.filters import NO_FILTERS, ResolvedFilters
from scholarbase.indexes.vectors.base import (
    BM25,
    DENSE,
    LEARNED,
    Payload,
    ScoredId,
    SparseVector,
    ascending,
)
from scholarbase.indexes.vectors.index import EdgeIndex, VectorIndex
from scholarbase.indexes.vectors.shards import ShardedIndex
from tests.indexes.vectors.conftest import DIMENSIONS, Corpus, words

QUESTIONS = [
    "Which papers propose neural networks for image classification?",
    "convergence of stochastic gradient methods",
    "quantum entanglement",
    "channel capacity with feedback in wireless networks",
    "privacy-preserving learning from distributed data",
    "speech recognition",
]

FILTERS = {
    "from": ResolvedFilters(first_day=20150101),
    "to": ResolvedFilters(last_day=20101231),
    "within a month": ResolvedFilters(first_day=20180601, last_day=20180630),
    "within a year": ResolvedFilters(first_day=20180101, last_day=20181231),
    "category": ResolvedFilters(categories=("cs.LG",)),
    "archive": ResolvedFilters(categories=("math",)),
    "categories": ResolvedFilters(categories=("cs.CV", "quant-ph")),
    "venue": ResolvedFilters(venues=("cs",)),
    "venues": ResolvedFilters(venues=("stat", "quant-ph")),
    "citations": ResolvedFilters(min_citations=25),
    "zero citations": ResolvedFilters(min_citations=0),
    "ids": ResolvedFilters(within=frozenset({3, 5, 120, 121, 122, 299, 320, 9999})),
    "not ids": ResolvedFilters(exclude=frozenset(range(1, 250))),
    "type": ResolvedFilters(types=("Review", "Book")),
    "not of a type": ResolvedFilters(not_types=("Review",)),
    "a type that is no other": ResolvedFilters(types=("JournalArticle",), not_types=("Review",)),
    "active": ResolvedFilters(statuses=("active",)),
    "not retracted": ResolvedFilters(statuses=("active", "withdrawn")),
    "retracted": ResolvedFilters(statuses=("retracted",)),
    "withdrawn or retracted": ResolvedFilters(statuses=("retracted", "withdrawn"), categories=("cs",)),
    "all at once": ResolvedFilters(
        first_day=20120101,
        last_day=20191231,
        categories=("cs",),
        venues=("cs", "stat"),
        min_citations=10,
        within=frozenset(range(100, 341)),
        exclude=frozenset({150, 151, 152}),
    ),
    "nothing": ResolvedFilters(categories=("no.SUCH",)),
    "no ids": ResolvedFilters(within=frozenset()),
    "a set": ResolvedFilters(sets=("quarters",)),
    "sets or ids": ResolvedFilters(
        within=frozenset({3, 5, 121}), sets=("quarters", "unknown"), last_day=20181231
    ),
}


def passes(number: int, payload: Payload, filters: ResolvedFilters) -> bool:
    """Whether a payload passes the filters."""
    checks = [
        filters.first_day is None
        or (payload.first_day is not None and payload.first_day >= filters.first_day),
        filters.last_day is None or (payload.last_day is not None and payload.last_day <= filters.last_day),
        not filters.categories or bool(set(filters.categories) & set(payload.categories)),
        not filters.venues or payload.venue in filters.venues,
        not filters.types or bool(set(filters.types) & set(payload.types)),
        not set(filters.not_types) & set(payload.types),
        filters.min_citations is None
        or (payload.citation_count is not None and payload.citation_count >= filters.min_citations),
        (filters.within is None and not filters.sets)
        or number in (filters.within or ())
        or bool(set(filters.sets) & set(payload.sets)),
        number not in filters.exclude,
        not filters.statuses or (payload.status or "active") in filters.statuses,
    ]
    return all(checks)


def cosines(corpus: Corpus, query: np.ndarray) -> dict[int, float]:
    return {point.id: float(point.dense @ query) for point in corpus.points if point.dense is not None}


def okapi(corpus: Corpus) -> tuple[BM25Okapi, dict[str, int | None]]:
    """rank-bm25 over the same terms, with this index's formula for IDF."""
    terms: dict[str, int | None] = {}
    documents = []
    for title, abstract in corpus.texts:
        document = []
        for word in words(title) * 2 + words(abstract):
            if word not in terms:
                indices = corpus.bm25.query(word).indices
                terms[word] = indices[0] if indices else None
            if terms[word] is not None:
                document.append(terms[word])
        documents.append(document)
    oracle = BM25Okapi(documents, k1=1.0, b=0.75)
    oracle.avgdl = corpus.bm25.parameters.average_length
    holding = Counter(term for document in documents for term in set(document))
    for term, count in holding.items():
        oracle.idf[term] = math.log(1 + (len(documents) - count + 0.5) / (count + 0.5))
    return oracle, terms


def agree(found: list[ScoredId], expected: dict[int, float], limit: int, tolerance: float) -> None:
    """The hits are the best by the expected scores, in order, up to ``tolerance``."""
    best = sorted(expected.values(), reverse=True)[:limit]
    assert len(found) == len(best)
    for hit, score in zip(found, best, strict=True):
        assert hit.score == pytest.approx(expected[hit.id], abs=tolerance)
        assert hit.score == pytest.approx(score, abs=tolerance)


def test_dense_search_is_brute_force_cosine_and_finds_nearly_all_without_it(
    index: VectorIndex, corpus: Corpus
) -> None:
    for question in QUESTIONS:
        query = corpus.project(question)
        exact = index.search_dense(query, 50, NO_FILTERS, exact=True)
        # float16 rounds each coordinate by at most one part in 2048.
        agree(exact, cosines(corpus, query), 50, 1e-3)
        near = {hit.id for hit in index.search_dense(query, 50, NO_FILTERS)}
        assert len(near & {hit.id for hit in exact}) >= 45


def test_sparse_scores_are_those_of_rank_bm25_with_rounded_weights(
    index: VectorIndex, corpus: Corpus
) -> None:
    oracle, terms = okapi(corpus)
    for question in QUESTIONS:
        expected = np.zeros(len(corpus.texts))
        for term in {terms[word] for word in words(question) if terms.get(word) is not None}:
            weights = oracle.get_scores([term]) / oracle.idf[term]
            expected += np.round(weights * 256) / 256 * np.round(oracle.idf[term] * 32) / 32
        found = index.search_sparse(BM25, corpus.queries.vector(question), 400, NO_FILTERS)
        assert {hit.id: hit.score for hit in found} == {
            number: score for number, score in enumerate(expected.tolist(), start=1) if score
        }


def test_filters_apply_before_the_limit(sharded: ShardedIndex, corpus: Corpus) -> None:
    searches = [(corpus.bm25.query(q), corpus.project(q)) for q in QUESTIONS[:3]]
    everything = [sharded.search_sparse(BM25, vector, 400, NO_FILTERS) for vector, _ in searches]
    for name, filters in FILTERS.items():
        allowed = {point.id for point in corpus.points if passes(point.id, point.payload, filters)}
        assert bool(allowed) == (name not in {"nothing", "no ids"}), name
        for (vector, query), unfiltered in zip(searches, everything, strict=True):
            expected = [hit for hit in unfiltered if hit.id in allowed]
            assert sharded.search_sparse(BM25, vector, 5, filters) == expected[:5], name
            scored = {number: score for number, score in cosines(corpus, query).items() if number in allowed}
            agree(sharded.search_dense(query, 5, filters, exact=True), scored, 5, 1e-3)
            assert {hit.id for hit in sharded.search_dense(query, 400, filters)} == set(scored), name


@pytest.mark.parametrize("kind", ["sharded", pytest.param("server", marks=pytest.mark.slow)])
def test_all_indexes_return_the_same_results(
    edge: EdgeIndex, corpus: Corpus, kind: str, request: pytest.FixtureRequest
) -> None:
    other: VectorIndex = request.getfixturevalue(kind)
    for question, filters in zip(QUESTIONS * 4, [NO_FILTERS, *FILTERS.values()], strict=False):
        vector = corpus.queries.vector(question)
        ours = edge.search_sparse(BM25, vector, 100, filters)
        assert ours == other.search_sparse(BM25, vector, 100, filters)
        query = corpus.project(question)
        ours = edge.search_dense(query, 50, filters, exact=True)
        assert ours == other.search_dense(query, 50, filters, exact=True)


def test_counts_are_exact(index: VectorIndex, corpus: Corpus) -> None:
    for name, filters in FILTERS.items():
        allowed = [point for point in corpus.points if passes(point.id, point.payload, filters)]
        dense = sum(point.dense is not None for point in allowed)
        assert index.count(filters) == index.count(filters, vector=BM25) == len(allowed), name
        assert index.count(filters, vector=DENSE) == dense, name


def test_values_and_limits_of_fields_are_those_of_the_payloads(index: VectorIndex, corpus: Corpus) -> None:
    payloads = [point.payload for point in corpus.points]
    counts = Counter(one for payload in payloads for one in payload.categories)
    assert index.values("categories", 1000) == counts
    assert list(index.values("types", 1).values()) == [sum("Review" in one.types for one in payloads)]
    days = [one.first_day for one in payloads if one.first_day is not None]
    for greatest, extreme in ((True, max), (False, min)):
        first = index.first(NO_FILTERS, ("first_day", greatest))
        assert first is not None
        assert first["first_day"] == extreme(days)
    for filters in FILTERS.values():
        passing = [point.payload for point in corpus.points if passes(point.id, point.payload, filters)]
        first = index.first(filters)
        assert Payload.from_dict(first) in passing if first is not None else not passing, filters


def test_ties_break_by_lowest_id_at_every_limit(index: VectorIndex, corpus: Corpus) -> None:
    # Papers 301 to 340 are copies of 101 to 140: every one of those is tied.
    title, abstract = corpus.texts[104]
    vector = corpus.bm25.query(title)
    everything = index.search_sparse(BM25, vector, 400, NO_FILTERS)
    assert [hit.id for hit in everything[:2]] == [105, 305]
    assert everything[0].score == everything[1].score
    for limit in (1, 2, 3, 20, 59):
        assert index.search_sparse(BM25, vector, limit, NO_FILTERS) == everything[:limit]
    dense = corpus.project(f"{title}\n{abstract}")
    near = index.search_dense(dense, 340, NO_FILTERS, exact=True)
    assert [hit.id for hit in near[:2]] == [105, 305]
    for limit in (1, 2, 3, 20, 59):
        assert index.search_dense(dense, limit, NO_FILTERS, exact=True) == near[:limit]


def test_unknown_words_find_nothing_and_change_nothing(index: VectorIndex, corpus: Corpus) -> None:
    def found(text: str) -> list[int]:
        return [hit.id for hit in index.search_sparse(BM25, corpus.bm25.query(text), 400, NO_FILTERS)]

    assert found("zxqvwordthatisnone") == found("which of the papers") == []
    assert index.search_sparse(BM25, SparseVector([], []), 10, NO_FILTERS) == []
    assert found("zxqvwordthatisnone entanglement") == found("entanglement") != []


def test_ids_and_points_are_read_back(index: VectorIndex, corpus: Corpus) -> None:
    numbers = [point.id for point in corpus.points]
    assert list(index.ids()) == numbers
    batches = list(index.points(batch=100))
    assert [len(batch) for batch in batches] == [100, 100, 100, 40]
    for found, point in zip((p for batch in batches for p in batch), corpus.points, strict=True):
        assert found.id == point.id
        assert found.payload == point.payload
        assert found.sparse[BM25] == point.sparse[BM25]
        if point.dense is None:
            assert found.dense is None
        else:
            assert found.dense is not None
            np.testing.assert_allclose(found.dense, point.dense, atol=5e-4)


def test_vectors_are_looked_up_by_id_and_missing_points_left_out(index: VectorIndex, corpus: Corpus) -> None:
    found = index.sparse_vectors(BM25, [42, 7, 10**9])
    assert set(found) == {7, 42}
    for number, vector in found.items():
        stored = corpus.points[number - 1].sparse[BM25]
        assert ascending(vector) == stored
    assert index.sparse_vectors(BM25, []) == {}
    with pytest.raises(VectorIndexError, match="no vectors named 'learned'"):
        index.sparse_vectors("learned", [1])


def test_dense_vectors_are_looked_up_by_id(index: VectorIndex, corpus: Corpus) -> None:
    found = index.dense_vectors([42, 17, 10**9])  # 17 is a point without one, 10**9 no point
    assert list(found) == [42]
    assert found[42].dtype == np.float32
    np.testing.assert_allclose(found[42], corpus.points[41].dense, atol=5e-4)
    assert index.dense_vectors([]) == {}


def test_a_broken_query_vector_is_an_error_not_an_empty_list(index: VectorIndex) -> None:
    for vector, message in (
        (np.full(DIMENSIONS, np.nan, dtype=np.float32), "NaN"),
        (np.full(DIMENSIONS, np.inf, dtype=np.float32), "infinity"),
        (np.zeros(DIMENSIONS, dtype=np.float32), "similarity is undefined"),
        (np.ones(DIMENSIONS + 1, dtype=np.float32), r"\(33,\).*\(32,\)"),
    ):
        with pytest.raises(VectorIndexError, match=message):
            index.search_dense(vector, 10, NO_FILTERS)


def test_missing_vectors_are_an_error(index: VectorIndex) -> None:
    with pytest.raises(VectorIndexError, match="learned"):
        index.search_sparse(LEARNED, SparseVector([1], [1.0]), 10, NO_FILTERS)
    with pytest.raises(VectorIndexError, match="colbert"):
        index.count(NO_FILTERS, vector="colbert")
    with pytest.raises(InvalidRequest, match="limit is 0"):
        index.search_sparse(BM25, SparseVector([1], [1.0]), 0, NO_FILTERS)
    with pytest.raises(VectorIndexError, match="distinct"):
        index.search_sparse(BM25, SparseVector([1, 1], [1.0, 1.0]), 10, NO_FILTERS)
