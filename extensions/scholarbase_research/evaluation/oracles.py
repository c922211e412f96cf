"""Upper bounds of recall: perfect reranking, the union of several runs, and expansion along citations.

All tables use a run's own results and judgements. Queries without answers are left out; recall over held answers also
leaves out queries with no held answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Final, NamedTuple

from scholarbase.errors import EvaluationError, InvalidRequest, RunMismatch, TooManyEdges
from scholarbase.models.limits import MAX_IDS, MAX_LIMIT, Direction
from scholarbase.models.source import Source
from scholarbase.progress import Reporter, SilentReporter
from scholarbase_research.evaluation.evidence import check_papers
from scholarbase_research.evaluation.papers import resolve
from scholarbase_research.evaluation.run_data import JudgedQuery, Run

CUTOFFS: Final = (25, 100)


@dataclass(frozen=True, slots=True)
class OracleRow:
    """An upper bound of recall, as means over queries.

    ``recall`` is over all answers and ``held`` over those in the library (None: no query has such an answer), with
    the number of queries in ``queries`` and ``held_queries``. ``candidates`` is the number of papers to look at.
    ``refused`` counts queries whose expansion was too large; they count without it, so the true bound is higher.
    """

    name: str
    recall: float | None
    held: float | None
    candidates: float | None
    queries: int
    held_queries: int
    refused: int = 0


@dataclass(frozen=True, slots=True)
class OracleTable:
    """Comparable rows. ``notes`` qualify them."""

    title: str
    rows: tuple[OracleRow, ...]
    notes: tuple[str, ...] = ()


class _Reach(NamedTuple):
    """The answers reached for one query, and the number of candidates."""

    answers: Collection[str]
    candidates: int
    refused: bool = False


# -- reranking ------------------------------------------------------------------------------------------


def reranking_ceiling(run: Run, n: int, cutoffs: Sequence[int] = CUTOFFS) -> OracleTable:
    """Recall at each cutoff, as ranked and with the first ``n`` results ranked perfectly.

    The latter is R@k = min(k, answers among the first n) / answers.

    Raises:
        InvalidRequest: the run has fewer than ``n`` results, or a cutoff is not from 1 to ``n``.
    """
    _check_depth(run, n)
    for k in cutoffs:
        if not 1 <= k <= n:
            raise InvalidRequest(f"The cutoff {k} is not from 1 to {n}: only the first {n} are reranked.")
    rows = []
    for k in cutoffs:
        rows.append(_row(f"R@{k} as ranked", run, _first([run], k)))
        rows.append(_row(f"R@{k} at best", run, _first([run], n), cutoff=k))
    return OracleTable(f"Perfect reranking of the first {n} of {run.name}", tuple(rows))


# -- union ----------------------------------------------------------------------------------------------


def union_ceiling(runs: Sequence[Run], n: int) -> OracleTable:
    """Recall of the first ``n`` of each run, of each pair, and of all runs: the upper bound of fusion.

    Raises:
        InvalidRequest: fewer than two runs, two runs of one name, or a run with fewer than ``n`` results.
        RunMismatch: the runs are of different query sets or snapshots.
    """
    if len(runs) < 2:
        raise InvalidRequest(f"A union needs at least two runs, and there is {len(runs)}: add another run.")
    names = [run.name for run in runs]
    for name in names:
        if names.count(name) > 1:
            raise InvalidRequest(f"Two runs are named {name!r}: give each its own name.")
    for run in runs:
        _check_depth(run, n)
        _check_comparable(runs[0], run)
    groups: list[tuple[Run, ...]] = [(run,) for run in runs]
    groups += combinations(runs, 2)
    if len(runs) > 2:
        groups.append(tuple(runs))
    rows = []
    for group in groups:
        name = "all" if len(group) > 2 else " + ".join(run.name for run in group)
        rows.append(_row(name, runs[0], _first(group, n)))
    return OracleTable(f"Union of the first {n} of each run", tuple(rows))


def _check_comparable(run: Run, other: Run) -> None:
    for name, a, b in (
        ("query sets", run.manifest.queries["sha256"], other.manifest.queries["sha256"]),
        ("snapshots", run.manifest.snapshot, other.manifest.snapshot),
    ):
        if a != b:
            raise RunMismatch(
                f"The runs {run.name!r} and {other.name!r} are of different {name}, {a} and {b}, and cannot be "
                "combined: give runs of the same query set and snapshot."
            )
    # Answers of one query set may have been resolved differently.
    if run.queries != other.queries:
        raise RunMismatch(
            f"The answers of the runs {run.name!r} and {other.name!r} were resolved differently: make both runs "
            "again with the same version."
        )


# -- expansion ------------------------------------------------------------------------------------------


def expansion_table(
    source: Source,
    run: Run,
    n: int,
    *,
    hops: int = 2,
    reporter: Reporter | None = None,
) -> OracleTable:
    """The first ``n`` alone; with their citations, references, and both; and with ``hops`` 2, within two hops.

    Raises:
        InvalidRequest: the run has fewer than ``n`` results, or ``hops`` is not 1 or 2.
        EvaluationError: the run was made on another snapshot than this library's.
        ScholarBaseError: ``expand`` fails. An expansion that is too large is counted instead.
    """
    if hops not in (1, 2):
        raise InvalidRequest(f"hops is {hops!r}: it must be 1 or 2.")
    steps: list[tuple[int, Direction]] = [(1, "citations"), (1, "references"), (1, "both")]
    if hops == 2:
        steps.append((2, "both"))
    expansions = _expansions(source, run, n, steps, reporter)
    rows = [_row(f"first {n} alone", run, _first([run], n))]
    rows += [_row(name, run, reaches) for name, reaches in expansions.items()]
    notes = [
        f"{row.name}: for {row.refused} of {row.queries} queries the expansion was refused as too large; they are "
        "counted without it, so the true ceiling is higher."
        for row in rows
        if row.refused
    ]
    if not source.snapshot()["manifest"]["counts"]["edges"]:
        notes.append(
            "The library has no citations, so expansion cannot find anything here. Ingest the citations too, search "
            "that library, and compute this again."
        )
    return OracleTable(f"Citation expansion from the first {n} of {run.name}", tuple(rows), tuple(notes))


def _step_name(hops: int, direction: Direction) -> str:
    way = "citations and references" if direction == "both" else direction
    return f"+ {way}, {hops} hop{'s' if hops > 1 else ''}"


def _expansions(
    source: Source,
    run: Run,
    n: int,
    steps: Sequence[tuple[int, Direction]],
    reporter: Reporter | None,
) -> dict[str, dict[str, _Reach]]:
    """What each step reaches for each query, by the step's name and the query's id."""
    _check_depth(run, n)
    if n > MAX_IDS:
        raise InvalidRequest(f"n is {n}: an expansion starts from at most {MAX_IDS} papers.")
    snapshot = source.snapshot()["snapshot"]
    if snapshot != run.manifest.snapshot:
        raise EvaluationError(
            f"The run {run.name!r} was made on the snapshot {run.manifest.snapshot}, and this library is {snapshot}: "
            "give the library that was searched."
        )
    queries = [query for query in run.queries if query.relevant]
    in_library = _held(source, run, n)

    expansions: dict[str, dict[str, _Reach]] = {_step_name(*step): {} for step in steps}
    with (reporter or SilentReporter()).stage(f"expand {run.name}", "queries", len(queries)) as tracker:
        for done, query in enumerate(queries, 1):
            reaches = _query_reaches(source, query, _top(run, query, n), in_library, steps)
            for step, reached in zip(steps, reaches, strict=True):
                expansions[_step_name(*step)][query.id] = reached
            tracker.advance(1)
            tracker.at(done)
    return expansions


def _held(source: Source, run: Run, n: int) -> frozenset[str]:
    """The results that the library holds; those of a search need no look-up."""
    ids = {result.id for ranking in run.rankings.values() for result in ranking[:n]}
    return frozenset(ids if run.manifest.kind == "search" else resolve(source, ids))


def _query_reaches(
    source: Source,
    query: JudgedQuery,
    top: Sequence[str],
    in_library: frozenset[str],
    steps: Sequence[tuple[int, Direction]],
) -> list[_Reach]:
    alone = _reached(query, top)
    seeds = [paper_id for paper_id in top if paper_id in in_library]
    missing = [a.paper_id for a in query.relevant if a.held and a.paper_id not in alone.answers]
    reaches: list[_Reach] = []
    for hops, direction in steps:
        try:
            reached, count = _neighbours(source, seeds, hops, direction, missing)
        except TooManyEdges:
            fewer_hops = reaches[-1] if reaches and direction == "both" else alone
            reaches.append(fewer_hops._replace(refused=True))
        else:
            reaches.append(_Reach({*alone.answers, *reached}, alone.candidates + count))
    return reaches


def _neighbours(
    source: Source, seeds: Sequence[str], hops: int, direction: Direction, missing: Sequence[str]
) -> tuple[set[str], int]:
    """The missing answers among the neighbours of the seeds, and the number of all neighbours.

    Only these answers are requested, as a hub has very many neighbours.
    """
    if not seeds:
        return set(), 0
    total = source.expand(seeds, direction=direction, hops=hops, limit=1, fields=["id"]).total
    reached: set[str] = set()
    offset: int | None = 0 if missing and total else None
    while offset is not None:
        page = source.expand(
            seeds,
            direction=direction,
            hops=hops,
            limit=MAX_LIMIT,
            offset=offset,
            within=missing,
            fields=["id"],
        )
        reached.update(neighbour.paper.id for neighbour in page.results)
        offset = page.next_offset
    return reached, total


# -- shared ---------------------------------------------------------------------------------------------


def _check_depth(run: Run, n: int) -> None:
    check_papers(run, "a ceiling")
    limit = (run.manifest.search or {}).get("limit")
    depth = limit if isinstance(limit, int) else run.depth
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise InvalidRequest(f"n is {n!r}: it must be a whole number of 1 or more.")
    if n > depth:
        raise InvalidRequest(
            f"The run {run.name!r} has at most {depth} results per query, fewer than {n}: make it again with --limit "
            f"{n}, or use fewer results."
        )


def _top(run: Run, query: JudgedQuery, n: int) -> list[str]:
    return [result.id for result in run.rankings.get(query.id, ())[:n]]


def _first(runs: Sequence[Run], n: int) -> dict[str, _Reach]:
    """What the first ``n`` results of these runs reach together, by query."""
    return {
        query.id: _reached(query, {paper_id for run in runs for paper_id in _top(run, query, n)})
        for query in runs[0].queries
    }


def _reached(query: JudgedQuery, ids: Collection[str]) -> _Reach:
    return _Reach({answer.paper_id for answer in query.relevant}.intersection(ids), len(set(ids)))


def _row(name: str, run: Run, reaches: Mapping[str, _Reach], cutoff: int | None = None) -> OracleRow:
    """The means over queries. ``cutoff`` is the number of papers that are kept, answers first."""
    recalls, held_recalls, candidates = [], [], []
    refused = 0
    for query in run.queries:
        relevant = {answer.paper_id for answer in query.relevant}
        held_answers = {answer.paper_id for answer in query.relevant if answer.held}
        if not relevant:
            continue
        reach = reaches[query.id]
        recalls.append(_recall(reach.answers, relevant, cutoff))
        candidates.append(reach.candidates)
        refused += reach.refused
        if held_answers:
            held_recalls.append(_recall(reach.answers, held_answers, cutoff))
    return OracleRow(
        name, _mean(recalls), _mean(held_recalls), _mean(candidates), len(recalls), len(held_recalls), refused
    )


def _recall(reached: Collection[str], relevant: Collection[str], cutoff: int | None) -> float:
    count = len(set(relevant).intersection(reached))
    return min(count, len(relevant) if cutoff is None else cutoff) / len(relevant)


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
