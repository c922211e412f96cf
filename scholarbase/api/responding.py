"""Native routes: from an HTTP request to its response.

:class:`NativeRoute` parses the request of a :class:`Call`, which runs it on the event loop or in a thread, with the
session, the size and the format that the request names.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any, Final, TypeVar
from urllib.parse import unquote_to_bytes

import msgspec
import orjson
from anyio import to_thread
from fastapi import Request as HttpRequest
from fastapi.routing import APIRoute
from starlette.responses import Response as HttpResponse
from starlette.routing import Match
from starlette.types import Scope

from scholarbase.api import openapi
from scholarbase.api.holding import LIBRARY
from scholarbase.api.problems import add_errors
from scholarbase.api.recording import RECORDING, at_date_of_session, record, respond_in_session, wait_for
from scholarbase.api.response_cache import key_of
from scholarbase.api.session_headers import SESSION_HEADERS
from scholarbase.bibliographies.writing import MEDIA_TYPES
from scholarbase.errors import Busy, InvalidRequest, StorageError, TimeLimit
from scholarbase.indexes import query_syntax
from scholarbase.indexes.stop_words import STOP_WORDS
from scholarbase.models.author_requests import AuthorBatchBody, AuthorBody
from scholarbase.models.document_requests import PassageSearchBody
from scholarbase.models.limits import MAX_LIMIT, MAX_NEAR, MAX_REFERENCES, MIN_TITLE_SCORE
from scholarbase.models.papers import PAPER_FIELDS
from scholarbase.models.requests import (
    EdgeBody,
    PaperBatchBody,
    PaperBody,
    Request,
    SearchBody,
    TitleParameters,
)
from scholarbase.models.responses import Response
from scholarbase.models.sets import is_set
from scholarbase.search.library import Library
from scholarbase.search.negations import may_exclude
from scholarbase.sessions.recording import WRITE_SECONDS, Recording
from scholarbase.settings import Settings
from scholarbase.tools.arguments import COMMA_SEPARATED
from scholarbase.tools.responding import CallResponse, apply_session, make_response, unchanged_response
from scholarbase.tools.tool import Tool

LARGE_RESPONSE: Final = 2**18
"""Bytes of a response whose compression would block the event loop."""
COMPRESSION: Final = 3
"""The level of gzip."""
COUNT_PAPERS: Final = 5_000
"""Papers that take the memory of counting every match."""
EDGE_PAPERS: Final = 10_000
"""Papers that take the memory of the edges that a large expansion follows."""
MANY_SEEDS: Final = 100
SHORT_BATCH: Final = 20
"""Papers or authors that a short request looks up."""
SHORT_MATCHES: Final = 10
"""Title matches in a short request."""
SHORT_LIST: Final = 100
"""Ids in the filters of a short or quick request."""
_WORD: Final = re.compile(r"[^\W_]+")
LARGE_BODY: Final = 2**16
"""Bytes of a body that is parsed in a thread, so that the event loop is not blocked."""
PARTIAL: Final = "scholarbase.partial"
"""The key of the scope of a request whose response depends on which legs fail."""
JSON: Final = "application/json"
_TAG_BYTES: Final = 12
_MEDIA_TYPES: Final[Mapping[str, str]] = {"json": JSON, "text": "text/plain; charset=utf-8", **MEDIA_TYPES}
_encode: Final = msgspec.json.Encoder().encode

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """What a route of the API or a tool runs, and how.

    Args:
        run: the function. In a session it may be called with a changed request, and several times for a batch.
        request: the model of its parameters, body and path.
        response: what ``run`` returns; bytes if it is not JSON.
        tool: the tool as whose call a session records it; without it none is recorded.
        arguments: the arguments of each recorded call; by default those of the tool for the request.
        compact: return each paper's authors as one string, and cut a response to the default size of tools.
        media_type: that of the response.
        check_settings: raises an error if the server's settings do not allow the call.
        is_cached: whether equal requests may share a response: not where it depends on time.
    """

    run: Callable[[Library, Any], Response | bytes]
    request: type[Request]
    response: type[Response | bytes]
    tool: Tool | None = None
    arguments: Callable[[Any], Sequence[Mapping[str, Any]]] | None = None
    compact: bool = False
    media_type: str = JSON
    check_settings: Callable[[Settings], None] | None = None
    is_cached: bool = True

    async def respond(self, http: HttpRequest, request: Any) -> HttpResponse:
        """Run a call, and record it in the session of the HTTP request.

        Raises:
            InvalidRequest: the session or the server's limits do not allow the request.
            BudgetExhausted: a limit of the session is reached.
            TimeLimit, Busy, Cancelled: as :meth:`scholarbase.api.admission.Admission.execute`.
            Other errors of the library.
        """
        scope = http.scope
        if self.tool is None and names_session(scope["headers"]):
            request = await at_date_of_session(http, request)
        library: Library = scope[LIBRARY]
        recording: Recording | None = scope.get(RECORDING)
        arguments: Sequence[Mapping[str, Any]] = ()
        if recording is not None and self.tool is not None:
            arguments = self.arguments(request) if self.arguments else [self.tool.arguments_for(request)]
            recording.set_request(arguments, request)
        response = await self.make_response(http, library, request, recording)
        headers = None
        if recording is not None:
            headers = await record(recording, [response.arguments(item) for item in arguments], response)
        media_type = _MEDIA_TYPES[response.form] if self._needs_formatting(request) else self.media_type
        return await large_response(http, response.body, media_type, headers)

    async def make_response(
        self, http: HttpRequest, library: Library, request: Any, recording: Recording | None
    ) -> CallResponse:
        """The response to a call in the size and format of its request, under the limits of its session. Its
        ``content`` is empty.

        An equal request may have been answered before. Calls whose response depends on the session besides its date,
        or on time, run anew. Raises as :meth:`respond`.
        """
        scope, values = http.scope, vars(request)
        has_rerank_limit = values.get("rerank") and (values["rerank_ms"] or library.settings.rerank_ms)
        if values.get("partial") or has_rerank_limit:
            scope[PARTIAL] = True
        seen = _excludes_seen(request)
        depends = seen or PARTIAL in scope or not self.is_cached
        if recording is not None:
            recording.set_request([values], request)
            await reserve(recording, seen)
            depends = depends or bool(recording.session.limits) or "searches" in values
        if depends:
            return await self._execute(
                http, library, request, lambda: self._respond(library, request, recording)
            )
        if recording is not None:
            request = apply_session(library, request, recording)
        # A path leads to one call, or to that of a tool.
        parts = (scope["method"], scope["path"], self.tool and self.tool.name, type(request).__qualname__)
        key = key_of(library.response_fingerprint, *parts, request=vars(request))
        response: CallResponse = await http.app.state.responses.get(
            key,
            lambda: self._execute(http, library, request, lambda: self._respond(library, request, None)),
            alone=type(request) in _LOOKED_UP,
        )
        if recording is not None and not response.returned:
            return unchanged_response(response.body)
        return response

    def _respond(self, library: Library, request: Any, recording: Recording | None) -> CallResponse:
        """Run a call. The papers of a response that is encoded as it is are not read."""
        if recording is None and not self._needs_formatting(request) and not _excludes_seen(request):
            return CallResponse({}, _json(self.run(library, request)), "json", ())

        def as_dict(changed: Any) -> dict[str, Any]:
            response = self.run(library, changed)
            assert isinstance(response, Response)  # images have no size or format
            return response.to_dict()

        tokens = library.settings.tool_tokens if self.compact else None
        response = make_response(
            library, request, as_dict, recording, compact=self.compact, tool_tokens=tokens
        )
        return msgspec.structs.replace(response, content={})

    def _execute(
        self, http: HttpRequest, library: Library, request: Any, work: Callable[[], T]
    ) -> Awaitable[T]:
        """Run the work of a call, when it is admitted."""
        options = vars(request)
        is_whole = options.get("max_tokens") is None and not _excludes_seen(request)
        short = is_whole and is_short(library, request, self.tool.name if self.tool is not None else None)
        result: Awaitable[T] = http.app.state.admission.execute(
            work,
            http=http,
            short=short,
            quick=short or is_quick(library, request),
            papers=papers_of(request),
            timeout=options.get("timeout"),
        )
        return result

    def _needs_formatting(self, request: Any) -> bool:
        """Whether the response is not the JSON of what the call returns."""
        options = vars(request)
        return (
            self.compact or options.get("max_tokens") is not None or options.get("format", "json") != "json"
        )


def call_of(tool: Tool, arguments: Mapping[str, Any] | None = None) -> Call:
    """A tool call by name, recorded with ``arguments``."""
    recorded = [arguments or {}]
    return Call(
        tool.run_for_model,
        tool.request,
        Response,
        tool,
        lambda _: recorded,
        compact=True,
        is_cached=tool.is_cached,
    )


def names_session(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a request has a header of a session, without parsing them."""
    return any(name in SESSION_HEADERS for name, _ in headers)


