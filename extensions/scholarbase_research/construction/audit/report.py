"""The figures of an audit: how the judges' scores agree with the labels of annotators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from scholarbase.errors import InvalidRequest
from scholarbase.models.checks import check_whole
from scholarbase_research.construction.audit.agreement import (
    Floats,
    annotator_agreement,
    gwet_ac1,
    hit_rate,
    pearson,
    spearman,
    weighted_kappa,
)
from scholarbase_research.construction.audit.scales import Scale
from scholarbase_research.construction.audit.sheets import Item, names_of

RESAMPLES: Final = 10_000
MAX_RESAMPLES: Final = 100_000
LEVEL: Final = 0.95
BATCH: Final = 2_000_000
"""Numbers of resampled items in memory at once."""


class Figure(NamedTuple):
    """A value with its bootstrap interval. None: undefined, or undefined in a resample."""

    value: float | None
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True, slots=True)
class Audit:
    """``table`` counts items by score (row) and majority label (column).

    ``figures`` are of all of them, ``hit_rates`` of each score, ``annotators`` of the annotators among themselves.
    ``ties`` and ``unlabelled`` items have no majority label and are in none of these but the last. ``biases`` counts
    the notes in the column of that name.
    """

    scale: Scale
    items: int
    names: tuple[str, ...]
    table: tuple[tuple[int, ...], ...]
    figures: Mapping[str, Figure]
    hit_rates: Mapping[float, Figure]
    annotators: Mapping[str, Figure]
    ties: tuple[Item, ...]
    unlabelled: tuple[Item, ...]
    biases: Mapping[str, int]


def audit(items: Sequence[Item], scale: Scale, *, seed: int = 0, resamples: int = RESAMPLES) -> Audit:
    """Compute the figures with 95% bootstrap intervals by the percentile method.

    Items are resampled within each score, since so many of each score were drawn.

    Raises:
        InvalidRequest: no item has a majority label, or an argument is out of range.
    """
    check_whole(seed, "seed", 0)
    check_whole(resamples, "resamples", 1, MAX_RESAMPLES)
    labels = np.asarray(scale.labels)
    index_of = {label: i for i, label in enumerate(scale.labels)}
    table = np.zeros((len(labels), len(labels)))
    for item in items:
        if (majority := item.majority) is not None:
            table[index_of[item.score], index_of[majority]] += 1
    if not table.sum():
        raise InvalidRequest("No item has a majority label: fill in the annotators' columns of the sheets.")
    random = np.random.default_rng(seed)
    tables = _resampled(table, resamples, random)
    top = table[-1].sum()

    def figure(compute: Callable[[Floats], Floats], n: float) -> Figure:
        return _figure(compute(table), compute(tables), int(n))

    figures = {name: figure(compute, table.sum()) for name, compute in _measures(labels).items()}
    figures["strict_precision"] = figure(lambda t: _share(t[..., -1, -1:], t[..., -1, :]), top)
    figures["relaxed_precision"] = figure(lambda t: _share(t[..., -1, 1:], t[..., -1, :]), top)
    hit_rates = {
        label: figure(lambda t, i=i: _share(t[..., i, i : i + 1], t[..., i, :]), table[i].sum())  # type: ignore[misc]
        for i, label in enumerate(scale.labels)
        if table[i].sum()
    }
    return Audit(
        scale,
        len(items),
        tuple(names_of(items)),
        tuple(tuple(int(n) for n in row) for row in table),
        figures,
        hit_rates,
        _among_annotators(items, index_of, resamples, random),
        tuple(item for item in items if item.is_tie),
        tuple(item for item in items if not item.labels),
        dict(Counter(bias for item in items for bias in item.biases).most_common()),
    )


def _measures(labels: Floats) -> dict[str, Callable[[Floats], Floats]]:
    return {
        "hit_rate": hit_rate,
        "pearson": lambda t: pearson(t, labels),
        "spearman": spearman,
        "kappa_linear": lambda t: weighted_kappa(t, labels, 1),
        "kappa_quadratic": lambda t: weighted_kappa(t, labels, 2),
        "gwet_ac1": gwet_ac1,
    }


def _share(part: Floats, whole: Floats) -> Floats:
    total = whole.sum(-1)
    return np.where(total > 0, part.sum(-1) / np.maximum(total, 1), np.nan)


def _resampled(table: Floats, resamples: int, random: np.random.Generator) -> Floats:
    """Tables of items drawn with replacement within each row."""
    rows = []
    for row in table:
        total = int(row.sum())
        shares = row / total if total else np.full(len(row), 1 / len(row))
        rows.append(random.multinomial(total, shares, size=resamples))
    return np.stack(rows, axis=1).astype(np.float64)


def _figure(value: Floats, resampled: Floats, n: int) -> Figure:
    estimate = None if np.isnan(value) else float(value)
    if estimate is None or np.isnan(resampled).any():
        return Figure(estimate, None, None, n)
    low, high = np.percentile(resampled, [50 * (1 - LEVEL), 100 - 50 * (1 - LEVEL)])
    return Figure(estimate, float(low), float(high), n)


def _among_annotators(
    items: Sequence[Item], index_of: Mapping[float, int], resamples: int, random: np.random.Generator
) -> dict[str, Figure]:
    """Agreement of the annotators over the items that two or more labelled; empty without such items."""
    labelled = [item for item in items if item.labels]
    counts = np.zeros((len(labelled), len(index_of)))
    for row, item in zip(counts, labelled, strict=True):
        for label in item.labels.values():
            row[index_of[label]] += 1
    n = int((counts.sum(-1) >= 2).sum())
    if not n:
        return {}
    values = annotator_agreement(counts)
    size = max(1, BATCH // counts.size)
    drawn = []
    for start in range(0, resamples, size):
        chosen = random.integers(0, len(labelled), (min(size, resamples - start), len(labelled)))
        drawn.append(annotator_agreement(counts[chosen]))
    resampled = np.concatenate(drawn)
    return {name: _figure(values[i], resampled[:, i], n) for i, name in enumerate(("agreement", "gwet_ac1"))}
