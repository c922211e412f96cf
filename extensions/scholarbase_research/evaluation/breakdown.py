"""A run's queries by group: intent, category, year, number and categories of answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, get_args

from scholarbase.errors import InvalidRequest
from scholarbase_research.evaluation.run_data import JudgedQuery, PaperNote, Run

Dimension = Literal["intent", "category", "year", "answers", "answer-category"]

DIMENSIONS: Final[tuple[Dimension, ...]] = get_args(Dimension)
_BY_SIZE: Final = ("intent", "category", "answer-category")
"""Dimensions whose largest group is shown first."""
NONE: Final = "(none)"
"""The label of queries without a value of the dimension."""
BUCKETS: Final = ((1, 4), (5, 25), (26, 50), (51, 100), (101, 150), (151, 200), (201, None))
"""Classes of the number of answers, first and last: ScholarQuest's five, one below and one above."""


def groups(run: Run, by: str) -> dict[str, list[JudgedQuery]]:
    """The run's queries by label, in display order. Every query is in exactly one group; ``(none)`` is the last.

    ``by`` is ``intent`` or ``category`` (largest group first), ``year`` of the query's date, or ``answers``, the
    number of relevant answers, held or not; or ``answer-category``, the most frequent primary category of the relevant
    answers that the library holds, the first one in the alphabet of several (ScholarQuest's figure 2).

    Raises:
        InvalidRequest: the dimension is unknown.
    """
    members: dict[str, list[JudgedQuery]] = {}
    for query in run.queries:
        members.setdefault(group_label(query, by, run.papers), []).append(query)
    largest = sorted(members, key=lambda label: (-len(members[label]), label))
    return {label: members[label] for label in group_order(by, largest)}


def dimensions(run: Run) -> list[Dimension]:
    """The dimensions with two groups or more."""
    return [by for by in DIMENSIONS if len(groups(run, by)) > 1]


def group_label(query: JudgedQuery, by: str, papers: Mapping[str, PaperNote]) -> str:
    """The label of the query's group; ``papers`` are those of its run. Raises InvalidRequest: unknown dimension."""
    if by not in DIMENSIONS:
        raise InvalidRequest(f"Unknown dimension {by!r}: it is one of {', '.join(DIMENSIONS)}.")
    return _LABELS[by](query, papers) or NONE


def group_order(by: str, labels: Iterable[str]) -> list[str]:
    """Labels in display order: years and numbers of answers ascending, others unchanged, ``(none)`` last."""

    def position(label: str) -> tuple[bool, int, str]:
        if by in _BY_SIZE or label == NONE:
            return label == NONE, 0, ""
        return False, int(label.rstrip("+").partition("-")[0]), label

    return sorted(labels, key=position)


def parse_pair(text: str) -> tuple[str, str] | None:
    """``answers,intent`` as rows and columns; None for one dimension alone.

    Raises:
        InvalidRequest: not two different dimensions.
    """
    rows, comma, columns = (part.strip() for part in text.partition(","))
    if not comma:
        return None
    if rows == columns or not {rows, columns} <= {*DIMENSIONS}:
        raise InvalidRequest(
            f"{text!r} does not name two different dimensions of {', '.join(DIMENSIONS)}: give such as answers,intent."
        )
    return rows, columns


def _bucket(query: JudgedQuery) -> str | None:
    count = len({answer.paper_id for answer in query.relevant})
    for first, last in BUCKETS:
        if count >= first and (last is None or count <= last):
            return f"{first}+" if last is None else f"{first}-{last}"
    return None


def _answer_category(query: JudgedQuery, papers: Mapping[str, PaperNote]) -> str | None:
    notes = (papers.get(answer.paper_id) for answer in query.relevant)
    counts = Counter(note.category for note in notes if note is not None and note.category is not None)
    return min(counts, key=lambda name: (-counts[name], name), default=None)


_LABELS: Final[dict[str, Callable[[JudgedQuery, Mapping[str, PaperNote]], str | None]]] = {
    "intent": lambda query, _: query.intent,
    "category": lambda query, _: query.category,
    "year": lambda query, _: query.date[:4] if query.date else None,
    "answers": lambda query, _: _bucket(query),
    "answer-category": _answer_category,
}
