"""The routes of the native API, one module per resource."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import Parameter, Signature
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.routing import APIRoute

from scholarbase.api.holding import held_by
from scholarbase.api.openapi import documented, problems
from scholarbase.api.responding import Call, NativeRoute
from scholarbase.errors import ScholarBaseError
from scholarbase.models.papers import EXAMPLE_ID
from scholarbase.models.requests import Request as NativeRequest
from scholarbase.models.responses import Response
from scholarbase.search.library import Library


async def library_of(request: Request) -> Library:
    """The library that answers the request."""
    return held_by(request.scope).library


OpenLibrary = Annotated[Library, Depends(library_of)]
PaperId = Annotated[
    str,
    Path(
        description="The paper's id in any form: arXiv (new or old, with version or prefix, or a link), CorpusId:, "
        "a Semantic Scholar sha, DOI:, ACL:, PMID:, MAG:, URL:.",
        examples=[EXAMPLE_ID],
    ),
]

_IN_PATH: Final[dict[str, Any]] = {
    "paper_id": PaperId,
    "author_id": Annotated[
        str,
        Path(
            description="The author's id: the source's, or `name:` and a name.",
            examples=["name:washington taylor"],
        ),
    ],
    "page": Annotated[int, Path(description="The number of the page, from 1.", examples=[1])],
}


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


def add(
    router: APIRouter,
    method: str,
    path: str,
    call: Call,
    *,
    name: str,
    response: type[Response] | None,
    summary: str,
    description: str,
    query: type[NativeRequest] | None = None,
    errors: Sequence[type[ScholarBaseError]] = (),
) -> None:
    """Add a native call as a route.

    Args:
        name: the operation's id in the OpenAPI document.
        response: the structure of its JSON; None for an image.
        query: the URL parameters or the body, if other fields of the request are in the path.
        errors: the errors that the router's other routes do not have.
    """
    parameters = {name: kind for name, kind in _IN_PATH.items() if f"{{{name}" in path}
    if method == "GET":
        parameters["parameters"] = Annotated[query or call.request, Query()]
    else:
        parameters["body"] = query or call.request

    async def endpoint(**_: Any) -> None:
        """Never called; NativeRoute runs the call."""

    signature = [Parameter(key, Parameter.KEYWORD_ONLY, annotation=kind) for key, kind in parameters.items()]
    endpoint.__signature__ = Signature(signature)  # type: ignore[attr-defined]
    endpoint.call = call  # type: ignore[attr-defined]
    content: dict[str, Any] = (
        {"content": {call.media_type: {}}} if response is None else {"model": documented(response)}
    )
    router.add_api_route(
        path,
        endpoint,
        methods=[method],
        name=name,
        response_model=None,
        responses={**problems(*errors), 200: content},
        summary=summary,
        description=description,
    )