def _excludes_seen(request: Any) -> bool:
    """Whether a request, or a search of a batch, leaves out what its session has returned."""
    # vars, since getattr of a name that a pydantic model lacks takes 4 microseconds
    return any(
        vars(search).get("exclude_seen", False) for search in vars(request).get("searches", (request,))
    )


def _json(response: Response | bytes) -> bytes:
    """The JSON of a response. One with all fields, the default, is encoded directly. Bytes are not JSON."""
    if isinstance(response, bytes):
        return response
    return _encode(response if getattr(response, "fields", ()) is PAPER_FIELDS else response.selected())


def json_response(content: Any) -> HttpResponse:
    """A JSON response with deterministic bytes."""
    return HttpResponse(orjson.dumps(content), media_type=JSON)


async def large_response(
    request: HttpRequest, body: bytes, media_type: str, headers: Mapping[str, str] | None = None
) -> HttpResponse:
    """A response of any size. A large one is compressed in a thread, if its client accepts that."""
    if len(body) <= LARGE_RESPONSE or "gzip" not in request.headers.get("Accept-Encoding", ""):
        return HttpResponse(body, media_type=media_type, headers=headers)
    compress = partial(gzip.compress, body, COMPRESSION, mtime=0)
    compressed = await to_thread.run_sync(compress, limiter=request.app.state.compressing)
    encoding = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    return HttpResponse(compressed, media_type=media_type, headers={**(headers or {}), **encoding})


