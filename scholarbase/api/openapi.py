"""The OpenAPI document: additions to what FastAPI reads from the routes.

FastAPI documents requests, which are pydantic models. For responses, which are msgspec structs, :func:`documented`
creates pydantic models.
"""

from __future__ import annotations

from functools import lru_cache
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import orjson
from fastapi import FastAPI
from pydantic import BaseModel, Field, create_model

from scholarbase.api.access.guard import describe as describe_access
from scholarbase.api.middleware import describe as describe_headers
from scholarbase.api.problems import MEDIA_TYPE, add_errors
from scholarbase.api.session_headers import CALLS
from scholarbase.api.session_headers import describe as describe_sessions
from scholarbase.bibliographies.writers import MEDIA_TYPES
from scholarbase.errors import Busy, InvalidRequest, ScholarBaseError, TimeLimit
from scholarbase.models.actions import Observation
from scholarbase.models.authors import AuthorProfile
from scholarbase.models.document_responses import FindResponse, PassagesResponse, TextResponse
from scholarbase.models.limits import Counted, Engine, Mode, ReferenceFormat, ReferenceStatus
from scholarbase.models.papers import Paper
from scholarbase.models.responses import (
    AuthorBatchResponse,
    AuthorResponse,
    AuthorsResponse,
    CheckResponse,
    CitationsResponse,
    ExpandResponse,
    FacetsResponse,
    InvalidId,
    PaperBatchResponse,
    PaperResponse,
    Response,
    SearchResponse,
    TitleBatchResponse,
)
from scholarbase.models.sql import SqlResponse
from scholarbase.settings import Fusion, Profile

ADMITTED: Final = (Busy, TimeLimit)
"""Errors of every route below ``/v1`` that does more than to describe the server."""
DESCRIBING: Final = frozenset({"snapshot", "list_tools", "sql_schema"})
_AS_TEXT: Final = CALLS | {"author_papers"}
"""Routes whose responses have a ``format``."""
_TEXT: Final = {"text/plain": {"schema": {"type": "string"}}}
"""The body of a response with ``format=text``."""
_AS_EXPORT: Final = _AS_TEXT - {"search_batch", "match_title", "match_titles", "check_references"}
"""Routes whose responses may be a bibliography."""
_EXPORTS: Final = {
    media_type.partition(";")[0]: {"schema": {"type": "array" if "json" in media_type else "string"}}
    for media_type in MEDIA_TYPES.values()
}


def document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document: errors are problem documents, and invalid requests are 400, not FastAPI's 422."""
    if app.openapi_schema is None:
        app.state.extension_routes.load()
        content = FastAPI.openapi(app)
        for path, operations in content["paths"].items():
            for operation in operations.values():
                responses = operation["responses"]
                responses.pop("422", None)
                if path.startswith("/v1") and operation["operationId"] not in DESCRIBING:
                    add_errors(operation, *ADMITTED)
                if operation["operationId"] in _AS_TEXT:
                    responses["200"]["content"] |= _TEXT
                if operation["operationId"] in _AS_EXPORT:
                    responses["200"]["content"] |= _EXPORTS
                for parameter in operation.get("parameters", ()):
                    if parameter["name"] == "fields":
                        parameter["schema"].pop("default")  # the list of all fields
                for status, response in responses.items():
                    if status >= "400" and "application/json" in response.get("content", {}):
                        response["content"] = {MEDIA_TYPE: response["content"]["application/json"]}
        for name in ("HTTPValidationError", "ValidationError"):
            content["components"]["schemas"].pop(name, None)
        describe_access(content)
        describe_sessions(content)
        describe_headers(content)
        _describe_single_values(content)
        _prefill(content)
        app.openapi_schema = content
    return app.openapi_schema


