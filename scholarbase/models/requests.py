"""Requests: one model each for HTTP, tools, Python and the command line.

A request is validated when it is created. Invalid values raise InvalidRequest, whether the request comes from a URL, a
JSON body, a tool call or Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from annotated_types import Len
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    WrapValidator,
    model_validator,
)

from scholarbase.errors import InvalidRequest, ScholarBaseError
from scholarbase.models.checks import (
    as_of_day,
    check_papers,
    check_sort,
    check_status,
    check_text,
    check_title,
    check_type,
    date_bounds,
    in_batch,
    sent,
    shown,
)
from scholarbase.models.limits import (
    DEFAULT_EDGES,
    DEFAULT_MATCHES,
    DEFAULT_RERANK_DEPTH,
    DEFAULT_RESULTS,
    MAX_BATCH,
    MAX_QUERY_LENGTH,
    MAX_TITLE_LENGTH,
    MAX_TITLES,
    MAX_TOKENS,
    MIN_TITLE_SCORE,
    MIN_TOKENS,
    CitationSort,
    Direction,
    Engine,
    Fusion,
    Mode,
    Negation,
    Prefer,
    ResponseFormat,
    Syntax,
)
from scholarbase.models.papers import EXAMPLE_ID, PAPER_FIELDS
from scholarbase.models.values import (
    AsOf,
    Authors,
    Categories,
    CitationsPerSeed,
    ExactNeighbours,
    Exclude,
    ExcludeIds,
    ExcludeSeen,
    ExplainNeighbours,
    FieldNames,
    FromDate,
    GraphWeight,
    Hops,
    Limit,
    MinCitations,
    MinScore,
    MinSimilarity,
    Offset,
    PaperId,
    ReferencesPerSeed,
    Rerank,
    RerankDepth,
    RerankMs,
    RerankWeight,
    SomeStrings,
    Statuses,
    Timeout,
    TitleLimit,
    ToDate,
    Types,
    Venues,
    Within,
    as_tuple,
    ids_of,
    titled,
)

EXAMPLE_QUESTION: Final = "How is two-dimensional QCD related to string theory?"
_NUMBERS: Final = (int, float, int | None, float | None)
MAX_KEYS: Final = 100
"""Keys of a request, valid and unknown."""


class Request(BaseModel):
    """Base of all requests: immutable, without unknown names, with strict types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True)
    kind: ClassVar[str | None] = None
    """The word for a name in messages, if FastAPI parses the request."""
    uses_sql: ClassVar[bool] = False
    """Whether a tool's request is a SQL statement, which some servers do not run."""
    ends_with_answer: ClassVar[bool] = False
    """Whether a tool's request is refused in a session that has the agent's answer."""

    @model_validator(mode="wrap")
    @classmethod
    def _raise_invalid_request(
        cls, data: Any, validate: ModelWrapValidatorHandler[Self], info: ValidationInfo
    ) -> Self:
        if isinstance(data, dict) and len(data) > MAX_KEYS:  # pydantic would make an error for each
            raise InvalidRequest(f"The request has {len(data):,} keys: send {MAX_KEYS} at most.")
        if isinstance(data, dict) and (info.context or cls.kind) == "parameter":
            for name, value in data.items():  # pydantic reads underscores in numbers as Python does
                field = cls.model_fields.get(name)
                if field and field.annotation in _NUMBERS and "_" in str(value):
                    raise InvalidRequest(f"{name} is {shown(value)}: write the number without underscores.")
        try:
            return validate(data)
        except ValidationError as error:
            raise InvalidRequest(sentence(error.errors()[0], info.context or cls.kind)) from error

    def refused(self, error: ScholarBaseError) -> Request:
        """The request that runs in place of this one, which is refused: its response says why. By default the error is
        raised."""
        raise error

    @classmethod
    def of(cls, **values: Any) -> Self:
        """A request from Python values. Any sequence is accepted for a tuple; ``fields`` None selects all fields."""
        return cls(**values)

    @classmethod
    def parse(cls, values: Any, *, kind: str, strict: bool = True) -> Self:
        """A request from JSON values, or from the strings of a URL if not ``strict``.

        Args:
            kind: the word for a name in messages: parameter, key or argument.

        Raises:
            InvalidRequest: a name or a value is invalid.
        """
        return cls.model_validate(values, strict=strict, context=kind, by_alias=True, by_name=False)


