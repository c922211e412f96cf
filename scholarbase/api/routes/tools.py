"""``/v1/tools``: the tools as function schemas, and a route to call each by its name."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Body, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from scholarbase.api.openapi import ToolsResponse
from scholarbase.api.responding import call_of, json_response, respond
from scholarbase.api.routes import OpenLibrary, resource
from scholarbase.models.requests import EXAMPLE_QUESTION
from scholarbase.tools.definitions import SchemaForm, schemas, tool_named

router = resource("/v1/tools", "tools")


class ToolsParameters(BaseModel):
    model_config = ConfigDict(extra="forbid")

    format: SchemaForm = Field(
        "openai",
        description="Whose form the schemas are in: OpenAI's, Anthropic's or MCP's.",
        examples=["openai"],
    )


@router.get(
    "", response_model=None, responses={200: {"model": ToolsResponse}}, summary="The tools, for a model"
)
async def list_tools(
    request: Request, library: OpenLibrary, parameters: Annotated[ToolsParameters, Query()]
) -> Response:
    """The six tools as function schemas, to be handed to a model as they are."""
    return json_response({"snapshot": library.snapshot_id, "tools": schemas(parameters.format)})


@router.post("/{name}", response_model=None, summary="Call a tool")
async def call_tool(
    request: Request,
    library: OpenLibrary,
    name: Annotated[str, Path(description="The tool's name.", examples=["search_papers"])],
    arguments: Annotated[
        dict[str, Any],
        Body(
            description="The arguments, as the model gave them.",
            examples=[{"q": EXAMPLE_QUESTION, "limit": 3}],
        ),
    ],
) -> Response:
    """What the tool gives: the answer of the native route, with each paper's authors in one line."""
    tool = tool_named(name)
    return await respond(request, library, call_of(tool, arguments), tool.parse(arguments))
