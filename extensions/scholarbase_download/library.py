"""A packed library: one file, checked against its published SHA-256."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from scholarbase.errors import DownloadError, InvalidRequest
from scholarbase.ingest.sources import sha256_of
from scholarbase.progress import Reporter, SilentReporter
from scholarbase_download.batches import Links, Planned, announce, download, locked
from scholarbase_download.requests import SHA256, Fetcher, LinkExpired, Patience, address, hash_beside
from scholarbase_download.saving import check_sha256

SUFFIX: Final = ".tar.zst"
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,199}")


def download_library(
    url: str,
    out: Path,
    *,
    expected: str | None = None,
    patience: Patience | None = None,
    reporter: Reporter | None = None,
) -> Path:
    """Download a packed library into the folder ``out``, under its name in ``url``.

    Args:
        expected: the SHA-256 of the file; by default that in the file ``url.sha256`` (as ``sha256sum`` writes it).

    Returns:
        The path of the file, whose hash is ``expected``.

    Raises:
        InvalidRequest: ``url`` or ``expected`` is invalid.
        DownloadError: there is no published hash, the file has another one, or the server fails.
        StorageError: the disk has too little space.
    """
    parts = urlsplit(url)
    name = PurePosixPath(unquote(parts.path)).name
    if parts.scheme not in {"http", "https"} or not name.endswith(SUFFIX) or not _NAME.fullmatch(name):
        raise InvalidRequest(f"{address(url)!r} is not the http or https address of a {SUFFIX} file.")
    if expected is not None and not SHA256.fullmatch(expected):
        raise InvalidRequest(f"--sha256 {expected!r} is not a SHA-256: use 64 hexadecimal digits.")
    with Fetcher(patience) as fetcher, locked(out):
        hashed = expected.lower() if expected else hash_beside(fetcher, url)
        if hashed is None:
            raise DownloadError(
                f"{address(url)}.sha256 does not exist: give the published hash with --sha256."
            )
        path = out / name
        if path.exists():
            if sha256_of(path) == hashed:
                return path
            raise DownloadError(
                f"{path} exists and has another SHA-256 than {hashed}: delete it, or use another --out."
            )
        links = Links(lambda _: url)
        try:
            size = fetcher.probe(url).size
        except LinkExpired as error:
            raise DownloadError(f"{error}: the server refuses the download.") from error
        file = Planned(path, size, check_sha256(hashed))
        announce(out, [file])
        download([file], fetcher, links, name=name, reporter=reporter or SilentReporter())
        return path
