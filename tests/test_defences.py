"""Every truth is checked on the defended model itself: the named point breaks it, and nothing that was searched does.

What a truth is computed by is checked against other means where an answer is found by hand or by brute force.
"""

import itertools

import pytest
import torch
from scipy.optimize import linprog
from torch import Tensor, nn

from brinell.defences.affine import Affine, affine_worst, best_move, least_squares
from brinell.defences.catalogue import defences, defences_named
from brinell.defences.codes import Quantised, Sawtooth, Thermometer, behind, coded_worst
from brinell.defences.defence import Defence
from brinell.defences.drawing import noisy_worst
from brinell.defences.examples import attacked, fitting
from brinell.defences.filters import Rounded, cosines, rounded_worst
from brinell.defences.polyhedra import Maxout, Shifted, least_of_greatest, maxout_worst
from brinell.defences.winners import Winners, winners_worst
from brinell.errors import BadInput
from brinell.losses import margin_of
from brinell.models.outputs import as_logits
from brinell.models.torch_model import TorchModel
from brinell.threat import Threat
from models_with_known_radius import Linear, greatest_gain, worst_margin

ROWS = 12
KNOWN = [defence for defence in defences() if defence.model.worst is not None]
STEADY = [defence for defence in KNOWN if not defence.randomised]
DRAWN = [defence for defence in KNOWN if defence.randomised]


def name_of(defence: Defence) -> str:
    return defence.id


def right(defence: Defence, model: nn.Module, points: Tensor, y: Tensor) -> Tensor:
    """Which points the defended model is right on."""
    with torch.no_grad():
        return margin_of(as_logits(model(points), defence.outputs), y) > 0


def rows_of(defence: Defence, count: int = ROWS) -> tuple[Tensor, Tensor]:
    return defence.given(*attacked(count))


def inside(defence: Defence, x: Tensor, point: Tensor) -> Tensor:
    """The point in float32, inside ball and box however it was rounded."""
    threat = Threat(defence.norm, defence.eps)
    x_adv = threat.around(x).project(point.float())
    assert bool(threat.contains(x, x_adv).all())
    return x_adv


# The truths, on the defended models


@pytest.mark.parametrize("defence", STEADY, ids=name_of)
def test_the_point_of_each_breakable_row_breaks_the_defended_model(defence: Defence) -> None:
    x, y = rows_of(defence, 40)
    truth, model = defence.truth(x, y), defence.model.make()
    breakable = defence.breakable(truth)
    assert bool((truth.least <= truth.most).all())
    assert not bool(right(defence, model, inside(defence, x, truth.point), y)[breakable].any())
    assert int((breakable & right(defence, model, x, y)).sum()) >= 5, "the clean rows alone would do"
    assert int(defence.robust(truth).sum()) >= 3


@pytest.mark.parametrize("defence", STEADY, ids=name_of)
def test_no_corner_and_no_point_on_the_way_breaks_a_robust_row(defence: Defence) -> None:
    x, y = rows_of(defence, 40)
    truth, model = defence.truth(x, y), defence.model.make()
    sound = defence.robust(truth).nonzero().squeeze(1)[:6]
    x, y, point = x[sound], y[sound], truth.point[sound]
    generator = torch.Generator().manual_seed(0)
    ball = Threat(defence.norm, defence.eps).around(x)
    for trial in range(60):
        sign = torch.randn(x.shape, generator=generator).sign()
        # near the worst point, where an understated truth would show first
        some = torch.rand(x.shape, generator=generator) < trial / 60
        tried = torch.where(some, point.float(), x + defence.eps * sign)
        assert bool(right(defence, model, ball.project(tried), y).all())


