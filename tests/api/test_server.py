"""Serving processes: how they start, share a library, log, stop and die."""

import asyncio
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from granian.server.mp import WorkerProcess

from scholarbase.api.access.keys import create_key
from scholarbase.asgi import Workers, options
from scholarbase.http import listen
from scholarbase.search.library import Library
from tests.api.raw import connected
from tests.api.test_attacks import workers_of
from tests.conftest import ROOT, run_cli, serving, serving_in_thread
from tests.sessions.agents import wait_until


def search(url: str) -> bytes:
    response = httpx.get(f"{url}/v1/search", params={"q": "string theory"}, timeout=120)
    assert response.status_code == 200, response.text
    return response.content


def test_responses_equal_the_librarys_bytes(server: str, sample: Library) -> None:
    response = httpx.get(f"{server}/v1/search", params={"q": "string theory", "limit": 3, "fields": "title"})
    assert response.json() == sample.search("string theory", limit=3, fields=["title"]).to_dict()
    assert response.headers["x-scholarbase-snapshot"] == sample.snapshot_id
    assert response.headers["content-type"] == "application/json"


def test_only_long_responses_are_compressed(server: str) -> None:
    long = httpx.get(f"{server}/v1/search", params={"q": "string theory", "limit": 50})
    assert long.headers["content-encoding"] == "gzip"
    assert int(long.headers["content-length"]) < len(long.content) / 2
    plain = httpx.get(
        f"{server}/v1/search", params={"q": "string theory", "limit": 50}, headers={"Accept-Encoding": ""}
    )
    assert "content-encoding" not in plain.headers
    assert plain.content == long.content
    assert "content-encoding" not in httpx.get(f"{server}/healthz").headers


