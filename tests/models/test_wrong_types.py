"""Values of a wrong type in Python raise InvalidRequest, at every parameter of every public method.

A parameter's annotation says which of the values below are valid; those of ``ACCEPTED`` are accepted besides.
"""

import datetime
import decimal
import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np
import pytest

from scholarbase import Client
from scholarbase.errors import InvalidRequest
from scholarbase.models.source import EdgeArguments, PageArguments, SearchArguments, SimilarArguments, Source
from scholarbase.search.library import Library
from scholarbase.tools import Tools

PAPER: Final = "arXiv:hep-th/9301068"
REQUIRED: Final[dict[str, Any]] = {
    "q": "string theory",
    "query": "SELECT 1",
    "paper_id": PAPER,
    "author_id": "name:washington taylor",
    "title": "Two Dimensional QCD is a String Theory",
    "references": "arXiv:hep-th/9301068",
    "titles": ["Two Dimensional QCD is a String Theory"],
    "ids": [PAPER],
    "seeds": [PAPER],
    "requests": [{"q": "string theory"}],
    "name": "search_papers",
    "arguments": {"q": "string theory"},
    "session": "a-session",
}
WRONG: Final[dict[str, Callable[[], Any]]] = {
    "a number": lambda: 5,
    "a huge number": lambda: 10**5000,
    "a negative number": lambda: -5,
    "a truth value": lambda: True,
    "a fraction": lambda: 10.5,
    "not a number": lambda: float("nan"),
    "digits": lambda: "10",
    "bytes": lambda: b"x",
    "a buffer": lambda: bytearray(b"x"),
    "a list of numbers": lambda: [1],
    "a list of bytes": lambda: [b"x"],
    "a list of nothing": lambda: [None],
    "a list of lists": lambda: [["x"]],
    "a dictionary": lambda: {"title": 1},
    "a generator of numbers": lambda: (number for number in [1]),
    "a date": lambda: datetime.date(1993, 1, 1),
    "a time": lambda: datetime.datetime(1993, 1, 1),
    "a decimal": lambda: decimal.Decimal(3),
    "a path": lambda: Path("x"),
    "an object": object,
    "a class": lambda: dict,
    "a function": lambda: len,
    "an integer of numpy": lambda: np.int64(3),
    "a truth value of numpy": lambda: np.True_,
    "an array of numbers": lambda: np.array([1, 2]),
    "an array of one number": lambda: np.array(3),
    "half a character": lambda: "\ud800",
    "nothing": lambda: None,
}
TEXT: Final = {"digits"}
NUMBERS: Final = {"a number"}
OPTIONAL: Final = {"nothing"}
TRUTH: Final = {"a truth value"}
ACCEPTED: Final[dict[str, set[str]]] = {
    **dict.fromkeys(
        ("q", "query", "references", "title", "titles", "category", "venue", "type", "author", "exclude"),
        TEXT,
    ),
    "status": set(),
    **dict.fromkeys(("limit", "offset"), NUMBERS),
    **dict.fromkeys(
        ("mode", "engine", "fusion", "fields", "from_", "to", "within", "as_of", "sort", "rerank"), OPTIONAL
    ),
    **dict.fromkeys(("rerank_weight", "rerank_ms"), OPTIONAL),
    **dict.fromkeys(("min_citations", "citations_per_seed", "references_per_seed"), NUMBERS | OPTIONAL),
    **dict.fromkeys(("graph_weight", "min_similarity"), NUMBERS | OPTIONAL | {"a fraction"}),
    "timeout": NUMBERS | OPTIONAL | {"a fraction"},
    **dict.fromkeys(("exact", "explain", "partial", "strict"), TRUTH),
}
METHODS: Final = (
    *("search", "search_batch", "iter_search", "match_title", "match_titles", "paper", "papers", "citations"),
    "check_references",
    "sql",
    *("references", "iter_citations", "iter_references", "similar", "iter_similar", "expand"),
    *("search_authors", "author", "authors", "author_papers", "iter_author_papers", "facets"),
)
ITERATED: Final = {
    "iter_search": SearchArguments,
    "iter_citations": EdgeArguments,
    "iter_references": EdgeArguments,
    "iter_similar": SimilarArguments,
    "iter_author_papers": PageArguments,
}


