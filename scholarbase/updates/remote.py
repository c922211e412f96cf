"""A file at a URL that is read once from its start, and goes on after a connection was cut (RFC 9110, section 14).

Links may expire: each request begins at the URL that the caller gave, and follows its redirects.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from scholarbase.errors import InvalidRequest, SourceChanged, SourceError
from scholarbase.http import attempts_text, is_loopback, retry_options

if TYPE_CHECKING:
    import httpx

log = logging.getLogger("scholarbase.updates")

TIMEOUT: Final = 60.0
"""Seconds without a byte after which a connection is given up."""
RETRIES: Final = 5
"""Further attempts after a request that fails, and connections in a row that end without a byte."""
BACKOFF: Final = 1.0
"""Seconds before the first of them."""
_HEADERS: Final = {"Accept-Encoding": "identity"}
"""Ranges are those of the file itself."""
_RANGE: Final = re.compile(r"bytes (\d{1,19})-\d{1,19}/(\d{1,19}|\*)")


class RemoteFile:
    """The bytes at a URL. ``name`` is the URL for messages, without its user and query, which may be secret.

    Raises:
        InvalidRequest: the URL is invalid.
        SourceError: it cannot be read, also while reading.
        SourceChanged: the file was replaced while it was read.
    """

    def __init__(self, url: str) -> None:
        self._url = _parse(url)
        self.name = _shown(self._url)
        self._http = _client(self._url)
        self._read = 0
        self._size: int | None = None
        self._validator: str | None = None
        self._response: httpx.Response | None = None
        self._pieces: Iterator[bytes] = iter(())
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._disconnect()
        self._http.close()

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes; none at the end."""
        if not self._rest:
            self._rest = self._next()
        data, self._rest = self._rest[:size], self._rest[size:]
        return data

    def _next(self) -> bytes:
        import httpx

        failures = 0
        while True:
            try:
                if self._response is None:
                    if self._size is not None and self._read >= self._size:
                        return b""
                    self._connect()
                piece = next(self._pieces, b"")
                if not piece and self._size is not None and self._read < self._size:
                    raise httpx.RemoteProtocolError("the body ended too early")
            except httpx.TransportError as error:
                self._disconnect()
                failures += 1
                if failures > RETRIES:
                    raise SourceError(
                        f"{self.name} breaks off after {self._read:,} bytes ({type(error).__name__}: {error}), in "
                        f"{attempts_text(failures)}: run the same command again later."
                    ) from error
                log.warning("%s: %s after %s bytes; connecting again", self.name, error, f"{self._read:,}")
                time.sleep(BACKOFF * (failures - 1))
                continue
            self._read += len(piece)
            return piece

    def _connect(self) -> None:
        """Request the bytes from the current position on."""
        headers = {}
        if self._read:
            headers["Range"] = f"bytes={self._read}-"
            if self._validator:
                headers["If-Range"] = self._validator
        response = self._response = _get(self._http, self._url, self.name, headers)
        pieces = response.iter_raw()  # as they arrive: with a size, what came before a cut would be lost
        validator = _validator(response)
        if not self._read:
            self._validator = validator
            self._size = _length(response.headers.get("Content-Length"))
        elif response.status_code == 206:
            found = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
            if found is None or int(found[1]) != self._read:
                raise SourceError(
                    f"{self.name} has an invalid response: bytes from {self._read:,} on were requested, and its "
                    f"Content-Range is {response.headers.get('Content-Range')!r}. Download the file, and unpack that."
                )
            if found[2] != "*" and self._size not in (None, int(found[2])):
                raise self._changed()
        else:  # the whole file again: the server has no ranges, or another file
            if validator != self._validator or self._size != _length(response.headers.get("Content-Length")):
                raise self._changed()
            pieces = _after(pieces, self._read)
        self._pieces = pieces

    def _changed(self) -> SourceChanged:
        return SourceChanged(f"{self.name} was replaced while it was read: run the same command again.")

    def _disconnect(self) -> None:
        if self._response is not None:
            self._response.close()
        self._response = None
        self._pieces = iter(())


def fetch_small(url: str, suffix: str, limit: int) -> bytes | None:
    """The first ``limit`` bytes at a URL with ``suffix`` after its path; None if there is nothing (status 404 or 410).

    Raises as :class:`RemoteFile`.
    """
    parsed = _parse(url)
    parsed = parsed.copy_with(path=parsed.path + suffix)
    name = _shown(parsed)
    import httpx

    with _client(parsed) as http:
        response = _get(http, parsed, name, {}, missing=(403, 404, 410))
        try:
            if not response.is_success:
                return None
            data = b""
            for piece in response.iter_raw(limit):
                data += piece
                if len(data) >= limit:
                    break
        except httpx.TransportError as error:
            raise SourceError(
                f"{name} breaks off ({type(error).__name__}: {error}): run the same command again."
            ) from error
        finally:
            response.close()
        return data[:limit]


def shown(url: str) -> str:
    """A URL for messages, without its user and query, which may be secret. Raises InvalidRequest: it is not a URL."""
    return _shown(_parse(url))


def _get(
    http: httpx.Client, url: httpx.URL, name: str, headers: dict[str, str], missing: tuple[int, ...] = ()
) -> httpx.Response:
    """Send a request, again while that helps. Its body is not read. Raises SourceError: it has an error status."""
    import httpx
    from tenacity import Retrying

    def attempt() -> httpx.Response:
        response = http.send(http.build_request("GET", url, headers=headers), stream=True)
        if not response.is_success:
            response.close()
        return response

    retrying = Retrying(**retry_options(name, RETRIES, BACKOFF, log))
    try:
        response = retrying(attempt)
    except (httpx.TransportError, httpx.TooManyRedirects) as error:
        attempts = attempts_text(retrying.statistics["attempt_number"])
        raise SourceError(
            f"{name} does not respond ({type(error).__name__}: {error}), in {attempts}: check the URL, and run the "
            "same command again."
        ) from error
    if not response.is_success and response.status_code not in missing:
        raise SourceError(
            f"{name} returned status {response.status_code}: check the URL, or download the file and unpack that."
        )
    return response


def _parse(url: str) -> httpx.URL:
    import httpx

    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise InvalidRequest(f"{url!r} is not a valid URL: {error}.") from error
    if not parsed.host:
        raise InvalidRequest(f"{url!r} is not a valid URL: it names no host.")
    return parsed


def _shown(url: httpx.URL) -> str:
    return str(url.copy_with(userinfo=b"", query=None, fragment=None))


def _client(url: httpx.URL) -> httpx.Client:
    import httpx

    trust_env = not is_loopback(url.host)
    return httpx.Client(headers=_HEADERS, timeout=TIMEOUT, follow_redirects=True, trust_env=trust_env)


def _validator(response: httpx.Response) -> str | None:
    """A strong ETag, or the time of modification (RFC 9110, section 13.1.5)."""
    tag: str = response.headers.get("ETag", "")
    return tag if tag.startswith('"') else response.headers.get("Last-Modified")


def _length(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 20 else None


def _after(pieces: Iterator[bytes], skip: int) -> Iterator[bytes]:
    """The pieces without the first ``skip`` bytes."""
    for piece in pieces:
        if skip < len(piece):
            yield piece[skip:]
        skip = max(0, skip - len(piece))