def sentence(error: Any, kind: str | None = None) -> str:
    """The message of a pydantic error; ``kind`` is parameter, key or argument, None for Python values."""
    name = ".".join(str(part) for part in error["loc"])
    what, value = error["type"], error.get("input")
    if not name and what in ("model_attributes_type", "model_type", "dict_type"):
        return "The body is not a JSON object: send one, with the header Content-Type: application/json."
    if what == "extra_forbidden":
        return f"Unknown {kind or 'argument'} {name!r}: see the documentation for the valid ones."
    if what == "missing":
        return f"The {kind or 'argument'} {name!r} is missing."
    if what == "too_short":
        return f"{name} is empty: send at least one."
    if what == "too_long":
        sizes = error["ctx"]
        return f"{name} has {sizes['actual_length']} items: the maximum is {sizes['max_length']}."
    text = shown(value) if kind is None else sent(value)
    message = error["msg"].replace("tuple", "list").replace("Tuple", "List")
    return f"{name} is {text}: {message[:1].lower()}{message[1:]}."


def check_request(request: object, kind: type[Request]) -> None:
    """Raise InvalidRequest for anything but a request of this kind."""
    check_type(request, kind, "The request", f"a {kind.__name__}")


class _Sized(Request):
    max_tokens: int | None = Field(
        default=None,
        description="The maximum size of the response in estimated tokens. Abstracts are cut at a sentence, the last "
        "papers are left out, and the response says what is missing.",
        examples=[4000],
        json_schema_extra={"minimum": MIN_TOKENS, "maximum": MAX_TOKENS},
    )


class ResponseOptions(_Sized):
    """The maximum size and the format of a response."""

    format: Literal["json", "text"] = Field(
        default="json", description="JSON, or readable text.", examples=["json"]
    )


class PaperOptions(_Sized):
    """The maximum size and the format of a response of papers."""

    format: ResponseFormat = Field(
        default="json",
        description="JSON, readable text, or the papers alone as a bibliography: `bibtex`, `ris`, `csl` (CSL-JSON) or "
        "`csv`.",
        examples=["json"],
    )

    @property
    def is_export(self) -> bool:
        """Whether the response is a bibliography."""
        return self.format not in ("json", "text")

    @model_validator(mode="after")
    def _check_export(self) -> Self:
        if self.is_export:
            for name, default in (("max_tokens", None), ("explain", False), ("partial", False)):
                if getattr(self, name, default) != default:
                    raise InvalidRequest(
                        f"{name} {sent(getattr(self, name))} cannot be combined with format {self.format!r}, which has "
                        "whole papers and nothing else: leave one out."
                    )
        return self


class Timed(Request):
    """A request with a time limit of its own."""

    timeout: Timeout = None


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
    """Conditions on every result. They apply before any leg takes its first results.

    A paper matches a date limit only if its date is precise enough: a paper with only a year matches ``from_='2006'``
    but not ``from_='2006-03'``, and a paper without a date matches no date limit.
    ``category`` matches a category (``cs.CL``) or a whole archive (``cs``). ``category``, ``venue``, ``type`` and
    ``author`` match any of their values; a type after a hyphen is left out. ``exclude`` removes papers whose title or
    abstract contains one of the phrases, compared by word stems. ``status`` keeps papers that are ``active``,
    ``withdrawn`` or ``retracted``. ``as_of`` removes papers published after that day (of a month: its last day) or on
    an unknown day.
    """

    category: Categories = ()
    venue: Venues = ()
    type: Types = ()
    author: Authors = ()
    min_citations: MinCitations = None
    status: Statuses = ()
    exclude: Exclude = ()
    exclude_ids: ExcludeIds = ()
    within: Within = None
    as_of: AsOf = None

    @model_validator(mode="after")
    def _check_counts(self) -> Self:
        if self.min_citations is not None and self.as_of is not None:
            raise InvalidRequest(
                f"min_citations {self.min_citations} cannot be combined with as_of {self.as_of!r}: the "
                "snapshot has only its own, later citation counts. Leave one of them out."
            )
        if self.status:
            check_status(self.status, self.as_of)
        return self


FILTER_NAMES: Final = tuple(Filters.model_fields)


class _Query(Request):
    q: str = Field(
        description="A question or words, a title, an id or a link, or query syntax: "
        '`"a phrase"`, AND, OR, NOT, `prefix*`, `title:`.',
        examples=[EXAMPLE_QUESTION],
        json_schema_extra={"minLength": 1, "maxLength": MAX_QUERY_LENGTH},
    )
    limit: Limit = DEFAULT_RESULTS
    offset: Offset = 0
    fields: FieldNames = PAPER_FIELDS

    @model_validator(mode="after")
    def _check_query(self) -> Self:
        if not self.q.strip():
            raise InvalidRequest("q is empty: send the words to search for, or * for all papers.")
        if len(self.q) > MAX_QUERY_LENGTH:
            raise InvalidRequest(f"q has {len(self.q):,} characters: the maximum is {MAX_QUERY_LENGTH:,}.")
        if not self.q.isascii():
            check_text(self.q, "q")
        return self