@pytest.mark.parametrize("defence", DRAWN, ids=name_of)
def test_a_randomised_model_is_right_as_often_as_its_truth_says_at_the_worst_point(defence: Defence) -> None:
    x, y = rows_of(defence, 30)
    truth, model, draws = defence.truth(x, y), defence.model.make(), 600
    x_adv = inside(defence, x, truth.point)
    torch.manual_seed(0)
    often = torch.stack([right(defence, model, x_adv, y) for _ in range(draws)]).double().mean(0)
    error = (truth.most * (1 - truth.most) / draws).sqrt() + 1e-3
    assert bool((often <= truth.most + 4.5 * error).all()), "the point is not as bad as is said"
    assert bool((often >= truth.least - 4.5 * (0.25 / draws) ** 0.5).all())
    clean = torch.stack([right(defence, model, x, y) for _ in range(draws)]).double().mean(0)
    assert float(clean.sum()) > float(truth.most.sum()) + 3


@pytest.mark.parametrize("defence", [d for d in STEADY if d.model.proof in ("order kept", "forward kept")], ids=name_of)
def test_disguises_decide_as_the_model_underneath(defence: Defence) -> None:
    x, y = rows_of(defence, 100)
    generator, bare = torch.Generator().manual_seed(1), defences_named(["affine-linf"])[0].model.make()
    model = defence.model.make()
    for _ in range(20):
        points = (x + 0.1 * torch.randn(x.shape, generator=generator)).clamp(0, 1)
        margin = margin_of(bare(points), y)
        clear = margin.abs() > defence.slack
        assert torch.equal(right(defence, model, points, y)[clear], (margin > 0)[clear])
        assert int(clear.sum()) > 90


@pytest.mark.parametrize("defence", [d for d in STEADY if d.seen_by[:1] == ("zero gradient",)], ids=name_of)
def test_gradients_said_to_be_zero_are(defence: Defence) -> None:
    x, y = rows_of(defence, 40)
    model = TorchModel(defence.model.make(), defence.outputs)
    grad = model.gradient(x, lambda z: nn.functional.cross_entropy(z, y, reduction="none")).grad.flatten(1)
    absent = (grad == 0).double().mean()
    assert absent > (0.3 if defence.kind in ("scale", "gradient") and defence.id != "no-gradient" else 0.999)


