"""The client against the library it stands for, a real server, and servers that misbehave."""

from __future__ import annotations

import asyncio
import gzip
import inspect
import re
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from scholarbase import __version__, errors
from scholarbase.client import AsyncClient, Client, wire
from scholarbase.errors import (
    ClientError,
    EncoderError,
    InvalidRequest,
    PaperNotFound,
    ScholarBaseError,
    ServerFailure,
    ServerUnreachable,
)
from scholarbase.models import Filters, SearchRequest
from scholarbase.search.library import Library

METHODS = (
    "search", "search_batch", "run", "iter_search", "match_title", "match_titles", "paper", "papers", "citations",
    "references", "iter_citations", "iter_references", "expand", "snapshot",
)  # fmt: skip
STRINGS = "arXiv:hep-th/9301068"
TITLE = "Two Dimensional QCD is a String Theory"


def call(source: Library | Client, name: str, *args: Any, **kwargs: Any) -> Any:
    """Call a method by its name; what it iterates over as a list, what it raises as type and sentence."""
    try:
        answer = getattr(source, name)(*args, **kwargs)
        return list(answer) if name.startswith("iter_") else answer
    except ScholarBaseError as error:
        return type(error), str(error)


async def acall(source: AsyncClient, name: str, *args: Any, **kwargs: Any) -> Any:
    """As ``call``, for the asynchronous client."""
    try:
        answer = getattr(source, name)(*args, **kwargs)
        return [item async for item in answer] if name.startswith("iter_") else await answer
    except ScholarBaseError as error:
        return type(error), str(error)


def call_over(kind: str, url: str, name: str, *args: Any, **options: Any) -> Any:
    """One call of a fresh client of either kind; raises what the call raises."""
    if kind == "sync":
        with Client(url, backoff=0.01, **options) as client:
            answer = getattr(client, name)(*args)
            return list(answer) if name.startswith("iter_") else answer

    async def ask() -> Any:
        async with AsyncClient(url, backoff=0.01, **options) as client:
            answer = getattr(client, name)(*args)
            return [item async for item in answer] if name.startswith("iter_") else await answer

    return asyncio.run(ask())


both = pytest.mark.parametrize("kind", ["sync", "async"])


@pytest.fixture(scope="module")
def library(sample_library: Path) -> Iterator[Library]:
    with Library.open(sample_library) as opened:
        yield opened


@pytest.fixture(scope="module")
def client(server: str) -> Iterator[Client]:
    with Client(server) as opened:
        yield opened


# -- the same as the library ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_methods_have_the_signatures_of_the_library(name: str) -> None:
    of_library, of_client, of_async = (
        inspect.signature(getattr(c, name)) for c in (Library, Client, AsyncClient)
    )
    assert of_client == of_library
    assert of_async.parameters == of_library.parameters
    returns = of_library.return_annotation
    if name.startswith("iter_"):
        assert of_async.return_annotation == f"Async{returns}"
    else:
        assert of_async.return_annotation == returns
        assert inspect.iscoroutinefunction(getattr(AsyncClient, name))


def test_no_method_of_the_library_is_forgotten() -> None:
    own = {
        "open",
        "close",
        "ready",
        "best_mode",
        "for_sending",
        "is_brief",
        "has_few_edges",
    }  # these are about the process that holds the library
    public = {name for name in vars(Library) if not name.startswith("_")}
    assert public - own == set(METHODS)


