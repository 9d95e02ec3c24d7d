"""How a smoothed classifier is certified, and what counts of noisy copies prove of it.

Source      Cohen, Rosenfeld & Kolter 2019 (arXiv 1902.02918), Theorem 1 and section 3.2: ``R = sigma Phi⁻¹(pA)``.
Letters     ``pA``: a lower bound of the probability that the base classifier gives a noisy copy the top class; ``Phi⁻¹``: the
            standard normal's quantile; ``k``: how many of ``n`` copies got the top class.
"""

import math
from dataclasses import dataclass

from brinell.eps import Eps
from brinell.errors import BadInput
from brinell.statistics import binomial_lower


def sigma_of(written: str) -> float:
    """Sigma as it was written: a decimal, or a fraction such as 64/255.

    Raises
    ------
    BadInput
        If it is neither, or negative, or not finite.
    """
    try:
        return float(Eps(written))
    except BadInput:
        raise BadInput(
            "smoothing sigma",
            got=repr(written),
            expected="a finite number above 0, as a decimal or a fraction",
            remedy="Write it in input units, for example 0.25 or 64/255.",
        ) from None


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The noise, how many copies are looked at, and how often a certificate may be false.

    Raises
    ------
    BadInput
        If a number is out of its range, or ``n`` is so small for ``alpha`` that every row would be abstained on.
    """

    sigma: float
    """Standard deviation of the noise, in input units."""
    n: int = 10_000
    """Noisy copies from which a row's class is certified, or predicted."""
    n0: int = 100
    """Other copies, by which the class is chosen that is then certified."""
    alpha: float = 0.001
    """Probability, row by row, with which a certificate may be false."""

    def __post_init__(self) -> None:
        checks = (
            ("sigma", self.sigma, math.isfinite(self.sigma) and self.sigma > 0, "a finite number above 0"),
            ("n", self.n, self.n >= 1, "at least 1"),
            ("n0", self.n0, self.n0 >= 1, "at least 1"),
            ("alpha", self.alpha, 0 < self.alpha < 0.5, "a probability above 0 and below 1/2"),
        )
        for name, got, fits, expected in checks:
            if not fits:
                raise BadInput(f"smoothing {name}", got=str(got), expected=expected, remedy=f"Change --{name}.")
        if self.radius(self.n) is None:
            least = math.floor(-math.log2(self.alpha)) + 1
            raise BadInput(
                "smoothing n",
                got=f"{self.n} with alpha {self.alpha:g}: even if all copies agree, alpha^(1/n) is at most 1/2",
                expected=f"at least {least}",
                remedy=f"Raise --n to {least} or more; 10000 is usual.",
            )

    def lower(self, k: int) -> float:
        """``pA`` by Clopper & Pearson, one-sided: it lies above the true probability with probability at most alpha."""
        return binomial_lower(k, self.n, 1 - self.alpha)

    def radius(self, k: int) -> float | None:
        """The L2 radius, in input units, within which the class cannot change; None where ``pA`` is at most 1/2."""
        from scipy.special import ndtri  # slow to import

        lower = self.lower(k)
        return self.sigma * float(ndtri(lower)) if lower > 0.5 else None

    def least_for(self, radius: float) -> int:
        """The fewest copies by which a radius R (input units) is certified if all agree: ``alpha^(1/n) >= Phi(R / sigma)``."""
        from scipy.special import log_ndtr

        return math.ceil(math.log(self.alpha) / float(log_ndtr(radius / self.sigma)))

    @property
    def noise(self) -> str:
        """Sigma as it is printed: 64/255 where that is meant."""
        return str(Eps(self.sigma))

    @property
    def ceiling(self) -> float:
        """The radius where all copies agree, ``sigma Phi⁻¹(alpha^(1/n))``: none is ever larger."""
        highest = self.radius(self.n)
        assert highest is not None
        return highest