class Ranked(Request):
    """How papers are ranked by a text."""

    syntax: Syntax = Field(
        default="auto",
        description="How `q` is read: as words (plain), as query syntax (query), or as query syntax if it contains "
        "some (auto). auto ranks a text as plain, with a warning, if its query syntax is invalid, or if it is prose "
        "and fewer than ten papers match.",
        examples=["plain"],
    )
    negation: Negation = Field(
        default="auto",
        description="auto reads exclusions in `q`, such as `but not surveys`: papers with what is excluded are left "
        "out, those with what `q` does without come last, and the response says what was `understood`. off searches "
        "for `q` as it is.",
        examples=["off"],
    )
    mode: Mode | None = Field(
        default=None,
        description="By words (sparse), by meaning (dense), or both (hybrid). By default hybrid if the library "
        "supports it, else sparse.",
        examples=["hybrid"],
    )
    engine: Engine | None = Field(
        default=None,
        description="The sparse leg: bm25 (fast), feedback (bm25, repeated with words of its first results, for more "
        "recall), fts5 (query syntax, exact counts) or learned (a model's term weights). By default fts5 for query "
        "syntax; for other text feedback in hybrid searches of up to 500,000 papers, else bm25.",
        examples=["bm25"],
    )
    fusion: Fusion | None = Field(
        default=None,
        description="How a hybrid search fuses its legs: by scores, or by reciprocal rank (rrf). By default as the "
        "server is set, usually by scores.",
        examples=["rrf"],
    )
    graph_weight: GraphWeight = None
    min_similarity: MinSimilarity = None

    @model_validator(mode="after")
    def _check_ranked(self) -> Self:
        if self.engine is not None and self.mode == "dense":
            raise InvalidRequest(
                f"engine {self.engine!r} cannot be combined with mode 'dense', which has no sparse leg: leave one out."
            )
        if self.syntax == "query" and (self.mode == "dense" or self.engine not in (None, "fts5")):
            other = "mode 'dense'" if self.mode == "dense" else f"engine {self.engine!r}"
            raise InvalidRequest(
                f"syntax 'query' cannot be combined with {other}, which has no query syntax: leave one out."
            )
        return self


RANKING_NAMES: Final = tuple(Ranked.model_fields)


class SearchRequest(Filters, Ranked, _Query, Timed):
    """One search. Its fields are the parameters of a search over HTTP, which describe them. Where None is allowed, the
    library or the settings decide.

    Raises:
        InvalidRequest: a value is invalid.
    """

    exact: bool = Field(
        default=False,
        description="Search dense vectors without approximation, and count every match.",
        examples=[False],
    )
    explain: bool = Field(
        default=False,
        description="Show what each leg contributed to a result, and which words of `q` the paper contains.",
        examples=[True],
    )
    prefer: Prefer = Field(
        default="none",
        description="Raise the scores of papers that are recent, at `as_of`, `to` or in the snapshot, or often cited.",
        examples=["recent"],
    )
    rerank: Rerank = None
    rerank_depth: RerankDepth = DEFAULT_RERANK_DEPTH
    rerank_weight: RerankWeight = None
    rerank_ms: RerankMs = None
    partial: bool = Field(
        default=False,
        description="If a leg or the reranker fails, return the results of the others and name it.",
        examples=[False],
    )

    @model_validator(mode="after")
    def _check_rerank(self) -> Self:
        defaults = {"rerank_depth": DEFAULT_RERANK_DEPTH, "rerank_weight": None, "rerank_ms": None}
        for name, default in defaults.items():
            if self.rerank is None and (value := getattr(self, name)) != default:
                raise InvalidRequest(
                    f"{name} {value:g} has no effect without rerank: name a reranker, or leave it out."
                )
        return self


class OneSearch(SearchRequest):
    """A search in a batch."""

    exclude_seen: ExcludeSeen = False


class SearchBody(OneSearch, PaperOptions):
    """A search."""


def _validate_search(value: Any, validate: Any) -> Any:
    with in_batch("search", value.get("q") if isinstance(value, Mapping) else value):
        return validate(value)


class SearchBatchBody(ResponseOptions, Timed):
    searches: Annotated[
        tuple[Annotated[OneSearch, WrapValidator(_validate_search)], ...],
        Len(1, MAX_BATCH),
        BeforeValidator(as_tuple),
        Field(
            description=f"The searches, at most {MAX_BATCH}.",
            examples=[[{"q": EXAMPLE_QUESTION, "limit": 3}, {"q": "black hole entropy", "mode": "sparse"}]],
        ),
    ]

    @model_validator(mode="after")
    def _check_papers(self) -> Self:
        check_papers(sum(search.limit for search in self.searches), "searches")
        return self


