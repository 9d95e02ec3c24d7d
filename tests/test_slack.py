"""The deployed model is the network that is bounded, or nothing is certified."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from brinell.certify.chain import Certificate, certify
from brinell.certify.graph import network_of
from brinell.certify.operators import Dense
from brinell.certify.region import Region
from brinell.certify.rounding import rounding_of
from brinell.certify.slack import TOLERANCE, slack_of
from brinell.errors import BadInput
from brinell.threat import RELATIVE_TOLERANCE, Threat


class Written(nn.Module):
    """Two scores of two inputs, ``10`` and ``5 - h``, where ``h = 10 - x0`` is rectified in a way of one's own."""

    def __init__(self, rectified: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.rectified = rectified
        self.first, self.last = nn.Linear(2, 4), nn.Linear(4, 2)
        with torch.no_grad():
            for part in (*self.first.parameters(), *self.last.parameters()):
                part.zero_()
            self.first.weight[0, 0], self.first.bias[0] = -1.0, 10.0
            self.last.weight[1, 0], self.last.bias[:] = -1.0, torch.tensor([10.0, 5.0])

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        self.rectified(h)
        scores: Tensor = self.last(h)
        return scores


WRITES = {
    "itself": lambda h: h.relu_(),
    "a view": lambda h: functional.relu_(h.view(-1, 2, 2)),
    "a module": lambda h: nn.ReLU(inplace=True)(h.view(-1, 1, 2, 2)),
    "detached": lambda h: h.detach().relu_(),
    "flattened": lambda h: h.flatten(1).clamp_(min=0),
    "into": lambda h: torch.clamp(h, min=0, out=h),
}


@pytest.mark.parametrize("how", WRITES)
def test_what_is_written_in_place_is_read_through_all_names(how: str) -> None:
    """Where ``h`` is negative the model says (10, 5); read without the ReLU it would say class 1 far out."""
    module = Written(WRITES[how]).eval()
    x = torch.tensor([[100.0, 100.0]])
    assert torch.equal(network_of(module, (2,)).forward(x.double()), torch.tensor([[10.0, 5.0]], dtype=torch.float64))
    right, wrong = (one(module, x, label, Threat("linf", 8, low=0, high=255)) for label in (0, 1))
    assert right.outcome == "certified"
    assert right.margin == pytest.approx(5.0)
    assert wrong.outcome == "violated"


def one(module: nn.Module, x: Tensor, label: int, threat: Threat) -> Certificate:
    return next(certify(module, x, torch.tensor([label]), threat, seconds=1))


class Scores(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def test_a_model_that_does_something_else_when_deployed_is_not_certified() -> None:
    """In float64, as it is traced, it says class 0 everywhere."""
    fair, foul = torch.tensor([0.9, 0.1]), torch.tensor([0.1, 0.9])

    def by_precision(x: Tensor) -> Tensor:
        return 0 * x + (fair if x.dtype == torch.float64 else foul).to(x.dtype)

    def by_rows(x: Tensor) -> Tensor:
        return 0 * x + (fair if len(x) == 3 else foul).to(x.dtype)

    x, threat = torch.tensor([[0.5, 0.5]]), Threat("linf", 0.1)
    assert one(Scores(by_precision), x, 0, threat).outcome == "violated"
    turned = one(Scores(by_precision), x, 1, threat)
    assert turned.outcome != "certified"
    assert turned.tolerance > 0.8
    with pytest.raises(BadInput, match="outputs are not those"):
        network_of(Scores(by_rows), (2,))


@pytest.mark.parametrize("size", [2.0**20, 2.0**24])
def test_digits_that_cancel_in_the_deployed_model_widen_the_slack(size: float) -> None:
    """``(x + size) - size`` is ``x`` in real numbers; in float32 it is rounded to a multiple of ``size / 2^23``."""
    module = nn.Sequential(Cancelling(size))
    x, threat = torch.tensor([[0.75, 0.25]]), Threat("linf", 0.2)
    found = one(module, x, 0, threat)
    assert found.outcome != "certified"
    assert found.tolerance > size / 2**23
    exact = one(nn.Sequential(Cancelling(1.0)), x, 0, threat)
    assert exact.outcome == "certified"
    assert exact.tolerance == pytest.approx(TOLERANCE)


class Cancelling(nn.Module):
    def __init__(self, size: float) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        return x + self.size - self.size


def test_digits_that_cancel_in_float64_widen_the_slack() -> None:
    """``0.5 + 2^54 - 2^54`` is 0 in float64 as it is deployed and as it is bounded: neither is the real number."""
    found = one(Cancelling(2.0**54).double(), torch.tensor([[0.5, -0.2]], dtype=torch.float64), 0, Threat("linf", 0.1))
    assert found.outcome != "certified"
    assert slack_of_float64(2.0**54) > 1
    assert slack_of_float64(1.0) == pytest.approx(TOLERANCE)


def slack_of_float64(size: float) -> float:
    x = torch.tensor([[0.5, 0.2]], dtype=torch.float64)
    module = Cancelling(size)
    return float(slack_of(module, network_of(module, (2,)), x, Region.of(Threat("linf", 0.1), x)).enough[0])


@pytest.mark.parametrize("seed", range(5))
def test_rounding_is_within_its_bound(seed: int) -> None:
    """The same network rounded in float32, whose unit is 2^29 times as large, against float64."""
    torch.manual_seed(seed)
    module = nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(27, 20), nn.Tanh(), nn.Linear(20, 4)
    ).eval()
    network, x = network_of(module, (1, 8, 8)), torch.rand(50, 1, 8, 8)
    region = Region(x.double() - 0.1, x.double() + 0.1)
    bound = rounding_of(network, region) * 2.0**29
    with torch.no_grad():
        seen = (network.to(torch.float32).forward(x).double() - network.forward(x.double())).abs().amax(1)
    assert (seen <= bound).all()
    assert (bound < 1e5 * seen).all()


def test_a_ball_reaches_as_far_as_membership_allows() -> None:
    """A point that counts as a witness lies in the region of the proof."""
    x, threat = torch.tensor([[0.5, 0.5]], dtype=torch.float64), Threat("linf", 0.1)
    beyond = x + 0.1 * (1 + 0.99 * RELATIVE_TOLERANCE)
    assert threat.contains(x, beyond).all()
    region = Region.of(threat, x)
    assert bool((beyond <= region.upper).all())
    steep = nn.Linear(2, 2).double()
    with torch.no_grad():
        steep.weight[:], steep.bias[:] = torch.tensor([[-1e8, 0.0], [0.0, 0.0]]), torch.tensor([0.6e8 + 1.0, 0.0])
        assert float(steep(beyond)[0, 0]) < 0
    found = one(steep, x, 0, threat)
    assert found.outcome != "certified"


def test_one_score_is_no_classifier() -> None:
    with pytest.raises(BadInput, match="two or more classes"):
        one(nn.Linear(2, 1), torch.rand(1, 2), 0, Threat("linf", 0.1))


ROW = torch.ones(3, 4, dtype=torch.float64)
REFUSED = {
    "cat": lambda x: torch.cat([x, x], 1),
    "stack": lambda x: torch.stack([x, 2 * x], 1).flatten(1),
    "weight": lambda x: functional.linear(ROW, x),
    "bias": lambda x: functional.linear(ROW, torch.ones(4, 4, dtype=torch.float64), x),
    "bound": lambda x: torch.clamp(x, min=torch.zeros(4, dtype=x.dtype)),
    "shift": lambda x: torch.addmm(ROW, x, torch.ones(4, 4, dtype=torch.float64)),
    "ceiling": lambda x: functional.max_pool2d(x.view(-1, 1, 2, 2), 2, 1, ceil_mode=True).flatten(1),
    "positions": lambda x: functional.max_pool2d(x.view(-1, 1, 2, 2), 2, return_indices=True)[1].flatten(1).double(),
}


@pytest.mark.parametrize("how", REFUSED)
def test_what_no_reader_foresees_is_refused(how: str) -> None:
    with pytest.raises(BadInput):
        network_of(Scores(REFUSED[how]), (4,))


def test_a_pool_that_rounds_up_is_refused_for_that() -> None:
    with pytest.raises(BadInput, match="round up"):
        network_of(nn.Sequential(nn.Conv2d(1, 1, 1), nn.MaxPool2d(2, ceil_mode=True), nn.Flatten()), (1, 3, 3))


def test_a_dense_layer_is_still_one_operator() -> None:
    network = network_of(nn.Linear(4, 3), (4,))
    assert [type(node.operator) for node in network.nodes[1:]] == [Dense]
