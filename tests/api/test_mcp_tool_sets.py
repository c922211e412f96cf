"""Sets of tools that an extension adds for MCP clients alone."""

from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any

import httpx
import pytest
from mcp import Client, MCPError

from scholarbase.errors import InvalidRequest
from scholarbase.extensions import Extension
from scholarbase.search.library import Library
from scholarbase.tools.tool import McpTool, McpToolSet, NativeCall
from tests.api.test_mcp import ask, call
from tests.conftest import serving_in_thread
from tests.sessions.agents import wait_recorded


async def first(call_native: NativeCall, arguments: Mapping[str, Any], names: Set[str]) -> dict[str, Any]:
    if "q" not in arguments:
        raise InvalidRequest("q is missing.")
    found = await call_native("search_papers", {"q": arguments["q"], "limit": 1})
    [hit] = found["results"]
    return {"id": hit["paper"]["id"], "full_texts": "read_paper" in names}


FIRST = {
    "description": "The first paper.",
    "inputSchema": {"type": "object", "properties": {"q": {"type": "string"}}},
    "outputSchema": {"type": "object", "properties": {"id": {"type": "string"}}},
}


class AskingTools(McpToolSet):
    instructions = "Ask for the first paper."


class Asking(Extension):
    def mcp_tool_sets(self) -> Mapping[str, McpToolSet]:
        return {"asking": AskingTools(first=McpTool(FIRST, first))}


@pytest.fixture
def server(sample: Library, extension: Callable[..., None], tmp_path_factory: Any) -> Iterator[str]:
    extension(Asking)
    with serving_in_thread(sample, sessions=str(tmp_path_factory.mktemp("sessions"))) as url:
        yield url


def test_a_set_is_listed_and_its_native_calls_are_recorded(server: str) -> None:
    async def use(client: Client) -> tuple[Any, ...]:
        assert client.instructions == "Ask for the first paper."
        with pytest.raises(MCPError, match="There is no tool 'search_papers': the tools are first"):
            await call(client, "search_papers", {"q": "strings"})
        listed = await client.list_tools()
        wrong = await call(client, "first", {}, session="asked")
        return listed.tools, wrong, await call(client, "first", {"q": "string theory"}, session="asked")

    [listed], wrong, found = ask(server, use, path="/mcp/asking")
    assert listed.model_dump(include={"name", "description", "input_schema", "output_schema"}) == {
        "name": "first",
        "description": "The first paper.",
        "input_schema": FIRST["inputSchema"],
        "output_schema": FIRST["outputSchema"],
    }
    assert listed.annotations.read_only_hint
    assert (wrong.is_error, wrong.content[0].text) == (True, "q is missing.")
    native = httpx.post(f"{server}/v1/tools/search_papers", json={"q": "string theory"}).json()["results"]
    assert found.structured_content == {"id": native[0]["paper"]["id"], "full_texts": False}
    wait_recorded(server, "asked")
    [row] = httpx.get(f"{server}/v1/sessions/asked").text.splitlines()
    assert httpx.Response(200, text=row).json()["tool"] == "search_papers"


def test_such_a_set_is_none_of_other_clients(server: str) -> None:
    refused = httpx.get(f"{server}/v1/tools?set=asking")
    assert refused.status_code == 400
    assert "Unknown set of tools 'asking': use one of scholarbase" in refused.text


def test_a_path_of_no_set_is_an_error_that_names_the_sets(server: str) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    response = httpx.post(f"{server}/mcp/nosuch", json=message)
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith(
        "Unknown set of tools 'nosuch': use one of scholarbase"
    )
