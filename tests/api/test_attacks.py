"""Requests that took a server too long, or too much memory. Each test is named after what went wrong."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import httpx
import pytest

from scholarbase.api.access.keys import create_key
from scholarbase.client import Client
from scholarbase.errors import InvalidRequest
from scholarbase.models.limits import MAX_PAPERS
from scholarbase.search.library import Library
from tests.conftest import serving
from tests.sessions.agents import wait_recorded, wait_until


def test_many_prefixes_ran_for_minutes(server: str) -> None:
    for many in ("ab* OR " * 60 + "cd*", "ab* " * 60):
        refused = httpx.get(f"{server}/v1/search", params={"q": many, "engine": "fts5"})
        assert refused.status_code == 400
        assert "more than 10 prefixes" in refused.json()["detail"]
    words = " AND ".join(f"w{n}" for n in range(300))
    refused = httpx.get(f"{server}/v1/search", params={"q": words})
    assert "more than 256 words" in refused.json()["detail"]
    assert httpx.get(f"{server}/v1/search", params={"q": "strin* AND quant* NOT grav*"}).status_code == 200


def test_a_batch_returned_a_hundred_thousand_papers(server: str, sample: Library) -> None:
    searches = [{"q": "strings", "limit": 1000}] * 11
    refused = httpx.post(f"{server}/v1/search/batch", json={"searches": searches})
    assert refused.status_code == 400
    assert f"11,000 papers, and the maximum in one response is {MAX_PAPERS:,}" in refused.json()["detail"]
    titles = {"titles": ["string theory"] * 101, "limit": 100}
    assert httpx.post(f"{server}/v1/title-match/batch", json=titles).status_code == 400
    with Client(server) as client:  # splits them
        assert client.search_batch([dict(one, fields="title") for one in searches]) == sample.search_batch(
            [dict(one, fields="title") for one in searches]
        )
        assert len(client.match_titles(["string theory"] * 101, limit=100, fields="title")) == 101


def test_an_invalid_request_was_recorded_whole(sample_library: Path, tmp_path: Path) -> None:
    headers = {"X-ScholarBase-Session": "s", "Content-Type": "application/json"}
    with serving(sample_library, SCHOLARBASE_SESSIONS=str(tmp_path)) as (url, _):
        refused = httpx.post(f"{url}/v1/search", content=json.dumps({"x": "y" * 10**6}), headers=headers)
        assert refused.status_code == 400
        wait_recorded(url, "s")
        lines = httpx.get(f"{url}/v1/sessions/s").text
    assert len(lines) < 10_000
    assert json.loads(lines)["arguments"] == {"body": "1,000,009 bytes, not recorded"}


def test_a_long_title_stopped_the_event_loop(server: str, sample: Library) -> None:
    marks = "a" + "\u0315\u0300" * 10_000
    refused = httpx.post(f"{server}/v1/title-match/batch", json={"titles": [marks]})
    assert refused.status_code == 400
    assert "the maximum is 2,000" in refused.json()["detail"]
    with pytest.raises(InvalidRequest, match="A value of venue has 20,001 characters"):
        sample.search("a", venue=marks)


def test_sighup_stopped_a_server(sample_library: Path) -> None:
    with serving(sample_library) as (url, process):
        os.kill(process.pid, signal.SIGHUP)
        assert httpx.get(f"{url}/healthz").status_code == 200
        assert process.poll() is None


def test_a_key_file_that_others_could_read_drew_no_warning(sample_library: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    create_key(keys, "ana")
    for mode, is_warned in ((0o600, False), (0o644, True)):
        keys.chmod(mode)
        said: list[str] = []
        with serving(sample_library, said=said, SCHOLARBASE_KEYS=str(keys)):
            pass
        assert any("chmod 600" in line for line in said) == is_warned


def workers_of(server: int) -> list[int]:
    children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
    return [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds the workers in /proc")
def test_a_worker_that_cannot_start_was_restarted_for_ever(sample_library: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    shutil.copytree(sample_library, library)
    said: list[str] = []
    with serving(library, "--workers", "2", said=said, SCHOLARBASE_SESSIONS="none") as (url, process):
        assert httpx.get(f"{url}/healthz", timeout=60).status_code == 200
        wait_until(lambda: len(workers_of(process.pid)) == 2)
        os.kill(workers_of(process.pid)[0], signal.SIGKILL)
        wait_until(lambda: any("ended with status -9" in line for line in said))
        (library / "catalog.sqlite").unlink()
        os.kill(workers_of(process.pid)[-1], signal.SIGKILL)
        assert process.wait(120) != 0
        wait_until(lambda: any("A worker could not start" in line for line in said))
    assert any("A worker cannot start" in line for line in said)