def _describe_single_values(document: dict[str, Any]) -> None:
    """A body may have a string in place of a list of one string."""
    schemas = document["components"]["schemas"]
    for operations in document["paths"].values():
        for operation in operations.values():
            for media in operation.get("requestBody", {}).get("content", {}).values():
                schema = schemas.get(media["schema"].get("$ref", "").rpartition("/")[2], media["schema"])
                for kind in schema.get("properties", {}).values():
                    accepted = kind.get("anyOf", [kind])
                    if _STRING in accepted or not any(one.get("items") == _STRING for one in accepted):
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
    for operations in document["paths"].values():
        for operation in operations.values():
            parameters = operation.get("parameters", [])
            parameters.sort(key=lambda parameter: not parameter["required"])
            for parameter in parameters:
                examples = parameter["schema"].get("examples")
                if parameter["required"] and examples:
                    parameter["example"] = examples[0]  # the page does not read those of a schema
                elif examples:
                    del parameter["schema"]["examples"]
                    example = orjson.dumps(examples[0]).decode().strip('"')
                    parameter["description"] += f" Example: `{example}`."
                    parameter["schema"].pop("description", None)  # FastAPI writes it twice
            for media in operation.get("requestBody", {}).get("content", {}).values():
                schema = media["schema"]
                schema = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
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


_UNSIZED: Final = (AuthorsResponse, AuthorBatchResponse, FacetsResponse)
"""Responses without papers, which have no ``max_tokens``."""

# -- responses of a library ----------------------------------------------------------------------------------


@lru_cache
def documented(struct: type[msgspec.Struct]) -> type[BaseModel]:
    """The pydantic model that describes the JSON of a struct."""
    if struct is PaperResponse:
        base: Any = (documented(Paper), Sized)
        return create_model(struct.__name__, __doc__=struct.__doc__, __base__=base, snapshot=(str, SNAPSHOT))
    if struct is AuthorResponse:
        base = documented(AuthorProfile)
        return create_model(struct.__name__, __doc__=struct.__doc__, __base__=base, snapshot=(str, SNAPSHOT))
    hints = get_type_hints(struct, include_extras=True)
    fields: dict[str, Any] = {}
    for name in struct.__struct_fields__:
        if name == "fields" and issubclass(struct, Response):
            continue  # not part of the JSON
        annotation, about = hints[name], {}
        if get_origin(annotation) is Annotated:
            annotation, meta = get_args(annotation)
            about = {"description": meta.description, "examples": meta.examples}
        kind: Any = _documented_type(annotation)
        if struct is Paper and name == "authors":
            kind = kind | str
        default: Any = ...
        field = next(f for f in msgspec.structs.fields(struct) if f.name == name)
        has_default = not (field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT)
        if has_default and struct.__struct_config__.omit_defaults:
            kind, default = kind | None, None
        elif has_default and struct is Paper:  # only the requested fields are present
            default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
            default = [] if default == () else default
        fields[name] = (kind, Field(default, **about))
    base = Sized if issubclass(struct, Response) and struct not in _UNSIZED else None
    return create_model(struct.__name__, __doc__=struct.__dict__.get("__doc__"), __base__=base, **fields)


