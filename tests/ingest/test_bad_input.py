"""Faults of sources, disks and folders: a message and an exit status, or a counted reject."""

import gzip
import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from scholarbase.errors import TooManyRejects
from scholarbase.ingest.checkpoint import Checkpoint
from scholarbase.ingest.records import Reject
from scholarbase.manifest import read_manifest
from scholarbase.search.verification import verify
from tests.conftest import SAMPLE, run_cli, sample_rows
from tests.ingest.contents import rejects, same


@pytest.fixture
def release(tmp_path: Path, small_snapshot: Path) -> Path:
    """A copy of a small release, to damage."""
    return Path(shutil.copytree(small_snapshot, tmp_path / "release"))


def add_lines(shard: Path, *lines: bytes) -> int:
    """Append lines to a shard. Returns the number of the first one, from 1."""
    before = gzip.decompress(shard.read_bytes())
    shard.write_bytes(gzip.compress(before + b"".join(line + b"\n" for line in lines), mtime=0))
    return before.count(b"\n") + 1


def paper(**changes: Any) -> bytes:
    record = (
        next(sample_rows("papers"))
        | {"corpusid": 99_000_001, "externalids": {"ArXiv": "2401.00001"}}
        | changes
    )
    return json.dumps(record).encode()


@pytest.mark.slow
def test_bad_records_are_counted_and_kept_with_their_lines(release: Path, tmp_path: Path) -> None:
    bad = {
        b'{"corpusid": 12, "title"': "bad-json",
        paper(corpusid=None): "no-id",
        paper(title="A" * 100_000): "title-too-long",
        paper(title="TITLE").replace(b"TITLE", b"half a letter \\ud83d"): "bad-unicode",
    }
    number = add_lines(release / "papers" / "00000.gz", *bad, paper())
    library = tmp_path / "library"
    done = run_cli("ingest", release, "--library", library, "--keep", "title")
    assert done.returncode == 0, done.stderr
    assert [(reject["file"], reject["line"], reject["reason"]) for reject in rejects(library)] == [
        ("papers/00000.gz", line, reason) for line, reason in enumerate(bad.values(), number)
    ]
    assert all(reject["detail"] for reject in rejects(library))
    manifest, _ = read_manifest(library)
    assert manifest.rejects == dict.fromkeys(bad.values(), 1)
    # The record after the bad ones is there.
    assert run_cli("paper", "arXiv:2401.00001", "--library", library).returncode == 0


@pytest.mark.slow
def test_a_line_of_64_megabytes_is_rejected(release: Path, tmp_path: Path) -> None:
    add_lines(release / "papers" / "00000.gz", paper(title="A" * 64_000_000))
    assert run_cli("ingest", release, "--library", tmp_path / "library").returncode == 0
    assert [reject["reason"] for reject in rejects(tmp_path / "library")] == ["line-too-long"]


@pytest.mark.slow
def test_edges_to_missing_papers_are_counted(release: Path, tmp_path: Path) -> None:
    inside = gzip.decompress((release / "citations" / "00000.gz").read_bytes()).count(b"\n")
    known = next(sample_rows("papers"))["corpusid"]
    add_lines(
        release / "citations" / "00000.gz",
        json.dumps({"citingcorpusid": str(known), "citedcorpusid": "987654321"}).encode(),
        json.dumps({"citingcorpusid": str(known), "citedcorpusid": None}).encode(),
        json.dumps({"citingcorpusid": str(known), "citedcorpusid": str(known)}).encode(),
    )
    library = tmp_path / "library"
    assert run_cli("ingest", release, "--library", library, "--keep", "title").returncode == 0
    counts = read_manifest(library)[0].counts
    assert counts["citations_outside_the_library"] == 1
    assert counts["citations_with_an_unknown_end"] == 1
    assert counts["lines_citations"] == inside + 3
    assert counts["edges"] + counts["self_citations"] + counts["citations_repeated"] + 2 == inside + 3
    assert list(verify(library))


@pytest.mark.slow
def test_too_many_bad_lines_fail_the_job(release: Path, tmp_path: Path) -> None:
    add_lines(release / "papers" / "00000.gz", *[b"not JSON"] * 200)
    done = run_cli("ingest", release, "--library", tmp_path / "library")
    assert done.returncode == 5
    assert "200 of 350 lines of the dataset papers were rejected" in done.stderr
    assert "SCHOLARBASE_MAX_REJECT_SHARE" in done.stderr
    allowed = run_cli(
        "ingest", release, "--library", tmp_path / "library", SCHOLARBASE_MAX_REJECT_SHARE="0.6"
    )
    assert allowed.returncode == 0, allowed.stderr


