"""Errors have statuses and bodies that clients of the original know."""

from collections.abc import Iterator
from itertools import product

import orjson

from scholarbase.errors import ScholarBaseError
from scholarbase_dialects.semantic_scholar import graph, legacy, recommendations


def kinds(base: type[ScholarBaseError]) -> Iterator[type[ScholarBaseError]]:
    yield base
    for kind in base.__subclasses__():
        yield from kinds(kind)


def test_every_error() -> None:
    for dialect, kind in product(
        (graph.DIALECT, recommendations.DIALECT, legacy.DIALECT), kinds(ScholarBaseError)
    ):
        body = dialect.rejection(kind("Something failed."))
        # The client on PyPI raises an error for these and 504, and returns an empty paper for all others.
        assert body.status in (400, 403, 404, 429, 500), kind
        content = orjson.loads(body.content)
        assert content["error"] == content["message"] == content["detail"] == "Something failed."
        if body.status == 429:
            assert int(body.headers["Retry-After"]) >= 1
