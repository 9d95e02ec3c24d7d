"""Figures, by arithmetic that is done in the comments."""

import json
import math

import numpy as np
import pytest

from brinell.metrics import Figures, Proportion, figures_of, perturbation_of
from brinell.records import STATUSES, RowRecord
from brinell.statistics import clopper_pearson
from small_runs import attempt_record, row_record, session_record


def figures(rows: list[RowRecord], **changes: object) -> Figures:
    arguments = {"attempts": [], "sessions": [], "norm": "linf", "eps": 0.1, "stages": 1, **changes}
    return figures_of(rows, **arguments)  # type: ignore[arg-type]


def rows_of(**counts: int) -> list[RowRecord]:
    """So many rows of each status."""
    statuses = [status for status, count in counts.items() for _ in range(count)]
    return [row_record(row, status) for row, status in enumerate(statuses)]


# 1000 rows, 900 right before any attack, 360 of those flipped: 900 - 360 = 540 stand.
WORKED = {"misclassified": 100, "broken": 360, "standing": 540}


def test_worked_example() -> None:
    of = figures(rows_of(**WORKED))
    assert (of.clean_accuracy.count, of.clean_accuracy.of) == (900, 1000)
    # over all rows: 540/1000, not 540/900
    assert (of.robust_accuracy.count, of.robust_accuracy.of, of.robust_accuracy.value) == (540, 1000, 0.54)
    # over the rows that were right: 360/900 = 0.4, neither 360/1000 nor (100 + 360)/1000
    assert (of.attack_success_rate.count, of.attack_success_rate.of, of.attack_success_rate.value) == (360, 900, 0.4)
    assert of.complete


def test_worked_example_as_text() -> None:
    of = figures(rows_of(**WORKED))
    # the ends have their tails in test_clopper_pearson_ends_have_the_tails_that_define_them
    assert str(of.robust_accuracy) == "540/1000 = 54.0 % [50.9, 57.1] of all rows"
    assert str(of.clean_accuracy) == "900/1000 = 90.0 % [88.0, 91.8] of all rows"
    assert str(of.attack_success_rate) == "360/900 = 40.0 % [36.8, 43.3] of initially correct rows"
    assert str(of.perturbation) == "mean Linf 0.1 over 360 broken rows (budget 0.1; relative to the input 0.1)"
    for figure in (of.robust_accuracy, of.perturbation):
        assert repr(figure) == str(figure)  # no form without the counts


def test_statuses_add_up_to_the_rows() -> None:
    of = figures(rows_of(misclassified=1, broken=2, certified=3, standing=4, pending=5, error=6))
    assert of.status == {"misclassified": 1, "broken": 2, "certified": 3, "standing": 4, "pending": 5, "error": 6}
    assert tuple(of.status) == STATUSES
    assert sum(of.status.values()) == of.rows == 21


def test_nothing_flips() -> None:
    size = figures(rows_of(misclassified=1, standing=9)).perturbation
    assert size.count == size.relative_count == 0
    assert size.mean is None
    assert size.quantiles is None
    assert size.relative_mean is None
    assert str(size) == "undefined (0 broken rows)"


def test_row_misclassified_before_any_attack() -> None:
    """It is in the denominator of robust accuracy, and in no success rate and no mean."""
    rows = [row_record(0, "misclassified", distance=0.0), row_record(1, "broken"), row_record(2, "standing")]
    of = figures(rows)
    assert (of.robust_accuracy.count, of.robust_accuracy.of) == (1, 3)
    assert (of.attack_success_rate.count, of.attack_success_rate.of) == (1, 2)
    assert (of.perturbation.count, of.perturbation.mean) == (1, pytest.approx(0.1))


def test_no_row_correct_before_any_attack() -> None:
    of = figures(rows_of(misclassified=7))
    assert (of.clean_accuracy.value, of.robust_accuracy.value) == (0.0, 0.0)
    assert of.attack_success_rate.value is None
    assert of.attack_success_rate.interval is None
    assert str(of.attack_success_rate) == "n/a (0 initially correct rows)"


def test_twenty_rows_eight_wrong_and_no_attack_succeeds() -> None:
    """foolbox#713: its success rate for this was 8/20."""
    of = figures(rows_of(misclassified=8, standing=12))
    assert (of.clean_accuracy.count, of.clean_accuracy.of) == (12, 20)
    assert (of.robust_accuracy.count, of.robust_accuracy.of) == (12, 20)
    assert (of.attack_success_rate.count, of.attack_success_rate.of) == (0, 12)


