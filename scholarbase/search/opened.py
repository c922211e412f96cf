"""What all parts of a library share: its open files, and the limits of a request."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TypeVar

from scholarbase import deadlines
from scholarbase.deadlines import time_limit
from scholarbase.errors import LibraryError, TimeLimit
from scholarbase.indexes.catalog import Catalog
from scholarbase.models.checks import in_batch
from scholarbase.models.requests import Timed, check_request
from scholarbase.models.responses import Unfinished
from scholarbase.models.source import Source
from scholarbase.search.lookup import Lookup
from scholarbase.search.ranking import Ranker
from scholarbase.settings import Settings

L = TypeVar("L", bound="Opened")
R = TypeVar("R", bound=Timed)
T = TypeVar("T")


class Opened(Source):
    """An open library. :class:`.Library` opens and closes it; each part adds methods."""

    path: Path
    snapshot_id: str
    settings: Settings
    _catalog: Catalog
    _lookup: Lookup
    _ranker: Ranker
    _closed: bool

    @property
    def catalog(self) -> Catalog:
        """The catalogue, for statements of other packages. Raises LibraryError: the library is closed."""
        self._check_open()
        return self._catalog

    @property
    def lookup(self) -> Lookup:
        """Ids, dates and filters of requests to those of the catalogue. Raises LibraryError: the library is closed."""
        self._check_open()
        return self._lookup

    def _check_open(self) -> None:
        if self._closed:
            raise LibraryError(f"The library at {self.path} is closed: open it again.")


def runs(kind: type[R]) -> Callable[[Callable[[L, R], T]], Callable[[L, R], T]]:
    """Decorate a method that runs requests of a kind: check the type, and apply the time limit of each request."""

    def decorate(run: Callable[[L, R], T]) -> Callable[[L, R], T]:
        @wraps(run)
        def limited(self: L, request: R) -> T:
            check_request(request, kind)
            with time_limit(request.timeout):
                return run(self, request)

        return limited

    return decorate


def finished(run: Callable[[], T], kind: str, text: str) -> T | Unfinished:
    """The result of one item of a batch, or the error if it takes longer than the time limit."""
    try:
        with in_batch(kind, text):
            deadlines.check(f"The {kind}", "send fewer in one request")
            return run()
    except TimeLimit as error:
        return Unfinished(str(error))


def next_offset(offset: int, count: int, total: int) -> int | None:
    """The offset of the next page; None on the last one."""
    end = offset + count
    return end if count and end < total else None
