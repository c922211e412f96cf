"""``/v1/papers``: papers by any of their ids, and their citations and references."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Request
from starlette.responses import Response

from scholarbase.api.answers import answered
from scholarbase.api.responding import has_few_edges, is_plain, respond
from scholarbase.api.routes import OpenLibrary, resource
from scholarbase.api.strict import separated
from scholarbase.models import check_fields
from scholarbase.models.schemas import (
    EXAMPLE_ID,
    CitationsAnswer,
    EdgeBody,
    EdgeParameters,
    OnePaperAnswer,
    PaperBatchAnswer,
    PaperBatchBody,
    PaperParameters,
)
from scholarbase.search.library import Library
from scholarbase.tools.definitions import Tool, run_papers, tool_named, walk

router = resource("/v1/papers", "papers")
READ, CITATIONS, REFERENCES = map(tool_named, ("get_papers", "get_citations", "get_references"))

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
async def papers(request: Request, library: OpenLibrary, body: PaperBatchBody) -> Response:
    """Many papers, in order; `null` stands in the place of one that the library does not hold."""
    return await respond(
        request,
        library,
        READ.name,
        body,
        lambda asked: run_papers(library, asked),
        calls=lambda: [READ.given(body)],
    )


# An id may hold slashes (hep-th/9901001, a DOI, a link), so these stand before the look-up, which takes them all.
@router.get(
    "/{paper_id:path}/citations",
    response_model=None,
    responses={200: {"model": CitationsAnswer}},
    summary="Papers that cite a paper",
)
async def citations(
    request: Request,
    library: OpenLibrary,
    paper_id: PaperId,
    parameters: Annotated[EdgeParameters, Query()],
) -> Response:
    """The papers of this library that cite the paper. `total` counts what paging returns."""
    return await _edges(request, library, CITATIONS, paper_id, parameters)


@router.get(
    "/{paper_id:path}/references",
    response_model=None,
    responses={200: {"model": CitationsAnswer}},
    summary="Papers that a paper cites",
)
async def references(
    request: Request,
    library: OpenLibrary,
    paper_id: PaperId,
    parameters: Annotated[EdgeParameters, Query()],
) -> Response:
    """The papers of this library that the paper cites. `total` counts what paging returns."""
    return await _edges(request, library, REFERENCES, paper_id, parameters)


@router.get(
    "/{paper_id:path}",
    response_model=None,
    responses={200: {"model": OnePaperAnswer}},
    summary="Look up a paper",
)
async def paper(
    request: Request,
    library: OpenLibrary,
    paper_id: PaperId,
    parameters: Annotated[PaperParameters, Query()],
) -> Response:
    """The paper that an id names, in any of its forms."""
    wanted = check_fields(separated(parameters.fields))

    def run(asked: PaperParameters) -> dict[str, Any]:
        found = library.paper(paper_id, as_of=asked.as_of, fields=wanted)
        return {"snapshot": library.snapshot_id, **found.to_dict(wanted)}

    def calls() -> list[dict[str, Any]]:
        given = parameters.model_copy(update={"fields": separated(parameters.fields)})
        return [READ.given(given, ids=[paper_id], missing="error")]

    return await respond(request, library, READ.name, parameters, run, calls=calls)


async def _edges(
    request: Request, library: Library, tool: Tool, paper_id: str, parameters: EdgeParameters
) -> Response:
    given = {**vars(parameters), "paper_id": paper_id, "fields": separated(parameters.fields)}
    if is_plain(request, parameters):
        # The shortest way, since these answers take little else.
        return await answered(
            lambda: walk(library, tool.name, given), brief=has_few_edges(library, tool.name, given)
        )
    asked = EdgeBody.model_construct(**given)
    return await respond(
        request,
        library,
        tool.name,
        asked,
        lambda edges: tool.run(library, edges),
        calls=lambda: [tool.given(asked)],
    )
