"""The server's endpoints: one function for each, from checked arguments to a :class:`Request`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar
from urllib.parse import quote, urlencode
from uuid import uuid4

import msgspec
import orjson

from scholarbase.bibliographies.requests import CheckRequests, Placed, placed
from scholarbase.errors import InvalidRequest, PaperNotFound, TimeLimit
from scholarbase.identifiers import parse
from scholarbase.models.author_requests import (
    AuthorBatchBody,
    AuthorBody,
    AuthorPapersBody,
    AuthorSearchParameters,
)
from scholarbase.models.authors import AuthorProfile, no_author
from scholarbase.models.check_requests import CheckBody
from scholarbase.models.checks import (
    as_text_arguments,
    check_ids,
    check_json_format,
    check_list,
    check_text,
    check_type,
    check_whole,
    shown,
)
from scholarbase.models.document_requests import (
    ContextBody,
    FindBody,
    PageBody,
    PaperPassagesBody,
    PassageSearch,
    TextBody,
)
from scholarbase.models.document_responses import (
    ContextsResponse,
    FindResponse,
    PassagesResponse,
    TextResponse,
)
from scholarbase.models.facet_requests import FacetsParameters
from scholarbase.models.limits import MAX_BATCH, MAX_PAPERS
from scholarbase.models.papers import Paper
from scholarbase.models.requests import (
    EdgeBody,
    ExpandBody,
    Filters,
    PaperBatchBody,
    PaperBody,
    SearchRequest,
    SimilarBody,
    TitleBatchBody,
    TitleParameters,
    check_request,
)
from scholarbase.models.requests import Request as Model
from scholarbase.models.responses import (
    AuthorPapersResponse,
    AuthorsResponse,
    CheckedReference,
    CheckResponse,
    CitationsResponse,
    ExpandResponse,
    FacetsResponse,
    SearchResponse,
    SimilarResponse,
    TitleMatchResponse,
    Unfinished,
)
from scholarbase.models.sql import SqlBody, SqlResponse

MAX_QUERY_STRING: Final = 2000
"""Characters. Longer requests use a body: proxies commonly limit a URL to 8 kB, logs to less."""
MAX_BODY: Final = 2**22
"""Bytes. Longer batches are split, well below the server's limit (``SCHOLARBASE_MAX_BODY_BYTES``)."""

T = TypeVar("T")
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """An HTTP request, and how its response is read. ``path`` and ``query`` are percent-encoded.

    ``repeatable``: sending it twice has the effect of sending it once, and the same response.
    """

    method: Literal["GET", "POST", "DELETE"]
    path: str
    read: Callable[[Any], T]
    query: str = ""
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True

    def arguments(self, base_url: str) -> dict[str, Any]:
        """The arguments of httpx's ``request``."""
        url = f"{base_url}{self.path}?{self.query}" if self.query else base_url + self.path
        headers = {**self.headers, **({} if self.body is None else {"Content-Type": "application/json"})}
        return {"method": self.method, "url": url, "content": self.body, "headers": headers or None}


def search(request: SearchRequest) -> Request[SearchResponse]:
    """``GET /v1/search``, or ``POST`` for what a URL cannot hold."""

    def read(data: Any) -> SearchResponse:
        return SearchResponse.from_dict(data, request.fields)

    return _by_url_or_body("/v1/search", request, _content(request, SearchRequest), read)


def facets(request: FacetsParameters) -> Request[FacetsResponse]:
    """``GET /v1/facets``, or ``POST`` for what a URL cannot hold."""
    content = _content(request, FacetsParameters)
    return _by_url_or_body("/v1/facets", request, content, FacetsResponse.from_dict)


def _by_url_or_body(
    path: str, filters: Filters, content: Mapping[str, Any], read: Callable[[Any], T]
) -> Request[T]:
    query = _query_string(content)
    # A query string has no empty list, and the server splits its categories at commas.
    fits_url = filters.within != () and all("," not in name for name in filters.category)
    if fits_url and len(query) <= MAX_QUERY_STRING:
        return Request("GET", path, read, query)
    return Request("POST", path, read, body=_json(content))


