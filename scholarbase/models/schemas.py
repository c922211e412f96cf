"""The HTTP contract's types: what the OpenAPI document shows, and what a request is checked against.

Requests are checked here for names and types only; what a value may be is checked once, by
:mod:`scholarbase.models`, for every way in. Answers are built from the plain data, and these models describe them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from scholarbase.errors import InvalidRequest
from scholarbase.models import (
    MAX_BATCH,
    MAX_LIMIT,
    MAX_PHRASE_LENGTH,
    MAX_PHRASES,
    MAX_TITLE_MATCHES,
    MAX_TITLES,
    MIN_TITLE_SCORE,
    PAPER_FIELDS,
    SearchRequest,
    search_request,
)

EXAMPLE_ID = "arXiv:hep-th/9301068"
EXAMPLE_QUESTION = "How is two-dimensional QCD related to string theory?"

_CONFIG = ConfigDict(extra="forbid")
_STRICT = ConfigDict(extra="forbid", strict=True)

FieldNames = Annotated[
    list[str] | None,
    Field(
        description="The fields of each paper, `id` always among them; all when left out. "
        f"Of: {', '.join(PAPER_FIELDS)}. In a URL separated by commas.",
        examples=[["title", "year", "authors"]],
    ),
]
Limit = Annotated[int, Field(description=f"How many results: 1 to {MAX_LIMIT}.", examples=[10])]
TitleLimit = Annotated[int, Field(description=f"How many matches: 1 to {MAX_TITLE_MATCHES}.", examples=[5])]
Offset = Annotated[
    int,
    Field(description="How many results to pass over: the `next_offset` of the page before.", examples=[0]),
]
FromDate = Annotated[
    str | None,
    Field(
        alias="from",
        description="Only papers certainly not before this: YYYY, YYYY-MM or YYYY-MM-DD.",
        examples=["1993-01"],
    ),
]
ToDate = Annotated[
    str | None,
    Field(
        description="Only papers certainly not after this: YYYY, YYYY-MM or YYYY-MM-DD.", examples=["2003"]
    ),
]
AsOf = Annotated[
    str | None,
    Field(
        description="As if asked on this day (YYYY-MM-DD) or at the end of this month (YYYY-MM): papers that are not "
        "certainly of then or before do not exist, and citation counts are null.",
        examples=["2003-06"],
    ),
]
Categories = Annotated[
    list[str],
    Field(
        description="Only papers in one of these categories (`cs.CL`) or archives (`cs`). "
        "In a URL separated by commas.",
        examples=[["hep-th"]],
    ),
]
Venues = Annotated[
    list[str],
    Field(
        description="Only papers of one of these venues, by any of their names. In a URL the parameter is repeated.",
        examples=[["arXiv.org"]],
    ),
]
MinCitations = Annotated[
    int | None, Field(description="Only papers with at least so many citations, worldwide.", examples=[10])
]
Exclude = Annotated[
    list[str],
    Field(
        description="Phrases that are not to be the topic: papers with one in their title or abstract are left out. At "
        f"most {MAX_PHRASES}, of {MAX_PHRASE_LENGTH} characters each. In a URL the parameter is repeated.",
        examples=[["lattice gauge theory"]],
    ),
]
ExcludeIds = Annotated[
    list[str],
    Field(
        description="Ids, of any form, of papers to leave out. In a URL the parameter is repeated.",
        examples=[["arXiv:hep-th/9303046"]],
    ),
]
Within = Annotated[
    list[str] | None,
    Field(
        description="Ids, of any form, of the only papers to choose from. In a URL the parameter is repeated.",
        examples=[["arXiv:hep-th/9301068", "arXiv:hep-th/9303046"]],
    ),
]
MinScore = Annotated[
    float,
    Field(description="How alike titles must be: above 0, at most 1 (the same).", examples=[MIN_TITLE_SCORE]),
]


ExcludeSeen = Annotated[
    bool,
    Field(
        description="Leave out every paper that this session has been given already. Needs a session.",
        examples=[True],
    ),
]


def check_unseen(exclude_seen: bool) -> None:
    """Raises InvalidRequest: what a session has been given is to be left out, and there is no session."""
    if exclude_seen:
        raise InvalidRequest(
            "exclude_seen leaves out what a session has been given, and this call names none: name one in the header "
            "X-ScholarBase-Session."
        )


class AnswerOptions(BaseModel):
    """How an answer is given."""

    max_tokens: int | None = Field(
        None,
        description="How many tokens the answer may take, by an estimate: whole papers are kept in rank order, "
        "abstracts cut at a sentence, and the answer says what was left out.",
        examples=[4000],
    )
    format: Literal["json", "text"] = Field(
        "json", description="JSON, or a text that reads well without it.", examples=["json"]
    )


class Search(BaseModel):
    """A search."""

    model_config = _CONFIG

    q: str = Field(
        description='The question or the words. Query syntax (`"a phrase"`, AND, OR, NOT, `prefix*`, `title:`) is '
        "understood where it is used.",
        examples=[EXAMPLE_QUESTION],
    )
    mode: Literal["hybrid", "sparse", "dense"] | None = Field(
        None,
        description="By words (sparse), by meaning (dense), or both fused (hybrid); the best that the library has "
        "when left out.",
        examples=["hybrid"],
    )
    engine: Literal["bm25", "feedback", "fts5", "learned"] | None = Field(
        None,
        description="The sparse leg: bm25 (fast), feedback (bm25 asked again with words of its first results: more "
        "recall), fts5 (query syntax, exact counts), learned (a model's term weights). "
        "Chosen by whether `q` has query syntax when left out.",
        examples=["bm25"],
    )
    limit: Limit = 10
    offset: Offset = 0
    fields: FieldNames = None
    from_: FromDate = None
    to: ToDate = None
    category: Categories = []
    venue: Venues = []
    min_citations: MinCitations = None
    exclude: Exclude = []
    exclude_ids: ExcludeIds = []
    within: Within = None
    as_of: AsOf = None
    exact: bool = Field(
        False, description="Search vectors without approximation, and count every match.", examples=[False]
    )
    explain: bool = Field(
        False,
        description="Say what each leg gave to each result, and which words of `q` it has.",
        examples=[True],
    )
    partial: bool = Field(
        False,
        description="Answer from the legs that work when one fails, and name it, rather than fail.",
        examples=[False],
    )

    exclude_seen: ExcludeSeen = False

    def to_request(self) -> SearchRequest:
        """Raises InvalidRequest: a value that cannot be right."""
        check_unseen(self.exclude_seen)
        return search_request(**self.model_dump(exclude={"exclude_seen", "max_tokens", "format"}))


class SearchParameters(Search, AnswerOptions):
    """A search."""


class SearchBody(SearchParameters):
    model_config = _STRICT


class OneSearch(Search):
    """A search among others."""

    model_config = _STRICT


class SearchBatchBody(AnswerOptions):
    model_config = _STRICT

    searches: list[OneSearch] = Field(
        description=f"The searches, at most {MAX_BATCH}.",
        min_length=1,
        max_length=MAX_BATCH,
        examples=[[{"q": EXAMPLE_QUESTION, "limit": 3}, {"q": "black hole entropy", "mode": "sparse"}]],
    )


class TitleParameters(AnswerOptions):
    """A title to match."""

    model_config = _CONFIG

    title: str = Field(
        description="The title, with typos and without its subtitle if need be.",
        examples=["Two Dimensional QCD is a String Theory"],
    )
    limit: TitleLimit = 5
    min_score: MinScore = MIN_TITLE_SCORE
    as_of: AsOf = None
    fields: FieldNames = None


class TitleBatchBody(AnswerOptions):
    model_config = _STRICT

    titles: list[str] = Field(
        description=f"The titles, at most {MAX_TITLES}.",
        min_length=1,
        max_length=MAX_TITLES,
        examples=[["Two Dimensional QCD is a String Theory"]],
    )
    limit: TitleLimit = 1
    min_score: MinScore = MIN_TITLE_SCORE
    as_of: AsOf = None
    fields: FieldNames = None


class PaperParameters(AnswerOptions):
    model_config = _CONFIG

    as_of: AsOf = None
    fields: FieldNames = None


class PaperBatchBody(AnswerOptions):
    model_config = _STRICT

    ids: list[str] = Field(
        description="Ids of any form.",
        min_length=1,
        examples=[[EXAMPLE_ID, "CorpusId:1000001"]],
    )
    missing: Literal["null", "error"] = Field(
        "null",
        description="What an unknown id gets: `null` in its place, or a 404 for all.",
        examples=["null"],
    )
    as_of: AsOf = None
    fields: FieldNames = None


class EdgeParameters(AnswerOptions):
    """A page of citations or references."""

    model_config = _CONFIG

    limit: Limit = 100
    offset: Offset = 0
    sort: Literal["-citation_count", "citation_count", "-date", "date"] | None = Field(
        None,
        description="By citation count or date; `-` puts the greatest first, unknown ones come last. `-citation_count` "
        "when left out, with `as_of` `-date`.",
        examples=["-date"],
    )
    from_: FromDate = None
    to: ToDate = None
    as_of: AsOf = None
    fields: FieldNames = None


class EdgeBody(EdgeParameters):
    """A page of a paper's citations or references, all in one."""

    model_config = _STRICT

    paper_id: str = Field(description="An id of any form.", examples=[EXAMPLE_ID])


