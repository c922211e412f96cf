"""Vector indexes open for searching: the base class of all, and the shard of Qdrant Edge in the library's folder.

The base class checks arguments, resolves ties at the limit and reads points back. A search of a shard reads its
segments in parallel. Large files are memory-mapped, so that processes serving one library share their pages.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import qdrant_edge as qdrant

from scholarbase.deadlines import DEADLINE
from scholarbase.errors import InvalidRequest, ScholarBaseError, StorageError, VectorIndexError
from scholarbase.indexes.filters import NO_FILTERS, ResolvedFilters
from scholarbase.indexes.vectors.base import (
    BM25,
    DENSE,
    LEARNED,
    EngineVector,
    Payload,
    QueryVector,
    ScoredId,
    Search,
    SparseVector,
    VectorConfig,
    VectorPoint,
    ascending,
    check_sparse,
    edge_config,
    engine_vector,
    foreign_id,
    qdrant_filter,
    read_config,
    scored_id,
    search_threads,
)
from scholarbase.indexes.vectors.halves import rounding
from scholarbase.indexes.vectors.shard_view import ShardView
from scholarbase.indexes.vectors.space import check_engine_memory

HNSW_EF: Final = 384
"""Size of the candidate list of a graph search. Among 600,000 vectors of 1,024 dimensions 350 found 0.980 of the true
top 100 of real questions, 384 found 0.982, and 448 found 0.986."""
OVERSAMPLING: Final = 2.0
"""Candidates per requested hit, selected by their codes and rescored with the stored vectors. Twice as many found 0.995
of the true top 1,000 among 48,384 MiniLM vectors, one and a half times as many 0.974."""
EXACT_WITHIN: Final = 10_000
"""Up to this many ids in ``within`` are compared exactly: the graph may have no links between them, so that a search
of it may miss some."""
EXTRA_HITS: Final = 16
"""Hits fetched beyond the limit, which usually show in one call whether the last requested hit is tied."""

LONG_EXCLUSION: Final = 1000
"""Above this many excluded ids, a search fetches more results and removes them itself."""
MOST_FETCHED: Final = 20_000

REOPENED: Final = 100_000
"""Points of a shard after which it is opened again while all are read."""
_ADVICE: Final = "use fewer words, filters and ids, or a smaller limit"
_SEARCH: Final = {
    BM25: ("The search with BM25", _ADVICE),
    LEARNED: ("The search with learned weights", _ADVICE),
    DENSE: ("The search by dense vectors", "use fewer filters and ids, or a smaller limit"),
}
_EXACTLY: Final = ("The exact search by dense vectors", "leave exact out, or use fewer filters and ids")
_COUNTING: Final = ("Counting the matches", "use fewer words, filters and ids, or leave exact out")
"""Activities and advice for the error at the time limit."""
_IDS_PER_BATCH: Final = 10_000
_SCORED_AT_ONCE: Final = 1_000


class VectorIndex(ABC):
    """A vector index open for searching. Filters apply before the limit; ties break by id, lowest first.

    Subclasses implement the abstract methods with one engine each. All public methods except ``close`` raise
    VectorIndexError when the engine fails or cannot be reached, or when the index has no vectors of the name.
    """

    is_remote: ClassVar[bool] = False
    """Whether searches are requests, several of which are sent together (:meth:`ahead`)."""

    def __init__(self, config: VectorConfig) -> None:
        self.config = config
        self._sparse_names = config.sparse_names

    def search_dense(
        self,
        vector: npt.NDArray[np.float32],
        limit: int,
        filters: ResolvedFilters,
        *,
        exact: bool = False,
        ef: int = HNSW_EF,
    ) -> list[ScoredId]:
        """The ``limit`` points most similar by cosine, best first.

        ``exact`` compares with every point; otherwise a hit may be missed, unless ``within`` has few ids. ``ef`` is the
        size of the candidate list.
        """
        _check_limit(limit)
        if len(filters.exclude) > LONG_EXCLUSION:
            hits = _without_long_list(partial(self.search_dense, vector, exact=exact, ef=ef), limit, filters)
            if hits is not None:
                return hits
        exact = exact or has_few(filters)
        query = check_dense(vector, self.config.dimensions, "The query")
        _begin(*(_EXACTLY if exact else _SEARCH[DENSE]))
        if not exact:
            return self._search(DENSE, query.tolist(), limit, filters, ef=ef)
        margin = rounding(len(query))
        points = self._fetch(DENSE, query.tolist(), limit, filters, ef=None, margin=margin)
        least = points[limit - 1].score - margin if len(points) > limit else -math.inf
        scores = self._exact_scores(query, [_id(point) for point in points if point.score >= least])
        ranked = sorted((-score, key) for key, score in scores.items())
        return [scored_id((key, -score)) for score, key in ranked[:limit]]

    def count_similar(
        self, vector: npt.NDArray[np.float32], least: float, most: int, filters: ResolvedFilters
    ) -> int:
        """The number of points with a cosine of ``least`` or more, up to ``most``. Exact."""
        _check_limit(most)
        _begin(*_COUNTING)
        query = check_dense(vector, self.config.dimensions, "The query")
        if _passes_none(filters):
            return 0
        points = self.nearest(DENSE, query.tolist(), most, filters, ef=None)
        margin = rounding(len(query))
        close = [_id(point) for point in points if abs(point.score - least) <= margin]
        certain = sum(1 for point in points if point.score > least + margin)
        return certain + sum(score >= least for score in self._exact_scores(query, close).values())

    def _exact_scores(self, query: npt.NDArray[np.float32], ids: Sequence[int]) -> dict[int, float]:
        """The cosines of these points, whose bits depend on nothing but the query and the stored vectors.

        Engines add 32-bit products in an order that depends on processor and replica. Like theirs, this query is of
        unit length, then rounded to float16, as are stored vectors. The numbers are then multiples of 2^-24, their
        products of 2^-48 and sums below 32, so that 64-bit floats add them exactly in any order.
        """
        length = math.sqrt(math.fsum(x * x for x in query.tolist()))
        half = (query.astype(np.float64) / length).astype(np.float16).astype(np.float64)
        scores: dict[int, float] = {}
        for start in range(0, len(ids), _SCORED_AT_ONCE):
            vectors = self.dense_vectors(ids[start : start + _SCORED_AT_ONCE])
            if vectors:
                stored = np.stack(list(vectors.values())).astype(np.float16).astype(np.float64)
                scores |= zip(vectors, (stored @ half).astype(np.float32).tolist(), strict=True)
        return scores

    def search_sparse(
        self, name: str, vector: SparseVector | EngineVector, limit: int, filters: ResolvedFilters
    ) -> list[ScoredId]:
        """The ``limit`` points with the greatest dot product on the sparse vector ``name``, best first. Exact.

        Points that share no term with the query are not returned. The order of the vector's terms has no effect.
        """
        _check_limit(limit)
        _check_name(name, self._sparse_names)
        if isinstance(vector, SparseVector):
            check_sparse(name, vector, "The query")
        if not len(vector.indices):
            return []
        _begin(*_SEARCH[name])
        if len(filters.exclude) > LONG_EXCLUSION:
            kept = _without_long_list(partial(self.search_sparse, name, vector), limit, filters)
            if kept is not None:
                return kept
        hits = self._search(name, vector, limit, filters, ef=None)
        while hits and hits[-1].score <= 0:
            hits.pop()
        return hits

    def count_sparse(
        self, name: str, vector: SparseVector | EngineVector, most: int, filters: ResolvedFilters
    ) -> int:
        """The number of points that share a term with a query, whose weights are positive, up to ``most``. Exact."""
        _begin(*_COUNTING)
        return len(self._fetch(name, vector, most, filters, ef=None)[:most])

    def _search(
        self, name: str, vector: QueryVector, limit: int, filters: ResolvedFilters, *, ef: int | None
    ) -> list[ScoredId]:
        points = self._fetch(name, vector, limit, filters, ef=ef)
        ranked = [(-point.score, key) for point in points if isinstance(key := point.id, int)]
        if len(ranked) < len(points):
            raise foreign_id(next(point.id for point in points if not isinstance(point.id, int)))
        ranked.sort()
        return [scored_id((key, -score)) for score, key in ranked[:limit]]

    def _fetch(
        self,
        name: str,
        vector: QueryVector,
        limit: int,
        filters: ResolvedFilters,
        *,
        ef: int | None,
        margin: float = 0.0,
    ) -> Sequence[Any]:
        """At least the ``limit`` nearest points and all whose score is that of the last of them, or up to ``margin``
        less."""
        if _passes_none(filters):
            return []
        count = limit + EXTRA_HITS
        # While the last fetched hit is tied with the last requested one, further hits may have lower ids.
        while True:
            points = self.nearest(name, vector, count, filters, ef=ef)
            if len(points) < count or points[-1].score < points[limit - 1].score - margin:
                return points
            count *= 2

    def count(self, filters: ResolvedFilters, *, vector: str | None = None) -> int:
        """The exact number of points that pass the filters and, if ``vector`` is specified, have that vector."""
        if vector is not None:
            dense = (DENSE,) if self.config.dimensions is not None else ()
            _check_name(vector, dense + self._sparse_names)
        _begin(*_COUNTING)
        return 0 if _passes_none(filters) else self.count_points(filters, vector)

    def dense_vectors(self, ids: Sequence[int]) -> dict[int, npt.NDArray[np.float32]]:
        """The dense vectors of these points as stored, by id; points that are missing or lack it are left out."""
        by_id = {}
        if ids and self.config.dimensions is not None:
            for record in self.retrieve(DENSE, ids):
                if isinstance(record.vector, dict) and DENSE in record.vector:
                    by_id[_id(record)] = np.asarray(record.vector[DENSE], dtype=np.float32)
        return dict(sorted(by_id.items()))

    def sparse_vectors(self, name: str, ids: Sequence[int]) -> dict[int, SparseVector | EngineVector]:
        """The sparse vectors ``name`` of these points by id, as the engine has them (terms in any order); points that
        are missing or lack it are left out."""
        _check_name(name, self._sparse_names)
        by_id = {}
        for record in self.retrieve(name, ids):
            vectors = record.vector
            if isinstance(vectors, dict) and name in vectors:
                by_id[_id(record)] = vectors[name]
        return by_id

    def ids(self) -> Iterator[int]:
        """Every point's id, ascending, read in batches."""
        for records in self.records(_IDS_PER_BATCH, vectors=False):
            yield from map(_id, records)

    def points(self, batch: int = 1000) -> Iterator[list[VectorPoint]]:
        """Every point by ascending id, in batches."""
        for records in self.records(batch, payload=True):
            yield [_point(record) for record in records]

    def payloads(self) -> Iterator[tuple[int, Payload]]:
        """Every point's id and payload, by ascending id, read in batches."""
        for records in self.records(_IDS_PER_BATCH, payload=True, vectors=False):
            yield from ((_id(record), Payload.from_dict(record.payload)) for record in records)

    def records(
        self, batch: int, *, start: int = 0, payload: bool = False, vectors: bool = True
    ) -> Iterator[list[Any]]:
        """The engine's record of every point from the id ``start`` on by ascending id, in batches.

        Each has its ``id`` and, where requested, its ``payload`` and ``vector``, a dict by name. Dense vectors are
        those stored, which in Qdrant Edge have float16 precision and unit length.
        """
        offset: Any = start
        while offset is not None:
            records, offset = self.scroll(offset, batch, payload=payload, vectors=vectors)
            if records:
                yield records

    @contextmanager
    def ahead(self, searches: Sequence[Search]) -> Iterator[None]:
        """Make these searches of a request together, for a block that makes each of them."""
        yield

    # -- the engine -------------------------------------------------------------------------------------

    @abstractmethod
    def nearest(
        self, name: str, vector: QueryVector, limit: int, filters: ResolvedFilters, *, ef: int | None
    ) -> Sequence[Any]:
        """The ``limit`` nearest points that pass the filters, each with ``id`` and ``score``: best first, ties in any
        order.

        ``ef`` is the size of the candidate list in the graph of dense vectors; None compares with every point.
        """

    @abstractmethod
    def count_points(self, filters: ResolvedFilters, vector: str | None) -> int:
        """The exact number of points that pass the filters and have this vector, if it is specified."""

    @abstractmethod
    def values(self, field: str, most: int) -> dict[str, int]:
        """The ``most`` frequent values of a field of :data:`.base.KEYWORD_FIELDS`, and the number of points of each."""

    @abstractmethod
    def retrieve(self, name: str, ids: Sequence[int]) -> Sequence[Any]:
        """The records of these points, each with ``id`` and a ``vector`` dict that has only ``name``."""

    @abstractmethod
    def first(self, filters: ResolvedFilters, order: tuple[str, bool] | None = None) -> dict[str, Any] | None:
        """The payload of a point that passes the filters, None without one: the first by a field of
        :data:`.base.INTEGER_FIELDS`, from its greatest value down with True."""

    @abstractmethod
    def scroll(self, offset: Any, limit: int, *, payload: bool, vectors: bool) -> tuple[list[Any], Any]:
        """Up to ``limit`` records from ``offset`` on, each with its ``id`` and, where requested, ``payload`` and
        ``vector``; and the next offset, None at the end."""

    @abstractmethod
    def close(self) -> None: ...


