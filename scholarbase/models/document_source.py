"""The methods for full texts that ``Library`` and ``Client`` share: keyword arguments to requests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Unpack

from scholarbase.models.arguments import FilterArguments, arguments_of, takes
from scholarbase.models.document_requests import (
    PASSAGE_FIELDS,
    Chunking,
    ContextBody,
    ContextDirection,
    FindBody,
    FindSyntax,
    InPaperEngine,
    PageBody,
    PaperPassagesBody,
    PassageSearch,
    TextBody,
)
from scholarbase.models.document_responses import (
    ContextsResponse,
    FindResponse,
    PassagesResponse,
    TextResponse,
)
from scholarbase.models.limits import DEFAULT_RESULTS, Mode, Syntax


class PassageArguments(FilterArguments, total=False):
    """Those of a search of passages."""

    syntax: Syntax
    mode: Mode | None
    per_paper: int | None
    fields: Sequence[str] | None
    exact: bool


class DocumentSource(ABC):
    """Full texts of a library. Subclasses run the requests."""

    @abstractmethod
    def run_text(self, request: TextBody, /) -> TextResponse: ...

    @abstractmethod
    def run_find(self, request: FindBody, /) -> FindResponse: ...

    @abstractmethod
    def run_paper_passages(self, request: PaperPassagesBody, /) -> PassagesResponse: ...

    @abstractmethod
    def run_passage_search(self, request: PassageSearch, /) -> PassagesResponse: ...

    @abstractmethod
    def run_contexts(self, request: ContextBody, /) -> ContextsResponse: ...

    @abstractmethod
    def run_page(self, request: PageBody, /) -> bytes: ...

    @takes(TextBody)
    def text(
        self,
        paper_id: str,
        *,
        section: str | None = None,
        from_offset: int | None = None,
        version: int | None = None,
        as_of: str | None = None,
        timeout: float | None = None,
    ) -> TextResponse:
        """The outline of a paper's full text, or a part of the text, of 100,000 characters at most.

        Raises:
            InvalidRequest: an argument is invalid, or the text has no such section or offset.
            PaperNotFound: the library does not hold the paper (as of ``as_of``).
            DocumentNotFound: the library has no full text of the paper, or not this version.
        """
        return self.run_text(TextBody.of(**arguments_of(locals())))

    @takes(FindBody)
    def find(
        self,
        paper_id: str,
        q: str,
        *,
        syntax: FindSyntax = "phrase",
        limit: int = DEFAULT_RESULTS,
        offset: int = 0,
        context: int = 200,
        version: int | None = None,
        as_of: str | None = None,
        fields: Sequence[str] | None = PASSAGE_FIELDS,
        timeout: float | None = None,
    ) -> FindResponse:
        """Where a paper's text has words, a phrase or a pattern, in the order of the text.

        Raises: as ``text``.
        """
        return self.run_find(FindBody.of(**arguments_of(locals())))

    @takes(PaperPassagesBody)
    def passages(
        self,
        paper_id: str,
        q: str,
        *,
        limit: int = DEFAULT_RESULTS,
        offset: int = 0,
        engine: InPaperEngine | None = None,
        chunker: Chunking | None = None,
        version: int | None = None,
        as_of: str | None = None,
        fields: Sequence[str] | None = PASSAGE_FIELDS,
        timeout: float | None = None,
    ) -> PassagesResponse:
        """The passages of one paper that answer a question, best first. All its passages are compared.

        Raises: as ``text``, and
            UnsupportedMode: the library has no encoder for the engine.
        """
        return self.run_paper_passages(PaperPassagesBody.of(**arguments_of(locals())))

    @takes(PassageSearch, PassageArguments)
    def search_passages(
        self,
        q: str,
        *,
        limit: int = DEFAULT_RESULTS,
        offset: int = 0,
        **arguments: Unpack[PassageArguments],
    ) -> PassagesResponse:
        """Search the passages of all full texts. The filters are those of papers, as in ``search``.

        Raises:
            InvalidRequest: an argument is invalid.
            DocumentNotFound: the library has no full texts.
            UnsupportedMode: the library has no vectors for the mode.
            PaperNotFound: the library does not hold a paper in ``within`` (as of ``as_of``).
            TimeLimit: the search took longer than its time limit.
        """
        return self.run_passage_search(PassageSearch.of(q=q, limit=limit, offset=offset, **arguments))

    @takes(ContextBody)
    def citation_contexts(
        self,
        paper_id: str,
        *,
        direction: ContextDirection = "citations",
        limit: int = DEFAULT_RESULTS,
        offset: int = 0,
        version: int | None = None,
        as_of: str | None = None,
        fields: Sequence[str] | None = PASSAGE_FIELDS,
        timeout: float | None = None,
    ) -> ContextsResponse:
        """The sentences around citation marks.

        Raises: as ``text``.
        """
        return self.run_contexts(ContextBody.of(**arguments_of(locals())))

    @takes(PageBody)
    def page_image(
        self,
        paper_id: str,
        page: int,
        *,
        box: Sequence[float] | None = None,
        version: int | None = None,
        as_of: str | None = None,
        timeout: float | None = None,
    ) -> bytes:
        """A PNG image of a page, where the library has the paper's PDF.

        Raises: as ``text``, and
            DocumentNotFound: the library has no PDF of the paper.
        """
        return self.run_page(PageBody.of(**arguments_of(locals())))
