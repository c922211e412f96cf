"""``estimate_recall``: searches of a library for a question, and what they have of the relevant papers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple, Self

import msgspec
from msgspec import Meta
from pydantic import Field, model_validator

from scholarbase.errors import InvalidRequest
from scholarbase.models.limits import MAX_IDS, MAX_LIMIT, Mode
from scholarbase.models.requests import EXAMPLE_QUESTION, ResponseOptions, Timed
from scholarbase.models.responses import Response, Snapshot
from scholarbase.models.values import AsOf, Strings
from scholarbase.search.library import Library
from scholarbase_research.completeness.estimates import LEVEL, share, stopping_risk
from scholarbase_research.completeness.samples import (
    FEWEST,
    Leg,
    Sample,
    Unseen,
    Yield,
    estimates,
    new_by_rank,
    yields,
)
from scholarbase_research.construction.rewrites import KINDS, RewriteKind, RuleRewriter
from scholarbase_research.construction.terms import stem, unique

_LEGS: Final[Mapping[Leg, Mode]] = {"words": "sparse", "meaning": "dense"}
MAX_PAPERS: Final = 500
"""Papers of a list."""
MAX_POPULATION: Final = 1_000_000_000
"""Papers, up to which the risk is exact to 0.001: logarithms of factorials lose digits with their size."""
MAX_TEXTS: Final = 10
"""Rewrites."""
REWRITES: Final = 3
"""Rewrites by rule at most, where the request has none."""
_OTHER_WORDS: Final[tuple[RewriteKind, ...]] = ("narrower", "terminology")
"""Kinds of rewrites by rule with words that the question does not have."""
MAX_SEEDS: Final = 50
"""Relevant papers whose citations are followed."""
TARGET: Final = 0.95
"""The share of the relevant papers that a review should read."""


class RecallBody(ResponseOptions, Timed):
    """A question, and the papers that are known to answer it."""

    q: str = Field(description="The question.", examples=[EXAMPLE_QUESTION], min_length=1)
    relevant: Strings = Field(
        description="Papers that were judged relevant, or a list whose completeness is asked.",
        examples=[["arXiv:hep-th/9301068"]],
    )
    known: Strings = Field(
        default=(),
        description="Relevant papers that were known before the search, or come from elsewhere: another person's list, "
        "the references of a review.",
        examples=[["arXiv:hep-th/9303046"]],
    )
    rewrites: Strings = Field(
        default=(),
        description=f"The question in other words, at most {MAX_TEXTS} times; by default up to {REWRITES} by rule.",
        examples=[["QCD2 strings"]],
    )
    depth: int = Field(
        default=100, description="Results of each search.", ge=10, le=MAX_LIMIT, examples=[100]
    )
    read: Strings = Field(
        default=(),
        description="All papers that were read, in order, for the risk of stopping.",
        examples=[[]],
    )
    population: int | None = Field(
        default=None,
        description="How many papers `read` were drawn from; by default those of the library.",
        ge=1,
        examples=[2000],
    )
    as_of: AsOf = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name, most in (
            ("relevant", MAX_PAPERS),
            ("known", MAX_PAPERS),
            ("rewrites", MAX_TEXTS),
            ("read", MAX_IDS),
        ):
            if (size := len(getattr(self, name))) > most:
                raise InvalidRequest(f"{name} has {size:,} elements: the maximum is {most:,}.")
        if not self.relevant and not self.known:
            raise InvalidRequest(
                "relevant and known are empty: name the papers that are known to be relevant."
            )
        if self.population is not None and not self.read:
            raise InvalidRequest(
                "population is only for the risk of stopping: send read too, or leave it out."
            )
        if self.population is not None and self.population > MAX_POPULATION:
            raise InvalidRequest(
                f"population is more than {MAX_POPULATION:,}: use the number of papers searched."
            )
        if self.population is not None and self.population < len(self.read):
            raise InvalidRequest(
                f"population is {self.population:,}, less than the {len(self.read):,} papers of read."
            )
        return self


class Share(msgspec.Struct, frozen=True):
    """How many papers of a list the searches returned, and the interval of the share."""

    papers: int
    returned: int
    low: float
    high: float


class Recall(Response, frozen=True):
    """How many relevant papers have not been seen, and where to look for them."""

    snapshot: Snapshot
    observation: Annotated[str, Meta(description="The result in sentences, and what it assumes.")]
    relevant: Annotated[int, Meta(description="Relevant papers that are known, each once.")]
    share: Annotated[
        Share, Meta(description="How many of `known`, or else of `relevant`, the searches returned.")
    ]
    estimates: Annotated[
        tuple[Unseen, ...], Meta(description="One for each method; empty if there are too few papers.")
    ]
    new: Annotated[tuple[int, ...], Meta(description="Relevant papers that each step of reading gave first.")]
    searches: Annotated[tuple[Yield, ...], Meta(description="The searches or calls with the highest yield.")]
    seeds: Annotated[
        tuple[Yield, ...], Meta(description="Relevant papers that cite, or are cited by, most others.")
    ]
    years: Annotated[tuple[Yield, ...], Meta(description="Of the papers that the searches returned.")]
    risk: Annotated[
        float | None,
        Meta(description=f"The p-value of having read fewer than {TARGET:.0%} of the relevant papers."),
    ] = None


def estimate_recall(library: Library, q: str, **arguments: Any) -> Recall:
    """Estimate how many papers that answer a question have not been seen.

    Args:
        arguments: the other fields of :class:`RecallBody`.

    Raises:
        InvalidRequest: an argument is invalid, or no paper is named.
    """
    return run_recall(library, RecallBody.of(q=q, **arguments))


def run_recall(library: Library, request: RecallBody) -> Recall:
    """:func:`estimate_recall` for a request."""
    papers = Papers.of(library, request.relevant, request.known, request.as_of)
    samples = search_samples(library, request)
    new = new_by_rank(samples, papers.relevant)
    linked = linked_papers(library, papers.relevant, request.as_of)
    if linked:
        cited = dict.fromkeys(paper for ids in linked.values() for paper in ids)
        samples.append(Sample("citations", "", tuple(cited)))
    risk = None
    if request.read:
        read = [paper in papers.relevant for paper in held(library, request.read, request.as_of)]
        population = request.population or library.manifest.counts["papers"]
        risk = round(stopping_risk(read, population, TARGET), 4)
    return recall(library, papers, samples, new, linked, risk)


def search_samples(library: Library, request: RecallBody) -> list[Sample]:
    """The results of every text in every leg. Without rewrites in the request there are some by rule."""
    texts: Sequence[str] = (request.q, *request.rewrites)
    if not request.rewrites:
        rewritten = RuleRewriter(library).rewrite(request.q, REWRITES * len(KINDS), request.as_of).rewrites
        others = (each_word_once(rewrite.text) for rewrite in rewritten if rewrite.kind in _OTHER_WORDS)
        texts = unique([request.q, *others])[: REWRITES + 1]
    return [
        Sample(leg, text, _search(library, text, mode, request))
        for text in dict.fromkeys(texts)
        for leg, mode in _LEGS.items()
        if mode in library.modes
    ]


def each_word_once(text: str) -> str:
    """A rewrite by rule without the repeated words that give a part of the question more weight."""
    first: dict[str, str] = {}
    for word in text.split():
        first.setdefault(stem(word), word)
    return " ".join(first.values())


class Papers(NamedTuple):
    """Relevant papers of the library, those of them that were known before, and how many it lacks."""

    relevant: frozenset[str]
    known: frozenset[str]
    absent: int

    @classmethod
    def of(
        cls, library: Library, relevant: Sequence[str], known: Sequence[str], as_of: str | None = None
    ) -> Self:
        """Raises InvalidRequest: an id is invalid, or the library has none of the papers."""
        judged = held(library, relevant, as_of), held(library, known, as_of)
        listed = frozenset(filter(None, (*judged[0], *judged[1])))
        if not listed:
            raise InvalidRequest("The library has none of the papers in relevant and known: name others.")
        return cls(listed, frozenset(filter(None, judged[1])), sum(ids.count(None) for ids in judged))


def held(library: Library, ids: Sequence[str], as_of: str | None) -> list[str | None]:
    """The library's id of each paper, None where it lacks it, or had it later."""
    papers = library.papers(ids, as_of=as_of, fields=("id",)) if ids else []
    return [None if paper is None else paper.id for paper in papers]