class ExpandBody(AnswerOptions):
    model_config = _STRICT

    seeds: list[str] = Field(
        description="Ids, of any form, of the papers to start from.",
        min_length=1,
        examples=[["arXiv:hep-th/9301068", "arXiv:hep-th/9303046"]],
    )
    direction: Literal["citations", "references", "both"] = Field(
        "both",
        description="To papers that cite the seeds, to papers that they cite, or both.",
        examples=["both"],
    )
    hops: int = Field(1, description="How far: 1 or 2.", examples=[1])
    limit: Limit = 100
    offset: Offset = 0
    fields: FieldNames = None
    from_: FromDate = None
    to: ToDate = None
    category: Categories = []
    venue: Venues = []
    min_citations: MinCitations = None
    exclude: Exclude = []
    exclude_ids: ExcludeIds = []
    within: Within = None
    as_of: AsOf = None
    exclude_seen: ExcludeSeen = False


class SessionLimits(BaseModel):
    """How much a session may ask; what is left out is without limit."""

    model_config = _STRICT

    calls: int | None = Field(None, description="Calls of any kind.", examples=[60])
    expansions: int | None = Field(None, description="Calls along citations.", examples=[20])
    candidates: int | None = Field(
        None, description="Different papers that search and expansion calls give.", examples=[2000]
    )
    tokens: int | None = Field(None, description="Tokens of answers, by an estimate.", examples=[100000])


