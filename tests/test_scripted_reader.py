"""A scripted agent that answers questions about full texts, over HTTP and over MCP: one trajectory."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import httpx
import pytest
from anyio.from_thread import start_blocking_portal
from mcp import Client as McpClient

from scholarbase.search.library import Library
from tests.conftest import serving_in_thread
from tests.fulltexts import GRAPHS, MERGING, SORTING

VARYING = ("time", "ended", "seconds", "session")
"""Keys of a trajectory's line that differ from run to run."""
Call = Callable[[str, str, dict[str, Any]], dict[str, Any]]
"""Calls a tool of a set: the set, the tool's name and arguments, to the JSON of the response."""


class Question(NamedTuple):
    """A question, words that its answer stands beside, its papers, and the answer."""

    id: str
    text: str
    beside: str
    paper: str
    answer: str


QUESTIONS = (
    Question("depth", "How deep is the network of comparators?", "depth of the network is", SORTING, "seven"),
    Question("merge", "Which head does merging take of both sorted lists?", "Take the", MERGING, "smaller"),
    Question("graph", "From which number on are the vertices of a graph numbered?", "from", GRAPHS, "zero"),
)


def answer(question: Question, call: Call) -> str:
    """Search, read passages, find the place, read on from it, look at a page, and answer."""
    found = call("scholarbase", "search_passages", {"q": question.text, "limit": 5, "per_paper": 2})
    papers = list(dict.fromkeys(hit["paper"]["id"] for hit in found["results"]))
    call("scholarbase", "search_papers", {"q": question.text, "limit": 3})
    best = papers[0]
    outline = call("scholarbase", "read_paper", {"paper_id": best})
    assert outline["sections"]
    passages = call("scholarbase", "read_paper", {"paper_id": best, "q": question.text, "max_tokens": 3000})
    assert passages["results"]
    places = call("scholarbase", "read_paper", {"paper_id": best, "find": question.beside})
    place = places["results"][0]["match_end"]
    read = call("scholarbase", "read_paper", {"paper_id": best, "offset": place, "max_tokens": 500})
    word: str = read["text"].split()[0].strip(".,")
    if best == MERGING:
        call("airqa", "view", {"paper_id": best, "page_number": 2})
    call("airqa", "view", {"paper_id": best, "page_number": 9})  # which is not there: an observation
    call("airqa", "answer", {"answer": word})
    return word


class OverHttp:
    def __init__(self, url: str, session: str) -> None:
        self._url, self._headers = url, {"X-ScholarBase-Session": session}

    def __call__(self, tool_set: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        target = f"{self._url}/v1/tools/{name}"
        response = httpx.post(target, params={"set": tool_set}, json=arguments, headers=self._headers)
        content: dict[str, Any] = response.raise_for_status().json()
        return content


class OverMcp:
    def __init__(self, portal: Any, clients: dict[str, McpClient], session: str) -> None:
        self._portal, self._clients, self._session = portal, clients, session

    def __call__(self, tool_set: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        client, meta = self._clients[tool_set], {"scholarbase/session": self._session}
        result = self._portal.call(lambda: client.call_tool(name, arguments, meta=meta))
        content: dict[str, Any] = result.structured_content
        if len(result.content) > 1:  # an image, which HTTP has in Base64
            content["image"] = result.content[1].data
            assert base64.b64decode(content["image"]).startswith(b"\x89PNG")
        return content


class Log:
    """Calls, with what they gave."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self.calls: list[tuple[str, dict[str, Any], dict[str, Any]]] = []

    def __call__(self, tool_set: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        content = self._call(tool_set, name, arguments)
        self.calls.append((name, arguments, content))
        return content


@pytest.fixture(scope="module")
def url(full_texts: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving_in_thread(full_texts, sessions=str(tmp_path_factory.mktemp("reader"))) as address:
        yield address


def trajectory(url: str, session: str) -> list[dict[str, Any]]:
    lines = httpx.get(f"{url}/v1/sessions/{session}").raise_for_status().text.splitlines()
    return [{k: v for k, v in json.loads(line).items() if k not in VARYING} for line in lines]


def test_both_forms_are_one_trajectory_with_the_right_answers(url: str) -> None:
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(McpClient(f"{url}/mcp")) as native,
        portal.wrap_async_context_manager(McpClient(f"{url}/mcp/airqa")) as actions,
    ):
        clients = {"scholarbase": native, "airqa": actions}
        for question in QUESTIONS:
            seen, recorded = {}, {}
            for form in ("http", "mcp"):
                session = f"{form}-{question.id}"
                opened = {"session": session, "query_id": question.id, "query": question.text}
                httpx.post(f"{url}/v1/sessions", json=opened).raise_for_status()
                log = Log(OverHttp(url, session) if form == "http" else OverMcp(portal, clients, session))
                assert answer(question, log) == question.answer, (question.id, form)
                seen[form], recorded[form] = log.calls, trajectory(url, session)
            assert seen["http"] == seen["mcp"]
            assert recorded["http"] == recorded["mcp"]
            tools = [line["tool"] for line in recorded["http"]]
            assert tools == [name for name, _, _ in seen["http"]]
            last = recorded["http"][-1]
            assert (last["kind"], last["arguments"]) == ("answer", {"answer": question.answer})
            assert question.paper in recorded["http"][0]["ids"]
            assert recorded["http"][-2]["error_type"] in ("document-not-found", "invalid-request")
