"""Vector indexes that extensions add."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scholarbase.errors import InvalidRequest
from scholarbase.extensions import Extension
from scholarbase.indexes.vectors.index import EdgeIndex, VectorIndex
from scholarbase.search.library import Library
from scholarbase.settings import Settings, load_settings
from tests.libraries import copied


class Elsewhere(Extension):
    """Opens the shard at an address beside the library."""

    def vector_indexes(self) -> dict[str, Callable[..., VectorIndex]]:
        def open_index(address: str, library: Path, snapshot: str, settings: Settings) -> VectorIndex:
            assert library.name == snapshot  # as the test named it
            assert settings.vector_index == address
            return EdgeIndex.open(Path(address.removeprefix("beside:")))

        return {"beside": open_index}


def test_a_library_is_searched_in_the_index_of_an_extension(
    extension: Callable[..., None], dense: Library, dense_library: Path, tmp_path: Path
) -> None:
    extension(Elsewhere)
    library = tmp_path / dense.snapshot_id
    copied(dense_library, library)
    vectors = shutil.move(library / "vectors", tmp_path / "vectors")
    settings = load_settings(vector_index=f"beside:{vectors}", similarity_floor=False)
    with Library.open(library, settings=settings) as other:
        for mode in ("sparse", "dense", "hybrid"):
            asked: dict[str, Any] = {"mode": mode, "to": "1993", "fields": "title"}
            expected = dense.search("strings and gauge theory", **asked)
            assert len(expected.results) > 5
            assert other.search("strings and gauge theory", **asked) == expected


@pytest.mark.parametrize(("kinds", "schemes"), [((), "none"), ((Elsewhere,), "beside")])
def test_another_scheme_is_an_error_that_lists_those_of_extensions(
    extension: Callable[..., None], sample_library: Path, kinds: tuple[type[Extension], ...], schemes: str
) -> None:
    extension(*kinds)
    sentence = rf"SCHOLARBASE_VECTOR_INDEX has the scheme 'faiss', .*\(schemes of extensions: {schemes}\)"
    with pytest.raises(InvalidRequest, match=sentence):
        Library.open(sample_library, settings=load_settings(vector_index="faiss:/x"))


def test_two_addresses_of_vectors_are_an_error(sample_library: Path) -> None:
    settings = load_settings(vector_index="beside:x", qdrant_url="http://a:6333")
    with pytest.raises(InvalidRequest, match="both name a vector index: unset one of them"):
        Library.open(sample_library, settings=settings)