QUESTION = "How is two-dimensional QCD related to string theory?"
ANSWERED: list[tuple[Any, ...]] = [
    ("search", QUESTION),
    ("search", QUESTION, {"limit": 3, "offset": 2, "fields": ["title", "authors"], "explain": True}),
    ("search", QUESTION, {"as_of": "1993-06"}),
    ("match_title", TITLE, {"as_of": "1993-06-30", "fields": ["title"]}),
    ("paper", STRINGS, {"as_of": "1993-06"}),
    ("papers", [STRINGS, "hep-th/9412110"], {"as_of": "1993-06"}),
    ("citations", STRINGS, {"as_of": "1993-06", "sort": "date"}),
    ("references", STRINGS, {"as_of": "1994-06"}),
    ("expand", [STRINGS], {"as_of": "1994-06", "hops": 2}),
    ("search", QUESTION, {"from_": "1993", "to": "1994-06", "category": "hep-th", "min_citations": 2}),
    ("search", QUESTION, {"category": ["hep-th", "gr-qc"], "engine": "fts5", "exact": True, "partial": True}),
    ("search", '"string theory" AND (title:QCD OR gauge*) NOT lattice', {"limit": 5}),
    ("search", "naïve Schrödinger & Æther = 100% + ü?#/ \t“quoted” 量子", {"limit": 2}),
    ("search", QUESTION, {"category": ["hep-th,gr-qc"]}),
    ("search", QUESTION, {"venue": ["Nucl.Phys.B, 1993", "arXiv.org"]}),
    ("search", QUESTION, {"within": []}),
    ("search", QUESTION, {"exclude": ["large N, \"planar\" limit", "strings"]}),
    ("search", QUESTION, {"within": [STRINGS, "hep-th/9303046"], "exclude_ids": ["https://arxiv.org/abs/hep-th/9303046"]}),
    ("search", QUESTION, {"within": [STRINGS] * 200, "fields": ["year"]}),
    ("search", "gravity " * 400, {"limit": 1}),
    ("search", "zzyzxq", {"fields": ("title",)}),
    ("search", 'title:"unclosed AND'),
    ("run", SearchRequest(QUESTION, "sparse", limit=2, filters=Filters(to="1995"))),
    ("search_batch", [SearchRequest("gravity", limit=2), {"q": "zzyzxq", "fields": ["id"]}, {"q": "QCD"}]),
    ("search_batch", []),
    ("iter_search", QUESTION, {"limit": 250, "fields": ["id"]}),
    ("iter_search", QUESTION, {"limit": 0}),
    ("match_title", TITLE),
    ("match_title", "two dimensional QCD is a strin theory", {"min_score": 0.8, "limit": 2, "fields": ["title"]}),
    ("match_title", "A title of no paper at all", {"fields": ["year"]}),
    ("match_title", TITLE + " and more" * 400),
    ("match_titles", [TITLE, "A title of no paper at all", TITLE], {"fields": ["title", "url"]}),
    ("match_titles", []),
    ("paper", STRINGS),
    ("paper", STRINGS, {"fields": ["abstract", "external_ids", "categories"]}),
    ("papers", [STRINGS, "arXiv:2001.00001", "CorpusId:999999999999", "hep-th/9301068v1"]),
    ("papers", [], {"fields": ["title"]}),
    ("citations", STRINGS),
    ("citations", STRINGS, {"limit": 2, "offset": 1, "sort": "-date", "fields": ["year"]}),
    ("citations", STRINGS, {"from_": "1993-02", "to": "1999"}),
    ("references", STRINGS, {"sort": "citation_count"}),
    ("citations", STRINGS, {"from_": "2003", "fields": ["year"]}),
    ("iter_citations", STRINGS, {"sort": "date"}),
    ("iter_references", STRINGS, {"limit": 1, "fields": ["title"]}),
    ("expand", [STRINGS, "hep-th/9303046"]),
    ("expand", [STRINGS], {"direction": "citations", "hops": 2, "limit": 5, "offset": 5, "fields": ["title"]}),
    ("expand", [STRINGS], {"category": "hep-th", "min_citations": 5, "exclude_ids": ["hep-th/9303046"]}),
    ("expand", [STRINGS], {"exclude": ["quantum groups", "matrix model"], "hops": 2}),
    ("expand", [STRINGS], {"to": "1980", "fields": ["title"]}),
    ("snapshot",),
]  # fmt: skip

