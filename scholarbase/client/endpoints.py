"""The server's endpoints: from checked arguments to a :class:`Request`.

A route that runs one request model is an :class:`Endpoint`. The others are functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from string import Formatter
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar
from urllib.parse import quote, urlencode
from uuid import uuid4

import msgspec
import orjson

from scholarbase.bibliographies.reading import CheckRequests, Placed, placed
from scholarbase.errors import InvalidRequest, PaperNotFound, ScholarBaseError, TimeLimit
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
    Response,
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
M = TypeVar("M", bound=Model)
R = TypeVar("R", bound=Response)


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


@dataclass(frozen=True, slots=True)
class Endpoint(Generic[M, R]):
    """A route that runs one request.

    Args:
        methods: ``GET``, ``POST``, or both, where what a URL cannot hold is sent in a body.
        path: its parts in braces are fields of the request.
        model: the request.
        response: its response.
    """

    methods: Literal["GET", "POST", "GET, POST"]
    path: str
    model: type[M]
    response: type[R]

    def request(self, values: M) -> Request[R]:
        """The HTTP request. Raises InvalidRequest: the values are not of the model."""
        content = _content(values, self.model)
        path = _path(self.path, content)

        def read(data: Any) -> R:
            return self.response.from_dict(data, getattr(values, "fields", None))

        query = _query_string(content)
        if self.methods == "GET" or (self.methods != "POST" and _fits_url(values, query)):
            return Request("GET", path, read, query)
        return Request("POST", path, read, body=_json(content))


def _fits_url(values: Model, query: str) -> bool:
    # A query string has no empty list, and the server splits its categories at commas.
    assert isinstance(values, Filters)
    has_form = values.within != () and all("," not in name for name in values.category)
    return has_form and len(query) <= MAX_QUERY_STRING


SEARCH: Final = Endpoint("GET, POST", "/v1/search", SearchRequest, SearchResponse)
FACETS: Final = Endpoint("GET, POST", "/v1/facets", FacetsParameters, FacetsResponse)
MATCH_TITLE: Final = Endpoint("GET", "/v1/title-match", TitleParameters, TitleMatchResponse)
SIMILAR: Final = Endpoint("GET, POST", "/v1/papers/{paper_id}/similar", SimilarBody, SimilarResponse)
CITATIONS: Final = Endpoint("GET", "/v1/papers/{paper_id}/citations", EdgeBody, CitationsResponse)
REFERENCES: Final = Endpoint("GET", "/v1/papers/{paper_id}/references", EdgeBody, CitationsResponse)
EXPAND: Final = Endpoint("POST", "/v1/expand", ExpandBody, ExpandResponse)
SEARCH_AUTHORS: Final = Endpoint("GET", "/v1/authors", AuthorSearchParameters, AuthorsResponse)
AUTHOR_PAPERS: Final = Endpoint(
    "GET", "/v1/authors/{author_id}/papers", AuthorPapersBody, AuthorPapersResponse
)
TEXT: Final = Endpoint("GET", "/v1/papers/{paper_id}/text", TextBody, TextResponse)
FIND: Final = Endpoint("GET", "/v1/papers/{paper_id}/find", FindBody, FindResponse)
PAPER_PASSAGES: Final = Endpoint("GET", "/v1/papers/{paper_id}/passages", PaperPassagesBody, PassagesResponse)
CONTEXTS: Final = Endpoint("GET", "/v1/papers/{paper_id}/citation-contexts", ContextBody, ContextsResponse)
SEARCH_PASSAGES: Final = Endpoint("POST", "/v1/passages/search", PassageSearch, PassagesResponse)
SQL: Final = Endpoint("POST", "/v1/sql", SqlBody, SqlResponse)


# -- batches ---------------------------------------------------------------------------------------------


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
        self._finished: dict[int, T] = {}
        self._sent: list[int] = []

    def next_request(self) -> Request[list[T | Unfinished]] | None:
        """The request for the items that are not finished, None at the end."""
        self._sent = [number for number in range(len(self._items)) if number not in self._finished]
        return self._make([self._items[number] for number in self._sent]) if self._sent else None

    def add(self, results: list[T | Unfinished]) -> None:
        """Add the results of the last request. Raises TimeLimit if none of them is finished."""
        before = len(self._finished)
        for number, result in zip(self._sent, results, strict=True):
            if not isinstance(result, Unfinished):
                self._finished[number] = result
        if len(self._finished) == before and isinstance(results[0], Unfinished):
            raise TimeLimit(results[0].error)

    @property
    def results(self) -> list[T]:
        return [self._finished[number] for number in range(len(self._items))]


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
    return [Batch(batch, _searches) for batch in batches]


def _searches(
    searches: Sequence[tuple[SearchRequest, bytes]],
) -> Request[list[SearchResponse | Unfinished]]:
    def read(data: Any) -> list[SearchResponse | Unfinished]:
        return [
            _unfinished(item) or SearchResponse.from_dict(item, request.fields)
            for item, (request, _) in zip(data["results"], searches, strict=True)
        ]

    body = b'{"searches":[' + b",".join(body for _, body in searches) + b"]}"
    return Request("POST", "/v1/search/batch", read, body=body)


def _unfinished(item: Any) -> Unfinished | None:
    is_error = isinstance(item, dict) and "error" in item
    return Unfinished(item["error"], item["status"]) if is_error else None


def match_titles(request: TitleBatchBody) -> Batch[str, TitleMatchResponse]:
    """``POST /v1/title-match/batch``."""
    return Batch(request.titles, lambda titles: _titles(request.model_copy(update={"titles": tuple(titles)})))


def _titles(request: TitleBatchBody) -> Request[list[TitleMatchResponse | Unfinished]]:
    def read(data: Any) -> list[TitleMatchResponse | Unfinished]:
        return [
            _unfinished(item)
            or TitleMatchResponse.from_dict({"snapshot": data["snapshot"], "results": item}, request.fields)
            for _, item in zip(request.titles, data["results"], strict=True)
        ]

    return Request("POST", "/v1/title-match/batch", read, body=_json(_content(request, TitleBatchBody)))


class Checked(NamedTuple):
    """A checked reference, and the snapshot that it was checked against."""

    snapshot: str
    reference: CheckedReference


def check_references(requests: CheckRequests) -> list[Batch[Placed, Checked]]:
    """``POST /v1/references/check``, split at the server's limits."""

    def some(part: Sequence[Placed]) -> Request[list[Checked | Unfinished]]:
        def read(data: Any) -> list[Checked | Unfinished]:
            response = CheckResponse.from_dict(data, requests.body.fields)
            return [
                item if isinstance(item, Unfinished) else Checked(response.snapshot, placed(item, position))
                for position, item in zip(part, response.results, strict=True)
            ]

        body = _json(_content(requests.body_of(part), CheckBody))
        return Request("POST", "/v1/references/check", read, body=body)

    return [Batch(part, some) for part in requests.parts]


