"""The tools from Python: on a library and on a server, which give the same."""

import json
from pathlib import Path
from typing import Any

import pytest

from scholarbase.client import Client
from scholarbase.errors import BudgetExhausted, InvalidRequest, PaperNotFound, ToolNotFound
from scholarbase.responses.sizing import estimate_tokens
from scholarbase.search.library import Library
from scholarbase.sessions.session import Limits, Session
from scholarbase.sessions.store import SessionStore
from scholarbase.settings import load_settings
from scholarbase.tools import Tools
from scholarbase.tools.definitions import TOOLS
from tests.conftest import serving_in_thread
from tests.fulltexts import GRAPHS
from tests.sessions.agents import wait_recorded

QUESTION = "How is two-dimensional QCD related to string theory?"
SEED = "arXiv:hep-th/9301068"
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("search_papers", {"q": QUESTION, "limit": 3}),
    ("search_papers", {"q": QUESTION, "limit": 30, "max_tokens": 800}),
    ("match_titles", {"titles": ["Two Dimensional QCD is a String Theory"]}),
    ("get_papers", {"ids": [SEED, "arXiv:2001.00001"]}),
    ("get_citations", {"paper_id": SEED}),
    ("get_references", {"paper_id": SEED, "limit": 2}),
    ("expand_papers", {"seeds": [SEED], "limit": 4, "hops": 2}),
]


def test_a_library_and_a_server_give_the_same(sample: Library, server: str) -> None:
    with Client(server) as client:
        for name, arguments in CALLS:
            assert Tools(client).call(name, arguments) == Tools(sample).call(name, arguments)
            assert Tools(client).call_as_text(name, arguments) == Tools(sample).call_as_text(name, arguments)
        assert Tools(client).schemas() == client.tools() == Tools(sample).schemas()
        in_text = {"q": QUESTION, "format": "text"}
        for call in (client.call_tool, Tools(sample).call):
            with pytest.raises(InvalidRequest, match="ending in _as_text"):
                call("search_papers", in_text)


def test_a_malformed_id_of_a_batch_has_its_own_error(sample: Library, server: str) -> None:
    arguments = {"ids": [SEED, "not an id", "arXiv:2001.00001"], "fields": ["title"]}
    with Client(server) as client:
        assert client.call_tool("get_papers", arguments) == Tools(sample).call("get_papers", arguments)
        with pytest.raises(InvalidRequest, match="'not an id'"):
            client.papers(arguments["ids"])
    found, malformed, missing = Tools(sample).call("get_papers", arguments)["results"]
    assert found["id"] == SEED
    assert malformed["paper_id"] == "not an id"
    assert "'not an id'" in malformed["error"]
    assert missing is None
    lines = Tools(sample).call_as_text("get_papers", arguments).splitlines()
    assert any(line.startswith("2. ") and "'not an id'" in line for line in lines)


def test_a_batch_without_a_paper_is_an_error(sample: Library, server: str) -> None:
    with Client(server) as client:
        for source in (client, sample):
            with pytest.raises(PaperNotFound, match=r"'arXiv:2001.00001', 'arXiv:2001.00002'"):
                Tools(source).call("get_papers", {"ids": "arXiv:2001.00001, arXiv:2001.00002"})
            with pytest.raises(InvalidRequest, match="'no id'"):
                Tools(source).call("get_papers", {"ids": ["no id"]})


def test_authors_are_one_line_and_fields_few(sample: Library) -> None:
    content = Tools(sample).call("search_papers", {"q": QUESTION, "limit": 1})
    assert isinstance(content, dict)
    paper = content["results"][0]["paper"]
    assert isinstance(paper["authors"], str)
    assert list(paper) == ["id", "title", "abstract", "authors", "year", "venue", "status", "citation_count"]


