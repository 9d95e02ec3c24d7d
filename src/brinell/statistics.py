"""Intervals for proportions."""

LEVEL = 0.95


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


def poisson_upper(count: int, confidence: float) -> float:
    """The exact one-sided upper bound of a Poisson mean of which ``count`` were seen (Garwood 1936)."""
    from scipy.special import gammaincinv  # needed only for reports

    return float(gammaincinv(count + 1, confidence))
