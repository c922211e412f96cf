"""The routes of the native API, one module per resource.

Most routes are a :class:`.Call` of a method of the library, below a router of :func:`resource`::

    router = resource("/v1/title-match", "titles", LibraryError)
    match = Call(Library.run_title, TitleParameters, TitleMatchResponse)
    route(router, "GET", match, name="match_title", summary="Match a title", description="...")

The request is a model of :mod:`scholarbase.models.requests`, whose fields are the parameters of the path and the URL,
or the keys of the body. Other routes are functions, with FastAPI's own kinds of parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends
from fastapi import Request as HttpRequest

from scholarbase.api.holding import LIBRARY
from scholarbase.api.openapi import problems
from scholarbase.api.responding import Call, NativeRoute, json_response
from scholarbase.errors import ScholarBaseError
from scholarbase.search.library import Library

__all__ = ["OpenLibrary", "cacheable", "json_response", "problems", "recorded_as", "resource", "route"]

F = TypeVar("F", bound=Callable[..., Any])


async def library_of(request: HttpRequest) -> Library:
    """The library that answers the request. Not in a thread, as :func:`.holding.library_of` would run."""
    library: Library = request.scope[LIBRARY]
    return library


OpenLibrary = Annotated[Library, Depends(library_of)]
"""The library that answers the request, as a parameter of a function that FastAPI runs."""


def resource(prefix: str, tag: str, *errors: type[ScholarBaseError]) -> APIRouter:
    """A router for the routes below ``prefix``, which reject unknown parameters, with the errors of all of them."""
    return APIRouter(
        prefix=prefix,
        tags=[tag],
        responses=problems(*errors),
        route_class=NativeRoute,
        generate_unique_id_function=attrgetter("name"),
    )


def route(
    router: APIRouter,
    what: str,
    call: Call,
    *,
    name: str,
    summary: str,
    description: str,
    responses: dict[int | str, dict[str, Any]] | None = None,
) -> None:
    """Add a route of a call. A GET response has an entity tag.

    Args:
        what: the method and the path below the router's, such as ``POST /batch``.
        name: the operation's id in the OpenAPI document.
        responses: errors besides those of the router (:func:`problems`).
    """
    method, _, path = what.partition(" ")
    router.add_api_route(
        path,
        call,  # type: ignore[arg-type]  # which NativeRoute runs
        methods=[method],
        name=name,
        summary=summary,
        description=description,
        responses=responses,
    )


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
