"""The data of vector indexes: points, sparse vectors, payloads, filters and the layout of an index."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import qdrant_edge

from scholarbase.errors import VectorIndexError
from scholarbase.indexes.filters import NUMBER_FILTERS, ResolvedFilters, category_keys
from scholarbase.memory import cores
from scholarbase.models.status import ACTIVE, other_statuses

DENSE = "dense"
BM25 = "bm25"
LEARNED = "learned"


class SparseVector(NamedTuple):
    """Term ids (ascending, unique) and their weights."""

    indices: Sequence[int]
    values: Sequence[float]


EngineVector: TypeAlias = qdrant_edge.SparseVector
"""Qdrant's own sparse vector, made by its tokenizer and taken by Qdrant Edge as it is: converting millions of them
would take as long as making them. The order of its terms is undefined and does not change a score."""
QueryVector: TypeAlias = list[float] | SparseVector | EngineVector
"""A dense or a sparse vector that an engine searches for."""


class ScoredId(NamedTuple):
    id: int
    score: float


scored_id: Callable[[tuple[int, float]], ScoredId] = partial(tuple.__new__, ScoredId)
"""A :class:`ScoredId` of a pair, in half the time of its constructor: a search makes some thousands."""


class Search(NamedTuple):
    """A search of one leg. ``vectors`` are the names of vectors that will be read of its results."""

    name: str
    vector: npt.NDArray[np.float32] | SparseVector | EngineVector
    limit: int
    filters: ResolvedFilters
    exact: bool = False
    vectors: tuple[str, ...] = ()


def foreign_id(value: object) -> VectorIndexError:
    """The error for a point of another program."""
    return VectorIndexError(
        f"The point id {value!r} is not an integer: ScholarBase did not build this index. Build it again."
    )


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
    types: list[str] = field(default_factory=list)

    @classmethod
    def of_paper(cls, *row: Any) -> Payload:
        """The payload of a row of the catalogue: the columns in ``PAYLOAD_COLUMNS``."""
        stored = dict(zip(PAYLOAD_FIELDS, row, strict=True))
        stored["categories"] = category_keys((stored["categories"] or "").split())
        stored["sets"] = sorted((stored["sets"] or "").split())
        stored["types"] = sorted(set(json.loads(stored["types"]))) if stored["types"] else []
        return cls(**stored)

    def to_dict(self) -> dict[str, Any]:
        """The known fields. A missing field fails every filter on it."""
        stored = {name: getattr(self, name) for name in PAYLOAD_FIELDS}
        return {name: value for name, value in stored.items() if value is not None and value != []}

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


PAYLOAD_FIELDS: Final = tuple(payload_field.name for payload_field in fields(Payload))
INTEGER_FIELDS: Final = tuple(dict.fromkeys(number_filter.column for number_filter in NUMBER_FILTERS))
KEYWORD_FIELDS: Final = tuple(name for name in PAYLOAD_FIELDS if name not in INTEGER_FIELDS)
"""The fields of a payload, each with an index."""
PAYLOAD_SQL: Final = {
    **{name: name for name in PAYLOAD_FIELDS},
    "venue": "venue_key",
    "sets": "(SELECT group_concat(name, ' ') FROM sets WHERE paper = papers.id)",
    "types": "details -> '$.publication_types'",
}
"""The SQL of each field, of a row of ``papers``. The names of sets have no spaces; types are JSON."""
PAYLOAD_COLUMNS: Final = ", ".join(PAYLOAD_SQL.values())


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
            {"key": number_filter.column, "range": {"gte" if number_filter.is_least else "lte": limit}}
            for number_filter in NUMBER_FILTERS
            if (limit := getattr(filters, number_filter.limit)) is not None
        ),
        *any_of("categories", filters.categories),
        *any_of("venue", filters.venues),
        *any_of("types", filters.types),
        *(among if len(among) < 2 else [{"should": among}]),
        *([] if vector is None else [{"has_vector": vector}]),
    ]
    must_not: list[dict[str, Any]] = [{"has_id": list(filters.exclude)}] if filters.exclude else []
    must_not += any_of("types", filters.not_types)
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


def ascending(vector: Any) -> SparseVector:
    """The sorted ``indices`` and ``values`` of a sparse vector of Qdrant Edge or qdrant-client."""
    pairs = sorted(zip(vector.indices, vector.values, strict=True))
    return SparseVector([index for index, _ in pairs], [float(value) for _, value in pairs])


def check_sparse(name: str, vector: SparseVector, what: str) -> None:
    """Raises VectorIndexError: a repeated or negative index, or a weight that is not a finite number."""
    indices, values = vector
    if len(indices) != len(values):
        raise VectorIndexError(f"{what} has {len(indices)} {name} indices but {len(values)} weights.")
    if len(indices):
        if len(set(indices)) != len(indices) or min(indices) < 0 or max(indices) > 0xFFFFFFFF:
            raise VectorIndexError(f"{what} has {name} indices that are not distinct 32-bit numbers.")
        if not np.isfinite(values).all():
            raise VectorIndexError(f"{what} has NaN or infinity among its {name} weights.")


def engine_vector(vector: SparseVector | EngineVector) -> EngineVector:
    """A sparse vector as Qdrant Edge takes it."""
    if isinstance(vector, EngineVector):
        return vector
    return EngineVector([int(i) for i in vector.indices], [float(v) for v in vector.values])


# -- Qdrant Edge's own description of a layout ---------------------------------------------------------

SPARSE_FULL_SCAN: Final = 20_000
"""Up to this many points of a segment that pass a filter are scored one by one, instead of reading the posting lists.
With Qdrant's default, 5,000, one year of 1.3 million papers took 5.0 ms; with this, 4.2."""
_MAX_SEGMENTS: Final = 1_000_000
"""Qdrant merges segments above this number."""


