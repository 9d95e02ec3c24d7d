"""The threat set: who belongs to it, what is projected into it, and how its random points are spread."""

import math

import pytest
import torch
from scipy import stats
from torch import Tensor

from brinell.errors import BadInput
from brinell.geometry import NORMS
from brinell.random import Noise
from brinell.threat import Threat

WIDE = {"low": -1e3, "high": 1e3}
"""A box too far to matter."""


def noise(rows: int, *, seed: int = 0) -> Noise:
    return Noise.of(seed=seed, stream=1, attempt=0, rows=torch.arange(rows))


def images(rows: int, *, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Pixels in [0, 1], a quarter of them on a face of the box."""
    x = torch.rand(rows, 3, 4, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (1.4 * x - 0.2).clamp(0, 1).to(dtype)


# --- what is said of it


@pytest.mark.parametrize(
    ("norm", "names"),
    [
        ("linf", ["linf", "Linf", "LINF", " l∞ ", "L∞", "inf", "Inf", "∞", math.inf]),
        ("l2", ["l2", "L2", "2", 2, 2.0]),
        ("l1", ["l1", "L1", "1", 1, 1.0]),
    ],
)
def test_norms_have_many_names(norm, names):
    assert {Threat(name, 0.1).norm for name in names} == {norm}


@pytest.mark.parametrize("name", ["l3", "", "l0", "max", 3, None])
def test_another_norm_is_refused(name):
    with pytest.raises(BadInput) as refused:
        Threat(name, 0.1)
    assert refused.value.subject == "norm"
    assert repr(name) in str(refused.value)
    assert all(norm in refused.value.expected for norm in NORMS)


@pytest.mark.parametrize(
    ("low", "high"), [(1.0, 0.0), (0.5, 0.5), (math.nan, 1.0), (0.0, math.nan), (-math.inf, 1.0), (0.0, math.inf)]
)
def test_an_empty_or_endless_box_is_refused(low, high):
    with pytest.raises(BadInput, match="bounds of the input space") as refused:
        Threat("linf", 0.1, low=low, high=high)
    assert str(low) in refused.value.got and str(high) in refused.value.got


@pytest.mark.parametrize("eps", [-0.1, math.nan, math.inf, "much"])
def test_a_radius_that_is_none_is_refused(eps):
    with pytest.raises(BadInput, match="eps"):
        Threat("l2", eps)


def test_the_radius_is_printed_as_it_was_written():
    assert Threat("linf", "8/255").eps_text == "8/255"
    assert Threat("linf", 8 / 255).describe() == "Linf, eps 8/255, inputs in [0, 1], untargeted, white-box"
    assert Threat("2", "0.50", low=-1.0).describe() == "L2, eps 0.50, inputs in [-1, 1], untargeted, white-box"


def test_equal_threats_are_equal():
    assert Threat("Linf", "8/255") == Threat("inf", 8 / 255)
    assert Threat("linf", 0.1) != Threat("l2", 0.1)


# --- who belongs to it


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("norm", NORMS)
def test_inside_on_and_just_outside(norm, dtype):
    """Along random directions of norm 1: up to 1 + 1e-7 times the radius inside, from 1 + 1e-5 times it outside."""
    eps = 0.5
    d = torch.randn(20, 2, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    d = d / torch.linalg.vector_norm(d.flatten(1), ord={"linf": math.inf, "l2": 2, "l1": 1}[norm], dim=1).view(-1, 1, 1)
    x = torch.zeros_like(d).to(dtype)  # so that x + d is as exact as d
    threat = Threat(norm, eps, **WIDE)
    for factor in (0.0, 0.5, 1.0, 1 + 1e-7):
        assert threat.contains(x, (factor * eps * d).to(dtype)).all()
    for factor in (1 + 1e-5, 1.1, 2.0):
        assert not threat.contains(x, (factor * eps * d).to(dtype)).any()


@pytest.mark.parametrize("norm", NORMS)
def test_the_box_allows_nothing(norm):
    threat = Threat(norm, 5.0)
    x = torch.tensor([[0.5, 0.5]])
    inside = [[0.0, 0.5], [1.0, 1.0], [0.5, 0.5]]
    outside = [[-1e-7, 0.5], [0.5, 1 + 2e-7], [-0.0001, 2.0]]
    for points, belongs in ((inside, True), (outside, False)):
        assert all(bool(threat.contains(x, torch.tensor([point]))) == belongs for point in points)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_belongs_nowhere(norm, value):
    x = torch.full((3, 4), 0.5)
    x_adv = x.clone()
    x_adv[1, 2] = value
    assert Threat(norm, 100.0).contains(x, x_adv).tolist() == [True, False, True]


def test_membership_is_of_each_row():
    x = torch.zeros(3, 2)
    x_adv = torch.tensor([[0.1, 0.0], [0.3, 0.0], [0.1, 0.1]])
    assert Threat("linf", 0.1).contains(x, x_adv).tolist() == [True, False, True]
    assert Threat("l1", 0.1).contains(x, x_adv).tolist() == [True, False, False]
    assert Threat("l2", 0.3).contains(x, x_adv).tolist() == [True, True, True]


def test_no_rows_and_no_features():
    threat = Threat("l2", 0.1)
    assert threat.contains(torch.zeros(0, 3), torch.zeros(0, 3)).shape == (0,)
    assert threat.contains(torch.zeros(2, 0), torch.zeros(2, 0)).tolist() == [True, True]


@pytest.mark.parametrize("norm", NORMS)
def test_a_radius_of_nothing_contains_the_clean_input_alone(norm):
    x = images(20)
    threat = Threat(norm, 0)
    assert threat.contains(x, x).all()
    other = x.clone()
    other[:, 0, 0, 0] = torch.nextafter(other[:, 0, 0, 0], torch.tensor(0.5))
    assert not threat.contains(x, other).any()


@pytest.mark.parametrize("norm", NORMS)
def test_the_quick_test_agrees_with_the_strict_one_away_from_the_surface(norm):
    x = images(50, dtype=torch.float64)
    threat = Threat(norm, 0.7)
    points = x + 0.3 * torch.randn(50, 3, 4, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    points = torch.cat([points[:25], threat.around(x).project(points)[25:]])
    positions = torch.arange(50).flip(0)
    belongs = threat.contains(x, points)
    assert torch.equal(threat.around(x).at(positions).holds(points[positions]), belongs[positions])
    assert 0 < int(belongs.sum()) < 50


@pytest.mark.parametrize("norm", NORMS)
def test_a_part_of_the_rows_keeps_its_own_sets(norm):
    x = images(6, dtype=torch.float64)
    ball = Threat(norm, 0.3).around(x)
    points = x + torch.randn(6, 3, 4, 4, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    for part in (torch.tensor([4, 1]), slice(2, 5)):
        assert torch.equal(ball.at(part).project(points[part]), ball.project(points)[part])


# --- Linf bounds


@pytest.mark.parametrize("eps", ["8/255", "1/255", 0.3, 1e-9])
def test_linf_bounds_are_rounded_inwards(eps):
    """In float64 no bound lies outside the ball or the box, and the clean input lies between them."""
    x = torch.rand(20, 500, generator=torch.Generator().manual_seed(3))
    x[:, :3], x[:, 3:6] = 0.0, 1.0
    threat = Threat("linf", eps)
    ball = threat.around(x)
    lower, upper, clean = ball.lower.double(), ball.upper.double(), x.double()
    assert (clean - lower <= threat.eps).all() and (upper - clean <= threat.eps).all()
    assert (lower >= 0).all() and (upper <= 1).all()
    assert (ball.lower <= x).all() and (x <= ball.upper).all()
    # and not further in than one float32
    assert (clean - lower >= threat.eps - 2**-23)[clean > threat.eps].all()
    assert (upper - clean >= threat.eps - 2**-23)[clean < 1 - threat.eps].all()


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("share", [1e-4, 0.01, 0.1, 1.0])
def test_what_is_projected_belongs(norm, dtype, share):
    """Rounding ``x + d`` to the data's precision must not leave the set: an attack would lose its witnesses to it.

    The radii go down to 1e-4 of one that is usual for the norm.
    """
    eps = share * {"linf": 8 / 255, "l2": 1.0, "l1": 12.0}[norm]
    x = torch.rand(100, 784, generator=torch.Generator().manual_seed(4), dtype=torch.float64).to(dtype)
    ball = Threat(norm, eps).around(x)
    d = torch.randn(100, 784, generator=torch.Generator().manual_seed(5), dtype=torch.float64).to(dtype)
    points = ball.project(x + eps * d)
    assert points.dtype == dtype
    assert ball.threat.contains(x, points).all()
    assert ball.threat.contains(x, ball.random_start(noise(100))).all()
    # and they were not simply sent home: the surface is reached, as nearly as the data's precision allows
    reached = torch.linalg.vector_norm((points - x).double(), ord={"linf": math.inf, "l2": 2, "l1": 1}[norm], dim=1)
    assert (reached >= 0.99 * eps - 28 * 2**-24).all()  # half a last place in each of 784 = 28² coordinates


@pytest.mark.parametrize("norm", NORMS)
def test_a_clean_input_is_projected_to_itself(norm):
    x = images(20)
    assert torch.equal(Threat(norm, 0.3).around(x).project(x), x)


@pytest.mark.parametrize("norm", NORMS)
def test_ascending_gains_and_stays(norm):
    """On a linear function no step may lose, but for L1: a step that the box has diverted to flatter coordinates is
    paid for by all coordinates alike when it is projected, so that large steps circle around the optimum."""
    x = images(50, dtype=torch.float64)
    threat = Threat(norm, 0.5)
    ball = threat.around(x)
    grad = torch.randn(50, 3, 4, 4, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    point = x
    for _ in range(5):
        further = ball.ascend(point, grad, ball.steps(0.3))
        assert threat.contains(x, further).all()
        if norm != "l1":
            assert (((further - point) * grad).flatten(1).sum(1) >= -1e-12).all()
        point = further
    assert (((point - x) * grad).flatten(1).sum(1) > 0.1).all()


def test_steps_are_fractions_of_the_radius():
    assert Threat("l2", 0.5).around(torch.zeros(3, 2, dtype=torch.float64)).steps(0.1).tolist() == [0.05, 0.05, 0.05]


# --- random starts


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("norm", NORMS)
def test_random_starts_belong_and_differ(norm, dtype):
    x = images(200, dtype=dtype)
    threat = Threat(norm, {"linf": 0.2, "l2": 1.5, "l1": 6.0}[norm])
    ball = threat.around(x)
    start = ball.random_start(noise(200))
    assert start.dtype == dtype and start.shape == x.shape
    assert threat.contains(x, start).all()
    assert torch.equal(ball.random_start(noise(200)), start)
    for other in (ball.random_start(noise(200), draw=1), ball.random_start(noise(200, seed=1))):
        assert (other != start).flatten(1).any(dim=1).all()
    assert (start != x).flatten(1).any(dim=1).all()


def test_a_linf_start_is_uniform_between_its_bounds():
    x = torch.full((4000, 2), 0.9, dtype=torch.float64)
    start = Threat("linf", 0.3).around(x).random_start(noise(4000))
    # the box cuts (0.6, 1.2) at 1
    share = (start - 0.6) / 0.4
    assert all(stats.kstest(share[:, i].numpy(), "uniform").pvalue > 1e-3 for i in range(2))


@pytest.mark.parametrize("features", [1, 3, 20])
def test_an_l2_start_is_uniform_in_the_ball(features):
    """Uniform in the ball: ``(r / eps)^n`` is uniform, and so are directions: ``u_1² ~ Beta(1/2, (n - 1)/2)``."""
    eps = 0.7
    d = Threat("l2", eps, **WIDE).around(torch.zeros(4000, features, dtype=torch.float64)).random_start(noise(4000))
    r = torch.linalg.vector_norm(d, dim=1)
    assert stats.kstest(((r / eps) ** features).numpy(), "uniform").pvalue > 1e-3
    for i in {0, features - 1}:
        assert stats.binomtest(int((d[:, i] > 0).sum()), 4000).pvalue > 1e-3
        assert stats.spearmanr((d[:, i] / r).numpy(), r.numpy()).pvalue > 1e-3  # length and direction are unrelated
        if features > 1:
            law = stats.beta(0.5, (features - 1) / 2).cdf
            assert stats.kstest((d[:, i] / r).square().numpy(), law).pvalue > 1e-3


@pytest.mark.parametrize("features", [1, 3, 20])
def test_an_l1_start_is_uniform_in_the_ball(features):
    """Uniform in the ball: ``(r / eps)^n`` is uniform, and the coordinates' shares are those of a uniform simplex:
    ``|d_1| / r ~ Beta(1, n - 1)``, with fair signs."""
    eps = 3.0
    d = Threat("l1", eps, **WIDE).around(torch.zeros(4000, features, dtype=torch.float64)).random_start(noise(4000))
    r = d.abs().sum(1)
    assert stats.kstest(((r / eps) ** features).numpy(), "uniform").pvalue > 1e-3
    for i in {0, features - 1}:
        assert stats.binomtest(int((d[:, i] > 0).sum()), 4000).pvalue > 1e-3
        assert stats.spearmanr((d[:, i] / r).numpy(), r.numpy()).pvalue > 1e-3  # length and direction are unrelated
        if features > 1:
            assert stats.kstest((d[:, i].abs() / r).numpy(), stats.beta(1, features - 1).cdf).pvalue > 1e-3


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("number", [0.0, 1 - 2**-24])
def test_extreme_random_numbers_give_points_too(norm, number):
    """0 comes up once in 2^24 float32 numbers: several times in an evaluation of images."""

    class Fixed(Noise):
        def uniform(self, shape, *, draw, dtype):
            return torch.full((len(self.keys), *shape), number, dtype=dtype)

    x = images(3)
    threat = Threat(norm, 0.5)
    start = threat.around(x).random_start(Fixed(torch.arange(3)))
    assert start.isfinite().all()
    assert threat.contains(x, start).all()


@pytest.mark.parametrize("norm", NORMS)
def test_starts_of_nothing(norm):
    assert Threat(norm, 0.5).around(torch.zeros(0, 3, 2)).random_start(noise(0)).shape == (0, 3, 2)
    x = images(4)
    assert torch.equal(Threat(norm, 0).around(x).random_start(noise(4)), x)
