"""Figures of an agent's calls for one query: rounds, calls, candidates, recall.

ScholarQuest (arXiv:2606.20235) reports these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Final

from scholarbase.models.calls import Call

CUTOFF: Final = 100
LOOKING: Final = ("search", "match", "expand")
"""The kinds of call whose results are candidates."""


@dataclass(frozen=True, slots=True)
class QueryEfficiency:
    """Figures of one query. None: unknown, or a division by zero.

    ``candidates`` are the distinct papers that search, match and expand calls returned; ``recall`` is of the whole
    ranking, ``recall_100`` of its first 100, both over all answers and None for a query without answers;
    ``recall_100_per_100`` is ``recall_100`` for each 100 candidates. ``seconds`` and ``tokens`` are sums over the
    calls, None if a call other than an answer lacks the value.
    """

    query_id: str
    rounds: int | None
    search_calls: int | None
    match_calls: int | None
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


def figures(
    query_id: str, calls: Sequence[Call], relevant: frozenset[str], ranking: Sequence[str] | None = None
) -> QueryEfficiency:
    """Compute the figures of one query's calls. Recall is of ``ranking``; None is the last answer, followed by the
    other candidates in the order in which they were first returned."""
    candidates = dict.fromkeys(i for call in calls if call.kind in LOOKING for i in call.ids)
    if ranking is None:
        answers = [call.ids for call in calls if call.kind == "answer" and call.error is None]
        ranking = tuple(dict.fromkeys((*(answers[-1] if answers else ()), *candidates)))
    kinds = Counter(call.kind for call in calls)
    tokens = total(calls, "tokens")
    recall_100 = recall(relevant, ranking[:CUTOFF])
    return QueryEfficiency(
        query_id,
        rounds=len({call.round for call in calls}),
        search_calls=kinds["search"],
        match_calls=kinds["match"],
        expand_calls=kinds["expand"],
        inspect_calls=kinds["inspect"],
        failed_calls=sum(call.error is not None for call in calls),
        candidates=len(candidates),
        recall=recall(relevant, ranking),
        recall_100=recall_100,
        recall_100_per_100=per_100_candidates(recall_100, len(candidates)),
        seconds=total(calls, "seconds"),
        tokens=None if tokens is None else int(tokens),
    )


def recall_after_each(calls: Iterable[Call], relevant: frozenset[str]) -> list[float]:
    """Recall over all of ``relevant`` after each call, of all results of search, match and expand calls and the last
    answer so far."""
    found: set[str] = set()
    answer: set[str] = set()
    curve = []
    for call in calls:
        if call.kind in LOOKING:
            found |= relevant.intersection(call.ids)
        elif call.kind == "answer" and call.error is None:
            answer = set(relevant.intersection(call.ids))
        curve.append(len(found | answer) / len(relevant))
    return curve


def total(calls: Sequence[Call], name: str) -> float | None:
    """The sum of a field over calls, None if a call other than an answer lacks it."""
    values = [(call.kind, getattr(call, name)) for call in calls]
    if not values or any(value is None and kind != "answer" for kind, value in values):
        return None
    known = [value for _, value in values if value is not None]
    return sum(known) if known else None


def recall(relevant: frozenset[str], ids: Iterable[str]) -> float | None:
    """The share of relevant papers among the ids; None without relevant papers."""
    return len(relevant.intersection(ids)) / len(relevant) if relevant else None


def per_100_candidates(recall_100: float | None, candidates: int) -> float | None:
    return recall_100 / (candidates / 100) if candidates and recall_100 is not None else None
