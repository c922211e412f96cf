"""Rows of benchmark results, and the settings of a run."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

Bound = Literal["at most", "at least"]


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement and its floor of the same run. ``ratio`` is the result; ``here`` and ``floor``, in ``unit``, are
    notes, since machines differ. A row whose ``bound`` is None has no target."""

    part: str
    what: str
    beside: str
    here: float
    floor: float
    unit: str
    ratio: float
    bound: Bound | None = None
    target: float | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    """Further figures: percentiles, counts, distributions for the plots."""

    @property
    def reached(self) -> bool | None:
        if self.bound is None or self.target is None:
            return None
        return self.ratio <= self.target if self.bound == "at most" else self.ratio >= self.target

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"reached": self.reached}


@dataclass(frozen=True, slots=True)
class Setting:
    """Settings of all parts.

    ``papers`` counts arXiv records before records of one paper are merged. ``work`` holds files that can be rebuilt:
    the corpus, the libraries, other engines' indexes.
    """

    data: Path
    papers: int
    work: Path

    @property
    def queries(self) -> Path:
        """The query file of AutoScholarQuery."""
        return self.data / "autoscholar" / "queries.jsonl"

    @property
    def corpus(self) -> Path:
        """The folder of source files: ``arxiv/`` and ``s2ag/``."""
        return self.work / f"corpus-{self.papers}"

    @property
    def library(self) -> Path:
        """The library of that corpus, sparse only, built by the part ``ingest``."""
        return self.work / f"library-{self.papers}"
