"""A packed library is read from a server that cuts, refuses and replaces it."""

from pathlib import Path

import pytest

from scholarbase.errors import InvalidRequest, SourceChanged, SourceError
from scholarbase_download import opening
from scholarbase_download.requests import Fetcher, Patience
from scholarbase_download.unpacking import unpack
from tests.conftest import succeeded
from tests.extensions.download.archives import files
from tests.extensions.download.servers import PackedLibrary


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "PATIENCE", Patience(retries=5, backoff=0.001))


@pytest.fixture(scope="module")
def archive(light_file: Path) -> bytes:
    return light_file.read_bytes()


@pytest.mark.slow
def test_a_library_is_unpacked_from_a_url(archive: bytes, light_library: Path, tmp_path: Path) -> None:
    place = PackedLibrary(archive)
    with place.web.running():
        done = succeeded("unpack", place.url, "--library", tmp_path / "library")
        assert "no known hash" not in done.stderr
        unpack(f"{place.web.url}/elsewhere", tmp_path / "library")  # it is there, found by a redirect
    assert files(tmp_path / "library") == files(light_library)
    assert place.requests == [None, None]


@pytest.mark.parametrize("ranges", [True, False])
def test_a_body_that_is_cut_goes_on_where_it_ended(archive: bytes, ranges: bool) -> None:
    """With ranges, from the last byte on; without them, the server sends the start again."""
    step = len(archive) // 10 + 1
    for validator in ({"ETag": '"one"'}, {"Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}, {}):
        place = PackedLibrary(archive)
        place.headers, place.ranges = validator, ranges
        place.cuts = [step] * 9 if ranges else [step, 5 * step]
        with place.web.running(), Fetcher(opening.PATIENCE) as fetcher:
            assert b"".join(fetcher.stream(place.url)) == archive
        positions = range(1, 10) if ranges else (1, 5)
        assert place.requests == [None, *(f"bytes={step * n}-" for n in positions)]


def test_a_file_that_is_replaced_while_it_is_read_is_refused(archive: bytes, tmp_path: Path) -> None:
    place = PackedLibrary(archive)
    place.cuts, place.replacement = [len(archive) // 2], archive[::-1]
    with place.web.running(), pytest.raises(SourceChanged, match="was replaced"):
        unpack(place.url, tmp_path / "library")
    assert not (tmp_path / "library").exists()


def test_a_range_that_was_not_requested_is_refused(archive: bytes, tmp_path: Path) -> None:
    place = PackedLibrary(archive)
    place.cuts, place.wrong_range = [len(archive) // 2], True
    with place.web.running(), pytest.raises(SourceError, match="Content-Range"):
        unpack(place.url, tmp_path / "library")


def test_a_server_that_never_goes_on_is_given_up(archive: bytes, tmp_path: Path) -> None:
    place = PackedLibrary(archive)
    place.cuts = [0] * 9
    with place.web.running(), pytest.raises(SourceError, match="is cut off again and again"):
        unpack(place.url, tmp_path / "library")
    assert len(place.requests) == 6


@pytest.mark.slow
def test_refusals(archive: bytes, light_library: Path, tmp_path: Path) -> None:
    place = PackedLibrary(archive)
    place.refusals = [503, 429]
    with place.web.running():
        unpack(place.url, tmp_path / "library")
        place.refusals = [403]
        with pytest.raises(SourceError, match="returned 403") as refused:
            unpack(place.url.replace("//", "//user:secret@") + "?token=secret", tmp_path / "other")
        assert "secret" not in str(refused.value)
    assert files(tmp_path / "library") == files(light_library)
    with pytest.raises(SourceError, match="does not respond"):
        unpack(place.url, tmp_path / "other")
    with pytest.raises(InvalidRequest, match="not a valid URL"):
        unpack("http://", tmp_path / "other")
    assert not (tmp_path / "other").exists()
