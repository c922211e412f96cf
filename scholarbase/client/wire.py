"""The HTTP contract as a client sees it: arguments to requests, answers to plain data, failures to errors.

Nothing here sends anything, so that :class:`scholarbase.client.Client` and ``AsyncClient`` differ in nothing else.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, TypeVar
from urllib.parse import quote, urlencode
from uuid import uuid4

import httpx
import orjson

from scholarbase.errors import (
    ClientError,
    InvalidRequest,
    PaperNotFound,
    ScholarBaseError,
    ServerFailure,
    ServerUnreachable,
)
from scholarbase.http import retry_after
from scholarbase.identifiers import parse
from scholarbase.models import (
    MAX_BATCH,
    MAX_TITLES,
    PAPER_FIELDS,
    CitationSort,
    CitationsResponse,
    ExpandBody,
    ExpandResponse,
    Filters,
    Paper,
    SearchRequest,
    SearchResponse,
    TitleMatchResponse,
    as_of_day,
    check_fields,
    check_sort,
    check_title,
    check_title_match,
)
from scholarbase.models.checks import check_ids, check_page, in_batch

MAX_QUERY_STRING: Final = 2000
"""Characters. A longer search goes as a body: proxies commonly end a URL's line at 8 kB, logs much earlier."""
MAX_BODY: Final = 2**22
"""Bytes. A batch of searches with long lists of ids goes in several requests, each well below what a server takes
(``SCHOLARBASE_MAX_BODY_BYTES``)."""
PAGE_SIZE: Final = 100
"""Results in one request of an iterator."""
MAX_WAIT: Final = 60.0
"""Seconds. A server that asks to wait longer is taken at its word: the call fails at once."""
MAX_BACKOFF: Final = 10.0
"""Seconds between two attempts, where the server does not say how long to wait."""
RETRIED: Final = frozenset({429, 502, 503, 504})
"""Statuses that the same request may not meet again. Every call only reads, so that any may be sent twice."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request, and how its answer is read. ``path`` and ``query`` are percent-encoded."""

    method: Literal["GET", "POST", "DELETE"]
    path: str
    read: Callable[[Any], T]
    query: str = ""
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def target(self) -> str:
        """What follows the server's address."""
        return f"{self.path}?{self.query}" if self.query else self.path


# -- arguments to requests --------------------------------------------------------------------------------


def search(request: SearchRequest) -> Call[SearchResponse]:
    """A search: in the URL where that can say it and stays short, else in a body."""

    def read(data: Any) -> SearchResponse:
        return SearchResponse.from_dict(data, request.fields)

    content = _search_body(request)
    query = _query_string(content)
    # A URL has no way to write an empty list, and splits categories at commas.
    in_url = request.within != () and all(c == c.strip() and "," not in c for c in request.category)
    if in_url and len(query) <= MAX_QUERY_STRING:
        return Call("GET", "/v1/search", read, query)
    return Call("POST", "/v1/search", read, body=_json(content))


def search_batch(requests: Sequence[SearchRequest]) -> list[Call[list[SearchResponse]]]:
    """Many searches, as few requests as the server's limit allows."""
    chunks: list[list[tuple[SearchRequest, bytes]]] = []
    size = 0
    for request in requests:
        body = _json(_search_body(request))
        if not chunks or len(chunks[-1]) == MAX_BATCH or size + len(body) > MAX_BODY:
            chunks.append([])
            size = 0
        chunks[-1].append((request, body))
        size += len(body)
    return [_search_chunk(*zip(*chunk, strict=True)) for chunk in chunks]


def _search_chunk(requests: Sequence[SearchRequest], bodies: Sequence[bytes]) -> Call[list[SearchResponse]]:
    def read(data: Any) -> list[SearchResponse]:
        return [SearchResponse.from_dict(a, r.fields) for a, r in zip(data["results"], requests, strict=True)]

    return Call("POST", "/v1/search/batch", read, body=b'{"searches":[' + b",".join(bodies) + b"]}")


