"""Randomized smoothing: what counts prove, and a classifier whose class probabilities are known."""

import math
from statistics import NormalDist

import pytest
import torch
from scipy.stats import binomtest
from torch import Tensor, nn

from brinell.errors import BadInput
from brinell.models.torch_model import TorchModel
from brinell.oracle import Oracle
from brinell.smoothing.attack import NoSlope, SmoothPGD
from brinell.smoothing.setting import Setting
from brinell.smoothing.smoothed import Smoothed, answer
from brinell.threat import Threat

PHI = NormalDist()


class HalfSpace(nn.Module):
    """Class 1 where ``<w, x> > b``, for a ``w`` of length 1; the noise across does not matter."""

    def __init__(self, w: Tensor, b: float) -> None:
        super().__init__()
        self.w, self.b = nn.Parameter(w / w.norm()), b

    def forward(self, x: Tensor) -> Tensor:
        along = x.flatten(1) @ self.w - self.b
        return torch.stack([-along, along], dim=1)


def smoothed(net: nn.Module, *, batch_size: int = 512, seed: int = 0, classes: int = 2, **setting: float) -> Smoothed:
    oracle = Oracle(TorchModel(net), classes=classes, seed=seed, batch_size=batch_size)
    return Smoothed(oracle, Setting(**setting), seed)  # type: ignore[arg-type]


def half_space(dimension: int = 4, b: float = 0.0) -> HalfSpace:
    w = torch.randn(dimension, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return HalfSpace(w, b).eval()


def at(net: HalfSpace, along: float) -> Tensor:
    """A point at a signed distance from the face."""
    return ((net.b + along) * net.w.detach())[None]


@pytest.mark.parametrize(
    ("share", "radii"),
    [
        (1.0, {100: 1.500475, 1000: 2.463263, 10_000: 3.198578, 100_000: 3.811457}),
        (0.99, {100: 1.349259, 1000: 1.978010, 10_000: 2.212420, 100_000: 2.290000}),
        (0.9, {100: 0.756515, 1000: 1.114483, 10_000: 1.228710, 100_000: 1.264845}),
        (0.6, {100: None, 1000: 0.128379, 10_000: 0.214054, 100_000: 0.240945}),
    ],
)
def test_radii_of_counts(share: float, radii: dict[int, float | None]) -> None:
    """R / sigma at alpha .001, computed elsewhere."""
    for n, radius in radii.items():
        found = Setting(sigma=1, n=n, alpha=0.001).radius(round(share * n))
        assert found == (None if radius is None else pytest.approx(radius, abs=1e-6))


def test_three_rows_by_hand() -> None:
    """With n = k the bound is alpha^(1/n); with n = 2, k = 1 it solves 1 - (1 - p)² = alpha; with k = 0 it is 0."""
    setting = Setting(sigma=0.25, n=10, alpha=0.001)
    # .001^(1/10) = 10^-0.3 = 0.50119: Phi⁻¹ = 0.00298
    assert setting.lower(10) == pytest.approx(10**-0.3)
    assert setting.ceiling == pytest.approx(0.25 * PHI.inv_cdf(10**-0.3))
    # P(9 or more of 10) = 10 p⁹ (1 - p) + p¹⁰ = .001 at p = 0.3763
    p = setting.lower(9)
    assert 10 * p**9 * (1 - p) + p**10 == pytest.approx(0.001)
    assert setting.radius(9) is None
    two = Setting(sigma=0.25, n=2, alpha=0.36)
    assert two.lower(1) == pytest.approx(1 - math.sqrt(1 - 0.36))  # 0.2
    assert two.lower(0) == 0.0
    assert two.lower(2) == pytest.approx(0.6)
    assert two.radius(2) == pytest.approx(0.25 * PHI.inv_cdf(0.6))


def test_prediction_by_hand() -> None:
    """9 of 10: 2 (1 + 10) / 2¹⁰ = 0.0215; 10 of 10: 2 / 2¹⁰ = 0.00195."""
    assert answer(3, 9, 1, alpha=0.022) == 3
    assert answer(3, 9, 1, alpha=0.021) is None
    assert answer(3, 10, 0, alpha=0.002) == 3
    assert answer(3, 10, 0, alpha=0.0019) is None
    assert answer(3, 0, 0, alpha=0.4) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"sigma": 0.0},
        {"sigma": math.inf},
        {"n": 0},
        {"n0": 0},
        {"alpha": 0.0},
        {"alpha": 0.5},
        {"n": 9},  # .001^(1/9) = .464
        {"n": 1, "alpha": 0.5 - 1e-9},
    ],
)
def test_settings_that_prove_nothing_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(BadInput):
        Setting(**{"sigma": 0.25, "n": 100, **wrong})  # type: ignore[arg-type]


def test_the_refusal_names_the_least_n() -> None:
    with pytest.raises(BadInput, match="at least 10"):
        Setting(sigma=1, n=9, alpha=0.001)
    assert Setting(sigma=1, n=10, alpha=0.001).ceiling > 0


