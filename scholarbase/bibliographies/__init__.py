"""Bibliographies read as references: BibTeX, RIS, CSL-JSON, and plain lines, ids among them."""

from scholarbase.bibliographies.reading import Bibliography, read_bibliography
from scholarbase.bibliographies.references import Reference

__all__ = ["Bibliography", "Reference", "read_bibliography"]
