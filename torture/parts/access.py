"""Keys, rate limits and the Host header, on servers that Python starts with one and with two workers."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.servers import START_SECONDS, Server, serving
from scholarbase.api.access.keys import create_key
from torture.libraries import sample
from torture.python_server import VARIABLE
from torture.requests import request, routes
from torture.rows import Row, Setting, shown

WORKERS: Final = (1, 2)
PUBLIC: Final = ("/healthz", "/readyz", "/docs", "/openapi.json")
"""Routes that need no key."""
RATE: Final = 60
HOSTS: Final = (
    "evil.example",
    "evil.example:80",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "169.254.1.1",
    "",
)
LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]", "localhost:1")


PROMISES: Final = (
    (
        "A server with keys answers no request without one",
        "each route without, with a wrong and with a right key",
    ),
    ("The rate limit of a key holds over all workers", f"{RATE} a minute, {3 * RATE} requests at once"),
    (
        "A keyless server answers no foreign Host",
        f"each route with {len(HOSTS)} hosts; loopback names are accepted",
    ),
)


def run(setting: Setting) -> list[Row]:
    workers = (2,) if setting.is_slice else WORKERS
    found: list[list[str]] = [[], [], []]
    for number in workers:
        for failures, more in zip(found, (*_keyed(setting, number), _hosts(setting, number)), strict=True):
            failures += [f"with {number} workers, {text}" for text in more]
    started = f"`serve(path, settings)` from Python with {' and '.join(map(str, workers))} workers"
    return [
        Row("access", promise, f"{tested}; {started}", shown(failures) or "no exception", not failures)
        for (promise, tested), failures in zip(PROMISES, found, strict=True)
    ]


@contextmanager
def _python_server(setting: Setting, workers: int, **settings: Any) -> Iterator[Server]:
    content = json.dumps({"sessions": "none"} | settings)
    variables = {VARIABLE: content}
    with serving(
        sample(setting),
        workers=workers,
        module="torture.python_server",
        start_seconds=START_SECONDS,
        **variables,
    ) as server:
        yield server


def _bearer(key: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {key}"}


def _keyed(setting: Setting, workers: int) -> tuple[list[str], list[str]]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "keys.json"
        key, _ = create_key(file, "ana")
        admin, _ = create_key(file, "prometheus", role="admin")
        limited, _ = create_key(file, "bob", rate=RATE)
        with _python_server(setting, workers, keys=str(file)) as server:
            return _keys(setting, server.url, key, admin), _rates(server.url, limited)


def _keys(setting: Setting, url: str, key: str, admin: str) -> list[str]:
    failures = []
    for method, path, body in routes(url, _bearer(key)):
        if path in PUBLIC:
            continue
        for _ in range(setting.count(5, 1)):
            for headers in ({}, _bearer("sb_wrong"), _bearer(key + "x")):
                status = request(url, method, path, body, headers=headers).status
                if status != 401:
                    failures.append(f"{method} {path} without a valid key: {status}")
    for _ in range(setting.count(20, 4)):
        for path, secret, expected in (
            ("/v1/snapshot", key, 200),
            ("/metrics", key, 403),
            ("/metrics", admin, 200),
        ):
            status = request(url, "GET", path, headers=_bearer(secret)).status
            if status != expected:
                failures.append(f"{path} with a key: {status} instead of {expected}")
    return failures


def _rates(url: str, key: str) -> list[str]:
    failures = []
    began = time.monotonic()
    answers = [request(url, "GET", "/v1/snapshot", headers=_bearer(key)) for _ in range(3 * RATE)]
    seconds = time.monotonic() - began
    accepted = sum(answer.status == 200 for answer in answers)
    if not RATE <= accepted <= RATE + 1 + seconds * RATE / 60:
        failures.append(f"{accepted} requests accepted in {seconds:.1f} s")
    others = {answer.status for answer in answers} - {200, 429}
    if others:
        failures.append(f"other statuses: {others}")
    if any("retry-after" not in answer.headers for answer in answers if answer.status == 429):
        failures.append("429 without Retry-After")
    return failures


def _hosts(setting: Setting, workers: int) -> list[str]:
    failures = []
    with _python_server(setting, workers) as server:
        operations = [
            *routes(server.url),
            ("GET", "/docs", None),
            ("GET", "/openapi.json", None),
            ("POST", "/mcp", {}),
        ]
        for method, path, body in operations:
            for host in HOSTS[: setting.count(len(HOSTS), 2)]:
                for _ in range(workers):
                    status = request(server.url, method, path, body, headers={"Host": host}).status
                    if status is None or not 400 <= status < 500 or status in (404, 405, 406):
                        failures.append(f"{method} {path} with Host {host!r}: {status}")
        for host in LOOPBACK:
            status = request(server.url, "GET", "/v1/snapshot", headers={"Host": host}).status
            if status != 200:
                failures.append(f"Host {host!r}: {status}")
    return failures
