"""A library that is updated is the library that a full build of the new release gives."""

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scholarbase.encoders import Encoder, open_encoder
from scholarbase.ingest.job import ingest
from scholarbase.ingest.plans import IngestRules
from scholarbase.manifest import read_manifest
from scholarbase.models.encoders import PACKAGED
from scholarbase.search.verification import verify
from scholarbase.updates.job import update
from tests.ingest.contents import points, rows
from tests.updates import releases


def full(folder: Path, rng: random.Random, release: releases.Release, **options: Any) -> Path:
    """A library built from a release."""
    source = releases.write(rng, release, folder / "source")
    ingest([source], folder / "library", **options)
    return folder / "library"


def content(library: Path) -> dict[str, list[Any]]:
    """The rows of a library, with the ids of authors instead of their numbers, and without the words of their names,
    which ``verify`` compares."""
    held = rows(library)
    ids = {number: author_id for number, author_id, *_ in held["author_names"]}
    held["author_names"] = sorted(row[1:] for row in held["author_names"])
    held["author_papers"] = sorted((ids[author], paper) for author, paper in held["author_papers"])
    return {table: held[table] for table in held if table not in ("meta", "author_words_data")}


def assert_same(updated: Path, built: Path) -> None:
    """Assert that two libraries have the same rows and vectors, and that each is what its manifest says."""
    found, expected = (content(one) for one in (updated, built))
    for table, held in expected.items():
        assert found[table] == held, table
    assert points(updated) == points(built)
    one, other = (read_manifest(library)[0] for library in (updated, built))
    assert {part for part in one.content if one.content[part] != other.content[part]} == set()
    assert one.content_hash == other.content_hash
    assert one.vectors == other.vectors
    list(verify(updated))


@pytest.mark.parametrize(
    ("seed", "keep", "dense", "shards"),
    [
        (1, "arxiv", True, 2),
        pytest.param(2, "title", True, 3, marks=pytest.mark.slow),
        pytest.param(3, "text", False, 1, marks=pytest.mark.slow),
    ],
)
def test_an_update_gives_the_library_of_a_full_build(
    tmp_path: Path, seed: int, keep: Any, dense: bool, shards: int
) -> None:
    rng = random.Random(seed)
    options: dict[str, Any] = {"rules": IngestRules(keep=keep, shards=shards)}
    encoder: Encoder | None = open_encoder(PACKAGED) if dense else None
    if encoder is not None:
        options |= {"encoder": encoder, "encoder_location": PACKAGED}
    before = releases.first(rng)
    library = full(tmp_path / "0", rng, before, **options)
    for step in range(1, 3):
        after = releases.changed(rng, before, rng.choice([3, 40]))
        changes = releases.write_diff(rng, before, after, tmp_path / f"{step}" / "diff")
        update(library, [changes], tmp_path / f"{step}" / "updated", encoder=encoder)
        library, before = tmp_path / f"{step}" / "updated", after
        assert_same(library, full(tmp_path / f"{step}", rng, after, **options))


@pytest.mark.slow
def test_citations_that_are_deleted_alone_are_gone(tmp_path: Path) -> None:
    rng = random.Random(5)
    options: dict[str, Any] = {"rules": IngestRules(keep="title")}
    before = releases.first(rng)
    after = before | {"citations": {}}
    library = full(tmp_path / "0", rng, before, **options)
    assert content(library)["edges"]
    update(library, [releases.write_diff(rng, before, after, tmp_path / "diff")], tmp_path / "updated")
    assert not content(tmp_path / "updated")["edges"]
    assert_same(tmp_path / "updated", full(tmp_path / "1", rng, after, **options))


@pytest.mark.slow
@settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.integers(0, 10_000), st.integers(1, 120), st.sampled_from(["arxiv", "text", "title"]))
def test_random_changes(tmp_path_factory: pytest.TempPathFactory, seed: int, changes: int, keep: Any) -> None:
    rng, folder = random.Random(seed), tmp_path_factory.mktemp("random")
    before = releases.first(rng)
    after = releases.changed(rng, before, changes)
    options: dict[str, Any] = {"rules": IngestRules(keep=keep)}
    library = full(folder / "0", rng, before, **options)
    diff = releases.write_diff(rng, before, after, folder / "diff")
    update(library, [diff], folder / "updated")
    assert_same(folder / "updated", full(folder / "1", rng, after, **options))
    # Applied again, the changes change nothing.
    update(folder / "updated", [diff], folder / "again")
    assert content(folder / "again") == content(folder / "updated")
    shutil.rmtree(folder)
