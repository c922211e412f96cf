"""A claim with its reference: the cited paper, and what its text says about the claim."""

from __future__ import annotations

from typing import Annotated, Any, Final, Self

import msgspec
from msgspec import UNSET, Meta, UnsetType
from pydantic import Field, model_validator

from scholarbase.errors import DocumentNotFound, InvalidRequest
from scholarbase.models.checks import check_text
from scholarbase.models.papers import Paper
from scholarbase.models.requests import ResponseOptions, Timed
from scholarbase.models.responses import CheckedReference, Response, Snapshot
from scholarbase.models.values import AsOf
from scholarbase.search.library import Library
from scholarbase_research.claims.comparison import Label, compare_claim, without_citation
from scholarbase_research.claims.judging import Judgement, Judging, open_judge
from scholarbase_research.claims.nearness import nearness

MAX_CLAIM: Final = 2_000
"""Characters of a claim, and of its reference."""
PASSAGES: Final = 10
"""Passages of a full text whose sentences are compared."""
FIELDS: Final = ("id", "title", "abstract", "authors", "year", "status", "notices", "versions")
"""Fields of a cited paper that are compared and shown."""


Judge = Annotated[
    str | None,
    Field(
        description="Who gives the label: `model`, the language model of the server (`SCHOLARBASE_MODEL`), or a "
        "reranker of the server that scores from 0 to 1 whether a sentence supports a claim. By default words are "
        "compared.",
        examples=["model"],
    ),
]


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
    judge: Judge = None

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


class CheckedClaim(Response, frozen=True):
    """A claim, compared with the text of the paper that it cites."""

    label: Annotated[
        Label,
        Meta(
            description="supported: a sentence has all words, numbers and the direction of the claim; contradicts: one "
            "has other numbers, a negation or the opposite direction; not_found: neither, which says nothing about "
            "the claim. With `judge`, its label."
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
    nearness: Annotated[
        float | None,
        Meta(
            description="How near the title and abstract of the cited paper are to the claim, from 0 to 1: compare "
            "papers for one claim by it. Null without a paper."
        ),
    ] = None
    missing_words: Annotated[
        tuple[str, ...], Meta(description="Words of the claim that the text does not have.")
    ] = ()
    missing_numbers: Annotated[
        tuple[str, ...], Meta(description="Numbers of the claim that none of the sentences has.")
    ] = ()
    judged: Annotated[
        Judgement | UnsetType, Meta(description="What the judge said; present with `judge`.")
    ] = UNSET

    def selected(self) -> Any:
        content = {name: value for name, value in msgspec.structs.asdict(self).items() if value is not UNSET}
        if self.paper is not None:
            content["paper"] = {name: getattr(self.paper, name) for name in ("id", "title", "status")}
        return content


class ClaimResponse(CheckedClaim, frozen=True, kw_only=True):
    """What the cited paper says about a claim."""

    snapshot: Snapshot

    def selected(self) -> Any:
        return {"snapshot": self.snapshot, **super().selected()}


def check_claim(
    library: Library, claim: str, reference: str, *, as_of: str | None = None, judge: str | None = None
) -> ClaimResponse:
    """Compare a claim with the text of the paper that a reference means.

    Args:
        judge: ``model``, the language model of the library's settings, or the name of one of its rerankers.

    Raises:
        InvalidRequest: the claim or the reference is empty or too long, ``reference`` has several ones, or the library
            has no such judge.
        ModelError, RerankerError: the judge fails.
    """
    return run_claim(library, ClaimBody.of(claim=claim, reference=reference, as_of=as_of, judge=judge))


def run_claim(library: Library, request: ClaimBody) -> ClaimResponse:
    """:func:`check_claim` for a request."""
    with open_judge(library, request.judge) as judge:
        checked = library.check_references(request.reference, as_of=request.as_of, fields=FIELDS).results
        if len(checked) != 1 or not isinstance(checked[0], CheckedReference):
            raise InvalidRequest(f"reference has {len(checked)} references: send one.")
        values = compare_with(library, request.claim, checked[0], request.as_of, judge)
    return ClaimResponse(snapshot=library.snapshot_id, **values)


def compare_with(
    library: Library, claim: str, cited: CheckedReference, as_of: str | None, judge: Judging | None
) -> dict[str, Any]:
    """The fields of :class:`CheckedClaim` for a claim and a reference that was checked with ``FIELDS``."""
    values: dict[str, Any] = {
        "label": "not_found",
        "reference": cited.status,
        "reference_reason": cited.reason,
        "paper": cited.paper,
    }
    if cited.paper is None:
        what = "is not certain" if cited.status == "near" else "is not in this library"
        return {**values, "reason": f"The cited paper {what}, so that the claim was not compared."}
    values["nearness"] = nearness(claim, cited.paper, library.encoder)
    source, parts = _text(library, cited.paper, claim, as_of)
    if source is None:
        reason = "The library has no text of the cited paper, so that the claim was not compared."
        return {**values, "reason": reason}
    compared = compare_claim(without_citation(claim, cited.paper), parts)
    values |= {
        "label": compared.label,
        "reason": compared.reason,
        "source": source,
        "sentences": tuple(Evidence(s.start, s.end, s.text, s.score) for s in compared.sentences),
        "missing_words": compared.missing_words,
        "missing_numbers": compared.missing_numbers,
    }
    if judge is not None:
        judged = judge(claim, cited.paper.title or "", compared)
        values["judged"] = judged
        if judged.label is not None:
            values |= {"label": judged.label, "reason": judged.reason}
    return values


def _text(
    library: Library, paper: Paper, claim: str, as_of: str | None
) -> tuple[str | None, list[tuple[int, str]]]:
    """The text to compare, in parts with their offsets: passages of the full text, else the abstract."""
    if library.has_full_texts:
        try:
            response = library.passages(paper.id, claim, limit=PASSAGES, as_of=as_of)
        except DocumentNotFound:
            pass
        else:
            return "full text", [(hit.passage.start, hit.passage.text) for hit in response.results]
    return ("abstract", [(0, paper.abstract)]) if paper.abstract else (None, [])
