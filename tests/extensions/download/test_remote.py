"""A packed library is read from a server that cuts, refuses and replaces it."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scholarbase.errors import InvalidRequest, SourceChanged, SourceError
from scholarbase_download import opening
from scholarbase_download.requests import Fetcher, Patience
from scholarbase_download.unpacking import unpack
from tests.conftest import run_cli
from tests.extensions.download.archives import files
from tests.extensions.download.servers import Reply, Request, Web


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
        self.validator: dict[str, str] = {"ETag": '"one"'}
        self.hash: bytes | None = f"{hashlib.sha256(data).hexdigest()}  lib.tar.zst\n".encode()
        self.cuts: list[int] = []  # bytes after which the next connections are closed
        self.ranges = True
        self.length: int | None = None
        self.refusals: list[int] = []
        self.replacement: bytes | None = None  # sent from the second request on
        self.wrong_range = False
        self.requests: list[str | None] = []
        self.web = Web(self._answer)

    def _answer(self, request: Request) -> Reply:
        if request.path == "/elsewhere":
            return Reply(status=302, headers={"Location": "/lib.tar.zst"})
        if request.path.endswith(".sha256"):
            return Reply(status=404) if self.hash is None else Reply(self.hash)
        self.requests.append(request.headers.get("range"))
        if self.refusals:
            return Reply(b"no", self.refusals.pop(0))
        if len(self.requests) > 1 and self.replacement is not None:
            self.data, self.validator, self.replacement = self.replacement, {"ETag": '"two"'}, None
        if self.cuts:
            self.web.stops = [self.web.sent + self.cuts.pop(0)]
        if self.wrong_range and len(self.requests) > 1:
            return Reply(
                self.data[1:], 206, {"Content-Range": f"bytes 1-{len(self.data) - 1}/{len(self.data)}"}
            )
        return Reply(self.data, headers=self.validator, ranges=self.ranges, length=self.length)


@contextmanager
def served(place: Place) -> Iterator[str]:
    with place.web.running():
        yield f"{place.web.url}/lib.tar.zst"


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
    for validator in ({"ETag": '"one"'}, {"Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}, {}):
        place = Place(archive)
        place.validator, place.ranges = validator, ranges
        place.cuts = [step] * 9 if ranges else [step, 5 * step]
        with served(place) as url, Fetcher(opening.PATIENCE) as fetcher:
            assert b"".join(fetcher.stream(url)) == archive
        positions = range(1, 10) if ranges else (1, 5)
        assert place.requests == [None, *(f"bytes={step * n}-" for n in positions)]


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
