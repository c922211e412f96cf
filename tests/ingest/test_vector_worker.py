"""The worker that makes the vectors of a library gives the library of a single process, however it is interrupted."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks.memory import process_tree
from scholarbase.databases import open_for_reading, open_for_writing
from scholarbase.errors import VectorIndexError
from scholarbase.indexes.vectors.base import VectorConfig
from scholarbase.indexes.vectors.bm25 import Bm25Parameters, Bm25Text
from scholarbase.ingest import vector_worker
from scholarbase.ingest.bm25_vectors import Texts, bm25_vectors
from scholarbase.ingest.checkpoint import Checkpoint
from scholarbase.memory import cores
from scholarbase.search.verification import verify
from scholarbase.workers import SUBPROCESS_PAPERS, Worker
from tests.ingest.contents import same
from tests.libraries import copied

pytestmark = pytest.mark.slow

SECONDS = 300
WITH_WORKERS = """
import sys
from scholarbase import workers
from scholarbase.cli import main
workers.SUBPROCESS_PAPERS = 1
main(sys.argv[1:])
"""


def start(source: Path, library: Path) -> subprocess.Popen[bytes]:
    arguments = ["ingest", str(source), "--library", str(library), "--shards", "2"]
    return subprocess.Popen([sys.executable, "-c", WITH_WORKERS, *arguments], stderr=subprocess.PIPE)


def wait_for(process: subprocess.Popen[bytes], condition: Callable[[], bool]) -> None:
    ends = time.monotonic() + SECONDS
    while not condition():
        assert process.poll() is None, "the job ended before the instant of the kill"
        assert time.monotonic() < ends
        time.sleep(0.005)


def finish(source: Path, library: Path) -> None:
    process = start(source, library)
    _, error = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, error


def test_a_layout_that_changed_is_the_workers_error(
    default_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Errors of workers keep their class. Files in the working directory are not run as modules."""
    (tmp_path / "tokenizers.py").write_text("raise SystemExit('a file of the user')")
    folder = copied(default_library, tmp_path / "building")
    (folder / "vector-work").mkdir()
    with closing(open_for_writing(folder / "vector-work" / "state.sqlite")) as db:
        checkpoint = Checkpoint(db)
        with checkpoint.transaction():
            checkpoint.set("vectors", 1)
    task = vector_worker.Task(str(tmp_path), str(folder), VectorConfig(dimensions=7).to_dict(), {})
    monkeypatch.chdir(tmp_path)
    with closing(Worker(vector_worker.__name__, asdict(task))) as worker:
        messages = worker.messages("the vector index")
        with pytest.raises(VectorIndexError, match=r"has the layout .*dimensions=256"):
            list(messages)


@pytest.mark.parametrize("papers", [1, SUBPROCESS_PAPERS])
def test_bm25_vectors_of_many_papers_are_those_of_each(default_library: Path, papers: int) -> None:
    """Those behind a paper of a shard, in this process and in a worker."""
    texts = Texts(str(default_library / "catalog.sqlite"), Bm25Parameters().to_dict(), 10, 1, 2)
    with closing(open_for_reading(default_library / "catalog.sqlite")) as db:
        rows = db.execute(
            "SELECT title, abstract FROM papers LEFT JOIN abstracts ON paper_id = id "
            "WHERE id > 10 AND id % 2 = 1 ORDER BY id"
        ).fetchall()
    with closing(bm25_vectors(texts, papers)) as made:
        vectors = [dict(zip(vector.indices, vector.values, strict=True)) for vector in made]
    each = map(Bm25Text().document, *zip(*rows, strict=True))
    assert len(vectors) > 1_000
    assert vectors == [dict(zip(vector.indices, vector.values, strict=True)) for vector in each]


def test_killed_at_three_instants_the_library_is_the_same(
    sharded_library: Path, small_snapshot: Path, tmp_path: Path
) -> None:
    """Before, while and after the first shard is made. tests/ingest/test_job.py stops the count of its terms."""
    library = tmp_path / "library"
    folder = library / "building"
    for instant in ("dense/*.ids.npy", "vectors/*", "vector-work/1-of-2/sums.json"):
        process = start(small_snapshot, library)
        wait_for(process, lambda found=instant: any(folder.glob(found)))  # type: ignore[misc]
        process.kill()
        process.communicate()
        assert not (library / "manifest.json").exists()
    # A worker of the killed job may be inside a call of Qdrant Edge: the next one waits for it.
    finish(small_snapshot, library)
    same(sharded_library, library)
    assert list(verify(library))


def test_a_killed_worker_ends_the_job_and_the_next_run_continues(
    sharded_library: Path, small_snapshot: Path, tmp_path: Path
) -> None:
    library = tmp_path / "library"
    process = start(small_snapshot, library)
    work = library / "building" / "vector-work"
    wait_for(process, lambda: len(list(work.glob("*-of-2/state.sqlite"))) == min(2, cores()))
    worker, *_ = [pid for pid in process_tree(process.pid) if b"ingest.vector_worker" in command_of(pid)]
    os.kill(worker, signal.SIGKILL)
    _, error = process.communicate(timeout=SECONDS)
    assert process.returncode == VectorIndexError.exit_code
    assert b"A process of the vector index ended with status -9" in error
    finish(small_snapshot, library)
    same(sharded_library, library)


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
