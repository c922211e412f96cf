"""A library from elsewhere that names locations and code: none is used (docs/trust.md)."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Final

import orjson

from scholarbase.errors import EncoderError
from tests.libraries import relist
from torture.libraries import command, copy, dense, environment
from torture.rows import Row, Setting, shown

FIELDS: Final = ("location", "query_location")
SECRET: Final = "a-secret-of-the-user"
PROMISE: Final = "A library's encoder address is not used: it is shown, with exit status 7"


def run(setting: Setting) -> Iterator[Row]:
    original = dense(setting)
    if original is None:
        yield Row("hostile", PROMISE, "needs a library with vectors", "torch is not installed", None)
        return
    library = copy(original, setting.work / "hostile")
    marker = setting.work / "ran"
    marker.unlink(missing_ok=True)
    with _listening() as (url, requests):
        locations = [
            f"{url}/v1#m",
            str(_model(setting.work / "evil", marker)),
            "evil/model",
            "unix:/tmp/a.sock",
        ]
        wrong = [
            text
            for field in FIELDS
            for place in locations
            for text in _opened(library, field, place, setting)
        ]
        wrong += [f"a request: {line}" for line in requests]
    if marker.exists():
        wrong.append("the Python file of a model folder ran")
    tested = f"URL, socket, hub name, and folder with Python in {len(FIELDS)} fields; 3 commands"
    yield Row("hostile", PROMISE, tested, shown(wrong) or "all refused, no request, no key sent", not wrong)


def _model(folder: Path, marker: Path) -> Path:
    """A model's folder that names a Python file as its only module."""
    folder.mkdir(exist_ok=True)
    (folder / "modules.json").write_bytes(
        orjson.dumps([{"idx": 0, "name": "0", "path": "", "type": "evil.Evil"}])
    )
    (folder / "evil.py").write_text(
        f"open({str(marker)!r}, 'w').close()\nclass Evil: pass\n", encoding="utf-8"
    )
    return folder


def _opened(library: Path, field: str, location: str, setting: Setting) -> list[str]:
    """What is wrong with the commands that open a library with this location."""
    about = library / "encoder.json"
    original = about.read_bytes()
    named = orjson.loads(original) | {field: location}
    about.write_bytes(orjson.dumps(named))
    relist(library)
    wrong = []
    for arguments in (
        ("search", "strings", "--library", library),
        ("serve", "--library", library, "--port", "0"),
        ("update", library, library, "--library", setting.work / "hostile-next"),
    ):
        status, output = _run(*arguments)
        if (
            status != EncoderError.exit_code
            or not any(named[name] in output for name in FIELDS if name in named)
            or SECRET in output
        ):
            wrong.append(f"{arguments[0]} with {field} {location}: status {status}, {output[-100:]}")
    about.write_bytes(original)
    return wrong


def _run(*arguments: str | Path) -> tuple[int, str]:
    done = subprocess.run(
        command(*arguments),
        env=environment(SCHOLARBASE_ENCODER_API_KEY=SECRET),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@contextmanager
def _listening() -> Iterator[tuple[str, list[str]]]:
    """A server that records the requests that it gets."""
    requests: list[str] = []

    class Recorder(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            requests.append(self.requestline)
            self.send_error(400)

        do_GET = do_POST

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Recorder) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", requests
        finally:
            server.shutdown()
            thread.join()
