"""Pages of results."""

from __future__ import annotations

from typing import Any, Final, Protocol, TypeVar

from scholarbase.errors import ServerFailure
from scholarbase.models.checks import check_whole

PAGE_SIZE: Final = 100

T_co = TypeVar("T_co", covariant=True)


class Page(Protocol[T_co]):
    """A page of results."""

    @property
    def snapshot(self) -> str: ...

    @property
    def next_offset(self) -> int | None: ...

    @property
    def results(self) -> tuple[T_co, ...]: ...


class Paging:
    """The position of an iterator over pages. Each paper is returned once.

    Raises:
        InvalidRequest: ``limit`` or ``offset`` is not a whole number of 0 or more.
    """

    def __init__(self, limit: int | None, offset: int = 0) -> None:
        self._limit = None if limit is None else check_whole(limit, "limit", 0)
        self._returned = 0
        self._offset: int | None = check_whole(offset, "offset", 0)
        self._snapshot: str | None = None
        self._seen: set[str] = set()

    def next_page(self) -> tuple[int, int] | None:
        """``limit`` and ``offset`` of the next page, None after the last."""
        if self._offset is None or (self._limit is not None and self._returned >= self._limit):
            return None
        size = PAGE_SIZE if self._limit is None else min(PAGE_SIZE, self._limit - self._returned)
        return size, self._offset

    def add(self, response: Any) -> tuple[Any, ...]:
        """The new results of a page.

        Raises:
            ServerFailure: the snapshot changed, or ``next_offset`` does not increase.
        """
        if self._snapshot not in (None, response.snapshot):
            raise ServerFailure(
                f"The snapshot changed from {self._snapshot} to {response.snapshot} between two pages: start again."
            )
        if response.next_offset is not None and response.next_offset <= (self._offset or 0):
            raise ServerFailure(
                f"The page at offset {self._offset} has next_offset {response.next_offset}, which must be larger: "
                "check that the server is a ScholarBase server of this version."
            )
        self._snapshot, self._offset = response.snapshot, response.next_offset
        # Approximate vector search can return a paper on two pages.
        results = tuple(result for result in response.results if _id(result) not in self._seen)
        self._seen.update(map(_id, results))
        self._returned += len(results)
        return results


def next_offset(offset: int, count: int, total: int) -> int | None:
    """The offset of the next page; None on the last one."""
    end = offset + count
    return end if count and end < total else None


def _id(result: Any) -> str:
    """The id of a paper, or of the paper of a result."""
    paper_id: str = getattr(result, "paper", result).id
    return paper_id