def test_head_is_get_without_the_body(server: str) -> None:
    for path in ("/healthz", "/v1/snapshot", "/v1/search?q=string+theory&limit=50"):
        head, get = httpx.head(server + path), httpx.get(server + path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"] == get.headers["content-type"]
    assert httpx.head(f"{server}/v1/papers/CorpusId:999").status_code == 404
    assert httpx.head(f"{server}/v1/expand").status_code == 405


def test_metrics_count_requests_by_route(server: str) -> None:
    def counted() -> dict[str, float]:
        lines = httpx.get(f"{server}/metrics").text.splitlines()
        return {
            line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
            for line in lines
            if not line.startswith("#")
        }

    found = 'scholarbase_requests_total{method="GET",route="/v1/papers/{paper_id}",status="200"}'
    found = found.replace("{paper_id}", "{paper_id:path}")
    before = counted()
    for _ in range(3):
        httpx.get(f"{server}/v1/papers/hep-th/9302103")
    httpx.get(f"{server}/v1/papers/CorpusId:999")
    after = counted()
    assert after[found] - before.get(found, 0) == 3
    missing = found.replace('"200"', '"404"')
    assert after[missing] - before.get(missing, 0) == 1


def test_metrics_show_snapshot_queue_memory_files_restarts_and_sessions(
    sample: Library, tmp_path: Path
) -> None:
    with serving_in_thread(sample, sessions=str(tmp_path)) as url:
        httpx.get(
            f"{url}/v1/papers/hep-th/9302103", headers={"X-ScholarBase-Session": "s"}
        ).raise_for_status()
        httpx.get(f"{url}/v1/sessions").raise_for_status()
        text = httpx.get(f"{url}/metrics").text
    assert f'scholarbase_snapshot_info{{snapshot="{sample.snapshot_id}"}} 1.0' in text
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(values["scholarbase_queue_requests"]) == 0
    assert float(values["scholarbase_worker_restarts_total"]) == 0
    assert float(values["scholarbase_sessions_bytes"]) >= 512
    assert float(values[f'scholarbase_memory_bytes{{pid="{os.getpid()}"}}']) > 10_000_000
    assert float(values[f'scholarbase_open_files{{pid="{os.getpid()}"}}']) > 5


def test_unknown_methods_share_one_metrics_series(server: str) -> None:
    """Each word sent as a method created a series."""
    for method in ("BREW", "WHEN", "TRACE"):
        assert httpx.request(method, f"{server}/healthz").status_code in (400, 405)
    text = httpx.get(f"{server}/metrics").text
    assert "BREW" not in text
    assert "TRACE" not in text
    assert 'method="other"' in text


@pytest.mark.slow
def test_a_server_logs_requests_and_stops_cleanly(sample_library: Path, tmp_path: Path) -> None:
    said: list[str] = []
    at = {"TMPDIR": str(tmp_path), "SCHOLARBASE_RUNTIME_DIR": str(tmp_path)}
    with serving(sample_library, said=said, **at) as (url, process):
        assert f" Open {url}/ in a browser, or try the API at {url}/docs." in "".join(said)
        assert httpx.get(f"{url}/").headers["content-type"].startswith("text/html")
        mine = httpx.get(f"{url}/healthz", headers={"X-Request-ID": "asked-by-me-1"})
        assert mine.headers["x-request-id"] == "asked-by-me-1"
        generated = httpx.get(f"{url}/v1/papers/CorpusId:999").headers["x-request-id"]
        assert len(generated) == 32
        # An id that could break the log line is replaced.
        odd = httpx.get(f"{url}/healthz", headers={"X-Request-ID": "two words"}).headers["x-request-id"]
        assert odd != "two words"
        stop(process, signal.SIGTERM)
    lines = [line for line in said if " id=" in line]
    assert any("GET /healthz 200" in line and line.endswith("id=asked-by-me-1\n") for line in lines)
    assert any("GET /v1/papers/CorpusId:999 404" in line and generated in line for line in lines)
    assert sum(odd in line for line in lines) == 1
    assert not [line for line in said if "Traceback" in line or "ERROR" in line]
    assert not list(tmp_path.iterdir()), "temporary files were not removed"


@pytest.mark.slow
def test_metrics_are_those_of_all_workers_and_a_signal_stops_them(
    sample_library: Path, tmp_path: Path
) -> None:
    said: list[str] = []
    at = {"TMPDIR": str(tmp_path), "SCHOLARBASE_RUNTIME_DIR": str(tmp_path)}
    with serving(sample_library, "--workers", "2", said=said, **at) as (url, process):
        wait_until(lambda: len(workers_of(process.pid)) == 2)
        for _ in range(40):  # new connections, which both workers accept
            assert httpx.get(f"{url}/v1/papers/hep-th/9302103").status_code == 200
        for _ in range(10):
            text = httpx.get(f"{url}/metrics").text
            counted = 'scholarbase_requests_total{method="GET",route="/v1/papers/{paper_id:path}",status="200"} 40.0'
            assert counted in text
        stop(process, signal.SIGINT)
    assert not [line for line in said if "Traceback" in line or "ERROR" in line]
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/healthz")
    assert not list(tmp_path.iterdir()), "temporary files were not removed"


def stop(process: subprocess.Popen[str], by: signal.Signals) -> None:
    process.send_signal(by)
    process.wait(timeout=120)
    assert process.returncode == 0


def test_a_worker_that_had_ended_was_reported_as_killed(caplog: pytest.LogCaptureFixture) -> None:
    """Another thread had waited for the process, and not stored its status yet."""
    with listen("127.0.0.1", 0) as listener:
        server = Workers([listener], workers_kill_timeout=30, **options(10))
        worker = WorkerProcess(server, 0, os.getpid, ())  # type: ignore[no-untyped-call]
        worker.inner.start()
        server.wrks.append(worker)
        os.waitpid(worker.inner.pid, 0)
        assert worker.inner.is_alive()
        with caplog.at_level(logging.WARNING):
            server._stop_workers()
    assert not caplog.records
    assert not server.wrks


def test_a_worker_that_ignores_the_signal_is_killed(caplog: pytest.LogCaptureFixture) -> None:
    with listen("127.0.0.1", 0) as listener:
        server = Workers([listener], workers_kill_timeout=1, **options(10))
        worker = WorkerProcess(server, 0, ignore_sigterm, ())  # type: ignore[no-untyped-call]
        worker.inner.start()
        server.wrks.append(worker)
        time.sleep(0.5)  # until it ignores the signal
        server._stop_workers()
    assert worker.inner.exitcode == -signal.SIGKILL
    assert "has not ended 1 seconds after" in caplog.text


def ignore_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)


