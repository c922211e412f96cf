"""Agreement of two scores, from tables of counts, and of several annotators.

A table has a row for each label of the first rater and a column for each of the second. All functions take an array
of shape (..., labels, labels) and return one of shape (...), so that bootstrap tables are computed at once. Where a
figure is undefined, such as a correlation with a constant, it is nan.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_TINY: Final = 1e-12


def _ratio(a: Any, b: Any) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.abs(b) > _TINY, np.divide(a, b), np.nan)


def hit_rate(tables: Floats) -> Floats:
    """The share of pairs with equal labels."""
    return _ratio(np.trace(tables, axis1=-2, axis2=-1), tables.sum((-2, -1)))


def _correlation(tables: Floats, x: Floats, y: Floats) -> Floats:
    """The correlation of the raters' values ``x`` and ``y``, of shape (..., labels), weighted by the counts."""
    n = tables.sum((-2, -1))
    rows, columns = tables.sum(-1), tables.sum(-2)
    x = x - _ratio((rows * x).sum(-1), n)[..., None]
    y = y - _ratio((columns * y).sum(-1), n)[..., None]
    covariance = np.einsum("...ij,...i,...j->...", tables, x, y)
    spread = np.sqrt((rows * x**2).sum(-1) * (columns * y**2).sum(-1))
    return _ratio(covariance, spread)


def pearson(tables: Floats, labels: Floats) -> Floats:
    """Pearson's correlation of the labels."""
    values = np.broadcast_to(labels, tables.shape[:-1])
    return _correlation(tables, values, values)


def spearman(tables: Floats) -> Floats:
    """Spearman's correlation: Pearson's of the ranks, equal labels with the mean of their ranks."""
    return _correlation(tables, _ranks(tables.sum(-1)), _ranks(tables.sum(-2)))


def _ranks(counts: Floats) -> Floats:
    ranks: Floats = np.cumsum(counts, axis=-1) - (counts - 1) / 2
    return ranks


def weighted_kappa(tables: Floats, labels: Floats, power: int) -> Floats:
    """Cohen's weighted kappa (Psychological Bulletin 70, 1968, 213-220): linear with ``power`` 1, quadratic with 2.

    Disagreement weighs by the distance of the labels.
    """
    weights = np.abs(labels[:, None] - labels[None, :]) ** power
    n = tables.sum((-2, -1))
    expected = tables.sum(-1)[..., :, None] * tables.sum(-2)[..., None, :]
    observed = (weights * tables).sum((-2, -1)) * n
    return 1 - _ratio(observed, (weights * expected).sum((-2, -1)))


def gwet_ac1(tables: Floats) -> Floats:
    """Gwet's AC1 of two raters (British Journal of Mathematical and Statistical Psychology 61, 2008, 29-48)."""
    n = tables.sum((-2, -1))[..., None]
    shares = _ratio((tables.sum(-1) + tables.sum(-2)) / 2, n)
    chance = (shares * (1 - shares)).sum(-1) / (tables.shape[-1] - 1)
    return _ratio(hit_rate(tables) - chance, 1 - chance)


def annotator_agreement(counts: Floats) -> Floats:
    """Percent agreement and Gwet's AC1 of several annotators, who may lack labels, as an array of shape (..., 2).

    Args:
        counts: how many annotators gave an item each label, of shape (..., items, labels). Items without a label are
            left out, those with one count for the shares of labels only.
    """
    raters = counts.sum(-1)
    rated, paired = raters >= 1, raters >= 2
    agreeing = _ratio((counts * (counts - 1)).sum(-1), raters * (raters - 1))
    observed = _ratio(np.where(paired, agreeing, 0).sum(-1), paired.sum(-1))
    shares = np.where(rated[..., None], _ratio(counts, raters[..., None]), 0).sum(-2)
    shares = _ratio(shares, rated.sum(-1)[..., None])
    chance = (shares * (1 - shares)).sum(-1) / (counts.shape[-1] - 1)
    return np.stack([observed, _ratio(observed - chance, 1 - chance)], axis=-1)
