"""How many relevant papers there are, from those that several samples have: formulas, without a library.

A sample is the relevant papers that a leg, a text or a call returned, or that were known before. Every estimate is of
the total number of relevant papers, seen and unseen, with an interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, floor, log, sqrt
from statistics import NormalDist
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

LEVEL: Final = 0.8
"""The probability with which an interval should contain the total."""
MOST: Final = 10_000
"""The largest total that a posterior distribution considers, or 50 times the papers seen."""
_SHIFT: Final = 8


class Estimate(NamedTuple):
    """A total, and the ends of its interval."""

    total: float
    low: float
    high: float


def chapman(first: int, second: int, both: int, level: float = LEVEL) -> Estimate:
    """The total, from two independent samples of these sizes with ``both`` papers in common.

    The estimate is Chapman's (1951) form of that of Lincoln and Petersen, nearly unbiased for small samples. The
    interval is one of Castledine's (1981) posterior, where the share that each sample has of all papers is uniform. It
    begins at the papers seen if one sample has all those of the other, and so perhaps all papers. The prior of a total
    N is N^-1/4: with a uniform one intervals are half as long again, and with 1 / sqrt(N) those of short lists contain
    the truth too often (``benchmarks/completeness.py``).
    """
    seen = first + second - both
    totals = _totals(seen)
    logs = _log_gamma(totals + 1) - _log_gamma(totals - seen + 1) - np.log(totals) / 4
    for size in (first, second):
        logs += _log_gamma(totals - size + 1) - _log_gamma(totals + 2)
    total = (first + 1) * (second + 1) / (both + 1) - 1
    low, high = _interval(totals, logs, level, 0.0 if both == min(first, second) else (1 - level) / 2)
    return Estimate(total, low, max(high, total))


def chao(frequencies: Sequence[int], samples: int | None = None, level: float = LEVEL) -> Estimate:
    """A lower bound of the total where papers differ in how easily they are returned.

    The unseen are f1^2 / (2 f2), or f1 (f1 - 1) / 2 if no paper is in exactly two samples. The variance and the
    interval, of the logarithm of the unseen, are those of Chao (1987).

    Args:
        frequencies: how many papers are in exactly 1, 2, 3 ... samples.
        samples: their number t, for the factor (t - 1) / t of Chao and Colwell (2017); None: many, without the factor.
    """
    seen = sum(frequencies)
    once, twice = (*frequencies, 0, 0)[:2]
    factor = 1.0 if samples is None else (samples - 1) / samples
    if twice:
        ratio = once / twice
        unseen = factor * once * ratio / 2
        variance = twice * (factor * ratio**2 / 2 + factor**2 * (ratio**3 + ratio**4 / 4))
    else:
        unseen = factor * once * (once - 1) / 2
        variance = unseen + factor**2 * once * (2 * once - 1) ** 2 / 4
        variance -= factor**2 * once**4 / (4 * (seen + unseen)) if seen else 0.0
    if not unseen:
        return Estimate(float(seen), float(seen), float(seen))
    spread = exp(_normal(level) * sqrt(log(1 + max(0.0, variance) / unseen**2)))
    return Estimate(seen + unseen, seen + unseen / spread, seen + unseen * spread)


def removal(new: Sequence[int], level: float = LEVEL) -> Estimate:
    """The total, from how many papers each call returned first, if each returns the same share of those still unseen.

    The removal model of Moran (1951) and Zippin (1956). The estimate is that of Carle and Strub (1978), the most likely
    total where the share is uniform. The prior of the interval is 1 / sqrt(N), Jeffreys' of a count N.
    """
    seen, calls = sum(new), len(new)
    totals = _totals(seen)
    misses = calls * totals - sum((calls - n) * count for n, count in enumerate(new))
    logs = _log_gamma(totals + 1) - _log_gamma(totals - seen + 1) + _log_gamma(misses + 1)
    logs -= _log_gamma(misses + seen + 2)
    interval = _interval(totals, logs - np.log(totals) / 2, level, (1 - level) / 2)
    return Estimate(float(totals[logs.argmax()]), *interval)


def share(part: int, whole: int, level: float = LEVEL) -> tuple[float, float]:
    """The interval of a share of which ``part`` of ``whole`` were counted, by Wilson (1927)."""
    z = _normal(level) ** 2
    middle, size = part + z / 2, whole + z
    half = sqrt(z * (part * (whole - part) / whole + z / 4))
    return max(0.0, (middle - half) / size), min(1.0, (middle + half) / size)


def stopping_risk(relevant: Sequence[bool], population: int, target: float = 0.95) -> float:
    """The p-value of the hypothesis that fewer than ``target`` of the relevant papers were read.

    Callaghan and Mueller-Hansen (2020): each end of the list of papers read, as if drawn at random from all papers not
    read before it, gives a hypergeometric p-value, and the smallest is taken. Papers read in an order in which relevant
    ones come first make it larger than it need be.

    Args:
        relevant: whether each paper read is relevant, in the order of reading.
        population: all papers, read and unread.
    """
    seen, read = sum(relevant), len(relevant)
    least, drawn = 1.0, 0
    for number, hit in enumerate(reversed(relevant), 1):
        drawn += hit
        left = population - read + number
        missed = floor(seen / target + 1 - (seen - drawn))
        least = min(least, _hypergeometric(drawn, left, missed, number))
    return least


def _hypergeometric(most: int, population: int, marked: int, draws: int) -> float:
    """The probability that at most ``most`` of ``draws`` papers are marked."""
    if marked > population:
        return 0.0
    counts = np.arange(max(0, draws + marked - population), min(most, marked) + 1, dtype=np.float64)
    logs = _log_choose(marked, counts) + _log_choose(population - marked, draws - counts)
    return float(np.exp(logs - _log_choose(population, np.float64(draws))).sum())


def _log_choose(whole: int, parts: NDArray[np.float64] | np.float64) -> NDArray[np.float64]:
    every, rest = np.float64(whole + 1), whole + 1 - parts
    return _log_gamma(every) - _log_gamma(parts + 1) - _log_gamma(rest)


def _normal(level: float) -> float:
    return NormalDist().inv_cdf((1 + level) / 2)


def _totals(seen: int) -> NDArray[np.float64]:
    return np.arange(max(seen, 1), max(MOST, 50 * seen) + 1, dtype=np.float64)


def _interval(
    totals: NDArray[np.float64], logs: NDArray[np.float64], level: float, below: float
) -> tuple[float, float]:
    """The ends of the totals between two tails of a posterior; a total is in the tail that has its middle.

    Args:
        logs: logarithms of the probabilities.
        below: the probability of the lower tail.
    """
    shares = np.exp(logs - logs.max())
    middles = (shares.cumsum() - shares / 2) / shares.sum()
    low, high = np.searchsorted(middles, [below, below + level])
    return float(totals[low]), float(totals[max(low, high - 1)])


def _log_gamma(values: NDArray[np.float64] | np.float64) -> NDArray[np.float64]:
    """By Stirling's series of ``values`` + 8; the error is below 1e-7 for values of 1 and more."""
    y = values + _SHIFT
    series = (y - 0.5) * np.log(y) - y + log(2 * np.pi) / 2 + 1 / (12 * y) - 1 / (360 * y**3)
    result: NDArray[np.float64] = series - sum(np.log(values + n) for n in range(_SHIFT))
    return result
