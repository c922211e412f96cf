"""Sheets that annotators filled in, joined item by item."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from scholarbase.errors import InvalidRequest, QueryFileError
from scholarbase.models.checks import check_path, shown
from scholarbase_research.construction.audit.sampling import COLUMNS
from scholarbase_research.construction.audit.scales import Scale
from scholarbase_research.evaluation.formats import streams

MAX_ITEMS: Final = 1_000_000
MAX_ANNOTATORS: Final = 20
_ANNOTATOR: Final = re.compile(r"annotator_([1-9][0-9]?)", re.ASCII)
_REQUIRED: Final = ("item", "question", "paper", "score")


@dataclass(slots=True)
class Item:
    """A judged paper with the labels of its annotators, by the name of their column."""

    name: str
    question: str
    paper: str
    title: str
    score: float
    labels: dict[str, float] = field(default_factory=dict)
    biases: dict[str, None] = field(default_factory=dict)

    @property
    def majority(self) -> float | None:
        """The label of most annotators; None without labels, or if two labels have the most."""
        counts = Counter(self.labels.values()).most_common(2)
        if not counts or (len(counts) > 1 and counts[0][1] == counts[1][1]):
            return None
        return counts[0][0]

    @property
    def is_tie(self) -> bool:
        return bool(self.labels) and self.majority is None


def read_sheets(paths: Sequence[Path], scale: Scale) -> list[Item]:
    """Read sheets and join the rows of one item, question and paper: annotators may have a sheet each.

    Raises:
        InvalidRequest: no sheets.
        QueryFileError: a sheet cannot be read, a column is missing or unknown, a label is not on the scale, or two
            sheets differ in a score or in the label of one annotator.
    """
    if not paths:
        raise InvalidRequest("No sheets: give at least one.")
    items: dict[tuple[str, str, str], Item] = {}
    for path in paths:
        _read(check_path(path, "sheet"), scale, items)
    if not items:
        raise QueryFileError(f"{paths[0]} has no items: a sheet has one row for each.")
    return list(items.values())


def _read(path: Path, scale: Scale, items: dict[tuple[str, str, str], Item]) -> None:
    if not path.is_file():
        raise QueryFileError(f'No sheet at {path}: write one with "scholarbase construct audit sample".')
    if streams.shape_of(streams.start_of(path)) != "table":
        raise QueryFileError(f"{path} is not a CSV sheet: its columns are {', '.join(COLUMNS)}.")
    rows = streams.table_rows(path)
    _, header = next(rows)
    _check_header(path, header)
    places: dict[tuple[str, str, str], str] = {}
    for where, cells in rows:
        if len(cells) != len(header):
            raise QueryFileError(f"{path}, {where} has {len(cells)} cells, and the header {len(header)}.")
        row = dict(zip(header, map(str.strip, cells), strict=True))
        key = (row["item"], row["question"], row["paper"])
        if key in places:
            raise QueryFileError(
                f"{path}, {where} has the item {key[0]!r} of {places[key]} again: remove one."
            )
        places[key] = where
        try:
            _add(items, key, row, scale)
        except InvalidRequest as error:
            raise QueryFileError(f"{path}, {where}: {error}") from error
        if len(items) > MAX_ITEMS:
            raise QueryFileError(f"The sheets have more than {MAX_ITEMS:,} items: give fewer.")


def _check_header(path: Path, header: Sequence[str]) -> None:
    annotators = [name for name in header if _ANNOTATOR.fullmatch(name)]
    missing = [name for name in _REQUIRED if name not in header]
    unknown = [name for name in header if name not in COLUMNS and name not in annotators]
    if missing or unknown or len(set(header)) < len(header):
        problem = (
            f"lacks the column {missing[0]}"
            if missing
            else f"has the unknown column {unknown[0]!r}"
            if unknown
            else "has a column twice"
        )
        raise QueryFileError(f"{path} {problem}: its columns are {', '.join(COLUMNS)}.")
    if not 1 <= len(annotators) <= MAX_ANNOTATORS:
        raise QueryFileError(f"{path} has {len(annotators)} annotators: give 1 to {MAX_ANNOTATORS}.")


def _add(
    items: dict[tuple[str, str, str], Item], key: tuple[str, str, str], row: Mapping[str, str], scale: Scale
) -> None:
    score = scale.label(row["score"])
    item = items.setdefault(key, Item(*key, row.get("title", ""), score))
    if item.score != score:
        raise InvalidRequest(f"the score of item {key[0]} is {score:g}, and {item.score:g} in another sheet.")
    for name, text in row.items():
        if not _ANNOTATOR.fullmatch(name) or not text:
            continue
        label = scale.label(text)
        if item.labels.setdefault(name, label) != label:
            raise InvalidRequest(
                f"{name} has {label:g} for item {key[0]}, and {item.labels[name]:g} in another sheet: keep one."
            )
    if bias := row.get("bias"):
        item.biases[bias] = None


def names_of(items: Sequence[Item]) -> list[str]:
    """The annotators with labels, in the order of their columns."""
    names = {name for item in items for name in item.labels}
    return sorted(names, key=lambda name: int(name.rpartition("_")[2]))


def shown_item(item: Item) -> str:
    """An item for a message: its number, paper and labels."""
    labels = ", ".join(f"{label:g}" for label in item.labels.values())
    return f"{item.name} ({shown(item.paper, 60)}: {labels})"
