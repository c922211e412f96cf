"""A packed library, from a server with its published hash."""

import hashlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scholarbase.errors import DownloadError, InvalidRequest, SourceChanged, StorageError
from scholarbase_download.library import download_library
from scholarbase_download.requests import Fetcher
from scholarbase_download.saving import fetch
from tests.extensions.download.servers import QUICK, PackedLibrary, contents, run_killed
from tests.forks import run_fork

BODY = random.Random(1).randbytes(60_000)
SHA = hashlib.sha256(BODY).hexdigest()


@pytest.fixture
def host() -> Iterator[PackedLibrary]:
    found = PackedLibrary(BODY)
    with found.web.running():
        yield found


def download(host: PackedLibrary, out: Path, **options: Any) -> Path:
    return download_library(host.url, out, **{"patience": QUICK, **options})


def test_a_library_is_downloaded(host: PackedLibrary, tmp_path: Path) -> None:
    path = download(host, tmp_path / "new")
    assert path == tmp_path / "new" / "papers.tar.zst"
    assert path.read_bytes() == BODY
    sent = host.web.sent
    assert download(host, tmp_path / "new") == path
    assert host.web.sent - sent == len(host.hash or b"")


def test_the_hash_of_the_command_comes_first(host: PackedLibrary, tmp_path: Path) -> None:
    host.hash = None
    with pytest.raises(DownloadError, match=r"give the published hash with --sha256"):
        download(host, tmp_path)
    assert download(host, tmp_path, expected=SHA.upper()).read_bytes() == BODY


def test_a_wrong_hash_is_an_error(host: PackedLibrary, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=f"its SHA-256 is {SHA}, not {'0' * 64}"):
        download(host, tmp_path, expected="0" * 64)
    assert contents(tmp_path) == {}


def test_a_file_with_another_hash_is_not_replaced(host: PackedLibrary, tmp_path: Path) -> None:
    (tmp_path / "papers.tar.zst").write_bytes(b"mine")
    with pytest.raises(DownloadError, match="exists and has another SHA-256"):
        download(host, tmp_path)
    assert (tmp_path / "papers.tar.zst").read_bytes() == b"mine"


@pytest.mark.parametrize(
    "url", ["ftp://a/b.tar.zst", "http://a/b.zip", "b.tar.zst", "http://a/..tar.zst", "http://a/"]
)
def test_an_address_of_something_else_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(InvalidRequest, match=r"is not the http or https address of a \.tar\.zst file"):
        download_library(url, tmp_path, patience=QUICK)


def test_a_server_that_does_not_respond_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="does not respond"):
        download_library("http://127.0.0.1:9/a.tar.zst", tmp_path, patience=QUICK)


@pytest.mark.parametrize(
    ("ranges", "headers"),
    [
        (True, {"ETag": '"one"'}),
        (True, {"Last-Modified": "Mon, 06 Jul 2026 10:00:00 GMT"}),
        (True, {"ETag": 'W/"weak"'}),
        (False, {"ETag": '"one"'}),
    ],
)
def test_bodies_that_are_cut_off_at_ten_random_points(
    host: PackedLibrary, tmp_path: Path, ranges: bool, headers: dict[str, str]
) -> None:
    host.ranges, host.headers = ranges, headers
    host.web.stops = sorted(random.Random(2).sample(range(100, len(BODY)), 10))
    assert download(host, tmp_path).read_bytes() == BODY
    assert host.web.stops == []


def test_a_file_that_changed_is_not_joined_with_the_old_one(host: PackedLibrary, tmp_path: Path) -> None:
    host.web.stops = [30_000]
    with pytest.raises(DownloadError, match="is cut off again and again"):
        download(host, tmp_path, patience=type(QUICK)(retries=0))
    assert (tmp_path / "papers.tar.zst.part").stat().st_size > 20_000
    host.data = random.Random(2).randbytes(60_000)
    host.headers = {"ETag": '"two"'}
    host.hash = hashlib.sha256(host.data).hexdigest().encode()
    sent = host.web.sent
    assert download(host, tmp_path).read_bytes() == host.data
    assert host.web.sent - sent < 60_200  # downloaded once


def test_a_part_of_an_unknown_file_is_not_continued(host: PackedLibrary, tmp_path: Path) -> None:
    (tmp_path / "papers.tar.zst.part").write_bytes(bytes(30_000))
    assert download(host, tmp_path).read_bytes() == BODY
    assert host.web.sent < 60_200  # downloaded once


def test_a_body_without_an_end_filled_the_disk(host: PackedLibrary, tmp_path: Path) -> None:
    host.data = BODY * 2
    host.length = -1
    with pytest.raises(SourceChanged, match="sends more than its 60,000 bytes"):
        fetch(
            Fetcher(QUICK),
            host.url,
            tmp_path / "file",
            size=len(BODY),
            check=lambda path: None,
            progress=lambda received, position: None,
        )


def test_only_one_download_writes_to_a_folder(host: PackedLibrary, tmp_path: Path) -> None:
    errors: list[Exception] = []

    def second() -> bool:
        try:
            download(host, tmp_path)
        except DownloadError as error:
            errors.append(error)
        return False

    host.web.stop = second
    host.web.stops = [30_000]
    download(host, tmp_path)
    assert [str(error) for error in errors] == [
        f"Another download is writing to {tmp_path}: wait until it ends, or stop it."
    ]


def test_a_disk_too_small_is_said_before_it_starts(host: PackedLibrary, tmp_path: Path) -> None:
    host.length = 10**15
    with pytest.raises(StorageError, match=r"needs 1,000,000\.0 GB in .* Nothing was downloaded"):
        download(host, tmp_path)
    assert contents(tmp_path) == {}


MODULE = "scholarbase_download.library"


def script(host: PackedLibrary, out: Path) -> str:
    return f"""
from pathlib import Path
from scholarbase_download.library import download_library
download_library({host.url!r}, Path({str(out)!r}))
"""


@pytest.mark.slow
def test_a_disk_that_becomes_full_is_an_error_and_the_download_continues(
    host: PackedLibrary, tmp_path: Path
) -> None:
    limited = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
"""
    done = run_fork(code=limited + script(host, tmp_path), imports=[MODULE])
    assert "StorageError: Cannot write" in done.stderr
    assert "run the same command again" in done.stderr
    part = (tmp_path / "papers.tar.zst.part").stat().st_size
    assert 0 < part <= 40_000
    sent = host.web.sent
    assert download(host, tmp_path).read_bytes() == BODY
    assert host.web.sent - sent < len(BODY) - part + 200


@pytest.mark.slow
def test_a_download_killed_at_ten_random_points(host: PackedLibrary, tmp_path: Path) -> None:
    points = random.Random(5).choices(range(1, 8000), k=10)
    assert run_killed(host.web, script(host, tmp_path), MODULE, points) == 10
    assert contents(tmp_path) == {"papers.tar.zst": BODY}
