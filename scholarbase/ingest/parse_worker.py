"""The process that parses the lines of a large file (:mod:`scholarbase.ingest.sources.parsing`)."""

from __future__ import annotations

from scholarbase.ingest.sources.parsing import parse_batches
from scholarbase.workers import work

if __name__ == "__main__":
    work(parse_batches)
