"""Vector indexes that extensions add."""

import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from scholarbase.errors import InvalidRequest
from scholarbase.extensions import Extension
from scholarbase.indexes.filters import ResolvedFilters
from scholarbase.indexes.vectors.base import DENSE, VectorConfig, VectorPoint
from scholarbase.indexes.vectors.index import EdgeIndex, VectorIndex
from scholarbase.search.library import Library
from scholarbase.settings import Settings, load_settings
from tests.indexes.vectors.test_suite import passes
from tests.libraries import copied


class MemoryIndex(VectorIndex):
    """Compares a query with every point."""

    def __init__(self, config: VectorConfig, points: Sequence[VectorPoint]) -> None:
        super().__init__(config)
        self._points = {point.id: point for point in points}

    def _passing(self, filters: ResolvedFilters, name: str | None = None) -> list[VectorPoint]:
        points = [one for one in self._points.values() if passes(one.id, one.payload, filters)]
        return [one for one in points if name is None or _vector(one, name) is not None]

    def nearest(
        self, name: str, vector: Any, limit: int, filters: ResolvedFilters, *, ef: int | None
    ) -> list[Any]:
        found = []
        for point in self._passing(filters, name):
            stored = _vector(point, name)
            if name == DENSE:
                score = float(stored @ np.array(vector, np.float32))
            else:
                weights = dict(zip(stored.indices, stored.values, strict=True))
                terms = [term for term in vector.indices if term in weights]
                wanted = dict(zip(vector.indices, vector.values, strict=True))
                if not terms:
                    continue
                score = float(np.float32(sum(wanted[term] * weights[term] for term in sorted(terms))))
            found.append(SimpleNamespace(id=point.id, score=score))
        return sorted(found, key=lambda one: -one.score)[:limit]

    def count_points(self, filters: ResolvedFilters, vector: str | None) -> int:
        return len(self._passing(filters, vector))

    def values(self, field: str, most: int) -> dict[str, int]:
        raise NotImplementedError

    def first(self, filters: ResolvedFilters, order: Any = None) -> Any:
        payloads = [point.payload.to_dict() for point in self._passing(filters)]
        if order is None:
            return next(iter(payloads), None)
        field, greatest = order
        known = (one for one in payloads if field in one)
        return next(iter(sorted(known, key=lambda one: one[field], reverse=greatest)), None)

    def retrieve(self, name: str, ids: Sequence[int]) -> list[Any]:
        points = [self._points[one] for one in ids if one in self._points]
        vectors = [(one.id, _vector(one, name)) for one in points]
        return [SimpleNamespace(id=one, vector={} if it is None else {name: it}) for one, it in vectors]

    def scroll(self, offset: Any, limit: int, *, payload: bool, vectors: bool) -> tuple[list[Any], Any]:
        raise NotImplementedError

    def close(self) -> None:
        self._points = {}


def _vector(point: VectorPoint, name: str) -> Any:
    return point.dense if name == DENSE else point.sparse.get(name)


class Memory(Extension):
    def vector_indexes(self) -> dict[str, Callable[..., VectorIndex]]:
        def open_index(address: str, library: Path, snapshot: str, settings: Settings) -> VectorIndex:
            assert library.name == snapshot  # as the test named it
            assert settings.vector_index == address
            with closing(EdgeIndex.open(Path(address.removeprefix("memory:")))) as edge:
                return MemoryIndex(edge.config, [one for batch in edge.points() for one in batch])

        return {"memory": open_index}


def test_a_library_is_searched_in_the_index_of_an_extension(
    extension: Callable[..., None], dense: Library, dense_library: Path, tmp_path: Path
) -> None:
    extension(Memory)
    library = tmp_path / dense.snapshot_id
    copied(dense_library, library)
    vectors = shutil.move(library / "vectors", tmp_path / "vectors")
    settings = load_settings(vector_index=f"memory:{vectors}", similarity_floor=False)
    with Library.open(library, settings=settings) as other:
        for filters in ({}, {"to": "1993"}, {"from_": "1993-01", "min_citations": 3}):
            for mode in ("sparse", "dense", "hybrid"):
                asked: dict[str, Any] = {
                    "mode": mode,
                    "exact": True,
                    "limit": 20,
                    "fields": "title",
                    **filters,
                }
                expected = dense.search("strings and gauge theory", **asked)
                assert len(expected.results) > 5
                assert other.search("strings and gauge theory", **asked) == expected


@pytest.mark.parametrize(("kinds", "schemes"), [((), "none"), ((Memory,), "memory")])
def test_another_scheme_is_an_error_that_lists_those_of_extensions(
    extension: Callable[..., None], sample_library: Path, kinds: tuple[type[Extension], ...], schemes: str
) -> None:
    extension(*kinds)
    sentence = rf"SCHOLARBASE_VECTOR_INDEX has the scheme 'faiss', .*\(schemes of extensions: {schemes}\)"
    with pytest.raises(InvalidRequest, match=sentence):
        Library.open(sample_library, settings=load_settings(vector_index="faiss:/x"))


def test_two_addresses_of_vectors_are_an_error(sample_library: Path) -> None:
    settings = load_settings(vector_index="memory:x", qdrant_url="http://a:6333")
    with pytest.raises(InvalidRequest, match="both name a vector index: unset one of them"):
        Library.open(sample_library, settings=settings)