class SessionBody(BaseModel):
    model_config = _STRICT

    session: str | None = Field(
        None, description="Its name; one is made when left out.", examples=["agent-7.question-12"]
    )
    query_id: str | None = Field(
        None, description="Which question of a query set it is for.", examples=["AutoScholarQuery_dev_110"]
    )
    query: str | None = Field(None, description="The question.", examples=[EXAMPLE_QUESTION])
    as_of: AsOf = None
    limits: SessionLimits | None = Field(
        None, description="How much it may ask; without limit when left out.", examples=[{"calls": 60}]
    )


class SessionsParameters(BaseModel):
    """A page of sessions."""

    model_config = _CONFIG

    limit: Limit = 100
    offset: Offset = 0


class SessionAnswerBody(BaseModel):
    model_config = _STRICT

    ids: list[str] = Field(
        description="The agent's own answer, best first, by ids of any form.", examples=[[EXAMPLE_ID]]
    )


class ReportBody(BaseModel):
    model_config = _STRICT

    answers: list[str] = Field(
        description="The papers that answer the question, by ids of any form.", examples=[[EXAMPLE_ID]]
    )


def sentence(error: Any) -> str:
    """What pydantic found first, as a sentence that names the value. ``loc`` begins with what it is about: ``query``,
    ``path``, ``body`` or ``argument``."""
    where, *path = (str(part) for part in error["loc"])
    name = ".".join(path) or where
    kind, value = error["type"], error.get("input")
    what = {"body": "key", "argument": "argument"}.get(where, "parameter")
    if kind == "json_invalid":
        return f"The body is no JSON: {error['ctx']['error']}. Send a JSON object."
    if not path and kind in ("model_attributes_type", "dict_type"):
        return "The body is no JSON object: send one, with the header Content-Type: application/json."
    if kind == "extra_forbidden":
        return f"Unknown {what} {name!r}: see /docs for those of this call."
    if kind == "missing":
        return f"The {what} {name!r} is missing." if path else "The body is missing: send a JSON object."
    shown = {"None": "null", "True": "true", "False": "false"}.get(repr(value), repr(value))
    shown = shown if len(shown) <= 200 else shown[:200] + "..."
    return f"{name} is {shown}: {error['msg'][:1].lower()}{error['msg'][1:]}."


