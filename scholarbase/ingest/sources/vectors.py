"""Reads document vectors computed elsewhere: NumPy arrays with a list of ids, or Parquet tables.

Two layouts are read:

- a folder with ``vectors.npy`` (or one other ``.npy`` file) and ``ids.txt``, or the ``.npy`` file itself with
  ``ids.txt`` in the same folder: row n of the array belongs to line n of the list. The array is memory-mapped;
- a Parquet file, or a folder of them, with a column of ids (``id``, ``paper_id``, ``arxiv_id`` or
  ``corpus_id``) and a column of lists (``vector`` or ``embedding``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from scholarbase.errors import SourceError
from scholarbase.ingest.sources import tables

VectorBatch = tuple[list[str], npt.NDArray[np.float32]]
"""Ids, and their vectors of unit length: float32 of shape (ids, dimensions)."""

BATCH: Final = 4096
MAX_ID: Final = 1000
"""Bytes of an id in a list of ids, on average."""
MAX_DIMENSIONS: Final = 65_536
"""Dimensions of a vector in a Parquet file, on average in each row group."""
ID_COLUMNS: Final = ("id", "paper_id", "arxiv_id", "corpus_id")
VECTOR_COLUMNS: Final = ("vector", "embedding")


def open_vectors(path: Path, batch: int = BATCH) -> Iterator[VectorBatch]:
    """The vectors at ``path`` in batches of at most ``batch``, each row scaled to unit length.

    Ids are as stored (a numeric ``corpus_id`` column as ``CorpusId:123``). Memory holds one batch and all ids.

    Raises:
        SourceError: no readable vectors; ids and rows differ in number; a vector is zero, not finite or has other
            dimensions than the first; an id is empty or repeated; pyarrow is missing.
    """
    if not path.exists():
        raise SourceError(f"No vectors at {path}: check the path.")
    tables = _parquet_files(path)
    batches = _from_parquet(tables, batch) if tables else _from_numpy(path, batch)
    return _checked(path, batches)


def _checked(path: Path, batches: Iterable[tuple[list[str], npt.NDArray[Any]]]) -> Iterator[VectorBatch]:
    seen: set[str] = set()
    dimensions = None
    row = 0
    for ids, stored in batches:
        vectors = stored.astype(np.float32)
        if dimensions is None:
            dimensions = vectors.shape[1]
        if vectors.shape[1] != dimensions:
            raise SourceError(
                f"{path}: the vector of {ids[0]!r} has {vectors.shape[1]} dimensions and those before it have "
                f"{dimensions}. All vectors must be from one model."
            )
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
        wrong = np.flatnonzero(~np.isfinite(lengths) | (lengths == 0.0))
        if len(wrong):
            fault = "is zero" if lengths[wrong[0]] == 0.0 else "has values that are not finite"
            raise SourceError(
                f"{path}: the vector of {ids[wrong[0]]!r} (row {row + int(wrong[0]) + 1}) {fault}. "
                "Leave it out, or compute it again."
            )
        for position, name in enumerate(ids, row + 1):
            if name in seen or not name:
                fault = "is repeated" if name else "is empty"
                raise SourceError(
                    f"{path}: the id {name!r} in row {position} {fault}. Each id needs one row."
                )
            seen.add(name)
        row += len(ids)
        # As encoders do it: the bits of a vector that is of unit length already stay the same.
        lengths[np.abs(lengths - 1) < 1e-6] = 1
        yield ids, (vectors / lengths[:, np.newaxis]).astype(np.float32)
    if row == 0:
        raise SourceError(f"{path} has no vectors: compute them again, or leave it out.")


def _numpy_file(path: Path) -> Path:
    if path.is_file():
        return path
    named = path / "vectors.npy"
    arrays = [named] if named.exists() else sorted(path.glob("*.npy"))
    if len(arrays) != 1:
        files = "more than one .npy file" if arrays else "no .npy and no .parquet file"
        raise SourceError(f"{path} has {files}: give vectors.npy with ids.txt beside it, or Parquet files.")
    return arrays[0]


def _from_numpy(path: Path, batch: int) -> Iterator[tuple[list[str], npt.NDArray[Any]]]:
    file = _numpy_file(path)
    ids_file = file.with_name("ids.txt")
    if not ids_file.is_file():
        raise SourceError(f"No ids.txt beside {file}: it must have the id of each row, one per line.")
    try:
        array = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise SourceError(f"{file} is not a NumPy array: {error}. Save it with numpy.save.") from error
    if array.ndim != 2 or array.shape[1] == 0 or array.dtype.kind != "f":
        raise SourceError(
            f"{file} is an array of {array.dtype} with the shape {array.shape}: floats of the shape "
            "(papers, dimensions) were expected."
        )
    if ids_file.stat().st_size > max(len(array), 1) * MAX_ID:
        raise SourceError(
            f"{ids_file} has {ids_file.stat().st_size:,} bytes for {len(array):,} rows: one id per line, of at most "
            f"{MAX_ID} bytes, was expected."
        )
    with ids_file.open(encoding="utf-8") as lines:
        count = sum(1 for _ in lines)
    if count != len(array):
        raise SourceError(
            f"{ids_file} has {count} lines and {file.name} {len(array)} rows: give one id for each vector."
        )
    with ids_file.open(encoding="utf-8") as lines:
        for start in range(0, count, batch):
            yield [line.strip() for line in islice(lines, batch)], array[start : start + batch]


def _parquet_files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(path.glob("*.parquet"))
    with path.open("rb") as file:
        return [path] if file.read(4) == tables.MAGIC else []


def _column(path: Path, names: Sequence[str], wanted: Sequence[str], what: str) -> str:
    columns = [name for name in wanted if name in names]
    if not columns:
        raise SourceError(
            f"{path} has the columns {', '.join(names)}: its column of {what} must be named {' or '.join(wanted)}."
        )
    return columns[0]


def _from_parquet(files: list[Path], batch: int) -> Iterator[tuple[list[str], npt.NDArray[Any]]]:
    for path in files:
        with tables.opened(path) as table:
            names = table.schema_arrow.names
            id_column = _column(path, names, ID_COLUMNS, "ids")
            vector_column = _column(path, names, VECTOR_COLUMNS, "vectors")
            _check_sizes(path, table.metadata, names.index(vector_column))
            for rows in table.iter_batches(batch, columns=[id_column, vector_column]):
                if len(rows):
                    ids = _ids(path, rows.column(id_column), id_column)
                    yield ids, _matrix(path, rows.column(vector_column))


def _check_sizes(path: Path, metadata: Any, column: int) -> None:
    """Raises SourceError: the vectors are too long to be read. A few bytes of a file may describe billions."""
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        values = group.column(column).num_values
        if values > max(group.num_rows, 1) * MAX_DIMENSIONS:
            raise SourceError(
                f"{path}: {group.num_rows:,} rows have {values:,} values in their vectors, more than "
                f"{MAX_DIMENSIONS:,} each. Write it again."
            )


def _ids(path: Path, column: Any, name: str) -> list[str]:
    if column.null_count:
        raise SourceError(
            f"{path}: the column {name} has a null value. Each vector needs the id of its paper."
        )
    values = column.to_pylist()
    if name == "corpus_id":
        return [f"CorpusId:{value}" for value in values]
    if not isinstance(values[0], str):
        raise SourceError(
            f"{path}: the column {name} has {type(values[0]).__name__} values such as {values[0]!r}. Ids must be "
            "strings: arXiv ids lose their zeros when they become numbers."
        )
    return [value.strip() for value in values]


def _matrix(path: Path, column: Any) -> npt.NDArray[Any]:
    """The lists of a column as rows, taken from Arrow's one flat array."""
    if column.null_count:
        raise SourceError(f"{path}: a vector is null. Leave its row out, or compute it again.")
    flat = column.flatten()
    size = len(flat) // len(column)
    # Arrow's fixed-size lists have no offsets.
    offsets = column.offsets.to_numpy() if hasattr(column, "offsets") else np.arange(len(column) + 1) * size
    if size == 0 or np.any(np.diff(offsets) != size):
        raise SourceError(
            f"{path}: the vectors are empty or differ in dimensions. All vectors must be from one model."
        )
    if flat.null_count:
        raise SourceError(f"{path}: a value of a vector is null. Leave the vector out, or compute it again.")
    numbers = flat.to_numpy(zero_copy_only=False)
    if numbers.dtype.kind != "f":
        raise SourceError(f"{path}: the vectors have {numbers.dtype} values: floats were expected.")
    matrix: npt.NDArray[Any] = numbers.reshape(len(column), size)
    return matrix
