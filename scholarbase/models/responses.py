"""Responses of a library, and their JSON.

``to_dict`` returns the body of an HTTP response as plain data, and ``from_dict`` parses it:
``SearchResponse.from_dict(response.to_dict()) == response``. The OpenAPI document is made from the same structs
(:mod:`scholarbase.api.openapi`). Creating and encoding a paper as a msgspec struct takes a sixth of the time that a
pydantic model takes, and a page has up to a thousand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, Any, Final, Self, TypeVar

import msgspec
import orjson
from msgspec import UNSET, Meta, UnsetType

from scholarbase import deadlines
from scholarbase.errors import TimeLimit
from scholarbase.models.authors import AuthorProfile
from scholarbase.models.checks import in_batch
from scholarbase.models.limits import (
    REFERENCE_STATUSES,
    Counted,
    Engine,
    Mode,
    ReferenceFormat,
    ReferenceStatus,
    TotalRelation,
)
from scholarbase.models.papers import ALL_FIELDS, PAPER_FIELDS, Paper, check_fields

T = TypeVar("T")

Snapshot = Annotated[
    str,
    Meta(description="Identifies the library's content: equal requests on it return equal bytes."),
]
Warnings = Annotated[
    tuple[str, ...],
    Meta(
        description="Present if something in the request had no effect, such as an unknown id in `exclude_ids`, if "
        "no paper has the value of a filter (with the nearest known values), if "
        "`q` contains query syntax and is ranked as plain text, or if a paper cannot be compared with others."
    ),
]
NextOffset = Annotated[int | None, Meta(description="The `offset` of the next page; null on the last page.")]

_OMITTED_EMPTY: Final = frozenset({"failed_legs", "warnings", "rerank", "reranked", "understood"})
"""Keys of a response that its JSON has only with a value."""


_Selector = Callable[[Paper], Any]
"""Copies the requested fields of a paper, to a struct: msgspec encodes it in a quarter of the time of a dict."""


class LegExplanation(msgspec.Struct, frozen=True):
    """The contribution of one leg to a result; of `title` or `id`, where `q` is the title or an id of the paper; of
    `syntax`, where `q` is prose that few papers match as query syntax; of `rerank`, where a reranker scored it; of
    `avoided`, where the paper has a phrase that `q` does without. `graph` is the citation graph."""

    leg: str
    rank: Annotated[int, Meta(description="Counted from 1.")]
    score: Annotated[float, Meta(description="The leg's own score.")]
    share: Annotated[float, Meta(description="The part of the result's score that comes from this leg.")]
    terms: Annotated[
        tuple[str, ...],
        Meta(
            description="The words of `q` in the title or abstract, in lower case; empty for dense and learned, which "
            "do not compare words."
        ),
    ] = ()
    cited_by: Annotated[
        tuple[str, ...] | UnsetType,
        Meta(description="Of `graph`: the first results that cite the paper, best first, ten at most."),
    ] = UNSET
    cites: Annotated[
        tuple[str, ...] | UnsetType,
        Meta(description="Of `graph`: the first results that the paper cites, best first, ten at most."),
    ] = UNSET


class Hit(msgspec.Struct, frozen=True, omit_defaults=True):
    score: float
    paper: Paper
    explain: Annotated[tuple[LegExplanation, ...] | None, Meta(description="Present with `explain`.")] = None


class FailedLeg(msgspec.Struct, frozen=True):
    leg: str
    detail: str


class Understood(msgspec.Struct, frozen=True):
    """What a question asks for, where it says what it does not want."""

    wanted: Annotated[str, Meta(description="The text that is searched for.")]
    excluded: Annotated[
        tuple[str, ...],
        Meta(description="Papers whose title or abstract has one of these phrases are left out."),
    ] = ()
    avoided: Annotated[
        tuple[str, ...], Meta(description="Papers that have one of these phrases come after all others.")
    ] = ()


class Response(msgspec.Struct, frozen=True, omit_defaults=True):
    """Base of the responses. ``fields`` are the fields of their papers that the JSON includes."""

    def to_dict(self) -> dict[str, Any]:
        """The body of the HTTP response as plain data."""
        content: dict[str, Any] = orjson.loads(msgspec.json.encode(self.selected()))
        return content

    def selected(self) -> Any:
        """This response with only the requested fields of its papers, for encoding as JSON."""
        fields: Sequence[str] = getattr(self, "fields", PAPER_FIELDS)
        if fields is PAPER_FIELDS:  # the default, which msgspec omits
            return self
        content = {name: getattr(self, name) for name in self.__struct_fields__ if name != "fields"}
        select = _selector(tuple(fields))
        content["results"] = [_selected(item, select) for item in content["results"]]
        return {name: value for name, value in content.items() if value or name not in _OMITTED_EMPTY}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], fields: Sequence[str] | None = None) -> Self:
        """Parse a response's JSON. ``fields`` are the requested fields, if known.

        Raises:
            ValueError: a key is missing or has the wrong type.
        """
        if "fields" not in cls.__struct_fields__:
            return msgspec.convert(data, cls)
        if fields is None:
            first = next(iter(data["results"]), None)
            fields = PAPER_FIELDS if first is None else [n for n in ALL_FIELDS if n in first["paper"]]
        response = msgspec.convert(data, cls)
        return msgspec.structs.replace(response, fields=check_fields(fields))


@lru_cache(maxsize=256)
def _selector(fields: tuple[str, ...]) -> _Selector:
    if len(fields) == 1:  # of one name, attrgetter returns the bare value
        return lambda paper: {fields[0]: getattr(paper, fields[0])}
    selected, values = msgspec.defstruct("SelectedPaper", fields, gc=False), attrgetter(*fields)
    return lambda paper: selected(*values(paper))


def _selected(item: Any, select: _Selector) -> Any:
    """A paper, or a struct or tuple of papers, with the selected fields of each paper."""
    if (paper := getattr(item, "paper", None)) is not None:
        content = msgspec.structs.asdict(item)
        content["paper"] = select(paper)
        if content.get("explain", ()) is None:
            del content["explain"]
        return content
    if isinstance(item, tuple):
        return [_selected(element, select) for element in item]
    return select(item) if isinstance(item, Paper) else item


class SearchResponse(Response, frozen=True):
    """Results in rank order."""

    snapshot: Snapshot
    mode: Annotated[Mode, Meta(description="The mode of the search.")]
    engine: Annotated[Engine | None, Meta(description="The sparse leg; null in a dense search.")]
    total: Annotated[int, Meta(description="The number of matching papers.")]
    total_relation: Annotated[
        TotalRelation, Meta(description="Whether `total` is exact (eq) or a lower bound (gte).")
    ]
    next_offset: NextOffset
    results: tuple[Hit, ...]
    failed_legs: Annotated[
        tuple[FailedLeg, ...], Meta(description="Present with `partial`, when a leg or the reranker failed.")
    ] = ()
    warnings: Warnings = ()
    rerank: Annotated[str | None, Meta(description="The reranker, if one sorted papers of this page.")] = None
    reranked: Annotated[
        int | None,
        Meta(
            description="Present with `rerank`: the number of first papers that it scored, fewer than `rerank_depth` "
            "if fewer match or `rerank_ms` was over."
        ),
    ] = None
    understood: Annotated[
        Understood | None, Meta(description="Present if `q` says what it does not want.")
    ] = None
    fields: Sequence[str] = PAPER_FIELDS


class SimilarResponse(Response, frozen=True):
    """The papers similar to a paper, in rank order."""

    snapshot: Snapshot
    total: Annotated[int, Meta(description="The number of papers in the fusion.")]
    total_relation: Annotated[
        TotalRelation, Meta(description="Whether these are all similar papers (eq), or a leg has more (gte).")
    ]
    next_offset: NextOffset
    results: tuple[Hit, ...]
    warnings: Warnings = ()
    fields: Sequence[str] = PAPER_FIELDS


class TitleMatch(msgspec.Struct, frozen=True):
    score: Annotated[float, Meta(description="1 is the same title.")]
    paper: Paper


class TitleMatchResponse(Response, frozen=True):
    """The papers with a title, best match first."""

    snapshot: Snapshot
    results: tuple[TitleMatch, ...]
    fields: Sequence[str] = PAPER_FIELDS


class Citation(msgspec.Struct, frozen=True):
    """A citation edge and the paper at its other end."""

    paper: Paper
    is_influential: bool | None = None
    contexts: Annotated[
        tuple[str, ...], Meta(description="Sentences that contain the citation, if the source has them.")
    ] = ()
    intents: Annotated[
        tuple[str, ...], Meta(description="Such as background or methodology, if the source has them.")
    ] = ()


class CitationsResponse(Response, frozen=True):
    """A page of a paper's citations or references."""

    snapshot: Snapshot
    total: Annotated[int, Meta(description="The number of results on all pages.")]
    next_offset: NextOffset
    results: tuple[Citation, ...]
    warnings: Warnings = ()
    fields: Sequence[str] = PAPER_FIELDS


