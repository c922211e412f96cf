"""Requests: one model for each, for HTTP, tools, Python and the command line.

A request is validated when it is created, and nowhere else. Invalid values raise InvalidRequest with a sentence,
whether the request comes from a URL, a JSON body, a tool call or Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    WrapValidator,
    model_validator,
)

from scholarbase.errors import InvalidRequest
from scholarbase.models.checks import (
    as_of_day,
    check_ids,
    check_names,
    check_phrases,
    check_sort,
    check_text,
    check_title,
    check_whole,
    date_bounds,
    in_batch,
)
from scholarbase.models.limits import (
    MAX_BATCH,
    MAX_LIMIT,
    MAX_PHRASE_LENGTH,
    MAX_PHRASES,
    MAX_QUERY_LENGTH,
    MAX_TITLE_MATCHES,
    MAX_TITLES,
    MIN_TITLE_SCORE,
    CitationSort,
    Direction,
    Engine,
    Mode,
)
from scholarbase.models.papers import EXAMPLE_ID, PAPER_FIELDS, check_fields

EXAMPLE_QUESTION: Final = "How is two-dimensional QCD related to string theory?"

# -- values ------------------------------------------------------------------------------------------------

_STRINGS: Final = {"type": "array", "items": {"type": "string"}}


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _min_score(value: float) -> float:
    if isinstance(value, bool) or not 0 < value <= 1:
        raise InvalidRequest(f"min_score is {value!r}: it must be above 0 and at most 1.")
    return value


def _titled(title: str) -> str:
    with in_batch("title", title):
        return check_title(title)


def _ids_of(name: str) -> BeforeValidator:
    return BeforeValidator(lambda ids: ids if ids is None else check_ids(ids, name))


def _date_of(name: str) -> AfterValidator:
    def check(text: str | None) -> str | None:
        if text is not None:
            date_bounds(text, name)
        return text

    return AfterValidator(check)


def _point_in_time(text: str | None) -> str | None:
    if text is not None:
        as_of_day(text)
    return text


Strings = Annotated[tuple[str, ...], BeforeValidator(_tuple)]

FieldNames = Annotated[
    tuple[str, ...],
    BeforeValidator(check_fields),
    WithJsonSchema({"anyOf": [_STRINGS, {"type": "null"}]}),
    Field(
        json_schema_extra=lambda schema: schema.pop("default", None),
        description="The fields of each paper, `id` always among them; all by default. "
        f"Of: {', '.join(PAPER_FIELDS)}. In a URL separated by commas.",
        examples=[["title", "year", "authors"]],
    ),
]
Limit = Annotated[
    int,
    AfterValidator(lambda value: check_whole(value, "limit", 1, MAX_LIMIT)),
    Field(description=f"The number of results: 1 to {MAX_LIMIT}.", examples=[10]),
]
TitleLimit = Annotated[
    int,
    AfterValidator(lambda value: check_whole(value, "limit", 1, MAX_TITLE_MATCHES)),
    Field(description=f"The number of matches: 1 to {MAX_TITLE_MATCHES}.", examples=[5]),
]
Offset = Annotated[
    int,
    AfterValidator(lambda value: check_whole(value, "offset", 0)),
    Field(description="The number of results to skip: the `next_offset` of the previous page.", examples=[0]),
]
FromDate = Annotated[
    str | None,
    _date_of("from"),
    Field(
        alias="from",
        description="Only papers certainly not before this: YYYY, YYYY-MM or YYYY-MM-DD.",
        examples=["1993-01"],
    ),
]
ToDate = Annotated[
    str | None,
    _date_of("to"),
    Field(
        description="Only papers certainly not after this: YYYY, YYYY-MM or YYYY-MM-DD.", examples=["2003"]
    ),
]
AsOf = Annotated[
    str | None,
    AfterValidator(_point_in_time),
    Field(
        description="Respond as on this day (YYYY-MM-DD) or at the end of this month (YYYY-MM): papers that are not "
        "certainly of then or before do not exist, and citation counts are null.",
        examples=["2003-06"],
    ),
]
Categories = Annotated[
    Strings,
    BeforeValidator(lambda names: check_names(names, "category") if isinstance(names, str) else names),
    AfterValidator(lambda names: check_names(names, "category")),
    Field(
        description="Only papers in one of these categories (`cs.CL`) or archives (`cs`). "
        "In a URL separated by commas.",
        examples=[["hep-th"]],
    ),
]
Venues = Annotated[
    Strings,
    BeforeValidator(lambda names: check_names(names, "venue") if isinstance(names, str) else names),
    AfterValidator(lambda names: check_names(names, "venue")),
    Field(
        description="Only papers of one of these venues, by any of their names. In a URL the parameter is repeated.",
        examples=[["arXiv.org"]],
    ),
]
MinCitations = Annotated[
    int | None,
    AfterValidator(lambda value: value if value is None else check_whole(value, "min_citations", 0)),
    Field(description="Only papers with at least this many citations, worldwide.", examples=[10]),
]
Exclude = Annotated[
    Strings,
    BeforeValidator(lambda phrases: (phrases,) if isinstance(phrases, str) else phrases),
    AfterValidator(lambda phrases: check_phrases(phrases, "exclude")),
    Field(
        description="Phrases that must not be the topic: papers with one in their title or abstract are left out. At "
        f"most {MAX_PHRASES}, of {MAX_PHRASE_LENGTH} characters each. In a URL the parameter is repeated.",
        examples=[["lattice gauge theory"]],
    ),
]
ExcludeIds = Annotated[
    Strings,
    _ids_of("exclude_ids"),
    Field(
        description="Ids, of any form, of papers to leave out. In a URL the parameter is repeated.",
        examples=[["arXiv:hep-th/9303046"]],
    ),
]
Within = Annotated[
    Annotated[tuple[str, ...] | None, BeforeValidator(_tuple)],
    _ids_of("within"),
    Field(
        description="Ids, of any form, of the only papers to search. In a URL the parameter is repeated.",
        examples=[["arXiv:hep-th/9301068", "arXiv:hep-th/9303046"]],
    ),
]
MinScore = Annotated[
    float,
    AfterValidator(_min_score),
    Field(
        description="The least similarity of titles: above 0, at most 1 (the same).",
        examples=[MIN_TITLE_SCORE],
    ),
]
ExcludeSeen = Annotated[
    bool,
    Field(
        description="Leave out every paper that this session has already returned. Needs a session.",
        examples=[True],
    ),
]
PaperId = Annotated[str, Field(description="An id of any form.", examples=[EXAMPLE_ID])]


# -- the base ----------------------------------------------------------------------------------------------


class Request(BaseModel):
    """Base of all requests: immutable, of known names and strict types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True)

    @model_validator(mode="wrap")
    @classmethod
    def _with_sentences(
        cls, data: Any, validate: ModelWrapValidatorHandler[Self], info: ValidationInfo
    ) -> Self:
        try:
            return validate(data)
        except ValidationError as error:
            raise InvalidRequest(sentence(error.errors()[0], info.context)) from error

    @classmethod
    def of(cls, **values: Any) -> Self:
        """The request of Python values: any sequence where the field is a tuple, None for all fields of a paper."""
        return cls(**values)

    @classmethod
    def parse(cls, values: Any, *, kind: str, strict: bool = True) -> Self:
        """The request of JSON values, or of the strings of a URL if not ``strict``.

        Args:
            kind: what messages call a name: parameter, key or argument.

        Raises:
            InvalidRequest: a name or a value is invalid.
        """
        return cls.model_validate(values, strict=strict, context=kind, by_alias=True, by_name=False)