def test_relative_size_is_over_the_norm_of_each_input() -> None:
    sizes = [(0.1, 2.0), (0.3, 3.0), (0.2, 0.5)]
    rows = [row_record(i, "broken", distance=d, input_size=n) for i, (d, n) in enumerate(sizes)]
    size = perturbation_of(rows, norm="l2", eps=0.5)
    assert size.mean == pytest.approx(0.2)  # (0.1 + 0.3 + 0.2) / 3
    # (0.1/2 + 0.3/3 + 0.2/0.5) / 3 = (0.05 + 0.1 + 0.4) / 3; the ratio of the means would be 0.6/5.5
    assert size.relative_mean == pytest.approx(0.55 / 3)
    assert size.quantiles == pytest.approx({"0": 0.1, "0.25": 0.15, "0.5": 0.2, "0.75": 0.25, "1": 0.3})


def test_input_of_norm_zero_has_no_relative_size() -> None:
    rows = [row_record(0, "broken", distance=0.3, input_size=0.0), row_record(1, "broken", distance=0.1)]
    size = perturbation_of(rows, norm="linf", eps=0.3)
    assert (size.count, size.mean) == (2, pytest.approx(0.2))
    assert (size.relative_count, size.relative_mean) == (1, pytest.approx(0.1))
    alone = perturbation_of(rows[:1], norm="linf", eps=0.3)
    assert (alone.relative_count, alone.relative_mean) == (0, None)
    assert "relative to the input n/a" in str(alone)


def test_partial_run_gives_bounds_and_no_number() -> None:
    of = figures(rows_of(misclassified=1, broken=2, standing=3, pending=4))
    assert not of.complete
    robust, success = of.robust_accuracy, of.attack_success_rate
    assert robust.value is robust.interval is None
    assert robust.bounds == (0.3, 0.7)  # 3 stand; the 4 to come may all stand
    assert str(robust) == "between 3/10 and 7/10 = 30.0 to 70.0 % of all rows (4 undecided)"
    assert success.value is success.interval is None
    assert success.bounds == (2 / 9, 6 / 9)
    assert of.clean_accuracy.value == 0.9


def test_run_cut_off_before_the_clean_pass_knows_nothing() -> None:
    """Rows that nobody has scored may be right: a success rate over 0 initially correct rows would be made up."""
    of = figures([row_record(row, "pending", clean_prediction=None, clean_margin=None) for row in range(5)])
    assert of.clean_accuracy.bounds == of.robust_accuracy.bounds == (0.0, 1.0)
    assert of.clean_accuracy.value is of.robust_accuracy.value is None
    assert of.attack_success_rate.value is None
    assert "0 initially correct" not in str(of.attack_success_rate)


def test_row_in_error_is_never_robust_and_never_broken() -> None:
    of = figures(rows_of(standing=6, broken=1, error=3))
    assert (of.robust_accuracy.count, of.robust_accuracy.of) == (6, 10)
    assert (of.attack_success_rate.count, of.attack_success_rate.of) == (1, 10)
    assert of.errors == {"the model raised": 3}


def test_certified_row_counts_as_robust() -> None:
    of = figures(rows_of(certified=1, standing=1, broken=2))
    assert (of.robust_accuracy.count, of.robust_accuracy.of) == (2, 4)


def test_union_over_attacks() -> None:
    """auto-attack#45: of 100 rows four attacks break 72, 64, 8 and 35 alone; robust accuracy is what all four leave.

    The first breaks rows 0 to 71. Run one after the other, each gets what the earlier ones left: of the second's 64 rows
    (20 to 83) there are 12 left, of the third's 8 (80 to 87) 4, of the fourth's 35 (60 to 94) 7. So 72 + 12 + 4 + 7 = 95
    are broken and 5 stand, fewer than the 28 that the best attack alone would leave.
    """
    alone = [range(72), range(20, 84), range(80, 88), range(60, 95)]
    rows, attempts = [], []
    for row in range(100):
        first = next((stage for stage, broken in enumerate(alone) if row in broken), None)
        rows.append(row_record(row) if first is None else row_record(row, "broken", stage=first))
        for stage in range(4 if first is None else first + 1):
            attempts.append(attempt_record(row, "fell" if stage == first else "stood", stage=stage))
    of = figures(rows, attempts=attempts, stages=4)
    assert [stage.broke for stage in of.stages] == [72, 12, 4, 7]
    assert [stage.given for stage in of.stages] == [100, 28, 16, 12]
    assert [stage.left for stage in of.stages] == [28, 16, 12, 5]
    assert of.robust_accuracy.count == of.stages[-1].left == 5
    assert [stage.forwards for stage in of.stages] == [200, 56, 32, 24]  # two for each row given


