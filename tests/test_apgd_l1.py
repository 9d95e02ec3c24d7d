"""APGD in L1: exact on linear models, its balls and its sparse steps as defined."""

import pytest
import torch
from torch import Tensor

from brinell.attacks.apgd_l1 import APGDL1, _few_signs
from brinell.geometry import size
from brinell.losses import CROSS_ENTROPY, DLR, MARGIN, TARGETED_DLR, TARGETED_MARGIN, Loss, TargetedLoss
from brinell.queries import Gradient, Scores
from brinell.threat import Threat
from models_with_known_radius import duel, random_linear, rows_at_radius
from trials import by_hand, trial

SHAPE = (3, 2, 2)
FEATURES = 12
EPS = 0.25


@pytest.mark.parametrize("active", [False, True], ids=["ball", "box"])
@pytest.mark.parametrize("box", [(0.0, 1.0), (-1.0, 1.0)], ids=["0..1", "-1..1"])
@pytest.mark.parametrize(
    ("loss", "classes"),
    [
        (CROSS_ENTROPY, 2),
        (CROSS_ENTROPY, 6),
        (MARGIN, 2),
        (DLR, 3),
        (TARGETED_DLR, 4),
        (TARGETED_MARGIN, 5),
        (TARGETED_DLR, 3),
    ],
    ids=str,
)
def test_rows_fall_at_their_radius_and_not_before(loss: Loss | TargetedLoss, classes, box, active):
    make = random_linear if loss is TARGETED_MARGIN else duel
    model = make(classes, FEATURES, seed=11, centre=sum(box) / 2)
    eps = EPS * (box[1] - box[0])
    for ratio, all_fall in ((1.01, True), (0.99, False)):
        x, y = rows_at_radius(model, "l1", eps / ratio, box, shape=SHAPE, count=16, active=active, seed=3)
        run = trial(model, Threat("l1", eps, *box), APGDL1(loss=loss, steps=60).fit(classes), (x, y))
        assert run.fell == (set(range(16)) if all_fall else set())
        assert set(run.outcomes.values()) <= {"fell", "stood"}


def test_float32_models_are_attacked_as_exactly():
    model = random_linear(4, FEATURES, seed=13)
    single = random_linear(4, FEATURES, seed=13).float()
    for ratio, all_fall in ((1.01, True), (0.99, False)):
        x, y = rows_at_radius(model, "l1", EPS / ratio, (0.0, 1.0), shape=SHAPE, count=16, active=False, seed=5)
        run = trial(single, Threat("l1", EPS), APGDL1(loss=TARGETED_MARGIN).fit(4), (x.float(), y))
        assert run.fell == (set(range(16)) if all_fall else set())