# -- answers --------------------------------------------------------------------------------------------


class AuthorAnswer(BaseModel):
    name: str
    author_id: str | None


class PaperAnswer(BaseModel):
    """A paper. Only the fields asked for are there; what is not known is null."""

    id: str = Field(description="The canonical id.", examples=[EXAMPLE_ID])
    corpus_id: int | None = Field(None, description="Semantic Scholar's corpus id.")
    external_ids: dict[str, str] = Field(
        {}, description="Scheme to value; `scheme:value` is an id that every call takes."
    )
    title: str | None = None
    abstract: str | None = None
    tldr: str | None = Field(None, description="A sentence that sums the paper up, by Semantic Scholar.")
    authors: list[AuthorAnswer] = []
    year: int | None = None
    publication_date: str | None = Field(None, description="YYYY-MM-DD.")
    venue: str | None = None
    categories: list[str] = Field([], description="arXiv categories.")
    citation_count: int | None = Field(
        None, description="Worldwide, by the source; null when it does not say, and with `as_of`."
    )
    reference_count: int | None = Field(None, description="As the source counts; null with `as_of`.")
    url: str | None = None


Snapshot = Annotated[
    str, Field(description="Names the library's content: the same request on it gets the same bytes.")
]
NextOffset = Annotated[int | None, Field(description="Where the next page begins; null after the last.")]


class LegAnswer(BaseModel):
    leg: str
    rank: int = Field(description="Counted from 1.")
    score: float = Field(description="The leg's own score.")
    share: float = Field(description="Its part of the result's score.")
    terms: list[str] = Field(
        description="The words of `q` that the title or abstract holds, in lower case; empty for dense and learned, "
        "which compare no words."
    )


class HitAnswer(BaseModel):
    score: float
    paper: PaperAnswer
    explain: list[LegAnswer] | None = Field(None, description="There with `explain`.")


class FailedLegAnswer(BaseModel):
    leg: str
    detail: str


class SearchAnswer(BaseModel):
    snapshot: Snapshot
    mode: str = Field(description="How the search was made.")
    engine: str | None = Field(description="The sparse leg; null in a dense search.")
    total: int = Field(description="How many papers match.")
    total_relation: Literal["eq", "gte"] = Field(
        description="Whether `total` is exact (eq) or the least it can be (gte)."
    )
    next_offset: NextOffset
    results: list[HitAnswer]
    failed_legs: list[FailedLegAnswer] | None = Field(
        None, description="There with `partial`, when a leg failed."
    )


