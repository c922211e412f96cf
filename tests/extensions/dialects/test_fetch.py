"""``fetch`` in a library with full texts. :mod:`.test_retrieval` has the two tools in one without."""

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from mcp import Client

from scholarbase.search.library import Library
from scholarbase_dialects import retrieval
from tests.conftest import serving_in_thread
from tests.fulltexts import ABSTRACT_ONLY, FIRST_SORTING_TEXT, GRAPHS, GRAPHS_TEXT, SORTING, SORTING_TEXT
from tests.sessions.agents import wait_recorded


@pytest.fixture(scope="module")
def server(full_texts: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving_in_thread(full_texts, sessions=str(tmp_path_factory.mktemp("sessions"))) as url:
        yield url


def fetch(server: str, *ids: str, session: str = "") -> list[Any]:
    async def run() -> list[Any]:
        meta: Any = {"scholarbase/session": session} if session else None
        async with Client(f"{server}/mcp/retrieval") as client:
            return [await client.call_tool("fetch", {"id": one}, meta=meta) for one in ids]

    return asyncio.run(run())


def test_fetch_returns_the_full_text(server: str) -> None:
    [result] = fetch(server, SORTING)
    document = result.structured_content
    assert set(document) == {"id", "title", "text", "url", "metadata"}
    assert document["text"] == f"{document['title']}\n\n{SORTING_TEXT}"
    assert document["metadata"]["authors"] == "Ada Lovelace"
    assert document["metadata"]["full_text"] == f"0 to {len(SORTING_TEXT)} of {len(SORTING_TEXT)} characters"


def test_an_id_with_a_version_is_the_text_of_that_version(server: str) -> None:
    first, last, failed, abstract = fetch(
        server, f"{SORTING}v1", SORTING, f"{SORTING}v7", f"{ABSTRACT_ONLY}v7"
    )
    assert first.structured_content["text"].endswith(FIRST_SORTING_TEXT)
    assert [one.structured_content["metadata"]["version"] for one in (first, last)] == ["1", "2"]
    assert failed.is_error
    assert "no version 7 of the text" in failed.content[0].text
    assert "only version 1, 2" in failed.content[0].text
    assert not abstract.is_error


def test_a_paper_without_a_text_has_its_abstract(server: str) -> None:
    [result, failed] = fetch(server, ABSTRACT_ONLY, f"{ABSTRACT_ONLY}#Results")
    paper = httpx.get(f"{server}/v1/papers/{ABSTRACT_ONLY}").json()
    assert result.structured_content["text"] == f"{paper['title']}\n\n{paper['abstract']}"
    assert "full_text" not in result.structured_content["metadata"]
    assert failed.is_error
    assert "has no full text" in failed.content[0].text


@pytest.mark.parametrize("part", ["2", "Results", "2 Results", "#3"])
def test_a_section_is_fetched_by_its_name(server: str, part: str) -> None:
    [result] = fetch(server, f"{SORTING}#{part}")
    document = result.structured_content
    results = SORTING_TEXT[SORTING_TEXT.index("2 Results") :]
    assert (document["id"], document["text"]) == (SORTING, f"{document['title']}\n\n{results}")


def test_an_unknown_section_is_an_error_that_names_the_others(server: str) -> None:
    [failed] = fetch(server, f"{SORTING}#Discussion")
    assert failed.is_error
    assert "has no section 'Discussion': it has 'Abstract', '1 Introduction'" in failed.content[0].text


def test_a_long_text_is_read_on_where_it_is_cut(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrieval, "FETCH_TOKENS", 700)
    text, wanted = "", GRAPHS
    while wanted:
        [result] = fetch(server, wanted)
        document = result.structured_content
        body, _, rest = (
            document["text"].removeprefix(f"{document['title']}\n\n").partition("\n\n[The text is cut")
        )
        start, end = map(int, re.findall(r"\d+", document["metadata"]["full_text"])[:2])
        assert GRAPHS_TEXT[start:end].strip() == body
        assert len(json.dumps(document)) < 700 * 5
        text += GRAPHS_TEXT[start:end]
        found = re.search(r"fetch (\S+#from=\d+) or a section .* Sections: Abstract; 1 Colourings\]", rest)
        wanted = "" if found is None else found[1]
    assert text == GRAPHS_TEXT


def test_a_session_records_the_calls_that_a_fetch_makes(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrieval, "FETCH_TOKENS", 700)
    fetch(server, SORTING, GRAPHS, session="reader")
    wait_recorded(server, "reader")
    lines = [json.loads(line) for line in httpx.get(f"{server}/v1/sessions/reader").text.splitlines()]
    assert [line["tool"] for line in lines] == [
        *("get_papers", "read_paper"),
        *("get_papers", "read_paper", "read_paper"),
    ]
