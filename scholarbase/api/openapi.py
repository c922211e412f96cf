"""The OpenAPI document: additions to what FastAPI reads from the functions of the routes.

FastAPI describes requests, which are pydantic models. For responses, which are msgspec structs, :func:`documented`
creates pydantic models. :func:`described` adds the rest of one route, and :func:`document` what all routes have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from inspect import Parameter, Signature
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

import msgspec
import orjson
from fastapi import FastAPI, Path, Query
from pydantic import BaseModel, Field, create_model
from starlette.routing import compile_path

from scholarbase.api.holding import SNAPSHOT as SNAPSHOT_HEADER
from scholarbase.api.middleware import REQUEST_ID
from scholarbase.api.paths import ADMIN_PATHS, OPEN_PATHS, is_about_library
from scholarbase.api.problems import add_errors
from scholarbase.api.session_headers import PARAMETERS, RESPONSE_HEADERS, header_parameter
from scholarbase.bibliographies.writing import MEDIA_TYPES
from scholarbase.errors import (
    BodyTooLarge,
    BudgetExhausted,
    Forbidden,
    InvalidRequest,
    MisdirectedRequest,
    RateLimited,
    ScholarBaseError,
    SnapshotNotHeld,
    StorageError,
    Unauthorized,
)
from scholarbase.models.authors import AuthorProfile
from scholarbase.models.document_responses import FindResponse, PassagesResponse, TextResponse
from scholarbase.models.limits import Counted, Engine, Mode, ReferenceFormat, ReferenceStatus
from scholarbase.models.papers import Paper
from scholarbase.models.requests import PaperOptions, Request
from scholarbase.models.responses import (
    AuthorResponse,
    CheckResponse,
    CitationsResponse,
    ExpandResponse,
    InvalidId,
    Observation,
    PaperBatchResponse,
    PaperResponse,
    Response,
    SearchResponse,
    TitleBatchResponse,
)
from scholarbase.models.sql import SqlResponse

TEXT: Final = {"text/plain": {"schema": {"type": "string"}}}
"""The body of a response with ``format=text``."""
EXPORTS: Final = {
    media_type.partition(";")[0]: {"schema": {"type": "array" if "json" in media_type else "string"}}
    for media_type in MEDIA_TYPES.values()
}
"""The body of a response that is a bibliography."""


# -- one route -----------------------------------------------------------------------------------------------


def described(
    path: str,
    request: type[Request],
    response: type[Response | bytes],
    media_type: str,
    options: dict[str, Any],
) -> Callable[..., Any]:
    """A call as a function for FastAPI, which has the parts of the request as parameters.

    Fields of the request that the path names are parameters of the path. All others, which a base class of the request
    has, are those of the URL or the body. The response is added to the options of the route.
    """
    in_path = compile_path(path)[2].keys()
    bases = [base for base in request.__mro__ if issubclass(base, BaseModel)]
    others: Any = next(base for base in bases if in_path.isdisjoint(base.model_fields))
    if request.model_fields.keys() != in_path | others.model_fields.keys():
        raise TypeError(
            f"{request.__name__} must have the fields of the path {path}, and inherit all others from another request."
        )
    kinds: dict[str, Any] = {}
    for name in in_path:
        field = request.model_fields[name]
        about = Path(description=field.description, examples=field.examples)
        kinds[name] = Annotated[field.annotation, about]
    kinds["request"] = others if "POST" in options["methods"] else Annotated[others, Query()]

    def read(**_: Any) -> None:
        """Only its signature is used."""

    parameters = [Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind) for name, kind in kinds.items()]
    read.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    is_sized = "max_tokens" in request.model_fields
    options["response_model"] = None if response is bytes else documented(response, is_sized)
    content: dict[str, Any] = {media_type.partition(";")[0]: {}} if response is bytes else {}
    if "format" in request.model_fields:
        content |= TEXT | EXPORTS if issubclass(request, PaperOptions) else TEXT
    options["responses"].setdefault("200", {}).setdefault("content", {}).update(content)
    return read


def describe_recording(options: dict[str, Any]) -> None:
    """Add to the options of a route the headers and errors of sessions that record its calls."""
    extra = options["openapi_extra"] or {}
    options["openapi_extra"] = {**extra, "parameters": [*extra.get("parameters", ()), *PARAMETERS]}
    options["responses"].setdefault("200", {})["headers"] = RESPONSE_HEADERS
    add_errors(options, BudgetExhausted, StorageError)


# -- the document --------------------------------------------------------------------------------------------


def document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document: errors are problem documents, and invalid requests are 400, not FastAPI's 422."""
    if app.openapi_schema is None:
        app.state.extension_routes.load()
        content = FastAPI.openapi(app)
        app.openapi_schema = None  # not complete yet
        for _, operation in _operations(content):
            operation["responses"].pop("422", None)
            for parameter in operation.get("parameters", ()):
                if parameter["name"] == "fields":
                    parameter["schema"].pop("default", None)  # the list of all fields
        schemas = content["components"]["schemas"]
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        schemas["Problem"] = Problem.model_json_schema()
        _describe_access(content)
        _describe_headers(content)
        _describe_single_values(content)
        _prefill(content)
        app.openapi_schema = content
    return app.openapi_schema


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The operations of an OpenAPI document with their paths."""
    for path, operations in document["paths"].items():
        for operation in operations.values():
            yield path, operation


_RETRY_AFTER: Final = {
    "Retry-After": {"description": "Seconds until the next request.", "schema": {"type": "integer"}}
}


def _describe_access(document: dict[str, Any]) -> None:
    """Add the errors of the guard and the key header to an OpenAPI document."""
    schemes = document["components"].setdefault("securitySchemes", {})
    schemes["key"] = {
        "type": "http",
        "scheme": "bearer",
        "description": "A key made with `scholarbase key create`, if the server requires keys.",
    }
    document["security"] = [{}, {"key": []}]
    for path, operation in _operations(document):
        errors: list[type[ScholarBaseError]] = [MisdirectedRequest]
        if path in OPEN_PATHS:
            operation["security"] = []
        else:
            errors += (Unauthorized, RateLimited)
        if path.startswith(ADMIN_PATHS):
            errors.append(Forbidden)
        if "requestBody" in operation:
            errors.append(BodyTooLarge)
        add_errors(operation, *errors)
        if RateLimited in errors:
            operation["responses"][str(RateLimited.status)]["headers"] = _RETRY_AFTER


def _describe_headers(document: dict[str, Any]) -> None:
    """Add the headers of every request and response to an OpenAPI document."""
    sent = header_parameter(
        REQUEST_ID, "The id of the request in the log and in the response; generated by default."
    )
    document["components"]["headers"] = {
        REQUEST_ID: {"description": "The id of the request in the log.", "schema": {"type": "string"}},
        SNAPSHOT_HEADER: {"description": "The snapshot id of the library.", "schema": {"type": "string"}},
    }
    named = header_parameter(
        SNAPSHOT_HEADER, "The snapshot that must answer, which the server must hold; by default the newest."
    )
    returned = {name: {"$ref": f"#/components/headers/{name}"} for name in document["components"]["headers"]}
    for path, operation in _operations(document):
        operation.setdefault("parameters", []).append(sent)
        if is_about_library(path):
            operation["parameters"].append(named)
            add_errors(operation, SnapshotNotHeld)
        for response in operation["responses"].values():
            response["headers"] = {**returned, **response.get("headers", {})}


def _describe_single_values(document: dict[str, Any]) -> None:
    """A body may have a string in place of a list of one string."""
    schemas = document["components"]["schemas"]
    for _, operation in _operations(document):
        for media in operation.get("requestBody", {}).get("content", {}).values():
            schema = schemas.get(media["schema"].get("$ref", "").rpartition("/")[2], media["schema"])
            for kind in schema.get("properties", {}).values():
                accepted = kind.get("anyOf", [kind])
                if _STRING in accepted or not any(choice.get("items") == _STRING for choice in accepted):
                    continue
                if accepted == [kind]:
                    kind["anyOf"] = [{name: kind.pop(name) for name in _OF_LISTS if name in kind}]
                kind["anyOf"].append(_STRING)


_STRING: Final = {"type": "string"}
_OF_LISTS: Final = ("type", "items", "minItems")
PREFILLED: Final = ("query", "limit")
"""Keys of a body, besides those that are required, whose examples the interactive page fills in."""


def _prefill(document: dict[str, Any]) -> None:
    """Leave the interactive page with forms that can be sent as they are: it fills in every example.

    Required parameters come first and keep their examples. Those of optional parameters move to their descriptions.
    """
    schemas = document["components"]["schemas"]
    for _, operation in _operations(document):
        parameters = operation.get("parameters", [])
        parameters.sort(key=lambda parameter: not parameter["required"])
        for parameter in parameters:
            examples = parameter["schema"].get("examples")
            if parameter["required"] and examples:
                parameter["example"] = examples[0]  # the page does not read those of a schema
            elif examples:
                del parameter["schema"]["examples"]
                example = orjson.dumps(examples[0]).decode().strip('"')
                parameter["description"] = f"{parameter.get('description', '')} Example: `{example}`.".strip()
                parameter["schema"].pop("description", None)  # FastAPI writes it twice
        for media in operation.get("requestBody", {}).get("content", {}).values():
            schema = media["schema"]
            schema = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
            if "examples" in schema or "properties" in schema:
                media["example"] = _example(schema)


def _example(schema: dict[str, Any]) -> Any:
    if "examples" in schema:
        return schema["examples"][0]
    wanted = (*schema.get("required", ()), *PREFILLED)
    examples = {name: kind.get("examples") for name, kind in schema["properties"].items() if name in wanted}
    return {name: shown[0] for name, shown in examples.items() if shown}


# -- responses of a size, or in a session ----------------------------------------------------------------


class LeftOut(BaseModel):
    """What a response of a limited size does not have, and how to get it."""

    papers: int | None = Field(None, description="The number of papers.")
    rows: int | None = Field(None, description="The number of rows.")
    abstracts_cut: int | None = Field(None, description="Abstracts that end early.")
    abstracts: int | None = Field(None, description="Abstracts that are missing.")
    contexts: int | None = Field(None, description="Citation contexts that are missing.")
    how: str


class Sized(BaseModel):
    tokens: int | None = Field(None, description="The estimated size; present with `max_tokens`.")
    left_out: LeftOut | None = Field(
        None, description="Present with `max_tokens`, if something was left out."
    )
    budget: dict[str, int] | None = Field(
        None, description="What the limits of the session have left; present if it has limits."
    )


SNAPSHOT: Any = Field(
    description="Identifies the library's content: equal requests on it return equal bytes."
)

# -- responses of a library ----------------------------------------------------------------------------------


@lru_cache
def documented(struct: type[msgspec.Struct], is_sized: bool, /) -> type[BaseModel]:
    """The pydantic model that describes the JSON of a struct.

    Args:
        is_sized: whether it is a response with papers, whose request has ``max_tokens``.
    """
    if struct in _FLAT:
        flat: Any = documented(_FLAT[struct], False)
        parts = (flat, Sized) if is_sized else flat
        return create_model(struct.__name__, __doc__=struct.__doc__, __base__=parts, snapshot=(str, SNAPSHOT))
    hints = get_type_hints(struct, include_extras=True)
    fields: dict[str, Any] = {}
    for name in struct.__struct_fields__:
        if name == "fields" and issubclass(struct, Response):
            continue  # not part of the JSON
        annotation, about = hints[name], {}
        if get_origin(annotation) is Annotated:
            annotation, meta = get_args(annotation)
            about = {"description": meta.description, "examples": meta.examples}
        kind: Any = _documented_type(annotation, is_sized)
        if struct is Paper and name == "authors":
            kind = kind | str
        default: Any = ...
        field = next(f for f in msgspec.structs.fields(struct) if f.name == name)
        has_default = not (field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT)
        if has_default and struct.__struct_config__.omit_defaults:
            kind, default = kind | None, None
        elif has_default and struct is Paper:  # only the requested fields are present
            default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
            default = [] if default == () else None if default is msgspec.UNSET else default
        elif field.default is msgspec.UNSET:
            default = False  # of a mark that is present only where it is true
        fields[name] = (kind, Field(default, **about))
    base = Sized if is_sized else None
    return create_model(struct.__name__, __doc__=struct.__dict__.get("__doc__"), __base__=base, **fields)


_FLAT: Final[dict[type[msgspec.Struct], type[msgspec.Struct]]] = {
    PaperResponse: Paper,
    AuthorResponse: AuthorProfile,
}
"""Responses whose JSON has the keys of another struct besides the snapshot."""


def _documented_type(annotation: Any, is_sized: bool) -> Any:
    """The type of a field's JSON. Modes, engines, formats and statuses are strings, because new ones may be added."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation in (Counted, Mode, Engine, ReferenceFormat, ReferenceStatus):
        return str
    if origin is Annotated:
        return _documented_type(arguments[0], is_sized)
    if origin is tuple:
        return list[_documented_type(arguments[0], is_sized)]  # type: ignore[misc]
    if origin in (Union, UnionType):
        kinds = (
            _documented_type(argument, is_sized)
            for argument in arguments
            if argument is not msgspec.UnsetType
        )
        return Union[tuple(kinds)]  # noqa: UP007
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return documented(annotation, is_sized and issubclass(annotation, Response))
    return annotation


