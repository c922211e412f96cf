"""The tools for full texts: what models read, and the same calls in Python, over HTTP and replayed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from mcp import Client as McpClient

from scholarbase.client import AsyncClient, Client
from scholarbase.errors import DocumentNotFound, InvalidRequest
from scholarbase.search.library import Library
from scholarbase.sessions.recording import Recording
from scholarbase.sessions.session import Session
from scholarbase.sessions.store import SessionStore
from scholarbase.tools import Tools
from scholarbase.tools.calling import call_recorded
from scholarbase.tools.definitions import recorded_tool
from scholarbase_research.replay.calls import differences, replay
from tests.conftest import serving_in_thread
from tests.fulltexts import ABSTRACT_ONLY, GRAPHS, GRAPHS_TEXT, MERGING, MERGING_TEXT, SORTING, SORTING_TEXT


@pytest.fixture(scope="module")
def url(full_texts: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving_in_thread(full_texts, sessions=str(tmp_path_factory.mktemp("reading"))) as address:
        yield address


@pytest.fixture(scope="module")
def tools(full_texts: Library) -> Tools:
    return Tools(full_texts)


class TestReadPaper:
    def test_each_argument_reads_in_its_way(self, tools: Tools) -> None:
        outline = tools.call("read_paper", {"paper_id": SORTING})
        assert [one["title"] for one in outline["sections"]] == [
            *("Abstract", "Introduction", "Notation", "Results")
        ]
        section = tools.call("read_paper", {"paper_id": SORTING, "section": 2})
        assert section["text"] == SORTING_TEXT[SORTING_TEXT.index("2 Results") :]
        whole = tools.call("read_paper", {"paper_id": SORTING, "offset": 0})
        assert whole["text"] == SORTING_TEXT
        places = tools.call("read_paper", {"paper_id": SORTING, "find": "zebra"})
        assert [one["match_start"] for one in places["results"]] == [
            place for place in range(len(SORTING_TEXT)) if SORTING_TEXT.startswith("zebra", place)
        ]
        assert places["results"][0]["paper"] == {"id": SORTING}
        passages = tools.call("read_paper", {"paper_id": SORTING, "q": "How deep is the network?"})
        assert "depth of the network" in passages["results"][0]["passage"]["text"]

    def test_next_offset_reads_on(self, tools: Tools) -> None:
        text, arguments = "", {"paper_id": GRAPHS, "offset": 0, "max_tokens": 700}
        while arguments["offset"] is not None:
            content = tools.call("read_paper", arguments)
            text += content["text"]
            arguments["offset"] = content["next_offset"]
        assert text == GRAPHS_TEXT
        first = tools.call("read_paper", {"paper_id": GRAPHS, "find": "vertices", "limit": 7})
        second = tools.call(
            "read_paper", {"paper_id": GRAPHS, "find": "vertices", "offset": first["next_offset"]}
        )
        starts = [one["match_start"] for one in first["results"] + second["results"]]
        assert len(starts) == 17
        assert starts == sorted(set(starts))

    def test_what_a_model_reads_of_an_outline(self, tools: Tools) -> None:
        lines = tools.call_as_text("read_paper", {"paper_id": MERGING}).splitlines()
        assert lines[0] == "Merging sorted lists"
        assert lines[1].startswith(f"   {MERGING}, version 1, from unarxive: ")
        introduction = MERGING_TEXT.index("1 Introduction")
        assert lines[4].startswith("   1 Introduction (#1, ")
        assert lines[4].endswith(f" tokens, offset {introduction})")
        assert lines[-2:] == [
            "   Read a section by its number, its title or # and its place.",
            "   Figure 1: Two lists become one.",
        ]

    def test_what_a_model_reads_of_a_part_says_how_to_read_on(self, tools: Tools) -> None:
        text = tools.call_as_text("read_paper", {"paper_id": GRAPHS, "section": "1", "max_tokens": 300})
        assert text.startswith("Old graphs\n")
        last = text.splitlines()[-1]
        assert last.startswith("There is more: read on with from_offset ")
        offset = int(last.rpartition(" ")[2].rstrip("."))
        content = tools.call("read_paper", {"paper_id": GRAPHS, "from_offset": offset})
        assert content["text"] == GRAPHS_TEXT[offset:]

    def test_what_a_model_reads_of_places_and_passages(self, tools: Tools) -> None:
        text = tools.call_as_text("read_paper", {"paper_id": SORTING, "find": "comparator exchanges"})
        place = SORTING_TEXT.index("comparator exchanges")
        blocks = text.split("\n\n")
        assert blocks[0].startswith("1 of 1 match, snapshot ")
        assert blocks[1].splitlines()[0] == f"1. {SORTING}"
        assert "section 1.1 Notation" in blocks[1]
        assert f"   Match at {place}: comparator exchanges" in blocks[1]
        text = tools.call_as_text("search_passages", {"q": "smaller head of both lists", "limit": 1})
        assert "   Take the smaller head of both lists, again and again." in text.splitlines()
        assert text.splitlines()[-1] == "There are more: ask again with offset 1."

    @pytest.mark.parametrize(
        ("arguments", "error", "sentence"),
        [
            (
                {"paper_id": SORTING, "find": "(", "syntax": "regex"},
                InvalidRequest,
                "find '(' is not a regular",
            ),
            ({"paper_id": SORTING, "section": "9"}, InvalidRequest, "has no section '9': it has 'Abstract'"),
            ({"paper_id": SORTING, "offset": 10**6}, InvalidRequest, "its text has"),
            ({"paper_id": SORTING, "syntax": "regex"}, InvalidRequest, "says how find is read"),
            ({"paper_id": SORTING, "find": "a", "limit": 101}, InvalidRequest, "limit is 101"),
            ({"paper_id": ABSTRACT_ONLY}, DocumentNotFound, "has no full text of"),
        ],
    )
    def test_errors_name_the_argument_and_the_way_out(
        self, tools: Tools, arguments: dict[str, Any], error: Any, sentence: str
    ) -> None:
        with pytest.raises(error) as refused:
            tools.call("read_paper", arguments)
        assert sentence in str(refused.value)


CALLS = [
    ("search_passages", {"q": "zebra", "limit": 2, "per_paper": 1}),
    ("search_passages", {"q": '"zebra sorts"', "syntax": "query", "max_tokens": 900}),
    ("read_paper", {"paper_id": MERGING}),
    ("read_paper", {"paper_id": GRAPHS, "section": "1", "max_tokens": 400}),
    ("read_paper", {"paper_id": GRAPHS, "offset": 100, "max_tokens": 400}),
    ("read_paper", {"paper_id": GRAPHS, "find": "vertices", "offset": 3, "max_tokens": 600}),
    ("read_paper", {"paper_id": MERGING, "q": "smaller head", "limit": 2}),
]


def test_the_same_over_http_and_mcp_and_in_python(url: str, tools: Tools) -> None:
    with (
        Client(url) as client,
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(McpClient(f"{url}/mcp")) as mcp,
    ):
        for name, arguments in CALLS:
            expected = tools.call(name, arguments)
            assert client.call_tool(name, arguments) == expected
            assert client.call_tool_as_text(name, arguments) == tools.call_as_text(name, arguments)
            result = portal.call(lambda name=name, arguments=arguments: mcp.call_tool(name, arguments))
            assert result.structured_content == expected
            if "max_tokens" not in arguments:
                assert result.content[0].text == tools.call_as_text(name, arguments)


def test_clients_have_the_methods_of_a_library(url: str, full_texts: Library) -> None:
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("text", (SORTING,), {}),
        ("text", (SORTING,), {"section": "1.1", "version": 1}),
        ("find", (GRAPHS, "graph"), {"syntax": "words", "limit": 2, "fields": ["id"]}),
        ("passages", (GRAPHS, "colouring"), {"chunker": "paragraphs", "offset": 1, "engine": "bm25"}),
        ("search_passages", ("zebra",), {"within": [MERGING, SORTING], "category": "cs.DS", "mode": "dense"}),
        ("citation_contexts", (SORTING,), {"direction": "references"}),
    ]

    async def over_async() -> list[Any]:
        async with AsyncClient(url) as client:
            return [await getattr(client, name)(*args, **options) for name, args, options in calls]

    with Client(url) as client, start_blocking_portal() as portal:
        asynchronous = portal.call(over_async)
        for (name, args, options), found in zip(calls, asynchronous, strict=True):
            expected = getattr(full_texts, name)(*args, **options)
            assert getattr(client, name)(*args, **options) == expected
            assert found == expected
        assert client.page_image(MERGING, 2) == full_texts.page_image(MERGING, 2)
        with pytest.raises(DocumentNotFound, match="has no PDF of"):
            client.page_image(SORTING, 1)


NATIVE = [
    ("paper_text", {"paper_id": SORTING, "section": "1"}),
    ("find_in_paper", {"paper_id": SORTING, "q": "zebra keys", "syntax": "words"}),
    ("paper_passages", {"paper_id": SORTING, "q": "zebra", "engine": "bm25"}),
    ("citation_contexts", {"paper_id": SORTING}),
]
"""Calls of native routes, which no tool makes."""


def recorded_reading(library: Library, store: SessionStore) -> tuple[Session, list[bytes]]:
    """A session of ``CALLS`` and ``NATIVE``, and its lines."""
    session = Session("read", query="How deep is it?", as_of="2023-02-15")
    tools = Tools(library, session=session, store=store)
    for name, arguments in CALLS:
        tools.call(name, arguments)
    opened = store.session("read").session
    for name, arguments in NATIVE:
        recording = Recording(session=opened, tool=name, store=store, snapshot=library.snapshot_id)
        call_recorded(library, recorded_tool(name), arguments, recording)
    return opened, list(store.lines("read"))


def test_sessions_of_reading_are_replayed(full_texts: Library, tmp_path: Path) -> None:
    with SessionStore(tmp_path) as store:
        opened, lines = recorded_reading(full_texts, store)
        rows = [json.loads(line) for line in lines]
        assert [row["tool"] for row in rows] == [name for name, _ in (*CALLS, *NATIVE)]
        assert all(row["arguments"]["as_of"] == "2023-02-15" for row in rows)
        assert differences(replay(full_texts, opened, lines)) == []
