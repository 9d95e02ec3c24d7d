"""Adaptive Auto Attack: its budget, its starts, and what it learns."""

from pathlib import Path

import pytest
import torch

import small_net
from brinell.attacks.a3 import A3, Signs
from brinell.attacks.catalogue import identity
from brinell.attacks.fgsm import FGSM
from brinell.evaluation import evaluate, resume
from brinell.finishing import finish
from brinell.handed import subject_of
from brinell.opening import begin
from brinell.queries import Success
from brinell.random import Noise, stream_key
from brinell.suites.rules import Rule
from brinell.suites.suite import Suite, load_suite
from brinell.verify import verify_files
from small_runs import THREAT, fates

ROWS = 10_000


def test_the_papers_budget() -> None:
    """Published for the public code: 336 backwards a row that stands, of 10,000; each iterate is evaluated once here.

    8, then 2 x 22, then 39 to 64 steps on .7 to .1 of the rows, then 4 x 64, 4 x 69, 50 x 74 on .1, .065, .03 of them.
    """
    loops = zip((0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1), (39, 44, 44, 49, 54, 59, 64), strict=True)
    steps = 8 + 2 * 22 + sum(share * length for share, length in loops) + 0.1 * 4 * 64 + 0.065 * 4 * 69 + 0.03 * 50 * 74
    assert steps == pytest.approx(336, abs=0.5)
    suite = load_suite("a3").within("linf")
    made = suite.cost(ROWS).backwards
    assert steps <= made <= steps + len(suite.attacks)  # each attack's mean is rounded up


def success(row: int, label: int, prediction: int, attack: A3 | FGSM, attempt: int = 0) -> Success:
    return Success(attack, stream_key(identity(attack)), attempt, row, label, prediction)


def weights(row: int, attack: A3, classes: int, attempt: int = 0) -> list[float]:
    noise = Noise.of(seed=3, stream=stream_key(identity(attack)), attempt=attempt, rows=torch.tensor([row]))
    return (2 * noise.uniform((classes,), draw=2, dtype=torch.float32)[0] - 1).tolist()


def test_it_learns_the_signs_of_the_weights_that_led_to_errors() -> None:
    random, adaptive = A3(lean="random"), A3(lean="adaptive")
    drawn = weights(5, random, 4)
    label = min(range(4), key=drawn.__getitem__)
    reached = max(range(4), key=drawn.__getitem__)
    told = adaptive.learn([success(5, label, reached, random)], seed=3, classes=4)
    assert told.signs == Signs(true_class=-1, reached=1)
    turned = adaptive.learn([success(5, reached, label, random)], seed=3, classes=4)
    assert turned.signs == Signs(true_class=1, reached=-1)


def test_what_it_does_not_learn_from() -> None:
    """Other attacks, starts without uniform weights, nothing; and a uniform start learns nothing at all."""
    random, adaptive = A3(lean="random"), A3(lean="adaptive")
    for successes in ([], [success(5, 0, 1, FGSM())], [success(5, 0, 1, A3(lean="none"))]):
        assert adaptive.learn(successes, seed=3, classes=4) == adaptive
    assert random.learn([success(5, 0, 1, random)], seed=3, classes=4) == random


def test_what_it_has_learnt_does_not_change_its_random_numbers() -> None:
    assert identity(A3(lean="late", signs=Signs(-1, 1))) == identity(A3(lean="late"))


@pytest.mark.parametrize(("steps", "last"), [(8, 0.1 + 0.9 * 0.11698), (15, 0.001 + 0.999 * 0.03806)])
def test_steps_fall_from_eps_towards_a_tenth_or_a_thousandth_of_it(steps: int, last: float) -> None:
    """The last of 8 at 140 degrees, the last of 15 at 157.5: (1 + cos) / 2 is 0.11698 and 0.03806."""
    sizes = [A3(steps=steps)._step_size(step) for step in range(steps)]
    assert sizes[0] == 1
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == pytest.approx(last, abs=1e-5)


def brief() -> Suite:
    attacks = (
        A3(lean="random", start=2, steps=2),
        A3(lean="adaptive", start=2, steps=3, restarts=2),
        A3(lean="late", steps=2),
    )
    return Suite("brief", "1", "", attacks, rules=(Rule(), Rule(share=0.6, fewest=3), Rule(share=0.3, fewest=3)))


def test_a_run_that_is_resumed_learns_the_same(tmp_path: Path) -> None:
    x, y = small_net.rows()
    whole = evaluate(small_net.load(), x, y, threat=THREAT, suite=brief(), batch_size=16, out=tmp_path / "whole")
    assert whole.figures.status["broken"] > 0
    for after in range(1, 40, 6):
        folder = tmp_path / f"cut{after}"
        subject = subject_of(
            small_net.load(), x, y, threat=THREAT, suite=brief(), seed=0, outputs="logits", rows="all", layout="as-is",
            size=16,
        )  # fmt: skip
        left = [after]

        def stop(left: list[int] = left) -> bool:
            left[0] -= 1
            return left[0] <= 0

        finish(begin(subject, folder), stop=stop)
        assert fates(resume(folder, small_net.load(), x, y).rows) == fates(whole.rows)
        assert all(finding.holds for finding in verify_files(folder))
