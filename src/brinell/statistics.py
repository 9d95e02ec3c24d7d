"""Intervals for proportions."""

LEVEL = 0.95


def clopper_pearson(count: int, of: int, level: float = LEVEL) -> tuple[float, float]:
    """The exact two-sided interval of a binomial proportion (Clopper & Pearson 1934).

    Guarantee: whatever the true proportion, the interval misses it with probability at most ``1 - level``, if the rows
    are a random sample. ``of`` must be above 0.
    """
    from scipy.stats import binomtest  # slow to import, and needed only for reports

    interval = binomtest(count, of).proportion_ci(confidence_level=level, method="exact")
    return float(interval.low), float(interval.high)
