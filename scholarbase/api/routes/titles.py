"""``/v1/title-match``: papers by their titles."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Query
from starlette.responses import Response

from scholarbase.api.answers import answer, answered
from scholarbase.api.routes import OpenLibrary, resource
from scholarbase.schemas import TitleBatchBody, TitleParameters, TitlesAnswer, TitlesBatchAnswer
from scholarbase.api.strict import separated
from scholarbase.models import MIN_TITLE_SCORE

BRIEF_MATCHES: Final = 10

router = resource("/v1/title-match", "titles")


@router.get("", response_model=None, responses={200: {"model": TitlesAnswer}}, summary="Match a title")
async def match_title(library: OpenLibrary, parameters: Annotated[TitleParameters, Query()]) -> Response:
    """The papers with this title (score 1), then those with titles like it. No such paper is an empty list."""
    p = parameters
    # In a thread it would give the interpreter away at each of hundreds of rows, and wait for it as often: half a
    # second beside ten busy clients, for 4 ms of work. Many matches, or poor ones, are more work than that, and so is
    # counting words among the papers of a time.
    return await answered(
        lambda: library.match_title(
            p.title, limit=p.limit, min_score=p.min_score, as_of=p.as_of, fields=separated(p.fields)
        ).to_dict(),
        brief=p.limit <= BRIEF_MATCHES and p.min_score >= MIN_TITLE_SCORE and p.as_of is None,
    )


@router.post(
    "/batch", response_model=None, responses={200: {"model": TitlesBatchAnswer}}, summary="Match many titles"
)
def match_titles(library: OpenLibrary, body: TitleBatchBody) -> Response:
    """Many titles, answered in order: a list of matches for each, empty where there is none."""
    found = library.match_titles(**body.model_dump())
    return answer({"snapshot": library.snapshot_id, "results": [f.to_dict()["results"] for f in found]})