REFUSED: list[tuple[Any, ...]] = [
    ("search", " "),
    ("search", "gravity", {"mode": "semantic"}),
    ("search", "gravity", {"mode": "dense"}),
    ("search", "gravity", {"mode": "hybrid"}),
    ("search", "gravity", {"engine": "learned"}),
    ("search", "gravity", {"limit": 0}),
    ("search", "gravity", {"limit": 1000, "offset": 10_000}),
    ("search", "gravity", {"fields": ["titel"]}),
    ("search", "gravity", {"from_": "1994", "to": "1993"}),
    ("search", "gravity", {"from_": "last year"}),
    ("search", "gravity", {"category": [""]}),
    ("search", "gravity", {"as_of": "1993"}),
    ("search", "gravity", {"as_of": "1900-01"}),
    ("paper", "hep-th/9412110", {"as_of": "1993-06"}),
    ("citations", STRINGS, {"as_of": "1993-06", "sort": "citation_count"}),
    ("search", "gravity", {"exclude_ids": ["arXiv:2001.00001"]}),
    ("search", "gravity", {"within": ["no id"]}),
    ("search", "author:Witten AND gravity"),
    ("search", "half of a pair: \ud83d"),
    ("search", "gravity", {"venue": ["\ud83d"]}),
    ("search", "gravity", {"exclude": ["\ud83d"]}),
    ("search", "gravity", {"exclude": ["gravity"]}),
    ("search", "gravity", {"exclude": ["arXiv:1706.03762"]}),
    ("search", "gravity", {"exclude": ["?"]}),
    ("search", "gravity", {"engine": "fts5", "min_citations": 2**63}),
    ("search_batch", [{"q": "gravity"}, {"q": "gravity", "mode": "dense"}]),
    ("search_batch", [{"q": "gravity", "from": "1993"}]),
    ("iter_search", ""),
    ("match_title", ""),
    ("match_title", TITLE, {"min_score": 1.5}),
    ("match_titles", [TITLE, " "]),
    ("match_titles", ["\ud83d"]),
    ("match_titles", [TITLE], {"min_score": float("nan")}),
    ("match_title", TITLE, {"min_score": float("-inf")}),
    ("paper", "arXiv:2001.00001"),
    ("paper", "DOI:10.1000/abc#x"),
    ("paper", "10.1000/a%2Fb?c=d&e=+f"),
    ("paper", "https://example.org/abs/1?x=1#top"),
    ("paper", "https://example.org/of/citations"),
    ("paper", "DOI:10.1000/references"),
    ("paper", "URL:https://example.org/" + "x" * 1900),
    ("paper", "a paper about gravity"),
    ("paper", ".."),
    ("paper", ""),
    ("papers", [STRINGS, "no id"]),
    ("papers", STRINGS),
    ("citations", "DOI:10.1000/citations/citations"),
    ("citations", STRINGS, {"sort": "title"}),
    ("citations", STRINGS, {"offset": -1}),
    ("citations", STRINGS, {"offset": 2**63}),
    ("iter_references", "arXiv:2001.00001"),
    ("expand", []),
    ("expand", [STRINGS], {"direction": "sideways"}),
    ("expand", [STRINGS], {"hops": 3}),
    ("expand", ["arXiv:2001.00001"]),
]


def _name(case: Any) -> str:
    return re.sub(r"\W+", "-", repr(case))[:60].strip("-")


@pytest.mark.parametrize("case", ANSWERED + REFUSED, ids=_name)
def test_library_and_clients_say_the_same(
    case: tuple[Any, ...], library: Library, client: Client, server: str
) -> None:
    args = [part for part in case[1:] if not isinstance(part, dict)]
    options = next((part for part in case[1:] if isinstance(part, dict)), {})
    expected = call(library, case[0], *args, **options)
    refused = isinstance(expected, tuple)
    assert refused == (case in REFUSED), expected

    async def over_async() -> Any:
        async with AsyncClient(server) as source:
            return await acall(source, case[0], *args, **options)

    assert call(client, case[0], *args, **options) == expected
    assert asyncio.run(over_async()) == expected


def test_dense_and_hybrid_searches_say_the_same(dense_library: Path, dense_server: str) -> None:
    asked = [{"q": QUESTION, "mode": mode, "explain": True, "limit": 5} for mode in ("hybrid", "dense", None)]
    with Library.open(dense_library) as library, Client(dense_server) as client:
        expected = library.search_batch(asked)
        assert [answer.mode for answer in expected] == ["hybrid", "dense", "hybrid"]
        assert client.search_batch(asked) == expected
        assert [client.search(**arguments) for arguments in asked] == [library.search(**a) for a in asked]


