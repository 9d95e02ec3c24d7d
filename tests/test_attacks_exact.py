"""Attacks on models that know their own robust radius: each succeeds at 1.01 times that radius, and none at 0.99 times it.

Two kinds of linear model. In a duel two classes contend and every loss is a function of their margin alone (see
``models_with_known_radius.duel``), so that any loss will do. Among several classes an untargeted loss may climb towards the
wrong rival, so that there only targeted losses that try every class are exact.
"""

from dataclasses import dataclass

import pytest
import torch
from brinell.attacks.catalogue import attack_from
from brinell.attacks.pgd import PGD
from brinell.geometry import NORMS, Norm
from brinell.losses import CROSS_ENTROPY, MARGIN, TARGETED_MARGIN
from brinell.queries import Attack
from brinell.threat import Threat
from models_with_known_radius import (
    Additive,
    Linear,
    additive_worst_margin,
    duel,
    radius,
    random_linear,
    rows_at_radius,
    worst_margin,
)
from trials import trial

SHAPE = (3, 2, 2)
FEATURES = 12
EPS: dict[Norm, float] = {"linf": 0.08, "l2": 0.2, "l1": 0.25}
"""In units of a box of width 1: a ball around a point of the middle half does not reach the box."""
UNIT, SIGNED = (0.0, 1.0), (-1.0, 1.0)


@dataclass(frozen=True)
class Case:
    """An attack that must be exact, and where."""

    table: dict[str, object]
    classes: int
    norms: tuple[Norm, ...] = NORMS
    box_active: tuple[Norm, ...] = NORMS
    """The norms in which it is exact where the box cuts the ball."""

    def __str__(self) -> str:
        return " ".join(str(value) for value in self.table.values()) + f" K={self.classes}"


CASES = [
    # one step: in L2 the best point of a ball that the box cuts is not where one step, projected, leads
    Case({"attack": "fgsm", "loss": "ce"}, 2, box_active=("linf", "l1")),
    Case({"attack": "fgsm", "loss": "ce"}, 5, box_active=("linf", "l1")),
    Case({"attack": "fgsm", "loss": "margin"}, 2, box_active=("linf", "l1")),
    Case({"attack": "fgsm", "loss": "dlr"}, 3, box_active=("linf", "l1")),
    Case({"attack": "fgsm", "loss": "dlr"}, 2, box_active=("linf", "l1")),
    # a constant step in L1 circles around an optimum that lies on the box, see test_constant_l1_steps_within_the_box
    Case({"attack": "pgd", "loss": "ce"}, 2, box_active=("linf", "l2")),
    Case({"attack": "pgd", "loss": "margin"}, 2, box_active=("linf", "l2")),
    Case({"attack": "pgd", "loss": "dlr"}, 4, box_active=("linf", "l2")),
    Case({"attack": "pgd", "loss": "ce", "schedule": "cosine", "step_size": 0.25}, 5),
    Case({"attack": "pgd", "loss": "targeted-margin", "schedule": "cosine", "step_size": 0.25, "steps": 60}, 2),
    Case({"attack": "pgd", "loss": "targeted-margin", "schedule": "cosine", "step_size": 0.25, "steps": 60}, 5),
    Case({"attack": "pgd", "loss": "targeted-ce", "steps": 30}, 2, box_active=("linf", "l2")),
    Case({"attack": "apgd", "loss": "ce", "steps": 40}, 2, ("linf", "l2"), ("linf", "l2")),
    Case({"attack": "apgd", "loss": "ce", "steps": 40}, 6, ("linf", "l2"), ("linf", "l2")),
    Case({"attack": "apgd", "loss": "margin", "steps": 40}, 2, ("linf", "l2"), ("linf", "l2")),
    Case({"attack": "apgd", "loss": "dlr", "steps": 40}, 3, ("linf", "l2"), ("linf", "l2")),
    Case({"attack": "apgd", "loss": "targeted-dlr", "steps": 40}, 4, ("linf", "l2"), ("linf", "l2")),
    Case({"attack": "apgd", "loss": "targeted-margin", "steps": 40}, 5, ("linf", "l2"), ("linf", "l2")),
    Case({"attack": "apgd", "loss": "targeted-dlr", "steps": 40}, 3, ("linf", "l2"), ("linf", "l2")),
]


def model_for(case: Case, box: tuple[float, float], seed: int) -> Linear:
    centre = sum(box) / 2
    several = str(case.table["loss"]).startswith("targeted") and case.table["loss"] != "targeted-dlr"
    return (random_linear if several else duel)(case.classes, FEATURES, seed=seed, centre=centre)


def assert_exact(attack: Attack, model: Linear, norm: Norm, box: tuple[float, float], *, active: bool) -> None:
    """Rows of radius eps / 1.01 all fall, rows of radius eps / 0.99 all stand."""
    eps = EPS[norm] * (box[1] - box[0])
    threat = Threat(norm, eps, *box)
    for ratio, all_fall in ((1.01, True), (0.99, False)):
        x, y = rows_at_radius(model, norm, eps / ratio, box, shape=SHAPE, count=16, active=active, seed=3)
        run = trial(model, threat, attack.fit(len(model.bias)), (x, y))
        assert set(run.outcomes.values()) <= {"fell", "stood"}
        assert run.fell == (set(range(16)) if all_fall else set())


