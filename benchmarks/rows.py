"""What a benchmark measures: one row, beside its floor of the same run."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

Bound = Literal["at most", "at least"]


@dataclass(frozen=True, slots=True)
class Row:
    """One measured part. ``ratio`` is the result; ``here`` and ``floor``, in ``unit``, are notes: machines differ.

    A row whose ``bound`` is None has no target: it is there to be read.
    """

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
    """Whatever else was seen: percentiles, counts, distributions that the plots are drawn from."""

    @property
    def reached(self) -> bool | None:
        if self.bound is None or self.target is None:
            return None
        return self.ratio <= self.target if self.bound == "at most" else self.ratio >= self.target

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"reached": self.reached}


@dataclass(frozen=True, slots=True)
class Setting:
    """What all parts share.

    ``papers`` counts arXiv records before copies of one paper are merged. ``work`` holds what can be made again:
    the corpus, the libraries, other engines' indexes.
    """

    data: Path
    papers: int
    work: Path

    @property
    def corpus(self) -> Path:
        """The folder of source files: ``arxiv/`` and ``s2ag/``."""
        return self.work / f"corpus-{self.papers}"

    @property
    def library(self) -> Path:
        """The library of that corpus, sparse only. The part ``ingest`` builds it; others build it where it is not."""
        return self.work / f"library-{self.papers}"
