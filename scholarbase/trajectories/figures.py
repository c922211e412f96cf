"""Figures of an agent's calls for one query: rounds, calls, candidates, recall.

ScholarQuest (arXiv:2606.20235) reports these. Evaluation and sessions both compute them here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Final

from scholarbase.models.runs import Call

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
    recall_100 = recall(relevant, ranking[:CUTOFF])
    return QueryEfficiency(
        query_id,
        rounds=len({call.round for call in calls}),
        search_calls=kinds["search"],
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


def total(calls: Sequence[Call], name: str) -> float | None:
    """The sum of what the calls say, None where one of them does not; an answer need not."""
    values = [(call.kind, getattr(call, name)) for call in calls]
    if not values or any(value is None and kind != "answer" for kind, value in values):
        return None
    known = [value for _, value in values if value is not None]
    return sum(known) if known else None


def recall(relevant: frozenset[str], ids: Iterable[str]) -> float | None:
    """The share of the answers that are among the ids; None where there is no answer to find."""
    return len(relevant.intersection(ids)) / len(relevant) if relevant else None


def per_100_candidates(recall_100: float | None, candidates: int) -> float | None:
    return recall_100 / (candidates / 100) if candidates and recall_100 is not None else None
