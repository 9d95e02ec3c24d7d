"""FAB and FAB-T: exact where the boundary is a hyperplane, honest where it is not."""

import pytest
import torch
from torch import Tensor, nn

from brinell.attacks.fab import BETA, FAB, FABT, FINAL_STEPS
from brinell.geometry import NORMS, Norm, size
from brinell.losses import margin_of
from brinell.queries import Attack, Gradient, Scores
from brinell.threat import Threat
from models_with_known_radius import Additive, Linear, additive_worst_margin, radius, random_linear, rows_at_radius
from trials import by_hand, trial

SHAPE = (3, 2, 2)
FEATURES = 12
EPS: dict[Norm, float] = {"linf": 0.08, "l2": 0.2, "l1": 0.25}
BOXES = [(0.0, 1.0), (-1.0, 1.0)]
FABS = [FABT(steps=20), FAB(steps=20)]


def least_distance(module: nn.Module, threat: Threat, attack: Attack, x: Tensor, y: Tensor) -> Tensor:
    """Distance of the nearest misclassified point that was asked about, per row, infinite where none was."""
    least = torch.full((len(x),), torch.inf, dtype=torch.float64)
    for query, answer in by_hand(module, threat, attack, (x, y)):
        distance = size(query.points - x, threat.norm)
        least = torch.where((margin_of(answer.logits, y) <= 0) & (distance < least), distance, least)
    return least


def points_of(attack: Attack, module: nn.Module, threat: Threat, x: Tensor, y: Tensor) -> Tensor:
    return torch.stack([query.points for query, _ in by_hand(module, threat, attack, (x, y))])


@pytest.mark.parametrize("attack", FABS, ids=["fab-t", "fab"])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("box", BOXES, ids=["0..1", "-1..1"])
@pytest.mark.parametrize("active", [False, True], ids=["ball", "box"])
def test_on_a_linear_model_it_finds_the_nearest_error(attack, norm, classes, box, active):
    """Whatever eps is: here a third of the rows' radius, so that all of it happens outside the threat set.

    Where the box takes part in Linf, the overshooting step is cut by it, and on the way back from there the coordinates
    at the box shrink like the others: up to half a per cent stays.
    """
    model = random_linear(classes, FEATURES, seed=11, centre=sum(box) / 2)
    exact = EPS[norm] * (box[1] - box[0])
    x, y = rows_at_radius(model, norm, exact, box, shape=SHAPE, count=16, active=active, seed=3)
    least = least_distance(model, Threat(norm, exact / 3, *box), attack.fit(classes), x, y)
    assert (least >= exact * (1 - 1e-9)).all()
    assert (least <= exact * (1.005 if norm == "linf" and active else 1.001)).all()


@pytest.mark.parametrize("attack", FABS, ids=["fab-t", "fab"])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("active", [False, True], ids=["ball", "box"])
def test_rows_fall_at_their_radius_and_not_before(attack, norm, active):
    model = random_linear(5, FEATURES, seed=12)
    threat = Threat(norm, EPS[norm])
    for ratio, all_fall in ((1.01, True), (0.99, False)):
        x, y = rows_at_radius(model, norm, EPS[norm] / ratio, BOXES[0], shape=SHAPE, count=16, active=active, seed=5)
        run = trial(model, threat, attack.fit(5), (x, y))
        assert run.fell == (set(range(16)) if all_fall else set())
        assert set(run.outcomes.values()) <= {"fell", "stood"}


@pytest.mark.parametrize("norm", NORMS)
def test_float32_is_as_exact(norm):
    model = random_linear(5, FEATURES, seed=13)
    x, y = rows_at_radius(model, norm, EPS[norm], BOXES[0], shape=SHAPE, count=16, active=False, seed=6)
    single = Linear(model.weight.detach().float(), model.bias.detach().float())
    least = least_distance(single, Threat(norm, 0.01), FABT(steps=20).fit(5), x.float(), y)
    assert ((least - EPS[norm]).abs() <= 0.001 * EPS[norm]).all()


