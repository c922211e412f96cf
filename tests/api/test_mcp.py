"""The tools over MCP, called with the mcp package's client: a server's /mcp, and a process of ``scholarbase mcp``."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from fastapi.testclient import TestClient
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from scholarbase.api.access.keys import create_key
from scholarbase.api.app import create_app
from scholarbase.search.library import Library
from scholarbase.tools.definitions import TOOLS
from tests.conftest import run_cli, serving_in_thread
from tests.sessions.agents import wait_recorded

STRINGS: Final = "arXiv:hep-th/9301068"
QUESTION: Final = "How is two-dimensional QCD related to string theory?"
CALLS: Final[dict[str, dict[str, Any]]] = {
    "search_papers": {"q": QUESTION, "limit": 5},
    "match_titles": {"titles": ["Two Dimensional QCD is a String Theory"]},
    "check_references": {"references": "arXiv:2301.00001\n" + STRINGS},
    "get_papers": {"ids": [STRINGS, "arXiv:2301.00001"]},
    "get_citations": {"paper_id": STRINGS, "limit": 5},
    "get_references": {"paper_id": STRINGS},
    "expand_papers": {"seeds": [STRINGS, "arXiv:hep-th/9303046"], "limit": 5},
}

Use = Callable[[Client], Awaitable[Any]]


@pytest.fixture(scope="module")
def server(sample: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving_in_thread(sample, sessions=str(tmp_path_factory.mktemp("sessions"))) as url:
        yield url


def stdio(*options: str, **environment: str) -> StdioServerParameters:
    """``scholarbase mcp`` in a process of its own."""
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "scholarbase.cli", "mcp", *options],
        env=dict(os.environ) | environment,
    )


@asynccontextmanager
async def connected(
    where: str | StdioServerParameters, mode: str = "auto", path: str = "/mcp"
) -> AsyncIterator[Client]:
    async with Client(
        where if isinstance(where, StdioServerParameters) else where + path, mode=mode
    ) as client:
        yield client


def ask(where: str | StdioServerParameters, use: Use, mode: str = "auto", path: str = "/mcp") -> Any:
    async def run() -> Any:
        async with connected(where, mode, path) as client:
            return await use(client)

    return asyncio.run(run())


def ask_with_headers(url: str, headers: dict[str, str], use: Use) -> Any:
    async def run() -> Any:
        async with (
            create_mcp_http_client(headers=headers) as http,
            Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
        ):
            return await use(client)

    return asyncio.run(run())


async def call(client: Client, name: str, arguments: dict[str, Any], **meta: Any) -> Any:
    prefixed = {f"scholarbase/{key}": value for key, value in meta.items()}
    return await client.call_tool(name, arguments, meta=prefixed or None)  # type: ignore[arg-type]


def called(
    where: str | StdioServerParameters, name: str, *arguments: dict[str, Any], **meta: Any
) -> list[Any]:
    """The responses of a tool to calls with each of these arguments."""

    async def use(client: Client) -> list[Any]:
        return [await call(client, name, one, **meta) for one in arguments]

    responses: list[Any] = ask(where, use)
    return responses


@pytest.fixture(params=["http", "http, older protocol", pytest.param("stdio", marks=pytest.mark.slow)])
def way(request: pytest.FixtureRequest, sample_library: Path) -> tuple[str | StdioServerParameters, str]:
    if request.param == "stdio":
        return stdio("--library", str(sample_library)), "auto"
    return request.getfixturevalue("server"), "legacy" if "older" in request.param else "auto"


def test_every_tool_is_listed_and_called(way: tuple[str | StdioServerParameters, str], server: str) -> None:
    async def use(client: Client) -> tuple[Any, dict[str, Any]]:
        listed = await client.list_tools()
        return listed.tools, {name: await call(client, name, arguments) for name, arguments in CALLS.items()}

    listed, responses = ask(way[0], use, way[1])
    assert [tool.name for tool in listed] == list(CALLS)
    for tool in listed:
        assert tool.description
        assert tool.input_schema["type"] == "object"
        assert set(CALLS[tool.name]) <= set(tool.input_schema["properties"])
        assert tool.annotations.read_only_hint
    for name, response in responses.items():
        assert not response.is_error, response
        over_http = httpx.post(f"{server}/v1/tools/{name}", json=CALLS[name]).json()
        assert response.structured_content == over_http
        [text] = response.content
        assert (
            httpx.post(f"{server}/v1/tools/{name}", json={**CALLS[name], "format": "text"}).text == text.text
        )
    titles = [hit["paper"]["title"] for hit in responses["search_papers"].structured_content["results"]]
    assert any("QCD" in title for title in titles[:2])
    [[match]] = responses["match_titles"].structured_content["results"]
    assert (match["score"], match["paper"]["id"]) == (1.0, STRINGS)
    held, absent = responses["get_papers"].structured_content["results"]
    assert held["id"] == STRINGS
    assert absent is None
    assert responses["get_citations"].structured_content["total"] > 5


def test_an_invalid_call_is_a_tool_error_and_an_unknown_tool_a_protocol_error(
    way: tuple[str | StdioServerParameters, str],
) -> None:
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("search_papers", {"q": ""}, "q is empty"),
        ("search_papers", {}, "The argument 'q' is missing"),
        (
            "search_papers",
            {"q": "strings", "limti": 5},
            "Unknown argument 'limti': use limit. search_papers takes q, syntax, mode, ",
        ),
        ("search_papers", {"q": "strings", "mode": "fuzzy"}, "mode is 'fuzzy'"),
        ("search_papers", {"q": "strings", "exclude_seen": True}, "exclude_seen requires a session"),
        ("search_papers", {"q": "strings", "max_tokens": 10}, "max_tokens is 10"),
        ("search_papers", {"q": "strings", "within": ["arXiv:2301.00001"]}, "No paper 'arXiv:2301.00001'"),
        ("expand_papers", {"seeds": []}, "seeds is"),
        ("search_papers", {"q": "strings", "format": "text"}, "format is not supported over MCP"),
        (
            "search_papers",
            {"q": "s", "within": ["x" * 400] * 25_000},
            "and the maximum is 8,388,608",
        ),
    ]

    async def use(client: Client) -> list[Any]:
        unknown = "There is no tool 'find_papers': the tools are search_papers, match_titles"
        with pytest.raises(MCPError, match=unknown):
            await call(client, "find_papers", {})
        return [
            *[await call(client, name, arguments) for name, arguments, _ in wrong],
            await call(client, "search_papers", {"q": "strings"}, sesion="s"),
            await call(client, "search_papers", {"q": "strings"}, parent="9" * 5000),
        ]

    *responses, misspelt, huge = ask(way[0], use, way[1])
    for response, (_, arguments, expected) in zip(responses, wrong, strict=True):
        assert response.is_error, str(arguments)[:100]
        [text] = response.content
        assert expected in text.text, str(arguments)[:100]
        assert response.structured_content["detail"] == text.text
        assert 400 <= response.structured_content["status"] < 500
    assert misspelt.is_error
    assert "Unknown _meta key 'scholarbase/sesion'" in misspelt.content[0].text
    assert huge.is_error
    assert "parent" in huge.content[0].text


def test_calls_of_a_session_are_recorded_and_limited(server: str) -> None:
    httpx.post(f"{server}/v1/sessions", json={"session": "told", "limits": {"calls": 4}, "as_of": "1993-06"})

    async def use(client: Client) -> list[Any]:
        told: dict[str, Any] = {"session": "told"}
        return [
            await call(client, "search_papers", {"q": "strings", "limit": 3}, **told, round=1),
            await call(
                client, "search_papers", {"q": "strings", "limit": 3, "exclude_seen": True}, **told, round=1
            ),
            await call(client, "search_papers", {"q": "strings", "as_of": "1994-01"}, **told),
            await call(client, "get_references", {"paper_id": STRINGS}, **told, parent=1),
            await call(client, "search_papers", {"q": "strings"}, **told),
        ]

    first, second, later, references, refused = ask(server, use)
    ids = [
        [hit["paper"]["id"] for hit in response.structured_content["results"]] for response in (first, second)
    ]
    assert len({*ids[0], *ids[1]}) == 6
    assert first.structured_content["budget"] == {"calls": 3}
    assert "Left of the budget: calls 3" in first.content[0].text
    assert "is later than '1993-06', the as_of of the session 'told'" in later.content[0].text
    assert not references.is_error
    assert refused.is_error
    assert "The session 'told' may have 4 calls, and 0 are left" in refused.content[0].text
    wait_recorded(server, "told")
    lines = [line for line in httpx.get(f"{server}/v1/sessions/told").text.splitlines() if line]
    kept = [httpx.Response(200, content=line).json() for line in lines]
    assert [row["call"] for row in kept] == [1, 2, 3, 4, 5]
    assert [row["ids"] for row in kept[:2]] == ids
    assert [row["round"] for row in kept] == [1, 1, 2, 3, 4]
    assert kept[3]["parent"] == 1
    assert [bool(row.get("error")) for row in kept] == [False, False, True, False, True]
    assert {row["arguments"]["as_of"] for row in kept} == {"1993-06", "1994-01"}


def test_an_invalid_session_name_is_a_tool_error(server: str) -> None:
    [response] = called(server, "search_papers", {"q": "strings"}, session="two words")
    assert response.is_error
    assert "'two words' is not a valid session name" in response.content[0].text


@pytest.mark.slow
@pytest.mark.whole
def test_stdio_records_the_named_session(sample_library: Path, tmp_path: Path) -> None:
    named = ("--session", "mine", "--sessions", str(tmp_path))
    options = (*named, "--query", "Which strings?", "--as-of", "1993-06")
    mine = stdio("--library", str(sample_library), *options)
    [response] = called(mine, "search_papers", {"q": "strings", "limit": 3}, round=2)
    shown = run_cli("session", "show", "mine", "--sessions", tmp_path)
    [row] = [httpx.Response(200, content=line).json() for line in shown.stdout.splitlines()]
    assert row["ids"] == [hit["paper"]["id"] for hit in response.structured_content["results"]]
    assert row["arguments"] == {"q": "strings", "limit": 3, "as_of": "1993-06"}
    assert (row["round"], row["query"]) == (2, "Which strings?")
    replayed = run_cli("session", "replay", "mine", "--library", sample_library, "--sessions", tmp_path)
    assert replayed.returncode == 0
    assert "No differences" in replayed.stdout


@pytest.mark.slow
def test_stdio_with_a_server(server: str) -> None:
    search = CALLS["search_papers"]
    [there] = called(stdio("--url", server, "--session", "from-afar"), "search_papers", search)
    [here] = called(server, "search_papers", search)
    assert there.structured_content == here.structured_content
    wait_recorded(server, "from-afar")
    assert len(httpx.get(f"{server}/v1/sessions/from-afar").text.splitlines()) == 1


@pytest.mark.slow
def test_a_wrong_key(sample: Library, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    right, _ = create_key(keys, "agent")

    async def use(client: Client) -> Any:
        return await call(client, "search_papers", {"q": "strings", "limit": 1})

    with serving_in_thread(sample, keys=str(keys)) as url:
        for headers in ({}, {"Authorization": "Bearer sb_" + "0" * 43}):
            refused = httpx.post(f"{url}/mcp", json={}, headers=headers)
            assert refused.status_code == 401
            assert refused.json()["error"]["data"]["title"] == "Unauthorized"
            with pytest.raises(BaseExceptionGroup) as raised:  # raised by the mcp client
                ask_with_headers(url, headers, use)
            assert raised.group_contains(MCPError)
        assert not ask_with_headers(url, {"Authorization": f"Bearer {right}"}, use).is_error
        # Over stdio it is a tool error.
        response = ask(stdio("--url", url, SCHOLARBASE_API_KEY="sb_" + "0" * 43), use)
        assert response.is_error
        assert response.structured_content["status"] == 401
        assert not ask(stdio("--url", url, SCHOLARBASE_API_KEY=right), use).is_error


def test_a_page_of_another_origin_is_rejected(server: str, sample: Library) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    assert httpx.post(f"{server}/mcp", json=message, headers=headers).status_code == 200
    refused = httpx.post(
        f"{server}/mcp", json=message, headers={**headers, "Origin": "http://elsewhere.example"}
    )
    assert refused.status_code == 403
    assert "http://elsewhere.example" in refused.json()["error"]["message"]
    own = server.removeprefix("http://")
    for origin in (server, "http://localhost:6274", "http://127.0.0.1:1", "https://[::1]"):
        assert (
            httpx.post(f"{server}/mcp/", json=message, headers={**headers, "Origin": origin}).status_code
            == 200
        )
    for origin in (f"http://{own}.a.org", "null", "http://["):
        rejected = httpx.post(f"{server}/mcp", json=message, headers={**headers, "Origin": origin})
        assert rejected.status_code == 403, origin
    with serving_in_thread(sample, cors_origins="http://elsewhere.example") as url:
        headers["Origin"] = "http://elsewhere.example"
        assert httpx.post(f"{url}/mcp", json=message, headers=headers).status_code == 200


def test_an_offset_as_models_write_it_numbers_the_results(server: str) -> None:
    """An offset written as a text failed after the search, with an empty message."""
    searches = [{"q": "strings", "limit": 1, key: value} for key, value in OFFSETS]
    for response in called(server, "search_papers", *searches):
        assert not response.is_error
        assert "\n6. " in response.content[0].text


OFFSETS = [("offset", 5), ("offset", "5"), ("offset", 5.0), ("Offset", "5")]


@pytest.mark.whole
def test_metrics_counted_calls_as_requests_without_a_route(sample: Library) -> None:
    with serving_in_thread(sample) as url:
        ask(url, lambda client: client.list_tools())
        ask(url, lambda client: client.list_tools(), path="/mcp/retrieval")
        ask(url, lambda client: client.list_tools(), path="/mcp/airqa")
        httpx.get(f"{url}/openapi.json")
        lines = httpx.get(f"{url}/metrics").text.splitlines()
    counted = [line for line in lines if line.startswith("scholarbase_requests_total{")]
    assert not [line for line in counted if 'route="none"' in line]
    for route in ("/mcp", "/mcp/{set}"):
        assert any(f'method="POST",route="{route}",status="200"' in line for line in counted), counted


def test_other_methods_are_405_since_there_is_no_stream(server: str) -> None:
    for method, path in (("GET", "/mcp"), ("DELETE", "/mcp"), ("PUT", "/mcp"), ("GET", "/mcp/retrieval")):
        response = httpx.request(method, server + path, headers={"Accept": "text/event-stream"}, timeout=30)
        assert (response.status_code, response.headers["allow"]) == (405, "POST")
        assert response.json()["error"]["data"]["status"] == 405


def test_a_request_whose_id_is_no_text_or_whole_number_got_no_reply(server: str) -> None:
    """MCP 2025-11-25, "Requests". In arguments an id may be anything."""
    headers = {"Accept": "application/json, text/event-stream"}
    odd = {"null": None, "true": True, "1.5": 1.5, "{}": {}}
    for path, (name, value) in product(("/mcp", "/mcp/airqa"), odd.items()):
        message = {"jsonrpc": "2.0", "id": value, "method": "tools/list"}
        response = httpx.post(server + path, json=message, headers=headers, timeout=30)
        assert response.status_code == 400
        assert response.json()["id"] is None
        assert f"id is {name}: MCP requests have a string" in response.json()["error"]["message"]
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized", "params": {"_meta": {"id": None}}}
    assert httpx.post(f"{server}/mcp", json=initialized, headers=headers, timeout=30).status_code == 202


@pytest.mark.slow
def test_stdio_answers_all_that_was_asked_before_the_input_ended(sample_library: Path) -> None:
    command = [sys.executable, "-m", "scholarbase.cli", "mcp", "--library", str(sample_library)]
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    call = {"name": "search_papers", "arguments": {"q": "string theory"}}
    messages: list[dict[str, Any]] = [
        {"id": None, "method": "tools/list"},
        {"id": 0, "method": "initialize", "params": about},
        {"method": "notifications/initialized"},
        *({"id": number, "method": "tools/call", "params": call} for number in range(1, 21)),
    ]
    sent = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages).encode()
    settings = {**os.environ, "SCHOLARBASE_TIMEOUT": "100"}
    done = subprocess.run(command, input=sent, capture_output=True, check=True, env=settings)
    replies = {reply["id"]: reply for reply in map(json.loads, done.stdout.splitlines())}
    assert replies.keys() == {None, *range(21)}
    assert replies[None]["error"]["message"].startswith("id is null: MCP requests have a string")
    # A client that interrupts the server, or reads no more, ends it without a traceback.
    for end in ("interrupt", "close"):
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as server:
            assert server.stdin is not None
            assert server.stdout is not None
            server.stdin.write(sent[: sent.index(b"\n") + 1])
            server.stdin.flush()
            assert server.stdout.readline()
            if end == "interrupt":
                server.send_signal(signal.SIGINT)
            else:
                server.stdout.close()
                server.stdin.write(sent[: sent.index(b"\n") + 1])
                server.stdin.flush()
            assert server.wait(100) == (-signal.SIGINT if end == "interrupt" else -signal.SIGTERM)
            assert server.stderr is not None
            assert not server.stderr.read()


def test_all_tools_are_called() -> None:
    """Those for full texts, which the sample lacks, are called in ``tests/tools/test_reading.py``."""
    of_texts = ("search_passages", "read_paper")
    assert [tool.name for tool in TOOLS if tool.name not in of_texts] == list(CALLS)


def test_a_server_without_the_package_did_not_say_that_it_must_be_restarted(
    sample: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scholarbase.api.app.is_installed", lambda package: False)
    response = TestClient(create_app(sample), base_url="http://127.0.0.1").post("/mcp", json={})
    assert (response.status_code, "restart the server" in response.text) == (501, True)