def sentence(error: Any, kind: str | None = None) -> str:
    """An error of pydantic as a sentence that names the value; ``kind`` is parameter or key, None for Python."""
    name = ".".join(str(part) for part in error["loc"])
    what, value = error["type"], error.get("input")
    if not name and what in ("model_attributes_type", "model_type", "dict_type"):
        return "The body is not a JSON object: send one, with the header Content-Type: application/json."
    if what == "extra_forbidden":
        return f"Unknown {kind or 'argument'} {name!r}: see the documentation for the valid ones."
    if what == "missing":
        return f"The {kind or 'argument'} {name!r} is missing."
    if what == "too_short":
        return f"{name} is empty: give at least one."
    shown = repr(value)
    if kind is not None:
        shown = {"None": "null", "True": "true", "False": "false"}.get(shown, shown)
    shown = shown if len(shown) <= 200 else shown[:200] + "..."
    message = error["msg"].replace("tuple", "list").replace("Tuple", "List")
    return f"{name} is {shown}: {message[:1].lower()}{message[1:]}."


def check_session(exclude_seen: bool) -> None:
    """Raises InvalidRequest: ``exclude_seen`` outside a session."""
    if exclude_seen:
        raise InvalidRequest(
            "exclude_seen leaves out the papers that a session has returned, and this request names no session: name "
            "one in the header X-ScholarBase-Session."
        )


