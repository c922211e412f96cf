"""What ``import scholarbase`` offers, and what type checkers say of a user's script."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import scholarbase
from scholarbase.client import AsyncClient, Client
from scholarbase.models.source import Source
from scholarbase.search.library import Library

NAMES = [
    "AccessError", "AddressError", "AsyncClient", "AuthorNotFound", "BodyTooLarge", "BudgetExhausted", "Busy",
    "Cancelled", "CassetteMiss", "Client", "ClientError", "DocumentNotFound", "ConstructionError", "DownloadError",
    "EncoderError", "EncoderMismatch", "EvaluationError", "Extension", "ExtensionError", "FilesRejected", "Forbidden",
    "InvalidRequest", "InvalidSql", "Library", "LibraryBusy", "LibraryCorrupt", "LibraryError", "LibraryExists",
    "LibraryNotFound", "MethodNotAllowed", "MisdirectedRequest", "MissingExtra", "ModelError", "NothingLeft",
    "OutOfMemory", "PageNotDrawn", "Paper", "PaperNotFound", "QueryFileError", "QuotaExceeded", "RateLimited",
    "ReplayDiffers", "RequestIncomplete", "RerankerError", "RunDamaged", "RunExists", "RunMismatch", "RunNotFound",
    "ScholarBaseError", "SearchRequest", "ServerFailure", "ServerUnreachable", "SessionError", "SessionExists",
    "SessionNotFound", "SessionsUnavailable", "SnapshotNotHeld", "SourceChanged", "SourceError", "SqlOff",
    "StorageError", "SwapFailed", "TimeLimit", "TooManyEdges", "TooManyRejects", "ToolNotFound", "Unauthorized",
    "UnsupportedMode", "VectorIndexError", "VerificationFailed", "write_papers",
]  # fmt: skip

SCRIPT = """
import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

from scholarbase import AsyncClient, Client, InvalidRequest, Library, Paper, SearchRequest
from scholarbase.models.responses import Citation, Hit, SearchResponse


def search(source: Client | Library) -> list[str]:
    response: SearchResponse = source.search(
        "gravity", mode="sparse", fields="title", category="hep-th", from_="1993", exclude_ids=["CorpusId:1"]
    )
    hits: Iterator[Hit] = source.iter_search("gravity", limit=200, offset=5, category=["hep-th"], mode="sparse")
    papers: list[Paper] = [hit.paper for hit in hits]
    edges: Iterator[Citation] = source.iter_citations(papers[0].id, sort="-date")
    for edge in edges:
        papers.append(edge.paper)
    request = SearchRequest(q="gravity", category=["hep-th"], fields="title")
    batch: list[SearchResponse] = source.search_batch([request, {"q": "strings"}])
    return [hit.paper.id for hit in (*response.results, *batch[0].results)]


def tools(client: Client) -> None:
    found: dict[str, Any] = client.call_tool("search_papers", {"q": "gravity"})
    text: str = client.call_tool_as_text("search_papers", {"q": "gravity"})
    print(found["results"], text.splitlines(), client.tools("gemini"))


async def both() -> int:
    async with AsyncClient("http://127.0.0.1:8000") as client:
        response: SearchResponse = await client.search("gravity", limit=3)
        found: dict[str, Any] = await client.call_tool("search_papers", {"q": "gravity"})
        pages: AsyncIterator[Hit] = client.iter_search("gravity", limit=20)
        async for hit in pages:
            print(hit.paper.title, found)
        return response.total


if __name__ == "__main__":
    try:
        with Client("http://127.0.0.1:8000") as client, Library.open("my-library") as library:
            print(search(client) + search(library), asyncio.run(both()))
            tools(client)
    except InvalidRequest as error:
        print(error)
"""
WRONG = """
from scholarbase import Client

client = Client()
client.search("gravity", limits=3)
client.search("gravity", mode="fuzzy")
client.iter_search("gravity", sort="-date")
number: int = client.call_tool("search_papers", {})
"""


def test_the_public_names() -> None:
    assert sorted(scholarbase.__all__) == sorted(NAMES)
    for name in NAMES:
        assert getattr(scholarbase, name) is not None
    assert set(NAMES) <= set(dir(scholarbase))
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = scholarbase.no_such_name


def test_importing_the_package_imports_no_client_and_no_index() -> None:
    heavy = ("httpx", "numpy", "qdrant_edge", "pydantic")
    code = f"import sys, scholarbase; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", ["search", "match_title", "paper", "citations", "expand", "iter_search"])
def test_help_explains_every_parameter(name: str) -> None:
    method = getattr(Source, name)
    parameters = [n for n in inspect.signature(method).parameters if n != "self"]
    for cls in (Client, Library, AsyncClient):
        described = inspect.getdoc(getattr(cls, name)) or ""
        if cls is AsyncClient and name == "iter_search":
            continue  # refers to that of Client
        arguments = described.partition("Args:")[2].partition("Raises:")[0]
        named = {
            word.strip() for line in arguments.splitlines() for word in line.partition(":")[0].split(",")
        }
        assert set(parameters) <= named, f"{cls.__name__}.{name}: {set(parameters) - named}"


@pytest.mark.slow
def test_a_users_script_passes_a_type_checker(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "wrong.py").write_text(WRONG)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "script.py", "wrong.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert all(line.startswith("wrong.py:") for line in errors), done.stdout
    lines = {int(line.split(":")[1]) for line in errors}
    assert lines == {5, 6, 7, 8}, done.stdout
