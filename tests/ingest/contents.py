"""The content of libraries, for comparisons."""

import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from scholarbase.indexes.vectors.shards import open_local
from scholarbase.manifest import read_manifest

TABLES = (
    "papers", "abstracts", "aliases", "authors", "venues", "venue_names", "edges", "sets", "written",
    "document_frequencies", "author_names", "author_papers", "author_words_data", "meta",
)  # fmt: skip


def rows(library: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table, in order."""
    with closing(sqlite3.connect(f"file:{library / 'catalog.sqlite'}?mode=ro", uri=True)) as db:
        return {table: sorted(db.execute(f"SELECT * FROM {table}"), key=repr) for table in TABLES}


def points(library: Path) -> dict[int, Any]:
    """Every point: payload, sparse vectors, dense vector."""
    found: dict[int, Any] = {}
    with closing(open_local(library / "vectors")) as index:
        for batch in index.points():
            for point in batch:
                sparse = {
                    name: (tuple(vector.indices), tuple(np.round(vector.values, 5)))
                    for name, vector in point.sparse.items()
                }
                dense = None if point.dense is None else tuple(np.round(point.dense, 3))
                found[point.id] = (point.payload, sparse, dense)
    return found


def rejects(library: Path) -> list[dict[str, Any]]:
    """What was left out, a row for each record or file."""
    with gzip.open(library / "rejects.jsonl.gz") as lines:
        return [json.loads(line) for line in lines]


def same(one: Path, other: Path) -> None:
    """Assert that two libraries have the same rows, edges, vectors and snapshot id."""
    assert read_manifest(one) == read_manifest(other)
    assert rows(one) == rows(other)
    assert points(one) == points(other)
    # Hidden folders are views of processes that serve a library.
    first, second = ({e.name for e in library.iterdir() if e.name[0] != "."} for library in (one, other))
    assert first == second
