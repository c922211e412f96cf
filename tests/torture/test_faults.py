"""Jobs in which system calls fail."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from scholarbase.errors import StorageError
from torture.crashing import Lane
from torture.faults import Fault, Point, Unavailable, build


@pytest.fixture(scope="module")
def preloaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return build(tmp_path_factory.mktemp("faults"))
    except Unavailable as error:
        pytest.skip(str(error))


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
