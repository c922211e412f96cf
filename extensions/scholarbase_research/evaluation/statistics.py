"""Confidence intervals and paired significance tests over queries, through scipy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scholarbase.errors import InvalidRequest
from scholarbase.extras import require

RESAMPLES: Final = 10_000
BATCH: Final = 500
"""Resamples in memory at a time: 500 of 1,000 queries are 4 MB."""
LEVEL: Final = 0.95


class Interval(NamedTuple):
    """The mean of ``n`` values and the ends of its confidence interval; all nan without values."""

    mean: float
    low: float
    high: float
    n: int


class PairedTest(NamedTuple):
    """The mean ``difference`` of ``n`` pairs (b - a), the ends of its confidence interval, and the p-value of
    ``test``: ``exact`` if all sign flips were counted, ``random`` if they were sampled."""

    difference: float
    low: float
    high: float
    p: float
    test: Literal["exact", "random"]
    n: int


def bootstrap_interval(
    values: Sequence[float] | NDArray[np.float64],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """The mean and its bootstrap confidence interval by the percentile method.

    The queries are resampled with replacement ``resamples`` times; the interval has the middle :data:`LEVEL` of the
    means. Percentile rather than BCa: it is defined for every sample, including small groups of nearly equal values,
    and stays within the range of the measure. Efron and Tibshirani 1993, An Introduction to the Bootstrap, chapter 13.
    For equal values, or only one, both ends are the mean.

    Raises:
        InvalidRequest: a value is not a finite number.
    """
    sample = _sample(values, "values")
    if sample.size == 0:
        return Interval(np.nan, np.nan, np.nan, 0)
    mean = float(sample.mean())
    if np.ptp(sample) == 0:
        mean = float(sample[0])
        return Interval(mean, mean, mean, sample.size)
    result = require("scipy.stats", "evaluation", "The evaluation").bootstrap(
        (sample,),
        np.mean,
        n_resamples=resamples,
        batch=BATCH,
        confidence_level=LEVEL,
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    low, high = result.confidence_interval
    return Interval(mean, float(low), float(high), sample.size)


def paired_test(
    a: Sequence[float] | NDArray[np.float64],
    b: Sequence[float] | NDArray[np.float64],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> PairedTest:
    """Fisher's two-sided randomisation test of the mean difference b - a, with its bootstrap interval.

    Under the null hypothesis each query's difference could have either sign: p is the share of the 2^n sign assignments
    whose mean is at least as far from 0. All are counted if there are at most ``resamples``; otherwise that many are
    sampled, and p is (1 + those as far) / (1 + resamples). Recommended by Smucker, Allan and Carterette: A Comparison
    of Statistical Significance Tests for Information Retrieval Evaluation, CIKM 2007,
    https://doi.org/10.1145/1321440.1321528. Without pairs p is nan.

    Raises:
        InvalidRequest: the lengths differ, a value is not a finite number, or an argument is invalid.
    """
    first, second = _sample(a, "a"), _sample(b, "b")
    if first.size != second.size:
        raise InvalidRequest(
            f"a has {first.size} values and b has {second.size}: give the values of the same queries."
        )
    differences = second - first
    difference, low, high, n = bootstrap_interval(differences, seed=seed)
    # An unchanged query is the same under both signs.
    changed = differences[differences != 0]
    test: Literal["exact", "random"] = "exact" if 2 ** int(changed.size) <= resamples else "random"
    if n == 0:
        p = np.nan
    elif changed.size < 2:
        p = 1.0  # every sign assignment is as far from 0
    else:
        p = float(
            require("scipy.stats", "evaluation", "The evaluation")
            .permutation_test(
                (changed,),
                lambda flipped, axis: np.abs(np.mean(flipped, axis=axis)),
                permutation_type="samples",
                alternative="greater",
                vectorized=True,
                n_resamples=resamples,
                batch=BATCH,
                rng=np.random.default_rng(seed),
            )
            .pvalue
        )
    return PairedTest(difference, low, high, p, test, n)


def _sample(values: Sequence[float] | NDArray[np.float64], name: str) -> NDArray[np.float64]:
    sample = np.asarray(values, dtype=np.float64)
    if not np.isfinite(sample).all():
        raise InvalidRequest(
            f"{name} holds {sample[~np.isfinite(sample)][0]}: a value must be a finite number."
        )
    return sample
