"""What the engines find on SciFact, where 300 claims have been judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from benchmarks.rows import Setting
from scholarbase.evaluation.answers import judge
from scholarbase.evaluation.formats import read_queries
from scholarbase.evaluation.measures import evaluate
from scholarbase.evaluation.searching import SearchSettings, run_searches
from scholarbase.ingest.job import IngestRules, ingest
from scholarbase.models import Engine
from scholarbase.search.library import Library

NDCG: Final = "nDCG@10"
RECALL: Final = "R@100"
LIMIT: Final = 100


def measured(setting: Setting, engines: Sequence[Engine]) -> dict[str, Any]:
    """Each sparse engine's measures over the claims, of 100 results each."""
    source, path = setting.data / "scifact", setting.work / "scifact"
    ingest([source], path, rules=IngestRules(keep="title"))
    asked = read_queries(source)
    found = {}
    with Library.open(path) as library:
        judged = judge(library, asked)
        for engine in engines:
            made = run_searches(
                library,
                asked,
                judged.queries,
                judged.counts,
                SearchSettings(mode="sparse", engine=engine, limit=LIMIT),
                setting.work / "scifact-runs" / engine,
                name=engine,
                command="make bench",
                restart=True,  # what an earlier version found is not to be measured again
            )
            found[engine] = evaluate(made, [NDCG, RECALL])
    return found
