"""Projections, steepest steps and sizes, each by the condition that defines it."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from torch import Tensor

from brinell.geometry import (
    DUAL,
    NORMS,
    Norm,
    distance,
    dual_size,
    nearest_in_l1,
    nearest_in_l2,
    per_row,
    size,
    steepest,
)
from brinell.threat import Threat
from models_with_known_radius import greatest_gain

ORDER = {"linf": math.inf, "l2": 2, "l1": 1}
FAR = 1e3
"""A box too far to matter."""


def norm_of(v: Tensor, norm: Norm) -> Tensor:
    return torch.linalg.vector_norm(v.double().flatten(1), ord=ORDER[norm], dim=1)


def nearest(v: Tensor, lower: Tensor, upper: Tensor, norm: Norm, eps: float) -> Tensor:
    """The projection of displacements; for Linf by way of a ball around 0, where it has no function of its own."""
    if norm == "l2":
        return nearest_in_l2(v, lower, upper, eps)
    if norm == "l1":
        return nearest_in_l1(v, lower, upper, eps)
    ball = Threat("linf", eps, low=-FAR, high=FAR).around(torch.zeros_like(v))
    return torch.clamp(ball.project(v), lower, upper)  # of boxes, clamping one after the other is exact


def random(*shape: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def random_box(shape: tuple[int, ...], *, seed: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """``lower <= 0 <= upper``; a quarter of the rooms on either side is 0: the clean input lies on that face."""
    generator = torch.Generator().manual_seed(seed)
    lower, upper = (torch.rand(*shape, generator=generator, dtype=torch.float64).to(dtype) for _ in range(2))
    lower, upper = (side * (torch.rand(*shape, generator=generator) > 0.25) for side in (lower, upper))
    return -lower, upper


def inside_around_and_far(features: int, norm: Norm, eps: float, *, dtype: torch.dtype) -> Tensor:
    """Displacements deep inside the ball, on either side of its surface, and far outside, along random directions.

    Some directions have zeros or equal lengths in them, where sorting projections go astray.
    """
    v = random(60, features, seed=features, dtype=torch.float64)
    v[20:30, ::2] = 0
    v[30:40] = v[30:40].sign()
    v[40:44] = v[40:44] * (torch.arange(features) == 0)
    unit = v / norm_of(v, norm).clamp_min(1e-300)[:, None]
    lengths = torch.tensor([0.0, 0.3, 0.999999, 1.0, 1.000001, 1.5, 30.0, 1e4], dtype=torch.float64) * eps
    return (lengths[:, None, None] * unit).flatten(0, 1).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("features", [1, 2, 17])
@pytest.mark.parametrize("eps", [8 / 255, 1.0, 12.0])
@pytest.mark.parametrize("norm", NORMS)
def test_nearest_point_of_the_ball(norm, eps, features, dtype):
    """p is nearest to v in the ball if and only if ``‖p‖ <= eps`` and ``eps ‖v - p‖_dual <= <v - p, p>``."""
    v = inside_around_and_far(features, norm, eps, dtype=dtype)
    wide = torch.full_like(v, FAR)
    p = nearest(v, -wide, wide, norm, eps)
    assert p.dtype == dtype
    v, p = v.double(), p.double()
    rounding = 1e-10 if dtype == torch.float64 else 4e-6  # of points that lie up to 1e4 radii away
    assert (norm_of(p, norm) <= eps * (1 + rounding)).all()
    gap = eps * norm_of(v - p, DUAL[norm]) - ((v - p) * p).sum(1)
    assert (gap <= rounding * eps * (eps + norm_of(v, "l1"))).all()


@pytest.mark.parametrize("norm", NORMS)
def test_a_point_inside_stays_where_it_is(norm):
    v = random(50, 6, seed=3)
    v = v / norm_of(v, norm)[:, None] * 0.999
    wide = torch.full_like(v, FAR)
    assert torch.equal(nearest(v, -wide, wide, norm, 1.0), v)


@pytest.mark.parametrize("eps", [0.0, 0.05, 0.7, 3.0])
@pytest.mark.parametrize("norm", NORMS)
def test_nearest_point_of_ball_and_box(norm, eps):
    """p is nearest to v in a convex set if and only if p lies in it and no q of it has ``<v - p, q - p> > 0``.

    The greatest ``<v - p, q>`` over the set is known in closed form, so that every q is tried at once.
    """
    v = random(300, 9, seed=4) * torch.logspace(-2, 2, 300, dtype=torch.float64)[:, None]
    lower, upper = random_box((300, 9), seed=5)
    p = nearest(v, lower, upper, norm, eps)
    assert ((p >= lower) & (p <= upper)).all()
    assert (norm_of(p, norm) <= eps * (1 + 1e-12)).all()
    best = greatest_gain(v - p, lower, upper, norm, eps)
    assert (best - ((v - p) * p).sum(1) <= 1e-9 * (1 + norm_of(v, "l2"))).all()


@pytest.mark.parametrize("norm", NORMS)
def test_no_feasible_point_is_nearer(norm):
    """The same without a closed form: 500 random points of the set for each row, none on the far side of p."""
    eps = 0.8
    v = 2 * random(20, 5, seed=6)
    lower, upper = random_box((20, 5), seed=7)
    p = nearest(v, lower, upper, norm, eps)
    share = torch.rand(500, 20, 5, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    q = lower + share * (upper - lower)
    # the set is star-shaped around 0
    q = q * (eps / norm_of(q.flatten(0, 1), norm).view(500, 20, 1).clamp_min(eps))
    assert (((v - p) * (q - p)).sum(2) <= 1e-9).all()
    assert (((v - q).square().sum(2) - (v - p).square().sum(1)) >= -1e-9).all()


def by_bisection(v: Tensor, lower: Tensor, upper: Tensor, norm: Norm, eps: float) -> Tensor:
    """A slow solver: bisection on the Lagrange multiplier of the ball, for one row; L1 shrinks by it, L2 divides."""

    def at(multiplier: float) -> Tensor:
        inner = v.sign() * (v.abs() - multiplier).clamp_min(0) if norm == "l1" else v / (1 + multiplier)
        return torch.minimum(torch.maximum(inner, lower), upper)

    def outside(p: Tensor) -> bool:
        return float(p.abs().sum() if norm == "l1" else p.square().sum().sqrt()) > eps

    if not outside(at(0.0)):
        return at(0.0)
    low, high = 0.0, 1.0
    while outside(at(high)) and high < 1e12:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if outside(at(middle)) else (low, middle)
    return at(high)


@st.composite
def projections(draw):
    """Short rows with many zeros, ties, faces and extreme ratios."""
    features = draw(st.integers(1, 6))
    value = st.one_of(st.sampled_from([0.0, 1.0, -1.0, 0.5, 100.0]), st.floats(-3, 3, allow_subnormal=False))
    room = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1, allow_subnormal=False))

    def row(of):
        return torch.tensor([draw(st.lists(of, min_size=features, max_size=features))], dtype=torch.float64)

    eps = draw(st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(1e-6, 3)))
    return row(value), -row(room), row(room), eps


@given(projections(), st.sampled_from(["l2", "l1"]))
def test_the_projection_is_what_bisection_finds(problem, norm):
    v, lower, upper, eps = problem
    p = nearest(v, lower, upper, norm, eps)
    assert torch.allclose(p, by_bisection(v, lower, upper, norm, eps), rtol=1e-7, atol=1e-7)
    assert float(norm_of(p, norm)) <= eps * (1 + 1e-9) + 1e-12
    assert ((p >= lower) & (p <= upper)).all()


@given(projections(), st.sampled_from(NORMS))
def test_projecting_twice_changes_nothing(problem, norm):
    v, lower, upper, eps = problem
    p = nearest(v, lower, upper, norm, eps)
    assert torch.allclose(nearest(p, lower, upper, norm, eps), p, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("norm", NORMS)
def test_a_row_is_projected_without_regard_to_its_neighbours(norm):
    v = random(40, 7, seed=9) * torch.logspace(-2, 2, 40, dtype=torch.float64)[:, None]
    lower, upper = random_box((40, 7), seed=10)
    together = nearest(v, lower, upper, norm, 0.6)
    alone = [nearest(v[i : i + 1], lower[i : i + 1], upper[i : i + 1], norm, 0.6) for i in range(40)]
    assert torch.allclose(together, torch.cat(alone), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_shapes_are_kept_and_nothing_gives_nothing(norm):
    v = random(5, 3, 2, 2, seed=11, dtype=torch.float32)
    lower, upper = random_box((5, 3, 2, 2), seed=12, dtype=torch.float32)
    p = nearest(v, lower, upper, norm, 0.5)
    flat = nearest(v.flatten(1), lower.flatten(1), upper.flatten(1), norm, 0.5)
    assert p.shape == v.shape
    assert torch.equal(p.flatten(1), flat)
    for shape in [(0, 3, 2, 2), (0, 4), (3, 0)]:
        none = torch.zeros(shape)
        assert nearest(none, none, none, norm, 0.5).shape == shape


@pytest.mark.parametrize("norm", NORMS)
def test_a_ball_of_radius_nothing_is_its_centre(norm):
    v = random(10, 4, seed=13)
    lower, upper = random_box((10, 4), seed=14)
    assert not nearest(v, lower, upper, norm, 0.0).any()


@pytest.mark.parametrize("norm", NORMS)
def test_a_row_of_extreme_length_is_still_projected(norm):
    v = random(4, 6, seed=15, dtype=torch.float32) * torch.tensor([1e-30, 1e-10, 1e5, 1e10])[:, None]
    wide = torch.full_like(v, FAR)
    p = nearest(v, -wide, wide, norm, 1.0)
    assert p.isfinite().all()
    assert torch.equal(p[:2], v[:2])
    assert torch.allclose(norm_of(p[2:], norm), torch.ones(2, dtype=torch.float64), rtol=1e-5)


@pytest.mark.parametrize("norm", NORMS)
def test_twice_the_box_and_twice_the_radius_give_twice_the_displacement(norm):
    """Inputs in [-1, 1] with ``2 eps`` are inputs in [0, 1] with ``eps``: ``x -> 2 x - 1`` carries one to the other."""
    x = torch.rand(50, 6, generator=torch.Generator().manual_seed(16), dtype=torch.float64).mul(8).round() / 8
    point = x + random(50, 6, seed=17)
    unit = Threat(norm, 0.4).around(x).project(point)
    double = Threat(norm, 0.8, low=-1.0, high=1.0).around(2 * x - 1).project(2 * point - 1)
    assert torch.allclose(double, 2 * unit - 1, rtol=0, atol=1e-12)
    assert not torch.allclose(unit, point)


# --- steepest steps


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_steepest_step_gains_the_dual_norm(norm, dtype):
    """``<p, g> = step ‖g‖_dual`` with ``‖p‖ <= step`` is the definition of the dual norm, attained."""
    g = random(30, 8, seed=18, dtype=dtype)
    step = torch.linspace(0, 3, 30, dtype=dtype)
    wide = torch.full_like(g, FAR)
    p = steepest(g, norm, step, -wide, wide)
    assert p.dtype == dtype
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    assert (norm_of(p, norm) <= step.double() * (1 + tolerance)).all()
    gain = (p.double() * g.double()).sum(1)
    assert torch.allclose(gain, step.double() * norm_of(g, DUAL[norm]), rtol=tolerance)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("scale", [1e-42, 1e-30, 1e-15, 1e15, 1e30])
def test_the_size_of_the_gradient_does_not_matter(norm, scale):
    """Float32 gradients of saturated models are tiny and not zero; their squares are zero. The step is what it was."""
    g = random(5, 8, seed=19, dtype=torch.float32).sign() * torch.arange(1, 9)  # many digits survive the scaling
    wide = torch.full_like(g, FAR)
    plain, scaled = (steepest(grad, norm, torch.ones(5), -wide, wide) for grad in (g, g * scale))
    assert torch.allclose(plain, scaled, atol=2e-3)


@pytest.mark.parametrize("norm", NORMS)
def test_no_gradient_no_step(norm):
    g = torch.zeros(3, 4)
    assert not steepest(g, norm, torch.ones(3), -torch.ones(3, 4), torch.ones(3, 4)).any()
    none = torch.zeros(0, 4)
    assert steepest(none, norm, torch.ones(0), none, none).shape == (0, 4)


@pytest.mark.parametrize("seed", range(12))
def test_the_steepest_l1_step_within_the_box_is_the_solution_of_a_linear_programme(seed):
    """Maximise ``<g, a - b>`` subject to ``sum(a + b) <= step``, ``0 <= a <= upper``, ``0 <= b <= -lower``."""
    g = random(1, 6, seed=seed)
    lower, upper = random_box((1, 6), seed=100 + seed)
    step = [0.0, 0.1, 0.5, 1.0, 2.0, 10.0][seed % 6]
    p = steepest(g, "l1", torch.tensor([step], dtype=torch.float64), lower, upper)
    assert ((p >= lower) & (p <= upper)).all()
    assert float(p.abs().sum()) <= step * (1 + 1e-12)
    costs = torch.cat([-g[0], g[0]]).numpy()
    rooms = [(0, float(room)) for room in torch.cat([upper[0], -lower[0]])]
    optimum = linprog(costs, A_ub=[[1.0] * 12], b_ub=[step], bounds=rooms, method="highs")
    assert float((p * g).sum()) == pytest.approx(-optimum.fun, abs=1e-9)


@pytest.mark.parametrize("norm", NORMS)
def test_one_full_step_from_the_centre_is_the_best_point_of_the_ball(norm):
    """``<g, p>`` over the ball, and for Linf and L1 over ball and box, is what the closed form says."""
    x = torch.rand(40, 6, generator=torch.Generator().manual_seed(20), dtype=torch.float64)
    g = random(40, 6, seed=21)
    box = (0.0, 1.0) if norm != "l2" else (-FAR, FAR)
    ball = Threat(norm, 0.5, low=box[0], high=box[1]).around(x)
    p = ball.ascend(x, g, ball.steps(1.0)) - x
    best = greatest_gain(g, box[0] - x, box[1] - x, norm, 0.5)
    assert torch.allclose((g * p).sum(1), best, rtol=1e-9)


# --- sizes


def test_sizes_by_hand():
    d = torch.tensor([[3.0, -4.0, 0.0], [0.0, 0.0, 0.0], [-1.0, -1.0, -1.0]])
    assert size(d, "linf").tolist() == [4, 0, 1]
    assert size(d, "l1").tolist() == [7, 0, 3]
    assert size(d, "l2").tolist() == pytest.approx([5, 0, math.sqrt(3)])
    assert torch.equal(dual_size(d, "linf"), size(d, "l1"))
    assert torch.equal(dual_size(d, "l1"), size(d, "linf"))
    assert torch.equal(dual_size(d, "l2"), size(d, "l2"))


@pytest.mark.parametrize("norm", NORMS)
def test_the_dual_size_bounds_every_gain(norm):
    """Hölder: no d of size 1 gains more, and the sizes are of whole rows whatever their shape."""
    g, d = random(200, 2, 3, seed=22), random(200, 2, 3, seed=23)
    d = d / per_row(size(d, norm), d)
    assert ((d * g).flatten(1).sum(1) <= dual_size(g, norm) * (1 + 1e-12)).all()
    assert torch.allclose(size(g, norm), norm_of(g, norm))


def test_distances_are_taken_in_float64():
    """In float32 0.5 less 1e-9 is 0.5."""
    x, x_adv = torch.tensor([[1.0, 1e-9]]), torch.tensor([[1.0 + 2**-23, 0.5]])
    exact = 0.5 - float(x[0, 1])
    assert exact < 0.5
    assert distance(x, x_adv, "linf").dtype == torch.float64
    assert distance(x, x_adv, "linf").item() == exact
    assert distance(x, x_adv, "l1").item() == pytest.approx(exact + 2**-23, rel=1e-15)


@pytest.mark.parametrize("norm", NORMS)
def test_sizes_of_nothing(norm):
    assert size(torch.zeros(0, 5), norm).shape == (0,)
    assert size(torch.zeros(3, 0), norm).tolist() == [0, 0, 0]
    assert distance(torch.zeros(0, 2, 2), torch.zeros(0, 2, 2), norm).shape == (0,)
