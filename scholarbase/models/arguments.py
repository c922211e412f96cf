"""The keyword arguments of methods: their types, and signatures and descriptions from the requests."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypedDict, TypeVar

from scholarbase.errors import InvalidRequest
from scholarbase.models.checks import check_list, check_whole, in_batch, listed, shown
from scholarbase.models.limits import MAX_PAPERS, MAX_TITLE_MATCHES, MAX_TITLES
from scholarbase.models.papers import PAPER_FIELDS
from scholarbase.models.requests import Request, SearchRequest, TitleBatchBody

WIDTH: Final = 116
"""Characters of a line of a description."""

F = TypeVar("F", bound=Callable[..., Any])


class TimedArguments(TypedDict, total=False):
    """The arguments of every method."""

    as_of: str | None
    timeout: float | None


class FilterArguments(TimedArguments, total=False):
    """The filters of papers."""

    from_: str | None
    to: str | None
    category: Sequence[str]
    venue: Sequence[str]
    type: Sequence[str]
    author: Sequence[str]
    min_citations: int | None
    status: Sequence[str]
    exclude: Sequence[str]
    exclude_ids: Sequence[str]
    within: Sequence[str] | None


def takes(request: type[Request], arguments: Any = None) -> Callable[[F], F]:
    """Decorate a method whose arguments are the fields of a request.

    ``help`` shows their descriptions, and in the signature those of ``arguments``, a TypedDict of the other keywords.
    """

    def decorate(method: F) -> F:
        signature = inspect.signature(method)
        variable = inspect.Parameter.VAR_KEYWORD
        parameters = [
            parameter for parameter in signature.parameters.values() if parameter.kind is not variable
        ]
        for name, kind in (arguments.__annotations__ if arguments else {}).items():
            default = request.model_fields[name].default
            parameters.append(
                inspect.Parameter(
                    name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=None if default is PAPER_FIELDS else default,
                    annotation=kind.__forward_arg__,
                )
            )
        method.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        method.__doc__ = _described(
            inspect.getdoc(method) or "", request, [parameter.name for parameter in parameters]
        )
        return method

    return decorate


def _described(text: str, request: type[Request], names: Sequence[str]) -> str:
    """A docstring with the arguments before the errors."""
    lines = ["Args:"]
    for name in names:
        field = request.model_fields.get(name)
        if field is not None and field.description:
            description = f"{name}: {field.description.replace('`', '``')}"
            lines += textwrap.wrap(
                description,
                WIDTH,
                initial_indent="    ",
                subsequent_indent="        ",
                break_long_words=False,
            )
    before, raises, errors = text.partition("Raises:")
    return "\n".join((before.rstrip(), "", *lines, "", raises + errors)).rstrip()


def title_batches(titles: Sequence[str], *, limit: int, **options: Any) -> list[TitleBatchBody]:
    """Requests for these titles, each for as many as one takes."""
    titles = listed(titles, "titles")
    size = min(MAX_TITLES, MAX_PAPERS // check_whole(limit, "limit", 1, MAX_TITLE_MATCHES))
    starts = range(0, len(titles), size)
    return [
        TitleBatchBody.of(titles=titles[start : start + size], limit=limit, **options) for start in starts
    ]


def arguments_of(method: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of a request, from the local variables of a method that has nothing else."""
    return {name: value for name, value in method.items() if name != "self"}


def search_request(q: str, **arguments: Any) -> SearchRequest:
    """A :class:`SearchRequest` from the arguments of ``search``.

    Raises:
        InvalidRequest: an argument is unknown or invalid.
    """
    return _search_of({"q": q, **arguments})


def _search_of(arguments: Mapping[str, Any]) -> SearchRequest:
    fields = SearchRequest.model_fields
    for name in arguments:
        if name not in fields:
            raise InvalidRequest(f"Unknown argument {shown(name)}: a search has {', '.join(fields)}.")
    return SearchRequest(**arguments)


def search_requests(requests: Sequence[SearchRequest | Mapping[str, Any]]) -> list[SearchRequest]:
    """The searches of a batch, from requests or arguments of ``search``. Raises as ``search_request``."""
    searches = []
    for request in check_list(requests, "requests", "searches"):
        if isinstance(request, SearchRequest):
            searches.append(request)
        elif isinstance(request, Mapping):
            with in_batch("search", request.get("q")):
                searches.append(_search_of({"q": None, **request}))
        else:
            raise InvalidRequest(
                f"A batch contains {shown(request)}: each search must be a mapping with a q."
            )
    return searches
