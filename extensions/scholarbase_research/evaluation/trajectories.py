"""The tool calls of an agent as a run; docs/trajectories.md describes the file and the ranking."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final, Literal, get_args

import orjson

from scholarbase.errors import EvaluationError, InvalidRequest, QueryFileError
from scholarbase.models.calls import Call
from scholarbase.models.source import Source
from scholarbase.trajectories.figures import LOOKING, total
from scholarbase_research.evaluation.imports import Imported
from scholarbase_research.evaluation.papers import resolve
from scholarbase_research.evaluation.queries import QuerySet
from scholarbase_research.evaluation.run_data import JudgedQuery, RankedId
from scholarbase_research.trajectory_lines import RawCall, moment

Ranking = Literal["answer", "answer-only", "observed"]
RANKINGS: Final[tuple[Ranking, ...]] = get_args(Ranking)


def read_calls(
    calls: Sequence[RawCall],
    source: Source,
    queries: QuerySet,
    judged: Sequence[JudgedQuery],
    *,
    ranking: Ranking = "answer",
) -> Imported:
    """Number an agent's calls, and make its rankings.

    The candidates of a query are the papers that its search and expand calls found, in the order of first appearance.
    ``ranking`` is one of:

    - ``answer``: the papers of the last ``answer`` call, then the other candidates; without such a call, the
      candidates. R@All then covers everything the agent saw, and R@k is the agent's own if its answer has k papers:
      ``manifest.search`` counts the answers with fewer than 25 and 100.
    - ``answer-only``: the last answer; empty without one.
    - ``observed``: the candidates, without regard to the answer.

    Failed ``answer`` calls are ignored. A paper that the library does not hold keeps its canonical id and is counted.

    Raises:
        QueryFileError: a query is not in the set, or the calls of a query are inconsistent.
        EvaluationError: a call was made on another snapshot than this library's.
    """
    if ranking not in RANKINGS:
        raise InvalidRequest(f"Unknown ranking {ranking!r}: use one of {', '.join(RANKINGS)}.")
    by_query: dict[str, list[RawCall]] = {query.id: [] for query in judged}
    for call in calls:
        if call.query_id not in by_query:
            raise QueryFileError(
                f"{call.where} has the query {call.query_id!r}, which is not in the query set {queries.name}: give "
                "the query file that the agent worked on."
            )
        by_query[call.query_id].append(call)
    _check_snapshot(calls, source.snapshot()["snapshot"])
    listed = {paper_id for call in calls for paper_id in call.ids}
    library_ids = resolve(source, listed)
    facts = _facts(calls, by_query, {query.id: query.text for query in queries.queries})
    facts.update(
        papers=len({library_ids.get(i, i) for i in listed}), papers_absent=len(listed - library_ids.keys())
    )
    resolved: list[Call] = []
    rankings: dict[str, tuple[RankedId, ...]] = {}
    seconds: dict[str, float] = {}
    for query_id, query_calls in by_query.items():
        ordered = _checked_calls(query_id, query_calls, library_ids)
        resolved.extend(ordered)
        rankings[query_id] = _rank(ordered, ranking, facts)
        time = total(ordered, "seconds")
        if time is not None:
            seconds[query_id] = time
    digest = hashlib.sha256(b"\n".join(orjson.dumps(asdict(call)) for call in resolved)).hexdigest()
    # Without any answer, the ranking "answer" is the observed one.
    observed = ranking == "answer" and not facts["answered_queries"]
    search = {"ranking": "observed" if observed else ranking, "calls_sha256": digest, **facts}
    return Imported("trajectory", search, rankings, resolved, seconds)


def _check_snapshot(calls: Sequence[RawCall], snapshot: str) -> None:
    for call in calls:
        if call.snapshot not in (None, snapshot):
            raise EvaluationError(
                f"The calls were made on the snapshot {call.snapshot} ({call.where}), and this library is {snapshot}: "
                "give the library that the agent searched."
            )


def _facts(
    calls: Sequence[RawCall], by_query: Mapping[str, Sequence[RawCall]], texts: Mapping[str, str]
) -> Counter[str]:
    """The counts that do not need resolved ids; those of answers start at zero."""
    recorded = {call.query_id: call.query for call in calls if call.query is not None}
    return Counter(
        calls=len(calls),
        failed_calls=sum(call.error is not None for call in calls),
        queries_without_calls=sum(not query_calls for query_calls in by_query.values()),
        other_texts=sum(" ".join(texts[i].split()) != " ".join(text.split()) for i, text in recorded.items()),
        missing_call_numbers=sum(_missing(query_calls) for query_calls in by_query.values()),
        answered_queries=0,
        answers_below_25=0,
        answers_below_100=0,
        answers_not_observed=0,
    )


def _missing(query_calls: Sequence[RawCall]) -> int:
    numbers = [call.call for call in query_calls if call.call is not None]
    return max(numbers, default=0) - len(numbers)


def _checked_calls(
    query_id: str, query_calls: Sequence[RawCall], library_ids: Mapping[str, str]
) -> list[Call]:
    """The calls of one query with numbers, rounds and the library's ids. Raises QueryFileError: inconsistent."""
    for name in ("call", "round"):
        lacking = [raw for raw in query_calls if getattr(raw, name) is None]
        if lacking and len(lacking) < len(query_calls):
            raise QueryFileError(
                f"{lacking[0].where} has no {name}, unlike other calls of the query {query_id!r}: set it in all calls "
                "of a query or in none."
            )
    calls: list[Call] = []
    numbers: set[int] = set()
    for position, raw in enumerate(query_calls, 1):
        number = position if raw.call is None else raw.call
        round_ = position if raw.round is None else raw.round
        problem = None
        if raw.session != query_calls[0].session:
            problem = (
                f"has the session {raw.session!r}, and {query_calls[0].where} has {query_calls[0].session!r}: a query "
                "has one session per run. Use one file per session"
            )
        elif number in numbers or (
            calls and number < calls[-1].call and not _is_in_order(query_calls[position - 2], raw)
        ):
            problem = (
                f"is call {number} after call {calls[-1].call}: call numbers must differ, and increase unless the "
                "calls are in the order of ended"
            )
        elif calls and round_ < calls[-1].round:
            problem = f"is in round {round_} after round {calls[-1].round}: round numbers must not decrease"
        elif raw.parent is not None and raw.parent not in numbers:
            problem = f"has the parent {raw.parent}, which is not an earlier call"
        if problem is not None:
            raise QueryFileError(f"{raw.where}, of the query {query_id!r}, {problem}.")
        numbers.add(number)
        calls.append(_call(raw, number, round_, library_ids))
    return calls


