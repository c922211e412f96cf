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
            [_recall(_relevant(query), (r.id for r in run.rankings.get(query.id, ()))) or 0.0]
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


def figures(
    query_id: str, calls: Sequence[Call], relevant: frozenset[str], ranking: Sequence[str] | None = None
) -> QueryEfficiency:
    """What the calls made for one query cost and found. ``ranking`` is what recall is of; None takes the last answer,
    then the candidates that it leaves out, as they were first seen."""
    candidates = dict.fromkeys(i for call in calls if call.kind in LOOKING for i in call.ids)
    if ranking is None:
        answers = [call.ids for call in calls if call.kind == "answer" and call.error is None]
        ranking = tuple(dict.fromkeys((*(answers[-1] if answers else ()), *candidates)))
    kinds = Counter(call.kind for call in calls)
    tokens = total(calls, "tokens")
    recall_100 = _recall(relevant, ranking[:CUTOFF])
    return QueryEfficiency(
        query_id,
        rounds=len({call.round for call in calls}),
        search_calls=kinds["search"],
        expand_calls=kinds["expand"],
        inspect_calls=kinds["inspect"],
        failed_calls=sum(call.error is not None for call in calls),
        candidates=len(candidates),
        recall=_recall(relevant, ranking),
        recall_100=recall_100,
        recall_100_per_100=_per_100(recall_100, len(candidates)),
        seconds=total(calls, "seconds"),
        tokens=None if tokens is None else int(tokens),
    )


def recall_after_each(calls: Iterable[Call], relevant: frozenset[str]) -> list[float]:
    """Recall over all of ``relevant`` after each call: over what search and expand calls have found, and the last
    answer so far."""
    seen: set[str] = set()
    answered: set[str] = set()
    curve = []
    for call in calls:
        if call.kind in LOOKING:
            seen |= relevant.intersection(call.ids)
        elif call.kind == "answer" and call.error is None:
            answered = set(relevant.intersection(call.ids))
        curve.append(len(seen | answered) / len(relevant))
    return curve


def _of_query(run: Run, query: JudgedQuery, calls: Sequence[Call]) -> QueryEfficiency:
    ranking = [result.id for result in run.rankings.get(query.id, ())]
    relevant = _relevant(query)
    if run.manifest.kind == "trajectory":
        return figures(query.id, calls, relevant, ranking)
    # One search a query, unless another system made the run, and nobody knows how.
    known = run.manifest.kind == "search"
    recall_100 = _recall(relevant, ranking[:CUTOFF])
    return QueryEfficiency(
        query.id,
        rounds=1 if known else None,
        search_calls=1 if known else None,
        expand_calls=0 if known else None,
        inspect_calls=0 if known else None,
        failed_calls=0 if known else None,
        candidates=len(set(ranking)),
        recall=_recall(relevant, ranking),
        recall_100=recall_100,
        recall_100_per_100=_per_100(recall_100, len(set(ranking))),
        seconds=run.seconds.get(query.id),
        tokens=None,
    )


def total(calls: Sequence[Call], name: str) -> float | None:
    """The sum of what the calls say, None where one of them does not; an answer need not."""
    values = [(call.kind, getattr(call, name)) for call in calls]
    if not values or any(value is None and kind != "answer" for kind, value in values):
        return None
    known = [value for _, value in values if value is not None]
    return sum(known) if known else None


def _relevant(query: JudgedQuery) -> frozenset[str]:
    return frozenset(answer.paper_id for answer in query.relevant)


def _recall(relevant: frozenset[str], ids: Iterable[str]) -> float | None:
    """The share of the answers that are among the ids; None where there is no answer to find."""
    return len(relevant.intersection(ids)) / len(relevant) if relevant else None


def _per_100(recall_100: float | None, candidates: int) -> float | None:
    return recall_100 / (candidates / 100) if candidates and recall_100 is not None else None
