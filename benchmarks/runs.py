"""Evaluation runs of the benchmarks."""

from __future__ import annotations

from pathlib import Path

from scholarbase.evaluation.answers import Judged
from scholarbase.evaluation.searching import SearchSettings, run_searches
from scholarbase.models.queries import QuerySet
from scholarbase.models.runs import Run
from scholarbase.search.library import Library


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