class EdgeIndex(VectorIndex):
    """A shard open for searching. Safe to share between threads; searches of one process run one at a time."""

    def __init__(
        self, shard: qdrant.EdgeShard, path: Path, config: VectorConfig, view: ShardView | None = None
    ):
        super().__init__(config)
        self.path = path
        self._shard = shard
        self._view = view
        self._closed = False

    @classmethod
    def open(
        cls, path: Path, *, view: bool = True, temporary: Path | None = None, threads: int | None = None
    ) -> EdgeIndex:
        """Open the shard at ``path``.

        Args:
            view: open a :class:`ShardView`, so that the shard is never written to. Without, no other process may
                have the shard open.
            temporary: the folder for a view that cannot be created beside the shard.
            threads: the most threads that search (:func:`.base.search_threads`).

        Raises:
            VectorIndexError: the shard is missing or cannot be read.
            StorageError: no space for the view.
            OutOfMemory: there is not enough address space.
        """
        path = Path(path)
        config = read_config(path)
        check_engine_memory(sum(file.stat().st_size for file in path.rglob("*") if file.is_file()))
        private = ShardView.open(path, temporary) if view else None
        try:
            with engine_errors(path, "open"):
                layout = edge_config(config, threads=search_threads(path, threads))
                shard = qdrant.EdgeShard.load(str(private.path if private else path), layout)
        except BaseException:
            if private:
                private.close()
            raise
        return cls(shard, path, config, private)

    def nearest(
        self, name: str, vector: QueryVector, limit: int, filters: ResolvedFilters, *, ef: int | None
    ) -> list[qdrant.ScoredPoint]:
        params = search_params(qdrant, name, limit, ef)
        if isinstance(vector, SparseVector):
            vector = engine_vector(vector)
        query = qdrant.Query.Nearest(vector, using=name)
        with engine_errors(self.path, "search"):
            return self._shard.query(
                qdrant.QueryRequest(limit=limit, query=query, filter=_engine_filter(filters), params=params)
            )

    def count_points(self, filters: ResolvedFilters, vector: str | None) -> int:
        with engine_errors(self.path, "count its points"):
            return self._shard.count(qdrant.CountRequest(exact=True, filter=_engine_filter(filters, vector)))

    def values(self, field: str, most: int) -> dict[str, int]:
        with engine_errors(self.path, "count values"):
            hits = self._shard.facet(qdrant.FacetRequest(field, most)).hits
        return {str(hit.value): hit.count for hit in hits}

    def retrieve(self, name: str, ids: Sequence[int]) -> list[qdrant.Record]:
        with engine_errors(self.path, "read vectors"):
            return self._shard.retrieve(list(ids), with_payload=False, with_vector=[name])

    def records(
        self, batch: int, *, start: int = 0, payload: bool = False, vectors: bool = True
    ) -> Iterator[list[Any]]:
        read = 0
        for records in super().records(batch, start=start, payload=payload, vectors=vectors):
            yield records
            read += len(records)
            # Pages once read stay mapped, in the end the whole index. A view is open for searches beside this.
            if self._view is None and read >= REOPENED:
                with engine_errors(self.path, "open again"):
                    self._shard.close()
                    self._shard = qdrant.EdgeShard.load(str(self.path), edge_config(self.config))
                read = 0

    def first(self, filters: ResolvedFilters, order: tuple[str, bool] | None = None) -> dict[str, Any] | None:
        directions = qdrant.Direction.Asc, qdrant.Direction.Desc
        by = None if order is None else qdrant.OrderBy(order[0], directions[order[1]])
        with engine_errors(self.path, "read a point"):
            points, _ = self._shard.scroll(
                qdrant.ScrollRequest(None, 1, _engine_filter(filters), True, False, by)
            )
        return (points[0].payload or {}) if points else None

    def scroll(
        self, offset: Any, limit: int, *, payload: bool, vectors: bool
    ) -> tuple[list[qdrant.Record], Any]:
        with engine_errors(self.path, "list its points"):
            return self._shard.scroll(
                qdrant.ScrollRequest(offset=offset, limit=limit, with_payload=payload, with_vector=vectors)
            )

    def sample(self, count: int) -> list[Any]:
        """The records of up to ``count`` random points, with ``id``, ``payload`` and ``vector``."""
        with engine_errors(self.path, "read points"):
            random = qdrant.QueryRequest(
                limit=count, query=qdrant.Sample.Random, with_payload=True, with_vector=True
            )
            return self._shard.query(random)

    def close(self) -> None:
        """Close the shard and remove its view. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            with engine_errors(self.path, "close"):
                self._shard.close()
        finally:
            if self._view:
                self._view.close()


@contextmanager
def engine_errors(path: Path, action: str) -> Iterator[None]:
    """Turn exceptions and panics of Qdrant Edge inside the block into errors that name the index."""
    try:
        yield
    except ScholarBaseError:
        raise
    except BaseException as error:
        # PyO3's PanicException derives from BaseException: https://docs.rs/pyo3/latest/pyo3/panic/struct.PanicException.html
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        if "No space left" in str(error) or "Not enough space" in str(error):
            raise StorageError(
                f"The disk with {path} is full: free some space and start again ({error})."
            ) from error
        raise VectorIndexError(f"The vector index at {path} failed to {action}: {error}") from error


def _engine_filter(filters: ResolvedFilters, vector: str | None = None) -> qdrant.Filter | None:
    if filters is NO_FILTERS and vector is None:
        return None
    conditions = qdrant_filter(filters, vector)
    return None if conditions is None else _engine_condition(conditions)


def _engine_condition(written: dict[str, Any]) -> Any:
    """A condition of :func:`qdrant_filter` as Qdrant Edge's."""
    if "has_id" in written:
        return qdrant.HasIdCondition(set(written["has_id"]))
    if "has_vector" in written:
        return qdrant.HasVectorCondition(written["has_vector"])
    if "range" in written:
        return qdrant.FieldCondition(written["key"], range=qdrant.RangeFloat(**written["range"]))
    if "match" in written:
        return qdrant.FieldCondition(written["key"], match=qdrant.MatchAny(written["match"]["any"]))
    must, must_not, should = (
        [_engine_condition(condition) for condition in written.get(name, ())] or None
        for name in ("must", "must_not", "should")
    )
    return qdrant.Filter(must=must, must_not=must_not, should=should)