# -- titles, papers and authors: one of them in a batch, if a URL cannot hold it ------------------------------


def match_title(request: TitleParameters) -> Request[TitleMatchResponse]:
    """``GET /v1/title-match``, or a batch of one for a long title."""
    whole = MATCH_TITLE.request(request)
    if len(whole.query) <= MAX_QUERY_STRING:
        return whole
    content = _content(request, TitleParameters)
    del content["title"]
    batch = _titles(TitleBatchBody.of(titles=[request.title], **content | {"limit": request.limit}))

    def read(data: Any) -> TitleMatchResponse:
        (result,) = batch.read(data)
        if isinstance(result, Unfinished):
            raise TimeLimit(result.error)
        return result

    return Request("POST", batch.path, read, body=batch.body)


def paper(request: PaperBody) -> Request[Paper]:
    """``GET /v1/papers/{id}``, or a batch of one for an id that a URL cannot hold."""
    content = _content(request, PaperBody)
    path = _path("/v1/papers/{paper_id}", content)
    # The server routes ids with these endings to other calls.
    is_part = request.paper_id.strip().endswith(("/citations", "/references", "/similar"))
    if not is_part and len(path) <= MAX_QUERY_STRING:
        return Request("GET", path, Paper.from_dict, _query_string(content))
    date = "" if request.as_of is None else f" as of {request.as_of}"
    return _only(
        papers(PaperBatchBody.of(ids=[request.paper_id], **content)),
        lambda snapshot: PaperNotFound(
            f"No paper {request.paper_id!r} in this library (snapshot {snapshot}){date}: "
            "try a title match or another id of the paper."
        ),
    )


