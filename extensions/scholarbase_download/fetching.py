"""Libraries that are named by the URL of a packed file: fetched once, into a cache.

The folder of a library is named after the SHA-256 of the packed file, so its content never changes, and another file at
the same URL gets another folder.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Final

from scholarbase.errors import InvalidRequest, SourceError
from scholarbase.extras import check_installed
from scholarbase.files import locked, storage_errors
from scholarbase.indexes import contents
from scholarbase.progress import Reporter
from scholarbase_download.objects import STORES
from scholarbase_download.opening import published_hash
from scholarbase_download.requests import address
from scholarbase_download.unpacking import unpack

log = logging.getLogger("scholarbase.updates")

SCHEMES: Final = ("http", "https", "s3", "gs", "az", "file")
_HASH: Final = re.compile(r"sha256=([0-9a-fA-F]{64})")
_DIGITS: Final = 32
"""Digits of the hash in the name of a folder."""


def fetch_library(url: str, cache: Path, reporter: Reporter | None = None) -> Path:
    """The folder of the library whose packed file is at ``url``, in the folder ``cache``, fetched if it is not there.

    The hash of the file is that in ``url`` (``#sha256=...``), or in the file ``URL.sha256``, which ``pack`` writes.
    With the first, a library in the cache is found without a request. Processes that need the same library at the same
    time wait for the one that fetches it. After a kill the fetch starts over.

    Raises:
        InvalidRequest: the URL is invalid.
        SourceError: it cannot be read, or its hash is not known.
        LibraryCorrupt: the file has another hash, or is not a packed library.
        StorageError: the disk is full or cannot be written.
        MissingExtra: a package is not installed.
    """
    if url.lower().startswith(STORES):
        check_installed("storage", "Fetching a library")
    source, mark, fragment = url.partition("#")
    given = _HASH.fullmatch(fragment)
    if mark and given is None:
        raise InvalidRequest(
            f"The URL of the library ends with #{fragment[:80]}: only #sha256= and 64 hexadecimal digits may follow it."
        )
    expected = given[1].lower() if given else published_hash(source)
    if expected is None:
        raise SourceError(
            f'{source.partition("?")[0]} has no known hash: put the file .sha256 that "scholarbase pack" wrote beside '
            "it, or add #sha256= and the hash to the URL."
        )
    library = cache / expected[:_DIGITS]
    with storage_errors(cache, "free some disk space, or set SCHOLARBASE_CACHE_DIR"):
        cache.mkdir(parents=True, exist_ok=True)
    if not _is_complete(library):
        with locked(cache / f".{library.name}.lock"):  # another process may be fetching it
            if not _is_complete(library):  # nor fetched by the process that had the lock
                log.info("Fetching the library at %s to %s.", address(source), library)
                unpack(source, library, sha256=expected, reporter=reporter)
    return library


def _is_complete(library: Path) -> bool:
    """Whether the list of files is there, which is moved to its place last."""
    return (library / contents.FILE_NAME).exists()