def _is_in_order(before: RawCall, after: RawCall) -> bool:
    """Whether both calls say when they ended, and the second ended later."""
    first, second = moment(before.ended), moment(after.ended)
    return first is not None and second is not None and first <= second


def _call(raw: RawCall, number: int, round_: int, library_ids: Mapping[str, str]) -> Call:
    return Call(
        query_id=raw.query_id,
        call=number,
        tool=raw.tool,
        kind=raw.kind,
        arguments=raw.arguments,
        # Two ids may be of one paper.
        ids=tuple(dict.fromkeys(library_ids.get(paper_id, paper_id) for paper_id in raw.ids)),
        round=round_,
        parent=raw.parent,
        seconds=raw.seconds,
        tokens=raw.tokens,
        error=raw.error,
    )


def _rank(calls: Sequence[Call], ranking: Ranking, facts: Counter[str]) -> tuple[RankedId, ...]:
    """The ranking of one query; adds its answer to ``facts``."""
    observed = dict.fromkeys(i for call in calls if call.kind in LOOKING for i in call.ids)
    answers = [call.ids for call in calls if call.kind == "answer" and call.error is None]
    answer = answers[-1] if answers else ()
    if answers:
        facts.update(
            answered_queries=1,
            answers_below_25=len(answer) < 25,
            answers_below_100=len(answer) < 100,
            answers_not_observed=len(set(answer) - observed.keys()),
        )
    if ranking == "observed":
        ids = tuple(observed)
    elif ranking == "answer-only":
        ids = answer
    else:
        ids = tuple(dict.fromkeys((*answer, *observed)))
    return tuple(RankedId(paper_id, float(len(ids) - position)) for position, paper_id in enumerate(ids))
