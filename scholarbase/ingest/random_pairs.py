"""How similar an encoder's vectors of unrelated texts are.

Cosines have no absolute meaning: two random papers have a cosine of 0.1 with one encoder and 0.5 with another. The
manifest has quantiles of random pairs, which searches use as lower limits of similarity.
"""

from __future__ import annotations

import math
import sqlite3
from typing import Final

import numpy as np

from scholarbase.encoders import Encoder
from scholarbase.ingest.dense import DenseLookup

QUERIES: Final = 200
"""Titles that are encoded as queries, at even distances over the library."""
PAPERS: Final = 1_000
"""Papers that each is compared with."""
LEAST: Final = 500
"""Pairs among fewer papers say little: many of them may be about one topic."""
QUANTILES: Final = {"p75": 0.75, "p999": 0.999}
"""The stored quantiles: 75% and 99.9% of the pairs have a lower cosine."""


def random_similarity(
    db: sqlite3.Connection, lookup: DenseLookup, encoder: Encoder
) -> dict[str, float] | None:
    """Quantiles of the cosine between titles, as queries, and other papers; None with fewer than :data:`LEAST` vectors.

    They are rounded down to hundredths, so that builds on different machines mostly agree.

    Raises:
        EncoderError: the encoder fails.
    """
    ids = lookup.ids
    if len(ids) < LEAST or encoder.spec.dimensions == 0:
        return None
    # Two sizes without a common step: a title is rarely compared with its own paper, and then left out.
    asked = ids[np.linspace(0, len(ids) - 1, min(QUERIES, len(ids))).astype(np.int64)]
    others = ids[np.linspace(0, len(ids) - 1, min(PAPERS, len(ids))).astype(np.int64)]
    titles = [db.execute("SELECT title FROM papers WHERE id = ?", (int(i),)).fetchone()[0] for i in asked]
    papers = [found[0] for i in others if (found := lookup.get(int(i))) and found[0] is not None]
    cosines = encoder.encode_queries(titles).dense @ np.asarray(papers, dtype=np.float32).T
    values = np.quantile(cosines[asked[:, None] != others[None, :]], list(QUANTILES.values()))
    return {
        name: math.floor(value * 100) / 100 for name, value in zip(QUANTILES, values.tolist(), strict=True)
    }
