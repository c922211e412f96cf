"""The prefilter: drops clear mismatches before they are judged, and keeps every paper with some evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from scholarbase.models.papers import Paper
from scholarbase_research.construction.terms import overlap, stems

MIN_ROUTES: Final = 2
"""Lists of results or seeds that lead to a paper which is kept."""
KEPT_RANK: Final = 3
"""The worst rank, in any list of results, of a paper that is kept for it."""


class Evidence(NamedTuple):
    """How a candidate was found: hop, number of lists or seeds, best rank, and the sum of 1 / (60 + rank)."""

    hop: int
    routes: int
    best_rank: int | None
    fused: float = 0.0


class Filtered(NamedTuple):
    """A candidate, whether it is kept, and why."""

    paper: str
    evidence: Evidence
    overlap: float
    kept: bool
    reason: str


class Prefilter:
    """Filters the candidates of one question.

    Args:
        min_overlap: the share of the words of one of the texts with which a paper is kept.
        texts: the question and its rewrites.
    """

    def __init__(self, min_overlap: float, texts: Sequence[str]) -> None:
        self._min_overlap = min_overlap
        self._wanted = [stems(text) for text in texts]

    def filter(self, evidence: Mapping[str, Evidence], papers: Mapping[str, Paper]) -> list[Filtered]:
        """Every candidate, best first."""
        rows = [self._filtered(paper, evidence[paper], papers[paper]) for paper in evidence]
        return sorted(
            rows, key=lambda row: (-row.evidence.fused, -row.evidence.routes, -row.overlap, row.paper)
        )

    def _filtered(self, paper_id: str, evidence: Evidence, paper: Paper) -> Filtered:
        text = stems(f"{paper.title or ''} {paper.abstract or ''}")
        share = round(max(overlap(wanted, text) for wanted in self._wanted), 4)
        kept, reason = self._decide(evidence, paper, share)
        return Filtered(paper_id, evidence, share, kept, reason)

    def _decide(self, evidence: Evidence, paper: Paper, share: float) -> tuple[bool, str]:
        if paper.status is not None:
            return False, str(paper.status)
        if evidence.best_rank is not None and evidence.best_rank <= KEPT_RANK:
            return True, "rank"
        if evidence.routes >= MIN_ROUTES:
            return True, "routes"
        if share >= self._min_overlap:
            return True, "words"
        return False, "few words"