def tool_response() -> Any:
    """The response of a tool: that of its native route. An id that is malformed has its own error."""
    result: Any = Union[documented(Paper, False), documented(InvalidId, False), None]  # noqa: UP007
    papers = create_model(
        "ToolPapersResponse",
        __doc__="The response of get_papers.",
        __base__=documented(PaperBatchResponse, True),
        results=(list[result], ...),
    )
    others = (
        *(SearchResponse, TitleBatchResponse, CheckResponse, CitationsResponse, ExpandResponse),
        *(PassagesResponse, TextResponse, FindResponse, SqlResponse, Observation),
    )
    return Union[(papers, *(documented(response, True) for response in others))]


# -- errors --------------------------------------------------------------------------------------------------


class Problem(BaseModel):
    """An error (RFC 9457)."""

    type: str = Field(description="A link to the documentation of the error.")
    title: str
    status: int
    detail: str = Field(description="What is wrong with which value, and what to do.")


def problems(*errors: type[ScholarBaseError]) -> dict[int | str, dict[str, Any]]:
    """The documentation of a route's errors. Every route rejects invalid parameters."""
    operation: dict[str, Any] = {"responses": {}}
    add_errors(operation, InvalidRequest, *errors)
    responses: dict[int | str, dict[str, Any]] = operation["responses"]
    return responses
