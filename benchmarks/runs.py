"""Evaluation runs of the benchmarks, and the measures of the sparse engines on SciFact, which has 300 judged claims."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.rows import Setting
from scholarbase.ingest.job import ingest
from scholarbase.ingest.plans import IngestRules
from scholarbase.models.limits import Engine
from scholarbase.search.library import Library
from scholarbase_research.evaluation.answers import Judged, resolve_answers
from scholarbase_research.evaluation.formats import read_queries
from scholarbase_research.evaluation.measures import Evaluation, evaluate
from scholarbase_research.evaluation.queries import QuerySet
from scholarbase_research.evaluation.run_data import Run
from scholarbase_research.evaluation.searching import SearchSettings, run_searches

NDCG: Final = "nDCG@10"
RECALL: Final = "R@100"
LIMIT: Final = 100


def search(
    library: Library, queries: QuerySet, judged: Judged, settings: SearchSettings, folder: Path, command: str
) -> Run:
    """Search for all queries anew and write the run to ``folder``, whose name is the run's name."""
    return run_searches(
        library,
        queries,
        judged.queries,
        judged.counts,
        settings,
        folder,
        name=folder.name,
        command=command,
        restart=True,  # so that results of an earlier version are not measured
    )


def on_scifact(setting: Setting, engines: Sequence[Engine]) -> dict[str, Evaluation]:
    """Evaluate each sparse engine over the claims, with 100 results each."""
    source, path = setting.data / "scifact", setting.work / "scifact"
    ingest([source], path, rules=IngestRules(keep="title"))
    queries = read_queries(source)
    evaluations: dict[str, Evaluation] = {}
    with Library.open(path) as library:
        judged = resolve_answers(library, queries)
        for engine in engines:
            settings = SearchSettings(mode="sparse", engine=engine, limit=LIMIT)
            folder = setting.work / "scifact-runs" / engine
            run = search(library, queries, judged, settings, folder, "make bench")
            evaluations[engine] = evaluate(run, [NDCG, RECALL])
    return evaluations
