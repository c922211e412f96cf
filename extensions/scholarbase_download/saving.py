"""Files that are downloaded, and resumed where they were cut off.

A file is written as ``NAME.part`` and renamed when it is whole and has passed its check. The server's validator (ETag
or Last-Modified) is kept beside it as ``.NAME.validator``.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from scholarbase.errors import DownloadError
from scholarbase.files import atomic_write, storage_errors, sync_folder
from scholarbase.ingest.sources import sha256_of
from scholarbase_download.requests import Fetcher, Replaced, address

PART: Final = ".part"
_REPORTED: Final = 1 << 20
"""Bytes between two reports of progress."""

log = logging.getLogger("scholarbase.download")

Check = Callable[[Path], None]
"""Checks a whole file. Raises :class:`Damaged`."""
Progress = Callable[[int, int], None]
"""Called with the bytes received since the last call, and the bytes of the file that are on disk."""


class Damaged(Exception):
    """A downloaded file fails its check; the text is the reason."""


def check_sha256(expected: str) -> Check:
    """A check that compares the SHA-256 of a file with ``expected``, in hexadecimal."""

    def check(path: Path) -> None:
        actual = sha256_of(path)
        if actual != expected:
            raise Damaged(f"its SHA-256 is {actual}, not {expected}")

    return check


def fetch(fetcher: Fetcher, url: str, path: Path, *, size: int, check: Check, progress: Progress) -> None:
    """Download a file, beginning where an earlier call was cut off, check it and give it its name.

    A file that fails its check, or was replaced at the server, is downloaded once more.

    Raises:
        LinkExpired: the server refuses the link.
        SourceChanged: the file is missing, or its size is not ``size`` bytes.
        DownloadError: it does not respond, or the file fails its check twice.
        StorageError: the disk is full or cannot be written.
    """
    part = path.with_name(path.name + PART)
    with storage_errors(part, "free some disk space and run the same command again"):
        path.parent.mkdir(parents=True, exist_ok=True)
        for is_last in (False, True):
            try:
                _complete(fetcher, url, part, validator_file(path), size, progress)
                check(part)
                break
            except Replaced:
                part.unlink(missing_ok=True)
                if is_last:
                    raise
            except Damaged as error:
                part.unlink()
                if is_last:
                    raise DownloadError(
                        f"{address(url)} is damaged at the server ({error}); it was downloaded twice. The file or the "
                        "list that names it is wrong: tell whoever publishes them."
                    ) from error
                log.warning("%s is damaged (%s); downloading it again", address(url), error)
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
        sync_folder(path.parent)


def _complete(fetcher: Fetcher, url: str, part: Path, note: Path, size: int, progress: Progress) -> None:
    """Receive until the file is whole."""
    validator = note.read_text() if note.exists() else ""
    if not validator or bytes_in(part) > size:
        part.unlink(missing_ok=True)

    received, position = 0, bytes_in(part)
    if position == size:
        return
    with part.open("ab") as file:

        def start(validator: str) -> None:
            nonlocal position
            file.truncate(position := 0)
            with atomic_write(note) as out:
                out.write(validator.encode())

        pieces = fetcher.stream(url, position=position, validator=validator, size=size, started=start)
        try:
            for chunk in pieces:
                file.write(chunk)
                position += len(chunk)
                received += len(chunk)
                if received >= _REPORTED:
                    progress(received, position)
                    received = 0
        finally:
            progress(received, position)
            if not position and not bytes_in(part):  # a full disk may take a part of the first piece
                part.unlink()


def validator_file(path: Path) -> Path:
    """The hidden file with the validator of a downloaded file."""
    return path.with_name(f".{path.name}.validator")


def bytes_in(path: Path) -> int:
    """The size of a file, 0 if it does not exist."""
    return path.stat().st_size if path.exists() else 0