def _documented_type(annotation: Any) -> Any:
    """The type of a field's JSON. Modes, engines, formats and statuses are strings, because new ones may be added."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation in (Counted, Mode, Engine, ReferenceFormat, ReferenceStatus):
        return str
    if origin is Annotated:
        return _documented_type(arguments[0])
    if origin is tuple:
        return list[_documented_type(arguments[0])]  # type: ignore[misc]
    if origin in (Union, UnionType):
        return Union[tuple(map(_documented_type, arguments))]  # noqa: UP007
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return documented(annotation)
    return annotation


def tool_response() -> Any:
    """The response of a tool: that of its native route. An id that is malformed has its own error."""
    one: Any = Union[documented(Paper), documented(InvalidId), None]  # noqa: UP007
    papers = create_model(
        "ToolPapersResponse",
        __doc__="The response of get_papers.",
        __base__=documented(PaperBatchResponse),
        results=(list[one], ...),
    )
    others = (
        *(SearchResponse, TitleBatchResponse, CheckResponse, CitationsResponse, ExpandResponse),
        *(PassagesResponse, TextResponse, FindResponse, SqlResponse, Observation),
    )
    return Union[(papers, *map(documented, others))]


# -- other responses -----------------------------------------------------------------------------------------

SNAPSHOT: Any = Field(
    description="Identifies the library's content: equal requests on it return equal bytes."
)
NEXT_OFFSET: Any = Field(description="The `offset` of the next page; null on the last page.")


class RankingSettings(BaseModel):
    profile: Profile = Field(description="The profile whose settings these are.")
    engine: Engine | None = Field(description="The sparse engine of searches that name none; null by mode.")
    exact: bool = Field(description="Whether all dense searches are without approximation.")
    similarity_floor: bool = Field(
        description="Whether dense results need a cosine above that of random pairs."
    )
    fusion: Fusion = Field(
        description="How hybrid searches fuse their legs: by scores, or by reciprocal rank (rrf)."
    )
    known_items: bool = Field(description="Whether a paper comes first whose id, link or title is the query.")
    rrf_k: int = Field(description="The k of reciprocal rank fusion.")
    fusion_depth: int = Field(description="The number of results of each leg that a hybrid search fuses.")
    fusion_weights: dict[str, float] = Field(description="The configured weight of each leg in the fusion.")
    fts5_title_weight: float = Field(
        description="The FTS5 weight of a word in the title, relative to one in the abstract."
    )


class RerankerModel(BaseModel):
    name: str = Field(description="The model's name, or the address of its service.")
    fingerprint: str | None = Field(description="A hash of the model's files; null for a service.")


class SnapshotResponse(BaseModel):
    snapshot: str = SNAPSHOT
    ranking: RankingSettings = Field(description="The settings that decide rankings, besides the snapshot.")
    rerankers: dict[str, RerankerModel] = Field(description="The rerankers that searches may use, by name.")
    manifest: dict[str, Any] = Field(description="The library's contents and sources.")


class HeldSnapshot(BaseModel):
    snapshot: str = Field(description="The id for the header `X-ScholarBase-Snapshot`.")
    name: str = Field(description="The name of the library's folder.")
    papers: int
    abstracts: int
    citations: int


class SnapshotsResponse(BaseModel):
    results: list[HeldSnapshot] = Field(description="The open libraries, the current one first.")


class Health(BaseModel):
    status: Literal["ok"]


class Readiness(BaseModel):
    status: Literal["ready"]
    snapshot: str = SNAPSHOT
    catalog: str = Field(description="`ok`.")
    vectors: str = Field(description="`ok`.")
    encoder: str = Field(description="`ok`, or `absent` where the library needs none.")


class ReloadResponse(BaseModel):
    snapshot: str = Field(description="The snapshot that is served now.")
    previous: str = Field(description="The snapshot that was served before.")
    changed: bool = Field(description="Whether they differ.")
    held: list[str] = Field(description="The snapshots that requests may name, the newest first.")


class ToolsResponse(BaseModel):
    snapshot: str = SNAPSHOT
    tools: list[dict[str, Any]] = Field(description="One function schema per tool, in the requested form.")


class SessionResponse(BaseModel):
    session: str
    query_id: str = Field(description="The id of the question; by default the session's name.")
    query: str | None
    as_of: str | None
    limits: dict[str, int] = Field(description="The limits that are set.")
    opened: str = Field(description="RFC 3339.")


class ListedSession(SessionResponse):
    calls: int
    used: str = Field(description="The time of the last call, RFC 3339.")
    lost: int = Field(description="Calls that could not be recorded.")


class SessionsResponse(BaseModel):
    total: int
    next_offset: int | None = NEXT_OFFSET
    results: list[ListedSession]


class RecordedCall(BaseModel):
    session: str
    call: int = Field(description="The number of the call.")


class ReportResponse(SessionResponse):
    """The cost and the findings of a session; docs/trajectories.md defines the figures."""

    calls: int
    rounds: int
    search_calls: int
    match_calls: int
    expand_calls: int
    inspect_calls: int
    failed_calls: int
    candidates: int
    recall: float | None = Field(description="Over all answers; null without answers.")
    recall_100: float | None
    recall_100_per_100: float | None
    seconds: float | None
    tokens: int | None
    recall_after: list[float] | None = Field(description="Recall after each call.")
    answers: int
    answers_absent: list[str] = Field(description="Answers that the library does not hold.")


class ReplayDifference(BaseModel):
    call: int = Field(description="The number of the call.")
    tool: str
    what: str = Field(description="What differs first: error, ids or scores.")
    message: str = Field(description="What was recorded, and what came now.")


class ReplayResponse(BaseModel):
    session: str
    snapshot: str = Field(description="The snapshot on which the calls ran again.")
    recorded_on: list[str] = Field(description="The snapshots on which they were recorded.")
    calls: int = Field(description="The calls of the session.")
    replayed: int = Field(description="Those that ran again: neither failed calls nor the agent's answers.")
    differences: list[ReplayDifference]


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
    return {
        int(status): {"model": Problem, **response} for status, response in operation["responses"].items()
    }