def papers_of(request: Any) -> int:
    """The most papers of the response to a request, and those whose memory its own work takes."""
    values = vars(request)
    if "searches" in values:
        return sum(map(papers_of, values["searches"]))
    if "ids" in values:
        return len(values["ids"])
    if "references" in values:
        lines: int = values["references"].count("\n") + 1
        return MAX_NEAR * min(MAX_REFERENCES, lines)
    papers: int = (values.get("limit") or 1) * len(values.get("titles", "1"))
    if values.get("exact"):
        papers += COUNT_PAPERS
    if values.get("hops", 1) > 1 or len(values.get("seeds", ())) > MANY_SEEDS:
        papers += EDGE_PAPERS
    return papers


# -- where a request runs ------------------------------------------------------------------------------------
#
# A short request takes a few milliseconds of Python, so it needs no thread. A quick one takes some tens of them, in a
# thread, and need not wait behind long ones. Both are decided from the request; citations use cached counts.


def is_short(library: Library, request: Any, tool: str | None = None) -> bool:
    """Whether a request takes a few milliseconds; ``tool`` is the tool that it is a call of.

    Raises what the request raises, such as PaperNotFound.
    """
    if type(request) is EdgeBody:
        direction: Any = "citations" if tool == "get_citations" else "references"
        number = None if request.author else library.lookup.id(request.paper_id, request.as_of)
        return number is not None and library.graph.few_edges(number, direction) is not None
    decide = _SHORT.get(type(request))
    return decide is not None and decide(library, request)