def papers(request: PaperBatchBody) -> Request[list[Paper | None]]:
    """``POST /v1/papers/batch``."""
    return _batch_of("/v1/papers/batch", request, Paper)


def author(request: AuthorBody) -> Request[AuthorProfile]:
    """``GET /v1/authors/{id}``, or a batch of one for an id that a URL cannot hold."""
    content = _content(request, AuthorBody)
    path = _path("/v1/authors/{author_id}", content)
    # The server routes ids with this ending to another call.
    if not request.author_id.endswith("/papers") and len(path) <= MAX_QUERY_STRING:
        return Request("GET", path, lambda data: msgspec.convert(data, AuthorProfile), _query_string(content))
    return _only(
        authors(AuthorBatchBody.of(ids=[request.author_id], **content)),
        lambda snapshot: no_author(request.author_id, snapshot, request.as_of),
    )


def authors(request: AuthorBatchBody) -> Request[list[AuthorProfile | None]]:
    """``POST /v1/authors/batch``."""
    return _batch_of("/v1/authors/batch", request, AuthorProfile)


def _batch_of(path: str, request: PaperBatchBody | AuthorBatchBody, kind: type[T]) -> Request[list[T | None]]:
    def read(data: Any) -> list[T | None]:
        pairs = zip(request.ids, data["results"], strict=True)
        return [None if item is None else msgspec.convert(item, kind) for _, item in pairs]

    return Request("POST", path, read, body=_json(_content(request, type(request))))


def _only(batch: Request[list[T | None]], missing: Callable[[str], ScholarBaseError]) -> Request[T]:
    """The request for the only item of a batch; ``missing`` has the error for the snapshot that lacks it."""

    def read(data: Any) -> T:
        (result,) = batch.read(data)
        if result is None:
            raise missing(data["snapshot"])
        return result

    return Request("POST", batch.path, read, body=batch.body)


def page_image(request: PageBody) -> Request[bytes]:
    """``GET /v1/papers/{id}/pages/{page}``."""
    content = _content(request, PageBody)
    if "box" in content:
        content["box"] = ",".join(map(str, content["box"]))
    path = _path("/v1/papers/{paper_id}/pages/{page}", content)
    return Request("GET", path, bytes, _query_string(content))


# -- tools and sessions ------------------------------------------------------------------------------------


def tools(form: str, strict: bool, session: str | None, tool_set: str) -> Request[list[dict[str, Any]]]:
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
    read: Callable[[Any], T],
    name: str,
    arguments: Mapping[str, Any],
    tool_set: str,
    session: str | None,
    parent: int | None,
    round: int | None,
) -> Request[T]:
    """``POST /v1/tools/{name}``."""
    if not isinstance(arguments, Mapping):
        raise InvalidRequest(f"The arguments of {shown(name)} are {shown(arguments)}: give a dictionary.")
    # A session records a retried call once, by its Idempotency-Key.
    headers = {}
    if session is not None:
        headers = {"Idempotency-Key": uuid4().hex, "X-ScholarBase-Session": _header("session", session)}
    for header, value in (("parent", parent), ("round", round)):
        if value is not None:
            text = value if isinstance(value, str) else str(check_whole(value, header, 1))
            headers[f"X-ScholarBase-{header.title()}"] = _header(header, text)
    path = f"/v1/tools/{_segment('name', name)}"
    return Request("POST", path, read, _query_string(_set(tool_set)), _json(dict(arguments)), headers)


def post(path: str, *, repeatable: bool = True, **content: Any) -> Request[dict[str, Any]]:
    """A ``POST`` of the values that are not None."""
    body = _json({name: value for name, value in content.items() if value is not None})
    return Request("POST", path, dict, body=body, repeatable=repeatable)


def session_path(session: str, part: str = "") -> str:
    """The path of a session, or of a part of it."""
    return f"/v1/sessions/{_segment('session', session)}{part}"


# -- parts of requests -----------------------------------------------------------------------------------------


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


def _path(template: str, content: dict[str, Any]) -> str:
    """The path with the fields that it names, which are removed from the content."""
    if "paper_id" in content:
        parse(content["paper_id"], keys=True)  # raises what the server would
    names = [name for _, name, _, _ in Formatter().parse(template) if name is not None]
    return template.format(**{name: quote(str(content.pop(name)).strip(), safe="") for name in names})


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
