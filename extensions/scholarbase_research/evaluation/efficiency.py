"""Efficiency of a run: rounds, calls, candidates, and recall by candidates, as ScholarQuest (arXiv:2606.20235) reports.

A run of plain searches counts as one search call per query, so that agents and plain retrieval share a table. The
calls of an imported run are unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Final

from scholarbase.errors import InvalidRequest
from scholarbase.models.calls import Call
from scholarbase.trajectories.figures import FIGURES, QueryEfficiency, figures, recall_after_each
from scholarbase_research.evaluation.run_data import JudgedQuery, Run

_OF_CALLS: Final = (
    *("rounds", "search_calls", "match_calls", "expand_calls", "inspect_calls"),
    *("failed_calls", "tokens"),
)
"""The figures that are unknown without calls."""


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Figures of each query and of the run.

    ``means`` has the mean of each figure of :class:`QueryEfficiency` over the queries where it is known (None: no
    query), ``calls`` the number of each query's calls (None: unknown).
    ``pooled_recall_100_per_100`` is the mean R@100 divided by the mean hundreds of candidates, which is robust to
    queries with few candidates.
    """

    run: str
    queries: tuple[QueryEfficiency, ...]
    means: Mapping[str, float | None]
    calls: Mapping[str, int | None]
    pooled_recall_100_per_100: float | None

    @property
    def failures(self) -> tuple[QueryEfficiency, ...]:
        """The figures of queries with no answer found."""
        return tuple(row for row in self.queries if row.recall == 0.0)


def efficiency(run: Run) -> Efficiency:
    """Compute a run's efficiency over all answers. Means are over queries (macro)."""
    calls = calls_of(run)
    known = run.manifest.kind != "import"
    unknown: dict[str, Any] = dict.fromkeys(_OF_CALLS)
    rows = []
    for query in run.queries:
        ranking = [result.id for result in run.rankings.get(query.id, ())]
        row = figures(query.id, calls[query.id], _relevant(query), ranking)
        rows.append(row if known else replace(row, **unknown))
    means: dict[str, float | None] = {}
    for name in FIGURES:
        values = [value for row in rows if (value := getattr(row, name)) is not None]
        means[name] = fmean(values) if values else None
    judged = [row for row in rows if row.recall_100 is not None]
    candidates = sum(row.candidates for row in judged)
    recalled = sum(row.recall_100 or 0.0 for row in judged)
    return Efficiency(
        run.name,
        tuple(rows),
        means,
        {query_id: len(of_query) if known else None for query_id, of_query in calls.items()},
        recalled / (candidates / 100) if candidates else None,
    )


def calls_of(run: Run) -> dict[str, list[Call]]:
    """The calls of each query by its id. A ranking without calls, such as that of a plain search, is one call."""
    calls: dict[str, list[Call]] = {query.id: [] for query in run.queries}
    if run.manifest.kind == "trajectory":
        for call in run.calls:
            calls[call.query_id].append(call)
        return calls
    for query in run.queries:
        ids = tuple(result.id for result in run.rankings.get(query.id, ()))
        seconds = run.seconds.get(query.id)
        calls[query.id] = [Call(query.id, 1, "search", "search", {"q": query.text}, ids, 1, seconds=seconds)]
    return calls


def check_known(run: Run) -> None:
    """Raises InvalidRequest: the run is imported, so its calls are unknown."""
    if run.manifest.kind == "import":
        raise InvalidRequest(
            f"The run {run.name!r} is imported and its calls are unknown: give the agent's trajectory."
        )


def mean_recall_by_call(run: Run) -> list[float]:
    """Mean recall over all answers after 1, 2, ... n calls, n the most calls of a query.

    A query with fewer calls keeps its last value, one without calls has 0. Queries without an answer are left out.
    Counted after a call are all results of search and expand calls and the agent's last answer, which may name papers
    that no call returned. Failed calls count as calls. A plain search is one call.

    Raises:
        InvalidRequest: the run is imported, so its calls are unknown.
    """
    check_known(run)
    calls = calls_of(run)
    curves = [recall_after_each(calls[q.id], _relevant(q)) for q in run.queries if q.relevant]
    length = max(map(len, curves), default=0)
    padded = [curve + (curve[-1:] or [0.0]) * (length - len(curve)) for curve in curves]
    return [fmean(values) for values in zip(*padded, strict=True)]


def _relevant(query: JudgedQuery) -> frozenset[str]:
    return frozenset(answer.paper_id for answer in query.relevant)
