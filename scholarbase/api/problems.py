"""Errors as problem documents (RFC 9457): type, title, status and detail."""

from __future__ import annotations

import logging
import math
from http import HTTPStatus
from typing import Any, Final

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Scope

from scholarbase.api.paths import TOOLS_PATH, is_below
from scholarbase.errors import (
    PROBLEM_TYPE_BASE,
    Busy,
    Cancelled,
    InvalidRequest,
    MethodNotAllowed,
    ScholarBaseError,
    TimeLimit,
)
from scholarbase.models.requests import sentence

log = logging.getLogger("scholarbase.api")

MEDIA_TYPE = "application/problem+json"


def problem(status: int, slug: str, title: str, detail: str) -> Response:
    body = {"type": PROBLEM_TYPE_BASE + slug, "title": title, "status": status, "detail": text_of(detail)}
    return Response(orjson.dumps(body), status, media_type=MEDIA_TYPE)


def text_of(text: str) -> str:
    """A text that UTF-8 can encode: a message may quote half of a surrogate pair from a JSON body."""
    return text.encode("utf-8", "backslashreplace").decode()


def problem_of(error: ScholarBaseError) -> Response:
    response = problem(error.status, error.slug, error.title, error.for_clients)
    if isinstance(error, Busy):
        response.headers["Retry-After"] = str(error.retry_after)
    return response


def problem_content() -> dict[str, Any]:
    """The content of an error in an OpenAPI document."""
    return {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}


def add_errors(operation: dict[str, Any], *errors: type[ScholarBaseError]) -> None:
    """Add errors to an operation of an OpenAPI document; those with the same status share a response."""
    for error in errors:
        summary = (error.__doc__ or "").partition("\n")[0].replace("``", "`")
        known = operation["responses"].get(str(error.status))
        if known is None:
            operation["responses"][str(error.status)] = {"description": summary, "content": problem_content()}
        elif summary not in known["description"]:
            known["description"] += f" Or: {summary}"


async def rejection(error: ScholarBaseError, scope: Scope) -> Response:
    """The response to a request that does not reach its route: its dialect's error, at ``/mcp`` a JSON-RPC error, else
    a problem document."""
    path: str = scope["path"]
    dialect = await scope["app"].state.extension_routes.dialect_at(path)
    if dialect is not None:
        response: Response = dialect.rejection(error)
        return response
    return tools_error(error) if is_below(path, TOOLS_PATH) else problem_of(error)


def tools_error(error: ScholarBaseError) -> Response:
    """An error as JSON-RPC.

    JSON-RPC leaves the codes from -32099 to -32000 to servers (https://www.jsonrpc.org/specification#error_object).
    """
    data = {"type": PROBLEM_TYPE_BASE + error.slug, "title": error.title, "status": error.status}
    body = {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -32000, "message": error.for_clients, "data": data},
    }
    return Response(orjson.dumps(body), error.status, media_type="application/json")


def log_failure(scope: Scope, error: ScholarBaseError) -> None:
    """Log an error that is not the client's."""
    if error.status >= 500:
        # A client that disconnects and a request that is too expensive are no faults of the server.
        level = logging.INFO if isinstance(error, Cancelled | TimeLimit | Busy) else logging.ERROR
        where = (scope["method"], scope.get("logged_path"), error, scope.get("request_id"))
        log.log(level, "%s %s: %s id=%s", *where)


_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}


def install(app: FastAPI) -> None:
    """Respond to every error of the application with a problem document."""
    app.add_exception_handler(ScholarBaseError, _ours)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _http)


def _ours(request: Request, error: Exception) -> Response:
    assert isinstance(error, ScholarBaseError)
    log_failure(request.scope, error)
    return problem_of(error)


def _malformed(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return problem_of(invalid_request(error))


def invalid_request(error: RequestValidationError) -> InvalidRequest:
    """An error of FastAPI's validation as InvalidRequest."""
    first = error.errors()[0]
    where, *path = first["loc"]
    if first["type"] == "json_invalid":
        return InvalidRequest(f"The body is not valid JSON ({first['ctx']['error']}): send a JSON object.")
    if first["type"] == "missing" and not path:
        return InvalidRequest("The body is missing: send a JSON object.")
    return InvalidRequest(sentence({**first, "loc": path}, "key" if where == "body" else "parameter"))


def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    details = {  # in place of the status's phrase
        404: f"There is no route at {request.url.path}: see /docs for the routes.",
        405: f"{request.url.path} does not support {request.method}: see /docs for the methods.",
    }
    titles = {
        400: (InvalidRequest.slug, InvalidRequest.title),
        404: ("not-found", "Not found"),
        405: (MethodNotAllowed.slug, MethodNotAllowed.title),
    }
    slug, title = titles.get(error.status_code, ("http", "Request failed"))
    detail = str(error.detail)
    if detail == _PHRASES.get(error.status_code):
        detail = details.get(error.status_code, detail)
    response = problem(error.status_code, slug, title, detail)
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    if error.status_code == 405 and (supported := _methods(request)):
        response.headers["Allow"] = ", ".join(sorted(supported))
    return response


def unexpected(request_id: str) -> Response:
    """The response to an unexpected error: the details are in the log, not in the response."""
    detail = f"An unexpected error occurred. The server's log has the details under the id {request_id}."
    return problem(500, "internal", "Internal error", detail)


def _methods(request: Request) -> set[str]:
    """The methods of all routes of the path; the router's own response names those of one route."""
    path = getattr(request.scope.get("route"), "path", None)
    routes = [route for route in request.app.routes if getattr(route, "path", None) == path]
    methods = {method for route in routes for method in getattr(route, "methods", None) or ()}
    return methods | {"HEAD"} if "GET" in methods else methods


def stopping() -> Busy:
    """The error of requests that the end of the server keeps from running."""
    return Busy("The server is stopping: send the request again in a moment.")


def busy(waiting: int, what: str, seconds: float) -> Busy:
    """The error of a request for which there is no place in a queue, and not before some seconds."""
    wait = max(1, math.ceil(seconds))
    when = "a second" if wait == 1 else f"{wait} seconds"
    return Busy(
        f"{waiting:,} requests wait for {what} of this server: retry in {when}, or send fewer at once.", wait
    )
