"""``/v1/papers``: papers by any of their ids, and their citations and references."""

from __future__ import annotations

from scholarbase.api.responding import Call
from scholarbase.api.routes import add, resource
from scholarbase.models.requests import EdgeBody, EdgeParameters, PaperBatchBody, PaperBody, PaperParameters
from scholarbase.models.responses import CitationsResponse, PaperBatchResponse, PaperResponse
from scholarbase.search.library import Library
from scholarbase.tools.definitions import tool_named

router = resource("/v1/papers", "papers")
READ, CITATIONS, REFERENCES = map(tool_named, ("get_papers", "get_citations", "get_references"))

add(
    router,
    "POST",
    "/batch",
    Call(READ.name, PaperBatchBody, READ.run, lambda body: [READ.arguments_for(body)], READ.is_short),
    name="papers",
    response=PaperBatchResponse,
    summary="Look up many papers",
    description="Many papers, in order; `null` for a paper that the library does not hold.",
)
# An id may contain slashes (hep-th/9901001, a DOI, a link), so the look-up matches any path and comes last.
add(
    router,
    "GET",
    "/{paper_id:path}/citations",
    Call(
        CITATIONS.name,
        EdgeBody,
        CITATIONS.run,
        lambda body: [CITATIONS.arguments_for(body)],
        CITATIONS.is_short,
    ),
    name="citations",
    response=CitationsResponse,
    summary="Papers that cite a paper",
    description="The papers of this library that cite the paper. `total` is the number of results on all pages.",
    query=EdgeParameters,
)
add(
    router,
    "GET",
    "/{paper_id:path}/references",
    Call(
        REFERENCES.name,
        EdgeBody,
        REFERENCES.run,
        lambda body: [REFERENCES.arguments_for(body)],
        REFERENCES.is_short,
    ),
    name="references",
    response=CitationsResponse,
    summary="Papers that a paper cites",
    description="The papers of this library that the paper cites. `total` is the number of results on all pages.",
    query=EdgeParameters,
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
