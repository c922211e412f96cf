"""Lists of files to download: the disk space and time that they need, and their download one after the other."""

from __future__ import annotations

import gzip
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from scholarbase.errors import DownloadError, StorageError
from scholarbase.files import DECOMPRESSION_ERRORS, atomic_write, free_space, locked_folder, storage_errors
from scholarbase.progress import Reporter
from scholarbase_download.requests import Fetcher, LinkExpired
from scholarbase_download.saving import PART, Check, Damaged, bytes_in, fetch

_PIECE: Final = 1 << 20
_PARQUET: Final = b"PAR1"
"""The first and last bytes of a Parquet file."""
_RENEWALS: Final = 3
"""New links for one file in a row, without a new byte."""

log = logging.getLogger("scholarbase.download")


class Planned(NamedTuple):
    """A file to download.

    Attributes:
        path: its final path.
        size: bytes.
        check: the check of the whole file.
    """

    path: Path
    size: int
    check: Check

    @property
    def is_whole(self) -> bool:
        return self.path.exists() and self.path.stat().st_size == self.size

    @property
    def missing(self) -> int:
        """The bytes that are not on disk."""
        if self.is_whole:
            return 0
        return max(self.size - bytes_in(self.path.with_name(self.path.name + PART)), 0)


class Links(NamedTuple):
    """Where files are.

    Attributes:
        of: the URL of a file.
        renew: called when the storage host refuses the URL of a file; None if links do not expire.
    """

    of: Callable[[Planned], str]
    renew: Callable[[Planned], None] | None = None


def locked(folder: Path) -> AbstractContextManager[None]:
    """Create a folder, and keep other downloads out of it.

    Raises:
        DownloadError: another process is downloading into it.
    """
    busy = DownloadError(f"Another download is writing to {folder}: wait until it ends, or stop it.")
    return locked_folder(folder, busy)


def write_state(path: Path, content: object) -> None:
    """Write a file of JSON atomically, in a folder that is created."""
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as out:
            out.write(orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def read_state(path: Path) -> dict[str, Any]:
    """What :func:`write_state` wrote; empty without a file."""
    state: dict[str, Any] = orjson.loads(path.read_bytes()) if path.exists() else {}
    return state


def announce(folder: Path, files: Sequence[Planned]) -> None:
    """Log the disk space that files need.

    Raises:
        StorageError: there is too little free space.
    """
    needed = sum(file.missing for file in files)
    check_space(folder, needed)
    log.info(
        "%s files, %s, of which %s are on disk; %s to download, %s free in %s",
        f"{len(files):,}",
        gigabytes(sum(file.size for file in files)),
        f"{sum(file.is_whole for file in files):,}",
        gigabytes(needed),
        gigabytes(free_space(folder)),
        folder,
    )


def check_space(folder: Path, needed: int) -> None:
    """Raises StorageError: fewer than ``needed`` bytes are free where ``folder`` is or will be."""
    free = free_space(folder)
    if needed > free:
        raise StorageError(
            f"The download needs {gigabytes(needed)} in {folder}, and {gigabytes(free)} are free: free "
            f"{gigabytes(needed - free)}, or choose another folder with --out. Nothing was downloaded."
        )


def download(
    files: Sequence[Planned], fetcher: Fetcher, links: Links, *, name: str, reporter: Reporter
) -> None:
    """Download the files that are not whole.

    Args:
        name: the stage, for the display of the progress.

    Raises:
        DownloadError, StorageError: as :func:`.fetch`.
    """
    total = sum(file.size for file in files)
    done = sum(file.size for file in files if file.is_whole)
    with reporter.stage(name, "bytes", total, total - sum(file.missing for file in files)) as tracker:
        for file in files:
            if file.is_whole:
                continue

            def report(received: int, position: int, before: int = done) -> None:
                tracker.advance(received)
                tracker.at(before + position)

            def request(file: Planned = file, report: Callable[[int, int], None] = report) -> None:
                fetch(fetcher, links.of(file), file.path, size=file.size, check=file.check, progress=report)

            _with_new_links(file, links, request)
            done += file.size


def _with_new_links(file: Planned, links: Links, request: Callable[[], None]) -> None:
    """Send a request for a file, and again with a new link while the storage host refuses the old one."""
    refused = 0
    while True:
        missing = file.missing
        try:
            request()
            return
        except LinkExpired as error:
            refused = 1 if file.missing < missing else refused + 1
            if links.renew is None or refused > _RENEWALS:
                raise DownloadError(
                    f"{error} for {file.path.name}: the server refuses the download. Try again later."
                ) from error
            log.info("%s; requesting new links", error)
            links.renew(file)


def check_gzip(path: Path) -> None:
    """Decompress a gzip file to its end, which compares its checksums and lengths (RFC 1952, 2.3.1)."""
    try:
        with gzip.open(path) as stream:
            while stream.read(_PIECE):
                pass
    except DECOMPRESSION_ERRORS as error:
        raise Damaged(f"its gzip stream: {error}") from error


def check_parquet(path: Path) -> None:
    """Compare the first and last four bytes."""
    with path.open("rb") as file:
        begins = file.read(4)
        file.seek(-min(4, path.stat().st_size), 2)
        if (begins, file.read()) != (_PARQUET, _PARQUET):
            raise Damaged("not a whole Parquet file")


def gigabytes(size: int) -> str:
    """``1.2 GB``, or ``3.4 MB`` below 0.1 GB."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e8 else f"{size / 1e6:,.1f} MB"