def is_quick(library: Library, request: Any) -> bool:
    """Whether a request only searches vectors, and needs no encoder or a static one."""
    if type(request) is PassageSearchBody:
        listed = len(request.within or ())
        return library.encodes_at_once and not request.exact and not request.author and listed <= SHORT_LIST
    if type(request) is not SearchBody:
        return False
    mode = request.mode or library.best_mode
    return (
        (mode == "sparse" or (library.encodes_at_once and not library.settings.exact))
        and (request.engine or library.engines[mode]) in ("bm25", "feedback")
        and _reads_vectors(library, request)
    )


def _is_short_search(library: Library, request: SearchBody) -> bool:
    """Whether a search is one plain query of BM25 vectors."""
    return (
        (request.mode or library.best_mode) == "sparse"
        and (request.engine or library.engines["sparse"]) == "bm25"
        and _reads_vectors(library, request)
    )


def _reads_vectors(library: Library, request: SearchBody) -> bool:
    """Whether a search runs in the index of vectors alone: no FTS5, long lists, exact count or reranker."""
    q = request.q
    return (
        library.has_own_vectors
        and request.syntax != "query"
        and not request.exact
        and request.rerank is None
        and request.prefer == "none"
        and not (request.negation == "auto" and may_exclude(request.q))
        and not request.exclude
        and not request.author
        and len(request.exclude_ids) + len(request.within or ()) <= SHORT_LIST
        and not any(map(is_set, request.within or ()))
        and request.offset + request.limit <= MAX_LIMIT
        # Query syntax uses FTS5, and so does a query of only stop words.
        and (
            request.engine == "bm25"
            or request.syntax == "plain"
            or not query_syntax.MARKS.search(q)
            or not query_syntax.is_syntax(q)
        )
        and (
            not STOP_WORDS.issuperset(_WORD.findall(q.lower())) if q.isascii() else library.has_bm25_terms(q)
        )
    )


def _is_short_title(library: Library, request: TitleParameters) -> bool:
    """In a thread a title match would wait for Python's lock at each of hundreds of rows: with ten busy clients, 4 ms
    of work took half a second."""
    few = request.limit <= SHORT_MATCHES and request.min_score >= MIN_TITLE_SCORE
    return few and request.as_of is None


_LOOKED_UP: Final = frozenset({PaperBody, EdgeBody, AuthorBody})
"""Requests of few rows, most of which a worker answers sooner than it asks the others for a response."""
_SHORT: Final[Mapping[type, Callable[[Library, Any], bool]]] = {
    SearchBody: _is_short_search,
    TitleParameters: _is_short_title,
    PaperBody: lambda library, request: True,
    PaperBatchBody: lambda library, request: len(request.ids) <= SHORT_BATCH,
    AuthorBody: lambda library, request: request.as_of is None,
    AuthorBatchBody: lambda library, request: len(request.ids) <= SHORT_BATCH and request.as_of is None,
}


# -- routes -------------------------------------------------------------------------------------------------


