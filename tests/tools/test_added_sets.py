"""Sets of tools that an extension adds."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import httpx
import pytest

from scholarbase.errors import InvalidRequest, ToolNotFound
from scholarbase.extensions import Extension
from scholarbase.models.requests import SearchBody
from scholarbase.search.library import Library
from scholarbase.sessions.session import Session
from scholarbase.sessions.store import SessionStore
from scholarbase.tools import Tools
from scholarbase.tools.tool import Tool
from tests.conftest import serving_in_thread

ASK = Tool("ask", "Search for papers.", SearchBody, Library.run, {"q": "what to search for"}, {"limit": 2})


class Asking(Extension):
    def tool_sets(self) -> Mapping[str, Sequence[Tool]]:
        return {"asking": (ASK,)}


@pytest.fixture(autouse=True)
def _installed(extension: Callable[..., None]) -> None:
    extension(Asking)


def test_an_added_set_is_called_and_recorded(sample: Library, tmp_path: Path) -> None:
    with SessionStore(tmp_path) as store:
        tools = Tools(sample, session=Session("s"), store=store, tool_set="asking")
        assert [one["function"]["name"] for one in tools.schemas()] == ["ask"]
        found = tools.call("ask", {"q": "string theory"})
        assert len(found["results"]) == 2
        with pytest.raises(ToolNotFound, match="the tools are ask"):
            tools.call("search_papers", {"q": "string theory"})
        [line] = store.lines("s")
    assert b'"tool":"ask","kind":"inspect"' in line.replace(b" ", b"")


def test_an_added_set_is_served(sample: Library) -> None:
    with serving_in_thread(sample) as url:
        listed = httpx.get(f"{url}/v1/tools?set=asking").json()["tools"]
        assert [one["function"]["name"] for one in listed] == ["ask"]
        called = httpx.post(f"{url}/v1/tools/ask?set=asking", json={"q": "string theory"})
        assert len(called.json()["results"]) == 2
        assert httpx.post(f"{url}/v1/tools/ask", json={"q": "string theory"}).status_code == 404


def test_an_unknown_set_names_the_installed_ones(sample: Library) -> None:
    with pytest.raises(InvalidRequest, match="use one of scholarbase, asking"):
        Tools(sample, tool_set="answering")
