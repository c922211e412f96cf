"""How good a run is, by ir_measures' names and through ir_measures: https://ir-measur.es.

A ranking is measured by its order. The providers behind ir_measures break ties between equal scores each in its
own way, so they are never shown any: they get scores that fall by one from each place to the next.
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
from scholarbase.evaluation.extras import require
from scholarbase.models.runs import JudgedQuery, RankedId, Run

Over = Literal["all", "held"]
"""Which answers count: all that the query file names, or those that the library holds."""

OVERS: Final[tuple[Over, ...]] = ("all", "held")
DEFAULT_MEASURES: Final = ("R@25", "R@100", "R@All", "nDCG@10", "RR@10", "P@10")
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
"""ir_measures' measures that are taken here, and whether each has a cutoff."""
_ALIASES: Final = {
    "Recall": "R",
    "Precision": "P",
    "NDCG": "nDCG",
    "MAP": "AP",
    "RPrec": "Rprec",
    "BPref": "Bpref",
    # IM-SciQA's names for the two.
    "Hit": "Success",
    "MRR": "RR",
}
_NAME: Final = re.compile(r"([A-Za-z]+)(?:@(All|[0-9]+))?")


class Measure(NamedTuple):
    """A measure: ir_measures' ``family``, and the rank down to which it looks, None for the whole ranking."""

    family: str
    cutoff: int | None

    @property
    def name(self) -> str:
        """ir_measures' own name; recall of the whole ranking is ``R@All``."""
        if self.family == "SetR":
            return "R@All"
        return self.family if self.cutoff is None else f"{self.family}@{self.cutoff}"

    def label(self, depth: int) -> str:
        """The name as a table shows it: that of R@All says how deep the rankings went."""
        return f"R@All (depth {depth:,})" if self.family == "SetR" else self.name


def parse_measure(name: str) -> Measure:
    """The measure of a name: ir_measures', or an alias (``Hit@5``, ``MRR@10``, ``MAP``).

    Raises:
        InvalidRequest: no such measure, or a cutoff where none can be, or none where one must.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise _unknown(name)
    family, given = match.groups()
    family = _ALIASES.get(family, family)
    if family not in _CUTOFFS:
        raise _unknown(name)
    if given == "All":
        if family != "R":
            raise InvalidRequest(f"Unknown measure {name!r}: only recall has @All. Give {family}@10.")
        return Measure("SetR", None)
    rule = _CUTOFFS[family]
    if given is None:
        if rule == "needed":
            raise InvalidRequest(
                f"The measure {name!r} has no cutoff: say down to which rank, such as {family}@10."
            )
        return Measure(family, None)
    if rule == "none":
        raise InvalidRequest(f"The measure {family} looks at the whole ranking: give it without @{given}.")
    if len(given) > 9 or not 1 <= int(given) <= MAX_CUTOFF:
        raise InvalidRequest(f"The cutoff of {name!r} is {given}: it must be from 1 to {MAX_CUTOFF:,}.")
    return Measure(family, int(given))


def _unknown(name: str) -> InvalidRequest:
    family, at, cutoff = name.partition("@")
    folded = {known.casefold(): known for known in (*_CUTOFFS, *_ALIASES)}
    near = difflib.get_close_matches(family.strip().casefold(), folded, n=1, cutoff=0.5)
    meant = ""
    if near:
        known = _ALIASES.get(folded[near[0]], folded[near[0]])
        cutoff = cutoff.strip() if cutoff.strip().isdecimal() else "10"
        takes = _CUTOFFS[known] == "needed" or (at and _CUTOFFS[known] == "possible")
        meant = f" Did you mean {known}@{cutoff}?" if takes else f" Did you mean {known}?"
    return InvalidRequest(f"Unknown measure {name!r}: there are {', '.join(EXAMPLES)} and the like.{meant}")


@dataclass(frozen=True)
class Evaluation:
    """What a run is worth: for each measure the value of each query, by the query's id.

    ``all`` counts all answers, ``held`` those that the library holds. A query has no value, and is no part of a
    mean, where it has no relevant answer (``unjudged``), and over held also where the library holds none of them
    (``unheld``). ``depth`` is the depth of R@All. ``notes`` are sentences to show beside the figures.
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
            raise InvalidRequest(f"{name} was not measured: there are {', '.join(self.measures)}.")
        check_over(over)
        return (self.all if over == "all" else self.held)[name]

    def mean(self, measure: str, over: Over = "all") -> float:
        """The mean over queries (macro); nan where no query has a value. Raises as ``values``."""
        values = self.values(measure, over).values()
        return fmean(values) if values else float("nan")

    def label(self, measure: str) -> str:
        """The measure's name as a table shows it."""
        return parse_measure(measure).label(self.depth)