@pytest.mark.parametrize(
    ("case", "norm", "active"),
    [
        pytest.param(case, norm, active, id=f"{case}-{norm}-{'box' if active else 'ball'}")
        for case in CASES
        for norm in case.norms
        for active in (False, True)
        if not active or norm in case.box_active
    ],
)
@pytest.mark.parametrize("box", [UNIT, SIGNED], ids=["0..1", "-1..1"])
def test_the_attack_finds_the_exact_radius(case, norm, active, box):
    assert_exact(attack_from(case.table), model_for(case, box, seed=11), norm, box, active=active)


def test_the_two_closed_forms_of_the_truth_agree():
    """Where the box is far, the worst margin at the radius is 0, above 0 within it and below 0 beyond."""
    for norm in NORMS:
        model = random_linear(4, FEATURES, seed=1)
        x = torch.rand(30, FEATURES, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
        y = model(x).argmax(1)
        radii = radius(model, x, y, norm)
        assert (radii > 0).all()
        for i in range(30):
            row = (model, x[i : i + 1], y[i : i + 1], norm)
            at = [float(worst_margin(*row, float(radii[i]) * share, (-1e3, 1e3))) for share in (0.99, 1.0, 1.01)]
            assert at[0] > 0 > at[2]
            assert abs(at[1]) < 1e-8


@pytest.mark.parametrize("norm", NORMS)
def test_the_rows_have_the_radius_that_they_were_asked_for(norm):
    """And the box takes part in it where it should: without the box such rows would fall earlier."""
    model = random_linear(4, FEATURES, seed=5)
    for active in (False, True):
        x, y = rows_at_radius(model, norm, EPS[norm], UNIT, shape=SHAPE, count=10, active=active, seed=6)
        assert ((x >= 0) & (x <= 1)).all()
        assert worst_margin(model, x, y, norm, EPS[norm], UNIT).abs().max() < 1e-9
        free = radius(model, x, y, norm)
        if active:
            assert (free < 0.97 * EPS[norm]).any()
        else:
            assert torch.allclose(free, torch.full_like(free, EPS[norm]), rtol=1e-9)


def test_constant_l1_steps_within_the_box():
    """What PGD's constant steps of 0.1 eps leave on the table in L1 where the box cuts the ball: less than a tenth."""
    model = duel(2, FEATURES, seed=11)
    for ratio, all_fall in ((1.1, True), (0.99, False)):
        x, y = rows_at_radius(model, "l1", EPS["l1"] / ratio, UNIT, shape=SHAPE, count=16, active=True, seed=3)
        run = trial(model, Threat("l1", EPS["l1"]), PGD(loss=MARGIN), (x, y))
        assert run.fell == (set(range(16)) if all_fall else set())


@pytest.mark.parametrize("norm", NORMS)
def test_what_cross_entropy_misses_among_several_classes_is_bounded(norm):
    """Untargeted climbing may choose the wrong rival; on random linear models of 5 classes nothing survives at 1.5 radii."""
    model = random_linear(5, FEATURES, seed=12)
    x, y = rows_at_radius(model, norm, EPS[norm] / 1.5, UNIT, shape=SHAPE, count=32, active=False, seed=4)
    run = trial(model, Threat(norm, EPS[norm]), PGD(loss=CROSS_ENTROPY), (x, y))
    assert len(run.fell) == 32


def test_float32_models_are_attacked_as_exactly():
    for norm in NORMS:
        model = random_linear(4, FEATURES, seed=13)
        for ratio, all_fall in ((1.01, True), (0.99, False)):
            x, y = rows_at_radius(model, norm, EPS[norm] / ratio, UNIT, shape=SHAPE, count=16, active=False, seed=5)
            single = Linear(model.weight.detach().float(), model.bias.detach().float())
            attack = PGD(loss=TARGETED_MARGIN, schedule="cosine", step_size=0.25).fit(4)
            run = trial(single, Threat(norm, EPS[norm]), attack, (x.float(), y))
            assert run.fell == (set(range(16)) if all_fall else set())


def test_a_model_that_is_not_monotone_keeps_the_attacks_honest():
    """Additive with kinks: whoever falls is truly not robust, and restarts find most of those who are not."""
    heights = torch.randn(3, 6, 5, generator=torch.Generator().manual_seed(14), dtype=torch.float64)
    model = Additive(heights)
    x = torch.rand(64, 6, generator=torch.Generator().manual_seed(15), dtype=torch.float64)
    y = model(x).argmax(1)
    worst = additive_worst_margin(model, x, y, 0.1)
    run = trial(model, Threat("linf", 0.1), PGD(loss=TARGETED_MARGIN, steps=20, restarts=3).fit(3), (x, y))
    breakable = set((worst <= 0).nonzero().squeeze(1).tolist())
    assert 10 < len(breakable) < 54
    assert run.fell <= breakable
    assert len(run.fell) >= 0.9 * len(breakable)
    # the truth is no looser than what was met, and met by a grid of points for three features at once
    met = torch.tensor([margin for _, margin in sorted(run.best_margins.items()) if margin is not None])
    assert (met >= worst - 1e-9).all()