class Neighbour(msgspec.Struct, frozen=True):
    """A paper reached from the seeds."""

    paper: Paper
    seeds: Annotated[int, Meta(description="The number of seeds that reach the paper.")]
    hops: Annotated[int, Meta(description="The smallest number of hops from a seed.")]


class ExpandResponse(Response, frozen=True):
    """The neighbours of a set of seeds, those reached by most seeds first."""

    snapshot: Snapshot
    total: int
    next_offset: NextOffset
    results: tuple[Neighbour, ...]
    warnings: Warnings = ()
    fields: Sequence[str] = PAPER_FIELDS


class AuthorsResponse(Response, frozen=True):
    """Authors with a name: those with exactly this name first, then those with the most papers."""

    snapshot: Snapshot
    total: Annotated[int, Meta(description="The number of matching authors.")]
    next_offset: NextOffset
    results: tuple[AuthorProfile, ...]


class FacetValue(msgspec.Struct, frozen=True):
    """A value, and the number of papers that have it."""

    value: Annotated[int | str, Meta(description="A year, a category, or the name of a venue.")]
    papers: Annotated[int, Meta(description="The number of counted papers with this value.")]


class Facet(msgspec.Struct, frozen=True):
    """The values of one property of papers."""

    values: tuple[FacetValue, ...]
    distinct: Annotated[int, Meta(description="The number of different values, listed or not.")]
    unknown: Annotated[int, Meta(description="The number of counted papers without a value.")]


