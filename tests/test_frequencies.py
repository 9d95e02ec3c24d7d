"""Figures of a randomised model, by hand: what each count is an unbiased estimate of, and how far draws alone move it."""

import math
from itertools import product
from typing import Any

import pytest
import torch
from scipy.stats import beta, binom, fisher_exact

from brinell.checks.model import chance_of_difference
from brinell.draws import Draws
from brinell.frequencies import (
    CLEAN,
    TRIES,
    VOTES,
    Frequency,
    Optimism,
    RandomisedFigures,
    _variance,
    majority,
    persistent,
    randomised_figures,
    status_of,
)
from brinell.records import FrequencyRecord

CHANCES = [0.0, 0.03, 0.25, 0.5, 0.77, 0.98, 1.0]
"""Of being right."""


def expectation(of: list[float], p: float) -> float:
    """The mean of something that is known for each count, from 0 to all, of draws that are right with probability ``p``."""
    m = len(of) - 1
    return math.fsum(math.comb(m, c) * p**c * (1 - p) ** (m - c) * value for c, value in enumerate(of))


def frequency_record(row: int, **counts: Any) -> FrequencyRecord:
    """A row of which the clean input has been scored, right in all of 20 draws, and nothing else has been done."""
    nothing = dict.fromkeys(
        (
            "candidates",
            "candidate",
            "select_draws",
            "select_correct",
            "control_draws",
            "control_correct",
            "draws",
            "correct",
        )
    )
    return FrequencyRecord(**{"row": row, "clean_draws": 20, "clean_correct": 20, **nothing, **counts})


def figures(records: list[FrequencyRecord], *, rows: int, failed: set[int] | None = None) -> RandomisedFigures:
    return randomised_figures(records, rows=rows, failed=failed or set(), draws=Draws(score=20))


# What each count estimates


def test_persistent_attacker_by_hand() -> None:
    """Right in 3 of 5 draws. Of the C(5, 2) = 10 pairs of draws, C(3, 2) = 3 are right twice."""
    assert persistent(3, 5, 2) == 0.3
    assert persistent(3, 5, 1) == 0.6
    assert persistent(3, 5, 3) == 0.1
    assert [persistent(c, 5, 2) for c in range(6)] == [0.0, 0.0, 0.1, 0.3, 0.6, 1.0]
    # needs more right draws than there are: whoever tries four times has met an error
    assert persistent(3, 5, 4) == 0.0


def test_majority_by_hand() -> None:
    """Right in 3 of 5 draws. Of the C(5, 3) = 10 triples, C(3, 2) C(2, 1) = 6 are right twice and 1 three times."""
    assert majority(3, 5, 3) == 0.7
    assert majority(3, 5, 1) == 0.6
    assert majority(3, 5, 5) == 1.0
    assert majority(2, 5, 5) == 0.0
    # of two votes more than half is both
    assert majority(3, 5, 2) == persistent(3, 5, 2)


@pytest.mark.parametrize("draws", [1, 4, 9, 20])
@pytest.mark.parametrize("p", CHANCES)
def test_persistent_is_unbiased(draws: int, p: float) -> None:
    """``sum_c P(c) C(c, q) / C(m, q) = p^q``."""
    for tries in range(1, min(draws, TRIES) + 1):
        estimates = [persistent(c, draws, tries) for c in range(draws + 1)]
        assert expectation(estimates, p) == pytest.approx(p**tries, abs=1e-12)


@pytest.mark.parametrize("draws", [1, 4, 9, 20])
@pytest.mark.parametrize("p", CHANCES)
def test_majority_is_unbiased(draws: int, p: float) -> None:
    """``sum_c P(c) (…) = P(Bin(n, p) > n / 2)``."""
    for votes in range(1, min(draws, VOTES) + 1):
        estimates = [majority(c, draws, votes) for c in range(draws + 1)]
        wanted = math.fsum(
            math.comb(votes, j) * p**j * (1 - p) ** (votes - j) for j in range(votes + 1) if 2 * j > votes
        )
        assert expectation(estimates, p) == pytest.approx(wanted, abs=1e-12)


def test_estimates_are_shares() -> None:
    """In [0, 1], and no right draw makes any of them less."""
    for draws in (20, 100):
        for estimates in (
            [persistent(c, draws, TRIES) for c in range(draws + 1)],
            [majority(c, draws, VOTES) for c in range(draws + 1)],
        ):
            assert (estimates[0], estimates[-1]) == (0.0, 1.0)
            assert estimates == sorted(estimates)


# How far draws alone move it


@pytest.mark.parametrize("draws", [2, 9, 20, 100])
@pytest.mark.parametrize("p", CHANCES)
def test_variance_of_the_share_is_unbiased(draws: int, p: float) -> None:
    """Of ``c / m`` the variance is ``p (1 - p) / m``, and so is the mean of what is stated for it."""
    stated = [_variance(c, draws, 1, 1) for c in range(draws + 1)]
    assert expectation(stated, p) == pytest.approx(p * (1 - p) / draws, abs=1e-14)


