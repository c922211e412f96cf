"""A build in partitions gives the library of a single build, however it is interrupted."""

from __future__ import annotations

import lzma
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.memory import process_tree
from scholarbase.encoders import Encoder, open_encoder
from scholarbase.errors import EncoderMismatch, InvalidRequest, VectorIndexError
from scholarbase.indexes.filters import NO_FILTERS
from scholarbase.indexes.vectors.base import BM25, VectorConfig
from scholarbase.indexes.vectors.edge import EdgeIndex, EdgeWriter
from scholarbase.ingest import partition
from scholarbase.ingest.job import ingest
from scholarbase.manifest import Manifest
from scholarbase.models.encoders import PACKAGED
from scholarbase.search.library import Library
from scholarbase.search.verification import verify
from scholarbase.workers import run_workers
from tests.conftest import SAMPLE, run_cli
from tests.ingest.contents import same
from tests.libraries import copied

QUERIES = ("neural machine translation", "dark matter halos", "graph theory", '"black hole" AND entropy')
SECONDS = 300


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return open_encoder(PACKAGED)


def build(
    library: Path, encoder: Encoder | None, number: int, sources: Sequence[Path], **options: Any
) -> Manifest:
    location = PACKAGED if encoder is not None else None
    return ingest(sources, library, encoder=encoder, encoder_location=location, partitions=number, **options)


