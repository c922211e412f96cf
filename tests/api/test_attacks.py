"""Requests that took a server too long, or too much memory. Each test is named after what went wrong."""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from scholarbase.api import middleware
from scholarbase.api.access.guard import check_access
from scholarbase.api.access.keys import create_key
from scholarbase.client import Client
from scholarbase.errors import InvalidRequest
from scholarbase.models.limits import MAX_PAPERS
from scholarbase.search.library import Library
from scholarbase.settings import load_settings
from tests.api.raw import SECONDS, connected, read_all, statuses
from tests.conftest import serving, serving_in_thread
from tests.libraries import copied
from tests.sessions.agents import wait_recorded, wait_until


def test_many_prefixes_ran_for_minutes(server: str) -> None:
    for many in ("ab* OR " * 60 + "cd*", "ab* " * 60):
        refused = httpx.get(f"{server}/v1/search", params={"q": many, "syntax": "query"})
        assert refused.status_code == 400
        assert "more than 10 prefixes" in refused.json()["detail"]
    words = " AND ".join(f"w{n}" for n in range(300))
    refused = httpx.get(f"{server}/v1/search", params={"q": words, "syntax": "query"})
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


def test_clients_that_did_not_read_their_responses_kept_others_from_large_searches(sample: Library) -> None:
    words = ("theory", "field", "string", "quantum", "gauge", "space", "model", "group", "black", "matter")
    body = json.dumps({"searches": [{"q": word, "limit": 1000} for word in words]}).encode()
    head = b"POST /v1/search/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with serving_in_thread(sample) as url, ExitStack() as clients:
        for _ in range(3):
            client = clients.enter_context(connected(url))
            client.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        found = httpx.get(f"{url}/v1/search?q=string+theory&limit=200", timeout=SECONDS)
        assert found.status_code == 200