def test_addresses_that_cannot_be_used_are_errors(sample_library: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_cli("serve", "--library", sample_library, "--port", str(port))
    assert done.returncode == 9
    assert f"Port {port} on 127.0.0.1 is in use" in done.stderr
    assert "--port" in done.stderr
    done = run_cli("serve", "--library", sample_library, "--port", "99999")
    assert (done.returncode, "SCHOLARBASE_PORT is 99999" in done.stderr, "Opening" in done.stderr) == (
        2,
        True,
        False,
    )
    for host in ("192.0.2.1", "a" * 64):  # of another machine; a label that is too long for a name
        done = run_cli("serve", "--library", sample_library, "--port", "0", "--host", host, "--public")
        assert done.returncode == 9
        assert f"{host!r} is not an address" in done.stderr or f"Cannot listen on {host} " in done.stderr


def test_a_folder_for_workers_that_cannot_be_used_is_an_error(sample_library: Path, tmp_path: Path) -> None:
    folder = tmp_path / "absent"
    done = run_cli("serve", "--library", sample_library, "--port", "0", SCHOLARBASE_RUNTIME_DIR=str(folder))
    assert done.returncode == 6, done.stderr
    assert "Cannot write" in done.stderr
    assert f"{folder}" in done.stderr
    assert "SCHOLARBASE_RUNTIME_DIR" in done.stderr


@pytest.mark.slow
def test_a_server_that_stops_accepts_no_connections(sample_library: Path) -> None:
    """They waited in the sockets of other processes until the last request ended."""
    with serving(sample_library, "--workers", "2") as (url, process), connected(url) as client:
        client.sendall(b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n")
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: is_refused(url))
        assert process.poll() is None
        process.kill()


def is_refused(url: str) -> bool:
    try:
        with connected(url):
            return False
    except ConnectionResetError:  # the socket was closed meanwhile
        return False
    except ConnectionRefusedError:
        return True


async def test_connections_have_tcp_nodelay() -> None:
    """Without TCP_NODELAY, Nagle's algorithm and delayed acknowledgements cost every call some 40 ms."""
    options: list[int] = []

    async def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted = writer.get_extra_info("socket")
        options.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    listener = listen("127.0.0.1", 0)
    async with await asyncio.start_server(connected, sock=listener):
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        assert await reader.read() == b""
        writer.close()
    assert options == [1]


FROM_PYTHON = """
import sys
from pathlib import Path

from scholarbase.api.server import serve
from scholarbase.logs import configure
from scholarbase.settings import load_settings

if __name__ == "__main__":
    library, keys, workers = sys.argv[1:]
    configure("info")
    settings = load_settings(keys=keys, workers=int(workers), port=0, sessions="none", max_body_bytes=2000)
    serve(Path(library), settings)
"""


@pytest.mark.slow
def test_serving_from_python_enforces_the_callers_keys(sample_library: Path, tmp_path: Path) -> None:
    """Two workers read their settings from the environment, so the caller's keys were not enforced."""
    key, _ = create_key(tmp_path / "keys.json", "ana")
    (tmp_path / "serve.py").write_text(FROM_PYTHON)
    with subprocess.Popen(
        [sys.executable, tmp_path / "serve.py", sample_library, tmp_path / "keys.json", "2"],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    ) as process:
        assert process.stderr is not None
        try:
            address = next(
                m[1] for line in process.stderr if (m := re.search(r" at (http://\S+) with", line))
            )
            for _ in range(20):  # both workers
                assert httpx.get(f"{address}/v1/snapshot", timeout=60).status_code == 401
            headers = {"Authorization": f"Bearer {key}"}
            assert httpx.get(f"{address}/v1/snapshot", headers=headers, timeout=60).status_code == 200
            refused = httpx.post(f"{address}/v1/search", headers=headers, json={"q": "x" * 3000}, timeout=60)
            assert refused.status_code == 413
        finally:
            process.terminate()
            process.stderr.read()
