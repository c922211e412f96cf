"""Means by two properties of the queries at once, such as the number of answers and the intent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final, NamedTuple

from scholarbase.errors import InvalidRequest
from scholarbase.evaluation.breakdown import DIMENSIONS, break_down, group_label, group_order
from scholarbase.evaluation.measures import Evaluation
from scholarbase.models.runs import Run

OVERALL: Final = ""
"""The row and column of all queries. No group has an empty label."""


class Crossed(NamedTuple):
    """The mean of the ``n`` queries of a run that have a value; None without queries."""

    mean: float | None
    n: int


@dataclass(frozen=True, slots=True)
class Crossing:
    """``cells`` has the runs' means for each row and column; the last row and column are ``OVERALL``."""

    measure: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: Mapping[tuple[str, str], tuple[Crossed, ...]]


def parse_pair(text: str) -> tuple[str, str] | None:
    """``answers,intent`` as rows and columns; None for one dimension alone.

    Raises:
        InvalidRequest: not two different dimensions.
    """
    if "," not in text:
        return None
    parts = tuple(part.strip() for part in text.split(","))
    if len(parts) != 2 or len(set(parts)) != 2 or any(part not in DIMENSIONS for part in parts):
        raise InvalidRequest(
            f"{text!r} does not name two different dimensions of {', '.join(DIMENSIONS)}: give such as answers,intent."
        )
    return parts


def cross(
    runs: Sequence[Run], evaluations: Sequence[Evaluation], rows: str, columns: str, measure: str
) -> Crossing:
    """The runs' means of ``measure`` over all answers, by the labels of two dimensions.

    Every query is in one row and one column; a row's ``OVERALL`` is over its queries, whatever their column.

    Raises:
        InvalidRequest: a dimension is unknown, or an evaluation is of other queries than its run.
    """
    values: list[dict[tuple[str, str], list[float]]] = []
    for run, evaluation in zip(runs, evaluations, strict=True):
        break_down(run, evaluation, rows)  # checks that they belong together
        by_query = evaluation.values(measure, "all")
        cells: dict[tuple[str, str], list[float]] = {}
        for query in run.queries:
            row, column = (group_label(query, by, run.papers) for by in (rows, columns))
            for key in ((row, column), (row, OVERALL), (OVERALL, column), (OVERALL, OVERALL)):
                cells.setdefault(key, []).extend([by_query[query.id]] if query.id in by_query else [])
        values.append(cells)
    labels = (_labels(values, rows, 0), _labels(values, columns, 1))
    return Crossing(
        measure,
        *labels,
        {
            (row, column): tuple(_crossed(cells.get((row, column), [])) for cells in values)
            for row in labels[0]
            for column in labels[1]
        },
    )


def _labels(values: Sequence[Mapping[tuple[str, str], object]], by: str, place: int) -> tuple[str, ...]:
    found = dict.fromkeys(key[place] for cells in values for key in cells)
    found.pop(OVERALL, None)
    return (*group_order(by, found), OVERALL)


def _crossed(values: Sequence[float]) -> Crossed:
    return Crossed(fmean(values) if values else None, len(values))
