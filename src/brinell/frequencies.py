"""Figures of a randomised model: how often it is right at the points that attacks found, as types that keep their counts.

Let ``p`` be the probability that the model is right at a row's chosen point. It was right in ``c`` of ``m`` fresh draws,
and the figures are means over rows of unbiased estimates of

- ``p``: what an attacker meets who gives the point once (``c / m``);
- ``p^q``: one who gives it ``q`` times and needs one error (``C(c, q) / C(m, q)``; Lucas et al. 2023);
- ``P(Bin(n, p) > n / 2)``: one who meets a defence that must be right in more than half of ``n`` draws
  (``sum_{j > n/2} C(c, j) C(m - c, n - j) / C(m, n)``).

The point was chosen in other draws, so that each is an upper bound of the truth but for chance.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from brinell.draws import Draws
from brinell.metrics import Proportion
from brinell.records import FrequencyRecord
from brinell.statistics import LEVEL, clopper_pearson

CLEAN = -1
"""The candidate that is the clean input."""
TRIES = 10
"""Of a persistent attacker."""
VOTES = 11
"""Draws of which more than half must be right."""


@dataclass(frozen=True)
class Frequency:
    """A mean over rows of how often the model is right, with its count of rows and of draws."""

    total: float
    """Sum of the rows' estimates, each in [0, 1]; rows in error count 0."""
    of: int
    """Rows in the denominator: all."""
    draws: int
    """Draws a row."""
    noise: float
    """Standard error of the mean by the draws alone, for these very rows."""
    undecided: int = 0
    """Rows that the run has not got to."""
    level: float = LEVEL

    @property
    def value(self) -> float | None:
        """The mean; None where there is no row or some are undecided."""
        return self.total / self.of if self.of > 0 and self.undecided == 0 else None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """What the mean can still come to be; None where there is no row."""
        return (self.total / self.of, (self.total + self.undecided) / self.of) if self.of > 0 else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """For the population that the rows are a sample of; None where ``value`` is.

        Clopper-Pearson on the sum, as if each row were right or wrong; shares spread no more than that.
        """
        return clopper_pearson(self.total, self.of, self.level) if self.value is not None else None

    def __str__(self) -> str:
        if self.bounds is None:
            return "n/a (0 rows)"
        low, high = (100 * bound for bound in self.bounds)
        if self.interval is None:
            return f"between {low:.1f} and {high:.1f} % over all {self.of} rows ({self.undecided} undecided)"
        ends = ", ".join(f"{100 * end:.1f}" for end in self.interval)
        return f"{low:.1f} % [{ends}] over all {self.of} rows, {self.draws} draws each (draws alone ± {196 * self.noise:.1f})"

    __repr__ = __str__


@dataclass(frozen=True)
class Optimism:
    """What choosing a point by its draws makes of its figure: the same rows in the draws that chose, and in fresh ones."""

    rows: int
    """Rows that had candidates to choose among."""
    chosen_by: float | None
    """Mean frequency in the draws that chose; None without such rows."""
    fresh: float | None
    """Mean frequency of the same points in fresh draws."""

    def __str__(self) -> str:
        if self.chosen_by is None or self.fresh is None:
            return "n/a (0 rows had a choice)"
        return f"{100 * self.chosen_by:.1f} % in the draws that chose, {100 * self.fresh:.1f} % in fresh ones ({self.rows} rows)"

    __repr__ = __str__


@dataclass(frozen=True)
class RandomisedFigures:
    """All that is said of a randomised model besides the majority's figures."""

    clean: Frequency
    """Of the clean inputs: what the figures are at eps 0."""
    expected: Frequency
    """Of the chosen points: the headline."""
    persistent: Frequency
    """Against an attacker with ``TRIES`` tries of the same point."""
    majority: Frequency
    """If more than half of ``VOTES`` draws must be right."""
    one_look: Proportion
    """Rows wrong at least once, but not always, in the draws of their clean input: what would be called broken by noise
    alone, without any attack, where one wrong decision is enough."""
    failed: int
    """Rows on which an attempt or the scoring could not be judged: in every denominator, 0 in every numerator."""
    choosing: Optimism
    """How far the draws that chose the points flatter the attack."""
    control: Optimism
    """The same where every candidate is the clean input."""
    draws: Draws
    """How often the model was asked, and for what."""


