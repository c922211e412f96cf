"""Changes that do not fit a library are refused, and a job that was stopped ends with the same library."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from scholarbase.errors import InvalidRequest, LibraryCorrupt, LibraryExists, SourceError, TooManyRejects
from scholarbase.ingest.folder import BuildFolder
from scholarbase.ingest.job import ingest
from scholarbase.ingest.plans import IngestRules
from scholarbase.manifest import read_manifest
from scholarbase.search.library import Library
from scholarbase.updates.job import update
from scholarbase.updates.points import PointChanges
from scholarbase.updates.rows import CatalogChanges
from tests.conftest import json_lines, run_cli
from tests.ingest.contents import points, rows
from tests.libraries import copied, relist


def paper(corpus_id: int, arxiv_id: str | None, title: str = "Title") -> dict[str, Any]:
    return {"corpusid": corpus_id, "title": title, "externalids": {"ArXiv": arxiv_id}, "year": 2007}


def lines(path: Path, *records: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return json_lines(path, records)


def release(folder: Path) -> Path:
    """A release of three papers and a citation between two."""
    lines(folder / "papers" / "1.jsonl", *(paper(n, f"0704.000{n}", f"Title {n}") for n in (1, 2, 3)))
    lines(folder / "abstracts" / "1.jsonl", *({"corpusid": n, "abstract": f"Text {n}"} for n in (1, 2, 3)))
    lines(folder / "citations" / "1.jsonl", {"citationid": 7, "citingcorpusid": 1, "citedcorpusid": 2})
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    ingest([release(folder / "2026-01-05")], folder / "library")
    return folder / "library"


@pytest.fixture
def changes(tmp_path: Path) -> Path:
    """A new title, a deleted paper, and a citation of a paper that comes."""
    step = tmp_path / "changes" / "2026-01-05..2026-01-12"
    lines(step / "papers" / "updates" / "1.jsonl", paper(1, "0704.0001", "New title"), paper(4, "0704.0004"))
    lines(step / "abstracts" / "updates" / "1.jsonl", {"corpusid": 4, "abstract": "Text 4"})
    lines(
        step / "citations" / "updates" / "1.jsonl", {"citationid": 8, "citingcorpusid": 4, "citedcorpusid": 1}
    )
    lines(step / "papers" / "deletes" / "1.jsonl", {"corpusid": 2})
    return tmp_path / "changes"


@pytest.mark.slow
def test_what_changed_is_found(base: Path, changes: Path, tmp_path: Path) -> None:
    manifest = update(base, [changes], tmp_path / "new")
    assert (manifest.release, manifest.counts["papers"], manifest.counts["edges"]) == ("2026-01-12", 3, 1)
    assert [manifest.counts[f"papers_{what}"] for what in ("added", "changed", "removed")] == [1, 1, 1]
    assert manifest.updates[0]["base"] == read_manifest(base)[1]
    with Library.open(tmp_path / "new") as library:
        found = [hit.paper.id for hit in library.search("new title", mode="sparse").results]
        assert found[0] == "arXiv:0704.0001"
        assert set(found[1:]) == {"arXiv:0704.0003", "arXiv:0704.0004"}
        assert [edge.paper.id for edge in library.citations("CorpusId:1").results] == ["arXiv:0704.0004"]
    # Applied again, nothing changes but the manifest.
    again = update(
        tmp_path / "new", [changes / "2026-01-05..2026-01-12" / "papers" / "updates"], tmp_path / "again"
    )
    assert again.content == manifest.content


@pytest.mark.slow
@pytest.mark.parametrize(
    "where",
    ["points", pytest.param("papers", marks=pytest.mark.slow), pytest.param("move", marks=pytest.mark.slow)],
)
def test_a_stopped_job_ends_with_the_same_library(
    base: Path, changes: Path, tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    update(base, [changes], tmp_path / "undisturbed")
    owner: Any
    owner, name = {
        "papers": (CatalogChanges, "_authors"),
        "points": (PointChanges, "_add"),
        "move": (BuildFolder, "publish"),
    }[where]

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, stop)
        with pytest.raises(KeyboardInterrupt):
            update(base, [changes], tmp_path / "new")
    assert not (tmp_path / "new" / "manifest.json").exists()
    update(base, [changes], tmp_path / "new")
    assert rows(tmp_path / "new") == rows(tmp_path / "undisturbed")
    assert points(tmp_path / "new") == points(tmp_path / "undisturbed")
    assert not (tmp_path / "new" / "building").exists()
    assert update(base, [changes], tmp_path / "new") == read_manifest(tmp_path / "undisturbed")[0]


@pytest.mark.slow
def test_changes_that_do_not_fit_are_refused(base: Path, changes: Path, tmp_path: Path) -> None:
    step = changes / "2026-01-05..2026-01-12"

    def refused(error: type[Exception], match: str, *paths: Path, **options: Any) -> None:
        with pytest.raises(error, match=match):
            update(base, paths or [changes], tmp_path / "new", **options)
        assert not (tmp_path / "new").exists()

    refused(SourceError, "No file or folder", tmp_path / "missing")
    refused(InvalidRequest, r"the limit of 0: download and ingest the full", max_steps=0)
    step.rename(changes / "2025-12-29..2026-01-05")
    refused(SourceError, "are for another base: the library at .* has the release 2026-01-05")
    shutil.copytree(changes / "2025-12-29..2026-01-05", changes / "2026-01-12..2026-01-19")
    refused(SourceError, "from 2025-12-29 to 2026-01-05 are followed by those from 2026-01-12")
    (tmp_path / "odd" / "novels" / "updates").mkdir(parents=True)
    refused(SourceError, "novels is not a dataset", tmp_path / "odd")
    bad = lines(tmp_path / "bad" / "papers" / "deletes" / "1.jsonl", *({"id": n} for n in range(20)))
    refused(
        TooManyRejects, "line 1 of papers/deletes/1.jsonl: The line has no valid corpusid", bad.parents[2]
    )


@pytest.mark.slow
def test_differences_without_a_dataset_gave_a_library_of_two_releases(
    base: Path, changes: Path, tmp_path: Path
) -> None:
    """Its citations were those of the old one, and the differences of these were refused afterwards."""
    description = changes / "2026-01-05..2026-01-12" / "diff.json"
    description.write_text('{"datasets": ["papers", "abstracts"]}')
    with pytest.raises(SourceError, match=r"have no citations, .* --datasets abstracts,citations,papers, or"):
        update(base, [changes], tmp_path / "new")
    description.write_text('{"datasets": ["papers", "tldrs", "citations", "abstracts"]}')
    assert update(base, [changes], tmp_path / "new").release == "2026-01-12"
    description.write_text("[]")
    with pytest.raises(SourceError, match=r"diff\.json cannot be read"):
        update(base, [changes], tmp_path / "other")


@pytest.mark.slow
def test_a_damaged_library_became_a_new_one_with_hashes_of_its_own(
    base: Path, changes: Path, tmp_path: Path
) -> None:
    library = copied(base, tmp_path / "base")
    data = (library / "records.sqlite").read_bytes()
    (library / "records.sqlite").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(LibraryCorrupt, match=r"Block 0 of .*records\.sqlite"):
        update(library, [changes], tmp_path / "new")
    (library / "records.sqlite").write_bytes(data)
    with closing(sqlite3.connect(library / "records.sqlite")) as db:
        db.execute("CREATE TRIGGER later AFTER DELETE ON records BEGIN DELETE FROM records; END")
    relist(library)
    with pytest.raises(LibraryCorrupt, match="trigger later"):
        update(library, [changes], tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_libraries_that_cannot_be_updated_are_refused(base: Path, changes: Path, tmp_path: Path) -> None:
    ingest([release(tmp_path / "source")], tmp_path / "lean", rules=IngestRules(records=False))
    assert not (tmp_path / "lean" / "records.sqlite").exists()
    with pytest.raises(InvalidRequest, match="has no source records, which an update needs: ingest it again"):
        update(tmp_path / "lean", [changes], tmp_path / "new")
    with pytest.raises(InvalidRequest, match="is the library that is updated"):
        update(base, [changes], base)
    with pytest.raises(LibraryExists, match="from another base or other changes"):
        update(base, [changes], tmp_path / "lean")
    assert not (tmp_path / "new").exists()
    done = run_cli("update", base, changes, "--library", tmp_path / "new", "--encoder", "arxiv-static-v1")
    assert "has no encoder: leave out --encoder" in done.stderr
    done = run_cli("update", base, changes, "--library", tmp_path / "new")
    assert "1 paper added, 1 changed and 1 removed; 0 encoded." in done.stdout
