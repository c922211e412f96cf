"""``/v1/papers/{id}/text`` and other parts of full texts, and ``/v1/passages/search``."""

from __future__ import annotations

from typing import Final

from scholarbase.api.responding import Call
from scholarbase.api.routes import problems, resource, route
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

route(
    router,
    "GET /{paper_id:path}/text",
    Call(Library.run_text, TextBody, TextResponse, TEXT),
    name="text",
    summary="Read a full text",
    description="The outline of a paper's full text: its sections with their sizes in tokens, and its figures and "
    "tables. With `section` or `from_offset`, that part of the text, of 100,000 characters at most. "
    "Offsets count characters (Unicode code points) of the text.",
)

route(
    router,
    "GET /{paper_id:path}/find",
    Call(Library.run_find, FindBody, FindResponse, FIND),
    name="find",
    summary="Find words, a phrase or a pattern in a full text",
    description="The places in the order of the text, each with its offsets and what surrounds it.",
)

route(
    router,
    "GET /{paper_id:path}/passages",
    Call(Library.run_paper_passages, PaperPassagesBody, PassagesResponse, PAPER_PASSAGES),
    name="passages",
    summary="The passages of a paper that answer a question",
    description="All passages of one paper are compared with the question: by words with Okapi BM25 (k1 1.5, b "
    "0.75), whose statistics are those of this paper alone, or by meaning, exactly.",
    responses=RANKED,
)

route(
    router,
    "GET /{paper_id:path}/citation-contexts",
    Call(Library.run_contexts, ContextBody, ContextsResponse, CONTEXTS),
    name="citation_contexts",
    summary="The sentences around citation marks",
    description="What other papers say where they cite this one, or what it says where it cites others. A mark of "
    "a paper that the library does not hold has the entry of the bibliography alone.",
)

route(
    router,
    "GET /{paper_id:path}/pages/{page:int}",
    Call(Library.run_page, PageBody, bytes, media_type=PNG),
    name="page_image",
    summary="The image of a page",
    description="A PNG image of a page of the paper's PDF, or of a part of it.",
)

route(
    search,
    "POST /search",
    Call(Library.run_passage_search, PassageSearchBody, PassagesResponse, tool_named("search_passages")),
    name="search_passages",
    summary="Search the passages of all papers",
    description="Filters of papers apply before passages are ranked. A passage that FTS5's query syntax matches, "
    "or that is near the question by words (BM25), by meaning, or both (reciprocal rank fusion).",
    responses=RANKED,
)


router.routes += search.routes
