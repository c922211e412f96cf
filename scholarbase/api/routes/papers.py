"""``/v1/papers``: papers by any of their ids, their citations and references, and similar papers; ``/v1/expand``."""

from __future__ import annotations

from scholarbase.api.routes import call, problems, resource
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


@router.post("/batch", summary="Look up many papers")
@call(READ)
def papers(library: Library, request: PaperBatchBody) -> PaperBatchResponse:
    """Many papers, in order; `null` for a paper that the library does not hold."""
    return library.run_papers(request)


# An id may contain slashes (hep-th/9901001, a DOI, a link), so the look-up matches any path and comes last.
@router.get("/{paper_id:path}/citations", summary="Papers that cite a paper")
@call(tool_named("get_citations"))
def citations(library: Library, request: EdgeBody) -> CitationsResponse:
    """The papers of this library that cite the paper. `total` is the number of results on all pages."""
    return library.run_citations(request)


@router.get("/{paper_id:path}/references", summary="Papers that a paper cites")
@call(tool_named("get_references"))
def references(library: Library, request: EdgeBody) -> CitationsResponse:
    """The papers of this library that the paper cites. `total` is the number of results on all pages."""
    return library.run_references(request)


@router.post(
    "/{paper_id:path}/similar",
    name="similar_by_body",
    summary="Papers similar to a paper, with a JSON body",
    description="Like `GET /v1/papers/{paper_id}/similar`, for lists of ids that are too long for a URL.",
    responses=problems(VectorIndexError),
)
@router.get(
    "/{paper_id:path}/similar", summary="Papers similar to a paper", responses=problems(VectorIndexError)
)
@call(SIMILAR)
def similar(library: Library, request: SimilarBody) -> SimilarResponse:
    """The papers nearest to the paper's dense vector, fused with those most often cited together with it. Filters apply
    before each leg takes its first results."""
    return library.run_similar(request)


@router.get("/{paper_id:path}", summary="Look up a paper")
@call(
    READ,
    arguments=lambda request: [READ.arguments_for(request, ids=[request.paper_id], missing="error")],
)
def paper(library: Library, request: PaperBody) -> PaperResponse:
    """The paper with this id, which may have any form."""
    return library.run_paper(request)


@expansions.post("", summary="Neighbours of a set of papers")
@call(tool_named("expand_papers"))
def expand(library: Library, request: ExpandBody) -> ExpandResponse:
    """The papers within one or two hops of the seeds, each once, with the number of seeds that reach it; those reached
    by most seeds come first. Filters apply to the neighbours."""
    return library.run_expand(request)


router.routes += expansions.routes
