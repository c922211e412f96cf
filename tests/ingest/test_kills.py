"""An ingest that is killed at random times and restarted ends with the same library."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scholarbase.errors import LibraryCorrupt, LibraryNotFound
from scholarbase.manifest import FILE_NAME
from scholarbase.search.library import Library
from scholarbase.search.verification import verify
from tests.conftest import SAMPLE, run_cli
from tests.encoders.tiny_bge_m3 import make_tiny_bge_m3
from tests.ingest.contents import same
from tests.packages import need

pytestmark = pytest.mark.slow

SMALL_BATCHES = """
import sys
from scholarbase.cli import main
from scholarbase.indexes.vectors import edge
from scholarbase import workers
from scholarbase.ingest import encoding, reading, text, vectors
reading.LINES_PER_COMMIT, vectors.POINTS_PER_UPSERT, vectors.UPSERTS_PER_FLUSH = 100, 50, 2
text.ROWS_PER_COMMIT, workers.SUBPROCESS_PAPERS = 100, 1
edge.SEGMENT_POINTS, edge.DENSE_SEGMENT_POINTS = 330, 770
encoding.DOCUMENTS_PER_PART = 64
main(sys.argv[1:])
"""
"""The command line with small batches, so that kills occur between and during many commits."""

SOURCES = (SAMPLE / "s2ag", SAMPLE / "arxiv")


def start(library: Path, *options: str | Path) -> subprocess.Popen[bytes]:
    arguments = ["ingest", *map(str, SOURCES), "--library", str(library), *map(str, options)]
    return subprocess.Popen([sys.executable, "-c", SMALL_BATCHES, *arguments], stderr=subprocess.DEVNULL)


def wait_until_started(process: subprocess.Popen[bytes], library: Path) -> None:
    while process.poll() is None and not (library / "building" / "catalog.sqlite").exists():
        time.sleep(0.005)


def seconds_of_work(library: Path, *options: str | Path) -> float:
    """Build a library without kills. Returns the seconds from its first write to its end."""
    process = start(library, *options)
    wait_until_started(process, library)
    began = time.monotonic()
    assert process.wait(timeout=300) == 0
    return time.monotonic() - began


def killed_and_finished(
    library: Path, kills: int, seed: int, work: float, *options: str | Path
) -> list[set[str]]:
    """Kill an ingest ``kills`` times at random times, then run it to its end.

    Returns the names in its folder at each kill.
    """
    chance = random.Random(seed)
    seen = []
    for _ in range(kills):
        process = start(library, *options)
        wait_until_started(process, library)
        time.sleep(chance.uniform(0, 2 * work / kills))
        process.kill()
        process.wait()
        seen.append({entry.name for entry in library.iterdir()})
    assert start(library, *options).wait(timeout=300) == 0
    return seen


def test_killed_six_times_the_library_is_the_same(tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    work = seconds_of_work(whole)
    seen = killed_and_finished(broken, 6, 20, work)
    # Files get their final names only when all are complete.
    assert all(names == {"building"} or FILE_NAME in names for names in seen)
    assert {"building"} in seen, "no kill fell inside the job"
    same(whole, broken)
    assert list(verify(broken))


def test_killed_while_encoding_the_library_is_the_same(tmp_path: Path) -> None:
    need("FlagEmbedding")
    model = make_tiny_bge_m3(tmp_path / "tiny-bge-m3")
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    work = seconds_of_work(whole, "--encoder", model)
    killed_and_finished(broken, 1, 4, work, "--encoder", model)
    same(whole, broken)


@pytest.mark.parametrize("moved", [0, 1, 2, 3, 4, 5, 6, 7])
def test_killed_between_two_final_moves(tmp_path: Path, moved: int) -> None:
    """The last step moves five entries, the manifest and the list of files: the next run completes these moves."""
    interrupt = f"""
import sys
from pathlib import Path
from scholarbase.cli import main
moves, replace = 0, Path.replace
def counted(self, target):
    global moves
    if Path(target).parent.name == "library":
        if moves == {moved}:
            import os, signal
            os.kill(os.getpid(), signal.SIGKILL)
        moves += 1
    return replace(self, target)
Path.replace = counted
main(sys.argv[1:])
"""
    library = tmp_path / "library"
    arguments = ["ingest", str(SAMPLE / "arxiv"), "--library", str(library)]
    first = subprocess.run([sys.executable, "-c", interrupt, *arguments], capture_output=True, check=False)
    if moved == 7:
        assert first.returncode == 0
    else:
        assert first.returncode == -9
        assert (library / FILE_NAME).exists() == (moved == 6)
        assert not (library / "files.json").exists()
        with pytest.raises((LibraryNotFound, LibraryCorrupt), match=r"not finished|no files\.json"):
            Library.open(library)
        second = subprocess.run(
            [sys.executable, "-m", "scholarbase.cli", *arguments], capture_output=True, check=False
        )
        assert second.returncode == 0, second.stderr
    assert not (library / "building").exists()
    assert list(verify(library))


def test_a_killed_replacement_continues(tmp_path: Path) -> None:
    """After a kill, an ingest with --restart is continued with and without --restart."""
    library, whole = tmp_path / "library", tmp_path / "whole"
    first = subprocess.run(
        [sys.executable, "-m", "scholarbase.cli", "ingest", str(SAMPLE / "s2ag"), "--library", str(library)],
        capture_output=True,
        check=False,
    )
    assert first.returncode == 0
    assert start(whole).wait(timeout=300) == 0
    process = start(library, "--restart")
    wait_until_started(process, library)
    catalog = library / "building" / "catalog.sqlite"
    while process.poll() is None and catalog.stat().st_size < 500_000:
        time.sleep(0.005)
    process.kill()
    process.wait()
    begun = (library / "building" / "catalog.sqlite").stat().st_ino
    # Until the new library is complete, the old one is valid.
    assert list(verify(library))
    process = start(library)
    wait_until_started(process, library)
    assert (library / "building" / "catalog.sqlite").stat().st_ino == begun
    assert process.wait(timeout=300) == 0
    same(whole, library)


def test_a_library_sealed_by_another_command_is_published_as_that_one(tmp_path: Path) -> None:
    library = tmp_path / "library"
    stop = """
import sys
from scholarbase.ingest import folder
from scholarbase.cli import main
def killed(self):
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)
folder.BuildFolder.publish = killed
main(sys.argv[1:])
"""
    arguments = ["ingest", str(SAMPLE / "arxiv"), "--library", str(library)]
    assert subprocess.run([sys.executable, "-c", stop, *arguments], check=False).returncode == -9
    other = run_cli("ingest", SAMPLE / "s2ag", "--library", library)
    assert other.returncode == 3
    assert "from other sources" in other.stderr
    # The sealed library is complete and published.
    assert run_cli(*arguments).returncode == 0
