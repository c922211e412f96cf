"""The settings of a construction. The defaults are those of ScholarQuest (its Table 5 and appendix A.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from scholarbase.errors import InvalidRequest
from scholarbase.models.checks import check_whole, date_bounds
from scholarbase.models.limits import MAX_LIMIT
from scholarbase_research.evaluation.requests import QUERY_DATE

MAX_REWRITES: Final = 100
MAX_HOPS: Final = 2
MAX_JUDGED: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """What is searched, kept, expanded and judged for each question.

    Args:
        rewrites: rewrites of a question, besides itself.
        depth: first results of each text from each source.
        hops: hops of citation expansion, 0 to 2.
        citations: citing papers of each seed; all of its references are taken.
        answers: the expansion stops when this many answers are found, and no more are kept.
        judged: the most papers that are judged.
        sample: papers that the prefilter dropped and that are judged to measure its loss.
        to: the latest date of papers, or ``query`` for each question's own.
        seed: of the sample.
        min_overlap: the share of the words of a question, or of one of its rewrites, with which the prefilter keeps a
            paper, 0 to 1.

    Raises:
        InvalidRequest: a value is invalid.
    """

    rewrites: int = 10
    depth: int = 10
    hops: int = 2
    citations: int = 30
    answers: int = 500
    judged: int = 10_000
    sample: int = 20
    to: str | None = None
    seed: int = 0
    min_overlap: float = 0.25

    def __post_init__(self) -> None:
        check_whole(self.rewrites, "rewrites", 0, MAX_REWRITES)
        check_whole(self.depth, "depth", 1, MAX_LIMIT)
        check_whole(self.hops, "hops", 0, MAX_HOPS)
        check_whole(self.citations, "citations", 0, MAX_LIMIT)
        check_whole(self.answers, "answers", 1, MAX_JUDGED)
        check_whole(self.judged, "judged", 1, MAX_JUDGED)
        check_whole(self.sample, "sample", 0, MAX_LIMIT)
        check_whole(self.seed, "seed", 0)
        if not 0 <= self.min_overlap <= 1:
            raise InvalidRequest(f"min_overlap is {self.min_overlap}: it must be from 0 to 1.")
        if self.to is not None and self.to != QUERY_DATE:
            date_bounds(self.to, "to")

    def latest(self, date: str | None) -> str | None:
        """The latest date of papers for a question with this date."""
        return date if self.to == QUERY_DATE else self.to