# What they are computed by


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_the_best_move_gains_what_can_be_gained(norm: str) -> None:
    generator = torch.Generator().manual_seed(2)
    g = torch.randn(50, 7, generator=generator, dtype=torch.float64)
    lower, upper = -torch.rand(50, 7, generator=generator).double(), torch.rand(50, 7, generator=generator).double()
    lower[:, 0] = upper[:, 1] = 0
    for eps in (0.05, 0.4, 3.0):
        p = best_move(g, lower, upper, norm, eps)
        assert bool(((p >= lower) & (p <= upper)).all())
        order = {"linf": float("inf"), "l2": 2, "l1": 1}[norm]
        assert bool((torch.linalg.vector_norm(p, ord=order, dim=1) <= eps * (1 + 1e-9)).all())
        torch.testing.assert_close((g * p).sum(1), greatest_gain(g, lower, upper, norm, eps), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_affine_truth_is_that_of_the_tests_own_model(norm: str) -> None:
    (x, y), affine = attacked(30), least_squares(*fitting(), 10)
    truth = affine_worst(affine, norm)(x, y, 0.2)
    torch.testing.assert_close(truth.most, worst_margin(Linear(*affine), x, y, norm, 0.2, (0, 1)), rtol=1e-9, atol=1e-7)


def small(features: int, classes: int, *, seed: int) -> tuple[Affine, Tensor, Tensor]:
    """An affine model on few coordinates, and rows with its labels."""
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(classes, features, generator=generator)
    x = torch.rand(20, features, generator=generator)
    affine = Affine(weight, -weight.sum(1) / 2)
    return affine, x, affine.module()(x).argmax(1)


def grid(x: Tensor, eps: float, steps: int) -> Tensor:
    """All points of a grid over ball and box, ``(point, feature)``, in float64."""
    low, high = (x.double() - eps).clamp_min(0), (x.double() + eps).clamp_max(1)
    axes = [torch.linspace(float(a), float(b), steps, dtype=torch.float64) for a, b in zip(low, high, strict=True)]
    return torch.stack([axis.flatten() for axis in torch.meshgrid(*axes, indexing="ij")], 1)


def least_on_grid(model: nn.Module, x: Tensor, y: Tensor, eps: float, steps: int) -> Tensor:
    """The least margin of a float64 model on a grid, for each row."""
    found = []
    for row, label in zip(x, y, strict=True):
        points = grid(row, eps, steps)
        found.append(margin_of(model(points), label.expand(len(points))).min())
    return torch.stack(found).detach()


@pytest.mark.parametrize("code", [Quantised(5), Thermometer(4), Sawtooth(0.08)], ids=["levels", "thermometer", "saw"])
def test_coded_truth_is_the_least_on_a_fine_grid(code: Quantised | Thermometer | Sawtooth) -> None:
    affine, x, y = small(2, 3, seed=4)
    if isinstance(code, Thermometer):
        affine, _, _ = small(2 * 4, 3, seed=4)
    truth = coded_worst(code, affine)(x, y, 0.17)
    model = behind(code, affine).double()
    searched = least_on_grid(model, x, y, 0.17, 301)
    assert bool((searched >= truth.least - 1e-6).all())
    assert bool((margin_of(model(truth.point), y) - truth.most).abs().max() < 1e-6)
    assert float((searched - truth.least).median()) < 0.02


def test_winners_truth_is_the_least_on_a_grid() -> None:
    affine, x, y = small(4, 3, seed=5)
    truth = winners_worst(affine, 2)(x, y, 0.15)
    model = behind(Winners(2), affine).double()
    searched = least_on_grid(model, x, y, 0.15, 13)
    assert bool((searched >= truth.least - 1e-9).all())
    assert float((searched - truth.least).median()) < 0.05
    assert bool((margin_of(model(truth.point), y) - truth.most).abs().max() < 1e-4)


def test_winners_truth_by_hand() -> None:
    # margin: 3 x_0 - x_1 of the larger one; kept x_0 gives at least 3 * 0.5, x_1 overtakes at 0.6 and gives -0.7
    affine, x = Affine(torch.tensor([[3.0, -1.0], [0.0, 0.0]]), torch.zeros(2)), torch.tensor([[0.6, 0.6]])
    truth = winners_worst(affine, 1)(x, torch.tensor([0]), 0.1)
    assert float(truth.least) == pytest.approx(-0.7, abs=1e-6)
    # it stays below: 0.5 against at most 0.4
    far = winners_worst(affine, 1)(torch.tensor([[0.6, 0.3]]), torch.tensor([0]), 0.1)
    assert float(far.least) == pytest.approx(1.5, abs=1e-6)


def test_the_least_of_the_greatest_by_hand() -> None:
    # max(x - 0.2, 0.6 - x) is least at 0.4, where both are 0.2; from 0.5 on it is x - 0.2
    functions = Affine(torch.tensor([[1.0], [-1.0]]).double(), torch.tensor([-0.2, 0.6]).double())
    value, point = least_of_greatest(functions, torch.tensor([0.0]).double(), torch.tensor([1.0]).double())
    assert (value, float(point)) == (pytest.approx(0.2), pytest.approx(0.4))
    value, _ = least_of_greatest(functions, torch.tensor([0.5]).double(), torch.tensor([1.0]).double())
    assert value == pytest.approx(0.3)


def test_maxout_truth_is_the_least_on_a_grid() -> None:
    pieces, x, _ = small(3, 6, seed=6)
    model = Maxout(pieces, 2).double()
    y = model(x.double()).argmax(1)
    truth = maxout_worst(pieces, 2)(x, y, 0.2)
    searched = least_on_grid(model, x, y, 0.2, 25)
    assert bool((searched >= truth.least - 1e-9).all())
    assert float((searched - truth.least).max()) < 0.1
    torch.testing.assert_close(margin_of(model(truth.point), y).detach(), truth.most, rtol=0, atol=1e-9)


def test_shifted_truth_is_what_each_set_of_shifts_allows() -> None:
    defence = defences_named(["shifts"])[0]
    x, y = rows_of(defence, 8)
    truth, model = defence.truth(x, y), defence.model.make()
    assert isinstance(model, Shifted)
    base = model.base
    shifts = ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0))
    at_point = inside(defence, x, truth.point)
    wrong = torch.stack([margin_of(base(at_point.roll(shift, (2, 3))), y) <= 0 for shift in shifts])
    torch.testing.assert_close(1 - wrong.double().mean(0), truth.most, rtol=0, atol=1e-9)
    # no larger set errs together: by the margins' own linear programmes, set up from the model
    units = torch.eye(64).view(64, 1, 8, 8)
    for row, label, most in zip(x, y.tolist(), truth.most.tolist(), strict=True):
        size = round(5 * (1 - most)) + 1
        gaps, offsets = [], []
        for shift in shifts:
            zero = base(torch.zeros(1, 1, 8, 8))[0].detach()
            rises = base(units.roll(shift, (2, 3))).detach() - zero
            gaps.append((rises[:, label] - rises[:, 1 - label]).double())
            offsets.append(float(zero[label] - zero[1 - label]))
        box = [(max(v - defence.eps, 0), min(v + defence.eps, 1)) for v in row.flatten().double().tolist()]
        for some in itertools.combinations(range(5), size):
            solved = linprog(
                [0.0] * 64, torch.stack([gaps[k] for k in some]).numpy(), [-offsets[k] for k in some], bounds=box
            )
            assert solved.status == 2, "these shifts can be made wrong together"


