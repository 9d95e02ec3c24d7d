"""The least move onto a hyperplane within a box, against the conditions that define it and against scipy's solvers."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize
from torch import Tensor

from brinell.geometry import NORMS, size
from brinell.hyperplane import least_move

LOW, HIGH = -0.5, 1.0


def problems(count: int, features: int, *, seed: int, far: float = 0.8) -> tuple[Tensor, Tensor, Tensor]:
    """Points with a third of their values on a face, normals with zeros and ties, and gaps that the box can close.

    With ``far`` below 1 the box can close every gap; a quarter of the gaps are small enough to leave the box inactive.
    """
    generator = torch.Generator().manual_seed(seed)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    point = LOW + (HIGH - LOW) * (1.5 * uniform(count, features) - 0.25).clamp(0, 1)
    normal = torch.randn(count, features, generator=generator, dtype=torch.float64)
    normal[uniform(count, features) < 0.15] = 0
    normal[::5] = normal[::5].sign()
    normal[:, 0] += 0.01  # never all zero
    side = torch.where(uniform(count) < 0.5, -1.0, 1.0).double()
    share = torch.where(uniform(count) < 0.25, 0.05, far) * uniform(count)
    return point, normal, side * share * reach(point, normal, side)


def reach(point: Tensor, normal: Tensor, side: Tensor) -> Tensor:
    """The greatest gap of that sign that the box can close: ``max <-side normal, d>``."""
    direction = -side[:, None] * normal
    return (direction * torch.where(direction > 0, HIGH - point, LOW - point)).sum(1)


def objective(d: Tensor, norm: str) -> Tensor:
    return torch.linalg.vector_norm(d, ord={"linf": float("inf"), "l2": 2, "l1": 1}[norm], dim=1)


def by_linear_programme(point: np.ndarray, normal: np.ndarray, gap: float, norm: str) -> float:
    """The least norm: for L1 over ``d = a - b``, ``a, b >= 0``; for Linf over ``d`` and a bound on all ``|d_i|``."""
    n = len(point)
    room = [(LOW - p, HIGH - p) for p in point]
    if norm == "l1":
        rooms = [(0, high) for _, high in room] + [(0, -low) for low, _ in room]
        solved = linprog(np.ones(2 * n), A_eq=[[*normal, *-normal]], b_eq=[-gap], bounds=rooms, method="highs")
    else:
        bound = np.block([[np.eye(n), -np.ones((n, 1))], [-np.eye(n), -np.ones((n, 1))]])
        costs = np.append(np.zeros(n), 1.0)
        rooms = [*room, (0, None)]
        solved = linprog(
            costs, A_ub=bound, b_ub=np.zeros(2 * n), A_eq=[[*normal, 0]], b_eq=[-gap], bounds=rooms, method="highs"
        )
    assert solved.status == 0
    return float(solved.fun)


@pytest.mark.parametrize("norm", NORMS)
def test_it_leads_onto_the_hyperplane_and_stays_in_the_box(norm):
    for features in (1, 2, 7, 40):
        point, normal, gap = problems(200, features, seed=features)
        d = least_move(point, normal, gap, norm, LOW, HIGH)
        assert torch.allclose((normal * d).sum(1), -gap, rtol=1e-9, atol=1e-12)
        assert ((point + d >= LOW - 1e-12) & (point + d <= HIGH + 1e-12)).all()
        assert not d[normal == 0].any()


@pytest.mark.parametrize("norm", ["linf", "l1"])
def test_no_move_is_shorter_says_a_linear_programme(norm):
    point, normal, gap = problems(60, 6, seed=1, far=0.99)
    d = least_move(point, normal, gap, norm, LOW, HIGH)
    each = zip(*(t.numpy() for t in (point, normal, gap)), strict=True)
    best = [by_linear_programme(p, w, h, norm) for p, w, h in each]
    assert objective(d, norm).tolist() == pytest.approx(best, abs=1e-9)
    stopped = ((point + d - LOW).abs() < 1e-9) | ((point + d - HIGH).abs() < 1e-9)
    assert (stopped & (d != 0)).any(dim=1).sum() > 20  # the box takes part


def test_no_move_is_shorter_says_a_quadratic_programme():
    point, normal, gap = problems(40, 5, seed=2, far=0.95)
    d = least_move(point, normal, gap, "l2", LOW, HIGH)
    for p, w, h, mine in zip(*(t.numpy() for t in (point, normal, gap, d)), strict=True):
        on_plane = {"type": "eq", "fun": lambda z, w=w, h=h: w @ z + h, "jac": lambda z, w=w: w}
        solved = minimize(
            lambda z: z @ z,
            np.zeros(5),
            jac=lambda z: 2 * z,
            bounds=[(LOW - x, HIGH - x) for x in p],
            constraints=[on_plane],
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert solved.success
        assert np.allclose(mine, solved.x, atol=2e-6)
        assert mine @ mine <= solved.fun + 1e-9


def test_the_euclidean_condition():
    """``d`` is shortest in a convex set if and only if ``<d, q - d> >= 0`` for all ``q`` in it: 300 random points."""
    point, normal, gap = problems(50, 8, seed=3, far=0.7)
    d = least_move(point, normal, gap, "l2", LOW, HIGH)
    generator = torch.Generator().manual_seed(4)
    q = LOW + (HIGH - LOW) * torch.rand(300, 50, 8, generator=generator, dtype=torch.float64) - point
    # onto the hyperplane: towards the corner that lies beyond it, or towards the clean point, which lies before it
    beyond = -gap.sign()[:, None] * normal
    corner = torch.where(beyond > 0, HIGH - point, LOW - point)
    left = gap + (normal * q).sum(2)
    other = torch.where((left.sign() == gap.sign())[..., None], corner, torch.zeros_like(corner))
    left_there = gap + (normal * other).sum(2)
    q = q + (left / (left - left_there))[..., None] * (other - q)
    assert ((normal * q).sum(2) + gap).abs().max() < 1e-9
    assert ((d * (q - d)).sum(2) >= -1e-9).all()


@pytest.mark.parametrize("norm", NORMS)
def test_by_hand(norm):
    """From (0, 0) onto ``2 a + b = 3`` within [-0.5, 1]²; then with a gap of 1, where the box is far."""
    point, normal = torch.zeros(1, 2), torch.tensor([[2.0, 1.0]])
    far = least_move(point, normal, torch.tensor([-3.0]), norm, LOW, HIGH)
    assert far.tolist() == [[1.0, 1.0]]  # the corner is on the hyperplane
    near = least_move(point, normal, torch.tensor([-1.0]), norm, LOW, HIGH)
    expected = {"linf": [1 / 3, 1 / 3], "l2": [0.4, 0.2], "l1": [0.5, 0.0]}[norm]
    assert near[0].tolist() == pytest.approx(expected)
    # 2.5: the first coordinate stops at 1 in all norms
    stopped = least_move(point, normal, torch.tensor([-2.5]), norm, LOW, HIGH)
    expected = {"linf": [5 / 6, 5 / 6], "l2": [1.0, 0.5], "l1": [1.0, 0.5]}[norm]
    assert stopped[0].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("norm", NORMS)
def test_out_of_reach_it_leads_to_the_nearest_corner(norm):
    point, normal, gap = problems(100, 6, seed=5)
    side = gap.sign()
    most = reach(point, normal, side)
    gap = side * (1.001 * most + 1e-3)
    d = least_move(point, normal, gap, norm, LOW, HIGH)
    direction = -side[:, None] * normal
    corner = torch.where(direction > 0, HIGH - point, LOW - point)
    assert torch.equal(d, torch.where(normal == 0, 0.0, corner))
    # no point of the box leaves a smaller gap
    assert torch.allclose((gap + (normal * d).sum(1)).abs(), gap.abs() - most)


@pytest.mark.parametrize("norm", NORMS)
def test_without_gradient_or_gap_nothing_moves(norm):
    point, normal, gap = problems(10, 4, seed=6)
    assert not least_move(point, torch.zeros_like(normal), gap, norm, LOW, HIGH).any()
    assert not least_move(point, normal, torch.zeros_like(gap), norm, LOW, HIGH).any()


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e12, 1e30])
def test_the_size_of_the_gradient_does_not_matter(norm, scale):
    """``gap`` and ``normal`` times a number describe the same hyperplane; in float32, whose squares of 1e-30 are 0."""
    point, normal, gap = (t.float() for t in problems(50, 6, seed=7))
    plain = least_move(point, normal, gap, norm, LOW, HIGH)
    assert torch.allclose(least_move(point, normal * scale, gap * scale, norm, LOW, HIGH), plain, atol=2e-6)


@pytest.mark.parametrize("norm", NORMS)
def test_a_row_is_moved_without_regard_to_its_neighbours(norm):
    point, normal, gap = problems(40, 7, seed=8)
    together = least_move(point, normal, gap, norm, LOW, HIGH)
    alone = [least_move(point[i : i + 1], normal[i : i + 1], gap[i : i + 1], norm, LOW, HIGH) for i in range(40)]
    assert torch.allclose(together, torch.cat(alone), rtol=0, atol=1e-14)


@pytest.mark.parametrize("norm", NORMS)
def test_a_row_that_is_not_finite_harms_no_other(norm):
    point, normal, gap = problems(5, 6, seed=9)
    spoilt = normal.clone()
    spoilt[1], spoilt[3, 2] = torch.nan, torch.inf
    d = least_move(point, spoilt, gap, norm, LOW, HIGH)
    others = [0, 2, 4]
    assert torch.equal(d[others], least_move(point, normal, gap, norm, LOW, HIGH)[others])


@pytest.mark.parametrize("norm", NORMS)
def test_shapes_are_kept_and_nothing_gives_nothing(norm):
    point, normal, gap = problems(4, 12, seed=10)
    shaped = least_move(point.view(4, 3, 2, 2), normal.view(4, 3, 2, 2), gap, norm, LOW, HIGH)
    assert torch.equal(shaped.flatten(1), least_move(point, normal, gap, norm, LOW, HIGH))
    for shape in ((0, 3, 2), (2, 0)):
        none = torch.zeros(shape)
        assert least_move(none, none, torch.zeros(shape[0]), norm, 0.0, 1.0).shape == shape


value = st.one_of(st.sampled_from([0.0, 1.0, -1.0, 0.5]), st.floats(-3, 3, allow_subnormal=False))
place = st.one_of(st.sampled_from([LOW, 0.0, HIGH]), st.floats(LOW, HIGH, allow_subnormal=False))


@given(
    st.integers(1, 6).flatmap(
        lambda n: st.tuples(st.lists(place, min_size=n, max_size=n), st.lists(value, min_size=n, max_size=n))
    ),
    st.one_of(value, st.floats(-20, 20)),
    st.sampled_from(NORMS),
)
def test_corners_faces_ties_and_zeros(problem, gap, norm):
    """In reach the gap is closed, else the corner is reached; no coordinate moves the wrong way or too far."""
    point, normal = (torch.tensor([part], dtype=torch.float64) for part in problem)
    h = torch.tensor([gap], dtype=torch.float64)
    d = least_move(point, normal, h, norm, LOW, HIGH)
    assert ((point + d >= LOW - 1e-12) & (point + d <= HIGH + 1e-12)).all()
    assert (d * normal * h.sign() <= 0).all()
    left = float((h + (normal * d).sum(1)).abs())
    assert left == pytest.approx(max(abs(gap) - float(reach(point, normal, h.sign())), 0.0), abs=1e-9)
    # along the way the norm falls in proportion or faster: half the gap costs at most half
    half = least_move(point, normal, h / 2, norm, LOW, HIGH)
    assert float(size(half, norm)) <= float(size(d, norm)) / 2 + 1e-9 or left > 0
