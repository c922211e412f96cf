"""The methods for full texts that ``Library`` and ``Client`` share: keyword arguments to requests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from scholarbase.models.author_source import arguments_of
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


class DocumentSource(ABC):
    """Full texts of a library. Subclasses run the requests."""

    @abstractmethod
    def run_text(self, request: TextBody) -> TextResponse: ...

    @abstractmethod
    def run_find(self, request: FindBody) -> FindResponse: ...

    @abstractmethod
    def run_paper_passages(self, request: PaperPassagesBody) -> PassagesResponse: ...

    @abstractmethod
    def run_passage_search(self, request: PassageSearch) -> PassagesResponse: ...

    @abstractmethod
    def run_contexts(self, request: ContextBody) -> ContextsResponse: ...

    @abstractmethod
    def run_page(self, request: PageBody) -> bytes: ...

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

        Args:
            paper_id: an id of any form.
            section: read this section with its subsections: its number (``2.1``), its title, or ``#`` and its place in
                the outline.
            from_offset: read from this character on: the ``next_offset`` of the part before.
            version: a version of the paper; None is the latest one whose text the library has.
            as_of: as in ``paper``.
            timeout: seconds that the request may take.

        Raises:
            InvalidRequest: an argument is invalid, or the text has no such section or offset.
            PaperNotFound: the library does not hold the paper (as of ``as_of``).
            DocumentNotFound: the library has no full text of the paper, or not this version.
        """
        return self.run_text(TextBody.of(**arguments_of(locals())))

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

        Args:
            paper_id: an id of any form.
            q: what to find.
            syntax: read ``q`` as a ``phrase``, as ``words`` of which any may match, or as a ``regex`` of RE2.
            limit: the number of results, 1 to 100.
            offset: the number of results to skip: the ``next_offset`` of the previous page.
            context: characters before and after a match, 0 to 2000.
            version, as_of, timeout: as in ``text``.
            fields: the fields of the paper in each result.

        Raises: as ``text``.
        """
        return self.run_find(FindBody.of(**arguments_of(locals())))

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

        Args:
            paper_id: an id of any form.
            q: a question or words.
            limit: the number of results, 1 to 100.
            offset: the number of results to skip: the ``next_offset`` of the previous page.
            engine: ``bm25`` (by words: Okapi BM25 with k1 = 1.5 and b = 0.75), ``dense`` (by meaning) or ``hybrid``.
                None: hybrid if the library has an encoder, else bm25.
            chunker: how the text is cut: ``tokens-512``, ``sentences-512``, ``sentences-10-1`` or ``paragraphs``. None
                is that of the library's index.
            version, as_of, timeout: as in ``text``.
            fields: the fields of the paper in each result.

        Raises: as ``text``, and
            UnsupportedMode: the library has no encoder for the engine.
        """
        return self.run_paper_passages(PaperPassagesBody.of(**arguments_of(locals())))

    def search_passages(
        self,
        q: str,
        *,
        syntax: Syntax = "auto",
        mode: Mode | None = None,
        limit: int = DEFAULT_RESULTS,
        offset: int = 0,
        per_paper: int | None = None,
        fields: Sequence[str] | None = PASSAGE_FIELDS,
        from_: str | None = None,
        to: str | None = None,
        category: Sequence[str] = (),
        venue: Sequence[str] = (),
        author: Sequence[str] = (),
        min_citations: int | None = None,
        status: Sequence[str] = (),
        exclude: Sequence[str] = (),
        exclude_ids: Sequence[str] = (),
        within: Sequence[str] | None = None,
        as_of: str | None = None,
        exact: bool = False,
        timeout: float | None = None,
    ) -> PassagesResponse:
        """Search the passages of all full texts. The filters are those of papers, as in ``search``.

        Args:
            q: a question or words, or query syntax: ``"a phrase"``, AND, OR, NOT, ``prefix*``.
            syntax: ``plain`` reads ``q`` as words, ``query`` as query syntax, ``auto`` as query syntax if it contains
                some, unless it is prose that few passages match so.
            mode: ``sparse`` (by words), ``dense`` (by meaning) or ``hybrid``. None: hybrid if the library supports it,
                else sparse.
            limit: the number of results, 1 to 100.
            offset: the number of results to skip: the ``next_offset`` of the previous page.
            per_paper: at most so many passages of a paper, which come together.
            fields: the fields of each passage's paper.
            exact: search dense vectors without approximation.

        Raises:
            InvalidRequest: an argument is invalid.
            DocumentNotFound: the library has no full texts.
            UnsupportedMode: the library has no vectors for the mode.
            PaperNotFound: the library does not hold a paper in ``within`` (as of ``as_of``).
            TimeLimit: the search took longer than its time limit.
        """
        return self.run_passage_search(PassageSearch.of(**arguments_of(locals())))

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

        Args:
            paper_id: an id of any form.
            direction: what other papers say where they cite this one (``citations``), or what it says where it cites
                others (``references``).
            limit: the number of results, 1 to 100.
            offset: the number of results to skip: the ``next_offset`` of the previous page.
            version: as in ``text``, for ``references``.
            as_of, timeout: as in ``text``.
            fields: the fields of the citing or cited papers.

        Raises: as ``text``.
        """
        return self.run_contexts(ContextBody.of(**arguments_of(locals())))

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

        Args:
            paper_id: an id of any form.
            page: the number of the page, from 1.
            box: x, y, width and height of a part of the page, in points from its top left corner.
            version, as_of, timeout: as in ``text``.

        Raises: as ``text``, and
            DocumentNotFound: the library has no PDF of the paper.
        """
        return self.run_page(PageBody.of(**arguments_of(locals())))