class Batch(Generic[Item, T]):
    """The items of one request, of which the server may finish only some within its time limit.

    Args:
        items: what is requested.
        make: the request for some of them; it reads an :class:`Unfinished` for an item that took too long.
    """

    def __init__(
        self, items: Sequence[Item], make: Callable[[Sequence[Item]], Request[list[T | Unfinished]]]
    ) -> None:
        self._items = items
        self._make = make
        self._found: dict[int, T] = {}
        self._sent: list[int] = []

    def next_request(self) -> Request[list[T | Unfinished]] | None:
        """The request for the items that are not finished, None at the end."""
        self._sent = [place for place in range(len(self._items)) if place not in self._found]
        return self._make([self._items[place] for place in self._sent]) if self._sent else None

    def add(self, results: Sequence[T | Unfinished]) -> None:
        """Add the results of the last request. Raises TimeLimit if none of them is finished."""
        finished = {
            place: one
            for place, one in zip(self._sent, results, strict=True)
            if not isinstance(one, Unfinished)
        }
        first = results[0]
        if not finished and isinstance(first, Unfinished):
            raise TimeLimit(first.error)
        self._found |= finished

    @property
    def results(self) -> list[T]:
        return [self._found[place] for place in range(len(self._items))]


def search_batch(
    requests: Sequence[SearchRequest],
) -> list[Batch[tuple[SearchRequest, bytes], SearchResponse]]:
    """``POST /v1/search/batch``, split at the server's limits."""
    batches: list[list[tuple[SearchRequest, bytes]]] = []
    size = papers = 0
    for request in check_list(requests, "requests", "searches"):
        body = _json(_content(request, SearchRequest))
        is_full = size + len(body) > MAX_BODY or papers + request.limit > MAX_PAPERS
        if not batches or len(batches[-1]) == MAX_BATCH or is_full:
            batches.append([])
            size = papers = 0
        batches[-1].append((request, body))
        size += len(body)
        papers += request.limit
    return [Batch(batch, _one_search_batch) for batch in batches]


def _one_search_batch(
    searches: Sequence[tuple[SearchRequest, bytes]],
) -> Request[list[SearchResponse | Unfinished]]:
    def read(data: Any) -> list[SearchResponse | Unfinished]:
        return [
            _unfinished(one) or SearchResponse.from_dict(one, request.fields)
            for one, (request, _) in zip(data["results"], searches, strict=True)
        ]

    body = b'{"searches":[' + b",".join(body for _, body in searches) + b"]}"
    return Request("POST", "/v1/search/batch", read, body=body)


def _unfinished(item: Any) -> Unfinished | None:
    is_error = isinstance(item, dict) and "error" in item
    return Unfinished(item["error"], item["status"]) if is_error else None


def match_title(request: TitleParameters) -> Request[TitleMatchResponse]:
    """``GET /v1/title-match``, or a batch of one for a long title."""
    content = _content(request, TitleParameters)
    query = _query_string(content)
    if len(query) <= MAX_QUERY_STRING:
        return Request(
            "GET", "/v1/title-match", lambda data: TitleMatchResponse.from_dict(data, request.fields), query
        )
    del content["title"]
    batch = _one_title_batch(TitleBatchBody.of(titles=[request.title], **content | {"limit": request.limit}))

    def read(data: Any) -> TitleMatchResponse:
        (found,) = batch.read(data)
        if isinstance(found, Unfinished):
            raise TimeLimit(found.error)
        return found

    return Request("POST", batch.path, read, body=batch.body)


def match_titles(request: TitleBatchBody) -> Batch[str, TitleMatchResponse]:
    """``POST /v1/title-match/batch``."""

    def some(titles: Sequence[str]) -> Request[list[TitleMatchResponse | Unfinished]]:
        return _one_title_batch(request.model_copy(update={"titles": tuple(titles)}))

    return Batch(request.titles, some)


def _one_title_batch(request: TitleBatchBody) -> Request[list[TitleMatchResponse | Unfinished]]:
    def read(data: Any) -> list[TitleMatchResponse | Unfinished]:
        return [
            _unfinished(one)
            or TitleMatchResponse.from_dict({"snapshot": data["snapshot"], "results": one}, request.fields)
            for _, one in zip(request.titles, data["results"], strict=True)
        ]

    return Request("POST", "/v1/title-match/batch", read, body=_json(_content(request, TitleBatchBody)))


class Found(NamedTuple):
    """A checked reference, and the snapshot that it was checked against."""

    snapshot: str
    reference: CheckedReference


def check_references(requests: CheckRequests) -> list[Batch[Placed, Found]]:
    """``POST /v1/references/check``, split at the server's limits."""

    def some(part: Sequence[Placed]) -> Request[list[Found | Unfinished]]:
        def read(data: Any) -> list[Found | Unfinished]:
            response = CheckResponse.from_dict(data, requests.body.fields)
            return [
                one if isinstance(one, Unfinished) else Found(response.snapshot, placed(one, at))
                for at, one in zip(part, response.results, strict=True)
            ]

        body = _json(_content(requests.body_of(part), CheckBody))
        return Request("POST", "/v1/references/check", read, body=body)

    return [Batch(part, some) for part in requests.parts]


