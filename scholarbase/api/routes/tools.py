"""``/v1/tools``: the tools as function schemas, and calls by name."""

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
        description="The form of the schemas: OpenAI's, Anthropic's or MCP's.",
        examples=["openai"],
    )


@router.get("", response_model=None, responses={200: {"model": ToolsResponse}}, summary="List the tools")
async def list_tools(
    request: Request, library: OpenLibrary, parameters: Annotated[ToolsParameters, Query()]
) -> Response:
    """The six tools as function schemas that a model accepts unchanged."""
    return json_response({"snapshot": library.snapshot_id, "tools": schemas(parameters.format)})


@router.post("/{name}", response_model=None, summary="Call a tool")
async def call_tool(
    request: Request,
    library: OpenLibrary,
    name: Annotated[str, Path(description="The tool's name.", examples=["search_papers"])],
    arguments: Annotated[
        dict[str, Any],
        Body(
            description="The arguments from the model, unchanged.",
            examples=[{"q": EXAMPLE_QUESTION, "limit": 3}],
        ),
    ],
) -> Response:
    """The response of the native route, with each paper's authors as one string."""
    tool = tool_named(name)
    return await respond(request, library, call_of(tool, arguments), tool.parse(arguments))
