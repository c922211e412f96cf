"""A claim with its reference: the cited paper, and what its text says about the claim."""

from __future__ import annotations

from typing import Annotated, Any, Final, Self

import msgspec
from msgspec import Meta
from pydantic import Field, model_validator

from scholarbase.errors import DocumentNotFound, InvalidRequest
from scholarbase.models.checks import check_text
from scholarbase.models.papers import Paper
from scholarbase.models.requests import ResponseOptions, Timed
from scholarbase.models.responses import CheckedReference, Response, Snapshot
from scholarbase.models.values import AsOf
from scholarbase.search.library import Library
from scholarbase_research.claims.comparison import Label, Sentence, compare_claim

MAX_CLAIM: Final = 2_000
"""Characters of a claim, and of its reference."""
PASSAGES: Final = 10
"""Passages of a full text whose sentences are compared."""
_FIELDS: Final = ("id", "title", "abstract", "status")


class ClaimBody(ResponseOptions, Timed):
    """A claim and the reference that it cites."""

    claim: str = Field(
        description=f"One sentence, of at most {MAX_CLAIM:,} characters.",
        examples=["QCD in two dimensions is equivalent to a string theory."],
        json_schema_extra={"minLength": 1, "maxLength": MAX_CLAIM},
    )
    reference: str = Field(
        description="The cited paper: an id, a DOI, or one reference as in `POST /v1/references/check`.",
        examples=["arXiv:hep-th/9301068"],
        json_schema_extra={"minLength": 1, "maxLength": MAX_CLAIM},
    )
    as_of: AsOf = None

    @model_validator(mode="after")
    def _check_texts(self) -> Self:
        for name in ("claim", "reference"):
            text = getattr(self, name)
            if not text.strip():
                raise InvalidRequest(f"{name} is empty: send a claim and the reference that it cites.")
            if len(text) > MAX_CLAIM:
                raise InvalidRequest(f"{name} has {len(text):,} characters: the maximum is {MAX_CLAIM:,}.")
            check_text(text, name)
        return self


class Evidence(msgspec.Struct, frozen=True):
    """A sentence of the paper."""

    start: Annotated[int, Meta(description="Its offset in `source`, in characters.")]
    end: int
    text: str
    score: Annotated[float, Meta(description="The share of the claim's words that it has, from 0 to 1.")]


class ClaimResponse(Response, frozen=True):
    """What the cited paper says about a claim."""

    snapshot: Snapshot
    label: Annotated[
        Label,
        Meta(
            description="supported: a sentence has all words, numbers and the direction of the claim; contradicts: one "
            "has other numbers, a negation or the opposite direction; not_found: neither, which says nothing about "
            "the claim."
        ),
    ]
    reason: Annotated[str, Meta(description="Why, as a sentence.")]
    reference: Annotated[str, Meta(description="The status of the reference, as in a check of references.")]
    reference_reason: str
    paper: Annotated[Paper | None, Meta(description="The cited paper: `id`, `title` and `status`.")] = None
    source: Annotated[str | None, Meta(description="`full text`, `abstract`, or null without a text.")] = None
    sentences: Annotated[
        tuple[Evidence, ...], Meta(description="The nearest sentences, the best first.")
    ] = ()
    missing_words: Annotated[
        tuple[str, ...], Meta(description="Words of the claim that the text does not have.")
    ] = ()
    missing_numbers: Annotated[
        tuple[str, ...], Meta(description="Numbers of the claim that none of the sentences has.")
    ] = ()

    def selected(self) -> Any:
        content = msgspec.structs.asdict(self)
        if self.paper is not None:
            content["paper"] = {name: getattr(self.paper, name) for name in ("id", "title", "status")}
        return content


def check_claim(library: Library, claim: str, reference: str, *, as_of: str | None = None) -> ClaimResponse:
    """Compare a claim with the text of the paper that a reference means.

    Raises:
        InvalidRequest: the claim or the reference is empty or too long, or ``reference`` has several ones.
    """
    return run_claim(library, ClaimBody.of(claim=claim, reference=reference, as_of=as_of))


def run_claim(library: Library, request: ClaimBody) -> ClaimResponse:
    """:func:`check_claim` for a request."""
    checked = library.check_references(request.reference, as_of=request.as_of, fields=_FIELDS).results
    if len(checked) != 1 or not isinstance(checked[0], CheckedReference):
        raise InvalidRequest(f"reference has {len(checked)} references: send one.")
    cited = checked[0]
    about: dict[str, Any] = {"reference": cited.status, "reference_reason": cited.reason}
    if cited.paper is None:
        reason = "The cited paper is not in this library, so that the claim was not compared."
        return ClaimResponse(library.snapshot_id, "not_found", reason, **about)
    about["paper"] = cited.paper
    source, parts = _text(library, cited.paper, request)
    if source is None:
        reason = "The library has no text of the cited paper, so that the claim was not compared."
        return ClaimResponse(library.snapshot_id, "not_found", reason, **about)
    found = compare_claim(request.claim, parts)
    return ClaimResponse(
        library.snapshot_id,
        found.label,
        found.reason,
        **about,
        source=source,
        sentences=tuple(map(_evidence, found.sentences)),
        missing_words=found.missing_words,
        missing_numbers=found.missing_numbers,
    )


def _text(library: Library, paper: Paper, request: ClaimBody) -> tuple[str | None, list[tuple[int, str]]]:
    """The text to compare, in parts with their offsets: passages of the full text, else the abstract."""
    if library.has_full_texts:
        try:
            found = library.passages(paper.id, request.claim, limit=PASSAGES, as_of=request.as_of)
        except DocumentNotFound:
            pass
        else:
            return "full text", [(hit.passage.start, hit.passage.text) for hit in found.results]
    return ("abstract", [(0, paper.abstract)]) if paper.abstract else (None, [])


def _evidence(one: Sentence) -> Evidence:
    return Evidence(one.start, one.end, one.text, one.score)