def test_stronger_attack_raises_the_mean_while_accuracy_falls() -> None:
    """The rows that only the stronger attack breaks lie farther from an error, and enter the mean."""
    weak = [row_record(0, "broken", distance=0.02), row_record(1), row_record(2)]
    strong = [weak[0], row_record(1, "broken", distance=0.08), row_record(2)]
    before, after = figures(weak), figures(strong)
    assert after.robust_accuracy.value < before.robust_accuracy.value  # type: ignore[operator]
    assert after.perturbation.mean == pytest.approx(0.05)  # (0.02 + 0.08) / 2
    assert before.perturbation.mean == pytest.approx(0.02)


def test_passes_by_what_they_were_made_for() -> None:
    rows = [row_record(0, forwards=10, backwards=9), row_record(1, "broken", forwards=3, backwards=2)]
    made = {"forwards": 20, "backwards": 15, "clean_forwards": 2, "referee_forwards": 1, "preflight_forwards": 7}
    passes = figures(rows, sessions=[session_record(**made)]).passes
    assert (passes.attack_forwards, passes.attack_backwards) == (13, 11)
    assert passes.forwards == 13 + 2 + 1
    assert passes.backwards == 11
    assert (passes.cut_off_forwards, passes.cut_off_backwards) == (20 - 13, 15 - 11)
    assert passes.preflight_forwards == 7


def test_empty_whole_has_no_value() -> None:
    nothing = Proportion(0, 0, "rows")
    assert nothing.value is nothing.interval is nothing.bounds is None
    assert "nan" not in str(nothing).lower()


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [
        # (1 - h)^10 = 0.025, so h = 1 - 0.025^(1/10)
        (0, 10, 0.0, 1 - 0.025**0.1),
        (10, 10, 0.025**0.1, 1.0),
        # one row: l = 0.025, and for the count 0: h = 0.975
        (1, 1, 0.025, 1.0),
        (0, 1, 0.0, 0.975),
        (5, 10, 0.1870860, 0.8129140),  # the textbooks' example
    ],
)
def test_clopper_pearson(count: int, of: int, low: float, high: float) -> None:
    assert clopper_pearson(count, of) == pytest.approx((low, high), abs=1e-6)


@pytest.mark.parametrize(
    ("count", "of", "level", "rounded"),
    [
        (7, 25, 0.9, (0.139, 0.462)),
        (540, 1000, 0.95, (0.509, 0.571)),
        (900, 1000, 0.95, (0.880, 0.918)),
        (360, 900, 0.95, (0.368, 0.433)),
    ],
)
def test_clopper_pearson_ends_have_the_tails_that_define_them(
    count: int, of: int, level: float, rounded: tuple[float, float]
) -> None:
    """At the lower end P(X >= count), at the upper end P(X <= count), is half of 1 - level."""
    low, high = clopper_pearson(count, of, level)

    def chance(k: int, p: float) -> float:
        return math.exp(math.log(math.comb(of, k)) + k * math.log(p) + (of - k) * math.log1p(-p))

    assert sum(chance(k, low) for k in range(count, of + 1)) == pytest.approx((1 - level) / 2, rel=1e-6)
    assert sum(chance(k, high) for k in range(count + 1)) == pytest.approx((1 - level) / 2, rel=1e-6)
    assert (low, high) == pytest.approx(rounded, abs=5e-4)


def test_figures_are_plain_numbers() -> None:
    """A numpy scalar that slips into a figure cannot be written as JSON."""
    size = figures(rows_of(**WORKED)).perturbation
    assert type(size.mean) is float
    assert not isinstance(size.relative_mean, np.floating)
    json.dumps([size.mean, size.relative_mean, size.quantiles, size.eps])