@pytest.mark.parametrize(("alpha", "along"), [(0.001, 0.3), (0.05, 0.3), (0.05, 0.05)])
def test_the_radius_exceeds_the_truth_no_oftener_than_alpha(
    alpha: float, along: float, without_shape_checks: None
) -> None:
    """At signed distance d of a half-space the true pA is Phi(d / sigma), and the true radius d: 2,000 repetitions."""
    net = half_space()
    times, repetitions = 0, 2_000
    g, x = smoothed(net, sigma=0.25, n=200, n0=20, alpha=alpha), at(net, along)
    for row in range(repetitions):
        found = g.certify(x, row)
        if found.radius is None:
            continue
        true = along if found.top == 1 else -along
        times += found.radius > true
    assert binomtest(times, repetitions, alpha, alternative="greater").pvalue > 0.001
    if alpha == 0.05:  # and the bound is used up, not merely kept
        assert times > 0.01 * repetitions


def test_the_noise_is_gaussian_in_input_units() -> None:
    """The share of copies beyond the face is Phi(d / sigma)."""
    net = half_space()
    for along in (-0.2, 0.1):
        votes = smoothed(net, sigma=0.5, n=100, alpha=0.01).votes(at(net, along), 7, "certify", 20_000)
        assert binomtest(votes.counts[1], 20_000, PHI.cdf(along / 0.5)).pvalue > 0.001


def test_a_row_depends_on_nothing_but_itself() -> None:
    """Neither on the batch size; but on its index, its purpose and the seed."""
    net, x = half_space(), at(half_space(), 0.1)
    setting = {"sigma": 0.5, "n": 300, "n0": 30, "alpha": 0.01}
    first = smoothed(net, **setting).certify(x, 5)
    for batch_size in (1, 7, 300):
        assert smoothed(net, batch_size=batch_size, **setting).certify(x, 5) == first
    here = smoothed(net, **setting)
    draws = [here.copies(x, 5, "certify", 0, 4), here.copies(x, 5, "choose", 0, 4), here.copies(x, 6, "certify", 0, 4)]
    draws.append(smoothed(net, seed=1, **setting).copies(x, 5, "certify", 0, 4))
    draws.append(here.copies(x, 5, "certify", 4, 4))
    assert all(not torch.isclose(a, b).any() for i, a in enumerate(draws) for b in draws[:i])
    assert torch.equal(here.copies(x, 5, "certify", 2, 2), draws[0][2:])


class Odd(nn.Module):
    """Ties in half of the space, NaN in a quarter, class 1 in the rest; or raises there."""

    def __init__(self, *, raises: bool) -> None:
        super().__init__()
        self.raises = raises

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        if self.raises and bool((flat[:, 0] < 0).any()):
            raise ValueError("below 0")
        logits = torch.stack([torch.zeros(len(x)), (flat[:, 0] > 0).to(x.dtype)], dim=1)
        logits[(flat[:, 0] > 0) & (flat[:, 1] > 0)] = torch.nan
        return logits


@pytest.mark.parametrize("raises", [False, True])
def test_a_copy_without_a_decision_counts_for_no_class(raises: bool) -> None:
    net = smoothed(Odd(raises=raises), sigma=1.0, n=400, n0=40)
    net.oracle.known = torch.ones(1, 2)
    votes = net.votes(torch.zeros(1, 2), 0, "certify", 400)
    assert votes.counts[0] == 0
    assert sum(votes.counts) + votes.undecided == 400
    assert 60 < votes.counts[1] < 140
    found = net.certify(torch.zeros(1, 2), 0)
    assert (found.top, found.radius) == (1, None)  # a quarter of all copies, though the class with most


def test_the_attack_goes_straight_at_the_face_and_breaks_just_beyond_it() -> None:
    """g of a half-space is the half-space: its robust radius is the distance d."""
    net = half_space(dimension=6)
    x, inside = at(net, 0.2) + 0.5, 0.2 + float(0.5 * net.w.detach().sum())
    net.b = inside - 0.2
    g = smoothed(net, sigma=0.25, n=4_000, n0=20)
    for eps, answered in ((0.14, 1), (0.26, 0)):
        threat = Threat("l2", eps)
        x_adv = SmoothPGD().search(g, x, 1, 3, threat)
        assert bool(threat.contains(x, x_adv).all())
        assert g.predict(x_adv, 3).answer == answered
        gained = float((x - x_adv).flatten() @ net.w.detach())
        assert gained == pytest.approx(eps, rel=0.01)


def steep(factor: float) -> nn.Module:
    """Two classes that part where the first value is 0.6, their logits ``factor`` times the distance from there."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    with torch.no_grad():
        net[1].weight.copy_(factor * torch.tensor([[-1.0, 0, 0, 0], [1.0, 0, 0, 0]]))
        net[1].bias.copy_(factor * torch.tensor([0.6, -0.6]))
    return net.eval()


def test_a_saturated_softmax_still_has_a_slope_and_one_without_is_no_attack() -> None:
    x = torch.tensor([[0.9, 0.5, 0.5, 0.5]])
    # a margin of 60: every copy's softmax is exactly 1 in float32
    g = smoothed(steep(100.0), sigma=0.02, n=100, n0=20)
    assert float(SmoothPGD().search(g, x, 1, 0, Threat("l2", 0.5))[0, 0]) < 0.45
    with pytest.raises(NoSlope):
        SmoothPGD().search(smoothed(steep(1e5), sigma=0.02, n=100, n0=20), x, 1, 0, Threat("l2", 0.5))