def check_over(over: str) -> None:
    """Raises InvalidRequest: ``over`` is neither ``all`` nor ``held``."""
    if over not in OVERS:
        raise InvalidRequest(f"over is {over!r}: it is one of {', '.join(OVERS)}.")


def default_measures(run: Run) -> tuple[str, ...]:
    """Those of the default measures for which the run was searched deep enough."""
    limit = _limit(run)
    parsed = map(parse_measure, DEFAULT_MEASURES)
    return tuple(m.name for m in parsed if limit is None or m.cutoff is None or m.cutoff <= limit)


def evaluate(run: Run, measures: Sequence[str] = DEFAULT_MEASURES) -> Evaluation:
    """Measure a run over all answers, and over those that the library holds.

    A query without results counts 0. An answer of grade 0 is not relevant; nDCG takes the grades as gains, as
    trec_eval does. A paper that a ranking holds twice counts at its first place, and those after its second move up.

    Raises:
        InvalidRequest: no measure, an unknown one, or a cutoff deeper than the run was searched.
        EvaluationError: no query has a relevant answer, the run's parts do not fit, or ir_measures is missing.
    """
    if isinstance(measures, str) or not measures:
        raise InvalidRequest(f"measures is {measures!r}: give a list of names, such as {list(EXAMPLES[:3])}.")
    parsed = tuple(dict.fromkeys(map(parse_measure, measures)))
    notes = _check_cutoffs(run, parsed)
    judged = check_judged(run)
    over_all = {query.id: _grades(query) for query in judged}
    over_held = {query.id: _grades(query, held=True) for query in judged if _relevant(query, "held")}
    scores = {query.id: _falling(run.rankings.get(query.id, ())) for query in judged}
    all_ = _measure(parsed, over_all, scores)
    return Evaluation(
        run=run.name,
        depth=run.depth,
        measures=tuple(measure.name for measure in parsed),
        all=all_,
        held=all_ if over_held == over_all else _measure(parsed, over_held, scores),
        unjudged=tuple(query.id for query in run.queries if query.id not in over_all),
        unheld=tuple(query.id for query in judged if query.id not in over_held),
        notes=(*notes, *_zeros(run, judged)),
    )


def _zeros(run: Run, judged: Sequence[JudgedQuery]) -> Iterator[str]:
    """What makes a figure low for another reason than the ranking."""
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
            lie = "answer lies" if outside == 1 else "answers lie"
            yield f"{run.name}: {outside:,} {lie} outside the query's candidate pool, where no search looks."


def check_judged(run: Run) -> list[JudgedQuery]:
    """The queries that have a relevant answer, in order.

    Raises:
        EvaluationError: there are none, two queries share an id, or there is a ranking of no query.
    """
    ids = {query.id for query in run.queries}
    if len(ids) < len(run.queries):
        raise EvaluationError(f"Two queries of the run {run.name!r} have the same id: give each its own.")
    strange = sorted(set(run.rankings) - ids)
    if strange:
        raise EvaluationError(
            f"The run {run.name!r} ranks papers for {strange[0]!r}, which is none of its queries: "
            "make it again with the query set that it belongs to."
        )
    judged = [query for query in run.queries if query.relevant]
    if not judged:
        raise EvaluationError(
            f"No query of the run {run.name!r} has a relevant answer, so that nothing can be measured: "
            "give a query set with answers."
        )
    return judged


def _limit(run: Run) -> int | None:
    """How many results every search of the run was asked for; None where that is not known."""
    limit = (run.manifest.search or {}).get("limit")
    return limit if isinstance(limit, int) else None


def _paging_end(run: Run, limit: int) -> int:
    """Where a search that was asked for ``limit`` results ended at the latest: a hybrid one at its fusion depth."""
    search = run.manifest.search or {}
    depth = (search.get("ranking") or {}).get("fusion_depth") if search.get("mode") == "hybrid" else None
    return min(limit, depth) if isinstance(depth, int) else limit


def _check_cutoffs(run: Run, measures: Iterable[Measure]) -> tuple[str, ...]:
    """Refuse cutoffs deeper than the searches were asked to go; where that is not known, or paging ended before, say
    of those deeper than any ranking."""
    limit = _limit(run)
    notes = []
    for measure in measures:
        if measure.cutoff is None:
            continue
        if limit is not None and measure.cutoff > limit:
            raise InvalidRequest(
                f"{measure.name} needs the first {measure.cutoff:,} results, and the run {run.name!r} was searched "
                f"to a limit of {limit:,}: run it again with --limit {measure.cutoff}, or give a lower cutoff."
            )
        if measure.cutoff > (run.depth if limit is None else _paging_end(run, limit)):
            notes.append(
                f"{measure.name} is read from rankings of at most {run.depth:,} papers: the run {run.name!r} has no "
                "longer ones."
            )
    return tuple(notes)


