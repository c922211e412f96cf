"""Evidence in passages: which passages of a ranking hold the parts of texts that a query asks for.

The id of a passage is that of its paper, ``#`` and its offsets in the paper's text: ``arXiv:2212.11867#1200-1950``. A
passage holds a part of the text if it has the character in the part's middle, so a part that is cut by the end of a
passage is held by that with the greater share of it, or by two where passages overlap. A paper's id alone is held by
every passage of the paper.

Evidence recall is the share of a query's parts that a passage among the first holds, and the reciprocal rank is that
of the first passage that holds one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from scholarbase.errors import InvalidRequest
from scholarbase_research.evaluation.run_data import Run

FAMILIES: Final = ("R", "SetR", "RR", "Success")
"""The measures that passages have, by ir_measures' names."""
_ID: Final = re.compile(r"(.+)#(\d+)-(\d+)", re.DOTALL)


class Span(NamedTuple):
    """A part of a paper's text."""

    paper: str
    start: int
    end: int

    @property
    def id(self) -> str:
        return f"{self.paper}#{self.start}-{self.end}"


def span_of(passage_id: str) -> Span | None:
    """The part of a text with this id, None if the id is another's."""
    match = _ID.fullmatch(passage_id)
    return None if match is None else Span(match[1], int(match[2]), int(match[3]))


def first_places(passage_ids: Sequence[str], evidence: Iterable[str]) -> dict[str, int]:
    """The place, from 0, of the first passage that holds each of these parts. Parts that none holds are missing."""
    wanted: dict[str, list[tuple[str, int | None]]] = {}
    for name in evidence:
        span = span_of(name)
        paper, middle = (name, None) if span is None else (span.paper, (span.start + span.end) // 2)
        wanted.setdefault(paper, []).append((name, middle))
    places: dict[str, int] = {}
    for place, passage_id in enumerate(passage_ids):
        passage = span_of(passage_id)
        if passage is None:
            continue
        for name, middle in wanted.get(passage.paper, ()):
            if middle is None or passage.start <= middle < passage.end:
                places.setdefault(name, place)
    return places


def value(family: str, cutoff: int | None, places: Mapping[str, int], count: int) -> float:
    """A measure of one query with ``count`` parts, of which those in ``places`` are held.

    Raises:
        InvalidRequest: the measure is not one of passages.
    """
    if family not in FAMILIES:
        raise InvalidRequest(
            f"{family} is not a measure of passages: use R@10, R@All, RR@10, RR or Success@5."
        )
    within = [place for place in places.values() if cutoff is None or place < cutoff]
    if family in ("R", "SetR"):
        return len(within) / count
    if family == "RR":
        return 1 / (min(within) + 1) if within else 0.0
    return float(bool(within))


def check_papers(run: Run, what: str) -> None:
    """Raises InvalidRequest: the run ranks passages, which ``what`` does not show."""
    if run.manifest.kind == "passages":
        raise InvalidRequest(
            f"The run {run.name!r} ranks passages, and {what} is about rankings of papers: use eval show and eval "
            "compare."
        )