def rows(count: int, features: int) -> tuple[Tensor, Tensor]:
    x = torch.rand(count, features, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return x, torch.zeros(count, dtype=torch.int64)


@pytest.mark.parametrize(
    ("steps", "phases", "points"),
    [
        (100, 3, [31, 31, 41]),  # 30 %, 30 %, 40 %, and where each ball is entered
        (10, 3, [4, 4, 5]),
        (1, 3, [1, 1, 2]),
        (10, 2, [5, 7]),  # 45 % of 10, rounded down, and the rest
        (10, 1, [11]),
    ],
)
def test_the_balls_shrink_to_the_radius(steps, phases, points):
    x, y = rows(5, 30)
    model = random_linear(3, 30, seed=2)
    attack = APGDL1(steps=steps, phases=phases)
    said = by_hand(model, Threat("l1", 0.5), attack, (x, y))
    assert len(said) == sum(points)
    ended = 0
    for ball, count in zip(range(phases, 0, -1), points, strict=True):
        wider = Threat("l1", 0.5 * ball)
        queries = [query for query, _ in said[ended : ended + count]]
        assert all(wider.contains(x, query.points).all() for query in queries)
        assert all(isinstance(query, Gradient) for query in queries[:-1])
        assert isinstance(queries[-1], Scores)
        # entered from outside, on its surface
        assert torch.allclose(size(queries[0].points - x, "l1"), torch.full((5,), 0.5 * ball, dtype=torch.float64))
        ended += count


@pytest.mark.parametrize(
    ("attack", "forwards", "backwards"),
    [
        (APGDL1(), 103, 100),
        (APGDL1(restarts=5), 515, 500),
        (APGDL1(loss=TARGETED_DLR, targets=5), 515, 500),
        (APGDL1(steps=7, phases=1), 8, 7),
    ],
)
def test_what_it_costs(attack, forwards, backwards):
    assert attack.cost() == (forwards, backwards)


def test_each_ball_is_entered_with_the_best_point_of_the_one_before():
    """On a linear model of two classes: the projection of the point with the highest loss onto the next ball."""
    x, y = rows(6, 20)
    model = duel(2, 20, seed=3)
    said = by_hand(model, Threat("l1", 0.2), APGDL1(steps=20, phases=2, loss=MARGIN), (x, y))
    first = said[:10]
    losses = torch.stack([MARGIN.climb(answer.logits, y) for _, answer in first])
    points = torch.stack([query.points for query, _ in first])
    best = points[losses.argmax(dim=0), torch.arange(6)]
    entered = Threat("l1", 0.2).around(x).project(best)
    assert torch.equal(said[10][0].points, entered)


def test_a_step_moves_few_coordinates_by_hand():
    """Gradient (4, -3, 2, 2, 1, 0), the first coordinate at the upper face, where it can go no further up."""
    grad = torch.tensor([[4.0, -3.0, 2.0, 2.0, 1.0, 0.0]]).expand(5, -1)
    x_adv = torch.tensor([[1.0, 0.5, 0.5, 0.5, 0.5, 0.5]]).expand(5, -1)
    ball = Threat("l1", 1.0).around(x_adv)
    steps = _few_signs(grad, x_adv, torch.tensor([0.4, 1.9, 2.0, 4.0, 6.0]), ball)
    third, quarter = 1 / 3, 0.25
    expected = [
        [0, -1, 0, 0, 0, 0],  # at least one
        [0, -1, 0, 0, 0, 0],
        [0, -third, third, third, 0, 0],  # equal entries stay together
        [0, -quarter, quarter, quarter, quarter, 0],
        [0, -quarter, quarter, quarter, quarter, 0],  # nothing moves without a gradient
    ]
    assert torch.allclose(steps, torch.tensor(expected))
    # away from the face the first coordinate moves, and towards it from the other side too
    assert torch.allclose(_few_signs(-grad, x_adv, torch.ones(5), ball)[0], torch.tensor([-1.0, 0, 0, 0, 0, 0]))
    assert not _few_signs(torch.zeros(5, 6), x_adv, torch.ones(5), ball).any()


def test_the_perturbation_grows_sparse():
    """On a linear model with one coordinate much steeper than the others: all of the radius ends on it."""
    model = duel(2, 40, seed=4)
    with torch.no_grad():
        model.weight[0, 7] += 20
    x, y = 0.4 + 0.2 * rows(6, 40)[0], model(0.5 * torch.ones(6, 40, dtype=torch.float64)).argmax(1)
    said = by_hand(model, Threat("l1", 0.3), APGDL1(steps=60, loss=MARGIN), (x, y))
    changed = (said[-1][0].points - x).abs()
    assert torch.allclose(changed[:, 7], torch.full((6,), 0.3, dtype=torch.float64))
    assert float(changed.sum(1).max()) <= 0.3 * (1 + 1e-9)


def test_few_classes():
    assert APGDL1(loss=TARGETED_DLR).fit(3) == APGDL1(loss=TARGETED_MARGIN, targets=2)
    assert APGDL1(loss=DLR).fit(2) == APGDL1(loss=MARGIN, targets=1)
    assert APGDL1(loss=TARGETED_DLR).attempts() == 9
    assert APGDL1().attempts() == 1
