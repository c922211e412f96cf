"""``/v1/papers``: papers by any of their ids, their citations and references, and similar papers; ``/v1/expand``."""

from __future__ import annotations

from scholarbase.api.responding import Call
from scholarbase.api.routes import problems, resource, route
from scholarbase.errors import LibraryError, PaperNotFound, VectorIndexError
from scholarbase.models.requests import EdgeBody, ExpandBody, PaperBatchBody, PaperBody, SimilarBody
from scholarbase.models.responses import (
    CitationsResponse,
    ExpandResponse,
    PaperBatchResponse,
    PaperResponse,
    SimilarResponse,
)
from scholarbase.search.library import Library
from scholarbase.tools.definitions import SIMILAR, tool_named

router = resource("/v1/papers", "papers", PaperNotFound, LibraryError)
expansions = resource("/v1/expand", "papers", PaperNotFound, LibraryError)
READ = tool_named("get_papers")

route(
    router,
    "POST /batch",
    Call(Library.run_papers, PaperBatchBody, PaperBatchResponse, READ),
    name="papers",
    summary="Look up many papers",
    description="Many papers, in order; `null` for a paper that the library does not hold.",
)


# An id may contain slashes (hep-th/9901001, a DOI, a link), so the look-up matches any path and comes last.
route(
    router,
    "GET /{paper_id:path}/citations",
    Call(Library.run_citations, EdgeBody, CitationsResponse, tool_named("get_citations")),
    name="citations",
    summary="Papers that cite a paper",
    description="The papers of this library that cite the paper. `total` is the number of results on all pages.",
)

route(
    router,
    "GET /{paper_id:path}/references",
    Call(Library.run_references, EdgeBody, CitationsResponse, tool_named("get_references")),
    name="references",
    summary="Papers that a paper cites",
    description="The papers of this library that the paper cites. `total` is the number of results on all pages.",
)

_similar = Call(Library.run_similar, SimilarBody, SimilarResponse, SIMILAR)
route(
    router,
    "GET /{paper_id:path}/similar",
    _similar,
    name="similar",
    summary="Papers similar to a paper",
    description="The papers nearest to the paper's dense vector, fused with those most often cited together with "
    "it. Filters apply before each leg takes its first results.",
    responses=problems(VectorIndexError),
)
route(
    router,
    "POST /{paper_id:path}/similar",
    _similar,
    name="similar_by_body",
    summary="Papers similar to a paper, with a JSON body",
    description="Like `GET /v1/papers/{paper_id}/similar`, for lists of ids that are too long for a URL.",
    responses=problems(VectorIndexError),
)

route(
    router,
    "GET /{paper_id:path}",
    Call(
        Library.run_paper,
        PaperBody,
        PaperResponse,
        READ,
        arguments=lambda request: [READ.arguments_for(request, ids=[request.paper_id], missing="error")],
    ),
    name="paper",
    summary="Look up a paper",
    description="The paper with this id, which may have any form.",
)

route(
    expansions,
    "POST",
    Call(Library.run_expand, ExpandBody, ExpandResponse, tool_named("expand_papers")),
    name="expand",
    summary="Neighbours of a set of papers",
    description="The papers within one or two hops of the seeds, each once, with the number of seeds that reach "
    "it; those reached by most seeds come first. Filters apply to the neighbours.",
)


router.routes += expansions.routes
