"""Semantic Scholar's datasets, of which a library has none: every path is an error that clients read."""

from __future__ import annotations

from typing import Final

from scholarbase_dialects.base import Body, Dialect
from scholarbase_dialects.semantic_scholar import parameters


def _error(status: int, message: str) -> Body:
    if status != 404:
        return parameters.error(status, message)
    return parameters.error(
        404, "This server has no datasets: download them from https://api.semanticscholar.org."
    )


DIALECT: Final = Dialect(
    "s2-datasets",
    "/datasets/v1",
    "Semantic Scholar's datasets",
    (),
    _error,
    parameters.STATUSES,
    alone="/datasets/v1",
)
