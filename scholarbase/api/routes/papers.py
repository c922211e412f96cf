"""``/v1/papers``: papers by any of their ids, their citations and references, and similar papers."""

from __future__ import annotations

from dataclasses import replace

from scholarbase.api.responding import Call, native_call
from scholarbase.api.routes import add, resource
from scholarbase.errors import LibraryError, PaperNotFound, VectorIndexError
from scholarbase.models.requests import EdgeParameters, PaperBody, PaperParameters, SimilarParameters
from scholarbase.models.responses import (
    CitationsResponse,
    PaperBatchResponse,
    PaperResponse,
    SimilarResponse,
)
from scholarbase.search.library import Library
from scholarbase.tools.definitions import SIMILAR, tool_named

router = resource("/v1/papers", "papers", PaperNotFound, LibraryError)
READ, CITATIONS, REFERENCES = map(tool_named, ("get_papers", "get_citations", "get_references"))

add(
    router,
    "POST",
    "/batch",
    # The tool responds to a malformed id in its place; here the request is invalid.
    replace(native_call(READ), run=Library.run_papers),
    name="papers",
    response=PaperBatchResponse,
    summary="Look up many papers",
    description="Many papers, in order; `null` for a paper that the library does not hold.",
)
# An id may contain slashes (hep-th/9901001, a DOI, a link), so the look-up matches any path and comes last.
for tool, edges, verb, summary in (
    (CITATIONS, "citations", "cite the paper", "Papers that cite a paper"),
    (REFERENCES, "references", "the paper cites", "Papers that a paper cites"),
):
    add(
        router,
        "GET",
        f"/{{paper_id:path}}/{edges}",
        native_call(tool),
        name=edges,
        response=CitationsResponse,
        summary=summary,
        description=f"The papers of this library that {verb}. `total` is the number of results on all pages.",
        query=EdgeParameters,
    )
for method, name, summary, description in (
    (
        "GET",
        "similar",
        "Papers similar to a paper",
        "The papers nearest to the paper's dense vector, fused with those most often cited together with it. Filters "
        "apply before each leg takes its first results.",
    ),
    (
        "POST",
        "similar_by_body",
        "Papers similar to a paper, with a JSON body",
        "Like `GET /v1/papers/{paper_id}/similar`, for lists of ids that are too long for a URL.",
    ),
):
    add(
        router,
        method,
        "/{paper_id:path}/similar",
        native_call(SIMILAR),
        name=name,
        response=SimilarResponse,
        summary=summary,
        description=description,
        query=SimilarParameters,
        errors=(VectorIndexError,),
    )
add(
    router,
    "GET",
    "/{paper_id:path}",
    Call(
        READ.name,
        PaperBody,
        Library.run_paper,
        lambda body: [READ.arguments_for(body, ids=[body.paper_id], missing="error")],
        lambda library, body: True,
    ),
    name="paper",
    response=PaperResponse,
    summary="Look up a paper",
    description="The paper with this id, which may have any form.",
    query=PaperParameters,
)
