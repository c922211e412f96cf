"""The cache of arXiv papers that SPAR reads: a SQLite table of JSON.

The table, and the keys of its JSON, are those of https://github.com/xiaofengShi/SPAR.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import orjson

from scholarbase.databases import open_for_writing
from scholarbase.models.papers import Paper

FIELDS: Final = ("title", "abstract", "authors", "year", "publication_date", "categories")
_TABLE: Final = """
    CREATE TABLE arxiv_docs (
        arxiv_id TEXT PRIMARY KEY, data TEXT NOT NULL, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP
    )
"""


def write(batches: Iterator[Mapping[int, Paper]], cited: object, paths: Sequence[Path]) -> int:
    """Write the cache, without references, which it does not have."""
    [path] = paths
    written = 0
    with closing(open_for_writing(path)) as connection:
        # The file is complete or is thrown away.
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(_TABLE)
        connection.execute("BEGIN")
        for batch in batches:
            rows = [_row(paper) for paper in batch.values()]
            connection.executemany("INSERT INTO arxiv_docs (arxiv_id, data) VALUES (?, ?)", rows)
            written += len(rows)
        connection.execute("COMMIT")
    return written


def _row(paper: Paper) -> tuple[str, str]:
    arxiv_id = paper.id.removeprefix("arXiv:")
    data: dict[str, Any] = {
        "paper_id": arxiv_id,
        "arxivId": arxiv_id,
        "arxivUrl": f"https://arxiv.org/abs/{arxiv_id}",
        "title": paper.title or "",
        "abstract": paper.abstract or "",
        "authors": [{"name": author.name} for author in paper.authors],
        "publicationYear": (paper.publication_date or str(paper.year or "")).replace("-", ""),
        "fieldsOfStudy": ";".join(paper.categories),
        "source": "Search From Local",
    }
    return arxiv_id, orjson.dumps(data).decode()
