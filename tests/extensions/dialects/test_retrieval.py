"""The MCP tools ``search`` and ``fetch``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from mcp import Client, MCPError, StdioServerParameters

from scholarbase.search.library import Library
from tests.api.test_mcp import QUESTION, STRINGS, ask, call, stdio
from tests.conftest import serving_in_thread
from tests.sessions.agents import wait_recorded


@pytest.fixture(scope="module")
def server(sample: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving_in_thread(sample, sessions=str(tmp_path_factory.mktemp("sessions"))) as url:
        yield url


@pytest.fixture(params=["http", "http, older protocol", pytest.param("stdio", marks=pytest.mark.slow)])
def retrieval(
    request: pytest.FixtureRequest, sample_library: Path
) -> tuple[str | StdioServerParameters, str, str]:
    """Where the tools ``search`` and ``fetch`` are, and the protocol."""
    if request.param == "stdio":
        return stdio("--library", str(sample_library), "--tools", "retrieval"), "auto", ""
    mode = "legacy" if "older" in request.param else "auto"
    return request.getfixturevalue("server"), mode, "/mcp/retrieval"


def test_search_and_fetch(retrieval: tuple[str | StdioServerParameters, str, str], server: str) -> None:
    """The results as https://platform.openai.com/docs/mcp has them."""

    async def use(client: Client) -> tuple[Any, ...]:
        listed = await client.list_tools()
        found = await call(client, "search", {"query": QUESTION})
        return listed.tools, found, await call(client, "fetch", {"id": "hep-th/9301068v2"})

    listed, found, fetched = ask(*retrieval[:1], use, *retrieval[1:])
    assert [(tool.name, tool.input_schema["required"]) for tool in listed] == [
        ("search", ["query"]),
        ("fetch", ["id"]),
    ]
    assert all(tool.annotations.read_only_hint for tool in listed)
    for result in (found, fetched):
        assert not result.is_error, result
        [text] = result.content
        assert json.loads(text.text) == result.structured_content
    assert list(found.structured_content) == ["results"]
    hits = found.structured_content["results"]
    native = httpx.post(f"{server}/v1/tools/search_papers", json={"q": QUESTION}).json()["results"]
    assert [(hit["id"], hit["title"]) for hit in hits] == [
        (hit["paper"]["id"], hit["paper"]["title"]) for hit in native
    ]
    assert {"id": STRINGS, "title": TITLE, "url": "https://arxiv.org/abs/hep-th/9301068"} in hits
    paper = httpx.get(f"{server}/v1/papers/{STRINGS}").json()
    document = fetched.structured_content
    assert set(document) == {"id", "title", "text", "url", "metadata"}
    assert (document["id"], document["title"]) == (STRINGS, TITLE)
    assert document["url"] == "https://arxiv.org/abs/hep-th/9301068"
    assert document["text"] == f"{TITLE}\n\n{paper['abstract']}"
    assert document["metadata"]["authors"] == "David J. Gross, Washington Taylor"
    assert document["metadata"]["year"] == "1993"


TITLE: Final = "Two Dimensional QCD is a String Theory"


def test_invalid_calls_of_search_and_fetch(retrieval: tuple[str | StdioServerParameters, str, str]) -> None:
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("search", {}, "query is None: search needs a text"),
        ("search", {"query": "  "}, "query is '  ': search needs a text"),
        ("search", {"query": 5}, "query is 5: search needs a text"),
        ("search", {"query": "x" * 10_001}, "query has 10,001 characters: the maximum is 10,000"),
        ("search", {"query": "strings", "limit": 5}, "Unknown argument 'limit': search takes query"),
        ("fetch", {"query": "strings"}, "Unknown argument 'query': fetch takes id"),
        ("fetch", {"id": "arXiv:2301.00001"}, "No paper 'arXiv:2301.00001'"),
        ("fetch", {"id": "no such form"}, "no such form"),
    ]

    async def use(client: Client) -> list[Any]:
        with pytest.raises(MCPError, match="There is no tool 'search_papers': the tools are search, fetch"):
            await call(client, "search_papers", {"q": "strings"})
        return [await call(client, name, arguments) for name, arguments, _ in wrong]

    for response, (_, arguments, expected) in zip(
        ask(*retrieval[:1], use, *retrieval[1:]), wrong, strict=True
    ):
        assert response.is_error, str(arguments)[:100]
        [text] = response.content
        assert expected in text.text
        assert 400 <= response.structured_content["status"] < 500


def test_sessions_record_search_and_fetch_as_native_calls(server: str) -> None:
    httpx.post(f"{server}/v1/sessions", json={"session": "chat", "limits": {"calls": 2}, "as_of": "1993-06"})

    async def use(client: Client) -> list[Any]:
        named: dict[str, Any] = {"session": "chat"}
        found = await call(client, "search", {"query": "strings"}, **named)
        first = found.structured_content["results"][0]["id"]
        return [found] + [await call(client, "fetch", {"id": first}, **named) for _ in range(2)]

    found, fetched, refused = ask(server, use, path="/mcp/retrieval")
    assert refused.is_error
    assert "The session 'chat' may have 2 calls, and 0 are left" in refused.content[0].text
    wait_recorded(server, "chat")
    lines = [json.loads(line) for line in httpx.get(f"{server}/v1/sessions/chat").text.splitlines()]
    assert [line["tool"] for line in lines] == ["search_papers", "get_papers", "get_papers"]
    assert lines[0]["ids"] == [hit["id"] for hit in found.structured_content["results"]]
    assert lines[1]["ids"] == [fetched.structured_content["id"]]
    assert {line["arguments"]["as_of"] for line in lines[:2]} == {"1993-06"}
