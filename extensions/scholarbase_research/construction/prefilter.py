"""The prefilter: drops clear mismatches before they are judged, and keeps every paper with some evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from scholarbase.errors import InvalidRequest
from scholarbase.models.papers import Paper
from scholarbase.rerankers.base import Reranker
from scholarbase_research.construction.terms import overlap, stems


@dataclass(frozen=True, slots=True)
class PrefilterSettings:
    """When a candidate is kept: it is not withdrawn, and one of the first three holds.

    Args:
        min_overlap: the least share of the question's words, or of one of its rewrites, in title and abstract.
        min_routes: the least number of result lists or seeds that led to it.
        keep_rank: the worst rank in any list of results.
        floor: with a relevance model, the lowest score of a paper that is kept.
    """

    min_overlap: float = 0.25
    min_routes: int = 2
    keep_rank: int = 3
    floor: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.min_overlap <= 1:
            raise InvalidRequest(f"min_overlap is {self.min_overlap}: it must be from 0 to 1.")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


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
        texts: the question and its rewrites.
        model: a relevance model, which ``settings.floor`` belongs to.
    """

    def __init__(
        self, settings: PrefilterSettings, texts: Sequence[str], model: Reranker | None = None
    ) -> None:
        self._settings = settings
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
        floor = self._settings.floor
        if floor is not None and relevance is not None and relevance < floor:
            return False, "relevance"
        if evidence.best_rank is not None and evidence.best_rank <= self._settings.keep_rank:
            return True, "rank"
        if evidence.routes >= self._settings.min_routes:
            return True, "routes"
        if share >= self._settings.min_overlap:
            return True, "words"
        return False, "few words"