def test_every_tool_has_a_default_size(sample: Library, full_text_library: Path) -> None:
    """The largest response of each tool without ``max_tokens``."""
    hits = sample.search("string", limit=1000).results
    ids = [hit.paper.id for hit in hits]
    references = "\n\n".join(hit.paper.title or "x" for hit in hits[:300])
    largest: dict[str, list[dict[str, Any]]] = {
        "search_papers": [{"q": "string", "limit": 1000, "fields": "all"}, {"q": "string", "limit": 1000}],
        "match_titles": [{"titles": ["String theory"] * 100, "limit": 20, "min_score": 0.1}],
        "check_references": [{"references": references}],
        "get_papers": [{"ids": ids}, {"ids": ids[:20], "fields": ["abstract", "external_ids", "authors"]}],
        "get_citations": [{"paper_id": SEED, "limit": 1000}],
        "get_references": [{"paper_id": SEED, "limit": 1000}],
        "expand_papers": [{"seeds": ids[:100], "limit": 1000}],
    }
    of_texts: dict[str, list[dict[str, Any]]] = {
        "search_passages": [{"q": "vertices", "limit": 100}],
        "read_paper": [
            {"paper_id": GRAPHS, **part} for part in ({"offset": 0}, {"find": "graph"}, {"q": "colours"})
        ],
    }
    assert {*largest, *of_texts} == {tool.name for tool in TOOLS}
    small = Library.open(full_text_library, settings=load_settings(tool_tokens=900))
    with small:
        for library, size, calls in ((sample, 5000, largest), (small, 900, of_texts)):
            tools = Tools(library)
            for name, arguments in ((name, one) for name, some in calls.items() for one in some):
                content, text = tools.call(name, arguments), tools.call_as_text(name, arguments)
                tokens = estimate_tokens(json.dumps(content, separators=(",", ":"), ensure_ascii=False))
                print(f"{name}: {tokens} tokens of JSON, {estimate_tokens(text)} of text")
                assert tokens <= size
                assert estimate_tokens(text) <= size
                assert {"tokens": 0} | content == {"tokens": 0} | tools.call(
                    name, {**arguments, "max_tokens": content.get("tokens") and size}
                )
                if "tokens" in content:
                    assert "how" in content.get("left_out", {}) or content["next_offset"]


def test_what_is_wrong_is_raised_and_kept(sample: Library, tmp_path: Path) -> None:
    with SessionStore(tmp_path) as store:
        tools = Tools(sample, session=Session("s", limits=Limits(calls=3)), store=store)
        with pytest.raises(ToolNotFound):
            tools.call("find", {})
        with pytest.raises(InvalidRequest, match="Unknown argument"):
            tools.call("search_papers", {"color": QUESTION})
        with pytest.raises(PaperNotFound):
            tools.call("get_citations", {"paper_id": "arXiv:2001.00001"})
        with pytest.raises(InvalidRequest, match="not a JSON object"):
            tools.call("search_papers", "a question")  # type: ignore[arg-type]
        with pytest.raises(BudgetExhausted, match="3 calls, and 0 are left"):
            tools.call("search_papers", {"q": QUESTION})
        lines = [json.loads(line) for line in store.lines("s")]
    assert [line["tool"] for line in lines] == [
        "search_papers",
        "get_citations",
        "search_papers",
        "search_papers",
    ]
    assert [line["error"].split(":")[0] for line in lines] == [
        "Unknown argument 'color'",
        lines[1]["error"].split(":")[0],
        "The arguments of search_papers are not a JSON object",
        "The session 's' may have 3 calls, and 0 are left",
    ]


def test_a_session_on_a_library_needs_a_store_and_one_on_a_server_none(
    sample: Library, server: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidRequest, match="give one, or no session"):
        Tools(sample, session="s")
    with SessionStore(tmp_path) as store, Client(server) as client:
        with pytest.raises(InvalidRequest, match="records its own sessions"):
            Tools(client, session="s", store=store)
        with pytest.raises(InvalidRequest, match="records its own sessions"):
            Tools(client, session=Session("s"))


def test_calls_on_a_server_are_kept_there(sample: Library, tmp_path: Path) -> None:
    with serving_in_thread(sample, sessions=str(tmp_path)) as url, Client(url) as client:
        client.open_session("s", limits={"calls": 2})
        tools = Tools(client, session="s")
        first = tools.call("search_papers", {"q": QUESTION, "limit": 3})
        assert isinstance(first, dict)
        assert first["budget"] == {"calls": 1}
        tools.call("expand_papers", {"seeds": [first["results"][0]["paper"]["id"]]}, parent=1, round=1)
        with pytest.raises(BudgetExhausted):
            tools.call("search_papers", {"q": QUESTION})
        wait_recorded(url, "s")
        lines = client.trajectory("s")
    assert [(line["call"], line.get("parent"), line["round"]) for line in lines] == [
        (1, None, 1),
        (2, 1, 1),
        (3, None, 2),
    ]
    assert lines[0]["ids"] == [hit["paper"]["id"] for hit in first["results"]]


def test_a_store_that_was_closed_is_the_callers_mistake(sample: Library, tmp_path: Path) -> None:
    with SessionStore(tmp_path) as store:
        tools = Tools(sample, session="s", store=store)
    with pytest.raises(InvalidRequest, match="closed"):
        tools.call("search_papers", {"q": QUESTION})
