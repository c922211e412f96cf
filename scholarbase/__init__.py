"""ScholarBase: a Semantic Scholar or arXiv snapshot as a local search server."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from scholarbase import errors as _errors
from scholarbase.errors import *  # noqa: F403 - the errors' names are those of errors.__all__

if TYPE_CHECKING:
    from scholarbase.bibliographies.writing import write_papers as write_papers
    from scholarbase.client.async_client import AsyncClient as AsyncClient
    from scholarbase.client.client import Client as Client
    from scholarbase.extensions import Extension as Extension
    from scholarbase.models.papers import Paper as Paper
    from scholarbase.models.requests import SearchRequest as SearchRequest
    from scholarbase.search.library import Library as Library

__version__ = "0.2.0"

_MODULES = {
    "AsyncClient": "scholarbase.client.async_client",
    "Client": "scholarbase.client.client",
    "Extension": "scholarbase.extensions",
    "Library": "scholarbase.search.library",
    "Paper": "scholarbase.models.papers",
    "SearchRequest": "scholarbase.models.requests",
    "write_papers": "scholarbase.bibliographies.writing",
}
"""Imported on first use: a client needs no index, and a library no HTTP client."""

__all__ = ["AsyncClient", "Client", "Extension", "Library", "Paper", "SearchRequest", "write_papers"]
__all__ += _errors.__all__


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
