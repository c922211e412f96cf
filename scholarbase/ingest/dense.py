"""Document vectors on disk, between encoding and the vector index.

They are stored in parts of a few hundred papers, so that a killed job keeps what it has encoded. A part has the files
``000007.dense.npy`` (float32, n x dimensions; zeros for a text without tokens that a static encoder knows); where the
model has learned sparse weights, ``indices``, ``values`` and row ``pointers``, as in a CSR matrix; and
``000007.ids.npy``, written last. Each file is written atomically.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from scholarbase.encoders.base import Encodings
from scholarbase.files import atomic_write
from scholarbase.indexes.vectors.base import SparseVector

MAX_OPEN_PARTS: Final = 32


Vectors = tuple[npt.NDArray[np.float32] | None, SparseVector | None]
"""A dense vector and learned term weights of a text, None where it has none."""


def vectors_of(encodings: Encodings, place: int) -> Vectors:
    """The vectors of one of the encoded texts. A dense vector of zeros is none."""
    dense = encodings.dense[place] if encodings.dense.shape[1] and encodings.dense[place].any() else None
    if encodings.sparse is None:
        return dense, None
    weights = encodings.sparse[place]
    return dense, SparseVector(weights.indices.tolist(), weights.values.tolist())


@dataclass(frozen=True, slots=True)
class _Part:
    dense: npt.NDArray[np.float32]
    sparse: tuple[npt.NDArray[np.uint32], npt.NDArray[np.float32], npt.NDArray[np.int64]] | None


class DenseParts:
    """A folder of parts, written in order of number."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)

    @property
    def count(self) -> int:
        """The number of complete parts. They are numbered from 0 without gaps."""
        return len(list(self._folder.glob("*.ids.npy")))

    @property
    def last_id(self) -> int:
        """The greatest id of the last part; 0 without parts."""
        count = self.count
        return int(np.load(self._path(count - 1, "ids")).max(initial=0)) if count else 0

    def clear(self) -> None:
        """Delete all parts, those without ids too."""
        for file in self._folder.iterdir():
            file.unlink()

    def write(self, number: int, ids: npt.NDArray[np.int64], encodings: Encodings) -> None:
        """Write one part. Its ids are written last: a part without them is incomplete."""
        self._save(number, "dense", encodings.dense.astype(np.float32))
        if encodings.sparse is not None:
            pointers = np.cumsum([0, *(len(s.indices) for s in encodings.sparse)], dtype=np.int64)
            indices = np.concatenate([np.empty(0, np.uint32), *(s.indices for s in encodings.sparse)])
            values = np.concatenate([np.empty(0, np.float32), *(s.values for s in encodings.sparse)])
            for kind, array in (("indices", indices), ("values", values), ("pointers", pointers)):
                self._save(number, kind, array)
        self._save(number, "ids", ids)

    def _path(self, number: int, kind: str) -> Path:
        return self._folder / f"{number:06d}.{kind}.npy"

    def _map(self, number: int, kind: str) -> npt.NDArray[Any]:
        path = self._path(number, kind)
        array: npt.NDArray[Any] = np.load(path, mmap_mode=None if _is_empty(path) else "r")
        return array

    def _save(self, number: int, kind: str, array: npt.NDArray[Any]) -> None:
        with atomic_write(self._path(number, kind)) as file:
            np.save(file, array)

    def open(self) -> DenseLookup:
        """The vectors of the papers."""
        ids = (np.load(self._path(number, "ids")) for number in range(self.count))
        return DenseLookup([*ids], self._part)

    def _part(self, number: int) -> _Part:
        sparse = None
        if self._path(number, "indices").exists():
            sparse = (
                self._map(number, "indices"),
                self._map(number, "values"),
                self._map(number, "pointers"),
            )
        return _Part(self._map(number, "dense"), sparse)


def _is_empty(path: Path) -> bool:
    """Whether the array has no elements: NumPy cannot memory-map it then."""
    with path.open("rb") as file:
        version = np.lib.format.read_magic(file)
        shape = np.lib.format.read_array_header_1_0(file)[0] if version == (1, 0) else (1,)
    return 0 in shape


class DenseLookup:
    """Looks up the vectors of papers by id. Memory: 20 bytes per paper; the vectors stay in their files.

    A paper in several parts has the vector of the first. Few parts are open at a time, as each takes up to four file
    descriptors.
    """

    def __init__(self, ids: Sequence[npt.NDArray[np.int64]], open_part: Callable[[int], _Part]) -> None:
        """``ids`` has the ids of each part, in the order of its rows."""
        self._open_part = lru_cache(maxsize=MAX_OPEN_PARTS)(open_part)
        none = [np.empty(0, np.int64)]
        all_ids = np.concatenate([*ids, *none])
        part = np.repeat(np.arange(len(ids), dtype=np.int32), [len(part_ids) for part_ids in ids])
        row = np.concatenate([*(np.arange(len(part_ids), dtype=np.int64) for part_ids in ids), *none])
        self._ids, first = np.unique(all_ids, return_index=True)
        self._part, self._row = part[first], row[first]
        self.repeated = len(all_ids) - len(self._ids)
        """Vectors of papers that already had one."""

    def __len__(self) -> int:
        return len(self._ids)

    def get(self, paper_id: int) -> Vectors:
        """The paper's vectors. A dense vector of zeros is none."""
        position = int(np.searchsorted(self._ids, paper_id)) if len(self._ids) else 0
        if position == len(self._ids) or self._ids[position] != paper_id:
            return None, None
        part, row = self._open_part(int(self._part[position])), int(self._row[position])
        sparse = None
        if part.sparse is not None:
            indices, values, pointers = part.sparse
            span = slice(pointers[row], pointers[row + 1])
            sparse = SparseVector(indices[span].tolist(), values[span].tolist())
        dense = np.array(part.dense[row])  # a copy, because a view would keep the part open
        return dense if dense.any() else None, sparse
