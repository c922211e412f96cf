"""``/v1/tools``: the tools as function schemas, and calls by name."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Body, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from scholarbase.api.openapi import EXPORTS, SNAPSHOT, TEXT, tool_response
from scholarbase.api.responding import call_of
from scholarbase.api.routes import OpenLibrary, cacheable, json_response, problems, recorded_as, resource
from scholarbase.api.session_headers import SESSION
from scholarbase.api.tool_sets import offered, permitted
from scholarbase.errors import EncoderError, LibraryError, PaperNotFound, ToolNotFound, VectorIndexError
from scholarbase.models.limits import SchemaForm
from scholarbase.models.requests import EXAMPLE_QUESTION
from scholarbase.tools.definitions import schemas, tool_named

router = resource("/v1/tools", "tools")


_SET: Final[Any] = {
    "description": "The set of tools: `scholarbase`, or `airqa` for the actions of AirQA's environment.",
    "examples": ["scholarbase"],
    "json_schema_extra": {"enum": ["scholarbase", "airqa"]},  # extensions may add others
}


class ToolsParameters(BaseModel):
    model_config = ConfigDict(extra="forbid")

    set_: str = Field("scholarbase", alias="set", **_SET)
    format: SchemaForm = Field(
        "openai",
        description="The form of the schemas: of OpenAI's chat completions or responses, Anthropic, Gemini or MCP.",
        examples=["openai"],
    )
    strict: bool = Field(
        False,
        description="Schemas for OpenAI's strict mode: every argument is required, with null for one that is left "
        "out.",
        examples=[False],
    )


class ToolsResponse(BaseModel):
    snapshot: str = SNAPSHOT
    tools: list[dict[str, Any]] = Field(description="One function schema per tool, in the requested form.")


@router.get("", response_model=ToolsResponse, summary="List the tools")
@cacheable
async def list_tools(
    request: Request, library: OpenLibrary, parameters: Annotated[ToolsParameters, Query()]
) -> Response:
    """The nine tools as function schemas that a model accepts unchanged, without `search_passages` and `read_paper` if
    the library has no full texts. `exclude_seen` is among the arguments if the header X-ScholarBase-Session names a
    session."""
    tools = schemas(
        parameters.format,
        modes=library.modes,
        graph=library.has_graph,
        full_texts=library.has_full_texts,
        in_session=SESSION in request.headers,
        strict=parameters.strict,
        tools=offered(parameters.set_, request.app.state.settings),
    )
    return json_response({"snapshot": library.snapshot_id, "tools": tools})


def _tool_of(request: Request) -> str:
    """The name of the tool that is called. Raises ToolNotFound: there is none."""
    tool_set: Any = request.query_params.get("set", "scholarbase")
    return tool_named(request.path_params["name"], tool_set).name


@router.post(
    "/{name}",
    response_model=None,
    responses={
        **problems(ToolNotFound, PaperNotFound, LibraryError, EncoderError, VectorIndexError),
        200: {"model": tool_response(), "content": TEXT | EXPORTS},
    },
    summary="Call a tool",
)
@recorded_as(_tool_of)
async def call_tool(
    request: Request,
    name: Annotated[str, Path(description="The tool's name.", examples=["search_papers"])],
    arguments: Annotated[
        dict[str, Any],
        Body(
            description="The arguments from the model, unchanged.",
            examples=[{"q": EXAMPLE_QUESTION, "limit": 3}],
        ),
    ],
    tool_set: Annotated[str, Query(alias="set", **_SET)] = "scholarbase",
) -> Response:
    """The response of the native route, with each paper's authors as one string."""
    tool = tool_named(name, tool_set)
    arguments = tool.canonical(arguments)
    parsed = permitted(tool.parse(arguments), request.app.state.settings)
    return await call_of(tool, arguments).respond(request, parsed)