class NativeRoute(APIRoute):
    """A route that rejects unknown parameters, records the calls of sessions, and sends entity tags.

    Its endpoint is a :class:`Call`, whose request it parses itself, since FastAPI's parsing took a third of the time of
    a look-up; or a function, which FastAPI runs. FastAPI describes both. The decorators of
    :mod:`scholarbase.api.routes` set the attributes of functions.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self._call = call = endpoint if isinstance(endpoint, Call) else None
        self._tool_of: Callable[[HttpRequest], str] | None = getattr(endpoint, "tool_of", None)
        if call is not None and (tool := call.tool) is not None:
            self._tool_of = lambda http: tool.name
        self._has_tag: bool = call is not None or getattr(endpoint, "has_tag", False)
        # A path such as /papers/{paper_id:path}/citations matches only paths with this end. Comparing it takes a tenth
        # of the time of the regular expression, and a look-up comes after all of them.
        self._end = path.rpartition("}")[2]
        responses = options["responses"]
        options["responses"] = {str(status): deepcopy(response) for status, response in responses.items()}
        described = endpoint
        if call is not None:
            described = openapi.described(path, call.request, call.response, call.media_type, options)
        if path.startswith("/v1") and (call is not None or not self._has_tag):
            add_errors(options, Busy, TimeLimit)
        if self._tool_of is not None:
            openapi.describe_recording(options)
        super().__init__(path, described, **options)
        self.endpoint = endpoint

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if not scope["path"].endswith(self._end):
            return Match.NONE, {}
        return super().matches(scope)

    def get_route_handler(self) -> Callable[[HttpRequest], Coroutine[Any, Any, HttpResponse]]:
        names, repeated = _parameter_names(self)
        call, tool_of, has_tag = self._call, self._tool_of, self._has_tag
        run_endpoint = super().get_route_handler()

        async def run_route(http: HttpRequest) -> HttpResponse:
            values = _url_values(http, names, repeated)
            if call is None:
                await _parse_large_body(http)
                return await run_endpoint(http)
            if call.check_settings is not None:
                call.check_settings(http.app.state.settings)
            return await call.respond(http, await _parsed(http, call.request, values))

        async def respond_to(http: HttpRequest) -> HttpResponse:
            scope = http.scope
            if names_session(scope["headers"]):
                tool = None if tool_of is None else tool_of(http)
                return await respond_in_session(http, tool, run_route)
            if not has_tag or scope["method"] != "GET":
                return await run_route(http)
            path = scope.get("raw_path") or scope["path"].encode()
            tag = _entity_tag(scope[LIBRARY].response_fingerprint, path, scope["query_string"])
            cache: str = http.app.state.cache_control
            if _is_current(tag, scope["headers"]):
                return HttpResponse(status_code=304, headers={"ETag": tag.decode(), "Cache-Control": cache})
            response = await run_route(http)
            if response.status_code == 200 and PARTIAL not in scope:
                response.raw_headers += [(b"etag", tag), (b"cache-control", cache.encode())]
            return response

        return respond_to


def _entity_tag(seed: bytes, path: bytes, query: bytes) -> bytes:
    """The entity tag of a URL; ``seed`` is :attr:`.Library.response_fingerprint`."""
    digest = blake2b(path + b"?" + query, digest_size=_TAG_BYTES, key=seed).hexdigest()
    return b'W/"%s"' % digest.encode()


def _is_current(tag: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether the client has the response with this tag. ``*`` is not compared: it would match errors too."""
    for name, value in headers:
        if name == b"if-none-match" and tag[2:] in value:
            return any(sent_tag.strip().removeprefix(b"W/") == tag[2:] for sent_tag in value.split(b","))
    return False


def _parameter_names(route: APIRoute) -> tuple[frozenset[str], frozenset[str]]:
    """The URL parameters of a route, and those that may be repeated."""
    names, repeated = set(), set()
    for parameter in route.dependant.query_params:
        annotation: Any = parameter.field_info.annotation
        fields = getattr(annotation, "model_fields", None) or {parameter.alias: parameter.field_info}
        for name, field in fields.items():
            names.add(field.alias or name)
            if "tuple" in str(field.annotation):
                repeated.add(field.alias or name)
    return frozenset(names), frozenset(repeated)


