"""``/v1/papers/{id}/text`` and other parts of full texts, and ``/v1/passages/search``."""

from __future__ import annotations

from typing import Final

from scholarbase.api.routes import call, problems, resource
from scholarbase.errors import DocumentNotFound, EncoderError, LibraryError, PaperNotFound, VectorIndexError
from scholarbase.models.document_requests import (
    ContextBody,
    FindBody,
    PageBody,
    PaperPassagesBody,
    PassageSearchBody,
    TextBody,
)
from scholarbase.models.document_responses import (
    ContextsResponse,
    FindResponse,
    PassagesResponse,
    TextResponse,
)
from scholarbase.search.library import Library
from scholarbase.tools.definitions import CONTEXTS, FIND, PAPER_PASSAGES, TEXT, tool_named

PNG: Final = "image/png"
RANKED: Final = problems(EncoderError, VectorIndexError)

router = resource("/v1/papers", "full texts", DocumentNotFound, PaperNotFound, LibraryError)
search = resource("/v1/passages", "full texts", DocumentNotFound, PaperNotFound, LibraryError)


@router.get("/{paper_id:path}/text", summary="Read a full text")
@call(TEXT)
def text(library: Library, request: TextBody) -> TextResponse:
    """The outline of a paper's full text: its sections with their sizes in tokens, and its figures and tables. With
    `section` or `from_offset`, that part of the text, of 100,000 characters at most. Offsets count characters (Unicode
    code points) of the text."""
    return library.run_text(request)


@router.get("/{paper_id:path}/find", summary="Find words, a phrase or a pattern in a full text")
@call(FIND)
def find(library: Library, request: FindBody) -> FindResponse:
    """The places in the order of the text, each with its offsets and what surrounds it."""
    return library.run_find(request)


@router.get(
    "/{paper_id:path}/passages",
    summary="The passages of a paper that answer a question",
    responses=RANKED,
)
@call(PAPER_PASSAGES)
def passages(library: Library, request: PaperPassagesBody) -> PassagesResponse:
    """All passages of one paper are compared with the question: by words with Okapi BM25 (k1 1.5, b 0.75), whose
    statistics are those of this paper alone, or by meaning, exactly."""
    return library.run_paper_passages(request)


@router.get("/{paper_id:path}/citation-contexts", summary="The sentences around citation marks")
@call(CONTEXTS)
def citation_contexts(library: Library, request: ContextBody) -> ContextsResponse:
    """What other papers say where they cite this one, or what it says where it cites others. A mark of a paper that the
    library does not hold has the entry of the bibliography alone."""
    return library.run_contexts(request)


@router.get("/{paper_id:path}/pages/{page:int}", summary="The image of a page")
@call(media_type=PNG)
def page_image(library: Library, request: PageBody) -> bytes:
    """A PNG image of a page of the paper's PDF, or of a part of it."""
    return library.run_page(request)


@search.post("/search", summary="Search the passages of all papers", responses=RANKED)
@call(tool_named("search_passages"))
def search_passages(library: Library, request: PassageSearchBody) -> PassagesResponse:
    """Filters of papers apply before passages are ranked. A passage that FTS5's query syntax matches, or that is near
    the question by words (BM25), by meaning, or both (reciprocal rank fusion)."""
    return library.run_passage_search(request)


router.routes += search.routes