@pytest.mark.parametrize(
    ("p", "tries", "votes"),
    [
        (0.5, TRIES, 1),
        (0.6, TRIES, 1),
        (0.9, TRIES, 1),
        (0.97, TRIES, 1),
        (0.4, 1, VOTES),
        (0.5, 1, VOTES),
        (0.6, 1, VOTES),
    ],
)
def test_variance_of_the_others_is_right_for_many_draws(p: float, tries: int, votes: int) -> None:
    """Exactly summed over 4,000 draws: the standard error that is stated is off by less than 3 %."""
    draws = 4000
    chances = binom.pmf(range(draws + 1), draws, p)
    likely = [c for c in range(draws + 1) if chances[c] > 1e-15]
    estimates = {c: persistent(c, draws, tries) if votes == 1 else majority(c, draws, votes) for c in likely}
    mean = math.fsum(chances[c] * estimates[c] for c in likely)
    true = math.fsum(chances[c] * (estimates[c] - mean) ** 2 for c in likely)
    stated = math.fsum(chances[c] * _variance(c, draws, tries, votes) for c in likely)
    assert math.sqrt(stated) == pytest.approx(math.sqrt(true), rel=0.03)


def test_standard_error_of_a_mean_by_simulation(without_shape_checks: None) -> None:
    """Twenty rows with frequencies of their own, asked 20 times each, 400 times over."""
    generator = torch.Generator().manual_seed(3)
    p = torch.rand(20, generator=generator, dtype=torch.float64)
    means, stated = [], []
    for _ in range(400):
        correct = torch.binomial(torch.full_like(p, 20), p, generator=generator).long().tolist()
        records = [frequency_record(row, draws=20, correct=c) for row, c in enumerate(correct)]
        figure = figures(records, rows=20).expected
        means.append(figure.value or 0.0)
        stated.append(figure.noise)
    spread = float(torch.tensor(means, dtype=torch.float64).std())
    assert sum(stated) / 400 == pytest.approx(spread, rel=0.1)  # three standard errors of a standard deviation
    assert sum(means) / 400 == pytest.approx(float(p.mean()), abs=4 * spread / 20)


# A figure


def test_a_frequency_keeps_its_counts() -> None:
    """Three rows right in 20, 10 and 0 of 20 draws: 1.5 of 3."""
    figure = Frequency(total=1.5, of=3, draws=20, noise=0.05)
    assert figure.value == 0.5
    assert figure.bounds == (0.5, 0.5)
    assert figure.interval is not None
    low, high = figure.interval
    # Clopper-Pearson: the beta distribution's quantiles at 2.5 and 97.5 %
    assert (low, high) == pytest.approx((beta.ppf(0.025, 1.5, 2.5), beta.ppf(0.975, 2.5, 1.5)))
    assert str(figure) == repr(figure)
    assert str(figure) == (
        f"50.0 % [{100 * low:.1f}, {100 * high:.1f}] over all 3 rows, 20 draws each (draws alone ± 9.8)"
    )


@pytest.mark.parametrize(("total", "ends"), [(0.0, (0.0, None)), (7.0, (None, 1.0))])
def test_interval_at_the_ends(total: float, ends: tuple[float | None, float | None]) -> None:
    """Always right or always wrong in 7 rows: one end is certain, the other is ``1 - (α / 2)^(1/7)`` away."""
    figure = Frequency(total=total, of=7, draws=20, noise=0.0)
    assert figure.interval is not None
    low, high = figure.interval
    away = 1 - 0.025 ** (1 / 7)
    assert low == pytest.approx(1 - away if ends[0] is None else 0.0)
    assert high == pytest.approx(away if ends[1] is None else 1.0)


def test_undecided_rows_make_bounds_and_no_number() -> None:
    """1.5 so far, four of ten rows to come: between 15 and 55 %."""
    figure = Frequency(total=1.5, of=10, draws=20, noise=0.05, undecided=4)
    assert figure.value is None
    assert figure.interval is None
    assert figure.bounds == (0.15, 0.55)
    assert str(figure) == "between 15.0 and 55.0 % over all 10 rows (4 undecided)"


def test_no_rows() -> None:
    figure = Frequency(total=0.0, of=0, draws=20, noise=0.0)
    assert (figure.value, figure.bounds, figure.interval) == (None, None, None)
    assert str(figure) == "n/a (0 rows)"
    assert str(Optimism(0, None, None)) == "n/a (0 rows had a choice)"
    nothing = figures([], rows=0)
    assert nothing.expected.value is None
    assert nothing.choosing == Optimism(0, None, None)


# All figures of a run