def match_title(
    title: str, limit: int, min_score: float, as_of: str | None, fields: Sequence[str] | None
) -> Call[TitleMatchResponse]:
    """A title: in the URL where it is short, else as a batch of one."""
    check_title_match(limit, min_score)
    check_title(title)
    common = {
        "limit": limit,
        "min_score": min_score,
        **_as_of(as_of),
        **_fields(wanted := check_fields(fields)),
    }
    query = _query_string({"title": title, **common})
    if len(query) <= MAX_QUERY_STRING:
        return Call("GET", "/v1/title-match", lambda data: TitleMatchResponse.from_dict(data, wanted), query)
    batch = _title_chunk([title], common, wanted)
    return Call("POST", batch.path, lambda data: batch.read(data)[0], body=batch.body)


def match_titles(
    titles: Sequence[str], limit: int, min_score: float, as_of: str | None, fields: Sequence[str] | None
) -> list[Call[list[TitleMatchResponse]]]:
    """Many titles, as few requests as the server's limit allows."""
    check_title_match(limit, min_score)
    for title in titles:
        with in_batch("title", title):
            check_title(title)
    common = {
        "limit": limit,
        "min_score": min_score,
        **_as_of(as_of),
        **_fields(wanted := check_fields(fields)),
    }
    return [_title_chunk(chunk, common, wanted) for chunk in _chunks(titles, MAX_TITLES)]


def _title_chunk(
    titles: Sequence[str], common: Mapping[str, Any], wanted: tuple[str, ...]
) -> Call[list[TitleMatchResponse]]:
    def read(data: Any) -> list[TitleMatchResponse]:
        return [
            TitleMatchResponse.from_dict({"snapshot": data["snapshot"], "results": matches}, wanted)
            for _, matches in zip(titles, data["results"], strict=True)
        ]

    return Call("POST", "/v1/title-match/batch", read, body=_json({"titles": list(titles), **common}))


def paper(paper_id: str, as_of: str | None, fields: Sequence[str] | None) -> Call[Paper]:
    """One paper by its id."""
    wanted = check_fields(fields)
    path = _paper_path(paper_id)
    # The server takes the ends of these for a question about citations, and a long id makes a long URL.
    if paper_id.strip().endswith(("/citations", "/references")) or len(path) > MAX_QUERY_STRING:
        batch = papers([paper_id], as_of, wanted)[0]
        return Call(
            "POST",
            batch.path,
            lambda data: _found(paper_id, batch.read(data)[0], data, as_of),
            body=batch.body,
        )
    return Call("GET", path, Paper.from_dict, _query_string(_as_of(as_of) | _fields(wanted)))


def _found(paper_id: str, paper: Paper | None, data: Any, as_of: str | None) -> Paper:
    if paper is None:
        then = "" if as_of is None else f" as of {as_of}"
        raise PaperNotFound(
            f"No paper {paper_id!r} in this library (snapshot {data['snapshot']}){then}: "
            "try a title match or another id of the paper."
        )
    return paper


def papers(
    ids: Sequence[str], as_of: str | None, fields: Sequence[str] | None
) -> list[Call[list[Paper | None]]]:
    """Many papers in one request; no ids need none."""
    wanted = check_fields(fields)
    checked = check_ids(ids, "ids") or ()

    def read(data: Any) -> list[Paper | None]:
        pairs = zip(checked, data["results"], strict=True)
        return [None if found is None else Paper.from_dict(found) for _, found in pairs]

    body = _json({"ids": list(checked), **_as_of(as_of), **_fields(wanted)})
    return [Call("POST", "/v1/papers/batch", read, body=body)] if checked else []


def edges(
    paper_id: str,
    direction: Literal["citations", "references"],
    limit: int,
    offset: int,
    sort: CitationSort | None,
    filters: Filters,
    fields: Sequence[str] | None,
) -> Call[CitationsResponse]:
    """A page of a paper's citations or references."""
    check_page(limit, offset)
    check_sort(sort, filters.as_of)
    wanted = check_fields(fields)
    sorted_by = {} if sort is None else {"sort": sort}
    content = {"limit": limit, "offset": offset, **sorted_by, **_filters(filters), **_fields(wanted)}
    path = f"{_paper_path(paper_id)}/{direction}"
    return Call("GET", path, lambda data: CitationsResponse.from_dict(data, wanted), _query_string(content))