def paper(request: PaperBody) -> Request[Paper]:
    """``GET /v1/papers/{id}``, or a batch of one for an id that a URL cannot hold."""
    content = _content(request, PaperBody)
    paper_id = content.pop("paper_id")
    path = _paper_path(paper_id)
    # The server routes ids with these endings to other calls.
    if paper_id.strip().endswith(("/citations", "/references", "/similar")) or len(path) > MAX_QUERY_STRING:
        batch = papers(PaperBatchBody.of(ids=[paper_id], **content))

        def read(data: Any) -> Paper:
            (found,) = batch.read(data)
            if found is None:
                date = "" if request.as_of is None else f" as of {request.as_of}"
                raise PaperNotFound(
                    f"No paper {paper_id!r} in this library (snapshot {data['snapshot']}){date}: "
                    "try a title match or another id of the paper."
                )
            return found

        return Request("POST", batch.path, read, body=batch.body)
    return Request("GET", path, Paper.from_dict, _query_string(content))


def papers(request: PaperBatchBody) -> Request[list[Paper | None]]:
    """``POST /v1/papers/batch``."""

    def read(data: Any) -> list[Paper | None]:
        pairs = zip(request.ids, data["results"], strict=True)
        return [None if found is None else Paper.from_dict(found) for _, found in pairs]

    return Request("POST", "/v1/papers/batch", read, body=_json(_content(request, PaperBatchBody)))


def citations(direction: Literal["citations", "references"], request: EdgeBody) -> Request[CitationsResponse]:
    """``GET /v1/papers/{id}/citations`` or ``/references``."""
    content = _content(request, EdgeBody)
    path = f"{_paper_path(content.pop('paper_id'))}/{direction}"
    return Request(
        "GET", path, lambda data: CitationsResponse.from_dict(data, request.fields), _query_string(content)
    )


def similar(request: SimilarBody) -> Request[SimilarResponse]:
    """``GET /v1/papers/{id}/similar``, or ``POST`` for what a URL cannot hold."""

    def read(data: Any) -> SimilarResponse:
        return SimilarResponse.from_dict(data, request.fields)

    content = _content(request, SimilarBody)
    return _by_url_or_body(f"{_paper_path(content.pop('paper_id'))}/similar", request, content, read)


def search_authors(request: AuthorSearchParameters) -> Request[AuthorsResponse]:
    """``GET /v1/authors``."""
    query = _query_string(_content(request, AuthorSearchParameters))
    return Request("GET", "/v1/authors", AuthorsResponse.from_dict, query)


def author(request: AuthorBody) -> Request[AuthorProfile]:
    """``GET /v1/authors/{id}``, or a batch of one for an id that a URL cannot hold."""
    content = _content(request, AuthorBody)
    author_id = content.pop("author_id")
    path = _author_path(author_id)
    # The server routes ids with this ending to another call.
    if author_id.endswith("/papers") or len(path) > MAX_QUERY_STRING:
        batch = authors(AuthorBatchBody.of(ids=[author_id], **content))

        def read(data: Any) -> AuthorProfile:
            (found,) = batch.read(data)
            if found is None:
                raise no_author(author_id, data["snapshot"], request.as_of)
            return found

        return Request("POST", batch.path, read, body=batch.body)
    return Request("GET", path, lambda data: msgspec.convert(data, AuthorProfile), _query_string(content))


def authors(request: AuthorBatchBody) -> Request[list[AuthorProfile | None]]:
    """``POST /v1/authors/batch``."""

    def read(data: Any) -> list[AuthorProfile | None]:
        pairs = zip(request.ids, data["results"], strict=True)
        return [None if found is None else msgspec.convert(found, AuthorProfile) for _, found in pairs]

    return Request("POST", "/v1/authors/batch", read, body=_json(_content(request, AuthorBatchBody)))


def author_papers(request: AuthorPapersBody) -> Request[AuthorPapersResponse]:
    """``GET /v1/authors/{id}/papers``."""

    def read(data: Any) -> AuthorPapersResponse:
        return AuthorPapersResponse.from_dict(data, request.fields)

    content = _content(request, AuthorPapersBody)
    path = f"{_author_path(content.pop('author_id'))}/papers"
    return Request("GET", path, read, _query_string(content))


def expand(request: ExpandBody) -> Request[ExpandResponse]:
    """``POST /v1/expand``."""
    return Request(
        "POST",
        "/v1/expand",
        lambda data: ExpandResponse.from_dict(data, request.fields),
        body=_json(_content(request, ExpandBody)),
    )