class Stages:
    """A reporter that keeps the names of stages."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    @contextmanager
    def stage(self, name: str, unit: str, total: int | None, done: int = 0) -> Iterator[Stages]:
        self.names.add(name)
        yield self

    def advance(self, count: int) -> None: ...

    def at(self, done: int) -> None: ...


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, small_snapshot: Path, encoder: Encoder) -> Path:
    """A single build of the small snapshot."""
    library = tmp_path_factory.mktemp("small") / "library"
    build(library, encoder, 1, sources=[small_snapshot])
    return library


@pytest.fixture(scope="module")
def parted(tmp_path_factory: pytest.TempPathFactory, small_snapshot: Path, encoder: Encoder) -> Path:
    """The same in two partitions."""
    library, stages = tmp_path_factory.mktemp("parted") / "library", Stages()
    with pytest.MonkeyPatch.context() as patch:
        # Files in the working directory are not run as modules.
        (library.parent / "tokenizers.py").write_text("raise SystemExit('a file of the user')")
        patch.chdir(library.parent)
        build(library, encoder, 2, sources=[small_snapshot], reporter=stages)
    names = ("encode 1/2", "encode 2/2", "index vectors 1/2", "index vectors 2/2", "hash content 2/2")
    assert stages.names.issuperset(names)
    return library


def answers(library: Path) -> list[object]:
    """Lists and scores of searches in all modes; those of dense vectors are exact."""
    found: list[object] = []
    with Library.open(library) as opened:
        for text in QUERIES:
            for mode in ("sparse", "dense", "hybrid"):
                response = opened.search(text, mode=mode, limit=50, exact=mode != "sparse")
                found.append([(hit.paper.id, hit.score) for hit in response.results])
        response = opened.search("lattice", to="2010", category=["hep-lat"], limit=50)
        found.append([(hit.paper.id, hit.score) for hit in response.results])
    return found


def test_two_partitions_give_the_library_of_one(small: Path, parted: Path) -> None:
    same(small, parted)
    assert list(verify(parted))
    first, second = answers(small), answers(parted)
    assert first == second
    assert any(first), "no search found anything"


@pytest.mark.slow
def test_a_library_of_partitions_can_be_changed(parted: Path, tmp_path: Path) -> None:
    """Segments of different partitions have different numbers of operations."""
    shard = tmp_path / "vectors"
    copied(parted / "vectors", shard)
    with closing(EdgeIndex.open(shard, view=False)) as index:
        config, before = index.config, index.count(NO_FILTERS)
        ids = list(index.ids())
        points = {point.id: point for batch in index.points() for point in batch}
    removed = [ids[0], ids[before // 2], ids[-1]]
    moved = points[ids[1]]
    writer = EdgeWriter.open(shard, config)
    writer.delete(removed)
    writer.upsert([moved])
    writer.finish()
    writer.close()
    with closing(EdgeIndex.open(shard, view=False)) as index:
        assert index.count(NO_FILTERS) == before - 3
        assert list(index.ids()) == [number for number in ids if number not in removed]
        assert index.search_sparse(BM25, moved.sparse[BM25], 1, NO_FILTERS)[0].id == moved.id


@pytest.mark.slow
def test_partitions_without_an_encoder(small_snapshot: Path, tmp_path: Path) -> None:
    build(tmp_path / "one", None, 1, [small_snapshot])
    build(tmp_path / "three", None, 3, [small_snapshot])
    same(tmp_path / "one", tmp_path / "three")


@pytest.mark.slow
def test_partitions_with_vectors_computed_elsewhere(
    encoder: Encoder, small: Path, small_snapshot: Path, tmp_path: Path
) -> None:
    """One process reads the vectors, and each partition takes its own."""
    with closing(EdgeIndex.open(small / "vectors")) as index:
        held = [
            (point.id, point.dense) for batch in index.points() for point in batch if point.dense is not None
        ]
    with closing(sqlite3.connect(small / "catalog.sqlite")) as db:
        arxiv_ids = dict(db.execute("SELECT id, arxiv_id FROM papers"))
    folder = tmp_path / "vectors"
    folder.mkdir()
    np.save(folder / "vectors.npy", np.array([vector for _, vector in held], np.float32))
    (folder / "ids.txt").write_text("".join(f"{arxiv_ids[number]}\n" for number, _ in held))
    build(tmp_path / "one", encoder, 1, [small_snapshot], vectors=folder)
    build(tmp_path / "three", encoder, 3, [small_snapshot], vectors=folder)
    same(tmp_path / "one", tmp_path / "three")


def test_a_senseless_number_of_partitions_is_refused(tmp_path: Path) -> None:
    for number in (0, 257):
        done = run_cli("ingest", SAMPLE / "arxiv", "--library", tmp_path / "library", "--partitions", number)
        assert done.returncode == InvalidRequest.exit_code
        assert f"--partitions is {number}: it must be a number from 1 to 256" in done.stderr
    assert not (tmp_path / "library").exists()


def test_more_partitions_than_papers_are_refused_and_fewer_continue(tmp_path: Path) -> None:
    source = tmp_path / "few.json"
    with lzma.open(SAMPLE / "arxiv" / "arxiv-metadata-sample.jsonl.xz") as file:
        source.write_bytes(b"".join(file.readline() for _ in range(5)))
    with pytest.raises(InvalidRequest, match="has 5 papers: give 5 or fewer"):
        ingest([source], tmp_path / "library", partitions=6)
    assert ingest([source], tmp_path / "library").counts["points"] == 5


@pytest.mark.slow
def test_an_encoder_that_changed_is_the_workers_error(small: Path, tmp_path: Path) -> None:
    """Errors of workers keep their class."""
    task = partition.Task(
        library=str(tmp_path), catalog=str(small / "catalog.sqlite"), path=str(tmp_path / "000"), first=1,
        last=10, config=VectorConfig(dimensions=256).to_dict(), bm25={}, dense=None, encoder=PACKAGED,
        fingerprint="another", tokenizer=False,
    )  # fmt: skip
    with pytest.raises(EncoderMismatch, match="changed since this ingest began"):
        run_workers(partition.__name__, [asdict(task)], lambda number, message: None, what="a partition")


# -- kills ----------------------------------------------------------------------------------------------


def start(source: Path, library: Path, number: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "scholarbase.cli", "ingest", str(source)]
    return subprocess.Popen(
        [*command, "--library", str(library), "--partitions", str(number)], stderr=subprocess.PIPE
    )


def wait_for(process: subprocess.Popen[bytes], condition: Callable[[], bool]) -> None:
    ends = time.monotonic() + SECONDS
    while not condition():
        assert process.poll() is None, "the job ended before the instant of the kill"
        assert time.monotonic() < ends
        time.sleep(0.005)


def finish(source: Path, library: Path, number: int) -> None:
    process = start(source, library, number)
    _, error = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, error


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


@pytest.mark.slow
def test_killed_at_five_instants_the_library_is_the_same(
    small: Path, small_snapshot: Path, tmp_path: Path
) -> None:
    library = tmp_path / "library"
    folder = library / "building" / "partitions"
    for instant in ("000/state.sqlite", "00?/dense/*.ids.npy", "00?/vectors", "00?/terms", "00?/result.json"):
        process = start(small_snapshot, library, 2)
        wait_for(process, lambda found=instant: any(folder.glob(found)))  # type: ignore[misc]
        kill(process)
        assert not (library / "manifest.json").exists()
    # A worker of the killed job may be inside a call of Qdrant Edge: the next one waits for it.
    finish(small_snapshot, library, 2)
    same(small, library)


@pytest.mark.slow
def test_killed_while_segments_are_moved_and_continued_with_other_partitions(
    small: Path, small_snapshot: Path, tmp_path: Path
) -> None:
    library = tmp_path / "library"
    interrupt = """
import os, signal, sys
from pathlib import Path
from typing import Any
from scholarbase.cli import main
replace = Path.replace
moved = []
def counted(self, target):
    if "segments" in Path(target).parts:
        if len(moved) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        moved.append(target)
    return replace(self, target)
Path.replace = counted
main(sys.argv[1:])
"""
    arguments = ["ingest", str(small_snapshot), "--library", str(library), "--partitions", "4"]
    done = subprocess.run([sys.executable, "-c", interrupt, *arguments], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    finish(small_snapshot, library, 1)
    same(small, library)


@pytest.mark.slow
def test_a_killed_worker_ends_the_job_and_the_next_run_continues(
    small: Path, small_snapshot: Path, tmp_path: Path
) -> None:
    library = tmp_path / "library"
    process = start(small_snapshot, library, 2)
    wait_for(process, (library / "building" / "partitions" / "001" / "state.sqlite").exists)
    workers = [pid for pid in process_tree(process.pid) if b"ingest.partition" in command_of(pid)]
    assert len(workers) == 2
    os.kill(workers[0], signal.SIGKILL)
    _, error = process.communicate(timeout=SECONDS)
    assert process.returncode == VectorIndexError.exit_code
    assert b"A process of a partition ended with status -9" in error
    finish(small_snapshot, library, 2)
    same(small, library)


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