@pytest.mark.parametrize("norm", NORMS)
def test_a_target_is_a_target(norm):
    """Each attempt of FAB-T ends at the boundary with its own class, the classes by descending clean logit."""
    model = random_linear(4, FEATURES, seed=14, centre=0.0)
    x = 0.1 * torch.randn(8, FEATURES, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    logits = model(x)
    y = logits.argmax(1)
    wide = Threat(norm, 1.0, low=-100.0, high=100.0)
    said = by_hand(model, wide, FABT(steps=15, targets=3), (x, y))
    per_attempt = len(said) // 3
    order = logits.argsort(dim=1, descending=True)
    for rank in range(3):
        attempt = said[rank * per_attempt : (rank + 1) * per_attempt]
        target = order[:, rank + 1]
        assert all(torch.equal(query.target, target) for query, _ in attempt if isinstance(query, Gradient))
        # on the way z_target - z_y vanishes to within the overshooting of the steps
        gaps = torch.stack([(a.logits.gather(1, target[:, None]) - a.logits.gather(1, y[:, None])) for _, a in attempt])
        assert (gaps[0] < 0).all()
        assert (gaps.abs().amin(dim=0) <= 0.06 * gaps[0].abs()).all()


def test_the_nearest_of_all_boundaries_is_looked_for_at_every_step():
    """Three classes, that of the second-highest logit the farther one: FAB takes the nearer boundary."""
    weight = torch.tensor([[0.0, 0.0], [0.1, 0.0], [0.0, 4.0]], dtype=torch.float64)
    model = Linear(weight, torch.tensor([0.0, -0.1, -1.0], dtype=torch.float64))
    x, y = torch.zeros(1, 2, dtype=torch.float64), torch.zeros(1, dtype=torch.int64)
    wide = Threat("l2", 1.0, low=-10.0, high=10.0)
    assert radius(model, x, y, "l2").tolist() == [0.25]
    points = points_of(FAB(steps=3, rivals=2), model, wide, x, y)
    assert points[1, 0].tolist() == pytest.approx([0.0, 0.25 * 1.05])  # after both gradients at the clean point
    assert float(least_distance(model, wide, FAB(steps=3, rivals=2), x, y)) == pytest.approx(0.25, rel=1e-3)


@pytest.mark.parametrize("norm", NORMS)
def test_one_step_by_hand(norm):
    """The first step goes 1.05 times the way to the hyperplane; the next begins at 0.9 of where that led."""
    model = random_linear(2, 4, seed=15, centre=0.0)
    x = torch.zeros(1, 4, dtype=torch.float64)
    x[0] += 0.3 * (model.weight[0] - model.weight[1]).detach()
    y = model(x).argmax(1)
    wide = Threat(norm, 1.0, low=-50.0, high=50.0)
    r = float(radius(model, x, y, norm))
    points = points_of(FABT(steps=3, targets=1), model, wide, x, y)
    away = size((points - x).squeeze(1), norm).tolist()
    alpha = (r - BETA * 1.05 * r) / (2 * r - BETA * 1.05 * r)
    from_back = BETA * 1.05 * r + 1.05 * (r - BETA * 1.05 * r)
    assert away[:3] == pytest.approx([0.0, 1.05 * r, (1 - alpha) * from_back + alpha * 1.05 * r])


@pytest.mark.parametrize("norm", NORMS)
def test_random_starts_lie_at_half_the_radius(norm):
    model = random_linear(3, FEATURES, seed=16)
    x = torch.full((6, *SHAPE), 0.5, dtype=torch.float64)
    y = torch.zeros(6, dtype=torch.int64)
    for attack, firsts in ((FAB(steps=2, restarts=3, rivals=2), 3), (FABT(steps=2, restarts=2, targets=2), 4)):
        points = points_of(attack, model, Threat(norm, 0.3), x, y)
        starts = points[:: len(points) // firsts]
        away = size((starts - x).flatten(0, 1), norm).view(firsts, 6)
        random = firsts - (1 if isinstance(attack, FAB) else attack.targets)
        assert not away[:-random].any()
        assert torch.allclose(away[-random:], torch.full_like(away[-random:], 0.15))
        # over every direction: no coordinate is always on the same side
        assert 0.2 < float((starts[-random:] > x).double().mean()) < 0.8


@pytest.mark.parametrize("norm", NORMS)
def test_the_final_search_is_on_the_segment_to_the_nearest_error(norm):
    """A boundary that no hyperplane describes: the search gets nearer to the crossing on the way from x to x_out."""
    heights = torch.randn(2, 6, 5, generator=torch.Generator().manual_seed(17), dtype=torch.float64)
    model = Additive(heights)
    x = torch.rand(40, 6, generator=torch.Generator().manual_seed(18), dtype=torch.float64)
    y = model(x).argmax(1)
    said = by_hand(model, Threat(norm, 0.01), FABT(steps=8, targets=1), (x, y))
    before, search = said[:-FINAL_STEPS], said[-FINAL_STEPS:]
    assert all(isinstance(query, Scores) for query, _ in search)
    errors = [(query.points, margin_of(answer.logits, y) <= 0) for query, answer in before]
    away = torch.stack([torch.where(wrong, size(points - x, norm), torch.inf) for points, wrong in errors])
    u, which = away.min(dim=0)
    found = u.isfinite()
    assert found.sum() > 20
    x_out = torch.stack([points for points, _ in errors])[which, torch.arange(40)]
    length = (x_out - x).norm(dim=1)[found]
    share = torch.stack([(query.points - x).norm(dim=1)[found] / length for query, _ in search])
    aligned = torch.stack([((query.points - x) * (x_out - x)).sum(1)[found] for query, _ in search])
    assert torch.allclose(aligned, share * length**2)
    assert ((share > 0) & (share <= 1 + 1e-12)).all()
    wrong = torch.stack([margin_of(answer.logits, y)[found] <= 0 for _, answer in search])
    nearest = torch.where(wrong, share, 1.0).amin(dim=0)
    assert (nearest < 0.999).sum() > 10
    assert not search[0][0].points[~found].sub(x[~found]).any()


@pytest.mark.parametrize("attack", [FABT(steps=30), FAB(steps=30)], ids=["fab-t", "fab"])
def test_a_model_with_kinks_keeps_it_honest(attack):
    """Whoever falls is truly not robust, and most who are not robust fall."""
    heights = torch.randn(3, 6, 5, generator=torch.Generator().manual_seed(14), dtype=torch.float64)
    model = Additive(heights)
    x = torch.rand(64, 6, generator=torch.Generator().manual_seed(15), dtype=torch.float64)
    y = model(x).argmax(1)
    breakable = set((additive_worst_margin(model, x, y, 0.1) <= 0).nonzero().squeeze(1).tolist())
    run = trial(model, Threat("linf", 0.1), attack.fit(3), (x, y))
    assert run.fell <= breakable
    assert len(run.fell) >= 0.8 * len(breakable)


class Flat(nn.Module):
    """Class 0 by a margin of 1 everywhere, without a slope."""

    def forward(self, x: Tensor) -> Tensor:
        nothing = 0.0 * x.flatten(1).sum(1, keepdim=True)
        return torch.cat([nothing + 1, nothing, nothing], dim=1)


@pytest.mark.parametrize("attack", FABS, ids=["fab-t", "fab"])
@pytest.mark.parametrize("norm", NORMS)
def test_without_gradient_it_stays_and_ends(attack, norm):
    x = torch.rand(3, *SHAPE, generator=torch.Generator().manual_seed(19), dtype=torch.float64)
    y = torch.zeros(3, dtype=torch.int64)
    points = points_of(attack.fit(3), Flat(), Threat(norm, 0.1), x, y)
    assert (points == x).all()
    assert set(trial(Flat(), Threat(norm, 0.1), attack.fit(3), (x, y)).outcomes.values()) == {"stood"}


@pytest.mark.parametrize("norm", NORMS)
def test_a_boundary_outside_the_box_leads_to_its_corner(norm):
    """No point of the box is misclassified; the attack ends in the corner that comes nearest to it."""
    weight = torch.tensor([[1.0, -2.0, 0.0], [-1.0, 1.0, 0.5]], dtype=torch.float64)
    model = Linear(weight, torch.tensor([10.0, 0.0], dtype=torch.float64))
    x = torch.full((1, 3), 0.5, dtype=torch.float64)
    y = torch.zeros(1, dtype=torch.int64)
    said = by_hand(model, Threat(norm, 0.1), FABT(steps=10, targets=1), (x, y))
    assert all(float(margin_of(answer.logits, y)) > 0 for _, answer in said)
    assert said[10][0].points.tolist() == [pytest.approx([0.0, 1.0, 1.0], abs=1e-6)]


@pytest.mark.parametrize(
    ("attack", "forwards", "backwards"),
    [
        (FABT(), 9 * 104, 9 * 100),
        (FABT(steps=7, restarts=2, targets=3), 6 * 11, 6 * 7),
        (FAB(), 104, 900),
        (FAB(steps=7, restarts=5, rivals=2), 5 * 11, 5 * 14),
    ],
)
def test_what_it_costs(attack, forwards, backwards):
    assert attack.cost() == (forwards, backwards)


def test_few_classes():
    assert FABT().fit(3) == FABT(targets=2)
    assert FAB().fit(2) == FAB(rivals=1)
    assert (FABT().fit(100), FAB().fit(100)) == (FABT(), FAB())
