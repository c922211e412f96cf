"""Measures of a run through ir_measures, under its names: https://ir-measur.es.

A ranking is measured by its order. ir_measures' providers break ties between equal scores in different ways, so they
get scores without ties, which decrease by one from rank to rank.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scholarbase.errors import EvaluationError, InvalidRequest
from scholarbase.extras import require
from scholarbase.models.checks import shown
from scholarbase_research.evaluation import evidence
from scholarbase_research.evaluation.run_data import JudgedQuery, RankedId, Run

Over = Literal["all", "held"]
"""Which answers count: all of the query file, or those that the library holds."""

OVERS: Final[tuple[Over, ...]] = ("all", "held")
DEFAULT_MEASURES: Final = ("R@25", "R@100", "R@All", "nDCG@10", "RR@10", "P@10")
PASSAGE_MEASURES: Final = ("R@1", "R@5", "R@10", "R@All", "RR@10")
EXAMPLES: Final = ("R@25", "R@100", "R@All", "nDCG@10", "RR@10", "P@10", "Success@5", "AP")
MAX_CUTOFF: Final = 1_000_000

_CUTOFFS: Final = {
    "R": "needed",
    "P": "needed",
    "Success": "needed",
    "nDCG": "possible",
    "RR": "possible",
    "AP": "possible",
    "Rprec": "none",
    "Bpref": "none",
    "SetP": "none",
    "SetR": "none",
    "SetF": "none",
}
"""The supported measures of ir_measures, and whether each has a cutoff."""
_ALIASES: Final = {
    "Recall": "R",
    "Precision": "P",
    "NDCG": "nDCG",
    "MAP": "AP",
    "RPrec": "Rprec",
    "BPref": "Bpref",
    # IM-SciQA's names.
    "Hit": "Success",
    "MRR": "RR",
}
_NAME: Final = re.compile(r"([A-Za-z]+)(?:@(All|[0-9]+))?")


class Measure(NamedTuple):
    """A measure: ir_measures' ``family`` and the cutoff, None for the whole ranking."""

    family: str
    cutoff: int | None

    @property
    def name(self) -> str:
        """ir_measures' name; recall of the whole ranking is ``R@All``."""
        if self.family == "SetR":
            return "R@All"
        return self.family if self.cutoff is None else f"{self.family}@{self.cutoff}"

    def label(self, depth: int) -> str:
        """The name for tables; R@All with the depth of the rankings."""
        return f"R@All (depth {depth:,})" if self.family == "SetR" else self.name


def parse_measure(name: str) -> Measure:
    """Parse a measure's name: ir_measures', or an alias (``Hit@5``, ``MRR@10``, ``MAP``).

    Raises:
        InvalidRequest: the measure is unknown, lacks a required cutoff, or has an invalid one.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise _unknown(name)
    family, cutoff = match.groups()
    family = _ALIASES.get(family, family)
    if family not in _CUTOFFS:
        raise _unknown(name)
    if cutoff == "All":
        if family != "R":
            raise InvalidRequest(f"Unknown measure {name!r}: only recall has @All. Use {family}@10.")
        return Measure("SetR", None)
    rule = _CUTOFFS[family]
    if cutoff is None:
        if rule == "needed":
            raise InvalidRequest(f"The measure {name!r} has no cutoff: give a rank, such as {family}@10.")
        return Measure(family, None)
    if rule == "none":
        raise InvalidRequest(f"The measure {family} is of the whole ranking: use it without @{cutoff}.")
    if len(cutoff) > 9 or not 1 <= int(cutoff) <= MAX_CUTOFF:
        raise InvalidRequest(f"The cutoff of {name!r} is {cutoff}: it must be from 1 to {MAX_CUTOFF:,}.")
    return Measure(family, int(cutoff))


def _unknown(name: str) -> InvalidRequest:
    family, at, cutoff = name.partition("@")
    folded = {known.casefold(): known for known in (*_CUTOFFS, *_ALIASES)}
    near = difflib.get_close_matches(family.strip().casefold(), folded, n=1, cutoff=0.5)
    hint = ""
    if near:
        known = _ALIASES.get(folded[near[0]], folded[near[0]])
        cutoff = cutoff.strip() if cutoff.strip().isdecimal() else "10"
        with_cutoff = _CUTOFFS[known] == "needed" or (at and _CUTOFFS[known] == "possible")
        hint = f" Did you mean {known}@{cutoff}?" if with_cutoff else f" Did you mean {known}?"
    return InvalidRequest(f"Unknown measure {name!r}: use names such as {', '.join(EXAMPLES)}.{hint}")


@dataclass(frozen=True)
class Evaluation:
    """The value of each measure for each query, by the query's id.

    ``all`` counts all answers, ``held`` those that the library holds. A query without a relevant answer (``unjudged``)
    has no value and is not part of the mean; over held neither is one without a held answer (``unheld``). ``depth`` is
    the depth of R@All. ``notes`` are sentences to show with the figures.
    """

    run: str
    depth: int
    measures: tuple[str, ...]
    all: Mapping[str, Mapping[str, float]]
    held: Mapping[str, Mapping[str, float]]
    unjudged: tuple[str, ...]
    unheld: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def values(self, measure: str, over: Over = "all") -> Mapping[str, float]:
        """Each query's value, in the run's order.

        Raises:
            InvalidRequest: the measure was not evaluated.
        """
        name = parse_measure(measure).name
        if name not in self.measures:
            raise InvalidRequest(f"{name} was not measured: use one of {', '.join(self.measures)}.")
        return (self.all if over == "all" else self.held)[name]

    def mean(self, measure: str, over: Over = "all") -> float:
        """The mean over queries (macro); nan if no query has a value. Raises as ``values``."""
        values = self.values(measure, over).values()
        return fmean(values) if values else float("nan")

    def label(self, measure: str) -> str:
        """The measure's name for tables."""
        return parse_measure(measure).label(self.depth)


