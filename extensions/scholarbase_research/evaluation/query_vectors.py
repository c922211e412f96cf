"""Vectors of a query set's queries, of one's own model, in the formats of ``ingest --vectors``."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from scholarbase.encoders.computed import QueryVectors
from scholarbase.errors import EncoderMismatch, QueryFileError
from scholarbase.ingest.sources.vectors import open_vectors
from scholarbase.manifest import read_manifest
from scholarbase.search.plan import text_without_markup
from scholarbase_research.evaluation.queries import QuerySet
from scholarbase_research.evaluation.requests import CHECKED


def read_query_vectors(path: Path, queries: QuerySet, library: Path) -> tuple[QueryVectors, str]:
    """The vectors of the queries at ``path``, for the library in a folder, and their SHA-256.

    ``path`` is float32 of shape (queries, dimensions) in a ``.npy`` file, with ``ids.txt`` beside it: line n has the id
    of the query of row n. Or Parquet (:mod:`scholarbase.ingest.sources.vectors`). Other ids are ignored.

    Raises:
        SourceError: the file cannot be read.
        QueryFileError: a query has no vector, or two queries with one text have different ones.
        EncoderMismatch: the library has no vectors, or ones of other dimensions.
    """
    by_id = {
        name: vector for ids, vectors in open_vectors(path) for name, vector in zip(ids, vectors, strict=True)
    }
    spec = read_manifest(library)[0].encoder
    dimensions = len(next(iter(by_id.values())))
    if spec is None or spec.dimensions != dimensions:
        other = "no vectors" if spec is None else f"{spec.dimensions} ({spec.name})"
        raise EncoderMismatch(
            f"The vectors at {path} have {dimensions} dimensions, and the library at {library} has {other}: give "
            "vectors of the model that the library was built with."
        )
    digest = hashlib.sha256()
    by_text: dict[str, npt.NDArray[np.float32]] = {}
    for query in queries.queries:
        vector = by_id.get(query.id)
        if vector is None:
            raise QueryFileError(
                f"{path} has no vector of the query {query.id!r}: each query of {queries.name} needs one, under its id."
            )
        if not np.array_equal(by_text.setdefault(text_without_markup(query.text), vector), vector):
            raise QueryFileError(
                f"{path} has another vector for the query {query.id!r} than for one of equal text."
            )
        digest.update(vector.tobytes())
    by_text.setdefault(CHECKED, np.zeros(dimensions, np.float32))
    return QueryVectors(spec, by_text), digest.hexdigest()
