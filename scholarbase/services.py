"""Services over HTTP that run a model: their addresses, requests, retries and errors."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from traceback import clear_frames
from typing import Final, NamedTuple, TypeVar
from urllib.parse import urlsplit, urlunsplit

import httpx
import msgspec
from tenacity import Retrying

from scholarbase.deadlines import DEADLINE, check
from scholarbase.errors import ScholarBaseError
from scholarbase.http import (
    MAX_RETRY_AFTER,
    SERVICE_STATUSES,
    VISIBLE_ASCII,
    attempts_text,
    is_loopback,
    retry_after,
    retry_options,
)

T = TypeVar("T")
_JSON: Final = {"Content-Type": "application/json"}


class ResponseTooLarge(Exception):
    """A response longer than its reader takes. The text says so, without the name of the service."""


class Endpoint(NamedTuple):
    """The URL of a service's route, its Unix socket and its model. ``socket`` and ``model`` are optional."""

    url: str
    socket: str | None = None
    model: str | None = None

    @property
    def display_name(self) -> str:
        """The address for messages, without user name, password and query."""
        if self.socket is not None:
            return f"unix:{self.socket}"
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    @classmethod
    def parse(cls, name: str, *routes: str) -> Endpoint:
        """Parse ``https://host/path#model``. The first of ``routes`` is appended if the path ends with none.

        Raises:
            ValueError: not such an address.
        """
        parts = urlsplit(name)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("it needs a host and the scheme http or https")
        # Both raise ValueError: of a port that is not a number, of a label of over 63 characters.
        _ = parts.port, parts.hostname.encode("idna")
        path = parts.path.rstrip("/")
        if routes and not path.endswith(routes):
            path += routes[0]
        return cls(
            urlunsplit((parts.scheme, parts.netloc, path, parts.query, "")), None, parts.fragment or None
        )