@pytest.mark.parametrize(
    "form",
    [
        "hep-th/9301068", "hep-th/9301068v1", "ARXIV:hep-th/9301068", " arXiv:hep-th/9301068\n",
        "https://arxiv.org/abs/hep-th/9301068?x=1#top", "http://arxiv.org/pdf/hep-th/9301068v2.pdf",
        "DOI:10.48550/arXiv.hep-th/9301068",
    ],
)  # fmt: skip
def test_every_form_of_an_id_reaches_its_paper(form: str, client: Client) -> None:
    assert client.paper(form, fields=["title"]).title == TITLE
    assert client.citations(form, limit=1).total == client.citations(STRINGS, limit=1).total > 0


def test_a_batch_longer_than_the_servers_limit_goes_in_several_requests(client: Client) -> None:
    one = client.search("gravity", limit=1, fields=["id"])
    assert client.search_batch([SearchRequest("gravity", limit=1, fields=("id",))] * 101) == [one] * 101
    title = client.match_title(TITLE, limit=1, fields=["id"])
    assert client.match_titles([TITLE] * 1001, fields=["id"]) == [title] * 1001


def test_a_batch_too_long_for_one_body_goes_in_several(
    sample: Library, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred searches with long lists of ids have more bytes than a server takes at once."""
    ids = tuple(hit.paper.id for hit in sample.search("gravity", limit=40).results)
    asked = [SearchRequest("gravity", limit=3, filters=Filters(exclude_ids=ids[:n])) for n in range(40)]
    monkeypatch.setattr(wire, "MAX_BODY", 4000)
    calls = wire.search_batch(asked)
    assert 2 < len(calls) < 40
    assert max(len(call.body or b"") for call in calls) < 4200
    with Client(server) as client:
        assert client.search_batch(asked) == sample.search_batch(asked)


def test_threads_share_a_client(client: Client, library: Library) -> None:
    words = ["gravity", "string", "gauge", "lattice", "neutrino", "quark", "black hole", "duality"]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda q: client.search(q, limit=3), words * 3))
    assert answers == [library.search(q, limit=3) for q in words] * 3


def test_importing_the_client_loads_no_index_and_no_model() -> None:
    heavy = "{'numpy', 'qdrant_edge', 'qdrant_client', 'sqlite3', 'torch', 'fastapi', 'scholarbase.search.library'}"
    code = f"import sys, scholarbase.client; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


# -- arguments --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "base_url", ["localhost:8000", "", "ftp://h", "http://", "http://h/?a=b", "http://h:x", 5]
)
def test_an_address_that_is_none_is_refused(base_url: Any) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(f"{base_url!r} is no address of a server")):
        Client(base_url)


@pytest.mark.parametrize("options", [{"retries": -1}, {"retries": 1.5}, {"timeout": 0}, {"backoff": -1.0}])
def test_a_number_that_cannot_be_right_is_refused(options: dict[str, Any]) -> None:
    name, value = next(iter(options.items()))
    with pytest.raises(InvalidRequest, match=f"{name} is {value}"):
        AsyncClient("http://h", **options)


def test_no_address_takes_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Client().base_url == "http://127.0.0.1:8000"
    monkeypatch.setenv("SCHOLARBASE_URL", "https://papers.example.org/scholar/")
    assert Client().base_url == "https://papers.example.org/scholar"


def test_what_cannot_be_right_is_refused_before_anything_is_sent() -> None:
    with Client("http://127.0.0.1:9", retries=0) as client:
        with pytest.raises(InvalidRequest, match="limit is 0"):
            client.search("gravity", limit=0)
        with pytest.raises(InvalidRequest, match="exclude_ids must be a list"):
            client.expand([STRINGS], exclude_ids="arXiv:2001.00001")


def test_a_closed_client_says_so(server: str) -> None:
    client = Client(server)
    client.close()
    client.close()
    with pytest.raises(ClientError, match="is closed: make a new one"):
        client.snapshot()


# -- a server of somebody else's --------------------------------------------------------------------------

SNAPSHOT = {"snapshot": "s1", "ranking": {"rrf_k": 60}, "manifest": {"counts": {"papers": 1}}}
EMPTY = {"snapshot": "s1", "mode": "sparse", "engine": "bm25", "total": 0, "total_relation": "eq",
         "next_offset": None, "results": []}  # fmt: skip
DROP = "drop"
HANG = "hang"


def answer(status: str = "200 OK", content: Any = SNAPSHOT, *headers: str) -> bytes:
    """An HTTP answer, byte for byte."""
    body = content if isinstance(content, bytes) else orjson.dumps(content)
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def problem(slug: str, status: str, detail: str, *headers: str) -> bytes:
    content = {
        "type": errors.PROBLEM_TYPE_BASE + slug,
        "title": "T",
        "status": int(status[:3]),
        "detail": detail,
    }
    return answer(status, content, "Content-Type: application/problem+json", *headers)


class Script(socketserver.ThreadingTCPServer):
    """A server that plays its acts one after the other, the last one for good, and keeps what it was asked."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, acts: list[bytes | str]) -> None:
        super().__init__(("127.0.0.1", 0), _Act)
        self.acts = acts
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Act(socketserver.StreamRequestHandler):
    server: Script

    def handle(self) -> None:
        first = self.rfile.readline().decode().strip()
        if not first:
            return
        lines = iter(lambda: self.rfile.readline().decode().strip(), "")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        body = self.rfile.read(int(headers.get("content-length", 0)))
        acts = self.server.acts
        act = acts[min(len(self.server.asked), len(acts) - 1)]
        self.server.asked.append((first, headers, body))
        if act == HANG:
            self.server.over.wait(30)
        elif isinstance(act, bytes):
            self.wfile.write(act)


@pytest.fixture
def script() -> Iterator[Callable[..., Script]]:
    opened: list[Script] = []

    def start(*acts: bytes | str) -> Script:
        server = Script(list(acts))
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        opened.append(server)
        return server

    yield start
    for server in opened:
        server.over.set()
        server.shutdown()
        server.server_close()


@both
@pytest.mark.parametrize(
    "fault",
    [
        DROP,
        answer("200 OK", SNAPSHOT)[:-5],
        answer("502 Bad Gateway", b"<h1>Bad Gateway</h1>"),
        answer("503 Service Unavailable", b""),
        answer("504 Gateway Timeout", b""),
        answer("429 Too Many Requests", b"", "Retry-After: 0"),
        answer("503 Service Unavailable", b"", "Retry-After: Wed, 21 Oct 2015 07:28:00 GMT"),
        answer("503 Service Unavailable", b"", "Retry-After: soon"),
        problem("encoder", "503 Service Unavailable", "The encoder is loading."),
    ],
    ids=["dropped", "cut-off", "502", "503", "504", "429", "date", "nonsense", "problem"],
)
def test_a_passing_fault_is_tried_again(kind: str, fault: bytes | str, script: Callable[..., Script]) -> None:
    server = script(fault, fault, answer())
    assert call_over(kind, server.url, "snapshot") == SNAPSHOT
    assert [first for first, _, _ in server.asked] == ["GET /v1/snapshot HTTP/1.1"] * 3


@both
def test_a_body_is_sent_again_whole(kind: str, script: Callable[..., Script]) -> None:
    server = script(DROP, answer(content={"snapshot": "s1", "results": [EMPTY]}))
    (found,) = call_over(kind, server.url, "search_batch", [{"q": "gravity"}])
    assert found.results == ()
    first, second = server.asked
    assert first[2] == second[2] == b'{"searches":[{"q":"gravity","limit":10,"offset":0}]}'


@both
def test_a_lasting_fault_of_the_server_is_its_own_error(kind: str, script: Callable[..., Script]) -> None:
    detail = "The encoder failed: its process is gone. Start it again."
    server = script(problem("encoder", "503 Service Unavailable", detail, "X-Request-ID: r1"))
    with pytest.raises(EncoderError) as raised:
        call_over(kind, server.url, "snapshot", retries=2)
    assert str(raised.value) == detail
    assert raised.value.__notes__ == [
        f"So answered {server.url}/v1/snapshot under the request id r1, in 3 attempts."
    ]
    assert len(server.asked) == 3


@both
@pytest.mark.parametrize(
    ("act", "says"),
    [
        (answer("500 Internal Server Error", b"<h1>Oops</h1>"), "500 Internal Server Error (<h1>Oops</h1>): its log"),
        (problem("internal", "500 Internal Server Error", "An error that it does not know.", "X-Request-ID: r7"),
         "(An error that it does not know.): its log says why, under the request id r7."),
        (answer("200 OK", b"<h1>Welcome</h1>"), "not JSON (<h1>Welcome</h1>): check that a ScholarBase"),
        (answer("200 OK", b""), "not JSON"),
        (answer("200 OK", {"hello": "world"}), "JSON of another form (KeyError: 'snapshot')"),
        (answer("200 OK", [1, 2]), "JSON of another form"),
        (answer("200 OK", gzip.compress(b"{}")[:-9] + b"garbage--", "Content-Encoding: gzip"), "cannot be read"),
        (answer("404 Not Found", b"nginx"), "check that the address is that of a ScholarBase server"),
        (answer("401 Unauthorized", b""), "give what it asks for in headers"),
        (answer("301 Moved Permanently", b"", "Location: https://new.example.org/v1/snapshot"),
         "give the address https://new.example.org/v1/snapshot instead"),
        (answer("503 Service Unavailable", b"", "Retry-After: 3600"), "answered 503"),
    ],
)  # fmt: skip
def test_an_answer_that_is_none_of_ours_is_a_failure_at_once(
    kind: str, act: bytes, says: str, script: Callable[..., Script]
) -> None:
    server = script(act)
    with pytest.raises(ServerFailure) as raised:
        call_over(kind, server.url, "snapshot")
    assert says in str(raised.value)
    assert f"{server.url}/v1/snapshot" in str(raised.value)
    assert len(server.asked) == 1


@both
def test_no_answer_in_time_names_the_attempts(kind: str, script: Callable[..., Script]) -> None:
    server = script(HANG)
    with pytest.raises(ServerUnreachable) as raised:
        call_over(kind, server.url, "snapshot", timeout=0.2, retries=1)
    assert f"No answer from {server.url}/v1/snapshot in 2 attempts (ReadTimeout" in str(raised.value)
    assert "longer timeout" in str(raised.value)


@both
def test_a_server_that_is_not_there(kind: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can take it
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(
            ServerUnreachable, match=f"No answer from {url}/v1/papers/.* in 1 attempt .*scholarbase serve"
        ):
            call_over(kind, url, "paper", STRINGS, retries=0)


@both
def test_results_that_are_missing_from_a_batch_are_a_failure(
    kind: str, script: Callable[..., Script]
) -> None:
    server = script(answer(content={"snapshot": "s1", "results": [None]}))
    with pytest.raises(ServerFailure, match="JSON of another form"):
        call_over(kind, server.url, "papers", [STRINGS, "hep-th/9303046"])


def page(snapshot: str, next_offset: int | None) -> bytes:
    paper = {"id": "arXiv:2001.00001"}
    return answer(
        content=EMPTY
        | {"snapshot": snapshot, "next_offset": next_offset, "results": [{"score": 1.0, "paper": paper}]}
    )


@both
def test_pages_of_two_snapshots_are_not_strung_together(kind: str, script: Callable[..., Script]) -> None:
    server = script(page("s1", 1), page("s2", None))
    with pytest.raises(ServerFailure, match="went from snapshot s1 to s2 between two pages"):
        call_over(kind, server.url, "iter_search", "gravity")


@both
def test_pages_that_lead_back_end(kind: str, script: Callable[..., Script]) -> None:
    server = script(page("s1", 1))
    with pytest.raises(ServerFailure, match="offset 1 leads back to offset 1"):
        call_over(kind, server.url, "iter_search", "gravity")


@both
def test_requests_carry_the_version_and_the_callers_headers(kind: str, script: Callable[..., Script]) -> None:
    server = script(answer())
    address = server.url.replace("://", "://reader:secret@") + "/scholar/"
    call_over(kind, address, "snapshot", headers={"X-Request-ID": "r9"})
    ((first, headers, _),) = server.asked
    assert first == "GET /scholar/v1/snapshot HTTP/1.1"
    assert headers["user-agent"] == f"scholarbase/{__version__}"
    assert headers["x-request-id"] == "r9"
    assert headers["authorization"] == "Basic cmVhZGVyOnNlY3JldA=="


def test_a_header_that_cannot_be_sent_is_refused_and_not_retried(script: Callable[..., Script]) -> None:
    server = script(answer())
    with (
        Client(server.url, headers={"X-Request-ID": "a\nb"}) as client,
        pytest.raises(InvalidRequest, match=r"cannot be sent .* check the headers"),
    ):
        client.snapshot()
    assert server.asked == []


def test_the_callers_own_agent_stands_alone(script: Callable[..., Script]) -> None:
    server = script(answer())
    with Client(server.url, headers={"user-agent": "reader/2"}) as client:
        client.snapshot()
    assert server.asked[0][1]["user-agent"] == "reader/2"


def test_a_password_in_the_address_is_in_no_message(
    script: Callable[..., Script], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    server = script(answer("500 Internal Server Error", b""))
    with (
        Client(server.url.replace("://", "://reader:secret@")) as client,
        pytest.raises(ServerFailure) as raised,
    ):
        client.snapshot()
    assert "secret" not in str(raised.value) + client.base_url + caplog.text
    assert "HTTP Request" in caplog.text


@both
def test_short_searches_stand_in_the_url_and_long_ones_in_a_body(
    kind: str, script: Callable[..., Script]
) -> None:
    server = script(answer(content=EMPTY))
    call_over(
        kind, server.url, "run", SearchRequest("a b&c", fields=("title",), filters=Filters(category=("cs",)))
    )
    call_over(kind, server.url, "run", SearchRequest("gravity", filters=Filters(within=(STRINGS,) * 500)))
    (short, _, _), (long, headers, body) = server.asked
    assert short == "GET /v1/search?q=a+b%26c&limit=10&offset=0&fields=id%2Ctitle&category=cs HTTP/1.1"
    assert long == "POST /v1/search HTTP/1.1"
    assert headers["content-type"] == "application/json"
    assert orjson.loads(body) == {"q": "gravity", "limit": 10, "offset": 0, "within": [STRINGS] * 500}


# -- attempts ---------------------------------------------------------------------------------------------


def test_waits_double_to_a_limit_with_a_part_by_chance() -> None:
    attempts = wire.Attempts("http://h/v1", retries=10, backoff=0.5)
    waits = [attempts.after_error(httpx.ConnectError("refused")) for _ in range(7)]
    for wait, longest in zip(waits, [0.5, 1, 2, 4, 8, 10, 10], strict=True):
        assert longest / 2 <= wait <= longest


def test_the_server_says_how_long_to_wait() -> None:
    attempts = wire.Attempts("http://h/v1", retries=3, backoff=0.5)
    wait = attempts.after_answer(httpx.Response(429, headers={"Retry-After": "7"}))
    assert wait is not None
    assert 7 <= wait <= 7.5
    assert attempts.after_answer(httpx.Response(503, headers={"Retry-After": "61"})) is None


def _errors() -> list[type[ScholarBaseError]]:
    found = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, ScholarBaseError)]
    return [e for e in found if e is not ScholarBaseError and not issubclass(e, ClientError)]


@pytest.mark.parametrize("error", _errors())
def test_every_problem_of_the_server_is_raised_as_its_own_error(error: type[ScholarBaseError]) -> None:
    content = {
        "type": errors.PROBLEM_TYPE_BASE + error.slug,
        "title": "",
        "status": error.status,
        "detail": "A sentence.",
    }
    with pytest.raises(ScholarBaseError) as raised:
        wire.Attempts("http://h", 0, 1.0).read(wire.snapshot(), httpx.Response(error.status, json=content))
    assert type(raised.value) is error
    assert str(raised.value) == "A sentence."


def test_a_missing_paper_can_be_caught_by_its_class(client: Client) -> None:
    with pytest.raises(PaperNotFound, match=r"No paper 'arXiv:2001.00001' in this library"):
        client.paper("arXiv:2001.00001")


def test_an_address_with_the_version_at_its_end_is_told(server: str) -> None:
    with Client(server + "/v1") as client, pytest.raises(ServerFailure, match="without /v1 at its end"):
        client.snapshot()


def test_the_examples_of_the_docs_run(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(__file__).parents[2] / "docs" / "client.md").read_text()
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(examples) == 7
    for example in examples:
        exec(
            compile(example.replace("http://127.0.0.1:8000", server), "docs/client.md", "exec"),
            {"__name__": "docs"},
        )
    said = capsys.readouterr().out
    assert TITLE in said
    assert "not here: No paper 'arXiv:2001.00001'" in said
