"""The base of both clients: the server's address, headers and retries, and what a response or its failure becomes."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from traceback import clear_frames
from types import NoneType
from typing import Any, Final

import httpx
import orjson
from tenacity import AsyncRetrying, Retrying

from scholarbase.client.endpoints import Request, T
from scholarbase.errors import (
    ClientError,
    InvalidRequest,
    ScholarBaseError,
    ServerFailure,
    ServerUnreachable,
)
from scholarbase.http import USER_AGENT, VISIBLE_ASCII, attempts_text, is_loopback, retry_options
from scholarbase.models.checks import check_type, shown
from scholarbase.settings import ClientSettings

log = logging.getLogger("scholarbase.client")

DEFAULT_TIMEOUT: Final = httpx.Timeout(60.0, connect=10.0)
"""Seconds: to connect, and between two bytes of a response."""
MAX_CONNECTIONS: Final = 64
"""Requests that a client sends at once. Others wait."""


class BaseClient:
    """The arguments of ``Client`` and ``AsyncClient``, and what both do around a request."""

    _http_class: type[Any]
    _semaphore_class: type[Any]
    _http: Any

    def __init__(
        self,
        base_url: str | None = None,
        *,
        timeout: float | httpx.Timeout = DEFAULT_TIMEOUT,
        retries: int = 3,
        backoff: float = 0.5,
        headers: Mapping[str, str] | None = None,
        api_key: str | None = None,
        transport: httpx.BaseTransport | httpx.AsyncBaseTransport | None = None,
    ) -> None:
        if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
            raise InvalidRequest(f"retries is {shown(retries)}: it must be an integer of 0 or more.")
        if not isinstance(timeout, httpx.Timeout):
            _check_seconds(timeout, "timeout")
        _check_seconds(backoff, "backoff")
        check_type(headers, (Mapping, NoneType), "headers", "a mapping of names to values")
        transports = (httpx.BaseTransport, httpx.AsyncBaseTransport, NoneType)
        check_type(transport, transports, "transport", "an httpx transport or None")
        settings = ClientSettings()
        url = _parse_address(settings.url if base_url is None else base_url)
        self.base_url: Final = str(url.copy_with(userinfo=b""))
        """The server's address, without user name and password."""
        self._retries = retries
        self._backoff = backoff
        if api_key is None and settings.api_key is not None:
            api_key = settings.api_key.get_secret_value()
        all_headers = httpx.Headers({"User-Agent": USER_AGENT, "Accept": "application/json"})
        check_type(api_key, (str, NoneType), "api_key", "a text")
        key = _checked_key(api_key) if api_key else None
        if (key or url.userinfo) and url.scheme == "http" and not is_loopback(url.host):
            raise InvalidRequest(
                f"{self.base_url} would get the key or password without encryption: use an https address, or a tunnel "
                "to this machine, or unset SCHOLARBASE_API_KEY."
            )
        if key and not url.userinfo:  # both would use the Authorization header
            all_headers["Authorization"] = f"Bearer {key}"
        try:
            all_headers.update(headers)
        except (AttributeError, TypeError, ValueError) as error:
            raise InvalidRequest(f"headers cannot be sent ({error}): use ASCII texts.") from error
        self._http = self._http_class(
            auth=(url.username, url.password) if url.userinfo else None,
            timeout=timeout,
            headers=all_headers,
            transport=transport,
            limits=httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_CONNECTIONS),
            trust_env=not is_loopback(url.host),
        )
        # httpx examines every waiting request whenever a connection is free, so a thousand tasks waiting in its pool
        # take many times as long as a thousand that wait here.
        self._slots = self._semaphore_class(MAX_CONNECTIONS)

    def _retry_options(self, request: Request[Any]) -> dict[str, Any]:
        url = self.base_url + request.path
        return retry_options(url, self._retries, self._backoff, log, repeatable=request.repeatable)

    @contextmanager
    def _raising(self, request: Request[Any], retrying: Retrying | AsyncRetrying) -> Iterator[None]:
        """Turn httpx's errors into ours."""
        try:
            yield
        except httpx.RequestError as error:
            attempts = retrying.statistics["attempt_number"]
            # A frame of tenacity refers to the error, and this cycle would keep the socket open.
            clear_frames(error.__traceback__)
            raise request_error(error, self.base_url + request.path, attempts) from error
        except RuntimeError as error:
            if self._http.is_closed:
                raise ClientError(f"The client of {self.base_url} is closed: create a new one.") from error
            if "loop" in str(error):
                raise ClientError(
                    f"The client of {self.base_url} was used in another event loop: create one in each."
                ) from error
            raise

    def _read(self, request: Request[T], response: httpx.Response, retrying: Retrying | AsyncRetrying) -> T:
        attempts = retrying.statistics["attempt_number"]
        return read_response(request, response, self.base_url + request.path, attempts)