def text(request: TextBody) -> Request[TextResponse]:
    """``GET /v1/papers/{id}/text``."""
    path, content = _of_paper("text", request, TextBody)
    return Request("GET", path, TextResponse.from_dict, _query_string(content))


def find(request: FindBody) -> Request[FindResponse]:
    """``GET /v1/papers/{id}/find``."""
    path, content = _of_paper("find", request, FindBody)
    return Request(
        "GET", path, lambda data: FindResponse.from_dict(data, request.fields), _query_string(content)
    )


def paper_passages(request: PaperPassagesBody) -> Request[PassagesResponse]:
    """``GET /v1/papers/{id}/passages``."""
    path, content = _of_paper("passages", request, PaperPassagesBody)
    return Request(
        "GET", path, lambda data: PassagesResponse.from_dict(data, request.fields), _query_string(content)
    )


def contexts(request: ContextBody) -> Request[ContextsResponse]:
    """``GET /v1/papers/{id}/citation-contexts``."""
    path, content = _of_paper("citation-contexts", request, ContextBody)
    return Request(
        "GET", path, lambda data: ContextsResponse.from_dict(data, request.fields), _query_string(content)
    )


def page_image(request: PageBody) -> Request[bytes]:
    """``GET /v1/papers/{id}/pages/{page}``."""
    path, content = _of_paper("pages", request, PageBody)
    if "box" in content:
        content["box"] = ",".join(map(str, content["box"]))
    return Request("GET", f"{path}/{content.pop('page')}", bytes, _query_string(content))


def search_passages(request: PassageSearch) -> Request[PassagesResponse]:
    """``POST /v1/passages/search``."""
    return Request(
        "POST",
        "/v1/passages/search",
        lambda data: PassagesResponse.from_dict(data, request.fields),
        body=_json(_content(request, PassageSearch)),
    )


def _of_paper(part: str, request: Model, kind: type[Model]) -> tuple[str, dict[str, Any]]:
    """The path of a part of a paper, and the other values of the request."""
    content = _content(request, kind)
    return f"{_paper_path(content.pop('paper_id'))}/{part}", content


def tools(
    form: str, strict: bool, session: str | None, tool_set: str = "scholarbase"
) -> Request[list[dict[str, Any]]]:
    """``GET /v1/tools``."""
    check_type(form, str, "form", "the name of a form, such as 'openai'")
    check_text(form, "form")
    check_type(strict, bool, "strict", "true or false")
    query = _query_string({"format": form} | ({"strict": True} if strict else {}) | _set(tool_set))
    headers = {} if session is None else {"X-ScholarBase-Session": _header("session", session)}
    return Request("GET", "/v1/tools", lambda data: list(data["tools"]), query, headers=headers)


def _set(tool_set: str) -> dict[str, str]:
    check_type(tool_set, str, "tool_set", "the name of a set, such as 'scholarbase'")
    check_text(tool_set, "tool_set")
    return {} if tool_set == "scholarbase" else {"set": tool_set}


def call_tool(
    name: str,
    arguments: Mapping[str, Any],
    session: str | None,
    parent: int | None,
    round: int | None,
    tool_set: str = "scholarbase",
) -> Request[dict[str, Any]]:
    """``POST /v1/tools/{name}``."""
    check_json_format(arguments)
    return _call_tool(dict, name, arguments, session, parent, round, tool_set)


def call_tool_as_text(
    name: str,
    arguments: Mapping[str, Any],
    session: str | None,
    parent: int | None,
    round: int | None,
    tool_set: str = "scholarbase",
) -> Request[str]:
    """``POST /v1/tools/{name}`` with the format text."""
    return _call_tool(str, name, as_text_arguments(arguments), session, parent, round, tool_set)


def _call_tool(
    read: Callable[[Any], T],
    name: str,
    arguments: Mapping[str, Any],
    session: str | None,
    parent: int | None,
    round: int | None,
    tool_set: str,
) -> Request[T]:
    if not isinstance(arguments, Mapping):
        raise InvalidRequest(f"The arguments of {shown(name)} are {shown(arguments)}: give a dictionary.")
    # A session records a retried call once, by its Idempotency-Key.
    headers = {"Idempotency-Key": uuid4().hex} if session is not None else {}
    if session is not None:
        headers["X-ScholarBase-Session"] = _header("session", session)
    for header, value in (("parent", parent), ("round", round)):
        if value is not None:
            text = value if isinstance(value, str) else str(check_whole(value, header, 1))
            headers[f"X-ScholarBase-{header.title()}"] = _header(header, text)
    path = f"/v1/tools/{_segment('name', name)}"
    query = _query_string(_set(tool_set))
    return Request("POST", path, read, query, body=_json(dict(arguments)), headers=headers)


