"""What every dialect is made of: its operations, one request, and the errors of its original.

A dialect answers the requests of another search service from the library. It translates the original's parameters to
native requests (:class:`~scholarbase_dialects.calls.Calls`), and native responses to the original's bodies.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import orjson
from starlette.responses import Response as HttpResponse

from scholarbase.api.extension_routes import ServedDialect
from scholarbase.api.problems import text_of
from scholarbase.errors import Busy, InvalidRequest, ScholarBaseError
from scholarbase.models.checks import shown
from scholarbase_dialects.calls import Calls

JSON: Final = "application/json"
STATUSES: Final[Mapping[int, int]] = {503: 500, 504: 500, 507: 500, 501: 500}
"""Native statuses to those of a dialect: services have no sentence for a part that failed, and answer 500."""


_YEARS: Final = re.compile(r"(\d{4})?(-)?(\d{4})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Body:
    """The content of a response that is not JSON, or has another status than 200."""

    content: bytes
    media_type: str = JSON
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Answer: TypeAlias = "Body | Mapping[str, Any] | Sequence[Any]"
"""What an operation returns: a body, or a value that is encoded as JSON."""


@dataclass(frozen=True, slots=True)
class DialectRequest:
    """One request to a dialect.

    Args:
        path: the parameters in the path.
        query: the parameters of the URL; each has at least one value.
        body: the JSON of the body, None without one.
        base: the URL under which the dialect is served, without a slash at the end.
        accept: the header ``Accept``.
        ignored: names of parameters without an effect. Operations add those that they cannot follow.
    """

    path: Mapping[str, str]
    query: Mapping[str, Sequence[str]]
    body: Any = None
    base: str = ""
    accept: str = ""
    ignored: dict[str, None] = field(default_factory=dict)

    def ignore(self, *names: str) -> None:
        """Name parameters in the header ``X-ScholarBase-Ignored``."""
        self.ignored.update(dict.fromkeys(names))

    def text(self, name: str, default: str = "") -> str:
        """The last value of a parameter of the URL."""
        values = self.query.get(name)
        return values[-1] if values else default

    def names(self, name: str) -> list[str] | None:
        """The distinct names of a parameter, separated by commas; None if it is missing or empty."""
        text = self.text(name)
        return list(dict.fromkeys(part.strip() for part in text.split(","))) if text.strip() else None

    def whole(self, name: str, default: int, low: int, high: int, *, clamp: bool = False) -> int:
        """A whole number of the URL.

        Args:
            clamp: use the nearest valid number in place of one out of range, as originals do that do not reject it.

        Raises:
            InvalidRequest: not a whole number, or out of range.
        """
        return whole(self.text(name) or default, name, low, high, clamp=clamp)


def whole(value: object, name: str, low: int, high: int, *, clamp: bool = False) -> int:
    """A whole number from a URL or a JSON body. Raises as :meth:`DialectRequest.whole`."""
    number = value
    if isinstance(value, str) and len(value) <= 20 and value.strip().lstrip("+-").isdecimal():
        number = int(value)
    if isinstance(value, float) and value.is_integer():
        number = int(value)
    if not isinstance(number, int) or isinstance(number, bool):
        raise InvalidRequest(f"{name} is {shown(value)}: it must be a whole number from {low} to {high}.")
    if clamp:
        return min(max(number, low), high)
    if not low <= number <= high:
        raise InvalidRequest(f"{name} is {number}: it must be from {low} to {high}.")
    return number


def years_of(text: str) -> tuple[str, str] | None:
    """The first and last year of ``2019``, ``2016-2020``, ``2010-`` or ``-2015``, empty for none; None for another
    text."""
    match = _YEARS.fullmatch(text)
    if match is None or not (match[1] or match[3]) or not (match[2] or match[1] == text):
        return None
    return match[1] or "", (match[3] or "") if match[2] else match[1]


def value_of(body: Mapping[str, Any], name: str, default: Any) -> Any:
    """A value of a JSON body; the default where it is missing or null."""
    value = body.get(name)
    return default if value is None else value


Answerer: TypeAlias = "Callable[[DialectRequest, Calls], Answer]"
"""The answer to a request, from the native calls that it makes."""


@dataclass(frozen=True, slots=True)
class Parts:
    """How one request is answered as several, each of which is admitted and has the time limit by itself.

    Args:
        split: the requests.
        join: the content of the response, from the contents of their answers.
    """

    split: Callable[[DialectRequest], Sequence[DialectRequest]]
    join: Callable[[Sequence[bytes]], bytes]


@dataclass(frozen=True, slots=True)
class Operation:
    """One route of a dialect.

    Args:
        method: GET or POST.
        path: the route below the dialect's prefix, as Starlette writes it (``/paper/{paper_id:path}``); empty for the
            prefix itself.
        answer: the answer to a request, from the native calls that it makes.
        tool: the tool under which a session records the request; None for one that returns no papers.
        parameters: the URL parameters that have an effect or are ignored on purpose; others are named in the header
            ``X-ScholarBase-Ignored``.
        calls: how many calls of a session the request is, such as the queries of a batch.
        papers: the most papers that the answer needs.
        short: whether the request takes a few milliseconds.
        is_search: whether the request, or each of its parts, is one plain search without filters.
        form: whether the body of a POST has URL parameters, as HTML forms send them, and not JSON.
        recorded: whether a session records a request with this URL, of whose body nothing is known yet.
        parts: how the request is answered in parts, by ``answer``; None for a request that is answered at once.
    """

    method: str
    path: str
    answer: Answerer
    tool: str | None = "search_papers"
    parameters: frozenset[str] = frozenset()
    calls: Callable[[DialectRequest], int] = lambda request: 1
    papers: Callable[[DialectRequest], int] | int = 100
    short: bool = False
    is_search: bool = False
    form: bool = False
    recorded: Callable[[DialectRequest], bool] = lambda request: True
    parts: Parts | None = None


class OriginalBody(Exception):
    """The cause of an error whose response has more than its sentence."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        self.body = body