def search_params(engine: Any, name: str, limit: int, ef: int | None) -> Any:
    """The parameters of :meth:`VectorIndex.nearest`, as the classes of ``qdrant_edge`` or ``qdrant_client.models``."""
    if name != DENSE:
        return None
    if ef is None:
        return engine.SearchParams(exact=True, quantization=engine.QuantizationSearchParams(ignore=True))
    return engine.SearchParams(
        hnsw_ef=max(ef, limit),
        quantization=engine.QuantizationSearchParams(rescore=True, oversampling=OVERSAMPLING),
    )


def has_few(filters: ResolvedFilters) -> bool:
    """Whether so few ids are listed that a query is compared with all of them."""
    listed = None if filters is NO_FILTERS else filters.listed
    return listed is not None and len(listed) <= EXACT_WITHIN


def _passes_none(filters: ResolvedFilters) -> bool:
    return filters is not NO_FILTERS and filters.listed is not None and not filters.listed


def _begin(activity: str, advice: str) -> None:
    """Note what runs, and raise TimeLimit or Cancelled if the time of the request is over."""
    deadline = DEADLINE.get()
    if deadline is not None:
        deadline.running = activity, advice
        if deadline.end <= monotonic():
            raise deadline.late()


def _check_limit(limit: int) -> None:
    if limit < 1:
        raise InvalidRequest(f"limit is {limit}: it must be 1 or more.")