class ModelService:
    """A service that runs a model: requests with retries, whose failures are errors of one class.

    Args:
        kind: what it is, such as ``encoder service``.
        endpoint: its address is in messages and log lines, which clients of a server do not get.
        error: the class of its errors.
        activity: activity and advice for the error at the time limit.
        advice: what to do, by status, besides what any service has.
        api_key: its key, which is left out of messages.
        key_setting: the setting with the key, for errors.
        timeout: seconds for one attempt.
        retries, backoff: as for :func:`retry_options`.
        headers: of each request, besides those of any.

    Raises:
        The service's error: no header can have the key.
    """

    def __init__(
        self,
        kind: str,
        endpoint: Endpoint,
        *,
        error: type[ScholarBaseError],
        activity: tuple[str, str],
        advice: Mapping[int, str],
        api_key: str | None,
        key_setting: str,
        timeout: float,
        retries: int,
        backoff: float,
        log: logging.Logger,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        address = endpoint.display_name
        self._name = f"The {kind} at {address}"
        self._public = f"The {kind}"
        self._address = address
        self._url = endpoint.url
        self._error = error
        self._activity = activity
        self._advice = {
            401: f"set {key_setting} to a valid key.",
            403: f"set {key_setting} to a key that may use this model.",
            404: "check the URL.",
            429: "it is overloaded or a quota is used up, so try again later.",
            **advice,
        }
        self._api_key = api_key
        self._retries = retries
        self._backoff = backoff
        self._log = log
        self._timeout = timeout
        sent = {**_JSON, **(headers or {})}
        parts = urlsplit(endpoint.url)
        is_local = endpoint.socket is not None or is_loopback(parts.hostname or "")
        if parts.scheme == "http" and not is_local and (api_key or "@" in parts.netloc):
            raise error(
                f"{self._name} would get its key without encryption: use an https URL, or unset {key_setting}."
            )
        if api_key:
            if not VISIBLE_ASCII.fullmatch(api_key):
                raise error(
                    f"{key_setting} has characters that no key has, such as spaces or line breaks: set it to the key "
                    "alone."
                )
            sent["Authorization"] = f"Bearer {api_key}"
        self._http = httpx.Client(
            headers=sent,
            timeout=timeout,
            trust_env=not is_local,
            transport=None if endpoint.socket is None else httpx.HTTPTransport(uds=endpoint.socket),
        )

    @property
    def is_closed(self) -> bool:
        return self._http.is_closed

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __str__(self) -> str:
        return self._name

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Give the errors of the block a message for clients, without the address."""
        try:
            yield
        except ScholarBaseError as error:
            if error.public is None:
                error.public = (
                    str(error).replace(self._name, self._public).replace(self._address, "of a service")
                )
            raise

    def post(self, content: bytes, most: int) -> httpx.Response:
        """Send one request, and read at most ``most`` bytes of its response, within the service's timeout and the time
        limit of the context. The response has the header fields ``Retry-After`` and ``Content-Type`` only.

        Raises:
            ResponseTooLarge: it is longer; the connection is closed.
            httpx.TransportError: it fails, or takes longer.
        """
        deadline = DEADLINE.get()
        seconds = self._timeout if deadline is None else max(min(self._timeout, deadline.remaining), 0.001)
        end = time.monotonic() + seconds
        body = bytearray()
        with self._http.stream("POST", self._url, timeout=seconds, content=content) as response:
            try:
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > most:
                        raise ResponseTooLarge(f"returned more than {most:,} bytes, the limit of a response")
                    if time.monotonic() > end:
                        raise httpx.ReadTimeout(f"the response took longer than {seconds:.3g} s")
            except httpx.DecodingError as error:
                raise httpx.RemoteProtocolError(f"its compressed content is damaged ({error})") from error
        names = ("Retry-After", "Content-Type")
        headers = {name: response.headers[name] for name in names if name in response.headers}
        return httpx.Response(response.status_code, headers=headers, content=bytes(body))

    def send(self, post: Callable[[], httpx.Response], passed: Container[int] = ()) -> httpx.Response:
        """Send a request with ``post``, and again while that helps.

        Returns its response, if it is a success or has a status in ``passed``.

        Raises:
            The service's error: it does not respond, its response is too long, or has another status.
            TimeLimit: the time limit of the context is over. The message names the last failure before.
        """
        check(*self._activity)
        deadline = DEADLINE.get()

        def attempt() -> httpx.Response:
            response = post()
            if deadline is not None and response.status_code in SERVICE_STATUSES:
                activity, advice = self._activity
                deadline.running = f"{activity}, whose service last returned {response.status_code},", advice
            return response

        options = retry_options(self._address, self._retries, self._backoff, self._log, SERVICE_STATUSES)
        retrying = Retrying(**options)
        try:
            response = retrying(attempt)
        except ResponseTooLarge as error:
            raise self._failure(str(error), "", ": check that the address is right.") from error
        except httpx.TransportError as error:
            if deadline is not None and deadline.remaining <= 0:
                raise deadline.late() from error
            attempts = attempts_text(retrying.statistics["attempt_number"])
            # A frame of tenacity refers to the error, and this cycle would keep the socket open.
            clear_frames(error.__traceback__)
            raise self._failure(
                "does not respond",
                f" ({type(error).__name__}: {error})",
                f", in {attempts}: check that it runs and that the address is right.",
            ) from error
        if response.is_success or response.status_code in passed:
            return response
        returned, excerpt = f"returned {response.status_code}", self._excerpt(response)
        tried = ""
        if response.status_code in SERVICE_STATUSES:
            if (wait := retry_after(response) or 0) > MAX_RETRY_AFTER:
                raise self._failure(
                    returned,
                    excerpt,
                    f" with a Retry-After of {wait:.0f} s, longer than the limit of {MAX_RETRY_AFTER:.0f} s: "
                    "try again later.",
                )
            tried = f", in {attempts_text(retrying.statistics['attempt_number'])}"
        advised = self._advice.get(response.status_code, "check its log.")
        raise self._failure(returned, excerpt, f"{tried}: {advised}")

    def read_json(self, response: httpx.Response, expected: str, kind: type[T]) -> T:
        """The JSON of a response as a value of type ``kind``.

        Raises:
            The service's error: it is not such JSON. ``expected`` is the kind of service that was expected.
        """
        try:
            return msgspec.json.decode(response.content, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._error(
                f"{self} did not return the JSON of {expected} ({error}): check that the URL is right."
            ) from error

    def _failure(self, failure: str, detail: str, rest: str) -> ScholarBaseError:
        """The service's error; ``detail`` is not for clients."""
        error = self._error(f"{self._name} {failure}{detail}{rest}")
        error.public = f"{self._public} {failure}{rest}"
        return error

    def _excerpt(self, response: httpx.Response) -> str:
        text = " ".join(response.text.split())[:300]
        if self._api_key:
            text = text.replace(self._api_key, "***")
        return f" ({text})" if text else ""
