"""Reads source files as records. Snapshots stream: memory does not grow with them."""

from scholarbase.ingest.sources.added import SourceFormat, formats
from scholarbase.ingest.sources.columns import Columns, parse_columns
from scholarbase.ingest.sources.detect import OWN, READ_ORDER, RELEASED, UNUSED, WITH_PAPERS, Dataset
from scholarbase.ingest.sources.files import (
    SourceFile,
    StoredBytes,
    changed_while_read,
    discover,
    files_of,
    open_lines,
    sha256_of,
)
from scholarbase.ingest.sources.parsing import PARSERS
from scholarbase.ingest.sources.reading import Entry, read_records
from scholarbase.ingest.sources.unfinished import check_complete

__all__ = [
    "OWN",
    "PARSERS",
    "READ_ORDER",
    "RELEASED",
    "UNUSED",
    "WITH_PAPERS",
    "Columns",
    "Dataset",
    "Entry",
    "SourceFile",
    "SourceFormat",
    "StoredBytes",
    "changed_while_read",
    "check_complete",
    "discover",
    "files_of",
    "formats",
    "open_lines",
    "parse_columns",
    "read_records",
    "sha256_of",
]