class ResponseOptions(Request):
    """The size and the format of a response."""

    max_tokens: int | None = Field(
        default=None,
        description="The maximum size of the response in tokens, by an estimate: whole papers are kept in rank order, "
        "abstracts are cut at a sentence, and the response says what was left out.",
        examples=[4000],
    )
    format: Literal["json", "text"] = Field(
        default="json", description="JSON, or readable text.", examples=["json"]
    )


# -- searches ----------------------------------------------------------------------------------------------


class _Dates(Request):
    from_: FromDate = None
    to: ToDate = None

    @model_validator(mode="after")
    def _check_dates(self) -> Self:
        if self.from_ is not None:
            first, as_of = date_bounds(self.from_)[0], getattr(self, "as_of", None)
            to = None if self.to is None else date_bounds(self.to)[1]
            for name, text, last in (("to", self.to, to), ("as_of", as_of, as_of and as_of_day(as_of))):
                if last is not None and first > last:
                    raise InvalidRequest(
                        f"from {self.from_!r} is later than {name} {text!r}: no paper can match both."
                    )
        return self


class Filters(_Dates):
    """What every result must satisfy. Filters apply before any leg takes its first results.

    A date limit matches papers that are *certainly* inside it: a paper with only a known year passes ``from_='2006'``
    but not ``from_='2006-03'``, and a paper without a date passes no date limit.
    ``category`` matches a category (``cs.CL``) or a whole archive (``cs``); ``category`` and ``venue`` each
    match any of their values. ``exclude`` are phrases: a paper whose title or abstract contains one, its words
    side by side and compared by their stems, does not match. With ``as_of``, papers that are not certainly of that
    day (of a month: its last) or before do not exist.
    """

    category: Categories = ()
    venue: Venues = ()
    min_citations: MinCitations = None
    exclude: Exclude = ()
    exclude_ids: ExcludeIds = ()
    within: Within = None
    as_of: AsOf = None

    @model_validator(mode="after")
    def _check_counts(self) -> Self:
        if self.min_citations is not None and self.as_of is not None:
            raise InvalidRequest(
                f"min_citations {self.min_citations} cannot be combined with as_of {self.as_of!r}: citation counts are "
                "those of the snapshot, which is later. Leave one of them out."
            )
        return self


FILTER_NAMES: Final = tuple(Filters.model_fields)


class _Query(Request):
    q: str = Field(
        description='The question or the words. Query syntax (`"a phrase"`, AND, OR, NOT, `prefix*`, `title:`) is '
        "recognized.",
        examples=[EXAMPLE_QUESTION],
    )
    mode: Mode | None = Field(
        default=None,
        description="By words (sparse), by meaning (dense), or both fused (hybrid); by default the best that the "
        "library supports.",
        examples=["hybrid"],
    )
    engine: Engine | None = Field(
        default=None,
        description="The sparse leg: bm25 (fast), feedback (bm25, run again with words of its first results: more "
        "recall), fts5 (query syntax, exact counts), learned (a model's term weights). "
        "By default fts5 for query syntax, else bm25.",
        examples=["bm25"],
    )
    limit: Limit = 10
    offset: Offset = 0
    fields: FieldNames = PAPER_FIELDS

    @model_validator(mode="after")
    def _check_query(self) -> Self:
        if not self.q.strip():
            raise InvalidRequest("q is empty: give the words to search for.")
        if len(self.q) > MAX_QUERY_LENGTH:
            raise InvalidRequest(f"q has {len(self.q)} characters: the maximum is {MAX_QUERY_LENGTH}.")
        if not self.q.isascii():
            check_text(self.q, "q")
        if self.engine is not None and self.mode == "dense":
            raise InvalidRequest(
                f"engine {self.engine!r} is a sparse leg, and mode 'dense' has none: leave one out."
            )
        return self