@pytest.mark.slow
def test_one_bad_shard_among_good_ones_does_not_fail_the_job(release: Path, tmp_path: Path) -> None:
    good = json.dumps(next(sample_rows("papers"))).encode()
    # By name it is read first, before any good lines.
    (release / "papers" / "0.jsonl").write_bytes(good + b"\n" + b"not JSON\n" * 11)
    add_lines(release / "papers" / "00000.gz", *[paper(corpusid=n) for n in range(1, 500)])
    done = run_cli("ingest", release, "--library", tmp_path / "library")
    assert done.returncode == 0, done.stderr
    assert read_manifest(tmp_path / "library")[0].rejects == {"bad-json": 11}


@pytest.mark.slow
@pytest.mark.parametrize("small_disk", [4], indirect=True)
def test_a_full_disk_is_an_error_and_the_job_continues_when_space_is_freed(
    small_disk: Path, default_library: Path
) -> None:
    library = small_disk / "library"
    sources = (SAMPLE / "s2ag", SAMPLE / "arxiv")
    full = run_cli("ingest", *sources, "--library", library)
    assert full.returncode == 6, full.stderr
    assert str(library) in full.stderr
    assert "run the same command again" in full.stderr
    assert not (library / "manifest.json").exists()
    # Space for the rows, but not for the vectors.
    subprocess.run(["mount", "-o", "remount,size=60m", str(small_disk)], check=True)
    again = run_cli("ingest", *sources, "--library", library)
    assert again.returncode == 6, again.stderr
    assert "MB" in again.stderr
    subprocess.run(["mount", "-o", "remount,size=600m", str(small_disk)], check=True)
    assert run_cli("ingest", *sources, "--library", library).returncode == 0
    same(library, default_library)


def test_missing_sources_and_other_files(tmp_path: Path) -> None:
    missing = run_cli("ingest", tmp_path / "nowhere", "--library", tmp_path / "library")
    assert (missing.returncode, "No file or folder at" in missing.stderr) == (5, True)
    (tmp_path / "notes.jsonl").write_text('{"text": "not a paper"}\n')
    other = run_cli("ingest", tmp_path / "notes.jsonl", "--library", tmp_path / "library")
    assert (other.returncode, "is not a source" in other.stderr) == (5, True)
    assert not (tmp_path / "library").exists()


@pytest.mark.slow
def test_a_truncated_shard_is_no_source(release: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    shard = release / "citations" / "00000.gz"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-100])
    done = run_cli("ingest", release, "--library", library)
    assert done.returncode == 5
    assert str(shard) in done.stderr
    assert "Download it again" in done.stderr
    assert not library.exists()
    shard.write_bytes(whole)
    assert run_cli("ingest", release, "--library", library).returncode == 0
    assert list(verify(library))


@pytest.mark.slow
def test_a_finished_library_is_not_built_again(release: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    assert run_cli("ingest", release, "--library", library).returncode == 0
    before = {path: path.stat().st_mtime_ns for path in library.rglob("*")}
    again = run_cli("ingest", release, "--library", library)
    assert again.returncode == 0
    assert "already complete" in again.stderr
    assert {path: path.stat().st_mtime_ns for path in library.rglob("*")} == before
    other = run_cli("ingest", release, "--library", library, "--keep", "title")
    assert other.returncode == 3
    assert "already has a library" in other.stderr
    assert run_cli("ingest", release, "--library", library, "--keep", "title", "--restart").returncode == 0
    assert read_manifest(library)[0].rules["keep"] == "title"


def test_two_jobs_on_one_library(release: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    (library / "building").mkdir(parents=True)
    # Any process that holds the lock, as a running job does.
    hold = "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.flock(f, 2); print(1, flush=True); input()"
    holder = subprocess.Popen(
        [sys.executable, "-c", hold, str(library / "building" / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    second = run_cli("ingest", release, "--library", library)
    holder.communicate(b"\n")
    assert second.returncode == 3
    assert "Another ingest is writing" in second.stderr


@pytest.mark.parametrize(("allowed", "lines"), [(3, 10), (50, 1000)])
def test_as_many_rejects_as_are_allowed_do_not_stop_a_job(allowed: int, lines: int) -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        checkpoint = Checkpoint(db)
        checkpoint.reject("papers.jsonl", "papers", [(7, Reject("bad-id", "No id."))])
        checkpoint.set("counts", {"lines_papers": lines, "rejects_papers": allowed})
        checkpoint.check_rejects("papers", "lines", 0.05, always=3)
        checkpoint.set("counts", {"lines_papers": lines, "rejects_papers": allowed + 1})
        with pytest.raises(TooManyRejects, match=r"line 7 of papers\.jsonl"):
            checkpoint.check_rejects("papers", "lines", 0.05, always=3)
