"""What every vector index is: points with a dense vector, sparse vectors and a payload to filter on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import qdrant_edge

from scholarbase.indexes.filters import ResolvedFilters

DENSE = "dense"
BM25 = "bm25"
LEARNED = "learned"


class SparseVector(NamedTuple):
    """Term ids (ascending, unique) and their weights."""

    indices: Sequence[int]
    values: Sequence[float]


EngineVector: TypeAlias = qdrant_edge.SparseVector
"""A sparse vector as Qdrant's tokenizer gives it and Qdrant Edge takes it: building a library passes millions of them
on, and taking them apart on the way would take as long as making them. Its terms come in no order."""


class ScoredId(NamedTuple):
    id: int
    score: float


@dataclass(frozen=True, slots=True)
class Payload:
    """What filters look at. ``categories`` holds archives too (:func:`filters.category_keys`)."""

    first_day: int | None = None
    last_day: int | None = None
    categories: list[str] = field(default_factory=list)
    venue: str | None = None
    citation_count: int | None = None


@dataclass(frozen=True, slots=True)
class VectorPoint:
    """One paper: its catalogue id, its vectors (any may be missing) and its payload."""

    id: int
    payload: Payload
    dense: npt.NDArray[np.float32] | None = None
    sparse: Mapping[str, SparseVector | EngineVector] = field(default_factory=dict)


TURBO2: Final = "turbo2"


@dataclass(frozen=True, slots=True)
class VectorConfig:
    """How an index is laid out. It stands in the manifest.

    ``dimensions`` None: no dense vectors. ``learned``: a second sparse vector with a model's own weights.
    ``m`` and ``ef_construct`` are HNSW's (Malkov and Yashunin, arXiv:1603.09320); ``quantization`` is
    ``turbo2`` (TurboQuant, Zandieh et al., arXiv:2504.19874, with 2 bits a dimension) or None.
    """

    dimensions: int | None = None
    learned: bool = False
    m: int = 32
    ef_construct: int = 512
    quantization: str | None = TURBO2

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> VectorConfig:
        return cls(**data)


class VectorIndex(Protocol):
    """A vector index open for searching. Filters apply before the cut; ties break by id, lowest first."""

    def search_dense(
        self, vector: npt.NDArray[np.float32], limit: int, filters: ResolvedFilters, *, exact: bool = False
    ) -> list[ScoredId]:
        """The ``limit`` points most similar by cosine, best first. ``exact`` compares with every point.

        Raises:
            VectorIndexError: the index fails or cannot be reached.
        """
        ...

    def search_sparse(
        self, name: str, vector: SparseVector, limit: int, filters: ResolvedFilters
    ) -> list[ScoredId]:
        """The ``limit`` points with the greatest dot product on the sparse vector ``name``, best first;
        points that share no term with the query are no results. Raises as ``search_dense``."""
        ...

    def count(self, filters: ResolvedFilters, *, vector: str | None = None) -> int:
        """How many points pass the filters and, where ``vector`` is named, have that vector."""
        ...

    def sparse_vectors(self, name: str, ids: Sequence[int]) -> dict[int, SparseVector]:
        """The sparse vectors ``name`` of these points, by id, indices ascending. A point that is not there, or has no
        such vector, is left out. Raises as ``search_dense``."""
        ...

    def ids(self) -> Iterator[int]:
        """Every point's id, ascending, without holding all of them."""
        ...

    def points(self, batch: int = 1000) -> Iterator[list[VectorPoint]]:
        """Every point, by ascending id, in batches."""
        ...

    def close(self) -> None: ...


class VectorWriter(Protocol):
    """A vector index being built. Upserting a point again replaces it."""

    def upsert(self, points: Sequence[VectorPoint]) -> None: ...

    def flush(self) -> None:
        """All upserts before this call survive the death of the process after it."""
        ...

    def finish(self) -> None:
        """Build what makes searching fast (HNSW, quantization, posting lists), and make all of it durable."""
        ...

    def close(self) -> None: ...
