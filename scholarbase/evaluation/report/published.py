"""Published figures of query sets, with their sources.

Measures and digits are as in the source. Figures that a source does not report are missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Published:
    """Published figures of one system: ``values`` by ir_measures' names."""

    system: str
    values: Mapping[str, float]
    source: str
    url: str


@dataclass(frozen=True, slots=True)
class Collection:
    """A query set with published figures.

    It is recognised by a word in its name or the prefix of its query ids, and by its number of queries, which excludes
    subsets and other sets of the same format.
    """

    word: str
    prefix: str
    queries: int
    shown: str
    figures: tuple[Published, ...]


_PYSERINI: Final = (
    "Pyserini's BEIR regressions (Kamalloo et al. 2023, arXiv:2306.07471)",
    "https://castorini.github.io/pyserini/2cr/beir.html",
)
_SCHOLARQUEST: Final = (
    "ScholarQuest (Pan et al. 2026, arXiv:2606.20235)",
    "https://arxiv.org/abs/2606.20235",
)
_LEADERBOARD: Final = (
    "ScholarQuest's leaderboard, results of September 2026",
    "https://pty12345.github.io/ScholarQuest-LeaderBoard/",
)

COLLECTIONS: Final = (
    Collection(
        "scifact",
        "",
        300,
        "BEIR SciFact, test",
        (
            Published("Lucene BM25, one field", {"nDCG@10": 0.679, "R@100": 0.925}, *_PYSERINI),
            Published("Lucene BM25, title and text apart", {"nDCG@10": 0.665, "R@100": 0.908}, *_PYSERINI),
            Published(
                "BGE-M3 dense",
                {"nDCG@10": 0.644, "R@100": 0.904},
                "MTEB's results (Muennighoff et al. 2023, arXiv:2210.07316)",
                "https://github.com/embeddings-benchmark/results/blob/main/results/BAAI__bge-m3/"
                "5617a9f61b028005a4858fdac845db406aefb181/SciFact.json",
            ),
            Published("BGE-base-en-v1.5", {"nDCG@10": 0.741, "R@100": 0.967}, *_PYSERINI),
            Published(
                "SPLADE-distil CoCodenser Medium",
                {"nDCG@10": 0.699, "R@100": 0.927},
                "Anserini's BEIR regressions",
                "https://github.com/castorini/anserini/blob/master/docs/regressions/"
                "regressions-beir-v1.0.0-scifact-splade-distil-cocodenser-medium.md",
            ),
            Published("SPLADE++ EnsembleDistil", {"nDCG@10": 0.704, "R@100": 0.935}, *_PYSERINI),
        ),
    ),
    Collection(
        "scholarquest",
        "BQ_",
        1111,
        "ScholarQuest",
        (
            Published("Dense retrieval", {"R@100": 0.208}, *_SCHOLARQUEST),
            Published("Hybrid retrieval", {"R@100": 0.214}, *_SCHOLARQUEST),
            Published("Best agent (PaperScout)", {"R@100": 0.314, "R@All": 0.355}, *_SCHOLARQUEST),
            Published("Dense retrieval", {"R@25": 0.103, "R@100": 0.206, "R@All": 0.293}, *_LEADERBOARD),
            Published("Hybrid retrieval", {"R@25": 0.106, "R@100": 0.212, "R@All": 0.242}, *_LEADERBOARD),
            Published("PaSa", {"R@25": 0.202, "R@100": 0.280, "R@All": 0.309}, *_LEADERBOARD),
            Published("SPAR", {"R@25": 0.197, "R@100": 0.269, "R@All": 0.290}, *_LEADERBOARD),
            Published("PaperScout", {"R@25": 0.214, "R@100": 0.312, "R@All": 0.352}, *_LEADERBOARD),
        ),
    ),
)


def published(queries: Mapping[str, Any], first_id: str) -> Collection | None:
    """The published figures for a run's query set (``manifest.queries`` and the id of its first query), or None."""
    name = str(queries.get("name", "")).casefold()
    for collection in COLLECTIONS:
        matches = collection.word in name or (collection.prefix and first_id.startswith(collection.prefix))
        if matches and queries.get("count") == collection.queries:
            return collection
    return None