# -- titles and papers -------------------------------------------------------------------------------------


class TitleParameters(ResponseOptions, Timed):
    """A title to match."""

    title: str = Field(
        description="The title. Typing errors and a missing subtitle are tolerated.",
        examples=["Two Dimensional QCD is a String Theory"],
        json_schema_extra={"minLength": 1, "maxLength": MAX_TITLE_LENGTH},
    )
    limit: TitleLimit = DEFAULT_MATCHES
    min_score: MinScore = MIN_TITLE_SCORE
    as_of: AsOf = None
    fields: FieldNames = PAPER_FIELDS

    @model_validator(mode="after")
    def _check_title(self) -> Self:
        check_title(self.title)
        return self


class TitleBatchBody(ResponseOptions, Timed):
    titles: Annotated[
        tuple[Annotated[str, AfterValidator(titled)], ...],
        Len(1, MAX_TITLES),
        BeforeValidator(as_tuple),
        Field(
            description=f"The titles, at most {MAX_TITLES}.",
            examples=[["Two Dimensional QCD is a String Theory"]],
        ),
    ]
    limit: TitleLimit = 1
    min_score: MinScore = MIN_TITLE_SCORE
    as_of: AsOf = None
    fields: FieldNames = PAPER_FIELDS

    @model_validator(mode="after")
    def _check_papers(self) -> Self:
        check_papers(self.limit * len(self.titles), "titles")
        return self


class PaperParameters(PaperOptions, Timed):
    as_of: AsOf = None
    fields: FieldNames = PAPER_FIELDS


class PaperBody(PaperParameters):
    """A paper to look up."""

    paper_id: PaperId


class PaperBatchBody(PaperOptions, Timed):
    ids: Annotated[
        SomeStrings,
        ids_of("ids"),
        Field(description="Ids of any form.", examples=[[EXAMPLE_ID, "CorpusId:1000001"]]),
    ]
    missing: Literal["null", "error"] = Field(
        default="null",
        description="The response to an unknown id: `null` in its place, or status 404. A bibliography has no place "
        "for it, so its response is 404.",
        examples=["null"],
    )
    as_of: AsOf = None
    fields: FieldNames = PAPER_FIELDS

    @property
    def needs_all(self) -> bool:
        """Whether an unknown id is an error."""
        return self.missing == "error" or self.is_export


class SimilarParameters(Filters, PaperOptions, Timed):
    limit: Limit = DEFAULT_RESULTS
    offset: Offset = 0
    exact: ExactNeighbours = False
    explain: ExplainNeighbours = False
    exclude_seen: ExcludeSeen = False
    fields: FieldNames = PAPER_FIELDS


class SimilarBody(SimilarParameters):
    """A page of the papers that are similar to a paper."""

    paper_id: PaperId


# -- citations ---------------------------------------------------------------------------------------------


class _EdgePage(PaperOptions, Timed):
    limit: Limit = DEFAULT_EDGES
    offset: Offset = 0
    sort: CitationSort | None = Field(
        default=None,
        description="By citation count or date; `-` sorts in descending order, and unknown values come last. "
        "By default `-citation_count`, or `-date` with `as_of`.",
        examples=["-date"],
    )


class PaperPage(_Dates, _EdgePage):
    """A page of papers in an order."""

    status: Statuses = ()
    as_of: AsOf = None
    fields: FieldNames = PAPER_FIELDS

    @model_validator(mode="after")
    def _check_sort(self) -> Self:
        check_sort(self.sort, self.as_of)
        if self.status:
            check_status(self.status, self.as_of)
        return self


class EdgeParameters(PaperPage):
    """A page of citations or references."""

    author: Authors = ()


class EdgeBody(EdgeParameters):
    """A page of a paper's citations or references."""

    paper_id: PaperId


class _Expansion(PaperOptions, Timed):
    seeds: Annotated[
        SomeStrings,
        ids_of("seeds"),
        Field(
            description="The papers to start from, by ids of any form.",
            examples=[["arXiv:hep-th/9301068", "arXiv:hep-th/9303046"]],
        ),
    ]
    direction: Direction = Field(
        default="both",
        description="Follow citations (papers that cite the seeds), references (papers that the seeds cite), or both.",
        examples=["both"],
    )
    hops: Hops = 1
    citations_per_seed: CitationsPerSeed = None
    references_per_seed: ReferencesPerSeed = None
    limit: Limit = DEFAULT_EDGES
    offset: Offset = 0
    fields: FieldNames = PAPER_FIELDS


class ExpandBody(Filters, _Expansion):
    exclude_seen: ExcludeSeen = False
