"""Requests to web servers, and files that are read on where the connection was cut off.

The server's validator (ETag or Last-Modified) is compared, so that a file that changed at the server is never joined
with the beginning of the old one (RFC 9110, sections 13.1.5 and 14).
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

import httpx
from tenacity import Retrying

from scholarbase.errors import DownloadError, SourceChanged
from scholarbase.http import SERVICE_STATUSES, USER_AGENT, retry_after, retry_options

EXPIRED: Final = frozenset({400, 401, 403})
"""Statuses of storage hosts for a signed link that has expired."""
MAX_READ: Final = 100_000_000
"""Bytes of the largest response that is read as a whole."""
SHA256: Final = re.compile(r"[0-9a-fA-F]{64}")
_HASH_LINE: Final = re.compile(rb"\\?([0-9a-fA-F]{64})(?: [ *][^\n]*)?\n?")
"""What ``sha256sum`` writes for one file."""
_ADVICE: Final = "Run the same command again to continue"

log = logging.getLogger("scholarbase.download")


class Replaced(SourceChanged):
    """A file at a server is another one than at the beginning of its download."""


class LinkExpired(Exception):
    """The storage host refuses a signed link."""


@dataclass(frozen=True)
class Patience:
    """How long a download tries.

    Args:
        retries: attempts in a row without a new byte, after the first.
        backoff: seconds before the first retry; they double up to ten.
        timeout: seconds to wait for the next bytes.
        max_retry_after: seconds of the longest ``Retry-After`` that is waited for.
    """

    retries: int = 8
    backoff: float = 1.0
    timeout: float = 90.0
    max_retry_after: float = 3600.0


class Secret(NamedTuple):
    """A header that is sent to one origin only, also after redirects."""

    name: str
    value: str
    origin: str


class Remote(NamedTuple):
    """A file at a server: its bytes, and its ETag or Last-Modified, empty without one."""

    size: int
    validator: str


class Answer(NamedTuple):
    """A whole response."""

    status: int
    body: bytes


class Fetcher:
    """Sends one request after the other, on one connection, with retries.

    Args:
        pause: seconds from the end of a request to the beginning of the next.
        secret: a header for one origin.
    """

    def __init__(
        self, patience: Patience | None = None, *, pause: float = 0.0, secret: Secret | None = None
    ) -> None:
        self.patience = patience or Patience()
        self._pause = pause
        self._next = 0.0
        self._secret = secret
        self._client = httpx.Client(
            timeout=httpx.Timeout(self.patience.timeout, connect=min(30.0, self.patience.timeout)),
            headers={"User-Agent": USER_AGENT, "Accept-Encoding": "identity"},
            limits=httpx.Limits(max_connections=1),
            follow_redirects=True,
            event_hooks={"request": [self._add_secret]},
        )

    def __enter__(self) -> Fetcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def _add_secret(self, request: httpx.Request) -> None:
        """Called for each request, also those after a redirect, which have the headers of the first."""
        if self._secret is None:
            return
        request.headers.pop(self._secret.name, None)
        if _origin(request.url) == _origin(httpx.URL(self._secret.origin)):
            request.headers[self._secret.name] = self._secret.value

    # -- whole responses --------------------------------------------------------------------------------

    def read(self, url: str, params: dict[str, str] | None = None) -> Answer:
        """The status and body of a response. A body that is cut off is requested again.

        Raises:
            DownloadError: no response, the server fails or is too busy, or the body has more than ``MAX_READ`` bytes.
        """
        failures = 0
        while True:
            try:
                with self._open(url, {}, params=params) as response:
                    body = bytearray()
                    for chunk in response.iter_bytes():
                        body += chunk
                        if len(body) > MAX_READ:
                            raise DownloadError(
                                f"{address(url)} returned more than {MAX_READ:,} bytes: check the address."
                            )
                    return Answer(response.status_code, bytes(body))
            except httpx.RequestError as error:
                failures += 1
                self._wait_after(error, failures, url)

    def probe(self, url: str) -> Remote:
        """The size and validator of a file, from a request for its first byte: signed links do not allow HEAD.

        Raises:
            LinkExpired, DownloadError: as :meth:`fetch`.
        """
        with self._file(url, {"Range": "bytes=0-0"}) as response:
            size = _total(response)
            if size is None:
                raise DownloadError(
                    f"{address(url)} does not say how many bytes the file has: use another server."
                )
            return Remote(size, _validator(response))

    # -- files ------------------------------------------------------------------------------------------

    def stream(
        self,
        url: str,
        *,
        position: int = 0,
        validator: str = "",
        size: int | None = None,
        started: Callable[[str], None] = lambda validator: None,
    ) -> Generator[bytes]:
        """The bytes of a file, which go on where the connection was cut. A server without ranges sends its start again.

        Args:
            position: the bytes of an earlier call, whose ``validator`` the file had.
            size: the bytes that it must have, if they are known.
            started: called with the validator before the first byte of the file. Those of an earlier call are then not
                those of this file.

        Raises:
            LinkExpired: the server refuses the link.
            Replaced: the file is another one now.
            SourceChanged: the file is missing, or its size is not ``size`` bytes.
            DownloadError: it cannot be read.
        """
        failures = before = 0
        is_earlier = bool(position)
        while True:
            begin, received = position, 0
            headers = {"Range": f"bytes={position}-"} if position else {}
            if position and validator:
                headers["If-Range"] = validator
            try:
                with self._file(url, headers) as response:
                    total, tag, is_part = _total(response), _validator(response), response.status_code == 206
                    is_same = tag in ("", validator) if is_part else tag == validator
                    if is_earlier and not (is_part or is_same):
                        position = 0  # the file has changed at the server since the earlier call
                    if not position:
                        if size is not None and total not in (None, size):
                            raise SourceChanged(
                                f"{address(url)} has {total:,} bytes, but {size:,} were listed: it has changed at the "
                                "server. Start again in another folder."
                            )
                        validator, size = tag, size if total is None else total
                        started(validator)
                    elif not is_same or total not in {None, size}:
                        raise Replaced(
                            f"{address(url)} was replaced while it was read: run the same command again."
                        )
                    elif is_part and _first(response) != position:
                        raise DownloadError(
                            f"{address(url)} has an invalid response: bytes from {position:,} on were requested, and "
                            f"its Content-Range is {response.headers.get('Content-Range')!r}. Use another server."
                        )
                    is_earlier = False
                    skip = 0 if is_part else position
                    for chunk in response.iter_raw():
                        received += len(chunk)
                        rest = chunk[skip:]
                        skip -= len(chunk) - len(rest)
                        if rest:
                            position += len(rest)
                            if size is not None and position > size:
                                raise SourceChanged(
                                    f"{address(url)} sends more than its {size:,} bytes: use another server."
                                )
                            yield rest
                if size is None or position >= size:
                    return
                raise httpx.ReadError(f"{position:,} of {size:,} bytes were sent")
            except httpx.RequestError as error:
                # A server without ranges may be cut off before the end of what it sent already.
                failures = 1 if position > begin or received > before else failures + 1
                before = received
                self._wait_after(error, failures, url)

    # -- one request ------------------------------------------------------------------------------------

    @contextmanager
    def _file(self, url: str, headers: dict[str, str]) -> Iterator[httpx.Response]:
        with self._open(url, headers) as response:
            if response.status_code in EXPIRED:
                raise LinkExpired(f"{address(url)} returned {response.status_code}")
            if response.status_code in {404, 410}:
                raise SourceChanged(f"{address(url)} returned {response.status_code}: check the address.")
            if response.status_code not in {200, 206, 416}:
                raise DownloadError(
                    f"{address(url)} returned {response.status_code}: check the address, or try again later."
                )
            yield response

    @contextmanager
    def _open(
        self, url: str, headers: dict[str, str], params: dict[str, str] | None = None
    ) -> Iterator[httpx.Response]:
        """Send a request until its status is final. The body is not read yet."""
        patience = self.patience
        options = retry_options(
            address(url),
            patience.retries,
            patience.backoff,
            log,
            SERVICE_STATUSES,
            max_retry_after=patience.max_retry_after,
        )

        def attempt() -> httpx.Response:
            time.sleep(max(0.0, self._next - time.monotonic()))
            try:
                request = self._client.build_request("GET", url, headers=headers, params=params)
                response = self._client.send(request, stream=True)
            finally:
                self._next = time.monotonic() + self._pause
            if response.status_code in SERVICE_STATUSES:
                response.close()
            return response

        retrying = Retrying(**options)
        try:
            response = retrying(attempt)
        except httpx.InvalidURL as error:
            raise DownloadError(f"{address(url)!r} is not a valid address ({error}).") from error
        except httpx.RequestError as error:
            raise DownloadError(
                f"{address(url)} does not respond ({type(error).__name__}: {error}). {_ADVICE}, or check the address."
            ) from error
        try:
            if response.status_code in SERVICE_STATUSES:
                wait = retry_after(response)
                asked = "" if wait is None else f" and asks to wait {wait:,.0f} s"
                raise DownloadError(
                    f"{address(url)} returned {response.status_code}{asked}, after "
                    f"{retrying.statistics['attempt_number']} attempts. {_ADVICE} later."
                )
            yield response
        finally:
            response.close()
            self._next = time.monotonic() + self._pause

    def _wait_after(self, error: httpx.RequestError, failures: int, url: str) -> None:
        """Wait before the next attempt. Raises DownloadError after too many of them."""
        if failures > self.patience.retries:
            raise DownloadError(
                f"{address(url)} is cut off again and again ({type(error).__name__}: {error}). {_ADVICE}."
            ) from error
        seconds = min(self.patience.backoff * 2.0 ** (failures - 1), 10.0)
        log.warning("%s was cut off (%s); continuing in %.1f s", address(url), error, seconds)
        time.sleep(seconds)


def hash_beside(fetcher: Fetcher, url: str) -> str | None:
    """The hash in ``URL.sha256``, None if there is none. Raises as :meth:`Fetcher.read` and :func:`hash_in`."""
    where, question, query = url.partition("?")
    answer = fetcher.read(f"{where}.sha256{question}{query}")
    if answer.status in {403, 404, 410}:
        return None
    name = f"{address(url)}.sha256"
    if answer.status != 200:
        raise DownloadError(f"{name} returned status {answer.status}: check the URL.")
    return hash_in(answer.body, name)


def hash_in(data: bytes, name: str) -> str:
    """The hash in a file that ``sha256sum`` wrote for one file. Raises DownloadError: it is not one."""
    match = _HASH_LINE.fullmatch(data)
    if match is None:
        raise DownloadError(
            f"{name} is not the hash of one file as sha256sum writes it: delete it, or give the right hash with "
            "--sha256."
        )
    return match[1].decode("ascii").lower()


def address(url: str) -> str:
    """A URL without its query, which may be a signature, and without user and password."""
    scheme, separator, rest = url.partition("?")[0].partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _validator(response: httpx.Response) -> str:
    """A strong ETag, else Last-Modified, if a request can send it; a weak ETag does not identify bytes."""
    etag = str(response.headers.get("ETag", ""))
    validator = etag if etag.startswith('"') else str(response.headers.get("Last-Modified", ""))
    return validator if validator.isascii() else ""


def _total(response: httpx.Response) -> int | None:
    """The bytes of the whole file, None if the server does not say."""
    name, form = "Content-Length", r"(\d{1,18})"
    if response.status_code != 200:
        name, form = "Content-Range", r"bytes (?:\*|\d{1,18}-\d{1,18})/(\d{1,18})"
    match = re.fullmatch(form, response.headers.get(name, ""))
    return int(match[1]) if match else None


def _first(response: httpx.Response) -> int | None:
    """The first byte of a part."""
    match = re.match(r"bytes (\d{1,18})-", response.headers.get("Content-Range", ""))
    return int(match[1]) if match else None
