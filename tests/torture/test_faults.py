"""The faults of system calls, as a process sees them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scholarbase.errors import StorageError
from torture.crashing import Lane
from torture.faults import Fault, Faults, Point, Unavailable, build

WRITER = """
import os, sys
out = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
try:
    for _ in range(3):
        print(os.write(out, b"four"))
    os.fsync(out)
    os.rename(sys.argv[1], sys.argv[1] + ".new")
except OSError as error:
    print(error.strerror)
"""


@pytest.fixture(scope="module")
def preloaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return build(tmp_path_factory.mktemp("faults"))
    except Unavailable as error:
        pytest.skip(str(error))


@pytest.fixture
def faults(preloaded: Path, tmp_path: Path) -> Faults:
    return Faults(preloaded, tmp_path / "fault")


def written(faults: Faults, folder: Path) -> tuple[int, list[str]]:
    """The status of a process that writes a file in ``folder``, and what it printed."""
    done = subprocess.run(
        [sys.executable, "-u", "-S", "-c", WRITER, str(folder / "file")],
        env=faults.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize(
    ("operation", "number", "action", "status", "printed", "size"),
    [
        ("write", 2, "kill before", -9, ["4"], 4),
        ("write", 2, "kill half", -9, ["4"], 6),
        ("write", 2, "full", 0, ["4", "No space left on device"], 4),
        ("write", 2, "short", 0, ["4", "2", "4"], None),
        ("write", 2, "fail", 0, ["4", "Input/output error"], 4),
        ("sync", 1, "fail", 0, ["4", "4", "4", "Input/output error"], 12),
        ("rename", 1, "kill before", -9, ["4", "4", "4"], 12),
        ("rename", 1, "kill after", -9, ["4", "4", "4"], None),
        ("write", 4, "kill before", 0, ["4", "4", "4"], None),
    ],
)
def test_a_fault_is_taken_at_its_call(
    faults: Faults,
    tmp_path: Path,
    operation: str,
    number: int,
    action: str,
    status: int,
    printed: list[str],
    size: int | None,
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    faults.set(folder, Fault(Point(operation, "file*", 3), number, action))
    assert written(faults, folder) == (status, printed)
    assert faults.taken() == (number < 4)
    left = folder / "file"
    assert (left.stat().st_size if left.exists() else None) == size


def test_a_fault_is_taken_once_and_only_below_its_folder(faults: Faults, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    faults.set(tmp_path / "one", Fault(Point("write", "file", 3), 1, "kill before"))
    assert written(faults, tmp_path / "two")[0] == 0
    assert written(faults, tmp_path / "one")[0] == -9
    assert written(faults, tmp_path / "one")[0] == 0


def test_the_points_of_a_process_are_recorded(faults: Faults, tmp_path: Path) -> None:
    faults.trace(tmp_path)
    assert written(faults, tmp_path)[0] == 0
    found = [point for point in faults.points() if point.operation != "open"]
    assert found == [Point("rename", "file.new", 1), Point("sync", "file", 1), Point("write", "file", 3)]


@pytest.fixture(scope="module")
def lane(preloaded: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lane]:
    with Lane(tmp_path_factory.mktemp("lane") / "none", preloaded, "none") as lane:
        yield lane


@pytest.fixture(scope="module")
def first(lane: Lane) -> Path:
    """A library, whose ingest has failed at three files and was begun again each time."""
    library = lane.work / "first"
    command = (
        "ingest",
        lane.work.parent / "full",
        "--library",
        library,
        "--keep",
        "title",
        "--encoder",
        "none",
    )
    for file in ("catalog.sqlite-wal", "vector-work/terms/*.npy", ".manifest.pending.*.tmp"):
        lane.faults.set(lane.work, Fault(Point("write", f"first/building/{file}", 1), 1, "fail"))
        failed = lane.commands(*command)
        assert lane.faults.taken(), file
        assert failed.status == StorageError.exit_code
        assert "Traceback" not in failed.output
        assert "scholarbase: Cannot write" in failed.output
    lane.faults.clear()
    assert lane.commands(*command).status == 0
    return library


@pytest.mark.slow
def test_an_input_output_error_of_an_ingest_ended_in_a_traceback(first: Path) -> None:
    """Only errors of full and read-only disks were errors with a reason."""
    assert (first / "files.json").exists()


@pytest.mark.slow
def test_a_full_disk_in_the_copy_of_an_update_listed_every_file_and_ended_in_a_traceback(
    lane: Lane, first: Path
) -> None:
    """The copy went on after the first file that failed, and raised an error of its own with all of them."""
    new, sources = lane.work / "second", lane.work.parent
    lane.faults.set(lane.work, Fault(Point("write", "second/building/vectors/segments/*", 1), 1, "full"))
    failed = lane.commands("update", first, sources / "changes", "--library", new)
    assert lane.faults.taken()
    assert failed.status == StorageError.exit_code
    assert "Traceback" not in failed.output
    assert failed.output.count("No space left on device") == 1
    lane.faults.clear()
    assert not new.exists()
    assert lane.commands("update", first, sources / "changes", "--library", new).status == 0
