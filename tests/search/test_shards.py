"""A library whose vectors are in two shards is the library of one."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from scholarbase.errors import InvalidRequest, LibraryCorrupt, LibraryExists, VectorIndexError
from scholarbase.indexes.vectors.shards import open_local
from scholarbase.ingest.job import ingest
from scholarbase.ingest.plans import IngestRules
from scholarbase.manifest import read_manifest
from scholarbase.search.library import Library
from scholarbase.search.verification import verify
from tests.ingest.contents import points, rows
from tests.libraries import copied


def test_the_content_and_the_answers_are_those_of_one_shard(
    dense_library: Path, sharded_library: Path
) -> None:
    one, snapshot = read_manifest(dense_library)
    two, other = read_manifest(sharded_library)
    assert two.shards == 2
    # Approximate searches of other graphs may find other papers.
    assert other != snapshot
    assert two.vectors == one.vectors | {"shards": 2}
    assert (two.content, two.content_hash, two.counts) == (one.content, one.content_hash, one.counts)
    assert points(sharded_library) == points(dense_library)
    assert rows(sharded_library)["document_frequencies"] == rows(dense_library)["document_frequencies"]
    assert list(verify(sharded_library))
    searches: list[dict[str, Any]] = [
        {"mode": "sparse"},
        {"mode": "sparse", "engine": "feedback", "to": "2015"},
        {"mode": "dense", "exact": True},
        {"mode": "hybrid", "exact": True, "min_citations": 1},
    ]
    with Library.open(dense_library) as expected, Library.open(sharded_library) as library:
        titles = [hit.paper.title for hit in expected.search("theory", limit=10).results]
        assert len(titles) == 10
        for title in titles:
            for search in searches:
                found, wanted = (
                    [(hit.paper.id, hit.score) for hit in one.search(title, limit=20, **search).results]
                    for one in (library, expected)
                )
                assert found == wanted != []
    # No view of a shard stays, and none was inside the library.
    assert {entry.name for entry in sharded_library.iterdir()} == {
        entry.name for entry in dense_library.iterdir()
    }


def test_the_number_of_shards_is_part_of_the_plan(sharded_library: Path, small_snapshot: Path) -> None:
    with pytest.raises(LibraryExists, match=" and number of shards: "):
        ingest([small_snapshot], sharded_library)
    with pytest.raises(InvalidRequest, match="shards is 65: it must be from 1 to 64"):
        IngestRules(shards=65)


def test_a_missing_shard_is_an_error(sharded_library: Path, tmp_path: Path) -> None:
    library = copied(sharded_library, tmp_path / "library")
    shutil.rmtree(library / "vectors" / "1-of-2")
    with pytest.raises(LibraryCorrupt, match=r"1-of-2.* is missing"):
        Library.open(library)
    with pytest.raises(VectorIndexError, match="lacks the shard 1-of-2"):
        open_local(library / "vectors")


@pytest.mark.parametrize("names", [["0-of-99999999"], ["0-of-0"], ["0-of-2", "1-of-2", "0-of-3"]])
def test_folders_of_no_division_are_an_error(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).mkdir()
    with pytest.raises(VectorIndexError, match="the library is damaged"):
        open_local(tmp_path)
