"""Intervals for proportions, counts and differences, and a paired test."""

import math

LEVEL = 0.95
TINY = 1e-9
"""Beside the difference itself, where the score statistic can be 0 by 0."""


def clopper_pearson(count: float, of: int, level: float = LEVEL) -> tuple[float, float]:
    """The exact two-sided interval of a binomial proportion (Clopper & Pearson 1934).

    Guarantee: whatever the true proportion, the interval misses it with probability at most ``1 - level``, if the rows
    are a random sample. ``of`` must be above 0. A count that is not whole, a sum of shares, is taken as it is: shares
    spread no more than yes-or-no rows of the same mean.
    """
    from scipy.special import betaincinv  # needed only for reports

    tail = (1 - level) / 2
    low = float(betaincinv(count, of - count + 1, tail)) if count > 0 else 0.0
    high = float(betaincinv(count + 1, of - count, 1 - tail)) if count < of else 1.0
    return low, high


def binomial_lower(count: int, of: int, confidence: float) -> float:
    """The exact one-sided lower bound of a binomial proportion (Clopper & Pearson 1934), 0 where nothing was counted.

    Guarantee: whatever the true proportion, the bound lies above it with probability at most ``1 - confidence``. ``of`` must
    be above 0.
    """
    from scipy.special import betaincinv  # needed only where something is certified or reported

    return float(betaincinv(count, of - count + 1, 1 - confidence)) if count > 0 else 0.0


def even_odds(first: int, second: int) -> float:
    """The two-sided p-value of the exact test that two outcomes are equally likely; 1 where neither was seen."""
    from scipy.special import bdtr  # needed only where something is certified or reported

    return min(1.0, 2 * float(bdtr(min(first, second), first + second, 0.5))) if first + second else 1.0


def poisson_upper(count: int, confidence: float) -> float:
    """The exact one-sided upper bound of a Poisson mean of which ``count`` were seen (Garwood 1936)."""
    from scipy.special import gammaincinv  # needed only for reports

    return float(gammaincinv(count + 1, confidence))


def mcnemar(only_first: int, only_second: int) -> float:
    """The two-sided p-value of the exact paired test (McNemar 1947): could rows on which two differ have fallen either way?

    1 where they differ on none.
    """
    from scipy.stats import binomtest

    return float(binomtest(only_first, only_first + only_second).pvalue) if only_first + only_second else 1.0


def paired_difference(only_first: int, only_second: int, of: int, level: float = LEVEL) -> tuple[float, float]:
    """The score interval of the difference of two shares of the same ``of`` rows (Tango 1998, equations 3 to 6).

    The difference is ``(only_first - only_second) / of``. A bound ``d`` is where the score statistic
    ``(b - c - n d) / sqrt(n (2 q + d (1 - d)))`` reaches the normal quantile; ``b`` and ``c`` are the counts, ``n`` the rows,
    and ``q``, the maximum-likelihood probability of ``c`` at ``d``, solves
    ``2 n q² + (-b - c + (2 n - b + c) d) q - c d (1 - d) = 0``. ``of`` must be above 0.
    """
    from scipy.optimize import brentq
    from scipy.stats import norm

    b, c, n = only_first, only_second, of
    z = float(norm.ppf((1 + level) / 2))

    def excess(d: float, sign: int) -> float:
        linear, constant = -b - c + (2 * n - b + c) * d, -c * d * (1 - d)
        q = (math.sqrt(max(linear * linear - 8 * n * constant, 0.0)) - linear) / (4 * n)
        variance = n * (2 * q + d * (1 - d))
        return (b - c - n * d) - sign * z * math.sqrt(max(variance, 0.0))

    middle = (b - c) / n
    low = -1.0 if excess(-1.0, 1) <= 0 else float(brentq(excess, -1.0, middle - TINY, args=(1,)))
    high = 1.0 if excess(1.0, -1) >= 0 else float(brentq(excess, middle + TINY, 1.0, args=(-1,)))
    return low, high


def unpaired_difference(
    first: float, of_first: int, second: float, of_second: int, level: float = LEVEL
) -> tuple[float, float]:
    """The interval of the difference of two shares of different rows, from their Wilson intervals (Newcombe 1998, method 10).

    Both wholes must be above 0.
    """
    p, q = first / of_first, second / of_second
    (low_p, high_p), (low_q, high_q) = wilson(first, of_first, level), wilson(second, of_second, level)
    return (
        p - q - math.hypot(p - low_p, high_q - q),
        p - q + math.hypot(high_p - p, q - low_q),
    )


def wilson(count: float, of: int, level: float = LEVEL) -> tuple[float, float]:
    """The score interval of a proportion (Wilson 1927); ``of`` must be above 0."""
    from scipy.special import ndtri

    z = float(ndtri((1 + level) / 2))
    p, scale = count / of, 1 + z * z / of
    middle, half = p + z * z / (2 * of), z * math.sqrt(p * (1 - p) / of + z * z / (4 * of * of))
    return (middle - half) / scale, (middle + half) / scale
