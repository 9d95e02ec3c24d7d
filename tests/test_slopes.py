"""A smooth slope changes where a search goes, and nothing that the model says."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from brinell.engine import Engine
from brinell.flight import Clean
from brinell.losses import MARGIN, margin_of
from brinell.models.torch_model import TorchModel
from brinell.oracle import Oracle
from brinell.queries import Answer, Cost, Gradient, Search
from brinell.slopes import SHARPNESS, SmoothReLUs
from brinell.suites.programme import Assignment
from brinell.threat import Threat

Z = torch.tensor([[-2.0, -0.1, 0.0, 0.3, 4.0]], dtype=torch.float64)


class InPlace(nn.Module):
    """Relies on the input being changed, and drops what is returned."""

    def forward(self, x: Tensor) -> Tensor:
        h = x * 1.0
        F.relu(h, inplace=True)
        return h


WAYS = {
    "nn.ReLU": nn.ReLU(),
    "nn.ReLU in place": nn.Sequential(nn.Identity(), nn.ReLU(inplace=True)),
    "F.relu in place": InPlace(),
    "torch.relu": torch.relu,
    "F.relu by name": lambda x: F.relu(input=x),
    "Tensor.relu": lambda x: x.relu(),
    "Tensor.relu_": lambda x: (x * 1.0).relu_(),
    "F.relu_": lambda x: F.relu_(x * 1.0),
    "torch.relu_": lambda x: torch.relu_(x * 1.0),
}


@pytest.mark.parametrize("way", WAYS)
def test_forward_exact_and_backward_smooth(way: str) -> None:
    """Out: max(z, 0) to the bit. Back: 3 sigmoid(5 z) where 3 comes in."""
    x = Z.clone().requires_grad_(True)
    with SmoothReLUs() as smooth:
        out = WAYS[way](x * 1.0)
    assert torch.equal(out, Z.clamp_min(0))
    (grad,) = torch.autograd.grad((3 * out).sum(), x)
    torch.testing.assert_close(grad, 3 * torch.sigmoid(SHARPNESS * Z), rtol=1e-12, atol=0)
    assert smooth.replaced == 1


def test_outside_it_nothing_is_left_of_it() -> None:
    x = Z.clone().requires_grad_(True)
    with SmoothReLUs():
        pass
    (grad,) = torch.autograd.grad(torch.relu(x).sum(), x)
    assert grad.tolist() == [[0.0, 0.0, 0.0, 1.0, 1.0]]


def test_other_functions_are_left_alone() -> None:
    x = Z.clone().requires_grad_(True)
    with SmoothReLUs() as smooth:
        out = F.gelu(x) + F.leaky_relu(x, 0.2) + x.clamp_min(0) + F.silu(x)
    (own,) = torch.autograd.grad(out.sum(), x)
    y = Z.clone().requires_grad_(True)
    (expected,) = torch.autograd.grad((F.gelu(y) + F.leaky_relu(y, 0.2) + y.clamp_min(0) + F.silu(y)).sum(), y)
    assert torch.equal(own, expected)
    assert smooth.replaced == 0


class Plateau(nn.Module):
    """One feature in [0, 1]: class 0 scores 0, class 1 scores ``10 relu(x - 0.6) - 1``: flat, and right, below 0.6.

    The model errs on class 0 from 0.7 on.
    """

    def forward(self, x: Tensor) -> Tensor:
        rising = 10 * torch.relu(x[:, 0] - 0.6) - 1
        return torch.stack([torch.zeros_like(rising), rising], dim=1)


class Climb:
    """Sign steps from the clean input, by one slope or the other, or in turns."""

    name = "climb"

    def __init__(self, slopes: list[str]) -> None:
        self.slopes = slopes

    def attempts(self) -> int:
        return 1

    def cost(self) -> Cost:
        return Cost(len(self.slopes), len(self.slopes))

    def search(self, given, ball, noise) -> Search:  # type: ignore[no-untyped-def]
        x_adv = given.x
        for slope in self.slopes:
            answer: Answer = yield Gradient(x_adv, MARGIN, slope=slope)  # type: ignore[arg-type]
            x_adv = ball.ascend(x_adv, answer.grad, ball.steps(0.5))


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake is no dataclass, so that the engine is told what it is."""
    monkeypatch.setattr("brinell.engine.identity", lambda attack: "climb")


@pytest.mark.parametrize(
    ("slopes", "falls"), [(["own"] * 6, False), (["smooth"] * 6, True), (["own", "smooth"] * 3, True)]
)
def test_a_plateau_is_left_by_the_smooth_slope_alone(slopes: list[str], falls: bool) -> None:
    model = TorchModel(Plateau())
    x, y = torch.full((5, 1), 0.3), torch.zeros(5, dtype=torch.int64)
    engine = Engine(Oracle(model, classes=2, seed=0, batch_size=3), Threat("linf", 0.5))
    clean = Clean(x, y, model.scores(x))
    steps = list(
        engine.run(Assignment(0, 0, Climb(slopes), 0, range(5)), lambda rows: Clean(*(t[list(rows)] for t in clean)))
    )  # type: ignore[arg-type]
    claims = [claim for step in steps for claim in step.claims]
    assert len(claims) == (5 if falls else 0)
    for claim in claims:  # judged by the model as it is
        assert float(margin_of(model.scores(claim.point[None]), y[:1])) <= 0
        assert float(claim.point) == pytest.approx(0.8)
