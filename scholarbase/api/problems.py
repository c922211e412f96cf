"""Every failure as a problem document (RFC 9457): a type, a title, a status and a sentence."""

from __future__ import annotations

import logging
import string
from urllib.parse import quote

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Scope

from scholarbase.errors import PROBLEM_TYPE_BASE, InvalidRequest, ScholarBaseError
from scholarbase.models.schemas import sentence

log = logging.getLogger("scholarbase.api")

MEDIA_TYPE = "application/problem+json"


def problem(status: int, slug: str, title: str, detail: str) -> Response:
    """A problem document as a response."""
    # A sentence may quote what was sent, and JSON can carry halves of characters, which no UTF-8 has.
    sentence = detail.encode("utf-8", "backslashreplace").decode()
    body = {"type": PROBLEM_TYPE_BASE + slug, "title": title, "status": status, "detail": sentence}
    return Response(orjson.dumps(body), status, media_type=MEDIA_TYPE)


def logged_path(scope: Scope) -> str:
    """A request's path as a log line shows it: as it was sent, with ``%0a`` for a line break, so that no path
    can end the line and write another. Whatever is no visible ASCII character is percent-encoded."""
    raw: bytes | None = scope.get("raw_path")
    if raw is not None:
        return quote(raw, safe=string.punctuation)
    return quote(scope["path"], safe=string.punctuation.replace("%", ""), errors="backslashreplace")


def install(app: FastAPI) -> None:
    """Have every error of the application answered by a problem document."""
    app.add_exception_handler(ScholarBaseError, _ours)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _http)


def _ours(request: Request, error: Exception) -> Response:
    assert isinstance(error, ScholarBaseError)
    if error.status >= 500:
        path = logged_path(request.scope)
        log.error("%s %s: %s id=%s", request.method, path, error, request.scope.get("request_id"))
    return problem(error.status, error.slug, error.title, str(error))


def _malformed(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return problem(400, InvalidRequest.slug, InvalidRequest.title, sentence(error.errors()[0]))


def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    details = {
        400: "The body cannot be read as JSON: send a JSON object.",
        404: f"There is nothing at {request.url.path}: see /docs for the routes.",
        405: f"{request.url.path} does not take {request.method}: see /docs for what it takes.",
    }
    titles = {
        400: (InvalidRequest.slug, InvalidRequest.title),
        404: ("not-found", "Not found"),
        405: ("method-not-allowed", "Method not allowed"),
    }
    slug, title = titles.get(error.status_code, ("http", "Request failed"))
    answer = problem(error.status_code, slug, title, details.get(error.status_code, str(error.detail)))
    for name, value in (error.headers or {}).items():
        answer.headers[name] = value
    if error.status_code == 405 and (taken := _methods(request)):
        answer.headers["Allow"] = ", ".join(sorted(taken))
    return answer


def unexpected(request_id: str) -> Response:
    """The answer to an error that is not ours: what went wrong stands in the log, not in the answer."""
    detail = (
        f"The server met an error that it does not know. Its log has the details under the id {request_id}."
    )
    return problem(500, "internal", "Internal error", detail)


def _methods(request: Request) -> set[str]:
    """What the path takes over all of its routes: the router's own answer names only one route's."""
    route = getattr(request.scope.get("route"), "path", "").replace(":path}", "}")
    taken = {method.upper() for method in request.app.openapi()["paths"].get(route, ())}
    return taken | {"HEAD"} if "GET" in taken else taken