def expand(
    seeds: Sequence[str],
    direction: str,
    hops: int,
    limit: int,
    offset: int,
    filters: Filters,
    fields: Sequence[str] | None,
) -> Call[ExpandResponse]:
    """The neighbours of a set of seeds."""
    check_page(limit, offset)
    checked = ExpandBody.of(seeds=seeds, direction=direction, limit=limit, offset=offset).seeds
    wanted = check_fields(fields)
    content = {
        "seeds": list(checked),
        "direction": direction,
        "hops": hops,
        "limit": limit,
        "offset": offset,
        **_filters(filters),
        **_fields(wanted),
    }
    return Call(
        "POST", "/v1/expand", lambda data: ExpandResponse.from_dict(data, wanted), body=_json(content)
    )


# -- tools and sessions -------------------------------------------------------------------------------------


def tools(form: str) -> Call[list[dict[str, Any]]]:
    """The tools as function schemas."""
    return Call("GET", "/v1/tools", lambda data: list(data["tools"]), _query_string({"format": form}))


def call_tool(
    name: str, arguments: Mapping[str, Any], session: str | None, parent: int | None, round: int | None
) -> Call[dict[str, Any] | str]:
    """A tool's answer, JSON or a text."""
    headers = {} if session is None else {"X-ScholarBase-Session": session, "Idempotency-Key": uuid4().hex}
    for header, value in (("X-ScholarBase-Parent", parent), ("X-ScholarBase-Round", round)):
        if value is not None:
            headers[header] = str(value)

    def read(data: Any) -> dict[str, Any] | str:
        return data if isinstance(data, str) else dict(data)

    return Call(
        "POST", f"/v1/tools/{quote(name, safe='')}", read, body=_json(dict(arguments)), headers=headers
    )


def open_session(
    session: str | None,
    query_id: str | None,
    query: str | None,
    as_of: str | None,
    limits: Mapping[str, int] | None,
) -> Call[dict[str, Any]]:
    """Open a session with what is fixed of it."""
    content = {"session": session, "query_id": query_id, "query": query, "as_of": as_of, "limits": limits}
    given = {name: value for name, value in content.items() if value is not None}
    return Call("POST", "/v1/sessions", dict, body=_json(given))


def trajectory(session: str) -> Call[list[dict[str, Any]]]:
    """Every call of a session."""
    return Call(
        "GET", _session_path(session), lambda text: [orjson.loads(line) for line in text.splitlines()]
    )


def session_report(session: str, answers: Sequence[str] | None) -> Call[dict[str, Any]]:
    """What a session cost, and found of the answers."""
    path = f"{_session_path(session)}/report"
    if answers is None:
        return Call("GET", path, dict)
    return Call("POST", path, dict, body=_json({"answers": list(check_ids(answers, "answers") or ())}))


def record_answer(session: str, ids: Sequence[str]) -> Call[int]:
    """The agent's own answer."""
    body = _json({"ids": list(check_ids(ids, "ids") or ())})
    key = {"Idempotency-Key": uuid4().hex}
    path = f"{_session_path(session)}/answer"
    return Call("POST", path, lambda data: int(data["call"]), body=body, headers=key)


def delete_session(session: str) -> Call[None]:
    return Call("DELETE", _session_path(session), lambda data: None)


def _session_path(session: str) -> str:
    return f"/v1/sessions/{quote(session, safe='')}"


def snapshot() -> Call[dict[str, Any]]:
    """What is served."""
    names = ("snapshot", "ranking", "manifest")
    return Call("GET", "/v1/snapshot", lambda data: {name: data[name] for name in names})


def _paper_path(paper_id: str) -> str:
    parse(paper_id)  # refuses here what is no id of any form, with the server's own sentence
    return f"/v1/papers/{quote(paper_id.strip(), safe='')}"


def _search_body(request: SearchRequest) -> dict[str, Any]:
    content: dict[str, Any] = {"q": request.q}
    for name in ("mode", "engine"):
        if (value := getattr(request, name)) is not None:
            content[name] = value
    content |= {"limit": request.limit, "offset": request.offset}
    content |= _fields(request.fields) | _filters(request)
    return content | {name: True for name in ("exact", "explain", "partial") if getattr(request, name)}


