"""Estimates from samples of relevant papers: those of the legs, the texts and the calls; and which gave most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil, floor
from typing import Annotated, Final, Literal, NamedTuple, get_args

import msgspec
from msgspec import Meta

from scholarbase.models.calls import Call
from scholarbase.trajectories.figures import LOOKING
from scholarbase_research.completeness.estimates import LEVEL, Estimate, chao, chapman, removal

FEWEST: Final = 3
"""Relevant papers below which nothing is estimated."""
STEPS: Final = 5
"""Parts of the results, by rank, that are read one after the other."""
SHOWN: Final = 5
"""Searches, seeds and years that a response names."""
Leg = Literal["words", "meaning", "citations", "search"]
_LEGS: Final[Mapping[object, Leg]] = {"sparse": "words", "dense": "meaning"}


class Sample(NamedTuple):
    """What one search or call returned, best first: its leg, and its text or seeds."""

    leg: Leg
    text: str
    ids: tuple[str, ...]


class Unseen(msgspec.Struct, frozen=True):
    """How many relevant papers have not been seen, by one method."""

    method: Annotated[str, Meta(description="known, legs, rewrites or saturation.")]
    samples: Annotated[str, Meta(description="What was compared.")]
    unseen: Annotated[float, Meta(description="The estimate.")]
    low: Annotated[int, Meta(description=f"The lower end of the interval of {LEVEL:.0%}.")]
    high: Annotated[int, Meta(description="Its upper end.")]
    lower_bound: Annotated[
        bool,
        Meta(
            description="Whether only `low` can be relied on, since the samples tend to have the same papers."
        ),
    ]


class Yield(msgspec.Struct, frozen=True):
    """What a search, a seed or a year gave."""

    name: str
    papers: int
    relevant: Annotated[int, Meta(description="Papers that are relevant.")]
    only: Annotated[int, Meta(description="Relevant ones that no other one gave.")]


def estimates(
    samples: Sequence[Sample], relevant: frozenset[str], known: frozenset[str], new: Sequence[int]
) -> tuple[Unseen, ...]:
    """Every estimate that the samples allow; none with fewer than :data:`FEWEST` relevant papers.

    Args:
        relevant: all relevant papers that are known, ``known`` included.
        known: those that were known before, or from elsewhere.
        new: how many relevant papers each step of reading gave first.
    """
    if len(relevant) < FEWEST:
        return ()
    return tuple(_estimates(samples, relevant, known, new))


def _estimates(
    samples: Sequence[Sample], relevant: frozenset[str], known: frozenset[str], new: Sequence[int]
) -> Iterator[Unseen]:
    by_leg: dict[Leg, frozenset[str]] = {leg: frozenset() for leg in get_args(Leg)}
    by_text: dict[str, frozenset[str]] = {}
    for sample in samples:
        of = relevant.intersection(sample.ids)
        by_leg[sample.leg] |= of
        if sample.leg != "citations":
            by_text[sample.text] = by_text.get(sample.text, frozenset()) | of
    returned = frozenset[str]().union(*by_text.values())
    for method, what, first, second in (
        ("known", "known papers and searches", known, returned),
        ("legs", "words and meaning", by_leg["words"], by_leg["meaning"]),
        ("legs", "searches and citations", returned, by_leg["citations"]),
    ):
        both = len(first & second)
        if both or (method == "known" and first and second):
            yield _unseen(method, what, chapman(len(first), len(second), both), len(relevant))
    counts = Counter(Counter(paper for of in by_text.values() for paper in of).values())
    if len(by_text) > 1 and counts.total() >= FEWEST:
        total = chao([counts[number] for number in range(1, len(by_text) + 1)], len(by_text))
        yield _unseen("rewrites", f"{len(by_text)} texts", total, len(relevant))
    if len(new) > 1 and sum(new) >= FEWEST:
        yield _unseen("saturation", f"{len(new)} steps of reading", removal(new), len(relevant))


def _unseen(method: str, what: str, total: Estimate, relevant: int) -> Unseen:
    """The part of a total that is unseen."""
    unseen, low, high = (max(0.0, value - relevant) for value in total)
    return Unseen(method, what, round(unseen, 1), floor(low), ceil(high), method != "known")


def samples_of(calls: Iterable[Call]) -> list[Sample]:
    """What each call that looks for papers returned."""
    samples = []
    for call in calls:
        if call.kind in LOOKING and call.error is None:
            named = call.arguments
            leg: Leg = "citations" if call.kind == "expand" else _LEGS.get(named.get("mode"), "search")
            text = next((named[key] for key in ("q", "titles", "seeds", "paper_id") if key in named), "")
            samples.append(
                Sample(leg, text if isinstance(text, str) else ", ".join(map(str, text)), call.ids)
            )
    return samples


def new_by_sample(samples: Iterable[Sample], relevant: frozenset[str]) -> list[int]:
    """How many relevant papers each sample returned that none before it had."""
    return _new((sample.ids for sample in samples), relevant)


def new_by_rank(samples: Sequence[Sample], relevant: frozenset[str]) -> list[int]:
    """The same of :data:`STEPS` steps of reading: the first fifth of all results, the second, and so on."""
    parts = [
        [
            paper
            for sample in samples
            for paper in sample.ids[len(sample.ids) * n // STEPS : len(sample.ids) * (n + 1) // STEPS]
        ]
        for n in range(STEPS)
    ]
    return _new(parts, relevant)


def _new(parts: Iterable[Iterable[str]], relevant: frozenset[str]) -> list[int]:
    seen: set[str] = set()
    counts = []
    for part in parts:
        new = relevant.intersection(part) - seen
        counts.append(len(new))
        seen |= new
    return counts


def yields(groups: Mapping[str, Iterable[str]], relevant: frozenset[str]) -> tuple[Yield, ...]:
    """What each group of papers has of the relevant ones: first those with most that no other has, then by share."""
    sets = {name: frozenset(ids) for name, ids in groups.items()}
    times = Counter(paper for ids in sets.values() for paper in ids & relevant)
    rows = [
        Yield(name, len(ids), len(ids & relevant), sum(times[paper] == 1 for paper in ids & relevant))
        for name, ids in sets.items()
        if ids & relevant
    ]
    rows.sort(key=lambda row: (-row.only, -row.relevant / row.papers, row.name))
    return tuple(rows[:SHOWN])
