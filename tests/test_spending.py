"""What passes have bought, by arithmetic that is done in the comments."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from scipy.stats import binom, poisson

from brinell import Threat
from brinell.attacks.pgd import PGD
from brinell.attacks.square import Square
from brinell.exported import as_data
from brinell.report.markdown import markdown_report
from brinell.report.text import saturation_line, spending_lines
from brinell.spending import Sample, Saturation, Turn, samples_of, saturation_of, thinned, turns_of
from brinell.statistics import poisson_upper
from brinell.suites.rules import Rule
from brinell.suites.suite import Suite
from noisy_models import carried_out, data, noisy
from noisy_models import suite as randomised_suite
from small_runs import attempt_record, row_record, small_result


@pytest.mark.parametrize("count", [0, 1, 2, 10, 300])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_so_few_are_as_rare_as_that_at_the_upper_bound(count: int, confidence: float) -> None:
    """The mean at which ``count`` or fewer are seen with probability ``1 - confidence``."""
    assert poisson.cdf(count, poisson_upper(count, confidence)) == pytest.approx(1 - confidence, rel=1e-9)


def test_none_seen_is_under_three() -> None:
    """exp(-3.0) = 0.05."""
    assert poisson_upper(0, 0.95) == pytest.approx(-math.log(0.05)) == pytest.approx(3.0, abs=0.005)


# Turn by turn


def test_turns_from_attempts() -> None:
    """An attempt makes two forwards and one backward, unless it says otherwise. They come by attack, not by turn."""
    attempts = [
        attempt_record(0, "fell", forwards=1, backwards=1),
        attempt_record(1),
        attempt_record(2),
        attempt_record(1, "fell", stage=0, attempt=1, turn=2),
        attempt_record(2, "unconfirmed", stage=0, attempt=1, turn=2),
        attempt_record(2, "error", stage=1, turn=1, forwards=7, backwards=0),
    ]
    assert turns_of(attempts) == [
        # 1 + 2 + 2 forwards, 1 + 1 + 1 backwards
        Turn(turn=0, stage=0, attempt=0, given=3, broke=1, forwards=5, backwards=3, passes=8, broken=1),
        # 8 + 7
        Turn(turn=1, stage=1, attempt=0, given=1, broke=0, forwards=7, backwards=0, passes=15, broken=1),
        # 15 + 2 · 3; the witness that the referee refused counts for nothing
        Turn(turn=2, stage=0, attempt=1, given=2, broke=1, forwards=4, backwards=2, passes=21, broken=2),
    ]


def test_no_turns() -> None:
    assert turns_of([]) == []


def test_turns_add_up_to_the_figures_of_a_run(tmp_path: Path) -> None:
    result = small_result(tmp_path / "run")
    passes = result.figures.passes
    *_, last = result.reading.turns
    assert last.passes == passes.attack_forwards + passes.attack_backwards
    assert last.broken == result.figures.status["broken"] > 0
    assert [turn.turn for turn in result.reading.turns] == [0, 1, 2, 3]
    assert sum(turn.forwards for turn in result.reading.turns) == passes.attack_forwards


# How the last passes paid


def history(*steps: tuple[int, int]) -> list[Turn]:
    """Turns that make so many passes and break so many rows."""
    turns, passes, broken = list[Turn](), 0, 0
    for number, (made, broke) in enumerate(steps):
        passes, broken = passes + made, broken + broke
        turns.append(Turn(number, 0, 0, 1, broke, made, 0, passes, broken))
    return turns


@pytest.mark.parametrize(
    ("steps", "saturation"),
    [
        # a quarter of 400 is the last turn exactly
        ([(200, 7), (100, 1), (100, 0)], Saturation(passes=400, last=300, recent_passes=100, recent_broke=0, left=9)),
        # the last turn is an eighth, so that the one before it is counted too
        ([(200, 7), (150, 1), (50, 0)], Saturation(passes=400, last=350, recent_passes=200, recent_broke=1, left=9)),
        ([(200, 7), (150, 1), (50, 2)], Saturation(passes=400, last=400, recent_passes=200, recent_broke=3, left=9)),
        # one turn is all there is
        ([(500, 3)], Saturation(passes=500, last=500, recent_passes=500, recent_broke=3, left=9)),
        ([(100, 0), (900, 0)], Saturation(passes=1000, last=0, recent_passes=900, recent_broke=0, left=9)),
        ([(0, 0), (10, 0), (0, 0)], Saturation(passes=10, last=0, recent_passes=10, recent_broke=0, left=9)),
    ],
)
def test_saturation(steps: list[tuple[int, int]], saturation: Saturation) -> None:
    assert saturation_of(history(*steps), 9) == saturation


@pytest.mark.parametrize("steps", [[], [(0, 0)]])
def test_no_saturation_where_no_pass_was_made(steps: list[tuple[int, int]]) -> None:
    assert saturation_of(history(*steps), 9) is None


def test_what_a_thousand_more_passes_promise() -> None:
    """None in 2,000: 3.0 / 2 at most. One in 500: 2 expected, and 4.74 / 0.5 at most, for exp(-4.74) · (1 + 4.74) = 0.05."""
    none, one = Saturation(9999, 1, 2000, 0, 100), Saturation(9999, 1, 500, 1, 100)
    assert (none.expected, one.expected) == (0, 2)
    assert none.at_most == pytest.approx(1.5, abs=0.003)
    assert one.at_most == pytest.approx(4.744 / 0.5, abs=0.003)


def test_no_more_rows_are_promised_than_are_left() -> None:
    """Two in 16 are 125 in 1,000, and at most 6.3 / 0.016 = 393; three rows are left, or none."""
    some, none, many = (Saturation(79, 79, 16, 2, left) for left in (3, 0, 5000))
    assert (some.expected, some.at_most) == (3, 3)
    assert "1,000 more would break 3 of the 3 left (at 95 % at most 3)" in saturation_line(some)
    assert (none.expected, none.at_most) == (0, 0)
    assert saturation_line(none) == "the last row broke by pass 79 of 79; no row is left that could break"
    assert "1,000 more would break 125 of the 5,000 left (at 95 % at most 393)" in saturation_line(many)


def test_rows_left_are_those_of_the_record(tmp_path: Path) -> None:
    result = small_result(tmp_path / "run")
    assert result.reading.saturation is not None
    assert result.reading.saturation.left == result.figures.status["standing"] > 0


def test_no_saturation_of_what_does_not_fall_or_is_not_attacked(tmp_path: Path) -> None:
    assert small_result(tmp_path / "still", threat=Threat("linf", 0)).reading.saturation is None
    assert small_result(tmp_path / "attacked").reading.saturation is not None
    randomised = carried_out(tmp_path / "noisy", noisy(), data(2), suite=randomised_suite(steps=2, score=20))
    assert len(randomised.reading.turns) > 0
    assert randomised.reading.saturation is None


# What a sample allows one to say

PLAIN = {"attack": "pgd"}
SAMPLED = {"attack": "square", "sample": 4}


def test_a_sample_from_the_record() -> None:
    """Of ten rows one is wrong at first, and one falls to the first attack, which meets 0.5 on the others. On the sample:

    row 2 falls; row 3 comes to 0.4, nearer; row 4 to 0.499, by less than a hundredth; on row 5 nothing was met.
    """
    rows = [row_record(row) for row in range(9)] + [row_record(9, "misclassified")]
    attempts = [attempt_record(row, "fell" if row == 0 else "stood", best_margin=0.5) for row in range(9)]
    attempts += [
        attempt_record(2, "fell", stage=1, turn=1, best_margin=-1.0),
        attempt_record(3, stage=1, turn=1, best_margin=0.4),
        attempt_record(4, stage=1, turn=1, best_margin=0.499),
        attempt_record(5, "error", stage=1, turn=1, best_margin=None),
    ]
    assert samples_of([PLAIN, SAMPLED], rows, attempts) == [Sample(stage=1, drawn=4, of=8, broke=1, nearer=2)]


def test_a_sample_is_compared_with_what_came_before_it_alone() -> None:
    """The clean margin is 1; only the attack after the sample meets 0.1."""
    attempts = [
        attempt_record(0, stage=0, turn=0, best_margin=0.9),
        attempt_record(0, "fell", stage=1, turn=1, best_margin=-0.1),
        attempt_record(1, stage=1, turn=1, best_margin=0.1),
    ]
    rows = [row_record(0), row_record(1)]
    assert samples_of([SAMPLED, PLAIN], rows, attempts) == [Sample(stage=0, drawn=1, of=2, broke=0, nearer=1)]


def test_a_row_in_several_attempts_on_a_sample_is_one_row() -> None:
    attempts = [attempt_record(0, attempt=n, turn=n, best_margin=0.5 - n / 10) for n in range(3)]
    assert samples_of([SAMPLED], [row_record(0)], attempts) == [Sample(stage=0, drawn=1, of=1, broke=0, nearer=1)]


def test_an_attack_without_a_sample_or_that_was_not_run_is_left_out() -> None:
    rows, attempts = [row_record(0)], [attempt_record(0)]
    assert samples_of([PLAIN, SAMPLED], rows, attempts) == []


@pytest.mark.parametrize(("broke", "drawn"), [(0, 60), (1, 4), (3, 60)])
def test_so_few_of_a_sample_are_as_rare_as_that_at_the_bound(broke: int, drawn: int) -> None:
    """One-sided: the share at which so few or fewer of those drawn fall has a probability of 5 %."""
    at_most = Sample(0, drawn, 1000, broke, broke).at_most
    assert binom.cdf(broke, drawn, at_most) == pytest.approx(0.05, rel=1e-9)


def test_none_of_sixty() -> None:
    """(1 - 0.0487)^60 = 0.05."""
    assert Sample(0, 60, 1000, 0, 0).at_most == pytest.approx(1 - 0.05 ** (1 / 60)) == pytest.approx(0.0487, abs=1e-4)


def test_all_of_a_sample() -> None:
    assert Sample(0, 5, 9, 5, 5).at_most == 1


# A curve of few points


def test_thinned_to_equal_steps_in_log_passes() -> None:
    turns = history(*[(1, 0)] * 1000)
    assert [turn.passes for turn in thinned(turns, 4)] == [1, 10, 100, 1000]
    assert [turn.passes for turn in thinned(turns, 2)] == [1, 1000]


@pytest.mark.parametrize("count", [1, 5, 6, 7, 40])
def test_thinned_keeps_first_and_last_and_repeats_none(count: int) -> None:
    turns = history(*[(1 + 7 * n % 5 * 10**n, n) for n in range(count)])
    some = thinned(turns, 6)
    assert len(some) <= 6
    assert (some[0], some[-1]) == (turns[0], turns[-1])
    assert [turn.turn for turn in some] == sorted({turn.turn for turn in some})
    assert count > 6 or some == turns


def test_nothing_thinned() -> None:
    assert thinned([], 6) == []


# What is said of it


def test_what_is_said_of_a_run(tmp_path: Path) -> None:
    attacks = (PGD(steps=1, step_size=0.1), Square(queries=5), PGD(steps=4))
    suite = Suite("sampled", "1", "", attacks, rules=(Rule(), Rule(sample=8), Rule()))
    reading = small_result(tmp_path / "run", suite=suite).reading
    (sample,), saturation, turns = reading.samples, reading.saturation, reading.turns
    assert saturation is not None
    assert sample.of == 54 - turns[0].broke
    drawn, curve, last = spending_lines(reading)
    assert drawn.startswith(
        f"square on 8 rows drawn from the {sample.of} that stood: broke {sample.broke}, nearer than "
    )
    assert (
        f"every attack before on {sample.nearer}; at 95 % it would break under {100 * sample.at_most:.1f} % of them"
        in drawn
    )
    assert curve.endswith(" · ".join(f"{turn.broken} by {turn.passes:,}" for turn in turns))
    assert last.startswith(f"the last row broke by pass {saturation.last:,} of {saturation.passes:,}")
    assert "not how near the figure is to the truth" in last
    said = as_data(reading)
    assert said["samples"][0]["would_break_at_most"] == sample.at_most
    assert said["saturation"]["at_most_per_1000_passes"] == saturation.at_most
    assert [turn["passes"] for turn in said["turns"]] == [turn.passes for turn in turns]
    page = markdown_report(reading)
    assert all(f"- {line}." in page for line in (drawn, curve, last))


def test_a_cut_is_said_last(tmp_path: Path) -> None:
    reading = small_result(tmp_path / "run").reading
    cut = replace(reading, manifest=reading.manifest.model_copy(update={"budget": "2M", "cut": "passes"}))
    assert spending_lines(cut) == [
        *spending_lines(reading),
        "the budget of 2M ended the attacks before the suite was through",
    ]