class FacetsResponse(Response, frozen=True):
    """The number of papers by year, category and venue."""

    snapshot: Snapshot
    counted: Annotated[
        Counted,
        Meta(
            description="What is counted: all papers that match the `filters`; the first 1,000 `results` of the "
            "search; or all `matches` of the full-text index."
        ),
    ]
    total: Annotated[int, Meta(description="The number of counted papers.")]
    total_relation: Annotated[
        TotalRelation,
        Meta(description="Whether these are all papers (eq), or the search may have more (gte)."),
    ]
    year: Annotated[Facet, Meta(description="All years, the first one first.")]
    category: Annotated[
        Facet,
        Meta(description="The categories of most papers first. A paper counts in each of its categories."),
    ]
    venue: Annotated[
        Facet,
        Meta(description="The venues of most papers first; all names of a venue are one value."),
    ]
    warnings: Warnings = ()


class AuthorPapersResponse(Response, frozen=True):
    """A page of an author's papers."""

    snapshot: Snapshot
    total: Annotated[int, Meta(description="The number of results on all pages.")]
    next_offset: NextOffset
    results: tuple[Paper, ...]
    fields: Sequence[str] = PAPER_FIELDS


# -- HTTP responses ----------------------------------------------------------------------------------


class Unfinished(msgspec.Struct, frozen=True):
    """In a batch, the place of a search or title that took longer than the time limit."""

    error: Annotated[str, Meta(description="What took long, and what to change.")]
    status: Annotated[int, Meta(description="504, as in a response of its own.")] = TimeLimit.status


def finished(run: Callable[[], T], kind: str, text: str) -> T | Unfinished:
    """The result of one item of a batch, or the error if it takes longer than the time limit."""
    try:
        with in_batch(kind, text):
            deadlines.check(f"The {kind}", "send fewer in one request")
            return run()
    except TimeLimit as error:
        return Unfinished(str(error))


class SearchBatchResponse(Response, frozen=True):
    """The responses to the searches of a batch, in order."""

    snapshot: Snapshot
    results: tuple[SearchResponse | Unfinished, ...]

    def selected(self) -> Any:
        results = [result if isinstance(result, Unfinished) else result.selected() for result in self.results]
        return {"snapshot": self.snapshot, "results": results}


class TitleBatchResponse(Response, frozen=True):
    """The matches of each title of a batch, in order."""

    snapshot: Snapshot
    results: tuple[tuple[TitleMatch, ...] | Unfinished, ...]
    fields: Sequence[str] = PAPER_FIELDS


class InvalidId(msgspec.Struct, frozen=True):
    """In a tool's response, the place of an id that is malformed."""

    paper_id: str
    error: str


class PaperBatchResponse(Response, frozen=True):
    """Papers in the order of the requested ids; null for an id that the library does not hold."""

    snapshot: Snapshot
    results: tuple[Paper | None, ...]
    fields: Sequence[str] = PAPER_FIELDS


class Difference(msgspec.Struct, frozen=True):
    """What a reference says of a paper, and what the library has."""

    field: Annotated[str, Meta(description="title, authors, year, venue or id.")]
    reference: str
    library: str


