"""``Client``: the methods of :class:`scholarbase.search.library.Library` over HTTP.

    with Client("http://127.0.0.1:8000") as client:
        for hit in client.search("graph neural networks", limit=5).results:
            print(hit.score, hit.paper.title)

Searches are safe to retry. Tool calls and answers of a session have an ``Idempotency-Key``, so that a retried call is
recorded once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from typing import Any, TypeVar
from uuid import uuid4

import httpx
import orjson
from tenacity import Retrying

from scholarbase.bibliographies.reading import CheckRequests, check_requests
from scholarbase.client import endpoints
from scholarbase.client.core import BaseClient
from scholarbase.client.endpoints import Batch, Checked, Request, T, post, session_path
from scholarbase.errors import ServerFailure
from scholarbase.models.arguments import title_batches
from scholarbase.models.checks import as_text_arguments, check_ids, check_json_format
from scholarbase.models.limits import SchemaForm
from scholarbase.models.requests import SearchRequest
from scholarbase.models.responses import CheckResponse, SearchResponse, TitleMatchResponse
from scholarbase.models.source import Source

M = TypeVar("M")
U = TypeVar("U")


def _sent(method: Callable[[Any, M], T], to_request: Callable[[M], Request[T]]) -> Callable[[Any, M], T]:
    """A method that sends the HTTP request of its argument, with the signature and docstring of ``method``."""

    @wraps(method)
    def send(self: Any, request: M, /) -> T:
        result: T = self._send(to_request(request))
        return result

    send.__isabstractmethod__ = False  # type: ignore[attr-defined]  # wraps copies it
    return send


def joined(requests: CheckRequests, checked: Sequence[Checked]) -> CheckResponse:
    """The response with all references.

    Raises:
        ServerFailure: the server has changed its snapshot between two requests.
    """
    snapshots = list(dict.fromkeys(result.snapshot for result in checked))
    if len(snapshots) > 1:
        raise ServerFailure(
            f"The server changed from snapshot {snapshots[0]} to {snapshots[1]} while it checked references: check "
            "them again."
        )
    return requests.response(snapshots[0], [result.reference for result in checked])


class Client(BaseClient, Source):
    """A ScholarBase server, with the methods and types of a library. Thread-safe: up to 64 requests are sent at
    once, and others wait. Close it with ``close``, or use it in a ``with`` statement.

    Args:
        base_url: the server's address; the setting ``SCHOLARBASE_URL`` by default.
        timeout: seconds to connect and between two bytes of a response, or an ``httpx.Timeout``.
        retries: how often a request is retried after a connection error or a status of 429, 502, 503 or 504.
        backoff: longest wait before the first retry, in seconds; it doubles with each retry, up to 10 s. A
            ``Retry-After`` of at most a minute replaces it.
        headers: sent with every request.
        api_key: the key for a shared server; the setting ``SCHOLARBASE_API_KEY`` by default. Not sent if the address
            has a user name and password.
        transport: an httpx transport to send requests with.

    Raises:
        InvalidRequest: an argument is not valid.

    All methods raise what the library's methods raise, and:
        ServerUnreachable: no response after all attempts.
        ServerFailure: not a response of a ScholarBase server.
        ClientError: the client is closed.
    """

    _http_class = httpx.Client
    _semaphore_class = threading.Semaphore
    _http: httpx.Client

    def close(self) -> None:
        """Close the connections. A second call does nothing."""
        self._http.close()

    # AsyncClient has the same methods as coroutines; its _send and _send_all are coroutines too.

    def _send(self, request: Request[T]) -> T:
        retrying = Retrying(**self._retry_options(request))
        with self._raising(request, retrying):
            response = retrying(self._request, **request.arguments(self.base_url))
        return self._read(request, response, retrying)

    def _request(self, **arguments: Any) -> httpx.Response:
        with self._slots:
            return self._http.request(**arguments)

    def _send_all(self, batches: Sequence[Batch[Any, T]], joined: Callable[[list[T]], U]) -> U:
        for batch in batches:
            while (request := batch.next_request()) is not None:
                batch.add(self._send(request))
        return joined([result for batch in batches for result in batch.results])

    def run(self, request: SearchRequest) -> SearchResponse:
        """Run a :class:`SearchRequest`."""
        return self._send(endpoints.SEARCH.request(request))

    def run_searches(self, requests: Sequence[SearchRequest]) -> list[SearchResponse]:
        return self._send_all(endpoints.search_batch(requests), list)

    def _match_all(self, /, titles: Sequence[str], **options: Any) -> list[TitleMatchResponse]:
        batches = [endpoints.match_titles(batch) for batch in title_batches(titles, **options)]
        return self._send_all(batches, list)

    def _check_all(self, /, **arguments: Any) -> CheckResponse:
        requests = check_requests(**arguments)
        return self._send_all(endpoints.check_references(requests), partial(joined, requests))

    run_facets = _sent(Source.run_facets, endpoints.FACETS.request)
    run_title = _sent(Source.run_title, endpoints.match_title)
    _paper = _sent(Source._paper, endpoints.paper)
    _papers = _sent(Source._papers, endpoints.papers)
    run_similar = _sent(Source.run_similar, endpoints.SIMILAR.request)
    run_citations = _sent(Source.run_citations, endpoints.CITATIONS.request)
    run_references = _sent(Source.run_references, endpoints.REFERENCES.request)
    run_expand = _sent(Source.run_expand, endpoints.EXPAND.request)
    run_author_search = _sent(Source.run_author_search, endpoints.SEARCH_AUTHORS.request)
    _author = _sent(Source._author, endpoints.author)
    _authors = _sent(Source._authors, endpoints.authors)
    run_author_papers = _sent(Source.run_author_papers, endpoints.AUTHOR_PAPERS.request)
    run_text = _sent(Source.run_text, endpoints.TEXT.request)
    run_find = _sent(Source.run_find, endpoints.FIND.request)
    run_paper_passages = _sent(Source.run_paper_passages, endpoints.PAPER_PASSAGES.request)
    run_passage_search = _sent(Source.run_passage_search, endpoints.SEARCH_PASSAGES.request)
    run_contexts = _sent(Source.run_contexts, endpoints.CONTEXTS.request)
    run_page = _sent(Source.run_page, endpoints.page_image)
    run_sql = _sent(Source.run_sql, endpoints.SQL.request)

    def sql_schema(self) -> dict[str, Any]:
        """The views, functions and limits of SQL statements, for a model to read."""
        return self._send(Request("GET", "/v1/sql/schema", dict[str, Any]))

    def tools(
        self,
        form: SchemaForm = "openai",
        *,
        strict: bool = False,
        session: str | None = None,
        tool_set: str = "scholarbase",
    ) -> list[dict[str, Any]]:
        """The function schemas of the tools.

        Args:
            form: ``openai`` (chat completions), ``openai-responses``, ``anthropic``, ``gemini`` or ``mcp``.
            strict: schemas for strict mode: every argument is required, with null for one that is left out.
            session: the session of the calls, in which ``exclude_seen`` is available.
            tool_set: ``scholarbase``, or ``airqa`` for the actions of AirQA's environment.
        """
        return self._send(endpoints.tools(form, strict, session, tool_set))

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        session: str | None = None,
        parent: int | None = None,
        round: int | None = None,
        tool_set: str = "scholarbase",
    ) -> dict[str, Any]:
        """Call a tool; the result is the JSON of its response.

        Args:
            name: the name of the tool, such as ``search_papers``.
            arguments: its arguments, as a model wrote them.
            session: the session that records the call. A new name opens a session.
            parent: the number of the call that this one follows from; derived from the arguments by default.
            round: the agent's turn.
            tool_set: the set that has the tool.
        """
        check_json_format(arguments)
        return self._send(endpoints.call_tool(dict, name, arguments, tool_set, session, parent, round))

    def call_tool_as_text(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        session: str | None = None,
        parent: int | None = None,
        round: int | None = None,
        tool_set: str = "scholarbase",
    ) -> str:
        """Call a tool; the result is readable text. The arguments are those of ``call_tool``."""
        arguments = as_text_arguments(arguments)
        return self._send(endpoints.call_tool(str, name, arguments, tool_set, session, parent, round))

    def open_session(
        self,
        session: str | None = None,
        *,
        query_id: str | None = None,
        query: str | None = None,
        as_of: str | None = None,
        limits: Mapping[str, int] | None = None,
    ) -> dict[str, Any]:
        """Open a session with a query, a cut-off date or limits. The server generates its name by default."""
        content = {"session": session, "query_id": query_id, "query": query, "as_of": as_of, "limits": limits}
        return self._send(post("/v1/sessions", repeatable=False, **content))

    def trajectory(self, session: str) -> list[dict[str, Any]]:
        """All calls of a session, in the format of docs/trajectories.md."""
        return self._send(
            Request(
                "GET", session_path(session), lambda text: [orjson.loads(line) for line in text.splitlines()]
            )
        )

    def session_report(self, session: str, answers: Sequence[str] | None = None) -> dict[str, Any]:
        """The costs of a session and, with the relevant papers as ``answers``, its recall."""
        path = session_path(session, "/report")
        if answers is None:
            return self._send(Request("GET", path, dict))
        return self._send(post(path, answers=list(check_ids(answers, "answers"))))

    def replay_session(self, session: str) -> dict[str, Any]:
        """Run a session's calls again on the server's library, and compare: the ``differences``."""
        return self._send(Request("POST", session_path(session, "/replay"), dict))

    def record_answer(self, session: str, ids: Sequence[str]) -> int:
        """Record the agent's final answer, best first. Returns the number of the call."""
        body = orjson.dumps({"ids": check_ids(ids, "ids")})
        path, once = session_path(session, "/answer"), {"Idempotency-Key": uuid4().hex}
        return self._send(Request("POST", path, lambda data: int(data["call"]), body=body, headers=once))

    def delete_session(self, session: str) -> None:
        """Delete a session and its calls."""
        return self._send(Request("DELETE", session_path(session), lambda _: None, repeatable=False))

    def check_claim(
        self, claim: str, reference: str, *, as_of: str | None = None, judge: str | None = None
    ) -> dict[str, Any]:
        """Compare a claim with the text of the paper that a reference means (docs/claims.md).

        Args:
            judge: ``model``, or the name of a reranker of the server.
        """
        return self._send(
            post("/v1/claims/check", claim=claim, reference=reference, as_of=as_of, judge=judge)
        )

    def check_draft(
        self,
        draft: str,
        bibliography: str | None = None,
        *,
        draft_format: str | None = None,
        date: str | None = None,
        as_of: str | None = None,
        judge: str | None = None,
    ) -> dict[str, Any]:
        """Compare each sentence of a draft in LaTeX or Markdown that cites with the papers that it cites.

        Args:
            bibliography: the entries, such as the text of the ``.bib`` file.
            draft_format: ``latex`` or ``markdown``; by default the one that the content shows.
            date: the day of the draft, to which retractions are compared.
            judge: ``model``, or the name of a reranker of the server.
        """
        return self._send(
            post(
                "/v1/claims/draft",
                draft=draft,
                bibliography=bibliography,
                draft_format=draft_format,
                date=date,
                as_of=as_of,
                judge=judge,
            )
        )

    def snapshot(self) -> dict[str, Any]:
        """The snapshot id, the settings that affect ranking, and the manifest."""
        names = ("snapshot", "ranking", "rerankers", "manifest")
        return self._send(Request("GET", "/v1/snapshot", lambda data: {name: data[name] for name in names}))

    def snapshots(self) -> list[dict[str, Any]]:
        """The libraries that the server has open, the current one first: their snapshot ids, names and counts."""
        return self._send(Request("GET", "/v1/snapshots", lambda data: list(data["results"])))