def test_rounding_frequencies_moves_no_margin_further_than_is_said() -> None:
    basis = cosines()
    torch.testing.assert_close(basis @ basis.T, torch.eye(64, dtype=torch.float64))
    # a constant image has the first frequency alone, eight times its value
    torch.testing.assert_close(
        (basis @ torch.full((64,), 0.5, dtype=torch.float64))[:2], torch.tensor([4.0, 0.0]).double()
    )
    (x, y), affine = attacked(30), least_squares(*fitting(), 10)
    truth, bare = rounded_worst(affine, 0.03)(x, y, 0.0), affine.module().double()
    model = nn.Sequential(Rounded(0.03), bare)
    margin = margin_of(model(x.double()), y).detach()
    assert bool((margin >= truth.least).all())
    torch.testing.assert_close(truth.most, margin, rtol=0, atol=1e-6)
    assert bool((truth.most > truth.least + 0.05).all())


def test_noisy_truth_by_hand() -> None:
    # gap 2 x - 1 at x = 0.9, eps 0.1: least 0.6; noise 0.3 * 2, so Phi(1)
    affine = Affine(torch.tensor([[2.0], [0.0]]), torch.tensor([-1.0, 0.0]))
    truth = noisy_worst(affine, 0.3)(torch.tensor([[0.9]]), torch.tensor([0]), 0.1)
    assert float(truth.least) == pytest.approx(0.8413447, abs=1e-6)
    assert float(truth.most) == pytest.approx(0.8413447, abs=1e-6)


# The catalogue


def test_ids_are_unique_and_found() -> None:
    ids = [defence.id for defence in defences()]
    assert len(set(ids)) == len(ids) >= 50
    assert [defence.id for defence in defences_named(["pixels", "gain-trap"])] == ["gain-trap", "pixels"]
    with pytest.raises(BadInput, match="no-such"):
        defences_named(["no-such"])


def test_healthy_ones_are_said_to_be_seen_by_nothing_and_mistakes_by_something() -> None:
    assert all(not d.seen_by for d in defences() if d.kind == "healthy")
    assert all(d.seen_by and d.model.worst is None for d in defences() if d.kind == "mistake")
    assert all(d.model.proof is not None for d in KNOWN)