def parameters(method: str) -> Iterator[str]:
    for name, parameter in inspect.signature(getattr(Source, method)).parameters.items():
        if name != "self" and parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            yield name
    if method in ITERATED:
        yield from ITERATED[method].__annotations__


def calls(method: str) -> list[tuple[str, str]]:
    """Each parameter with each value that it does not accept."""
    return [
        (name, wrong)
        for name in parameters(method)
        for wrong in WRONG
        if wrong not in ACCEPTED.get(name, ())
        and not (method in ITERATED and name == "limit" and wrong == "nothing")
        and not (name in ("author_id", "ids") and "author" in method and wrong in TEXT)
        and not (method == "facets" and name == "q" and wrong == "nothing")
    ]


def arguments(method: str, name: str, wrong: str) -> dict[str, Any]:
    needed = [key for key in parameters(method) if key in REQUIRED]
    return {key: REQUIRED[key] for key in needed} | {name: WRONG[wrong]()}


def rejects(what: str, call: Callable[..., Any], *positional: Any, **named: Any) -> None:
    try:
        found = call(*positional, **named)
        if inspect.isgenerator(found):
            found = list(found)
    except InvalidRequest:
        return
    except Exception as error:
        raise AssertionError(f"{what}: {error!r}") from error
    raise AssertionError(f"{what} was accepted: {found!r:.200}")


@pytest.mark.parametrize("method", METHODS)
def test_a_wrong_type_is_no_other_error_and_has_no_other_meaning(sample: Library, method: str) -> None:
    for name, wrong in calls(method):
        rejects(f"{method}({name}={wrong})", getattr(sample, method), **arguments(method, name, wrong))


def refused(request: httpx.Request) -> httpx.Response:
    """What a server responds to a request that the client should not have sent: not InvalidRequest."""
    return httpx.Response(418, json={})


@pytest.mark.parametrize("method", METHODS)
def test_clients_reject_wrong_types_before_they_send(method: str) -> None:
    with Client("http://127.0.0.1:1", transport=httpx.MockTransport(refused), retries=0) as client:
        for name, wrong in calls(method):
            if wrong != "digits":  # the library of the server checks ids
                rejects(
                    f"{method}({name}={wrong})", getattr(client, method), **arguments(method, name, wrong)
                )


def test_a_generator_is_a_list(sample: Library) -> None:
    assert sample.papers(i for i in [PAPER]) == sample.papers([PAPER])
    titles = ["Two Dimensional QCD is a String Theory"]
    assert sample.match_titles(t for t in titles) == sample.match_titles(titles)
    batch = [{"q": "string theory", "category": ["hep-th"], "fields": ["title"]}]
    generators = (
        {**one, "category": (c for c in ["hep-th"]), "fields": (f for f in ["title"])} for one in batch
    )
    assert sample.search_batch(generators) == sample.search_batch(batch)  # type: ignore[arg-type]
    assert sample.expand(s for s in [PAPER]) == sample.expand([PAPER])  # type: ignore[arg-type]


# -- opening ---------------------------------------------------------------------------------------------


def test_a_library_is_opened_with_the_right_types(sample_library: Path) -> None:
    for wrong, make in WRONG.items():
        if wrong not in ("digits", "a path"):
            rejects(f"path={wrong}", Library.open, make())
        if wrong not in (
            "digits",
            "half a character",
            "nothing",
        ):  # a name is read only if the library has vectors
            rejects(f"encoder={wrong}", Library.open, sample_library, encoder=make())
        if wrong != "nothing":
            rejects(f"settings={wrong}", Library.open, sample_library, settings=make())
    rejects("a path with a null", Library.open, "a\0b")


# -- tools and sessions ----------------------------------------------------------------------------------


def test_arguments_of_tools_reject_wrong_types(sample: Library) -> None:
    """Models write digits for numbers, and one value for a list, which tools accept."""
    tools = Tools(sample)
    for name in ("q", "limit", "offset", "from", "category", "fields", "exclude_ids", "exact", "max_tokens"):
        for make in WRONG.values():
            with suppress(InvalidRequest):
                tools.call("search_papers", {"q": "string theory", name: make()})
