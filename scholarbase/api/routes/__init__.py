"""The routes of the native API, one module per resource.

A route is a function below a router of :func:`resource`. One that takes a library and a request and returns a response
is a :func:`call`::

    router = resource("/v1/title-match", "titles", LibraryError)

    @router.get("", summary="Match a title")
    @call()
    def match_title(library: Library, request: TitleParameters) -> TitleMatchResponse:
        return library.run_title(request)

The request is a model of :mod:`scholarbase.models.requests`, whose fields are the parameters of the path and the URL,
or the keys of the body. The docstring is the description in the OpenAPI document. :mod:`scholarbase.api.responding`
runs the function. FastAPI runs functions without :func:`call`, with its own kinds of parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import iscoroutinefunction, signature
from typing import Annotated, Any, TypeVar, get_type_hints

from fastapi import APIRouter, Depends
from fastapi import Request as HttpRequest
from fastapi.routing import APIRoute

from scholarbase.api.holding import held_by
from scholarbase.api.openapi import problems
from scholarbase.api.responding import JSON, Call, NativeRoute, json_response
from scholarbase.errors import ScholarBaseError
from scholarbase.models.requests import Request
from scholarbase.search.library import Library
from scholarbase.settings import Settings
from scholarbase.tools.tool import Tool

__all__ = ["OpenLibrary", "cacheable", "call", "json_response", "problems", "recorded_as", "resource"]

F = TypeVar("F", bound=Callable[..., Any])


async def library_of(request: HttpRequest) -> Library:
    """The library that answers the request."""
    return held_by(request.scope).library


OpenLibrary = Annotated[Library, Depends(library_of)]
"""The library that answers the request, as a parameter of a function that FastAPI runs."""


def _operation_id(route: APIRoute) -> str:
    return route.name


def resource(prefix: str, tag: str, *errors: type[ScholarBaseError]) -> APIRouter:
    """A router for the routes below ``prefix``, which reject unknown parameters, with the errors of all of them."""
    return APIRouter(
        prefix=prefix,
        tags=[tag],
        responses=problems(*errors),
        route_class=NativeRoute,
        generate_unique_id_function=_operation_id,
    )


def call(
    tool: Tool | None = None,
    *,
    arguments: Callable[[Any], Sequence[Mapping[str, Any]]] | None = None,
    media_type: str = JSON,
    check_settings: Callable[[Settings], None] | None = None,
) -> Callable[[F], F]:
    """Decorate a function of a library and a request that returns a response, or bytes of a ``media_type``.

    The response has an entity tag if the method is GET. The function runs in a thread, or on the event loop if the
    request is short (:mod:`scholarbase.api.placement`).

    Args:
        tool: the tool as whose call a session records a request; without it none is recorded.
        arguments: the arguments of each recorded call; by default those of the tool for the request.
        check_settings: raises an error if the server's settings do not allow the call, before the request is parsed.
    """

    def decorate(function: F) -> F:
        hints = get_type_hints(function)
        kinds: list[Any] = [hints.get(name) for name in signature(function).parameters]
        is_call = len(kinds) == 2 and kinds[0] is Library and issubclass(kinds[1] or object, Request)
        if not is_call or iscoroutinefunction(function):
            raise TypeError(
                f"{function.__qualname__} must take a Library and a Request, and not be async: it runs in a thread."
            )
        function.call = Call(  # type: ignore[attr-defined]
            tool=None if tool is None else tool.name,
            request=kinds[1],
            run=function,
            arguments=arguments or (lambda request: () if tool is None else [tool.arguments_for(request)]),
            media_type=media_type,
            check_settings=check_settings,
        )
        return cacheable(function if tool is None else recorded_as(lambda http: tool.name)(function))

    return decorate


def recorded_as(tool_of: Callable[[HttpRequest], str]) -> Callable[[F], F]:
    """Decorate a function whose requests a session records as calls of the tool with this name."""

    def decorate(function: F) -> F:
        function.tool_of = tool_of  # type: ignore[attr-defined]
        return function

    return decorate


def cacheable(function: F) -> F:
    """Decorate a function whose response depends on the URL, the snapshot and the settings alone: it has an entity
    tag."""
    function.has_tag = True  # type: ignore[attr-defined]
    return function
