"""A packed library is read from a server that cuts, refuses and replaces it."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from scholarbase.errors import InvalidRequest, LibraryCorrupt, SourceChanged, SourceError
from scholarbase_download import opening
from scholarbase_download.requests import Fetcher, Patience
from scholarbase_download.unpacking import unpack
from tests.conftest import run_cli
from tests.extensions.download.archives import files


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "PATIENCE", Patience(retries=5, backoff=0.001))


@pytest.fixture(scope="module")
def archive(light_file: Path) -> bytes:
    return light_file.read_bytes()


class Place:
    """What a server has at ``/lib.tar.zst``, and how it sends it. ``requests`` has the ranges of its requests."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.validator: tuple[str, str] | None = ("ETag", '"one"')
        self.hash: bytes | None = f"{hashlib.sha256(data).hexdigest()}  lib.tar.zst\n".encode()
        self.cuts: list[int] = []  # bytes after which the next connections are closed
        self.ranges = True
        self.length = True
        self.refusals: list[int] = []
        self.replacement: bytes | None = None  # sent from the second request on
        self.wrong_range = False
        self.requests: list[str | None] = []

    def respond(self, handler: BaseHTTPRequestHandler) -> None:
        path = handler.path.partition("?")[0]
        if path == "/elsewhere":
            handler.send_response(302)
            handler.send_header("Location", "/lib.tar.zst")
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        if path.endswith(".sha256"):
            cuts, self.cuts = self.cuts, []
            self._send(handler, 404 if self.hash is None else 200, self.hash or b"", {})
            self.cuts = cuts
            return
        wanted = handler.headers.get("Range")
        self.requests.append(wanted)
        if self.refusals:
            self._send(handler, self.refusals.pop(0), b"no", {})
            return
        if len(self.requests) > 1 and self.replacement is not None:
            self.data, self.validator, self.replacement = self.replacement, ("ETag", '"two"'), None
        fields = dict([self.validator]) if self.validator else {}
        same = handler.headers.get("If-Range") in (None, *fields.values())
        start = re.fullmatch(r"bytes=(\d+)-", wanted or "")
        if start and self.ranges and same:
            first = int(start[1]) + self.wrong_range
            fields["Content-Range"] = f"bytes {first}-{len(self.data) - 1}/{len(self.data)}"
            self._send(handler, 206, self.data[first:], fields)
        else:
            self._send(handler, 200, self.data, fields)

    def _send(
        self, handler: BaseHTTPRequestHandler, status: int, data: bytes, fields: dict[str, str]
    ) -> None:
        handler.send_response(status)
        for name, value in fields.items():
            handler.send_header(name, value)
        if self.length:
            handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data[: self.cuts.pop(0)] if self.cuts and status < 300 else data)
        handler.close_connection = True


@contextmanager
def served(place: Place) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            place.respond(self)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/lib.tar.zst"
        finally:
            server.shutdown()
            thread.join(60)


@pytest.mark.slow
def test_a_library_is_unpacked_from_a_url(archive: bytes, light_library: Path, tmp_path: Path) -> None:
    place = Place(archive)
    with served(place) as url:
        done = run_cli("unpack", url, "--library", tmp_path / "library")
        assert done.returncode == 0, done.stderr
        assert "no known hash" not in done.stderr
        unpack(
            url.replace("lib.tar.zst", "elsewhere"), tmp_path / "library"
        )  # it is there, found by a redirect
    assert files(tmp_path / "library") == files(light_library)
    assert place.requests == [None, None]


@pytest.mark.parametrize("ranges", [True, False])
def test_a_body_that_is_cut_goes_on_where_it_ended(archive: bytes, ranges: bool) -> None:
    """With ranges, from the last byte on; without them, the server sends the start again."""
    step = len(archive) // 10 + 1
    for validator in (("ETag", '"one"'), ("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT"), None):
        place = Place(archive)
        place.validator, place.ranges = validator, ranges
        place.cuts = [step] * 9 if ranges else [step, 5 * step]
        with served(place) as url, Fetcher(opening.PATIENCE) as fetcher:
            assert b"".join(fetcher.stream(url)) == archive
        positions = range(1, 10) if ranges else (1, 5)
        assert place.requests == [None, *(f"bytes={step * n}-" for n in positions)]


@pytest.mark.slow
def test_a_cut_body_without_a_length_is_refused(archive: bytes, tmp_path: Path) -> None:
    """Then only the content shows that it is cut."""
    place = Place(archive)
    place.cuts, place.length = [len(archive) // 2], False
    with served(place) as url, pytest.raises(LibraryCorrupt, match="damaged"):
        unpack(url, tmp_path / "library")
    assert not (tmp_path / "library").exists()


def test_a_file_that_is_replaced_while_it_is_read_is_refused(archive: bytes, tmp_path: Path) -> None:
    place = Place(archive)
    place.cuts, place.replacement = [len(archive) // 2], archive[::-1]
    with served(place) as url, pytest.raises(SourceChanged, match="was replaced"):
        unpack(url, tmp_path / "library")
    assert not (tmp_path / "library").exists()


def test_a_range_that_was_not_requested_is_refused(archive: bytes, tmp_path: Path) -> None:
    place = Place(archive)
    place.cuts, place.wrong_range = [len(archive) // 2], True
    with served(place) as url, pytest.raises(SourceError, match="Content-Range"):
        unpack(url, tmp_path / "library")


def test_a_server_that_never_goes_on_is_given_up(archive: bytes, tmp_path: Path) -> None:
    place = Place(archive)
    place.cuts = [0] * 9
    with served(place) as url, pytest.raises(SourceError, match="is cut off again and again"):
        unpack(url, tmp_path / "library")
    assert len(place.requests) == 6


@pytest.mark.slow
def test_refusals(archive: bytes, light_library: Path, tmp_path: Path) -> None:
    place = Place(archive)
    place.refusals = [503, 429]
    with served(place) as url:
        unpack(url, tmp_path / "library")
        place.refusals = [403]
        with pytest.raises(SourceError, match="returned 403") as refused:
            unpack(url.replace("//", "//user:secret@") + "?token=secret", tmp_path / "other")
        assert "secret" not in str(refused.value)
    assert files(tmp_path / "library") == files(light_library)
    with pytest.raises(SourceError, match="does not respond"):
        unpack(url, tmp_path / "other")
    with pytest.raises(InvalidRequest, match="not a valid URL"):
        unpack("http://", tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
def test_the_hash_beside_the_url_is_compared(archive: bytes, tmp_path: Path) -> None:
    place = Place(archive)
    place.hash = b"0" * 64 + b"  lib.tar.zst\n"
    with served(place) as url:
        with pytest.raises(LibraryCorrupt, match=hashlib.sha256(archive).hexdigest()):
            unpack(url, tmp_path / "library")
        place.hash = b"<html>" * 100_000
        with pytest.raises(SourceError, match="sha256sum"):
            unpack(url, tmp_path / "library")
        place.hash = None
        unpack(url, tmp_path / "library")
