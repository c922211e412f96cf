"""Parquet tables as sources: rows in order, some at a time (https://parquet.apache.org/docs/file-format/)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from scholarbase.errors import SourceError
from scholarbase.extras import missing

MAGIC: Final = b"PAR1"
"""The first and last bytes of a file."""
BATCH: Final = 1_000
MAX_GROUP: Final = 4_000_000_000
"""Bytes of a row group without compression. Rows are read from a whole column of a group."""


def column_names(path: Path) -> list[str]:
    """The names of a table's columns.

    Raises:
        SourceError: the file is not a whole Parquet file.
        MissingExtra: pyarrow is not installed.
    """
    with opened(path) as file:
        return list(file.schema_arrow.names)


def read_rows(path: Path, columns: Collection[str]) -> Iterator[dict[str, Any]]:
    """The rows of a table, with those of the columns that it has. Raises as :func:`column_names`."""
    with opened(path) as file:
        groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
        largest = max((group.total_byte_size for group in groups), default=0)
        if largest > MAX_GROUP:
            raise SourceError(
                f"{path} has a row group of {largest:,} bytes, more than {MAX_GROUP:,}: write it again with smaller "
                "ones."
            )
        wanted = [name for name in file.schema_arrow.names if name in columns]
        for batch in file.iter_batches(BATCH, columns=wanted):
            yield from batch.to_pylist()


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """A table as pyarrow's ``ParquetFile``. Raises as :func:`column_names`, also while it is read."""
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise missing("pyarrow", "parquet", f"Reading the Parquet file {path}") from error
    try:
        with ParquetFile(path) as file:
            yield file
    except (ArrowException, OSError) as error:
        raise SourceError(
            f"{path} is incomplete or damaged: it is not a whole Parquet file ({str(error).splitlines()[0]}). Download "
            "it again."
        ) from error
