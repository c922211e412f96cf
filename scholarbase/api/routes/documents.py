"""``/v1/papers/{id}/text`` and other parts of full texts, and ``/v1/passages/search``."""

from __future__ import annotations

from typing import Final

from scholarbase.api.responding import Call, native_call
from scholarbase.api.routes import add, resource
from scholarbase.errors import DocumentNotFound, EncoderError, LibraryError, PaperNotFound, VectorIndexError
from scholarbase.models.document_requests import (
    ContextParameters,
    FindParameters,
    PageBody,
    PageParameters,
    PaperPassagesParameters,
    TextParameters,
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

router = resource("/v1/papers", "full texts", DocumentNotFound, PaperNotFound, LibraryError)
search = resource("/v1/passages", "full texts", DocumentNotFound, PaperNotFound, LibraryError)

add(
    router,
    "GET",
    "/{paper_id:path}/text",
    native_call(TEXT),
    name="text",
    response=TextResponse,
    summary="Read a full text",
    description="The outline of a paper's full text: its sections with their sizes in tokens, and its figures and "
    "tables. With `section` or `from_offset`, that part of the text, of 100,000 characters at most. Offsets count "
    "characters (Unicode code points) of the text.",
    query=TextParameters,
)
add(
    router,
    "GET",
    "/{paper_id:path}/find",
    native_call(FIND),
    name="find",
    response=FindResponse,
    summary="Find words, a phrase or a pattern in a full text",
    description="The places in the order of the text, each with its offsets and what surrounds it.",
    query=FindParameters,
)
add(
    router,
    "GET",
    "/{paper_id:path}/passages",
    native_call(PAPER_PASSAGES),
    name="passages",
    response=PassagesResponse,
    summary="The passages of a paper that answer a question",
    description="All passages of one paper are compared with the question: by words with Okapi BM25 (k1 1.5, b 0.75), "
    "whose statistics are those of this paper alone, or by meaning, exactly.",
    query=PaperPassagesParameters,
    errors=(EncoderError, VectorIndexError),
)
add(
    router,
    "GET",
    "/{paper_id:path}/citation-contexts",
    native_call(CONTEXTS),
    name="citation_contexts",
    response=ContextsResponse,
    summary="The sentences around citation marks",
    description="What other papers say where they cite this one, or what it says where it cites others. A mark of a "
    "paper that the library does not hold has the entry of the bibliography alone.",
    query=ContextParameters,
)
add(
    router,
    "GET",
    "/{paper_id:path}/pages/{page:int}",
    Call(None, PageBody, Library.run_page, media_type=PNG),
    name="page_image",
    response=None,
    summary="The image of a page",
    description="A PNG image of a page of the paper's PDF, or of a part of it.",
    query=PageParameters,
)
add(
    search,
    "POST",
    "/search",
    native_call(tool_named("search_passages")),
    name="search_passages",
    response=PassagesResponse,
    summary="Search the passages of all papers",
    description="Filters of papers apply before passages are ranked. A passage that FTS5's query syntax matches, or "
    "that is near the question by words (BM25), by meaning, or both (reciprocal rank fusion).",
    errors=(EncoderError, VectorIndexError),
)
router.routes += search.routes