def invalid(message: str, body: Body) -> InvalidRequest:
    """An invalid request with this response."""
    error = InvalidRequest(message)
    error.__cause__ = OriginalBody(body)
    return error


def detail_error(status: int, message: str) -> Body:
    """An error as FastAPI writes it."""
    return Body(orjson.dumps({"detail": message}), status=status)


@dataclass(frozen=True, slots=True)
class Dialect:
    """Another service's HTTP interface.

    Args:
        name: its name in ``scholarbase serve --dialect``.
        prefix: where the server mounts it.
        title: the original, for people.
        operations: its routes, the most specific first.
        error: the body of an error with a status and a sentence, as the original writes it.
        statuses: native statuses that the original does not use, to those that it does.
        alone: the prefix where it is served alone.
    """

    name: str
    prefix: str
    title: str
    operations: tuple[Operation, ...]
    error: Callable[[int, str], Body] = detail_error
    statuses: Mapping[int, int] = field(default_factory=dict)
    alone: str = ""

    def served(self) -> ServedDialect:
        """What the server needs of it."""
        from scholarbase_dialects.serving import DialectRoute

        return ServedDialect(
            self.prefix,
            self.alone,
            route=lambda prefix: DialectRoute(self, prefix),
            rejection=lambda error: http_response(self.rejection(error)),
        )

    def rejection(self, error: ScholarBaseError) -> Body:
        """The original's response to an error. A server that is too busy answers 429 with ``Retry-After``."""
        if isinstance(error.__cause__, OriginalBody):
            return error.__cause__.body
        status = 429 if isinstance(error, Busy) else error.status
        status = self.statuses.get(status, STATUSES.get(status, status))
        body = self.error(status, text_of(error.for_clients))
        if status != 429:
            return body
        wait = math.ceil(getattr(error, "retry_after", 1))
        return Body(body.content, body.media_type, body.status, {**body.headers, "Retry-After": str(wait)})


def http_response(body: Body) -> HttpResponse:
    return HttpResponse(body.content, body.status, dict(body.headers), body.media_type)


def ignored_header(names: Iterable[str]) -> str:
    """The value of ``X-ScholarBase-Ignored``: at most 20 names in printable ASCII, separated by commas."""
    shown_names = [
        "".join(c if c.isascii() and c.isprintable() and c != "," else "?" for c in name[:64])
        for name in names
    ]
    omitted = [f"and {len(shown_names) - 20} more"] if len(shown_names) > 20 else []
    return ", ".join([*shown_names[:20], *omitted])