def randomised_figures(
    frequencies: Sequence[FrequencyRecord], *, rows: int, failed: Collection[int], draws: Draws
) -> RandomisedFigures:
    """The figures that follow from how often the model was right.

    ``rows`` is the denominator, ``failed`` the rows on which any attempt or the scoring could not be judged: they count
    0 in every numerator but the clean one.
    """
    clean = [(record.clean_correct, record.clean_draws) for record in frequencies]
    sound = [record for record in frequencies if record.row not in failed]
    scored = [(record.correct or 0, record.draws) for record in sound if record.draws is not None]
    undecided = rows - len(scored) - len(failed)
    erring = sum(0 < correct < of for correct, of in clean)

    def over(pairs: Sequence[tuple[int, int]], tries: int, votes: int, left: int) -> Frequency:
        estimates = [persistent(c, m, tries) if votes == 1 else majority(c, m, votes) for c, m in pairs]
        spread = sum(_variance(c, m, tries, votes) for c, m in pairs)
        return Frequency(sum(estimates), rows, draws.score, math.sqrt(spread) / max(rows, 1), left)

    return RandomisedFigures(
        clean=over(clean, 1, 1, rows - len(clean)),
        expected=over(scored, 1, 1, undecided),
        persistent=over(scored, TRIES, 1, undecided),
        majority=over(scored, 1, VOTES, undecided),
        one_look=Proportion(erring, rows, "all rows", undecided=rows - len(clean)),
        failed=len(failed),
        choosing=_optimism(
            [
                (r.select_correct, r.select_draws, r.correct, r.draws)
                for r in frequencies
                if r.select_draws and r.draws is not None
            ]
        ),
        control=_optimism(
            [
                (r.control_correct, r.control_draws, r.clean_correct, r.clean_draws)
                for r in frequencies
                if r.control_draws
            ]
        ),
        draws=draws,
    )


def right_at_first(counted: FrequencyRecord) -> bool:
    """Whether the model is right in more than half of the draws of the clean input."""
    return 2 * counted.clean_correct > counted.clean_draws


def status_of(counted: FrequencyRecord) -> str:
    """What becomes of a row by most of its draws: ``misclassified``, ``broken`` or ``standing``.

    Where the chosen point is the clean input no attack has done anything, and the row is not broken.
    """
    assert counted.correct is not None
    assert counted.draws is not None
    if not right_at_first(counted):
        return "misclassified"
    return "broken" if 2 * counted.correct <= counted.draws and counted.candidate != CLEAN else "standing"


def persistent(correct: int, draws: int, tries: int) -> float:
    """The unbiased estimate ``C(c, q) / C(m, q)`` of ``p^q``."""
    return math.comb(correct, tries) / math.comb(draws, tries)


def majority(correct: int, draws: int, votes: int) -> float:
    """The unbiased estimate of ``P(Bin(n, p) > n / 2)`` from ``m`` draws."""
    ways = sum(math.comb(correct, j) * math.comb(draws - correct, votes - j) for j in range(votes // 2 + 1, votes + 1))
    return ways / math.comb(draws, votes)


def _variance(correct: int, draws: int, tries: int, votes: int) -> float:
    """Of a row's estimate by its draws; for the majority by its slope, which is true for many draws."""
    p, half = correct / draws, votes // 2
    if votes == 1:  # without bias, from pairs of disjoint sets of tries
        return max(persistent(correct, draws, tries) ** 2 - persistent(correct, draws, 2 * tries), 0.0)
    slope = votes * math.comb(votes - 1, half) * p**half * (1 - p) ** half
    return slope**2 * p * (1 - p) / (draws - 1)


def _optimism(counts: Sequence[tuple[int | None, int | None, int | None, int | None]]) -> Optimism:
    if not counts:
        return Optimism(0, None, None)
    chosen_by = sum((a or 0) / (b or 1) for a, b, _, _ in counts) / len(counts)
    fresh = sum((c or 0) / (d or 1) for _, _, c, d in counts) / len(counts)
    return Optimism(len(counts), chosen_by, fresh)
