"""Several runs of one system, such as an agent with a sampling model: their mean figures and the spread among runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any, Final, NamedTuple

from scholarbase.errors import InvalidRequest
from scholarbase.evaluation.comparison import check_comparable
from scholarbase.evaluation.efficiency import efficiency
from scholarbase.evaluation.measures import Evaluation
from scholarbase.models.checks import shown
from scholarbase.models.runs import Run

CALLS: Final = {
    "rounds": "rounds",
    "search_calls": "search calls",
    "expand_calls": "expansion calls",
    "candidates": "candidates",
    "tokens": "tokens",
    "seconds": "seconds",
}
"""The figures of an agent's calls that are averaged, and their names."""


class Spread(NamedTuple):
    """The mean of one figure over runs, the sample standard deviation (n - 1), the lowest and the highest."""

    mean: float
    deviation: float
    low: float
    high: float


class Average(NamedTuple):
    """A system's runs by name. ``figures`` has the spread of each figure's mean over queries, over all answers."""

    name: str
    runs: tuple[str, ...]
    figures: Mapping[str, Spread]

    def to_dict(self) -> dict[str, Any]:
        """The average for JSON."""
        spreads = {figure: spread._asdict() for figure, spread in self.figures.items()}
        return {"name": self.name, "runs": list(self.runs), "figures": spreads}


def chosen(specs: Sequence[str], runs: Sequence[Run]) -> dict[str, tuple[Run, ...]]:
    """The runs of each ``NAME=RUN,RUN,...``, where RUN is a run's name.

    Raises:
        InvalidRequest: a text has another form, names a run that was not given, or too few runs.
    """
    found: dict[str, tuple[Run, ...]] = {}
    for spec in specs:
        name, equals, rest = spec.partition("=")
        name, members = name.strip(), [part.strip() for part in rest.split(",") if part.strip()]
        if not equals or not name or len(members) < 2:
            raise InvalidRequest(
                f"{shown(spec)} is not NAME=RUN,RUN: name two or more runs, such as react=react-1,react-2."
            )
        if name in found:
            raise InvalidRequest(f"The average {name!r} is given twice: give each its own name.")
        if len(set(members)) < len(members):
            raise InvalidRequest(f"{shown(spec)} names a run twice: name each run once.")
        chosen_runs = []
        for member in members:
            matches = [run for run in runs if run.name == member]
            if len(matches) != 1:
                known = ", ".join(dict.fromkeys(run.name for run in runs))
                what = "Several runs have" if matches else "No run has"
                raise InvalidRequest(f"{what} the name {member!r} in {shown(spec)}: the runs are {known}.")
            chosen_runs.append(matches[0])
        found[name] = tuple(chosen_runs)
    return found


def average(
    name: str, runs: Sequence[Run], evaluations: Sequence[Evaluation], *, across_snapshots: bool = False
) -> Average:
    """Average two or more runs of one query set.

    A measure is averaged if all runs have it; of agents the figures of :data:`CALLS` too, where all runs have them.

    Raises:
        InvalidRequest: fewer than two runs, or not an evaluation for each.
        RunMismatch: runs of other queries, or of other snapshots without ``across_snapshots``.
    """
    if len(runs) < 2 or len(runs) != len(evaluations):
        raise InvalidRequest(f"The average {name!r} needs two or more runs, each with its evaluation.")
    for run in runs[1:]:
        check_comparable(runs[0], run, across_snapshots=across_snapshots)
    values = {
        measure: [evaluation.mean(measure) for evaluation in evaluations]
        for measure in evaluations[0].measures
        if all(measure in evaluation.measures for evaluation in evaluations)
    }
    if all(run.manifest.kind == "trajectory" for run in runs):
        means = [efficiency(run).means for run in runs]
        for figure, shown_as in CALLS.items():
            known = (of_run[figure] for of_run in means)
            values[shown_as] = [value for value in known if value is not None]
    spreads = {
        figure: Spread(fmean(each), stdev(each), min(each), max(each))
        for figure, each in values.items()
        if len(each) == len(runs) and all(map(math.isfinite, each))
    }
    return Average(name, tuple(run.name for run in runs), spreads)
