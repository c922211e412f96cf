"""What the calls of a run cost and what they found: rounds, calls, candidates, recall for what was looked at.

ScholarQuest (arXiv:2606.20235) asks this of agents. A run of plain searches counts as one search call a query, so
that agents and plain retrieval stand in one table; of a run that another system made, the calls are not known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import fmean
from typing import Final

from scholarbase.errors import InvalidRequest
from scholarbase.evaluation.runs import Call, JudgedQuery, Run

CUTOFF: Final = 100
KINDS: Final = ("search", "expand", "inspect")
LOOKING: Final = ("search", "expand")
"""The kinds of call whose results are candidates."""


@dataclass(frozen=True, slots=True)
class QueryEfficiency:
    """One query. None: not known, or nothing to divide by.

    ``candidates`` are the distinct papers that search and expand calls found; ``recall`` is that of the whole
    ranking, ``recall_100`` that of its first 100, both over all answers and None for a query without one;
    ``recall_100_per_100`` is ``recall_100`` for each 100 candidates. ``seconds`` and ``tokens`` are sums over the
    calls, None where one that searched, expanded or inspected does not say.
    """

    query_id: str
    rounds: int | None
    search_calls: int | None
    expand_calls: int | None
    inspect_calls: int | None
    failed_calls: int | None
    candidates: int
    recall: float | None
    recall_100: float | None
    recall_100_per_100: float | None
    seconds: float | None
    tokens: int | None


FIGURES: Final = tuple(f.name for f in fields(QueryEfficiency) if f.name != "query_id")


@dataclass(frozen=True, slots=True)
class Failure:
    """A query of which no answer was found: what was looked at in vain, and how many answers there were to find."""

    query_id: str
    text: str
    calls: int | None
    candidates: int
    answers: int
    held: int


@dataclass(frozen=True, slots=True)
class Efficiency:
    """A run's queries one by one, and together.

    ``means`` has the mean of each figure of :class:`QueryEfficiency` over the queries that have it (None: no query
    has), ``counts`` how many those are. ``pooled_recall_100_per_100`` is the mean R@100 divided by the mean
    hundreds of candidates: it does not jump where a query saw few.
    """

    run: str
    queries: tuple[QueryEfficiency, ...]
    means: Mapping[str, float | None]
    counts: Mapping[str, int]
    pooled_recall_100_per_100: float | None
    failures: tuple[Failure, ...]


def efficiency(run: Run) -> Efficiency:
    """What a run's calls cost and found, over all answers. Means are over queries (macro)."""
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
    """Mean recall over all answers after 1, 2, ... n calls, n the most calls of a query; one with fewer keeps its
    last value, one without any stays at 0. Queries without an answer are left out.

    What counts after a call is what search and expand calls have found and the last answer so far: an agent may
    answer with papers that no call has shown. Every call is a step, also one that failed. A plain search is one
    call.

    Raises:
        InvalidRequest: the calls of the run are not known, since another system made it.
    """
    if run.manifest.kind == "import":
        raise InvalidRequest(
            f"The run {run.name!r} was made elsewhere, and its calls are not known: give the agent's trajectory."
        )
    queries = [query for query in run.queries if query.relevant]
    calls = _calls_by_query(run)
    if run.manifest.kind == "search":
        curves = [
            [_recall(query, (r.id for r in run.rankings.get(query.id, ()))) or 0.0] for query in queries
        ]
    else:
        curves = [_curve(query, calls[query.id]) for query in queries]
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
    ranking = run.rankings.get(query.id, ())
    recall_100 = _recall(query, (result.id for result in ranking[:CUTOFF]))
    rounds: int | None
    failed: int | None
    kinds: Mapping[str, int | None]
    seconds: float | None
    if run.manifest.kind == "trajectory":
        rounds, failed = len({call.round for call in calls}), sum(call.error is not None for call in calls)
        kinds = Counter(call.kind for call in calls)
        candidates = len({i for call in calls if call.kind in LOOKING for i in call.ids})
        seconds, tokens = total(calls, "seconds"), total(calls, "tokens")
    else:
        # One search a query, unless another system made the run, and nobody knows how.
        known = run.manifest.kind == "search"
        rounds, failed = (1, 0) if known else (None, None)
        kinds = {"search": 1, "expand": 0, "inspect": 0} if known else dict.fromkeys(KINDS)
        candidates = len({result.id for result in ranking})
        seconds, tokens = run.seconds.get(query.id), None
    return QueryEfficiency(
        query.id,
        rounds=rounds,
        search_calls=kinds["search"],
        expand_calls=kinds["expand"],
        inspect_calls=kinds["inspect"],
        failed_calls=failed,
        candidates=candidates,
        recall=_recall(query, (result.id for result in ranking)),
        recall_100=recall_100,
        recall_100_per_100=recall_100 / (candidates / 100) if candidates and recall_100 is not None else None,
        seconds=seconds,
        tokens=None if tokens is None else int(tokens),
    )


def total(calls: Sequence[Call], name: str) -> float | None:
    """The sum of what the calls say, None where one of them does not; an answer need not."""
    values = [(call.kind, getattr(call, name)) for call in calls]
    if not values or any(value is None and kind != "answer" for kind, value in values):
        return None
    known = [value for _, value in values if value is not None]
    return sum(known) if known else None


def _recall(query: JudgedQuery, ids: Iterable[str]) -> float | None:
    """The share of the answers that are among the ids; None where there is no answer to find."""
    relevant = {answer.paper_id for answer in query.relevant}
    return len(relevant.intersection(ids)) / len(relevant) if relevant else None


def _curve(query: JudgedQuery, calls: Sequence[Call]) -> list[float]:
    relevant = {answer.paper_id for answer in query.relevant}
    seen: set[str] = set()
    answered: set[str] = set()
    curve = []
    for call in calls:
        if call.kind in LOOKING:
            seen |= relevant.intersection(call.ids)
        elif call.kind == "answer" and call.error is None:
            answered = relevant.intersection(call.ids)
        curve.append(len(seen | answered) / len(relevant))
    return curve
