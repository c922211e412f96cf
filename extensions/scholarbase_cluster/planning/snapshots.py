"""The published sizes of snapshots that libraries are built from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from scholarbase.errors import InvalidRequest
from scholarbase_cluster.planning.requirements import MOST_PAPERS, Wanted

_UNITS: Final = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9}
_COUNT: Final = re.compile(
    r"(\d{1,12}|\d{1,3}(?:,\d{3}){1,3}|\d{1,5}\.\d{1,6})([KMB]?)", re.IGNORECASE | re.ASCII
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Records, those with an abstract, citations and gigabytes of a release, compressed as it is downloaded.

    ``assumed`` says which numbers nobody publishes; ``sources`` are the pages of the others.
    """

    title: str
    papers: int
    abstracts: int
    citations: int
    download_gb: dict[str, int]
    sources: tuple[str, ...]
    assumed: str = ""

    @property
    def download_bytes(self) -> float:
        return sum(self.download_gb.values()) * 1e9

    def wanted(self, dimensions: int) -> Wanted:
        """The library of its papers with an abstract."""
        left_out = self.papers - self.abstracts
        return Wanted(self.abstracts, dimensions, self.citations, left_out, self.download_bytes)


SNAPSHOTS: Final = {
    "arxiv": Snapshot(
        "arXiv",
        2_900_000,
        2_900_000,
        0,
        {"metadata": 3},
        ("https://arxiv.org/stats/monthly_submissions",),
    ),
    "s2ag": Snapshot(
        "Semantic Scholar",
        225_000_000,
        100_000_000,
        2_800_000_000,
        {"papers": 45, "abstracts": 54, "citations": 255},
        ("https://arxiv.org/abs/2301.10140", "https://api.semanticscholar.org/api-docs/datasets"),
    ),
    "openalex": Snapshot(
        "OpenAlex",
        270_000_000,
        135_000_000,
        2_800_000_000,
        {"works": 670},
        ("https://developers.openalex.org/download",),
        "half of the works have an abstract, and citations are as many as Semantic Scholar's",
    ),
}


def snapshot(name: str) -> Snapshot:
    """A snapshot by name. Raises InvalidRequest."""
    if name not in SNAPSHOTS:
        raise InvalidRequest(
            f"{name[:50]!r} is not a known snapshot: give {', '.join(SNAPSHOTS)}, or its numbers with --papers and "
            "--citations."
        )
    return SNAPSHOTS[name]


def parse_count(text: str, what: str = "papers", least: int = 1, most: int = MOST_PAPERS) -> int:
    """A number of papers or citations: ``335000``, ``335,000``, ``200M`` or ``2.5B``.

    Raises:
        InvalidRequest: it is not a whole number from ``least`` to ``most``.
    """
    match = _COUNT.fullmatch(text.strip())
    if match:
        whole, _, fraction = match[1].replace(",", "").partition(".")
        unit = _UNITS[match[2].upper()]
        scaled, rest = divmod(int(whole + fraction) * unit, int("1" + "0" * len(fraction)))
        if not rest and least <= scaled <= most:
            return scaled
    raise InvalidRequest(
        f"{text[:50]!r} is not a number of {what}: give a whole number from {least} to {most // 10**9}B, such as "
        "335000, 200M or 2.5B."
    )