class SearchRequest(Filters, _Query):
    """One search. ``mode`` None is hybrid, or sparse if the library has no dense vectors.

    ``engine`` names the sparse leg: ``bm25`` (vectors in Qdrant), ``feedback`` (the same, run again with words of
    its first results), ``fts5`` (SQLite, with query syntax) or ``learned`` (BGE-M3's own weights). None sends query
    syntax to FTS5 and free text to BM25.
    ``exact`` searches dense vectors without approximation and counts every match.
    ``partial`` accepts a response from the legs that work, with those that failed named in it.

    Raises:
        InvalidRequest: a value is invalid.
    """

    exact: bool = Field(
        default=False,
        description="Search vectors without approximation, and count every match.",
        examples=[False],
    )
    explain: bool = Field(
        default=False,
        description="Show what each leg contributed to each result, and which words of `q` it contains.",
        examples=[True],
    )
    partial: bool = Field(
        default=False,
        description="If a leg fails, respond from the others and name it, instead of failing.",
        examples=[False],
    )


class OneSearch(SearchRequest):
    """A search in a batch."""

    exclude_seen: ExcludeSeen = False


class SearchBody(OneSearch, ResponseOptions):
    """A search."""


def _named(value: Any, validate: Any) -> Any:
    with in_batch("search", value.get("q") if isinstance(value, Mapping) else value):
        return validate(value)


class SearchBatchBody(ResponseOptions):
    searches: Annotated[
        tuple[Annotated[OneSearch, WrapValidator(_named)], ...],
        BeforeValidator(_tuple),
        Field(
            description=f"The searches, at most {MAX_BATCH}.",
            min_length=1,
            max_length=MAX_BATCH,
            examples=[[{"q": EXAMPLE_QUESTION, "limit": 3}, {"q": "black hole entropy", "mode": "sparse"}]],
        ),
    ]


def search_request(q: str, **arguments: Any) -> SearchRequest:
    """A :class:`SearchRequest` from the arguments of ``search``.

    Raises:
        InvalidRequest: an argument is unknown or invalid.
    """
    for name in arguments:
        if name not in SearchRequest.model_fields:
            raise InvalidRequest(
                f"Unknown argument {name!r}: a search has {', '.join(SearchRequest.model_fields)}."
            )
    return SearchRequest(q=q, **arguments)


def search_requests(requests: Sequence[SearchRequest | Mapping[str, Any]]) -> list[SearchRequest]:
    """The requests of a batch: each is one, or the arguments of one ``search``. Raises as ``search_request``."""
    found = []
    for request in requests:
        if isinstance(request, SearchRequest):
            found.append(request)
        elif isinstance(request, Mapping):
            with in_batch("search", request.get("q")):
                found.append(search_request(**{"q": None, **request}))
        else:
            raise InvalidRequest(f"A batch contains {request!r}: each of its searches is a mapping with a q.")
    return found


# -- titles and papers -------------------------------------------------------------------------------------


class TitleParameters(ResponseOptions):
    """A title to match."""

    title: str = Field(
        description="The title; typing errors and a missing subtitle are accepted.",
        examples=["Two Dimensional QCD is a String Theory"],
    )
    limit: TitleLimit = 5
    min_score: MinScore = MIN_TITLE_SCORE
    as_of: AsOf = None
    fields: FieldNames = PAPER_FIELDS

    @model_validator(mode="after")
    def _check_title(self) -> Self:
        check_title(self.title)
        return self


class TitleBatchBody(ResponseOptions):
    titles: Annotated[
        tuple[Annotated[str, AfterValidator(_titled)], ...],
        BeforeValidator(_tuple),
        Field(
            description=f"The titles, at most {MAX_TITLES}.",
            min_length=1,
            max_length=MAX_TITLES,
            examples=[["Two Dimensional QCD is a String Theory"]],
        ),
    ]
    limit: TitleLimit = 1
    min_score: MinScore = MIN_TITLE_SCORE
    as_of: AsOf = None
    fields: FieldNames = PAPER_FIELDS