def test_slow_uploads_kept_others_from_sending_large_bodies(
    sample: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(middleware, "SLOW_SECONDS", 1e9)
    head = b"POST /v1/papers/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with serving_in_thread(sample) as url, ExitStack() as clients:
        for end in (b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", b"Content-Length: 8000000\r\n\r\n{"):
            for _ in range(5):
                clients.enter_context(connected(url)).sendall(head + end)
        body = b'{"ids": ["hep-th/9301068"]' + b" " * 90_000 + b"}"
        found = httpx.post(
            f"{url}/v1/papers/batch",
            content=body,
            headers={"Content-Type": "application/json"},
            timeout=SECONDS,
        )
        assert found.status_code == 200
        assert len(found.json()["results"]) == 1


def test_an_error_was_made_for_each_of_many_unknown_keys(server: str) -> None:
    """780,000 unknown keys took 1 GB."""
    refused = httpx.post(f"{server}/v1/search", json={"q": "strings"} | {str(n): 1 for n in range(5000)})
    assert refused.status_code == 400
    assert refused.json()["detail"] == "The request has 5,001 keys: send 100 at most."
    nested = {"searches": [{str(n): 1 for n in range(5000)}]}
    assert "5,000 keys" in httpx.post(f"{server}/v1/search/batch", json=nested).json()["detail"]


def test_a_body_of_many_small_values_took_a_hundred_times_its_size(server: str) -> None:
    many = b'{"q": "strings", "within": [' + b"[]," * 300_000 + b"[]]}"
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    refused = httpx.post(f"{server}/v1/search", content=many, headers=headers)
    assert refused.status_code == 413
    assert "600,006 commas, colons and opening brackets" in refused.json()["detail"]
    call = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "0": [' + b"0," * 100_000 + b"0]}"
    refused = httpx.post(f"{server}/mcp", content=call, headers=headers)
    assert refused.status_code == 413
    assert "100,000 at most" in refused.json()["error"]["message"]


def test_an_invalid_request_was_recorded_whole(sample: Library, tmp_path: Path) -> None:
    headers = {"X-ScholarBase-Session": "s", "Content-Type": "application/json"}
    with serving_in_thread(sample, sessions=str(tmp_path)) as url:
        refused = httpx.post(f"{url}/v1/search", content=json.dumps({"x": "y" * 10**6}), headers=headers)
        assert refused.status_code == 400
        wait_recorded(url, "s")
        lines = httpx.get(f"{url}/v1/sessions/s").text
    assert len(lines) < 10_000
    assert json.loads(lines)["arguments"] == {"not_recorded": 1_000_009}


def test_a_long_title_stopped_the_event_loop(server: str, sample: Library) -> None:
    marks = "a" + "\u0315\u0300" * 10_000
    refused = httpx.post(f"{server}/v1/title-match/batch", json={"titles": [marks]})
    assert refused.status_code == 400
    assert "the maximum is 2,000" in refused.json()["detail"]
    with pytest.raises(InvalidRequest, match="A value of venue has 20,001 characters"):
        sample.search("a", venue=marks)


def test_a_key_file_that_others_could_read_drew_no_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys = tmp_path / "keys.json"
    create_key(keys, "ana")
    for mode, is_warned in ((0o600, False), (0o644, True)):
        keys.chmod(mode)
        check_access(load_settings(keys=str(keys)))
        assert ("chmod 600" in caplog.text) == is_warned


def workers_of(server: int) -> list[int]:
    """The workers, which are forks of the server's first process."""
    children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
    mine = Path(f"/proc/{server}/cmdline").read_bytes()
    return [int(pid) for pid in children if Path(f"/proc/{pid}/cmdline").read_bytes() == mine]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds the workers in /proc")
def test_a_worker_that_cannot_start_was_restarted_for_ever(sample_library: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    copied(sample_library, library)
    said: list[str] = []
    with serving(library, "--workers", "2", said=said, SCHOLARBASE_SESSIONS="none") as (url, process):
        assert httpx.get(f"{url}/healthz", timeout=60).status_code == 200
        wait_until(lambda: len(workers_of(process.pid)) == 2)
        os.kill(workers_of(process.pid)[0], signal.SIGKILL)
        wait_until(lambda: any("ended with status -9" in line for line in said))
        (library / "catalog.sqlite").unlink()
        os.kill(workers_of(process.pid)[-1], signal.SIGKILL)
        assert process.wait(120) != 0
    assert "catalog.sqlite" in said[-1], said[-5:]
    assert "Traceback" not in "".join(said)


@pytest.mark.slow
def test_a_worker_that_started_slowly_was_replaced_for_ever(sample_library: Path, tmp_path: Path) -> None:
    """A worker was killed that did not respond for five seconds."""
    (tmp_path / "sitecustomize.py").write_text("import time; time.sleep(8)")
    said: list[str] = []
    with serving(sample_library, "--workers", "2", said=said, new=True, PYTHONPATH=str(tmp_path)) as (url, _):
        assert httpx.get(f"{url}/readyz", timeout=SECONDS).status_code == 200
    assert "replaces it" not in "".join(said)


@pytest.mark.slow
def test_reading_a_truncated_file_killed_the_process(tmp_path: Path) -> None:
    """SIGBUS ended a server without a word and with a signal, before the check of the sizes."""
    script = """
import mmap, sys
from scholarbase.api.worker import exit_on_bus_errors
exit_on_bus_errors()
with open(sys.argv[1], "w+b") as file:
    file.truncate(8192)
    pages = mmap.mmap(file.fileno(), 8192)
    file.truncate(0)
    pages[5000]
"""
    command = [sys.executable, "-c", script, str(tmp_path / "mapped")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == signal.SIGBUS
    assert "Bus error" in ended.stderr


@pytest.mark.parametrize(
    "body", [b"zz\r\n", b"F" * 18 + b"\r\n", b"2\n{}\n0\n\n", b"2\r\n{}zz", b"5\r\n{"], ids=repr
)
def test_a_malformed_body_was_an_internal_error(server: str, body: bytes) -> None:
    head = b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with connected(server) as client:
        client.sendall(head + body)
        client.shutdown(socket.SHUT_WR)
        assert statuses(read_all(client)) == [400]
