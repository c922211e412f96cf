"""Both clients of a real server against the library that it serves."""

import asyncio
import inspect
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from scholarbase.client import AsyncClient, Client, endpoints
from scholarbase.client.core import MAX_CONNECTIONS
from scholarbase.errors import (
    ClientError,
    InvalidRequest,
    ScholarBaseError,
    ServerFailure,
    ServerUnreachable,
)
from scholarbase.models.requests import SearchRequest
from scholarbase.search.library import Library
from tests.conftest import serving_in_thread
from tests.tables import cases

METHODS = (
    "search", "search_batch", "run", "iter_search", "match_title", "match_titles", "paper", "papers", "citations",
    "search_authors", "author", "authors", "author_papers", "iter_author_papers",
    "check_references", "references", "iter_citations", "iter_references", "similar", "iter_similar", "expand",
    "facets", "snapshot", "sql", "sql_schema", "text", "find", "passages", "search_passages", "citation_contexts",
    "page_image",
)  # fmt: skip
STRINGS = "arXiv:hep-th/9301068"
TITLE = "Two Dimensional QCD is a String Theory"


def call(source: Library | Client, name: str, *args: Any, **kwargs: Any) -> Any:
    """Call a method by its name. Iterators are returned as lists, errors as type and message."""
    try:
        result = getattr(source, name)(*args, **kwargs)
        return list(result) if name.startswith("iter_") else result
    except ScholarBaseError as error:
        return type(error), str(error)


async def acall(source: AsyncClient, name: str, *args: Any, **kwargs: Any) -> Any:
    """As ``call``, for the asynchronous client."""
    try:
        result = getattr(source, name)(*args, **kwargs)
        return [item async for item in result] if name.startswith("iter_") else await result
    except ScholarBaseError as error:
        return type(error), str(error)


def test_methods_have_the_signatures_of_the_library() -> None:
    for name in METHODS:
        of_library, of_client, of_async = (
            inspect.signature(getattr(c, name)) for c in (Library, Client, AsyncClient)
        )
        assert of_client == of_library, name
        assert of_async.parameters == of_library.parameters, name
        returns = of_library.return_annotation
        if name.startswith("iter_"):
            assert of_async.return_annotation == f"Async{returns}"
        else:
            assert of_async.return_annotation == returns
            assert inspect.iscoroutinefunction(getattr(AsyncClient, name))


def test_the_client_has_all_public_methods_of_the_library() -> None:
    of_the_process = {"open", "close", "ready", "check_files"}
    of_requests = {
        "run_batch", "run_citations", "run_expand", "run_paper", "run_papers", "run_references", "run_searches",
        "run_author", "run_author_papers", "run_facets",
        "run_author_search", "run_authors", "has_bm25_terms",
        "run_check", "run_similar", "run_sql", "run_title", "run_titles",
        "forget_queries", "run_text", "run_find", "run_read",
        "run_paper_passages", "run_passage_search", "run_contexts", "run_page",
    }  # fmt: skip
    of_extensions = {"catalog", "lookup", "rerankers"}
    public = {name for name in dir(Library) if not name.startswith("_")}
    assert public - of_the_process - of_requests - of_extensions == set(METHODS)


QUESTION = "How is two-dimensional QCD related to string theory?"
VALID: list[tuple[str, list[Any], dict[str, Any]]] = [
    *map(tuple, cases("calls", "valid")),
    ("search", [QUESTION], {"within": [STRINGS] * 200, "fields": ["year"]}),
    ("search", ["gravity " * 400], {"limit": 1}),
    ("run", [SearchRequest(q=QUESTION, mode="sparse", limit=2, to="1995")], {}),
    (
        "search_batch",
        [[SearchRequest(q="gravity", limit=2), {"q": "zzyzxq", "fields": ["id"]}, {"q": "QCD"}]],
        {},
    ),
    ("match_title", [TITLE + " é" * 400], {}),
]

INVALID: list[tuple[str, list[Any], dict[str, Any]]] = [
    *map(tuple, cases("calls", "invalid")),
    ("match_titles", [[TITLE]], {"min_score": float("nan")}),
    ("paper", ["URL:https://example.org/" + "x" * 1900], {}),
    ("author", ["量" * 500], {}),
    ("authors", [["7"] * 501], {}),
]


def test_library_and_clients_return_the_same(library: Library, client: Client, server: str) -> None:
    calls = VALID + INVALID

    async def over_async() -> list[Any]:
        async with AsyncClient(server) as source:
            return [await acall(source, name, *args, **options) for name, args, options in calls]

    for one, over_async_client in zip(calls, asyncio.run(over_async()), strict=True):
        name, args, options = one
        expected = call(library, name, *args, **options)
        assert isinstance(expected, tuple) == (one in INVALID), (one, expected)
        assert call(client, name, *args, **options) == expected, one
        assert over_async_client == expected, one


def test_dense_and_hybrid_searches_return_the_same(dense: Library) -> None:
    requests = [
        {"q": QUESTION, "mode": mode, "explain": True, "limit": 5} for mode in ("hybrid", "dense", None)
    ]
    expected = dense.search_batch(requests)
    assert [response.mode for response in expected] == ["hybrid", "dense", "hybrid"]
    with serving_in_thread(dense) as url, Client(url) as client:
        assert client.search_batch(requests) == expected
        assert [client.search(**arguments) for arguments in requests] == [
            dense.search(**arguments) for arguments in requests
        ]