def open_session(**content: Any) -> Request[dict[str, Any]]:
    """``POST /v1/sessions``."""
    body = _json({name: value for name, value in content.items() if value is not None})
    return Request("POST", "/v1/sessions", dict, body=body, repeatable=False)


def trajectory(session: str) -> Request[list[dict[str, Any]]]:
    """``GET /v1/sessions/{session}``."""

    def read(lines: Any) -> list[dict[str, Any]]:
        return [orjson.loads(line) for line in lines.splitlines()]

    return Request("GET", _session_path(session), read)


def session_report(session: str, answers: Sequence[str] | None) -> Request[dict[str, Any]]:
    """``GET /v1/sessions/{session}/report``, or ``POST`` with answers."""
    path = f"{_session_path(session)}/report"
    if answers is None:
        return Request("GET", path, dict)
    return Request("POST", path, dict, body=_json({"answers": list(check_ids(answers, "answers"))}))


def replay_session(session: str) -> Request[dict[str, Any]]:
    """``POST /v1/sessions/{session}/replay``."""
    return Request("POST", f"{_session_path(session)}/replay", dict)


def record_answer(session: str, ids: Sequence[str]) -> Request[int]:
    """``POST /v1/sessions/{session}/answer``."""
    body = _json({"ids": list(check_ids(ids, "ids"))})
    headers = {"Idempotency-Key": uuid4().hex}
    path = f"{_session_path(session)}/answer"
    return Request("POST", path, lambda data: int(data["call"]), body=body, headers=headers)


def delete_session(session: str) -> Request[None]:
    """``DELETE /v1/sessions/{session}``."""
    return Request("DELETE", _session_path(session), lambda data: None, repeatable=False)


def sql(request: SqlBody) -> Request[SqlResponse]:
    """``POST /v1/sql``."""
    return Request("POST", "/v1/sql", SqlResponse.from_dict, body=_json(_content(request, SqlBody)))


def sql_schema() -> Request[dict[str, Any]]:
    """``GET /v1/sql/schema``."""
    return Request("GET", "/v1/sql/schema", dict)


def snapshot() -> Request[dict[str, Any]]:
    """``GET /v1/snapshot``."""

    def read(data: Any) -> dict[str, Any]:
        names = ["snapshot", "ranking", "manifest"]
        if "rerankers" in data:  # not of an older server
            names.insert(2, "rerankers")
        return {name: data[name] for name in names}

    return Request("GET", "/v1/snapshot", read)


def snapshots() -> Request[list[dict[str, Any]]]:
    """``GET /v1/snapshots``."""
    return Request("GET", "/v1/snapshots", lambda data: list(data["results"]))


def _session_path(session: str) -> str:
    return f"/v1/sessions/{_segment('session', session)}"


def _segment(name: str, value: str) -> str:
    """A text as a segment of a path, percent-encoded."""
    check_type(value, str, name, "a text")
    check_text(value, name)
    return quote(value, safe="")


def _header(name: str, value: str) -> str:
    """The value of a header, which the server checks further."""
    if not isinstance(value, str) or not value or not value.isascii() or not value.isprintable():
        raise InvalidRequest(f"{name} is {shown(value)}: it must be a text of ASCII characters.")
    return value


def _paper_path(paper_id: str) -> str:
    parse(paper_id)  # raises what the server would
    return f"/v1/papers/{quote(paper_id.strip(), safe='')}"


def _author_path(author_id: str) -> str:
    return f"/v1/authors/{quote(author_id, safe='')}"


def _content(request: Model, kind: type[Model]) -> dict[str, Any]:
    """A request's JSON, without values that are the defaults; the page is always named.

    Raises:
        InvalidRequest: not a request of this kind.
    """
    check_request(request, kind)
    content = request.model_dump(mode="json", by_alias=True)
    changed = request.model_dump(by_alias=True, exclude_defaults=True)
    return {name: value for name, value in content.items() if name in changed or name in ("limit", "offset")}


def _json(content: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(content)
    except orjson.JSONEncodeError as error:
        raise InvalidRequest(
            f"The request cannot be written as JSON ({error}): use strings and numbers."
        ) from error


def _query_string(content: Mapping[str, Any]) -> str:
    pairs: list[tuple[str, Any]] = []
    for name, value in content.items():
        if name == "fields":
            pairs.append((name, ",".join(value)))
        elif isinstance(value, list):
            pairs.extend((name, item) for item in value)
        else:
            pairs.append((name, "true" if value is True else value))
    return urlencode(pairs)
