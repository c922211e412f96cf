"""Reads snapshot files as records. All sources stream: memory does not grow with the snapshot."""

from collections.abc import Callable, Mapping
from typing import Final

from scholarbase.ingest.records import Record, Reject
from scholarbase.ingest.sources import arxiv, beir, s2ag
from scholarbase.ingest.sources.detect import UNUSED, Dataset
from scholarbase.ingest.sources.files import (
    READ_ORDER,
    SourceFile,
    StoredBytes,
    discover,
    open_lines,
    sha256_of,
)

PARSERS: Final[Mapping[Dataset, Callable[[bytes], Record | Reject]]] = {
    Dataset.PAPERS: s2ag.parse_papers,
    Dataset.PAPER_IDS: s2ag.parse_paper_ids,
    Dataset.ABSTRACTS: s2ag.parse_abstracts,
    Dataset.PUBLICATION_VENUES: s2ag.parse_publication_venues,
    Dataset.AUTHORS: s2ag.parse_authors,
    Dataset.TLDRS: s2ag.parse_tldrs,
    Dataset.ARXIV: arxiv.parse_arxiv,
    Dataset.BEIR: beir.parse_beir,
    Dataset.CITATIONS: s2ag.parse_citations,
}
"""The parser of each dataset: from one line to one record or reject."""

__all__ = [
    "PARSERS",
    "READ_ORDER",
    "UNUSED",
    "Dataset",
    "SourceFile",
    "StoredBytes",
    "discover",
    "open_lines",
    "sha256_of",
]