async def _parsed(http: HttpRequest, model: type[Request], values: dict[str, Any]) -> Any:
    """The request in the path, and in the body or the parameters of the URL.

    Raises:
        InvalidRequest: it is not valid.
    """
    if http.method == "POST":
        return await _parsed_body(http, model)
    return model.parse(values | http.path_params, kind="parameter", strict=False)


def _url_values(http: HttpRequest, names: frozenset[str], repeated: frozenset[str]) -> dict[str, Any]:
    """The parameters of a URL.

    Raises:
        InvalidRequest: a parameter is unknown or must not be repeated, or the URL is not UTF-8.
    """
    query: bytes = http.scope["query_string"]
    path: bytes = http.scope.get("raw_path", b"")
    if not query and b"%" not in path and path.isascii():
        return {}
    sent = path + b"?" + query
    if b"%" in sent or not sent.isascii():
        try:
            unquote_to_bytes(sent).decode()
        except UnicodeDecodeError as error:
            # Starlette would replace the bytes, and search for another text.
            bad = "".join(f"%{byte:02X}" for byte in error.object[error.start : error.end])
            raise InvalidRequest(
                f"The URL contains {bad}, which is not UTF-8: encode letters as UTF-8, such as %C3%A9 for \u00e9."
            ) from error
    values: dict[str, Any] = {}
    for name, value in http.query_params.multi_items():
        if name not in names:
            valid = ", ".join(sorted(names)) or "no parameters"
            raise InvalidRequest(f"Unknown parameter {name!r}: {http.url.path} takes {valid}.")
        if name in repeated:
            parts = [part.strip() for part in value.split(",")] if name in COMMA_SEPARATED else [value]
            values.setdefault(name, []).extend(parts)
        elif name in values:
            raise InvalidRequest(f"The parameter {name!r} is repeated: send it once.")
        else:
            values[name] = value
    return values


async def _parsed_body(http: HttpRequest, model: type[Request]) -> Any:
    """The request in a JSON body.

    Raises:
        InvalidRequest: the body is missing, is not declared as JSON, or is not a valid request.
    """
    body = await http.body()
    if not body:
        raise InvalidRequest("The body is missing: send a JSON object.")
    media_type = http.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    is_json = media_type == JSON or (media_type.startswith("application/") and media_type.endswith("+json"))
    path: dict[str, Any] = http.path_params

    def parse() -> Any:
        values = loads(body) if is_json else None
        if not isinstance(values, dict):
            return model.parse(values, kind="key")
        if twice := values.keys() & path.keys():
            raise InvalidRequest(f"The body has the key {twice.pop()!r}, which is in the path: leave it out.")
        return model.parse({**values, **path}, kind="key")

    if len(body) <= LARGE_BODY:
        return parse()
    # One at a time: the JSON of a large body can take twenty times its size.
    return await to_thread.run_sync(parse, limiter=http.app.state.parsing)


async def _parse_large_body(request: HttpRequest) -> None:
    """Parse a large body before FastAPI does, which would block the event loop."""
    if request.method == "POST" and len(body := await request.body()) > LARGE_BODY:
        # Starlette's Request.json returns this attribute if it is set.
        request._json = await to_thread.run_sync(loads, body, limiter=request.app.state.parsing)


def loads(body: bytes) -> Any:
    """The JSON of a body. Raises InvalidRequest if it is not valid."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"The body is not valid JSON ({error}): send a JSON object.") from error


# -- sessions ----------------------------------------------------------------------------------------------


async def reserve(recording: Recording, seen: bool = False) -> None:
    """Count a call in the budgets of its session, if it has some.

    Args:
        seen: whether the call leaves out what the session has returned.

    Raises:
        BudgetExhausted: a limit of the session is reached.
    """
    if recording.depends_on_calls(seen):
        recording.budget = await wait_for(recording.reserve(seen))
    elif recording.parent is not None:
        # Only the check of the parent needs it, so a slow disk is no reason to fail.
        with suppress(StorageError):
            recording.budget = await wait_for(recording.reserve(seen), WRITE_SECONDS)
