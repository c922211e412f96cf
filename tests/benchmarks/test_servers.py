"""Measured servers: their processes, memory, constant responses and end."""

from __future__ import annotations

import time
from pathlib import Path
from urllib.request import urlopen

import pytest

from benchmarks.constant import FOLDER
from benchmarks.servers import ServerError, serving
from tests.api.test_response_cache import counts

pytestmark = pytest.mark.slow


def test_a_server_is_measured_with_all_its_processes_and_ends_with_the_block(sample_library: Path) -> None:
    with serving(sample_library, workers=2) as server:
        processes = server.processes()
        assert server.process.pid in processes
        assert len(processes) >= 3
        memory = server.memory()
        assert memory.pss >= memory.anonymous > 3 * 10_000_000  # an interpreter with numpy has more
        with urlopen(f"{server.url}/readyz") as response:
            assert response.status == 200
    assert server.process.poll() is not None
    deadline = time.monotonic() + 60  # the processes' own tracker of resources ends just after them
    while (left := [pid for pid in processes if _runs(pid)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left
    with pytest.raises(ServerError, match="ended with status"):
        server.processes()


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_equal_requests_are_computed_again(sample_library: Path) -> None:
    with serving(sample_library, workers=1, SCHOLARBASE_RESPONSE_CACHE_MB="0") as server:
        for _ in range(3):
            with urlopen(f"{server.url}/v1/search?q=gauge") as response:
                assert response.status == 200
        assert counts(server.url)["hit"] == 0


def test_a_constant_is_served_by_the_same_application(sample_library: Path, tmp_path: Path) -> None:
    body = b'{"a": "' + b"x" * 3000 + b'"}'
    (tmp_path / "lookup").write_bytes(body)
    environment = {FOLDER: str(tmp_path)}
    with (
        serving(sample_library, workers=2, module="benchmarks.constant", **environment) as server,
        urlopen(f"{server.url}/constant/lookup") as response,
    ):
        assert response.read() == body
        same = {"server", "content-type", "x-request-id", "x-scholarbase-snapshot"}
        assert same <= {name.lower() for name in response.headers}


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    with (
        pytest.raises(ServerError, match=r"did not start \(status [1-9][^)]*\)(.|\n)*No library"),
        serving(tmp_path / "none", workers=1),
    ):
        pass