def _check_name(name: str, names: Sequence[str]) -> None:
    if name not in names:
        raise VectorIndexError(f"This index has no vectors named {name!r}: it has {' and '.join(names)}.")


def _id(record: Any) -> int:
    number = record.id
    if not isinstance(number, int):
        raise foreign_id(number)
    return number


def _point(record: Any) -> VectorPoint:
    vectors = record.vector if isinstance(record.vector, dict) else {}
    dense = vectors.get(DENSE)
    return VectorPoint(
        id=_id(record),
        payload=Payload.from_dict(record.payload),
        dense=None if dense is None else np.asarray(dense, dtype=np.float32),
        sparse={name: ascending(vector) for name, vector in sorted(vectors.items()) if name != DENSE},
    )


def check_dense(
    vector: npt.NDArray[np.float32], dimensions: int | None, what: str
) -> npt.NDArray[np.float32]:
    """Return the vector as float32 after checking that cosine similarity is defined for it.

    Raises:
        VectorIndexError: no dense vectors in this index, other dimensions, NaN, infinity, or all zeros.
    """
    if dimensions is None:
        raise VectorIndexError(f"{what} has a dense vector, but this index was built without: leave it out.")
    array = np.asarray(vector, dtype=np.float32)
    if array.shape != (dimensions,):
        raise VectorIndexError(
            f"{what} has a dense vector of shape {array.shape}, but this index has vectors of shape "
            f"({dimensions},): use the encoder named in the library's manifest."
        )
    if not np.isfinite(array).all():
        raise VectorIndexError(f"{what} has NaN or infinity in its dense vector: check the encoder's output.")
    if not array.any():
        raise VectorIndexError(
            f"{what} has a dense vector of zeros, for which cosine similarity is undefined: check the encoder's output."
        )
    return array


def _without_long_list(
    search: Callable[[int, ResolvedFilters], list[ScoredId]], limit: int, filters: ResolvedFilters
) -> list[ScoredId] | None:
    """The ``limit`` best papers, with a long ``exclude`` removed from a longer list of results, because an index skips
    a hundred thousand ids more slowly than it finds some hundreds of papers more. None if the list is not enough."""
    excluded = filters.exclude
    others = replace(filters, exclude=frozenset())
    wanted = 2 * limit
    while wanted <= MOST_FETCHED:
        hits = search(wanted, others)
        kept = [hit for hit in hits if hit.id not in excluded]
        if len(kept) >= limit or len(hits) < wanted:
            return kept[:limit]
        wanted *= 4
    return None