def title_batches(titles: Sequence[str], **options: Any) -> list[TitleBatchBody]:
    """Requests for these titles, each for as many as one takes."""
    starts = range(0, len(titles), MAX_TITLES)
    return [TitleBatchBody.of(titles=titles[start : start + MAX_TITLES], **options) for start in starts]


class PaperParameters(ResponseOptions):
    as_of: AsOf = None
    fields: FieldNames = PAPER_FIELDS


class PaperBody(PaperParameters):
    """A paper to look up."""

    paper_id: PaperId


class PaperBatchBody(ResponseOptions):
    ids: Annotated[
        Strings,
        _ids_of("ids"),
        Field(description="Ids of any form.", min_length=1, examples=[[EXAMPLE_ID, "CorpusId:1000001"]]),
    ]
    missing: Literal["null", "error"] = Field(
        default="null",
        description="The response to an unknown id: `null` in its place, or a 404 for all.",
        examples=["null"],
    )
    as_of: AsOf = None
    fields: FieldNames = PAPER_FIELDS


# -- citations ---------------------------------------------------------------------------------------------


class _EdgePage(ResponseOptions):
    limit: Limit = 100
    offset: Offset = 0
    sort: CitationSort | None = Field(
        default=None,
        description="By citation count or date; `-` puts the greatest first, unknown ones come last. `-citation_count` "
        "by default, with `as_of` `-date`.",
        examples=["-date"],
    )


class EdgeParameters(_Dates, _EdgePage):
    """A page of citations or references."""

    as_of: AsOf = None
    fields: FieldNames = PAPER_FIELDS

    @model_validator(mode="after")
    def _check_sort(self) -> Self:
        check_sort(self.sort, self.as_of)
        return self


class EdgeBody(EdgeParameters):
    """A page of a paper's citations or references."""

    paper_id: PaperId


class _Expansion(ResponseOptions):
    seeds: Annotated[
        Strings,
        _ids_of("seeds"),
        Field(
            description="Ids, of any form, of the papers to start from.",
            min_length=1,
            examples=[["arXiv:hep-th/9301068", "arXiv:hep-th/9303046"]],
        ),
    ]
    direction: Direction = Field(
        default="both",
        description="Follow papers that cite the seeds, papers that they cite, or both.",
        examples=["both"],
    )
    hops: int = Field(default=1, description="The number of hops: 1 or 2.", examples=[1])
    limit: Limit = 100
    offset: Offset = 0
    fields: FieldNames = PAPER_FIELDS


class ExpandBody(Filters, _Expansion):
    exclude_seen: ExcludeSeen = False


# -- sessions ----------------------------------------------------------------------------------------------


class SessionLimits(BaseModel):
    """The limits of a session; those left out are unlimited."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    calls: int | None = Field(default=None, description="Calls of any kind.", examples=[60])
    expansions: int | None = Field(default=None, description="Calls along citations.", examples=[20])
    candidates: int | None = Field(
        default=None, description="Different papers that search and expansion calls give.", examples=[2000]
    )
    tokens: int | None = Field(
        default=None, description="Tokens of answers, by an estimate.", examples=[100000]
    )


class SessionBody(Request):
    session: str | None = Field(
        default=None, description="Its name; one is made when left out.", examples=["agent-7.question-12"]
    )
    query_id: str | None = Field(
        default=None,
        description="Which question of a query set it is for.",
        examples=["AutoScholarQuery_dev_110"],
    )
    query: str | None = Field(default=None, description="The question.", examples=[EXAMPLE_QUESTION])
    as_of: AsOf = None
    limits: SessionLimits | None = Field(
        default=None,
        description="How much it may ask; without limit when left out.",
        examples=[{"calls": 60}],
    )


class SessionsParameters(Request):
    """A page of sessions."""

    limit: Limit = 100
    offset: Offset = 0


class SessionAnswerBody(Request):
    ids: Strings = Field(
        description="The agent's own answer, best first, by ids of any form.", examples=[[EXAMPLE_ID]]
    )


class ReportBody(Request):
    answers: Strings = Field(
        description="The papers that answer the question, by ids of any form.", examples=[[EXAMPLE_ID]]
    )
