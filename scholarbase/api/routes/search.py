"""Searches and counts of papers, title matches, and checks of references."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scholarbase.api.responding import Call
from scholarbase.api.routes import resource, route
from scholarbase.bibliographies.writing import MEDIA_TYPES
from scholarbase.errors import (
    EncoderError,
    InvalidRequest,
    LibraryError,
    PaperNotFound,
    RerankerError,
    VectorIndexError,
)
from scholarbase.models.check_requests import CheckBody, CorrectBody
from scholarbase.models.facet_requests import FacetsParameters
from scholarbase.models.papers import ALL_FIELDS
from scholarbase.models.requests import SearchBatchBody, SearchBody, TitleBatchBody, TitleParameters
from scholarbase.models.responses import (
    CheckResponse,
    FacetsResponse,
    SearchBatchResponse,
    SearchResponse,
    TitleBatchResponse,
    TitleMatchResponse,
)
from scholarbase.responses.correcting import corrected
from scholarbase.search.library import Library
from scholarbase.tools.definitions import tool_named
from scholarbase.tools.responding import share_of

router = resource(
    "/v1/search", "search", PaperNotFound, LibraryError, EncoderError, RerankerError, VectorIndexError
)
counts = resource("/v1/facets", "search", PaperNotFound, LibraryError, EncoderError, VectorIndexError)
titles = resource("/v1/title-match", "titles", LibraryError)
references = resource("/v1/references", "references", LibraryError)
SEARCH = tool_named("search_papers")
MATCH = tool_named("match_titles")

_search = Call(Library.run, SearchBody, SearchResponse, SEARCH)
route(
    router,
    "GET",
    _search,
    name="search",
    summary="Search",
    description="Search for papers. Filters apply before each leg takes its first results, ties break by id, and "
    "the same request on the same snapshot returns the same bytes. Empty `results` mean that nothing "
    "matched.",
)
route(
    router,
    "POST",
    _search,
    name="search_by_body",
    summary="Search with a JSON body",
    description="Like `GET /v1/search`, for questions and lists of ids that are too long for a URL.",
)


def _each(body: SearchBatchBody) -> list[Mapping[str, Any]]:
    share = body.max_tokens and share_of(body.max_tokens, len(body.searches))
    options = {"max_tokens": share, "format": body.format}
    return [
        SEARCH.arguments_for(SearchBody.model_construct(**vars(query) | options)) for query in body.searches
    ]


route(
    router,
    "POST /batch",
    Call(Library.run_batch, SearchBatchBody, SearchBatchResponse, SEARCH, arguments=_each),
    name="search_batch",
    summary="Search many questions",
    description="Run many searches, in order. If one search fails, the batch fails, and the problem document "
    "names it. In a session, each search is a call.",
)

_facets = Call(Library.run_facets, FacetsParameters, FacetsResponse)
route(
    counts,
    "GET",
    _facets,
    name="facets",
    summary="Count papers by year, category and venue",
    description="Without `q` the counts are exact, over all papers that match the filters. With `q` they are over "
    "the first 1,000 results of the search, or with `exact` over all papers that match in the "
    "full-text index.",
)
route(
    counts,
    "POST",
    _facets,
    name="facets_by_body",
    summary="Count papers with a JSON body",
    description="Like `GET /v1/facets`, for questions and lists of ids that are too long for a URL.",
)

route(
    titles,
    "GET",
    Call(
        Library.run_title,
        TitleParameters,
        TitleMatchResponse,
        MATCH,
        arguments=lambda request: [MATCH.arguments_for(request, titles=[request.title])],
    ),
    name="match_title",
    summary="Match a title",
    description="The papers with this title (score 1), then papers with similar titles. Empty `results` mean that "
    "nothing matched.",
)

route(
    titles,
    "POST /batch",
    Call(Library.run_titles, TitleBatchBody, TitleBatchResponse, MATCH),
    name="match_titles",
    summary="Match many titles",
    description="Match many titles, in order: one list of matches per title, empty if nothing matched.",
)

route(
    references,
    "POST /check",
    Call(Library.run_check, CheckBody, CheckResponse, tool_named("check_references")),
    name="check_references",
    summary="Check references",
    description="The paper that each reference of a bibliography means, and where the two differ. A reference "
    "whose paper is not in this snapshot may still exist.",
)


def _correct(library: Library, body: CorrectBody) -> bytes:
    checked = library.run_check(
        CheckBody(
            references=body.references,
            input_format=body.input_format,
            as_of=body.as_of,
            timeout=body.timeout,
            fields=ALL_FIELDS,
        )
    )
    chosen = None
    if body.corrections is not None:
        chosen = {int(position): fields for position, fields in body.corrections.items()}
        for position in chosen.keys() - range(1, len(checked.results) + 1):
            raise InvalidRequest(
                f"corrections has the position {position}: the references have {len(checked.results):,}."
            )
    return corrected(body.references, checked, chosen).encode()


route(
    references,
    "POST /correct",
    Call(_correct, CorrectBody, bytes, media_type=MEDIA_TYPES["bibtex"]),
    name="correct_references",
    summary="Correct references",
    description="The bibliography as BibTeX with titles, authors and years of the library, and a comment before each "
    "reference that is not held. Entries of BibTeX keep everything else.",
)


router.routes += [*titles.routes, *references.routes, *counts.routes]
