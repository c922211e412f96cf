"""How similar an encoder's vectors of unrelated texts are.

Cosines have no absolute meaning: two random papers have a cosine of 0.1 with one encoder and 0.5 with another. The
manifest has quantiles of random pairs, which searches use as lower limits of similarity. The pairs are of the library's
own papers, or of titles from all fields (``background.txt``) where it has too few.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from scholarbase.encoders import Encoder
from scholarbase.indexes.filters import NO_FILTERS
from scholarbase.indexes.vectors.base import DENSE
from scholarbase.indexes.vectors.index import VectorIndex

QUERIES: Final = 200
"""Titles that are encoded as queries, at even distances over the library."""
PAPERS: Final = 1_000
"""Papers that each is compared with."""
LEAST: Final = 500
"""Pairs among fewer papers say little: many of them may be about one topic."""
BACKGROUND: Final = Path(__file__).with_name("background.txt")
"""One title of each arXiv category (``benchmarks/background.py``)."""
_PER_READ: Final = 10_000
QUANTILES: Final = {"p75": 0.75, "p999": 0.999}
"""The stored quantiles: 75% and 99.9% of the pairs have a lower cosine."""
OF_BACKGROUND: Final = {"p95": 0.95, "p999": 0.999}
"""Those of the background. A quarter of a small library would be above p75, whatever the query."""


def random_similarity(
    db: sqlite3.Connection, index: VectorIndex, encoder: Encoder
) -> dict[str, float] | None:
    """Quantiles of the cosine between titles, as queries, and other papers; None without vectors. With fewer than
    :data:`LEAST`, the titles and papers are those of the background.

    They are rounded down to hundredths, so that builds on different machines mostly agree. The vectors are those of the
    index, so that a build and an update, which does not compute the others again, agree too.

    Raises:
        EncoderError: the encoder fails.
    """
    vectors = index.count(NO_FILTERS, vector=DENSE) if encoder.spec.dimensions else 0
    if vectors < LEAST:
        return _of_background(encoder) if vectors else None
    ids = _with_vectors(db, index)
    # Two sizes without a common step: a title is rarely compared with its own paper, and then left out.
    asked = ids[np.linspace(0, len(ids) - 1, min(QUERIES, len(ids))).astype(np.int64)]
    others = ids[np.linspace(0, len(ids) - 1, min(PAPERS, len(ids))).astype(np.int64)]
    titles = [db.execute("SELECT title FROM papers WHERE id = ?", (int(i),)).fetchone()[0] for i in asked]
    dense = index.dense_vectors(others.tolist())
    others = np.array(list(dense), dtype=np.int64)
    cosines = encoder.encode_queries(titles).dense @ np.asarray(list(dense.values()), dtype=np.float32).T
    return _quantiles(cosines[asked[:, None] != others[None, :]], QUANTILES)


def _of_background(encoder: Encoder) -> dict[str, float]:
    titles = BACKGROUND.read_text(encoding="utf-8").splitlines()
    cosines = encoder.encode_queries(titles).dense @ encoder.encode_documents(titles).dense.T
    return _quantiles(cosines[~np.eye(len(titles), dtype=bool)], OF_BACKGROUND)


def _quantiles(cosines: npt.NDArray[np.float32], shares: Mapping[str, float]) -> dict[str, float]:
    values = np.quantile(cosines, list(shares.values())).tolist()
    return {name: math.floor(value * 100) / 100 for name, value in zip(shares, values, strict=True)}


def _with_vectors(db: sqlite3.Connection, index: VectorIndex) -> npt.NDArray[np.int64]:
    """The papers among which pairs are chosen, ascending: all, if most have vectors, else those that do."""
    ids = np.array([row[0] for row in db.execute("SELECT id FROM papers ORDER BY id")], dtype=np.int64)
    if 2 * index.count(NO_FILTERS, vector=DENSE) > len(ids):
        return ids
    papers = [
        paper
        for start in range(0, len(ids), _PER_READ)
        for paper in index.dense_vectors(ids[start : start + _PER_READ].tolist())
    ]
    return np.array(papers, dtype=np.int64)