def _check_seconds(value: object, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise InvalidRequest(f"{name} is {shown(value)}: it must be more than 0 seconds.")


def _checked_key(api_key: str) -> str:
    if not VISIBLE_ASCII.fullmatch(api_key.strip()):
        raise InvalidRequest(
            "The API key contains characters that are not allowed in keys, such as spaces or line breaks: use it as "
            '"scholarbase key create" printed it.'
        )
    return api_key.strip()


def _parse_address(base_url: str) -> httpx.URL:
    invalid = InvalidRequest(
        f"{shown(base_url)} is not a valid server address: use one that begins with http:// or https://, such as "
        "http://127.0.0.1:8000, without ? and #."
    )
    if not isinstance(base_url, str) or "?" in base_url or "#" in base_url:
        raise invalid
    try:
        url = httpx.URL(base_url.strip().rstrip("/"))
    except (httpx.InvalidURL, UnicodeError) as error:
        raise invalid from error
    if url.scheme not in ("http", "https") or not url.host:
        raise invalid
    return url


# -- responses -----------------------------------------------------------------------------------------------


def read_response(request: Request[T], response: httpx.Response, url: str, attempts: int) -> T:
    """The data of the last response.

    Raises:
        ScholarBaseError: the error in the server's problem document.
        ServerFailure: not a response of a ScholarBase server.
    """
    if not response.is_success:
        raise _response_error(response, url, attempts)
    try:
        return request.read(_content(response))
    except orjson.JSONDecodeError as error:
        raise ServerFailure(
            f"The response from {url} is not JSON{_excerpt(response)}: check that it is a ScholarBase server."
        ) from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ServerFailure(
            f"The response from {url} has an unexpected structure ({type(error).__name__}: {error}): "
            "check that it is a ScholarBase server of this version."
        ) from error


def request_error(error: httpx.RequestError, url: str, attempts: int) -> ScholarBaseError:
    """The error to raise for a request that has no response after its last attempt."""
    detail = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, (httpx.LocalProtocolError, httpx.UnsupportedProtocol)):
        return InvalidRequest(f"The request to {url} cannot be sent ({detail}): check the headers.")
    if not isinstance(error, httpx.TransportError):
        return ServerFailure(
            f"The response from {url} cannot be read ({detail}): check the proxies in front of the server."
        )
    if isinstance(error, (httpx.ReadTimeout, httpx.WriteTimeout, httpx.PoolTimeout)):
        advice = "try again later, request less, or use a longer timeout."
    else:
        advice = (
            "check that the server runs (scholarbase serve) and that the address is right; commands need no server "
            "with --library PATH, or --library demo after scholarbase demo."
        )
    return ServerUnreachable(f"No response from {url} in {attempts_text(attempts)} ({detail}): {advice}")


def _response_error(response: httpx.Response, url: str, attempts: int) -> ScholarBaseError:
    slug, detail = _problem(response)
    request_id = response.headers.get("X-Request-ID")
    if (kind := _ERRORS.get(slug)) is not None:
        error = kind(detail)
        with_id = f" with request id {request_id}" if request_id else ""
        error.add_note(f"Response from {url}{with_id} after {attempts_text(attempts)}.")
        return error
    shown = f" ({detail})" if detail else _excerpt(response)
    counted = f" after {attempts_text(attempts)}" if attempts > 1 else ""
    status = f"{response.status_code} {response.reason_phrase}".rstrip()
    return ServerFailure(
        f"Unexpected response from {url}: {status}{shown}{counted}. {_advice(response, request_id)}"
    )


def _advice(response: httpx.Response, request_id: str | None) -> str:
    status = response.status_code
    if response.has_redirect_location:
        return f"Use the address {response.headers['Location']} instead."
    if status in (401, 403, 407):
        return "Add the credentials that it requires to headers."
    if status == 429:
        return "Its rate limit is exceeded: try again later."
    if status >= 500:
        return "See the server's log" + (f" for the request id {request_id}." if request_id else ".")
    return "Check that the address is that of a ScholarBase server of this version, without /v1 at its end."


def _subclasses(root: type[ScholarBaseError]) -> Iterator[tuple[str, type[ScholarBaseError]]]:
    for kind in root.__subclasses__():
        if kind is not ClientError:  # raised by the client only
            yield kind.slug, kind
            yield from _subclasses(kind)


_ERRORS: Final = dict(_subclasses(ScholarBaseError))
"""The last part of a problem document's ``type`` to its error."""


def _content(response: httpx.Response) -> Any:
    media_type = response.headers.get("Content-Type", "").partition(";")[0]
    if media_type in ("text/plain", "application/jsonl"):
        return response.content.decode()
    if media_type == "image/png":
        return response.content
    return None if response.status_code == 204 else orjson.loads(response.content)


def _problem(response: httpx.Response) -> tuple[str, str]:
    """The slug and the detail of a problem document (RFC 9457), both empty for other content."""
    try:
        content = orjson.loads(response.content)
    except orjson.JSONDecodeError:
        return "", ""
    match content:
        case {"type": str(kind), "detail": str(detail)}:
            return kind.rpartition("#")[2], detail
    return "", ""


def _excerpt(response: httpx.Response) -> str:
    text = " ".join(response.text.split())
    return f" ({text[:200]}{'...' if len(text) > 200 else ''})" if text else ""
