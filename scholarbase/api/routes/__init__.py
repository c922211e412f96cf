"""The native API, one file a resource."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.routing import APIRoute

from scholarbase.api.answers import PROBLEMS
from scholarbase.api.routing import DirectRoute
from scholarbase.api.strict import check_parameters
from scholarbase.search.library import Library


async def library_of(request: Request) -> Library:
    """The library that the application serves."""
    library: Library = request.app.state.library
    return library


OpenLibrary = Annotated[Library, Depends(library_of)]


def _operation_id(route: APIRoute) -> str:
    return route.name


def resource(prefix: str, tag: str) -> APIRouter:
    """A router for what lies below ``prefix``, whose calls refuse what they do not know."""
    return APIRouter(
        prefix=prefix,
        tags=[tag],
        responses=PROBLEMS if prefix else None,
        route_class=DirectRoute,
        dependencies=[Depends(check_parameters)],
        generate_unique_id_function=_operation_id,
    )