def _relevant(query: JudgedQuery, over: Over) -> set[str]:
    return {answer.paper_id for answer in query.relevant if over == "all" or answer.held}


def _grades(query: JudgedQuery, *, held: bool = False) -> dict[str, int]:
    """The qrels of a query: of a paper that stands there twice, the highest grade. Grades below 0 are trec_eval's
    for papers that nobody judged, and mean that there too."""
    grades: dict[str, int] = {}
    for answer in query.answers:
        if answer.held or not held:
            grades[answer.paper_id] = max(answer.grade, grades.get(answer.paper_id, answer.grade))
    return grades


def ranked_ids(ranking: Iterable[RankedId]) -> list[str]:
    """The ids in order, each once."""
    return list(dict.fromkeys(result.id for result in ranking))


def _falling(ranking: Iterable[RankedId]) -> dict[str, float]:
    """Whole numbers, falling by one: a 32-bit float holds them apart up to 16 million places."""
    order = ranked_ids(ranking)
    return {paper_id: float(len(order) - place) for place, paper_id in enumerate(order)}


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
    found = {
        (str(m.measure), m.query_id): m.value for m in require("ir_measures").iter_calc(theirs, qrels, run)
    }
    return {
        measure.name: {query_id: float(found[str(their), query_id]) for query_id in qrels}
        for measure, their in zip(measures, theirs, strict=True)
    }


def ir_measure(measure: Measure) -> Any:
    """ir_measures' own object for a measure. Raises EvaluationError: ir_measures is not installed."""
    # Not through ir_measures.parse_measure: it reads names with parts of ``ast`` that Python 3.14 no longer has.
    family = getattr(require("ir_measures"), measure.family)
    return family if measure.cutoff is None else family @ measure.cutoff


# -- recall by depth ------------------------------------------------------------------------------------


def recall_curve(run: Run, over: Over = "all") -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The depths from 1 to that of the run, and the mean recall at each: what R@k is for every k.

    Raises:
        EvaluationError: no query has a relevant answer; over held, the library holds none of any.
    """
    judged = [query for query in check_judged(run) if _counted(query, over)]
    if not judged:
        raise EvaluationError(
            f"The library holds no relevant answer of any query of the run {run.name!r}: "
            "there is no recall over those held."
        )
    gained = np.zeros(run.depth)
    for query in judged:
        relevant = _relevant(query, over)
        for place in _hits(run, query, relevant):
            gained[place] += 1 / len(relevant)
    return np.arange(1, run.depth + 1), np.cumsum(gained) / len(judged)


def recall_by_query(run: Run, over: Over = "all", depth: int | None = None) -> dict[str, float]:
    """The recall of each query that has a relevant answer (over held: that the library holds), down to ``depth``,
    None for the whole ranking. Raises EvaluationError: no query has a relevant answer."""
    recall = {}
    for query in check_judged(run):
        if _counted(query, over):
            relevant = _relevant(query, over)
            hits = sum(depth is None or place < depth for place in _hits(run, query, relevant))
            recall[query.id] = hits / len(relevant)
    return recall


def _counted(query: JudgedQuery, over: Over) -> bool:
    check_over(over)
    return bool(_relevant(query, over))


def _hits(run: Run, query: JudgedQuery, relevant: set[str]) -> list[int]:
    """The places, from 0, at which the query's ranking has one of these."""
    order = ranked_ids(run.rankings.get(query.id, ()))
    return [place for place, paper_id in enumerate(order) if paper_id in relevant]


# -- ties -----------------------------------------------------------------------------------------------


def rank_ties(scored: Iterable[RankedId]) -> list[RankedId]:
    """Results in the order in which trec_eval ranks them, whatever order their file has: by falling score, read as
    a 32-bit float, and where those are equal by falling id, byte by byte. The scores stay as they were given.

    https://github.com/usnistgov/trec_eval, ``form_res_rels.c``.

    Raises:
        InvalidRequest: a score is no number.
    """
    results = list(scored)
    with np.errstate(over="ignore"):  # beyond the greatest 32-bit float is infinity there too
        singles = np.array([result.score for result in results], dtype=np.float64).astype(np.float32)
    if np.isnan(singles).any():
        bad = results[int(np.flatnonzero(np.isnan(singles))[0])]
        raise InvalidRequest(f"The score of {bad.id!r} is {bad.score}: give each result a number.")
    keyed = zip(singles.tolist(), results, strict=True)
    ordered = sorted(keyed, key=lambda pair: (pair[0], pair[1].id.encode()), reverse=True)
    return [result for _, result in ordered]
