"""``/v1/expand``: from a set of papers along their citations."""

from __future__ import annotations

from starlette.responses import Response

from scholarbase.api.answers import answer
from scholarbase.api.routes import OpenLibrary, resource
from scholarbase.schemas import ExpandAnswer, ExpandBody

router = resource("/v1/expand", "papers")


@router.post(
    "", response_model=None, responses={200: {"model": ExpandAnswer}}, summary="Neighbours of a set of papers"
)
def expand(library: OpenLibrary, body: ExpandBody) -> Response:
    """Each paper that the seeds reach within one or two hops, once, with how many seeds reach it; those that
    most of them reach come first. Filters hold for the neighbours."""
    return answer(library.expand(**body.model_dump()).to_dict())
