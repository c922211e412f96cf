"""A library's vectors in several shards: folders ``0-of-2``, ``1-of-2`` of the folder of its vectors.

The point of a paper is in the shard of its number modulo the number of shards. Neighbouring numbers are those of papers
of about one time and subject, so each shard has its share of every filter and of every list of results. A Qdrant server
relies on that: it requests little more than that share of each shard of a collection, if a list is long.

Each shard is searched, and the results are merged: BM25 and exact dense search return what one shard would, bit for
bit. Approximate dense search explores a graph in each shard, and may find other papers.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from scholarbase.errors import VectorIndexError
from scholarbase.indexes.filters import ResolvedFilters
from scholarbase.indexes.vectors.base import QueryVector, VectorConfig, VectorPoint
from scholarbase.indexes.vectors.edge import EdgeWriter
from scholarbase.indexes.vectors.index import EdgeIndex, VectorIndex
from scholarbase.indexes.vectors.shard_view import PART_NAME
from scholarbase.manifest import MOST_SHARDS

S = TypeVar("S", EdgeIndex, EdgeWriter)
_ALL_VALUES: Final = 10_000_000
"""More values of a field than any library has: the most frequent ones of all shards may be rare in each."""


def shard_of(number: int, shards: int) -> int:
    """The shard of the point with this number."""
    return number % shards


def shard_folders(vectors: Path, shards: int) -> list[Path]:
    """The folders of the shards: a single one is the folder of the vectors itself."""
    return [shard_folder(vectors, shard, shards) for shard in range(shards)]


def shard_folder(vectors: Path, shard: int, shards: int) -> Path:
    """The folder of one shard."""
    return vectors if shards == 1 else vectors / f"{shard}-of-{shards}"


def divided(numbers: Sequence[int], shards: int) -> list[list[int]]:
    """The numbers of each shard's points."""
    parts: list[list[int]] = [[] for _ in range(shards)]
    for number in numbers:
        parts[shard_of(number, shards)].append(number)
    return parts


