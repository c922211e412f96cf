"""HTTP responses to data, and failed requests to the errors of :mod:`scholarbase.errors`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import httpx
import orjson

from scholarbase.client.endpoints import Request, T
from scholarbase.errors import (
    ClientError,
    InvalidRequest,
    ScholarBaseError,
    ServerFailure,
    ServerUnreachable,
)
from scholarbase.http import attempts_text


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
        advice = "check that the server runs (scholarbase serve) and that the address is right."
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
