"""Papers written as BibTeX, RIS, CSL-JSON and CSV."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import orjson

from scholarbase.bibliographies.writers.bibtex import bibtex_entry
from scholarbase.bibliographies.writers.csl import csl_item
from scholarbase.bibliographies.writers.keys import citation_key, citation_keys
from scholarbase.bibliographies.writers.ris import ris_record
from scholarbase.bibliographies.writers.table import csv_table
from scholarbase.errors import InvalidRequest
from scholarbase.models.checks import shown
from scholarbase.models.limits import EXPORT_FORMATS, ExportFormat
from scholarbase.models.papers import Paper

__all__ = ["MEDIA_TYPES", "bibtex_entry", "citation_key", "write_papers"]

MEDIA_TYPES: Final[Mapping[str, str]] = {
    "bibtex": "application/x-bibtex; charset=utf-8",
    "ris": "application/x-research-info-systems; charset=utf-8",
    "csl": "application/vnd.citationstyles.csl+json",
    "csv": "text/csv; charset=utf-8",
}


def write_papers(papers: Iterable[Paper], format: ExportFormat = "bibtex") -> str:
    """The papers as a bibliography, in their order. An entry has what its paper's fields have.

    Args:
        format: ``bibtex``, ``ris``, ``csl`` (CSL-JSON) or ``csv``.

    Raises:
        InvalidRequest: another format.
    """
    listed = list(papers)
    if format not in EXPORT_FORMATS:
        raise InvalidRequest(f"format is {shown(format)}: use one of {', '.join(EXPORT_FORMATS)}.")
    if format == "csv":
        return csv_table(listed)
    pairs = list(zip(listed, citation_keys(listed), strict=True))
    if format == "bibtex":
        return "\n".join(bibtex_entry(paper, key, whole=True) for paper, key in pairs)
    if format == "ris":
        return "\n".join(ris_record(paper, key) for paper, key in pairs)
    items = [csl_item(paper, key) for paper, key in pairs]
    return orjson.dumps(items, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()