def default_measures(run: Run) -> tuple[str, ...]:
    """The default measures with a cutoff within the run's search limit; without R@All where the run is no deeper than
    the last recall with a cutoff, which it equals."""
    limit = _limit(run)
    parsed = map(parse_measure, PASSAGE_MEASURES if _ranks_passages(run) else DEFAULT_MEASURES)
    used = [m for m in parsed if limit is None or m.cutoff is None or m.cutoff <= limit]
    last = max((m.cutoff or 0 for m in used if m.family == "R"), default=0)
    return tuple(m.name for m in used if m.family != "SetR" or run.depth > last)


def evaluate(run: Run, measures: Sequence[str] = DEFAULT_MEASURES) -> Evaluation:
    """Measure a run over all answers, and over those that the library holds.

    A query without results counts 0. Passages are measured by the evidence that they hold
    (:mod:`scholarbase_research.evaluation.evidence`). An answer of grade 0 is not relevant; nDCG uses the grades as
    gains, as trec_eval does. Of a paper ranked twice only the first rank counts, and the papers after the second move
    up.

    Raises:
        InvalidRequest: a measure is unknown, none is given, or a cutoff is deeper than the search limit.
        EvaluationError: no query has a relevant answer, queries and rankings do not match, or ir_measures is missing.
    """
    if not measures or isinstance(measures, str):
        raise InvalidRequest(
            f"measures is {shown(measures)}: give a list of names, such as {list(EXAMPLES[:3])}."
        )
    parsed = tuple(dict.fromkeys(map(parse_measure, measures)))
    notes = _check_cutoffs(run, parsed)
    judged = check_judged(run)
    over_all = {query.id: _grades(query) for query in judged}
    over_held = {query.id: _grades(query, held=True) for query in judged if _relevant(query, "held")}
    scores = {query.id: _decreasing(run.rankings.get(query.id, ())) for query in judged}
    measure = _measure_passages if _ranks_passages(run) else _measure
    all_ = measure(parsed, over_all, scores)
    return Evaluation(
        run=run.name,
        depth=run.depth,
        measures=tuple(measure.name for measure in parsed),
        all=all_,
        held=all_ if over_held == over_all else measure(parsed, over_held, scores),
        unjudged=tuple(query.id for query in run.queries if query.id not in over_all),
        unheld=tuple(query.id for query in judged if query.id not in over_held),
        notes=(*notes, *_low_figure_notes(run, judged)),
    )


def _low_figure_notes(run: Run, judged: Sequence[JudgedQuery]) -> Iterator[str]:
    """Reasons for low figures other than the ranking."""
    empty = sum(not run.rankings.get(query.id) for query in judged)
    if empty:
        yield f"{run.name}: {empty:,} of {len(judged):,} queries have no results, and count 0."
    if (run.manifest.search or {}).get("pool"):
        outside = sum(
            answer.paper_id not in query.pool
            for query in judged
            if query.pool is not None
            for answer in query.relevant
        )
        if outside:
            are = "answer is" if outside == 1 else "answers are"
            yield f"{run.name}: {outside:,} {are} outside the query's candidate pool, which no search returns."


def check_judged(run: Run) -> list[JudgedQuery]:
    """The queries with a relevant answer, in order.

    Raises:
        EvaluationError: no query has a relevant answer, two queries share an id, or a ranking has no query.
    """
    ids = {query.id for query in run.queries}
    if len(ids) < len(run.queries):
        raise EvaluationError(f"Two queries of the run {run.name!r} have the same id: give each its own.")
    unknown = sorted(set(run.rankings) - ids)
    if unknown:
        raise EvaluationError(
            f"The run {run.name!r} ranks papers for {unknown[0]!r}, which is not one of its queries: "
            "make it again with the query set that it belongs to."
        )
    judged = [query for query in run.queries if query.relevant]
    if not judged:
        raise EvaluationError(
            f"No query of the run {run.name!r} has a relevant answer: give a query set with answers."
        )
    return judged


def _limit(run: Run) -> int | None:
    """The search limit of the run; None if unknown."""
    limit = (run.manifest.search or {}).get("limit")
    return limit if isinstance(limit, int) else None


