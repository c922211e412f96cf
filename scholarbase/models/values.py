"""The values of requests: types that check them and describe them in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

from annotated_types import Len
from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, WithJsonSchema

from scholarbase.errors import InvalidRequest
from scholarbase.models.checks import (
    MAX_INTEGER,
    as_of_day,
    check_author_id,
    check_authors,
    check_categories,
    check_filled,
    check_ids,
    check_names,
    check_phrases,
    check_statuses,
    check_text,
    check_title,
    check_types,
    check_whole,
    date_bounds,
    elements,
    in_batch,
    shown,
)
from scholarbase.models.limits import (
    MAX_AUTHOR_ID_LENGTH,
    MAX_GRAPH_WEIGHT,
    MAX_LIMIT,
    MAX_NAME_LENGTH,
    MAX_PHRASE_LENGTH,
    MAX_PHRASES,
    MAX_RERANK_DEPTH,
    MAX_RERANK_MS,
    MAX_RERANKER_NAME,
    MAX_TIMEOUT,
    MAX_TITLE_MATCHES,
    MIN_TITLE_SCORE,
)
from scholarbase.models.papers import ALL_FIELDS, EXAMPLE_ID, check_fields

_STRINGS: Final = {"type": "array", "items": {"type": "string"}}
_DAY: Final = r"-(0[1-9]|[12]\d|3[01])"
_POINT_IN_TIME: Final = rf"^\d{{4}}-(0[1-9]|1[0-2])({_DAY})?$"
_DATE: Final = rf"^\d{{4}}(-(0[1-9]|1[0-2])({_DAY})?)?$"


def _range(low: int, high: int = MAX_INTEGER) -> dict[str, JsonValue]:
    """The limits of a number for the OpenAPI document; a validator checks them, for the wording of its message."""
    return {"minimum": low, "maximum": high}


if TYPE_CHECKING:
    StringTuple = Sequence[str]
    """Callers may give any sequence, or one string; validation makes a tuple of it."""
else:
    StringTuple = tuple[str, ...]


def as_tuple(value: Any) -> Any:
    """A list or another iterable as a tuple; a string as a tuple of one."""
    if isinstance(value, str):
        return (value,)
    items = elements(value)
    return value if items is None else items


def _number_of(
    name: str, most: float, what: str = "", *, least: float | None = None
) -> tuple[BeforeValidator, AfterValidator]:
    """Validators of a number above 0, or from ``least`` on, and at most ``most``."""
    start = "above 0 and" if least is None else f"at least {least:g} and"
    span = f"it must be {start} at most {most}{what}."

    def check_kind(value: Any) -> Any:
        # pydantic would convert whatever has __float__, such as numpy's booleans. The values of a URL are strings.
        if isinstance(value, bool) or not isinstance(value, int | float | str | None):
            kind = type(value).__name__
            raise InvalidRequest(f"{name} is {shown(value)}: it must be a number (int or float), not {kind}.")
        return value

    def check_size(value: float | None) -> float | None:
        if value is not None and not ((value > 0 if least is None else least <= value) and value <= most):
            raise InvalidRequest(f"{name} is {value!r}: {span}")
        return value

    return BeforeValidator(check_kind), AfterValidator(check_size)


def whole_of(
    name: str, example: int, description: str, low: int, high: int = MAX_INTEGER
) -> tuple[AfterValidator, Any]:
    """A validator of a whole number from ``low`` to ``high``, or of None, and its description."""
    field = Field(description=description, examples=[example], json_schema_extra=_range(low, high))
    return AfterValidator(
        lambda value: value if value is None else check_whole(value, name, low, high)
    ), field


def titled(title: str) -> str:
    with in_batch("title", title):
        return check_title(title)


def ids_of(name: str) -> BeforeValidator:
    return BeforeValidator(lambda ids: ids if ids is None else check_ids(ids, name))


def _checked(check: Callable[[str], object]) -> AfterValidator:
    """A validator of a text, which returns it, or of None."""

    def unchanged(text: str | None) -> str | None:
        if text is not None:
            check(text)
        return text

    return AfterValidator(unchanged)


def _check_reranker(name: str) -> None:
    check_text(name, "rerank")
    if not 0 < len(name) <= MAX_RERANKER_NAME:
        raise InvalidRequest(
            f"rerank is {shown(name)}: it must be the name of a reranker, of 1 to {MAX_RERANKER_NAME} characters."
        )


Strings = Annotated[StringTuple, BeforeValidator(as_tuple)]
SomeStrings = Annotated[StringTuple, Len(1), BeforeValidator(as_tuple)]

FieldNames = Annotated[
    StringTuple,
    BeforeValidator(check_fields),
    WithJsonSchema({"anyOf": [_STRINGS, {"type": "null"}], "examples": [["title", "year", "authors"]]}),
    Field(
        json_schema_extra=lambda schema: schema.pop("default", None),
        description="The fields of each paper; by default all but `as_written` and `notices`. `id` is always included. "
        f"Fields: {', '.join(ALL_FIELDS)}. In a string or a URL, separated by commas.",
    ),
]
Limit = Annotated[
    int,
    *whole_of("limit", 10, f"The number of results: 1 to {MAX_LIMIT}.", 1, MAX_LIMIT),
]
TitleLimit = Annotated[
    int,
    *whole_of("limit", 5, f"The number of matches: 1 to {MAX_TITLE_MATCHES}.", 1, MAX_TITLE_MATCHES),
]
Offset = Annotated[
    int,
    *whole_of("offset", 0, "The number of results to skip: the `next_offset` of the previous page.", 0),
]
Hops = Annotated[
    int,
    *whole_of("hops", 1, "The number of hops: 1 or 2.", 1, 2),
]
CitationsPerSeed = Annotated[
    int | None,
    *whole_of(
        "citations_per_seed",
        30,
        "At most this many citing papers of each seed, and with two hops of each paper that a seed "
        "reaches: the most cited that pass the filters, or with `as_of` the newest. All by default.",
        0,
    ),
]
ReferencesPerSeed = Annotated[
    int | None,
    *whole_of(
        "references_per_seed",
        100,
        "At most this many references of each seed, as for `citations_per_seed`. All by default.",
        0,
    ),
]
FromDate = Annotated[
    str | None,
    _checked(lambda text: date_bounds(text, "from")),
    Field(
        alias="from",
        description="Only papers from this date on: YYYY, YYYY-MM or YYYY-MM-DD. A paper whose date is not "
        "precise enough to decide does not match.",
        examples=["1993-01"],
        json_schema_extra={"pattern": _DATE},
    ),
]
ToDate = Annotated[
    str | None,
    _checked(lambda text: date_bounds(text, "to")),
    Field(
        description="Only papers up to this date: YYYY, YYYY-MM or YYYY-MM-DD. A paper whose date is not "
        "precise enough to decide does not match.",
        examples=["2003"],
        json_schema_extra={"pattern": _DATE},
    ),
]
AsOf = Annotated[
    str | None,
    _checked(as_of_day),
    Field(
        description="The state on this day (YYYY-MM-DD) or at the end of this month (YYYY-MM): papers that are "
        "later or of unknown date are left out, and citation counts are null.",
        examples=["2003-06"],
        json_schema_extra={"pattern": _POINT_IN_TIME},
    ),
]
Categories = Annotated[
    StringTuple,
    BeforeValidator(check_categories),
    Field(
        description="Only papers in one of these categories (`cs.CL`) or archives (`cs`). "
        "In a string or a URL, separated by commas.",
        examples=[["hep-th"]],
    ),
]
Venues = Annotated[
    StringTuple,
    BeforeValidator(lambda names: check_names(names, "venue")),
    Field(
        description="Only papers from one of these venues, by any of their names. In a URL, repeat the parameter.",
        examples=[["arXiv.org"]],
    ),
]
Types = Annotated[
    StringTuple,
    BeforeValidator(check_types),
    Field(
        description="Only papers of one of these publication types, such as `Review`, `JournalArticle` or "
        "`Conference`; those of a type after a hyphen (`-Review`) are left out. In a string or a URL, separated by "
        "commas.",
        examples=[["-Review"]],
    ),
]
Authors = Annotated[
    StringTuple,
    BeforeValidator(lambda names: check_authors(names, "author")),
    Field(
        description="Only papers by one of these authors: an id of `/v1/authors`, or a name, which stands for all "
        "authors that `/v1/authors` finds by it. In a URL, repeat the parameter.",
        examples=[["Washington Taylor"]],
    ),
]
AuthorId = Annotated[
    str,
    AfterValidator(lambda value: check_author_id(value, "author_id")),
    Field(
        description="The author's id: the source's, or `name:` and a name.",
        examples=["name:washington taylor"],
        json_schema_extra={"minLength": 1, "maxLength": MAX_AUTHOR_ID_LENGTH},
    ),
]
AuthorName = Annotated[
    str,
    AfterValidator(lambda name: check_filled(name, "q", MAX_NAME_LENGTH, "the name of an author")),
    Field(
        description="A name, in any order of its words. Initials match first names, and first names initials.",
        examples=["W. Taylor"],
        json_schema_extra={"minLength": 1, "maxLength": MAX_NAME_LENGTH},
    ),
]
MinCitations = Annotated[
    int | None,
    *whole_of("min_citations", 10, "Only papers with at least this many citations worldwide.", 0),
]
Statuses = Annotated[
    StringTuple,
    BeforeValidator(check_statuses),
    Field(
        description="Only papers with one of these statuses: `active` (neither withdrawn nor retracted), `withdrawn` "
        "or `retracted`, or with a notice `correction`, `expression_of_concern` or `reinstatement`. In a string or a "
        "URL, separated by commas.",
        examples=[["active"]],
    ),
]
Exclude = Annotated[
    StringTuple,
    BeforeValidator(lambda phrases: check_phrases(phrases, "exclude")),
    Field(
        description="Leave out papers whose title or abstract contains one of these phrases. At most "
        f"{MAX_PHRASES} phrases of {MAX_PHRASE_LENGTH} characters. In a URL, repeat the parameter.",
        examples=[["lattice gauge theory"]],
    ),
]
ExcludeIds = Annotated[
    StringTuple,
    ids_of("exclude_ids"),
    Field(
        description="Leave out these papers, by ids of any form. In a URL, repeat the parameter.",
        examples=[["arXiv:hep-th/9303046"]],
    ),
]
Within = Annotated[
    StringTuple | None,
    ids_of("within"),
    Field(
        description="Search only these papers, by ids of any form, or the papers of a named set of the library, as "
        "`set:NAME`. In a URL, repeat the parameter.",
        examples=[["arXiv:hep-th/9301068", "arXiv:hep-th/9303046"]],
    ),
]
MinScore = Annotated[
    float,
    *_number_of("min_score", 1),
    Field(
        description="The minimum similarity of titles: above 0, at most 1 (the same title).",
        examples=[MIN_TITLE_SCORE],
        json_schema_extra={"exclusiveMinimum": 0, "maximum": 1},
    ),
]
MinSimilarity = Annotated[
    float | None,
    *_number_of("min_similarity", 1, least=-1),
    Field(
        description="The least cosine of a dense result; -1 for all. By default the library's own limit, below which "
        "most random pairs are (`random_similarity` in its manifest).",
        examples=[0.2],
        json_schema_extra={"minimum": -1, "maximum": 1},
    ),
]
GraphWeight = Annotated[
    float | None,
    *_number_of("graph_weight", MAX_GRAPH_WEIGHT, least=0),
    Field(
        description="The weight of the citation graph in a hybrid search that fuses scores: papers that the first "
        "results cite, or that cite them, come higher. 0 leaves it out. By default as the server is set.",
        examples=[0],
        json_schema_extra={"minimum": 0, "maximum": MAX_GRAPH_WEIGHT},
    ),
]
Timeout = Annotated[
    float | None,
    *_number_of("timeout", MAX_TIMEOUT, " seconds"),
    Field(
        description="Seconds that the request may take, up to the server's limit; by default that limit. What takes "
        "longer ends with status 504.",
        examples=[2.5],
    ),
]
Rerank = Annotated[
    str | None,
    _checked(_check_reranker),
    Field(
        description="A reranker that the server has, by its name: it sorts the first papers again by their titles and "
        "abstracts. `/v1/snapshot` names them.",
        examples=["minilm"],
        json_schema_extra={"minLength": 1, "maxLength": MAX_RERANKER_NAME},
    ),
]
RerankDepth = Annotated[
    int,
    *whole_of(
        "rerank_depth",
        50,
        f"The number of first papers that `rerank` sorts: 1 to {MAX_RERANK_DEPTH}.",
        1,
        MAX_RERANK_DEPTH,
    ),
]
RerankWeight = Annotated[
    float | None,
    *_number_of("rerank_weight", 1),
    Field(
        description="The part of the reranker's scores in the order of the first papers; the rest is that of their "
        "scores in the search. By default 1 for a cross-encoder, so that its scores alone decide, and 0.4 for an "
        "encoder.",
        examples=[0.5],
        json_schema_extra={"exclusiveMinimum": 0, "maximum": 1},
    ),
]
RerankMs = Annotated[
    int | None,
    *whole_of(
        "rerank_ms",
        300,
        "Milliseconds after which `rerank` starts no further batch of papers: those that it has not scored keep their "
        "order, behind the others, and `reranked` in the response is the number of those that it has. By default as "
        "the server is set, usually without a limit.",
        1,
        MAX_RERANK_MS,
    ),
]
ExcludeSeen = Annotated[
    bool,
    Field(
        description="Leave out papers that this session has already returned. Requires a session.",
        examples=[True],
    ),
]
ExactNeighbours = Annotated[
    bool, Field(description="Compare with every vector, without approximation.", examples=[False])
]
ExplainNeighbours = Annotated[
    bool, Field(description="Show what each leg contributed to a result.", examples=[True])
]
PaperId = Annotated[
    str,
    Field(
        description="The paper's id in any form: arXiv (new or old, with version or prefix, or a link), CorpusId:, "
        "a Semantic Scholar sha, DOI:, ACL:, PMID:, MAG:, URL:, or a citation key of people's own files (Key:).",
        examples=[EXAMPLE_ID],
    ),
]