class ShardedIndex(VectorIndex):
    """Several shards open for searching, one after the other. Safe to share between threads."""

    def __init__(self, shards: Sequence[EdgeIndex], path: Path) -> None:
        super().__init__(shards[0].config)
        self.shards = tuple(shards)
        self.path = path

    def nearest(
        self, name: str, vector: QueryVector, limit: int, filters: ResolvedFilters, *, ef: int | None
    ) -> list[Any]:
        points = [
            point for shard in self.shards for point in shard.nearest(name, vector, limit, filters, ef=ef)
        ]
        points.sort(key=attrgetter("score"), reverse=True)
        return points[:limit]

    def count_points(self, filters: ResolvedFilters, vector: str | None) -> int:
        return sum(shard.count_points(filters, vector) for shard in self.shards)

    def values(self, field: str, most: int) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for shard in self.shards:
            counts.update(shard.values(field, _ALL_VALUES))
        return dict(counts.most_common(most))

    def retrieve(self, name: str, ids: Sequence[int]) -> list[Any]:
        parts = divided(ids, len(self.shards))
        return [
            record
            for shard, part in zip(self.shards, parts, strict=True)
            if part
            for record in shard.retrieve(name, part)
        ]

    def first(self, filters: ResolvedFilters, order: tuple[str, bool] | None = None) -> dict[str, Any] | None:
        payloads = [payload for shard in self.shards if (payload := shard.first(filters, order)) is not None]
        if order is None or not payloads:
            return next(iter(payloads), None)
        field, greatest = order
        return (max if greatest else min)(payloads, key=lambda payload: payload[field])

    def records(
        self, batch: int, *, start: int = 0, payload: bool = False, vectors: bool = True
    ) -> Iterator[list[Any]]:
        streams = [
            chain.from_iterable(shard.records(batch, start=start, payload=payload, vectors=vectors))
            for shard in self.shards
        ]
        merged = heapq.merge(*streams, key=attrgetter("id"))
        yield from iter(lambda: list(islice(merged, batch)), [])

    def scroll(self, offset: Any, limit: int, *, payload: bool, vectors: bool) -> tuple[list[Any], Any]:
        records = next(self.records(limit + 1, start=offset or 0, payload=payload, vectors=vectors), [])
        return records[:limit], records[limit].id if len(records) > limit else None

    def sample(self, count: int) -> list[Any]:
        """As :meth:`.EdgeIndex.sample`, with equally many points of each shard."""
        per_shard = -(-count // len(self.shards))
        return [record for shard in self.shards for record in shard.sample(per_shard)]

    def close(self) -> None:
        """Close all shards. A second call does nothing."""
        _close_all(self.shards)


LocalIndex: TypeAlias = EdgeIndex | ShardedIndex
"""The index in a library's folder."""


def open_local(
    vectors: Path, *, view: bool = True, temporary: Path | None = None, threads: int | None = None
) -> LocalIndex:
    """Open the shard or the shards in a folder of vectors. The arguments and errors are those of
    :meth:`.EdgeIndex.open`; a missing shard is a VectorIndexError."""
    opened = _open_all(
        _folders(vectors), partial(EdgeIndex.open, view=view, temporary=temporary, threads=threads)
    )
    return opened[0] if len(opened) == 1 else ShardedIndex(opened, vectors)


def shards_in(index: LocalIndex) -> tuple[EdgeIndex, ...]:
    """The shards of an index, in their order."""
    return index.shards if isinstance(index, ShardedIndex) else (index,)


def _folders(vectors: Path) -> list[Path]:
    """The folders of the shards in a folder of vectors. Raises VectorIndexError: they are not those of one division."""
    parts = [match for entry in vectors.glob("*-of-*") if (match := PART_NAME.fullmatch(entry.name))]
    if not parts:
        return [vectors]
    counts = {int(part[2]) for part in parts}
    if len(counts) > 1:
        problem = f"has shards of {len(counts)} divisions"
    elif not 1 < max(counts) <= MOST_SHARDS:  # before as many folders are looked for
        problem = f"has a folder {parts[0][0]}, and libraries have 2 to {MOST_SHARDS} shards"
    else:
        folders = shard_folders(vectors, max(counts))
        missing = [folder.name for folder in folders if not folder.is_dir()]
        if not missing:
            return folders
        problem = f"lacks the shard {missing[0]}"
    raise VectorIndexError(
        f"The vector index at {vectors} {problem}: the library is damaged. Restore the copy, or ingest again."
    )


class ShardWriters:
    """The shards of a library being changed: each point is in the shard of its number."""

    def __init__(self, writers: Sequence[EdgeWriter]) -> None:
        self._writers = writers

    @classmethod
    def open(
        cls, vectors: Path, shards: int, config: VectorConfig, *, deleted_share: float = 0.0
    ) -> ShardWriters:
        """As :meth:`.EdgeWriter.open`, for each shard."""
        open_writer = partial(EdgeWriter.open, config=config, deleted_share=deleted_share)
        return cls(_open_all(shard_folders(vectors, shards), open_writer))

    def upsert(self, points: Sequence[VectorPoint]) -> None:
        """As :meth:`.EdgeWriter.upsert`."""
        count = len(self._writers)
        for shard, writer in enumerate(self._writers):
            writer.upsert([point for point in points if shard_of(point.id, count) == shard])

    def delete(self, ids: Sequence[int]) -> None:
        """As :meth:`.EdgeWriter.delete`."""
        for writer, part in zip(self._writers, divided(ids, len(self._writers)), strict=True):
            writer.delete(part)

    def finish(self) -> None:
        """As :meth:`.EdgeWriter.finish`."""
        for writer in self._writers:
            writer.finish()

    def close(self) -> None:
        """As :meth:`.EdgeWriter.close`."""
        _close_all(self._writers)


def _open_all(folders: Iterable[Path], open_one: Callable[[Path], S]) -> list[S]:
    """Open each shard; where one fails, those before it are closed."""
    with ExitStack() as stack:
        opened = [stack.enter_context(closing(open_one(folder))) for folder in folders]
        stack.pop_all()
    return opened


def _close_all(shards: Iterable[EdgeIndex | EdgeWriter]) -> None:
    """Close each shard, also where closing one fails."""
    with ExitStack() as stack:
        for shard in shards:
            stack.callback(shard.close)
