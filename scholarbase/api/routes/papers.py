"""``/v1/papers``: papers by any of their ids, and their citations and references."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query
from starlette.responses import Response

from scholarbase.api.answers import answer, answered
from scholarbase.api.routes import OpenLibrary, resource
from scholarbase.schemas import (
    EXAMPLE_ID,
    CitationsAnswer,
    EdgeParameters,
    OnePaperAnswer,
    PaperBatchAnswer,
    PaperBatchBody,
    PaperParameters,
)
from scholarbase.api.strict import separated
from scholarbase.models import check_fields

router = resource("/v1/papers", "papers")

PaperId = Annotated[
    str,
    Path(
        description="The paper's id in any form: arXiv (new or old, with version or prefix, or a link), CorpusId:, "
        "a Semantic Scholar sha, DOI:, ACL:, PMID:, MAG:, URL:.",
        examples=[EXAMPLE_ID],
    ),
]


@router.post(
    "/batch", response_model=None, responses={200: {"model": PaperBatchAnswer}}, summary="Look up many papers"
)
def papers(library: OpenLibrary, body: PaperBatchBody) -> Response:
    """Many papers, in order; `null` stands in the place of one that the library does not hold."""
    wanted = check_fields(body.fields)
    found = library.papers(body.ids, as_of=body.as_of, fields=wanted)
    results = [None if paper is None else paper.to_dict(wanted) for paper in found]
    return answer({"snapshot": library.snapshot_id, "results": results})


# An id may hold slashes (hep-th/9901001, a DOI, a link), so these stand before the look-up, which takes them all.
@router.get(
    "/{paper_id:path}/citations",
    response_model=None,
    responses={200: {"model": CitationsAnswer}},
    summary="Papers that cite a paper",
)
async def citations(
    library: OpenLibrary, paper_id: PaperId, parameters: Annotated[EdgeParameters, Query()]
) -> Response:
    """The papers of this library that cite the paper. `total` counts what paging returns."""
    return await answered(
        lambda: library.citations(paper_id, **_arguments(parameters)).to_dict(),
        brief=library.has_few_edges(paper_id, "citations", as_of=parameters.as_of),
    )


@router.get(
    "/{paper_id:path}/references",
    response_model=None,
    responses={200: {"model": CitationsAnswer}},
    summary="Papers that a paper cites",
)
async def references(
    library: OpenLibrary, paper_id: PaperId, parameters: Annotated[EdgeParameters, Query()]
) -> Response:
    """The papers of this library that the paper cites. `total` counts what paging returns."""
    return await answered(
        lambda: library.references(paper_id, **_arguments(parameters)).to_dict(),
        brief=library.has_few_edges(paper_id, "references", as_of=parameters.as_of),
    )


@router.get(
    "/{paper_id:path}",
    response_model=None,
    responses={200: {"model": OnePaperAnswer}},
    summary="Look up a paper",
)
async def paper(
    library: OpenLibrary, paper_id: PaperId, parameters: Annotated[PaperParameters, Query()]
) -> Response:
    """The paper that an id names, in any of its forms."""
    wanted = check_fields(separated(parameters.fields))
    found = library.paper(paper_id, as_of=parameters.as_of, fields=wanted)
    return answer({"snapshot": library.snapshot_id, **found.to_dict(wanted)})


def _arguments(parameters: EdgeParameters) -> dict[str, Any]:
    return {**vars(parameters), "fields": separated(parameters.fields)}