class CheckedReference(msgspec.Struct, frozen=True, omit_defaults=True):
    """A reference, and the paper that it means."""

    position: Annotated[int, Meta(description="The number of the reference, from 1.")]
    line: Annotated[int, Meta(description="The line where it starts; of CSL-JSON the number of the item.")]
    status: Annotated[
        ReferenceStatus,
        Meta(
            description="held: the library has the paper; near: it has similar ones; withdrawn: it has the paper, "
            "which its authors withdrew; retracted: it has the paper, which its publisher retracted; not_in_snapshot: "
            "it has none, which does not mean that none exists; unreadable: the entry is broken."
        ),
    ]
    reason: Annotated[str, Meta(description="Why, as a sentence.")]
    text: Annotated[str, Meta(description="The beginning of the reference.")]
    key: Annotated[str | None, Meta(description="Its key or number in the bibliography.")] = None
    paper: Annotated[
        Paper | None, Meta(description="The paper of a reference that is held, withdrawn or retracted.")
    ] = None
    differences: Annotated[
        tuple[Difference, ...], Meta(description="Where the reference and the paper differ.")
    ] = ()
    matches: Annotated[
        tuple[TitleMatch, ...], Meta(description="The nearest papers of a reference that is near.")
    ] = ()


class CheckResponse(Response, frozen=True):
    """The references of a bibliography, in order."""

    snapshot: Snapshot
    input_format: Annotated[ReferenceFormat, Meta(description="The format that the references were read as.")]
    counts: Annotated[dict[str, int], Meta(description="The number of references by status.")]
    results: tuple[CheckedReference | Unfinished, ...]
    fields: Sequence[str] = PAPER_FIELDS

    def selected(self) -> Any:
        results = [
            result if isinstance(result, Unfinished) else _selected_reference(result, self.fields)
            for result in self.results
        ]
        return {
            "snapshot": self.snapshot,
            "input_format": self.input_format,
            "counts": self.counts,
            "results": results,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], fields: Sequence[str] | None = None) -> Self:
        results: list[CheckedReference | Unfinished] = []
        for result in data["results"]:
            is_error = "error" in result
            results.append(
                msgspec.convert(result, Unfinished) if is_error else msgspec.convert(result, CheckedReference)
            )
        return cls(
            data["snapshot"],
            data["input_format"],
            data["counts"],
            tuple(results),
            fields=check_fields(fields),
        )


def _selected_reference(reference: CheckedReference, fields: Sequence[str]) -> dict[str, Any]:
    content, select = msgspec.structs.asdict(reference), _selector(tuple(fields))
    content["paper"] = None if reference.paper is None else select(reference.paper)
    content["matches"] = [_selected(match, select) for match in reference.matches]
    optional = ("key", "paper", "differences", "matches")
    return {name: value for name, value in content.items() if value or name not in optional}


def count_statuses(results: Iterable[CheckedReference | Unfinished]) -> dict[str, int]:
    """The number of references of each status, 0 included; those not finished are left out."""
    counts: dict[str, int] = dict.fromkeys(REFERENCE_STATUSES, 0)
    for result in results:
        if isinstance(result, CheckedReference):
            counts[result.status] += 1
    return counts


class PaperResponse(Response, frozen=True):
    """One paper: its fields and the snapshot, in one object."""

    snapshot: Snapshot
    paper: Paper
    paper_fields: Sequence[str]

    def selected(self) -> Any:
        return {"snapshot": self.snapshot, **{name: getattr(self.paper, name) for name in self.paper_fields}}


class AuthorBatchResponse(Response, frozen=True):
    """Authors in the order of the requested ids; null for an id of which the library holds no paper."""

    snapshot: Snapshot
    results: tuple[AuthorProfile | None, ...]


class AuthorResponse(Response, frozen=True):
    """One author: its keys and the snapshot, in one object."""

    snapshot: Snapshot
    author: AuthorProfile

    def selected(self) -> Any:
        return {"snapshot": self.snapshot, **msgspec.structs.asdict(self.author)}


class Observation(Response, frozen=True):
    """What ``view`` and ``answer`` give, and why an action failed."""

    snapshot: Snapshot
    observation: Annotated[str, Meta(description="What the agent reads.")]
    id: Annotated[str | None, Meta(description="The paper of an image.")] = None
    image: Annotated[str | None, Meta(description="An image in Base64.")] = None
    media_type: str | None = None
    answer: Any = None
    done: Annotated[bool | None, Meta(description="True: the answer ended the episode.")] = None
    error_type: Annotated[
        str | None, Meta(description="The type of the error, if the action failed: a name of docs/errors.md.")
    ] = None
