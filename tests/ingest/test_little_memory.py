"""Ingests in little address space: a real process with a limit, which has to end with a reason, and to resume."""

import subprocess
import sys
from pathlib import Path

import pytest

from scholarbase.errors import OutOfMemory
from scholarbase.manifest import FILE_NAME
from tests.conftest import SAMPLE, run_cli

SOURCES = (SAMPLE / "s2ag", SAMPLE / "arxiv")
MB = 1 << 20
INGEST = "from scholarbase.cli import main; main()"
SHORT_OF_MEMORY_AT_THE_VECTORS = (
    f"from scholarbase.ingest import vectors; vectors.BUILD_BYTES = 1 << 50; {INGEST}"
)


def limited(megabytes: int, script: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a script with a limit of its address space. Raises TimeoutExpired if it hangs."""
    size = megabytes * MB
    # Set in the process itself: in a fork of this one, threads of other tests' libraries may abort.
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({size}, {size})); "
    return subprocess.run(
        [sys.executable, "-c", limit + script, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


# Below 1,400 MB it ended with a traceback or a signal; with 1,500 to 1,700 MB Qdrant waited for its own lock.
@pytest.mark.parametrize(
    "megabytes", [700, pytest.param(64, marks=pytest.mark.slow), pytest.param(1700, marks=pytest.mark.slow)]
)
def test_an_ingest_in_little_address_space_ends_with_a_reason_instead_of_waiting_forever(
    megabytes: int, tmp_path: Path
) -> None:
    library = tmp_path / "library"
    done = limited(megabytes, INGEST, "ingest", *SOURCES, "--library", library)
    assert done.returncode == OutOfMemory.exit_code, done.stderr
    assert done.stderr.startswith("scholarbase: An ingest needs about ")
    assert f"but the limit of {megabytes:,} MB leaves" in done.stderr
    assert done.stderr.endswith("raise the limit with ulimit -v, or remove it.\n")
    assert not library.exists()


@pytest.mark.slow
def test_a_server_in_little_address_space_ends_with_a_reason(tmp_path: Path) -> None:
    done = limited(1200, INGEST, "serve", "--library", tmp_path, "--port", "0")
    assert done.returncode == OutOfMemory.exit_code, done.stderr
    assert "A server needs about " in done.stderr
    assert "but the limit of 1,200 MB leaves" in done.stderr


@pytest.mark.slow
def test_an_ingest_without_address_space_for_the_vectors_resumes_without_the_limit(
    small_snapshot: Path, tmp_path: Path
) -> None:
    command = ("ingest", small_snapshot, "--library", tmp_path / "library")
    done = limited(32_000, SHORT_OF_MEMORY_AT_THE_VECTORS, *command)
    assert done.returncode == OutOfMemory.exit_code, done.stderr
    assert "The vector index needs about " in done.stderr
    assert "Traceback" not in done.stderr
    again = run_cli(*command)
    assert again.returncode == 0, again.stderr
    assert "Continuing the unfinished library" in again.stderr
    assert (tmp_path / "library" / FILE_NAME).is_file()


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault", ["raise MemoryError", 'raise RuntimeError("can\'t start new thread")'], ids=["memory", "thread"]
)
def test_a_failed_allocation_is_an_error_with_a_reason_and_the_ingest_resumes(
    fault: str, small_snapshot: Path, tmp_path: Path
) -> None:
    script = f"""
from scholarbase.cli import main
from scholarbase.ingest import job
def fail(*_):
    {fault}
job.encode_papers = fail
main()
"""
    command = ("ingest", small_snapshot, "--library", tmp_path / "library")
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, command)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == OutOfMemory.exit_code, done.stderr
    assert "scholarbase: There is not enough memory (" in done.stderr
    assert "Traceback" not in done.stderr
    assert run_cli(*command).returncode == 0