def test_a_batch_over_the_servers_limit_is_split(client: Client) -> None:
    one = client.search("gravity", limit=1, fields=["id"])
    assert client.search_batch([SearchRequest(q="gravity", limit=1, fields=("id",))] * 101) == [one] * 101
    title = client.match_title(TITLE, limit=1, fields=["id"])
    assert client.match_titles([TITLE] * 1001, fields=["id"]) == [title] * 1001


def test_a_batch_too_large_for_one_body_is_split(
    sample: Library, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred searches with long lists of ids exceed the server's body limit."""
    ids = tuple(hit.paper.id for hit in sample.search("gravity", limit=40).results)
    requests = [SearchRequest(q="gravity", limit=3, exclude_ids=ids[:n]) for n in range(40)]
    monkeypatch.setattr(endpoints, "MAX_BODY", 4000)
    batches = endpoints.search_batch(requests)
    assert 2 < len(batches) < 40
    sent = [request for batch in batches if (request := batch.next_request()) is not None]
    assert max(len(request.body or b"") for request in sent) < 4200
    with Client(server) as client:
        assert client.search_batch(requests) == sample.search_batch(requests)


def test_threads_share_a_client(client: Client, library: Library) -> None:
    words = ["gravity", "string", "gauge", "lattice", "neutrino", "quark", "black hole", "duality"]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda q: client.search(q, limit=3), words * 3))
    assert found == [library.search(q, limit=3) for q in words] * 3


def test_importing_the_client_loads_no_index_and_no_model() -> None:
    heavy = "{'numpy', 'qdrant_edge', 'qdrant_client', 'sqlite3', 'torch', 'fastapi', 'scholarbase.search.library'}"
    code = f"import sys, scholarbase.client; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "base_url", ["localhost:8000", "", "ftp://h", "http://", "http://h/?a=b", "http://h:x", 5]
)
def test_an_invalid_address_is_rejected(base_url: Any) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(f"{base_url!r} is not a valid server address")):
        Client(base_url)


@pytest.mark.parametrize("options", [{"retries": -1}, {"retries": 1.5}, {"timeout": 0}, {"backoff": -1.0}])
def test_an_invalid_number_is_rejected(options: dict[str, Any]) -> None:
    name, value = next(iter(options.items()))
    with pytest.raises(InvalidRequest, match=f"{name} is {value}"):
        AsyncClient("http://h", **options)


def test_the_default_address_is_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Client().base_url == "http://127.0.0.1:8000"
    monkeypatch.setenv("SCHOLARBASE_URL", "https://papers.example.org/scholar/")
    assert Client().base_url == "https://papers.example.org/scholar"


def test_invalid_arguments_are_rejected_before_a_request() -> None:
    with Client("http://127.0.0.1:9", retries=0) as client:
        with pytest.raises(InvalidRequest, match="limit is 0"):
            client.search("gravity", limit=0)
        with pytest.raises(InvalidRequest, match="exclude_ids must be a list"):
            client.expand([STRINGS], exclude_ids=17)  # type: ignore[arg-type]


def test_a_closed_client_raises_an_error(server: str) -> None:
    client = Client(server)
    client.close()
    client.close()
    with pytest.raises(ClientError, match="is closed: create a new one"):
        client.snapshot()


def test_an_address_that_ends_with_the_version(server: str) -> None:
    with Client(server + "/v1") as client, pytest.raises(ServerFailure, match="without /v1 at its end"):
        client.snapshot()


class Counting(httpx.AsyncBaseTransport):
    """Counts the requests that are under way."""

    def __init__(self) -> None:
        self._transport = httpx.AsyncHTTPTransport()
        self.now = self.most = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            return await self._transport.handle_async_request(request)
        finally:
            self.now -= 1

    async def aclose(self) -> None:
        await self._transport.aclose()


async def test_hundreds_of_tasks_share_a_client_and_none_fails(server: str) -> None:
    transport = Counting()
    async with AsyncClient(server, transport=transport) as source:
        papers = await asyncio.gather(*(source.paper(STRINGS, fields=["title"]) for _ in range(300)))
    assert {paper.title for paper in papers} == {TITLE}
    assert 2 <= transport.most <= MAX_CONNECTIONS


def test_a_client_ignores_settings_of_other_parts(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHOLARBASE_PORT", "not a port")
    monkeypatch.setenv("SCHOLARBASE_NO_SUCH_SETTING", "1")
    monkeypatch.setenv("SCHOLARBASE_URL", server)
    with Client() as source:
        assert source.paper(STRINGS).title == TITLE


def test_a_request_that_is_not_repeatable_is_sent_once(server: str) -> None:
    """After a lost response, open_session was sent again and failed with SessionExists. A proxy may answer 503 for a
    response that it lost."""
    sent: list[str] = []

    class Losing(httpx.HTTPTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            sent.append(request.method)
            super().handle_request(request).close()
            if request.method == "DELETE":
                return httpx.Response(503)
            raise httpx.ReadError("the response is lost", request=request)

    with Client(server, transport=Losing(), backoff=0.01) as source:
        with pytest.raises(ServerUnreachable):
            source.open_session("lost")
        with pytest.raises(ServerFailure, match="503 Service Unavailable"):
            source.delete_session("lost")
        assert sent == ["POST", "DELETE"]
        with pytest.raises(ServerUnreachable):
            source.paper(STRINGS)
    assert sent[2:] == ["GET"] * 4