def edge_config(
    config: VectorConfig, *, threads: int | None = None, deleted_share: float = 0.0
) -> qdrant_edge.EdgeConfig:
    """The layout as Qdrant's configuration. ``threads`` search, by default as many as there are cores.

    A segment of which more than ``deleted_share`` are deleted points is built again."""
    dense = None
    if config.dimensions is not None:
        dense = {
            DENSE: qdrant_edge.EdgeVectorParams(
                size=config.dimensions,
                distance=qdrant_edge.Distance.Cosine,
                datatype=qdrant_edge.VectorStorageDatatype.Float16,
                hnsw_config=qdrant_edge.HnswIndexConfig(
                    m=config.m, ef_construct=config.ef_construct, full_scan_threshold=config.full_scan_kb
                ),
                quantization_config=qdrant_edge.TurboQuantQuantizationConfig(
                    bits=qdrant_edge.TurboQuantBitSize.Bits2
                )
                if config.quantization
                else None,
            )
        }
    # Cold files are memory-mapped and read on demand; by default each process loads its own posting lists.
    lists: dict[str, Any] = {"full_scan_threshold": SPARSE_FULL_SCAN, "memory": qdrant_edge.Memory.Cold}
    # No IDF modifier: it counts within one shard. The weights of queries have the library's IDF.
    sparse = {BM25: qdrant_edge.EdgeSparseVectorParams(**lists)}
    if config.learned:
        sparse[LEARNED] = qdrant_edge.EdgeSparseVectorParams(**lists)
    return qdrant_edge.EdgeConfig(
        vectors=dense,
        sparse_vectors=sparse,
        # Segments of any size are sealed and never merged, since merging needs memory for all points. A segment with
        # a deleted point is rebuilt, so that a resumed build leaves no deleted points on disk.
        optimizers=qdrant_edge.EdgeOptimizersConfig(
            indexing_threshold=1,
            default_segment_number=_MAX_SEGMENTS,
            deleted_threshold=max(deleted_share, 1e-9),
            vacuum_min_vector_number=1,
        ),
        # Looking up ids in memory is ten times as fast as in a mapped file, which long lists of ids need.
        id_tracker_memory=qdrant_edge.Memory.Pinned,
        max_search_threads=threads,
        wal_enabled=False,
    )


def search_threads(path: Path, most: int | None) -> int:
    """The threads that search the shard at ``path``: one for each segment with points, up to ``most``, by default the
    number of cores.

    With one thread, Qdrant searches in the caller's own. Handing a search to others takes a third of the processor time
    of a short one, and by default there are more of them than cores.
    """
    sealed = sum(1 for _ in path.glob("segments/*/id_tracker.mappings"))
    return max(1, min(most or cores(), sealed))


def read_config(path: Path) -> VectorConfig:
    """Read the layout of the shard at ``path`` from Qdrant's own ``edge_config.json``.

    Raises:
        VectorIndexError: the shard is missing, or the file cannot be read.
    """
    file = path / "edge_config.json"
    try:
        written = json.loads(file.read_bytes())
        dense = (written.get("vectors") or {}).get(DENSE)
        learned = LEARNED in written["sparse_vectors"]
        if dense is None:
            return VectorConfig(learned=learned)
        return VectorConfig(
            dimensions=dense["size"],
            learned=learned,
            m=dense["hnsw_config"]["m"],
            ef_construct=dense["hnsw_config"]["ef_construct"],
            quantization=_quantization(path, dense.get("quantization_config")),
            full_scan_kb=dense["hnsw_config"]["full_scan_threshold"],
        )
    except FileNotFoundError as error:
        raise VectorIndexError(
            f"No vector index at {path}: the library is incomplete. Build it again with `scholarbase ingest`."
        ) from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise VectorIndexError(f"{file} is not a valid layout of a vector index: {error!r}.") from error


def _quantization(path: Path, written: Any) -> str | None:
    if written is None:
        return None
    if written != {"turbo": {"bits": "bits2"}}:
        raise VectorIndexError(
            f"The vector index at {path} has an unsupported quantization, {json.dumps(written)}: build the library "
            "again with `scholarbase ingest`."
        )
    return TURBO2