class SearchBatchAnswer(BaseModel):
    snapshot: Snapshot
    results: list[SearchAnswer]


class TitleMatchAnswer(BaseModel):
    score: float = Field(description="1 is the same title.")
    paper: PaperAnswer


class TitlesAnswer(BaseModel):
    snapshot: Snapshot
    results: list[TitleMatchAnswer]


class TitlesBatchAnswer(BaseModel):
    snapshot: Snapshot
    results: list[list[TitleMatchAnswer]]


class OnePaperAnswer(PaperAnswer):
    snapshot: Snapshot


class PaperBatchAnswer(BaseModel):
    snapshot: Snapshot
    results: list[PaperAnswer | None]


class CitationAnswer(BaseModel):
    paper: PaperAnswer
    is_influential: bool | None
    contexts: list[str] = Field(description="The sentences around the citation, where the source has them.")
    intents: list[str] = Field(description="Such as background or methodology, where the source has them.")


class CitationsAnswer(BaseModel):
    snapshot: Snapshot
    total: int = Field(description="The edges that paging returns.")
    next_offset: NextOffset
    results: list[CitationAnswer]


class NeighbourAnswer(BaseModel):
    paper: PaperAnswer
    seeds: int = Field(description="How many of the seeds reach it.")
    hops: int = Field(description="Over how few hops.")


class ExpandAnswer(BaseModel):
    snapshot: Snapshot
    total: int
    next_offset: NextOffset
    results: list[NeighbourAnswer]


class RankingAnswer(BaseModel):
    rrf_k: int = Field(description="The k of reciprocal rank fusion.")
    fusion_depth: int = Field(description="How many results of each leg a hybrid search fuses.")
    fusion_weights: dict[str, float] = Field(
        description="What a leg counts in the fusion; 1 where not named."
    )
    fts5_title_weight: float = Field(description="What a word in a title counts for FTS5.")


class SnapshotAnswer(BaseModel):
    snapshot: Snapshot
    ranking: RankingAnswer = Field(description="What decides rankings besides the snapshot: settings.")
    manifest: dict[str, Any] = Field(description="What the library holds, and from what it was made.")


class ToolsAnswer(BaseModel):
    snapshot: Snapshot
    tools: list[dict[str, Any]] = Field(description="A function schema each, in the form asked for.")


class OneSessionAnswer(BaseModel):
    session: str
    query_id: str = Field(description="The session's name where it was told none.")
    query: str | None
    as_of: str | None
    limits: dict[str, int] = Field(description="The limits that there are.")
    opened: str = Field(description="RFC 3339.")


class ListedSessionAnswer(OneSessionAnswer):
    calls: int
    used: str = Field(description="When it was last called.")
    lost: int = Field(description="Calls that could not be written down.")


class SessionsAnswer(BaseModel):
    total: int
    next_offset: NextOffset
    results: list[ListedSessionAnswer]


class RecordedAnswer(BaseModel):
    session: str
    call: int = Field(description="The number of the call.")


class ReportAnswer(OneSessionAnswer):
    """What a session cost and found; docs/trajectories.md says what each figure is."""

    calls: int
    rounds: int
    search_calls: int
    expand_calls: int
    inspect_calls: int
    failed_calls: int
    candidates: int
    recall: float | None = Field(description="Over all answers; null where none were given.")
    recall_100: float | None
    recall_100_per_100: float | None
    seconds: float | None
    tokens: int | None
    recall_after: list[float] | None = Field(description="Recall after each call.")
    answers: int
    answers_absent: list[str] = Field(description="Answers that the library does not hold.")


class ProblemAnswer(BaseModel):
    """A failure (RFC 9457)."""

    type: str = Field(description="A link to what this kind of problem is.")
    title: str
    status: int
    detail: str = Field(description="A sentence that names the value and the way out.")
