"""``/v1/title-match``: papers by their titles."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from scholarbase.api.answers import answer
from scholarbase.api.routes import OpenLibrary, resource
from scholarbase.api.schemas import TitleBatchBody, TitleParameters, TitlesAnswer, TitlesBatchAnswer
from scholarbase.api.strict import separated

router = resource("/v1/title-match", "titles")


@router.get("", response_model=None, responses={200: {"model": TitlesAnswer}}, summary="Match a title")
def match_title(library: OpenLibrary, parameters: Annotated[TitleParameters, Query()]) -> Response:
    """The papers with this title (score 1), then those with titles like it. No such paper is an empty list."""
    p = parameters
    found = library.match_title(p.title, limit=p.limit, min_score=p.min_score, fields=separated(p.fields))
    return answer(found.to_dict())


@router.post(
    "/batch", response_model=None, responses={200: {"model": TitlesBatchAnswer}}, summary="Match many titles"
)
def match_titles(library: OpenLibrary, body: TitleBatchBody) -> Response:
    """Many titles, answered in order: a list of matches for each, empty where there is none."""
    found = library.match_titles(body.titles, limit=body.limit, min_score=body.min_score, fields=body.fields)
    return answer({"snapshot": library.snapshot_id, "results": [f.to_dict()["results"] for f in found]})
