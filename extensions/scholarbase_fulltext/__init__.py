"""Readers of full texts, and page images of PDFs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scholarbase.extensions import Extension


class FullText(Extension):
    """Readers of JATS, LaTeXML, unarXive, S2ORC, Markdown, plain text and PDF, and page images of PDFs."""

    def document_readers(self) -> Sequence[Any]:
        from scholarbase.documents.readers import DocumentReader
        from scholarbase_fulltext import sources
        from scholarbase_fulltext.rendering import PdfRenderer

        return [
            DocumentReader(
                sources.FORMS, sources.source_of, sources.read_documents, sources.sidecar_of, PdfRenderer
            )
        ]
