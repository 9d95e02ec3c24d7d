"""Attacks on models that know their own robust radius: each succeeds at 1.01 times it, and none at 0.99 times it.

Two kinds of linear model. In a duel two classes contend and every loss is a function of their margin alone (see
``models_with_known_radius.duel``), so that any loss will do. Among several classes an untargeted loss may climb towards
the wrong rival, so that there only targeted losses that try every class are exact.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import pytest
import torch
from torch import Tensor, nn

from brinell.attacks.apgd import APGD, _checkpoints
from brinell.attacks.catalogue import attack_from
from brinell.attacks.pgd import PGD
from brinell.geometry import NORMS, Norm
from brinell.losses import CROSS_ENTROPY, MARGIN, TARGETED_MARGIN
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
from trials import by_hand, trial

pytestmark = pytest.mark.usefixtures("without_shape_checks")

ROWS = 16
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

    @property
    def kind(self) -> Callable[..., Linear]:
        return random_linear if self.table["loss"] in ("targeted-margin", "targeted-ce") else duel

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
    Case({"attack": "pgd", "loss": "margin", "step_size": 0.25, "steps": 25}, 2, box_active=("linf", "l2")),
    Case({"attack": "pgd", "loss": "dlr", "step_size": 0.25, "steps": 25}, 4, box_active=("linf", "l2")),
    Case({"attack": "pgd", "loss": "ce", "schedule": "cosine", "step_size": 0.5, "steps": 20}, 5),
    Case({"attack": "pgd", "loss": "targeted-margin", "schedule": "cosine", "step_size": 0.5, "steps": 20}, 2),
    Case({"attack": "pgd", "loss": "targeted-margin", "schedule": "cosine", "step_size": 0.5, "steps": 20}, 4),
    Case({"attack": "pgd", "loss": "targeted-ce", "steps": 25, "step_size": 0.25}, 2, box_active=("linf", "l2")),
    Case({"attack": "apgd", "loss": "ce", "steps": 25}, 2, ("linf", "l2"), ("linf", "l2")),
    Case({"attack": "apgd", "loss": "ce", "steps": 25}, 6, ("linf", "l2"), ("linf", "l2")),
    Case({"attack": "apgd", "loss": "margin", "steps": 25}, 2, ("linf", "l2"), ("linf", "l2")),
    Case({"attack": "apgd", "loss": "dlr", "steps": 25}, 3, ("linf", "l2"), ("linf", "l2")),
    Case({"attack": "apgd", "loss": "targeted-dlr", "steps": 20}, 4, ("linf", "l2"), ("linf", "l2")),
    Case({"attack": "apgd", "loss": "targeted-margin", "steps": 20}, 4, ("linf", "l2"), ("linf", "l2")),
    Case({"attack": "apgd", "loss": "targeted-dlr", "steps": 20}, 3, ("linf", "l2"), ("linf", "l2")),
]


@cache
def solved(
    kind: Callable[..., Linear], classes: int, norm: Norm, box: tuple[float, float], active: bool
) -> tuple[Linear, dict[float, tuple[Tensor, Tensor]]]:
    """A model, and rows of which eps is 1.01 times the radius and others of which it is 0.99 times the radius."""
    model = kind(classes, FEATURES, seed=11, centre=sum(box) / 2)
    eps = EPS[norm] * (box[1] - box[0])
    ratios = (1.01, 0.99)
    options = {"shape": SHAPE, "count": ROWS, "active": active, "seed": 3}
    return model, {ratio: rows_at_radius(model, norm, eps / ratio, box, **options) for ratio in ratios}


@pytest.mark.parametrize(
    ("case", "norm", "box", "active"),
    [
        pytest.param(case, norm, box, active, id=f"{case}-{norm}-{'cut by ' if active else ''}{box}")
        for case in CASES
        for norm in case.norms
        for box, active in ((UNIT, False), (SIGNED, norm in case.box_active))
    ],
)
def test_the_attack_finds_the_exact_radius(case, norm, box, active):
    model, rows = solved(case.kind, case.classes, norm, box, active)
    threat = Threat(norm, EPS[norm] * (box[1] - box[0]), *box)
    attack = attack_from(case.table).fit(case.classes)
    beyond, within = (trial(model, threat, attack, rows[ratio]) for ratio in (1.01, 0.99))
    assert beyond.outcomes == dict.fromkeys(range(ROWS), "fell")
    assert within.outcomes == dict.fromkeys(range(ROWS), "stood")


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
    """Untargeted climbing may choose the wrong rival: on a random linear model of 5 classes, at 1.5 radii, for fewer
    than a quarter of the rows."""
    model = random_linear(5, FEATURES, seed=12)
    x, y = rows_at_radius(model, norm, EPS[norm] / 1.5, UNIT, shape=SHAPE, count=32, active=False, seed=4)
    run = trial(model, Threat(norm, EPS[norm]), PGD(loss=CROSS_ENTROPY, steps=20), (x, y))
    assert len(run.fell) >= 24


def test_float32_models_are_attacked_as_exactly():
    for norm in NORMS:
        model = random_linear(4, FEATURES, seed=13)
        for ratio, all_fall in ((1.01, True), (0.99, False)):
            x, y = rows_at_radius(model, norm, EPS[norm] / ratio, UNIT, shape=SHAPE, count=16, active=False, seed=5)
            single = Linear(model.weight.detach().float(), model.bias.detach().float())
            attack = PGD(loss=TARGETED_MARGIN, schedule="cosine", step_size=0.5, steps=20).fit(4)
            run = trial(single, Threat(norm, EPS[norm]), attack, (x.float(), y))
            assert run.fell == (set(range(16)) if all_fall else set())


def test_apgds_checkpoints():
    """``p`` = 0.22, + 0.19, + 0.16, + 0.13, + 0.10, + 0.07, then + 0.06 each (Croce & Hein 2020, section 3)."""
    assert _checkpoints(100) == {22, 41, 57, 70, 80, 87, 93, 99}
    # 2.2, 4.1, 5.7, 7.0, 8.0, 8.7, 9.3, 9.9, rounded up
    assert _checkpoints(10) == {3, 5, 6, 7, 8, 9, 10}


def apgd_of_the_paper(
    climb: Callable[[Tensor], tuple[float, Tensor]],
    project: Callable[[Tensor], Tensor],
    start: Tensor,
    step: float,
    steps: int,
) -> tuple[list[Tensor], int]:
    """Algorithm 1 of Croce & Hein 2020 for one point; ``climb`` gives the loss and the direction of the step.

    Returns the points and how often the step was halved.
    """
    checkpoints = {-(-percent * steps // 100) for percent in (22, 41, 57, 70, 80, 87, 93, 99)}
    f_start, direction = climb(start)
    x_before, x = start, project(start + step * direction)
    points = [start, x]
    f, direction = climb(x)
    f_max, x_max = max((f_start, start), (f, x), key=lambda pair: pair[0])
    step_at_last, f_max_at_last, last, rises, halved = step, f_start, 0, int(f > f_start), 0
    for k in range(1, steps):
        if k in checkpoints:
            too_few = rises < 0.75 * (k - last)
            unchanged = step_at_last == step and f_max_at_last == f_max
            step_at_last, f_max_at_last, last, rises = step, f_max, k, 0
            if too_few or unchanged:
                step, x, halved = step / 2, x_max, halved + 1
                f, direction = climb(x)
        z = project(x + step * direction)
        x_before, x = x, project(x + 0.75 * (z - x) + 0.25 * (x - x_before))
        points.append(x)
        f_before = f
        f, direction = climb(x)
        rises += f > f_before
        if f > f_max:
            f_max, x_max = f, x
    return points, halved


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_apgd_goes_where_the_papers_algorithm_goes(norm):
    """Point by point from the same start, on a function with curvature, the box out of reach."""
    generator = torch.Generator().manual_seed(16)
    first, second = (
        torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((FEATURES, 20), (20, 3))
    )

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Parameter(first), nn.Parameter(second)

        def forward(self, x: Tensor) -> Tensor:
            return (4 * x @ self.first).sin() @ self.second

    x = torch.rand(8, FEATURES, generator=generator, dtype=torch.float64)
    y = Net()(x).argmax(1)
    eps, steps = 0.5, 40
    attack = APGD(loss=MARGIN, steps=steps)
    said = by_hand(Net(), Threat(norm, eps, -100.0, 100.0), attack, (x, y))
    assert len(said) == steps + 1
    halvings = 0
    for row in range(8):

        def climb(point: Tensor, label: Tensor = y[row]) -> tuple[float, Tensor]:
            leaf = point.clone().requires_grad_(True)
            z = Net()(leaf[None])[0]
            loss = z[torch.arange(3) != label].max() - z[label]
            (grad,) = torch.autograd.grad(loss, leaf)
            return float(loss.detach()), grad.sign() if norm == "linf" else grad / grad.norm()

        def project(point: Tensor, centre: Tensor = x[row]) -> Tensor:
            d = point - centre
            return centre + (d.clamp(-eps, eps) if norm == "linf" else d * min(1.0, eps / float(d.norm())))

        points, halved = apgd_of_the_paper(climb, project, said[0][0].points[row], 2 * eps, steps)
        halvings += halved
        for point, (query, _) in zip(points, said, strict=True):
            assert torch.allclose(query.points[row], point, rtol=0, atol=1e-7)
    assert halvings > 16


def test_a_model_that_is_not_monotone_keeps_the_attacks_honest():
    """Additive with kinks: whoever falls is truly not robust, and restarts find most of those who are not."""
    eps = 0.04
    heights = torch.randn(3, 6, 5, generator=torch.Generator().manual_seed(14), dtype=torch.float64)
    model = Additive(heights)
    x = torch.rand(64, 6, generator=torch.Generator().manual_seed(15), dtype=torch.float64)
    y = model(x).argmax(1)
    worst = additive_worst_margin(model, x, y, eps)
    run = trial(model, Threat("linf", eps), PGD(loss=TARGETED_MARGIN, steps=20, restarts=3).fit(3), (x, y))
    breakable = set((worst <= 0).nonzero().squeeze(1).tolist())
    assert 10 < len(breakable) < 54
    assert run.fell <= breakable
    assert len(run.fell) >= 0.9 * len(breakable)
    # no point that was met is worse than the worst
    met = torch.tensor([run.best_margins[row] for row in range(64)], dtype=torch.float64)
    assert (met >= worst - 1e-9).all()
