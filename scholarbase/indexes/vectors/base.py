"""The data of vector indexes: points, sparse vectors, payloads, filters and the layout of an index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import qdrant_edge

from scholarbase.errors import VectorIndexError
from scholarbase.indexes.filters import ResolvedFilters, category_keys
from scholarbase.models.status import ACTIVE, other_statuses

DENSE = "dense"
BM25 = "bm25"
LEARNED = "learned"

INTEGER_FIELDS: Final = ("first_day", "last_day", "citation_count")
KEYWORD_FIELDS: Final = ("categories", "venue", "sets", "status")
"""The fields of a payload, each with an index."""


PAYLOAD_COLUMNS: Final = """
    first_day, last_day, categories, venue_key, citation_count,
    (SELECT group_concat(name, ' ') FROM sets WHERE paper = papers.id), status
"""
"""The SQL of the values of a payload, of a row of ``papers``. The names of sets have no spaces."""


class SparseVector(NamedTuple):
    """Term ids (ascending, unique) and their weights."""

    indices: Sequence[int]
    values: Sequence[float]


EngineVector: TypeAlias = qdrant_edge.SparseVector
"""Qdrant's own sparse vector, made by its tokenizer and taken by Qdrant Edge as it is: converting millions of them
would take as long as making them. The order of its terms is undefined and does not change a score."""


class ScoredId(NamedTuple):
    id: int
    score: float


scored_id: Callable[[tuple[int, float]], ScoredId] = partial(tuple.__new__, ScoredId)
"""A :class:`ScoredId` of a pair, in half the time of its constructor: a search makes some thousands."""


@dataclass(frozen=True, slots=True)
class Payload:
    """The fields that filters compare. ``categories`` includes archives (:func:`filters.category_keys`)."""

    first_day: int | None = None
    last_day: int | None = None
    categories: list[str] = field(default_factory=list)
    venue: str | None = None
    citation_count: int | None = None
    sets: list[str] = field(default_factory=list)
    status: str | None = None

    @classmethod
    def of_paper(
        cls,
        first_day: int | None,
        last_day: int | None,
        categories: str | None,
        venue: str | None,
        citation_count: int | None,
        sets: str | None,
        status: str | None,
    ) -> Payload:
        """The payload of a row of the catalogue: the columns in ``PAYLOAD_COLUMNS``."""
        keys = category_keys((categories or "").split())
        return cls(first_day, last_day, keys, venue, citation_count, sorted((sets or "").split()), status)

    def to_dict(self) -> dict[str, Any]:
        """The known fields. A missing field fails every filter on it."""
        stored = {
            "first_day": self.first_day,
            "last_day": self.last_day,
            "categories": list(self.categories) or None,
            "venue": self.venue,
            "citation_count": self.citation_count,
            "sets": list(self.sets) or None,
            "status": self.status,
        }
        return {name: value for name, value in stored.items() if value is not None}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any] | None) -> Payload:
        """Read the result of ``to_dict``.

        Raises:
            VectorIndexError: an unknown field.
        """
        try:
            return cls(**stored) if stored else cls()
        except TypeError as error:
            raise VectorIndexError(
                f"The payload {stored!r} was not written by ScholarBase ({error}): build the index again."
            ) from error


def qdrant_filter(filters: ResolvedFilters, vector: str | None = None) -> dict[str, Any] | None:
    """The filters, and having this vector, as a filter of Qdrant's HTTP API; None if there is no condition
    (https://qdrant.tech/documentation/search/filtering/)."""

    def any_of(field: str, values: Sequence[str]) -> list[dict[str, Any]]:
        return [{"key": field, "match": {"any": list(values)}}] if values else []

    among = any_of("sets", filters.sets)
    if filters.within is not None:
        among.append({"has_id": list(filters.within)})
    must: list[dict[str, Any]] = [
        *(
            {"key": field, "range": {bound: value}}
            for field, bound, value in (
                ("first_day", "gte", filters.first_day),
                ("last_day", "lte", filters.last_day),
                ("citation_count", "gte", filters.min_citations),
            )
            if value is not None
        ),
        *any_of("categories", filters.categories),
        *any_of("venue", filters.venues),
        *(among if len(among) < 2 else [{"should": among}]),
        *([] if vector is None else [{"has_vector": vector}]),
    ]
    must_not: list[dict[str, Any]] = [{"has_id": list(filters.exclude)}] if filters.exclude else []
    # Points of active papers have no status.
    if ACTIVE not in filters.statuses:
        must += any_of("status", filters.statuses)
    else:
        must_not += any_of("status", other_statuses(filters.statuses))
    conditions = {"must": must, "must_not": must_not}
    return {name: listed for name, listed in conditions.items() if listed} or None


@dataclass(frozen=True, slots=True)
class VectorPoint:
    """One paper: its catalogue id, its payload and its vectors, each of which may be missing."""

    id: int
    payload: Payload
    dense: npt.NDArray[np.float32] | None = None
    sparse: Mapping[str, SparseVector | EngineVector] = field(default_factory=dict)


TURBO2: Final = "turbo2"


@dataclass(frozen=True, slots=True)
class VectorConfig:
    """The layout of an index, as recorded in the manifest.

    ``dimensions`` None: no dense vectors. ``learned``: a second sparse vector with a model's own weights.
    ``m`` and ``ef_construct`` are HNSW's (Malkov and Yashunin, arXiv:1603.09320); ``quantization`` is
    ``turbo2`` (TurboQuant, Zandieh et al., arXiv:2504.19874, with 2 bits per dimension) or None.
    ``full_scan_kb`` is Qdrant's ``full_scan_threshold``: fewer kilobytes of vectors are scanned instead of
    searching the graph, which has no extra links for filters that leave fewer. With 1,000 instead of 10,000,
    the graph of 50,000 vectors took twice as long to build and to search.
    """

    dimensions: int | None = None
    learned: bool = False
    m: int = 32
    ef_construct: int = 512
    quantization: str | None = TURBO2
    full_scan_kb: int = 10_000

    def with_small_graph(self) -> VectorConfig:
        """The layout for static encoders, which encode so fast that building the default graph would take longer than
        all else. Of 334,917 papers of 256 dimensions it finds 0.97 of the true top 100, in a millisecond. Without the
        greater ``full_scan_kb``, whose codes are scanned in about two milliseconds, it took three times as long."""
        return replace(self, m=16, ef_construct=100, full_scan_kb=100_000)

    @property
    def sparse_names(self) -> tuple[str, ...]:
        return (BM25, LEARNED) if self.learned else (BM25,)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> VectorConfig:
        return cls(**data)