def recall(
    library: Library,
    papers: Papers,
    samples: Sequence[Sample],
    new: Sequence[int],
    linked: Mapping[str, Sequence[str]],
    risk: float | None = None,
) -> Recall:
    """What samples say about a list of papers.

    Args:
        new: how many relevant papers each step of reading gave first.
        linked: the citations and references of relevant papers.
    """
    returned = frozenset(paper for sample in samples for paper in sample.ids if sample.leg != "citations")
    named = papers.known or papers.relevant
    hits = len(returned & named)
    low, high = share(hits, len(named))
    unseen = estimates(samples, papers.relevant, papers.known, new)
    texts = {
        f"{sample.leg}: {sample.text}": sample.ids
        for sample in samples
        if sample.leg != "citations" or sample.text
    }
    years: dict[str, list[str]] = {}
    for paper in library.papers([*returned][:MAX_IDS], fields=("id", "year")):
        if paper is not None and paper.year is not None:
            years.setdefault(str(paper.year), []).append(paper.id)
    best = [yields(groups, papers.relevant) for groups in (texts, linked, years)]
    return Recall(
        library.snapshot_id,
        "\n".join(_sentences(papers, hits, len(named), unseen, best, risk)),
        len(papers.relevant),
        Share(len(named), hits, round(low, 3), round(high, 3)),
        unseen,
        tuple(new),
        searches=best[0],
        seeds=best[1],
        years=best[2],
        risk=risk,
    )


