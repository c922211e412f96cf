"""Measures of the sparse engines on SciFact, which has 300 judged claims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from benchmarks import runs
from benchmarks.rows import Setting
from scholarbase.evaluation.answers import judge
from scholarbase.evaluation.formats import read_queries
from scholarbase.evaluation.measures import Evaluation, evaluate
from scholarbase.evaluation.searching import SearchSettings
from scholarbase.ingest.job import ingest
from scholarbase.ingest.plans import IngestRules
from scholarbase.models.limits import Engine
from scholarbase.search.library import Library

NDCG: Final = "nDCG@10"
RECALL: Final = "R@100"
LIMIT: Final = 100


def measure(setting: Setting, engines: Sequence[Engine]) -> dict[str, Evaluation]:
    """Evaluate each sparse engine over the claims, with 100 results each."""
    source, path = setting.data / "scifact", setting.work / "scifact"
    ingest([source], path, rules=IngestRules(keep="title"))
    queries = read_queries(source)
    evaluations: dict[str, Evaluation] = {}
    with Library.open(path) as library:
        judged = judge(library, queries)
        for engine in engines:
            settings = SearchSettings(mode="sparse", engine=engine, limit=LIMIT)
            folder = setting.work / "scifact-runs" / engine
            run = runs.search(library, queries, judged, settings, folder, "make bench")
            evaluations[engine] = evaluate(run, [NDCG, RECALL])
    return evaluations