def _fields(wanted: tuple[str, ...]) -> dict[str, Any]:
    return {} if wanted == PAPER_FIELDS else {"fields": list(wanted)}


def _as_of(as_of: str | None) -> dict[str, Any]:
    if as_of is not None:
        as_of_day(as_of)  # refuses here what is no date, with the server's own sentence
    return {} if as_of is None else {"as_of": as_of}


def _filters(filters: Filters) -> dict[str, Any]:
    content = {"from": filters.from_, "to": filters.to, "min_citations": filters.min_citations}
    lists = {name: getattr(filters, name) for name in ("category", "venue", "exclude", "exclude_ids")}
    given: dict[str, Any] = {name: value for name, value in content.items() if value is not None}
    given |= {name: list(values) for name, values in lists.items() if values} | _as_of(filters.as_of)
    return given if filters.within is None else given | {"within": list(filters.within)}


def _json(content: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(content)
    except orjson.JSONEncodeError as error:
        raise InvalidRequest(
            f"The request cannot be written as JSON ({error}): give texts and numbers."
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


def _chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


# -- pages ------------------------------------------------------------------------------------------------


class Paging:
    """Where an iterator over pages stands: ``window`` is what to ask for next, ``take`` what was answered."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._given = 0
        self._offset: int | None = 0
        self._snapshot: str | None = None
        self._seen: set[str] = set()

    def window(self) -> tuple[int, int] | None:
        """``limit`` and ``offset`` of the next page, None after the last."""
        if self._offset is None or (self._limit is not None and self._given >= self._limit):
            return None
        size = PAGE_SIZE if self._limit is None else min(PAGE_SIZE, self._limit - self._given)
        return size, self._offset

    def take(self, answer: Any) -> tuple[Any, ...]:
        """The results of a page.

        Raises:
            ServerFailure: the page is of another snapshot than the one before, or leads back.
        """
        if self._snapshot not in (None, answer.snapshot):
            raise ServerFailure(
                f"The server went from snapshot {self._snapshot} to {answer.snapshot} between two pages, which "
                "do not fit together: begin again."
            )
        if answer.next_offset is not None and answer.next_offset <= (self._offset or 0):
            raise ServerFailure(
                f"The page at offset {self._offset} leads back to offset {answer.next_offset}: "
                "check that the server is ScholarBase's, of this version."
            )
        self._snapshot, self._offset = answer.snapshot, answer.next_offset
        # Where vectors are searched approximately, two pages may share a paper: it comes once.
        results = tuple(result for result in answer.results if result.paper.id not in self._seen)
        self._seen.update(result.paper.id for result in results)
        self._given += len(results)
        return results


# -- attempts ---------------------------------------------------------------------------------------------


class Attempts:
    """The attempts of one call: whether to try again, after how many seconds, and what the end of it means."""

    def __init__(self, url: str, retries: int, backoff: float) -> None:
        self._url = url
        self._retries = retries
        self._backoff = backoff
        self._made = 0

    def after_error(self, error: httpx.RequestError) -> float:
        """Seconds to wait before the next attempt.

        Raises:
            InvalidRequest: the request cannot be sent, whoever listens.
            ServerFailure: the answer's bytes are not what its headers say.
            ServerUnreachable: there was no answer, and no attempt is left.
        """
        self._made += 1
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        if isinstance(error, (httpx.LocalProtocolError, httpx.UnsupportedProtocol)):
            raise InvalidRequest(
                f"The request to {self._url} cannot be sent ({said}): check the headers."
            ) from error
        if not isinstance(error, httpx.TransportError):
            raise ServerFailure(
                f"{self._url} gave an answer that cannot be read ({said}): check what stands between."
            ) from error
        if self._made <= self._retries:
            return self._pause()
        slow = isinstance(error, (httpx.ReadTimeout, httpx.WriteTimeout, httpx.PoolTimeout))
        advice = (
            "it is slow or overloaded: try again later, ask for less, or give a longer timeout."
            if slow
            else "check that the server runs (scholarbase serve) and that the address is right."
        )
        raise ServerUnreachable(
            f"No answer from {self._url} in {self._counted()} ({said}): {advice}"
        ) from error

    def after_answer(self, response: httpx.Response) -> float | None:
        """Seconds to wait before the next attempt; None when this answer is the last."""
        self._made += 1
        if response.status_code not in RETRIED or self._made > self._retries:
            return None
        asked = retry_after(response)
        if asked is None:
            return self._pause()
        # Those who were told the same should not all come back at the same instant.
        return asked + random.uniform(0, self._backoff) if asked <= MAX_WAIT else None

    def read(self, call: Call[T], response: httpx.Response) -> T:
        """The plain data of the last answer.

        Raises:
            ScholarBaseError: what the server's problem document names.
            ServerFailure: an answer that is not ScholarBase's.
        """
        if not response.is_success:
            raise self._failure(response)
        try:
            return call.read(_content(response))
        except orjson.JSONDecodeError as error:
            raise ServerFailure(
                f"{self._url} answered with something that is not JSON{_excerpt(response)}: "
                "check that a ScholarBase server listens there."
            ) from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ServerFailure(
                f"{self._url} answered with JSON of another form ({type(error).__name__}: {error}): "
                "check that a ScholarBase server of this version listens there."
            ) from error

    def _failure(self, response: httpx.Response) -> ScholarBaseError:
        """What an answer other than 200 means: the error that the server met, or that it is none of ours."""
        slug, detail = _problem(response)
        request_id = response.headers.get("X-Request-ID")
        kind = _KINDS.get(slug)
        if kind is not None:
            error = kind(detail)
            under = f" under the request id {request_id}" if request_id else ""
            error.add_note(f"So answered {self._url}{under}, in {self._counted()}.")
            return error
        said = f" ({detail})" if detail else _excerpt(response)
        tries = f", in {self._counted()}" if self._made > 1 else ""
        return ServerFailure(
            f"{self._url} answered {response.status_code} {response.reason_phrase}".rstrip()
            + f"{said}{tries}: {_advice(response, request_id)}"
        )

    def _pause(self) -> float:
        """Exponential back-off; at least half of it, and the rest by chance, so that clients part."""
        longest = min(self._backoff * 2.0 ** (self._made - 1), MAX_BACKOFF)
        return random.uniform(longest / 2, longest)

    def _counted(self) -> str:
        return f"{self._made} attempt{'' if self._made == 1 else 's'}"


def _kinds(root: type[ScholarBaseError]) -> Iterator[tuple[str, type[ScholarBaseError]]]:
    for kind in root.__subclasses__():
        if kind is not ClientError:  # what the client itself meets: no server says that
            yield kind.slug, kind
            yield from _kinds(kind)


_KINDS: Final = dict(_kinds(ScholarBaseError))
"""The errors that a problem document may name, by the end of its ``type``."""


def _content(response: httpx.Response) -> Any:
    """An answer's JSON, or the text of one that is none: lines of JSON, and what reads well."""
    media_type = response.headers.get("Content-Type", "").partition(";")[0]
    if media_type in ("text/plain", "application/jsonl"):
        return response.content.decode()
    return None if response.status_code == 204 else orjson.loads(response.content)


def _problem(response: httpx.Response) -> tuple[str, str]:
    """The slug and the sentence of a problem document (RFC 9457), empty where the answer is none."""
    try:
        content = orjson.loads(response.content)
    except orjson.JSONDecodeError:
        return "", ""
    if not isinstance(content, dict):
        return "", ""
    kind, detail = content.get("type"), content.get("detail")
    if not isinstance(kind, str) or not isinstance(detail, str):
        return "", ""
    return kind.rpartition("#")[2], detail


def _excerpt(response: httpx.Response) -> str:
    text = " ".join(response.text.split())
    return f" ({text[:200]}{'...' if len(text) > 200 else ''})" if text else ""


def _advice(response: httpx.Response, request_id: str | None) -> str:
    status = response.status_code
    if response.has_redirect_location:
        return f"give the address {response.headers['Location']} instead."
    if status in (401, 403, 407):
        return "give what it asks for in headers."
    if status == 429:
        return "it has been asked too much, so try again later."
    if status >= 500:
        return "its log says why" + (f", under the request id {request_id}." if request_id else ".")
    return "check that the address is that of a ScholarBase server of this version, without /v1 at its end."