def _paging_end(run: Run, limit: int) -> int:
    """The most results that a search with ``limit`` can return: a hybrid search ends at its fusion depth."""
    search = run.manifest.search or {}
    depth = (search.get("ranking") or {}).get("fusion_depth") if search.get("mode") == "hybrid" else None
    return min(limit, depth) if isinstance(depth, int) else limit


def _check_cutoffs(run: Run, measures: Iterable[Measure]) -> tuple[str, ...]:
    """Raise InvalidRequest for a cutoff above the search limit. Returns notes on cutoffs deeper than the rankings, if
    the limit is unknown or paging ended before it."""
    limit = _limit(run)
    notes = []
    for measure in measures:
        if measure.cutoff is None:
            continue
        if limit is not None and measure.cutoff > limit:
            raise InvalidRequest(
                f"{measure.name} needs the first {measure.cutoff:,} results, and the run {run.name!r} has a limit of "
                f"{limit:,}: run it again with --limit {measure.cutoff}, or use a lower cutoff."
            )
        if measure.cutoff > (run.depth if limit is None else _paging_end(run, limit)):
            notes.append(
                f"{measure.name} is computed from rankings of at most {run.depth:,} "
                f"{'passages' if _ranks_passages(run) else 'papers'}: the run {run.name!r} has no longer ones."
            )
    return tuple(notes)


def _relevant(query: JudgedQuery, over: Over) -> set[str]:
    return {answer.paper_id for answer in query.relevant if over == "all" or answer.held}


def _grades(query: JudgedQuery, *, held: bool = False) -> dict[str, int]:
    """The qrels of a query; of a paper listed twice the highest grade. In trec_eval grades below 0 mean unjudged."""
    grades: dict[str, int] = {}
    for answer in query.answers:
        if answer.held or not held:
            grades[answer.paper_id] = max(answer.grade, grades.get(answer.paper_id, answer.grade))
    return grades


def ranked_ids(ranking: Iterable[RankedId]) -> list[str]:
    """The ids in order, each once."""
    return list(dict.fromkeys(result.id for result in ranking))


def _decreasing(ranking: Iterable[RankedId]) -> dict[str, float]:
    """Scores that decrease by one: 32-bit floats distinguish whole numbers up to 16 million."""
    order = ranked_ids(ranking)
    return {paper_id: float(len(order) - rank) for rank, paper_id in enumerate(order)}


def _measure(
    measures: Sequence[Measure],
    qrels: Mapping[str, Mapping[str, int]],
    scores: Mapping[str, Mapping[str, float]],
) -> dict[str, dict[str, float]]:
    """Each query's value by each measure, in the order of ``qrels``."""
    if not qrels:
        return {measure.name: {} for measure in measures}
    theirs = [ir_measure(measure) for measure in measures]
    run = {query_id: scores[query_id] for query_id in qrels if scores[query_id]}
    values = {
        (str(m.measure), m.query_id): m.value
        for m in require("ir_measures", "evaluation", "The evaluation").iter_calc(theirs, qrels, run)
    }
    return {
        measure.name: {query_id: float(values[str(their), query_id]) for query_id in qrels}
        for measure, their in zip(measures, theirs, strict=True)
    }


def _measure_passages(
    measures: Sequence[Measure],
    qrels: Mapping[str, Mapping[str, int]],
    scores: Mapping[str, Mapping[str, float]],
) -> dict[str, dict[str, float]]:
    """Each query's value by each measure, from the evidence that its passages hold."""
    values: dict[str, dict[str, float]] = {measure.name: {} for measure in measures}
    for query_id, grades in qrels.items():
        parts = [name for name, grade in grades.items() if grade > 0]
        places = evidence.first_places(list(scores[query_id]), parts)
        for measure in measures:
            values[measure.name][query_id] = evidence.value(*measure, places, len(parts))
    return values


def _ranks_passages(run: Run) -> bool:
    return run.manifest.kind == "passages"


def ir_measure(measure: Measure) -> Any:
    """ir_measures' object of a measure. Raises EvaluationError: ir_measures is not installed."""
    # ir_measures.parse_measure uses parts of ``ast`` that Python 3.14 removed.
    family = getattr(require("ir_measures", "evaluation", "The evaluation"), measure.family)
    return family if measure.cutoff is None else family @ measure.cutoff


# -- recall by depth ------------------------------------------------------------------------------------


def recall_curve(run: Run, over: Over = "all") -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """All depths from 1 to the run's depth, and the mean recall (R@k) at each.

    Raises:
        EvaluationError: no query has a relevant answer, or over held the library holds none.
    """
    judged = [(query, _relevant(query, over)) for query in check_judged(run)]
    counted = [(query, relevant) for query, relevant in judged if relevant]
    if not counted:
        raise EvaluationError(
            f"The library holds no relevant answer of any query of the run {run.name!r}: measure over all answers."
        )
    gained = np.zeros(run.depth)
    for query, relevant in counted:
        for position, paper_id in enumerate(ranked_ids(run.rankings.get(query.id, ()))):
            if paper_id in relevant:
                gained[position] += 1 / len(relevant)
    return np.arange(1, run.depth + 1), np.cumsum(gained) / len(counted)
