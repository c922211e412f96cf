"""Asta's tools, as functions, and over MCP with AstaBench's own client."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from scholarbase.errors import AuthorNotFound, InvalidRequest, PaperNotFound
from scholarbase.search.library import Library
from scholarbase.sessions.session import Session
from scholarbase.sessions.store import SessionStore
from scholarbase.tools import Tools
from scholarbase_dialects.proxy.authority import Authority
from scholarbase_dialects.proxy.command import variables
from scholarbase_dialects.proxy.destinations import HOSTS
from scholarbase_dialects.proxy.serving import Backend, Proxy
from tests.examples.test_frameworks import interpreter
from tests.extensions.dialects.proxy.test_proxy import proxying

SCRIPT = Path(__file__).parent / "asta_client.py"
PAPER = "ARXIV:hep-th/9301068"
TITLE = "Two Dimensional QCD is a String Theory"
BEFORE = "1994-06"
CALLS = 40
"""Calls whose papers' dates are compared with the cut."""


def test_an_answer_as_text_is_its_json(sample: Library) -> None:
    """Every call for text failed, with "Unknown argument 'format'"."""
    for name, arguments in (
        ("get_paper", {"paper_id": PAPER}),
        ("snippet_search", {"query": "QCD", "limit": 1}),
        ("search_authors_by_name", {"name": "Witten", "limit": 1}),
    ):
        tools = Tools(sample, tool_set="asta")
        assert json.loads(tools.call_as_text(name, arguments)) == tools.call(name, arguments)["answer"]


def test_bad_arguments_are_errors(sample: Library) -> None:
    for name, arguments, error in (
        ("get_paper", {"paper_id": "ARXIV:0000.00000"}, PaperNotFound),
        ("get_paper", {"paper_id": "no id"}, PaperNotFound),
        ("get_paper", {}, InvalidRequest),
        ("get_paper_batch", {"ids": ["CorpusId:1"]}, InvalidRequest),
        ("get_citations", {"paper_id": PAPER, "fields": "nonsense"}, InvalidRequest),
        ("search_papers_by_relevance", {"keyword": "QCD", "limit": 101}, InvalidRequest),
        ("search_papers_by_relevance", {"keyword": "QCD", "publication_date_range": "soon"}, InvalidRequest),
        ("search_paper_by_title", {"title": "zzz qqq"}, PaperNotFound),
        ("search_authors_by_name", {"name": "Witten", "fields": "nonsense"}, InvalidRequest),
        ("search_authors_by_name", {"name": "Witten", "limit": 100_000}, InvalidRequest),
        ("get_author_papers", {"author_id": "0"}, AuthorNotFound),
        ("snippet_search", {"query": ""}, InvalidRequest),
        ("snippet_search", {"query": "QCD", "inserted_before": "soon"}, InvalidRequest),
    ):
        with pytest.raises(error):
            Tools(sample, tool_set="asta").call(name, arguments)


def test_a_session_records_papers_and_has_a_date(sample: Library, tmp_path: Path) -> None:
    with SessionStore(tmp_path) as store:
        tools = Tools(sample, session=Session("a", as_of="1993-06"), store=store, tool_set="asta")
        found = tools.call(
            "search_papers_by_relevance", {"keyword": "QCD string", "fields": "publicationDate"}
        )
        [line] = map(json.loads, store.lines("a"))
    assert found["answer"]
    assert all(one["publicationDate"] <= "1993-06-30" for one in found["answer"])
    assert line["ids"] == [one["id"] for one in found["results"]]


@pytest.mark.slow
def test_the_client_of_astabench(server: str, sample: Library, tmp_path: Path) -> None:
    python = interpreter(SCRIPT)
    authority = Authority(tmp_path / "authority", HOSTS, {})
    with proxying(Proxy(authority, Backend(server), {})) as proxy:
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(tmp_path),
            **variables(proxy, authority.bundle, {}),
        }
        done = subprocess.run(
            [python, SCRIPT, BEFORE, str(CALLS), tmp_path / "out.json"],
            capture_output=True,
            text=True,
            timeout=300,
            cwd=tmp_path,
            env=environment,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "out.json").read_text("utf-8"))
    assert len(found["names"]) == 8
    assert found["paper"][0]["title"] == found["title"][0]["data"][0]["title"] == TITLE
    assert len(found["batch"]) == 2
    assert [one["citingPaper"]["title"] for one in found["citations"]]
    assert found["authors"][0]["name"] == "Edward Witten"
    assert found["author_papers"]
    assert len(found["relevance"]) == len(found["snippets"][0]["data"]) == 3
    assert found["bad"].pop("unknown title") == [{"data": []}]
    assert all(error.startswith("ToolError: ") for error in found["bad"].values()), found["bad"]
    assert found["dates"]
    assert max(found["dates"]) < BEFORE