def test_worked_example() -> None:
    """Four rows, 20 draws of each point.

    | row | clean | chosen | p | p^10 | majority of 11 |
    |---|---|---|---|---|---|
    | 0 | 20 | 20 | 1 | 1 | 1 |
    | 1 | 20 | 10 | 1/2 | C(10, 10) / C(20, 10) = 1 / 184,756 | 1/2, by symmetry |
    | 2 | 15 | 0 | 0 | 0 | 0 |
    | 3 | 0 | 5 | 1/4 | 0 | fewer than 6 right draws: 0 |
    """
    records = [
        frequency_record(0, draws=20, correct=20),
        frequency_record(1, draws=20, correct=10),
        frequency_record(2, clean_correct=15, draws=20, correct=0),
        frequency_record(3, clean_correct=0, draws=20, correct=5),
    ]
    counted = figures(records, rows=4)
    assert counted.clean.value == (20 + 20 + 15 + 0) / 80
    assert counted.expected.value == (1 + 1 / 2 + 0 + 1 / 4) / 4
    assert counted.persistent.value == (1 + 1 / 184_756) / 4
    assert counted.majority.value == pytest.approx((1 + 1 / 2) / 4)
    # row 2 erred in some draws of its clean input; row 3 in all, which is no noise
    assert (counted.one_look.count, counted.one_look.of) == (1, 4)
    # p (1 - p) / (m - 1): 0 + 1/4 / 19 + 0 + 3/16 / 19, its root over four rows
    assert counted.expected.noise == pytest.approx(math.sqrt((1 / 4 + 3 / 16) / 19) / 4)
    assert counted.draws == Draws(score=20)


def test_failed_rows_count_nothing_and_stay_in_the_denominator() -> None:
    """Row 1 is right in every draw, but an attempt on it could not be judged; row 2 could not be scored at all."""
    records = [
        frequency_record(0, draws=20, correct=20),
        frequency_record(1, draws=20, correct=20),
        frequency_record(2),
    ]
    counted = figures(records, rows=3, failed={1, 2})
    for figure in (counted.expected, counted.persistent, counted.majority):
        assert (figure.value, figure.of, figure.undecided) == (1 / 3, 3, 0)
    assert counted.clean.value == 1.0  # no attempt has a part in it
    assert counted.one_look.count == 0
    assert counted.failed == 2


def test_rows_that_the_run_has_not_got_to_are_undecided() -> None:
    """Of five rows one is scored, one failed, two have a clean score only, and one has nothing."""
    records = [frequency_record(0, draws=20, correct=10), frequency_record(1), frequency_record(2), frequency_record(3)]
    counted = figures(records, rows=5, failed={3})
    assert counted.expected.bounds == (0.5 / 5, 3.5 / 5)
    assert counted.expected.undecided == 3
    assert counted.clean.bounds == (4 / 5, 1.0)
    assert counted.one_look.undecided == 1


def test_optimism_compares_the_same_rows() -> None:
    """Row 0: 2 of 10 in the draws that chose, 8 of 20 in fresh ones; row 1 had no choice, row 2 is not scored yet."""
    chosen = {"candidates": 9, "select_draws": 10, "control_draws": 10}
    records = [
        frequency_record(0, **chosen, clean_correct=18, select_correct=2, control_correct=5, draws=20, correct=8),
        frequency_record(1, candidates=1, select_draws=0, select_correct=0, control_draws=0, control_correct=0),
        frequency_record(2, **chosen, select_correct=9, control_correct=7),
    ]
    counted = figures(records, rows=3)
    assert counted.choosing == Optimism(1, 0.2, 0.4)
    # the control's fresh draws are those of the clean input: 18 and 20 of 20
    assert counted.control == Optimism(2, 0.6, 0.95)
    assert str(counted.choosing) == "20.0 % in the draws that chose, 40.0 % in fresh ones (1 rows)"


@pytest.mark.parametrize(
    ("clean", "chosen", "candidate", "status"),
    [
        (11, 11, 3, "standing"),
        (11, 10, 3, "broken"),
        (20, 0, 0, "broken"),
        (10, 20, 3, "misclassified"),
        (10, 0, 3, "misclassified"),
        (11, 10, CLEAN, "standing"),  # by chance alone: no attack has had a part in it
        (10, 10, CLEAN, "misclassified"),
    ],
)
def test_a_tie_of_draws_counts_as_an_error(clean: int, chosen: int, candidate: int, status: str) -> None:
    """Of 20 draws 10 are not most; what is wrong on the clean input is never broken."""
    assert status_of(frequency_record(0, clean_correct=clean, candidate=candidate, draws=20, correct=chosen)) == status


# Whether two counts can come of one frequency


@pytest.mark.parametrize(("draws", "more"), [(20, 20), (40, 20), (5, 3)])
def test_chance_of_difference_is_fishers(draws: int, more: int) -> None:
    for correct, again in product(range(0, draws + 1, 1 + draws // 10), range(more + 1)):
        table = [[correct, draws - correct], [again, more - again]]
        assert chance_of_difference(correct, draws, again, more) == pytest.approx(fisher_exact(table).pvalue, rel=1e-6)


def test_chance_of_difference_by_hand() -> None:
    """3 of 3 and 0 of 3: of the C(6, 3) = 20 ways to place three right draws, two are as unlike as these."""
    assert chance_of_difference(3, 3, 0, 3) == pytest.approx(2 / 20)
    assert chance_of_difference(0, 3, 0, 3) == 1.0
    assert chance_of_difference(20, 20, 20, 20) == 1.0
