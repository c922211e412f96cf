"""What a snapshot file is, told by its content: names and folders are the user's to choose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from itertools import islice
from typing import Any, Final

import orjson


class Dataset(StrEnum):
    """A kind of snapshot file. All but ``arxiv`` and ``beir`` bear the names of the Semantic Scholar datasets."""

    PAPERS = "papers"
    PAPER_IDS = "paper-ids"
    ABSTRACTS = "abstracts"
    PUBLICATION_VENUES = "publication-venues"
    AUTHORS = "authors"
    TLDRS = "tldrs"
    ARXIV = "arxiv"
    CITATIONS = "citations"
    EMBEDDINGS = "embeddings"
    S2ORC = "s2orc"
    BEIR = "beir"
    BEIR_QUERIES = "beir-queries"
    BEIR_QRELS = "beir-qrels"


UNUSED: Final = frozenset({Dataset.EMBEDDINGS, Dataset.S2ORC, Dataset.BEIR_QUERIES, Dataset.BEIR_QRELS})
"""Recognised, and not read: their vectors come from another model; full texts are not indexed; queries and
judgements are for an evaluation."""

LINES_LOOKED_AT: Final = 100
"""A file whose first hundred lines say nothing is no snapshot file."""

# The keys that a record of a dataset always has, the most telling first.
_KEYS: Final[tuple[tuple[Dataset, frozenset[str]], ...]] = (
    (Dataset.CITATIONS, frozenset({"citingcorpusid", "citedcorpusid"})),
    (Dataset.PAPER_IDS, frozenset({"corpusid", "sha", "primary"})),
    (Dataset.ABSTRACTS, frozenset({"corpusid", "abstract"})),
    (Dataset.EMBEDDINGS, frozenset({"corpusid", "vector"})),
    (Dataset.S2ORC, frozenset({"corpusid", "content"})),
    (Dataset.S2ORC, frozenset({"corpusid", "body"})),
    (Dataset.TLDRS, frozenset({"corpusid", "text", "model"})),
    (Dataset.PAPERS, frozenset({"corpusid", "title", "externalids"})),
    (Dataset.AUTHORS, frozenset({"authorid", "name"})),
    (Dataset.PUBLICATION_VENUES, frozenset({"id", "name", "alternate_names"})),
    (Dataset.ARXIV, frozenset({"id", "title", "categories"})),
    (Dataset.BEIR, frozenset({"_id", "title", "text"})),
    (Dataset.BEIR_QUERIES, frozenset({"_id", "text"})),
)
# Documents and queries of a BEIR collection may have the same keys: a query with an empty title, a document without
# one. There the names count, which are the same in every collection.
_BEIR_NAMES: Final = {"corpus": Dataset.BEIR, "queries": Dataset.BEIR_QUERIES}
_QRELS_HEADER: Final = [b"query-id", b"corpus-id", b"score"]


def dataset_of_record(record: Mapping[str, Any]) -> Dataset | None:
    """The dataset that an object with these keys belongs to, or None."""
    keys = record.keys()
    return next((dataset for dataset, needed in _KEYS if needed <= keys), None)


def detect(lines: Iterable[bytes], name: str) -> Dataset | None:
    """The dataset of the first line, among the first hundred, that is a record of one; None if none is. The file's
    ``name`` tells the documents of a BEIR collection from its queries."""
    for line in islice(lines, LINES_LOOKED_AT):
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError:
            if line.split() == _QRELS_HEADER:
                return Dataset.BEIR_QRELS
            continue
        dataset = dataset_of_record(record) if isinstance(record, dict) else None
        if dataset in _BEIR_NAMES.values():
            return _BEIR_NAMES.get(name.split(".", 1)[0], dataset)
        if dataset is not None:
            return dataset
    return None
