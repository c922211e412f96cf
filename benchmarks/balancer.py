"""haproxy over servers, with the configuration of docker/nodes: for tests and measurements."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from benchmarks.postgres import ProgramMissing
from benchmarks.servers import ROOT

CONFIGURATION: Path = ROOT / "docker" / "nodes" / "haproxy.cfg"


@contextmanager
def balancing(*urls: str) -> Iterator[str]:
    """The URL of a balancer over servers.

    Raises:
        ProgramMissing: haproxy is not installed.
    """
    program = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        raise ProgramMissing("haproxy is not installed (in Debian: apt-get install haproxy).")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    environment = {"LISTEN": address, "RESOLVER": "127.0.0.1:53"} | {
        f"API_{number}": urlsplit(url).netloc for number, url in enumerate(urls, 1)
    }
    general = CONFIGURATION.read_text().partition("    server ")[0]
    servers = [f'    server api-{number} "${{API_{number}}}"\n' for number in range(1, len(urls) + 1)]
    with tempfile.NamedTemporaryFile("w", suffix=".cfg") as file:
        file.write(general + "".join(servers))
        file.flush()
        yield from _running([program, "-q", "-db", "-f", file.name], environment, address)


def _running(command: list[str], environment: dict[str, str], address: str) -> Iterator[str]:
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                if httpx.get(f"http://{address}/readyz").status_code == 200:
                    break
            except httpx.HTTPError:
                pass
            assert process.poll() is None, process.stderr.read().decode() if process.stderr else ""
            assert time.monotonic() < deadline, "the balancer is not ready"
            time.sleep(0.05)
        yield f"http://{address}"
    finally:
        process.terminate()
        process.communicate(timeout=60)
