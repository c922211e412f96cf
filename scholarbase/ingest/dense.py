"""Document vectors on their way from an encoder, or from a file, to the vector index.

They are kept in parts, each of them files that appear whole or not at all, so that hours of encoding survive
a kill: ``000007.dense.npy`` (float32, n x dimensions); where the model has learned sparse weights, ``indices``,
``values`` and row ``pointers``, as in a CSR matrix; and last ``000007.ids.npy``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from scholarbase.encoders.base import Encodings
from scholarbase.indexes.vectors.base import SparseVector

PARTS_OPEN: Final = 32


@dataclass(frozen=True, slots=True)
class _Part:
    dense: npt.NDArray[np.float32]
    sparse: tuple[npt.NDArray[np.uint32], npt.NDArray[np.float32], npt.NDArray[np.int64]] | None


class DenseParts:
    """A folder of parts, written in order and then looked up by paper id."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)

    @property
    def count(self) -> int:
        """How many parts are whole. They are numbered from 0 without a gap."""
        return len(list(self._folder.glob("*.ids.npy")))

    @property
    def last_id(self) -> int:
        """The greatest id of the newest part, 0 where there is none."""
        count = self.count
        return int(np.load(self._path(count - 1, "ids.npy")).max(initial=0)) if count else 0

    def write(self, number: int, ids: npt.NDArray[np.int64], encodings: Encodings) -> None:
        """Write one part. Its ids come last: a part without them is no part yet."""
        self._save(number, "dense.npy", partial(np.save, arr=encodings.dense.astype(np.float32)))
        if encodings.sparse is not None:
            pointers = np.cumsum([0, *(len(s.indices) for s in encodings.sparse)], dtype=np.int64)
            none = [np.empty(0, np.uint32)], [np.empty(0, np.float32)]
            indices = np.concatenate([s.indices for s in encodings.sparse] or none[0])
            values = np.concatenate([s.values for s in encodings.sparse] or none[1])
            for kind, array in (("indices", indices), ("values", values), ("pointers", pointers)):
                self._save(number, f"{kind}.npy", partial(np.save, arr=array))
        self._save(number, "ids.npy", partial(np.save, arr=ids))

    def _path(self, number: int, kind: str) -> Path:
        return self._folder / f"{number:06d}.{kind}"

    def _map(self, number: int, kind: str) -> npt.NDArray[Any]:
        path = self._path(number, f"{kind}.npy")
        array: npt.NDArray[Any] = np.load(path, mmap_mode="r" if _holds_something(path) else None)
        return array

    def _save(self, number: int, kind: str, write: Callable[[Any], None]) -> None:
        temporary = self._path(number, "tmp")
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path(number, kind))

    def open(self) -> DenseLookup:
        return DenseLookup(
            [np.load(self._path(number, "ids.npy")) for number in range(self.count)], self._part
        )

    def _part(self, number: int) -> _Part:
        sparse = None
        if self._path(number, "indices.npy").exists():
            sparse = (
                self._map(number, "indices"),
                self._map(number, "values"),
                self._map(number, "pointers"),
            )
        return _Part(self._map(number, "dense"), sparse)


def _holds_something(path: Path) -> bool:
    """An empty array cannot be mapped."""
    with path.open("rb") as file:
        version = np.lib.format.read_magic(file)
        shape = np.lib.format.read_array_header_1_0(file)[0] if version == (1, 0) else (1,)
    return 0 not in shape


class DenseLookup:
    """The vectors of papers, by id. Memory: 20 bytes a paper; the vectors stay in their files.

    A paper that stands in several parts has the vector of the first. Few parts are open at a time: each takes up
    to four of the files that a process may have open.
    """

    def __init__(self, ids: Sequence[npt.NDArray[np.int64]], open_part: Callable[[int], _Part]) -> None:
        """``ids`` are those of each part, in the order of its rows."""
        self._open_part = lru_cache(maxsize=PARTS_OPEN)(open_part)
        none = [np.empty(0, np.int64)]
        each = np.concatenate([*ids, *none])
        part = np.repeat(np.arange(len(ids), dtype=np.int32), [len(of_part) for of_part in ids])
        row = np.concatenate([*(np.arange(len(of_part), dtype=np.int64) for of_part in ids), *none])
        self._ids, first = np.unique(each, return_index=True)
        self._part, self._row = part[first], row[first]
        self.repeated = len(each) - len(self._ids)
        """Vectors of papers that had one already."""

    def __len__(self) -> int:
        return len(self._ids)

    def get(self, paper_id: int) -> tuple[npt.NDArray[np.float32], SparseVector | None] | None:
        """The paper's dense vector and its learned sparse one, None where it has none."""
        place = int(np.searchsorted(self._ids, paper_id))
        if place == len(self._ids) or self._ids[place] != paper_id:
            return None
        part, row = self._open_part(int(self._part[place])), int(self._row[place])
        sparse = None
        if part.sparse is not None:
            indices, values, pointers = part.sparse
            span = slice(pointers[row], pointers[row + 1])
            sparse = SparseVector(indices[span].tolist(), values[span].tolist())
        # A copy: a view would keep its part open.
        return np.array(part.dense[row]), sparse
