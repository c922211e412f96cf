"""Efficiency of a run: rounds, calls, candidates, and recall by candidates, as ScholarQuest (arXiv:2606.20235) reports.

A run of plain searches counts as one search call per query, so that agents and plain retrieval share a table. The
calls of an imported run are unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from scholarbase.errors import InvalidRequest
from scholarbase.models.runs import Call, JudgedQuery, Run
from scholarbase.trajectories.figures import (
    CUTOFF,
    FIGURES,
    QueryEfficiency,
    figures,
    per_100_candidates,
    recall,
    recall_after_each,
)


@dataclass(frozen=True, slots=True)
class Failure:
    """A query with no answer found: its calls and candidates, and how many answers it has."""

    query_id: str
    text: str
    calls: int | None
    candidates: int
    answers: int
    held: int


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Figures of each query and of the run.

    ``means`` has the mean of each figure of :class:`QueryEfficiency` over the queries where it is known (None: no
    query), ``counts`` the number of those queries. ``pooled_recall_100_per_100`` is the mean R@100 divided by the mean
    hundreds of candidates, which is robust to queries with few candidates.
    """

    run: str
    queries: tuple[QueryEfficiency, ...]
    means: Mapping[str, float | None]
    counts: Mapping[str, int]
    pooled_recall_100_per_100: float | None
    failures: tuple[Failure, ...]


def efficiency(run: Run) -> Efficiency:
    """Compute a run's efficiency over all answers. Means are over queries (macro)."""
    calls = _calls_by_query(run)
    rows = tuple(_of_query(run, query, calls[query.id]) for query in run.queries)
    means: dict[str, float | None] = {}
    counts: dict[str, int] = {}
    for name in FIGURES:
        values = [value for row in rows if (value := getattr(row, name)) is not None]
        means[name], counts[name] = (fmean(values) if values else None), len(values)
    judged = [row for row in rows if row.recall_100 is not None]
    candidates = sum(row.candidates for row in judged)
    found = sum(row.recall_100 or 0.0 for row in judged)
    failures = tuple(
        Failure(
            query_id=query.id,
            text=query.text,
            calls=None if run.manifest.kind == "import" else _count(run, calls[query.id]),
            candidates=row.candidates,
            answers=len(query.relevant),
            held=sum(answer.held for answer in query.relevant),
        )
        for query, row in zip(run.queries, rows, strict=True)
        if row.recall == 0.0
    )
    pooled = found / (candidates / 100) if candidates else None
    return Efficiency(run.name, rows, means, counts, pooled, failures)


def recall_by_call(run: Run) -> list[float]:
    """Mean recall over all answers after 1, 2, ... n calls, n the most calls of a query.

    A query with fewer calls keeps its last value, one without calls has 0. Queries without an answer are left out.
    Counted after a call are all results of search and expand calls and the agent's last answer, which may name papers
    that no call returned. Failed calls count as calls. A plain search is one call.

    Raises:
        InvalidRequest: the run is imported, so its calls are unknown.
    """
    if run.manifest.kind == "import":
        raise InvalidRequest(
            f"The run {run.name!r} is imported and its calls are unknown: give the agent's trajectory."
        )
    queries = [query for query in run.queries if query.relevant]
    calls = _calls_by_query(run)
    if run.manifest.kind == "search":
        curves = [
            [recall(_relevant(query), (r.id for r in run.rankings.get(query.id, ()))) or 0.0]
            for query in queries
        ]
    else:
        curves = [recall_after_each(calls[query.id], _relevant(query)) for query in queries]
    length = max(map(len, curves), default=0)
    padded = [curve + (curve[-1:] or [0.0]) * (length - len(curve)) for curve in curves]
    return [fmean(values) for values in zip(*padded, strict=True)]


def _calls_by_query(run: Run) -> dict[str, list[Call]]:
    calls: dict[str, list[Call]] = {query.id: [] for query in run.queries}
    for call in run.calls:
        calls[call.query_id].append(call)
    return calls


def _count(run: Run, calls: Sequence[Call]) -> int:
    return len(calls) if run.manifest.kind == "trajectory" else 1


def _of_query(run: Run, query: JudgedQuery, calls: Sequence[Call]) -> QueryEfficiency:
    ranking = [result.id for result in run.rankings.get(query.id, ())]
    relevant = _relevant(query)
    if run.manifest.kind == "trajectory":
        return figures(query.id, calls, relevant, ranking)
    known = run.manifest.kind == "search"
    recall_100 = recall(relevant, ranking[:CUTOFF])
    return QueryEfficiency(
        query.id,
        rounds=1 if known else None,
        search_calls=1 if known else None,
        match_calls=0 if known else None,
        expand_calls=0 if known else None,
        inspect_calls=0 if known else None,
        failed_calls=0 if known else None,
        candidates=len(set(ranking)),
        recall=recall(relevant, ranking),
        recall_100=recall_100,
        recall_100_per_100=per_100_candidates(recall_100, len(set(ranking))),
        seconds=run.seconds.get(query.id),
        tokens=None,
    )


def _relevant(query: JudgedQuery) -> frozenset[str]:
    return frozenset(answer.paper_id for answer in query.relevant)
