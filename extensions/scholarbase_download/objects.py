"""Packed libraries in object storage, read with obstore: S3 and what speaks its protocol, Google Cloud and Azure.

Credentials, regions and endpoints are those of the environment (``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT``, ...).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from scholarbase.errors import InvalidRequest, SourceError
from scholarbase.extras import require

STORES: Final = ("s3://", "gs://", "az://")
"""What the URL of an object begins with."""
CHUNK: Final = 1 << 20


def stored_pieces(url: str) -> Iterator[bytes]:
    """The bytes of an object at a URL.

    Raises:
        InvalidRequest: the URL is invalid.
        SourceError: the object cannot be read.
        MissingExtra: obstore is not installed.
    """
    store, name = _store(url)
    try:
        yield from map(bytes, store.get(name).stream(min_chunk_size=CHUNK))
    except Exception as error:  # obstore's errors have no common class but this
        raise _failed(url, error) from error


def small_object(url: str, limit: int) -> bytes | None:
    """The first ``limit`` bytes of an object, None if it does not exist. Raises as :func:`stored_pieces`."""
    store, name = _store(url)
    try:
        return bytes(store.get(name).bytes())[:limit]
    except FileNotFoundError:
        return None
    except Exception as error:
        raise _failed(url, error) from error


def _store(url: str) -> tuple[Any, str]:
    """The store of an object, and its name there."""
    obstore: Any = require("obstore.store", "storage", f"Reading {url}")
    folder, _, name = url.rpartition("/")
    if not name or folder.endswith("/"):
        raise InvalidRequest(
            f"{url!r} does not name an object: use a URL such as s3://bucket/papers.tar.zst."
        )
    try:
        return obstore.from_url(folder), name
    except Exception as error:
        raise InvalidRequest(
            f"{url!r} cannot be opened as the URL of an object ({_reason(error)})."
        ) from error


def _failed(url: str, error: Exception) -> SourceError:
    return SourceError(
        f"{url} cannot be read ({_reason(error)}): check the URL, and the region, endpoint and credentials in the "
        "environment."
    )


def _reason(error: Exception) -> str:
    """The first line of an error of obstore, which goes on with the state of its client."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