def _search(library: Library, text: str, mode: Mode, request: RecallBody) -> tuple[str, ...]:
    response = library.search(
        text, mode=mode, syntax="plain", limit=request.depth, fields=("id",), as_of=request.as_of
    )
    return tuple(hit.paper.id for hit in response.results)


def linked_papers(library: Library, relevant: Iterable[str], as_of: str | None) -> dict[str, list[str]]:
    """The references and citations of the first relevant papers."""
    if not library.manifest.counts.get("edges"):
        return {}
    return {
        paper: [
            edge.paper.id
            for edges in (library.references, library.citations)
            for edge in edges(paper, limit=MAX_LIMIT, fields=("id",), as_of=as_of).results
        ]
        for paper in sorted(relevant)[:MAX_SEEDS]
    }


def _sentences(
    papers: Papers,
    hits: int,
    named: int,
    unseen: Sequence[Unseen],
    best: Sequence[Sequence[Yield]],
    risk: float | None,
) -> Iterator[str]:
    """The result as lines."""
    absent = f", and {papers.absent} that the library lacks" if papers.absent else ""
    which = "known from elsewhere" if papers.known else "relevant"
    yield f"Relevant: {len(papers.relevant)}{absent}. The searches returned {hits} of the {named} that are {which}."
    if not unseen:
        few = len(papers.relevant) < FEWEST
        yield (
            f"Fewer than {FEWEST} relevant papers are known, too few for an estimate."
            if few
            else "No relevant paper is in two samples, so that nothing can be estimated."
        )
    for estimate in unseen:
        if estimate.lower_bound:
            yield (
                f"Unseen, by {estimate.samples}: at least {estimate.low} (by the model {estimate.unseen:g}, at most "
                f"{estimate.high})."
            )
        else:
            yield (
                f"Unseen, by {estimate.samples}: {estimate.unseen:g}, with {LEVEL:.0%} between {estimate.low} and "
                f"{estimate.high}."
            )
    if unseen:
        assumed = "every relevant paper that the searches returned is in relevant"
        if papers.known:
            assumed += ", and known papers were not found by these searches"
        yield f"Assumed: {assumed}."
    for name, rows in zip(("search", "seed", "year"), best, strict=True):
        if rows:
            yield f"Best {name}: {rows[0].name} ({rows[0].relevant} relevant of {rows[0].papers})."
    if risk is not None:
        yield f"The risk that fewer than {TARGET:.0%} of the relevant papers were read is {risk:.3g}."
