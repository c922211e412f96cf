"""Detects the dataset of a snapshot file by its content: names and folders are the user's choice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

import orjson

from scholarbase.bibliographies import bibtex, csl, ris
from scholarbase.bibliographies.json_items import loads
from scholarbase.ingest.sources import oai, openalex
from scholarbase.ingest.sources.columns import Columns, header_of, is_record


class Dataset(StrEnum):
    """A kind of source file, in the order in which they are read: papers before the records that refer to them, and
    last those that are not used. Those of Semantic Scholar have the names of its datasets."""

    PAPERS = "papers"
    PAPER_IDS = "paper-ids"
    ABSTRACTS = "abstracts"
    PUBLICATION_VENUES = "publication-venues"
    AUTHORS = "authors"
    TLDRS = "tldrs"
    ARXIV = "arxiv"
    OPENALEX = "openalex"
    BEIR = "beir"
    BIBTEX = "bibtex"
    RIS = "ris"
    CSL_JSON = "csl-json"
    CSV = "csv"
    JSON_LINES = "json-lines"
    EXTENSION = "extension"
    CITATIONS = "citations"
    BEIR_QRELS = "beir-qrels"
    BEIR_QUERIES = "beir-queries"
    EMBEDDINGS = "embeddings"
    OPENALEX_OTHER = "openalex-other"
    S2ORC = "s2orc"


_ALL: Final = tuple(Dataset)
READ_ORDER: Final = {dataset: position for position, dataset in enumerate(_ALL)}
"""The position of each dataset in the order in which they are read."""
RELEASED: Final = frozenset({*_ALL[: _ALL.index(Dataset.ARXIV)], Dataset.CITATIONS})
"""Those that are read of the datasets of Semantic Scholar."""
OWN: Final = frozenset(_ALL[_ALL.index(Dataset.BIBTEX) : _ALL.index(Dataset.CITATIONS)])
"""People's own files, also those of formats that extensions add."""
UNUSED: Final = frozenset(_ALL[_ALL.index(Dataset.BEIR_QRELS) :])
"""Detected and skipped: vectors of another model, full texts (for ``--documents``), OpenAlex's other entities, whose
names works have, and queries and relevance judgements, which are for evaluation."""
WITH_PAPERS: Final = OWN | {Dataset.PAPERS, Dataset.ARXIV, Dataset.OPENALEX, Dataset.BEIR}
"""Datasets whose records are papers."""
_MIXED: Final = frozenset({Dataset.ARXIV, Dataset.OPENALEX, Dataset.CSL_JSON, Dataset.JSON_LINES})
"""Datasets that one JSON document may have together."""

MAX_LINES: Final = 100
"""Lines in which a record must be found."""

# The keys that all records of a dataset have, the most specific first.
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
# one. There the file names decide, which are the same in every collection.
_BEIR_NAMES: Final = {"corpus": Dataset.BEIR, "queries": Dataset.BEIR_QUERIES}
_QRELS_HEADER: Final = [b"query-id", b"corpus-id", b"score"]


def dataset_of_record(record: Mapping[str, Any]) -> Dataset | None:
    """The dataset of a record by its keys, or by the form of its id, or None."""
    if openalex.is_work(record):
        return Dataset.OPENALEX
    if openalex.is_other_entity(record):
        return Dataset.OPENALEX_OTHER
    keys = record.keys()
    dataset = next((dataset for dataset, needed in _KEYS if needed <= keys), None)
    is_other = dataset is Dataset.ARXIV and isinstance(
        record["categories"], list
    )  # a list of papers of somebody's own
    return None if is_other else dataset


def dataset_of_document(records: Iterable[bytes], name: str, columns: Columns) -> Dataset | None:
    """The dataset of the first of a hundred records of a JSON document that has one. Several kinds of papers are a list
    of somebody's own."""
    datasets = [_dataset(text, name, columns) for text in islice(records, MAX_LINES)]
    kinds = [dataset for dataset in dict.fromkeys(datasets) if dataset is not None]
    is_mixed = len(kinds) > 1 and _MIXED.issuperset(kinds)
    return Dataset.JSON_LINES if is_mixed else next(iter(kinds), None)


def _dataset(text: bytes, name: str, columns: Columns) -> Dataset | None:
    if (dataset := _snapshot([text], name)) is not None:
        return dataset
    record = loaded(text)
    if not is_record(record, columns):
        return None
    return Dataset.CSL_JSON if csl.is_item(record) else Dataset.JSON_LINES


def loaded(text: bytes) -> Any:
    """The value of a JSON text, None if it is not valid."""
    try:
        return loads(text)
    except orjson.JSONDecodeError:
        return None


def detect(lines: Iterable[bytes], name: str, columns: Columns = MappingProxyType({})) -> Dataset | None:
    """The dataset of the first record in the first hundred lines; None without one.

    The file's ``name`` distinguishes the documents of a BEIR collection from its queries. ``columns`` are the caller's
    names of columns.
    """
    seen: list[bytes] = []
    return _snapshot(_recorded(islice(lines, MAX_LINES), seen), name) or _own(seen, name, columns)


def _recorded(lines: Iterable[bytes], seen: list[bytes]) -> Iterator[bytes]:
    for line in lines:
        seen.append(line)
        yield line


def _own(lines: Sequence[bytes], name: str, columns: Columns) -> Dataset | None:
    """The format of a file of somebody's own."""
    text = b"\n".join(lines).decode("utf-8", "replace")
    if any(is_record(loaded(line), columns) for line in lines):
        return Dataset.JSON_LINES
    if ris.START.search(text):
        return Dataset.RIS
    if bibtex.START.search(text):
        return Dataset.BIBTEX
    header = header_of(text.split("\n", 2), columns)
    is_csv = header is not None and (len(header[0]) > 1 or ".csv" in name.lower())
    return Dataset.CSV if is_csv else None


def _snapshot(lines: Iterable[bytes], name: str) -> Dataset | None:
    for line in lines:
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError:
            if line.split(maxsplit=len(_QRELS_HEADER)) == _QRELS_HEADER:
                return Dataset.BEIR_QRELS
            if line.replace(b'"', b"").strip() in openalex.DELETED_HEADERS:
                return Dataset.OPENALEX
            if oai.START.search(line):
                return Dataset.ARXIV
            continue
        dataset = dataset_of_record(record) if isinstance(record, dict) else None
        if dataset in _BEIR_NAMES.values():
            return _BEIR_NAMES.get(name.split(".", 1)[0], dataset)
        if dataset is not None:
            return dataset
    return None
