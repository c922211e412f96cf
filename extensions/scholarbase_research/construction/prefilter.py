"""The prefilter: drops clear mismatches before they are judged, and keeps every paper with some evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from scholarbase.models.papers import Paper
from scholarbase.rerankers.base import Reranker
from scholarbase_research.construction.settings import Limits
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
    relevance: float | None
    kept: bool
    reason: str


class Prefilter:
    """Filters the candidates of one question.

    Args:
        limits: with ``min_overlap`` and ``floor``.
        texts: the question and its rewrites.
        model: a relevance model, which ``limits.floor`` belongs to.
    """

    def __init__(self, limits: Limits, texts: Sequence[str], model: Reranker | None = None) -> None:
        self._limits = limits
        self._question = texts[0]
        self._wanted = [stems(text) for text in texts]
        self._model = model

    def filter(self, found: Mapping[str, Evidence], papers: Mapping[str, Paper]) -> list[Filtered]:
        """Every candidate, best first."""
        relevance = self._relevance(list(found), papers)
        rows = [self._filtered(paper, found[paper], papers[paper], relevance.get(paper)) for paper in found]
        return sorted(
            rows, key=lambda row: (-row.evidence.fused, -row.evidence.routes, -row.overlap, row.paper)
        )

    def _relevance(self, ids: Sequence[str], papers: Mapping[str, Paper]) -> dict[str, float]:
        if self._model is None or not ids:
            return {}
        texts = [f"{papers[one].title or ''}\n{papers[one].abstract or ''}" for one in ids]
        return dict(zip(ids, map(float, self._model.score(self._question, texts)), strict=True))

    def _filtered(self, paper_id: str, evidence: Evidence, paper: Paper, relevance: float | None) -> Filtered:
        text = stems(f"{paper.title or ''} {paper.abstract or ''}")
        share = round(max(overlap(wanted, text) for wanted in self._wanted), 4)
        kept, reason = self._decide(evidence, paper, share, relevance)
        return Filtered(paper_id, evidence, share, relevance, kept, reason)

    def _decide(
        self, evidence: Evidence, paper: Paper, share: float, relevance: float | None
    ) -> tuple[bool, str]:
        if paper.status is not None:
            return False, str(paper.status)
        floor = self._limits.floor
        if floor is not None and relevance is not None and relevance < floor:
            return False, "relevance"
        if evidence.best_rank is not None and evidence.best_rank <= KEPT_RANK:
            return True, "rank"
        if evidence.routes >= MIN_ROUTES:
            return True, "routes"
        if share >= self._limits.min_overlap:
            return True, "words"
        return False, "few words"
