"""Climbing with no limit but the box: what healthy gradients do there, and what masked ones do not."""

import torch
from torch import Tensor, nn

import brinell
from brinell.models.torch_model import TorchModel
from brinell.readiness import Readiness
from brinell.threat import Threat
from brinell.unbounded import check_unbounded
from models_with_known_radius import random_linear


class Scaled(nn.Module):
    """The same decisions with logits so large that the softmax is flat."""

    def __init__(self, inner: nn.Module, factor: float) -> None:
        super().__init__()
        self.inner, self.factor = inner, factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * self.inner(x)


def found(module: nn.Module) -> Readiness:
    x = torch.rand(20, 3, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        y = module(x).argmax(1)
    y[:2] = (y[:2] + 1) % 5  # wrong at once: not counted
    ready = Readiness()
    check_unbounded(TorchModel(module.eval()), x, y, Threat("linf", 0.01), ready)
    return ready


def test_a_linear_model_falls_everywhere_by_either_loss() -> None:
    ready = found(random_linear(5, 48, seed=0))
    assert ready.unbounded == {"rows": 18, "ce": 0, "margin": 0}
    assert ready.notes == []


def test_logits_too_large_for_cross_entropy_are_told_and_the_margin_is_not_blamed() -> None:
    ready = found(Scaled(random_linear(5, 48, seed=0), 1e6))
    assert ready.unbounded["ce"] > 0
    assert ready.unbounded["margin"] == 0
    assert ["cross-entropy" in note for note in ready.notes] == [True]


def test_negated_gradients_mislead_both() -> None:
    class Negated(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: object, *grads: Tensor) -> Tensor:
            return -grads[0]

    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = random_linear(5, 48, seed=0)

        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.inner(Negated.apply(x))  # type: ignore[no-untyped-call]
            return logits

    ready = found(Masked())
    assert ready.unbounded["margin"] == ready.unbounded["ce"] == 18
    assert len(ready.notes) == 2


def test_passes_are_counted() -> None:
    """One over all rows, then at least two a loss over those that are right."""
    ready = found(random_linear(5, 48, seed=0))
    assert ready.forwards >= 20 + 2 * 2 * 18 - 18
    assert ready.backwards == ready.forwards - 20


def test_points_that_the_model_does_not_take_are_a_note() -> None:
    class Picky(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = random_linear(5, 48, seed=0)

        def forward(self, x: Tensor) -> Tensor:
            if bool((x == 1).any()):
                raise ValueError("no ones, please")
            logits: Tensor = self.inner(x)
            return logits

    ready = found(Picky())
    assert any("could not be climbed" in note for note in ready.notes)
    assert set(ready.unmade) == {"misleading-gradients", "saturated-cross-entropy"} - set(ready.findings)
    x = torch.rand(20, 3, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 0.97
    with torch.no_grad():
        y = Picky()(x).argmax(1)
    run = brinell.evaluate(Picky().eval(), x, y, threat=Threat("linf", 0.01), suite="fgsm")
    raised = {one.check: one.raised for one in run.reading.diagnoses}
    assert raised["misleading-gradients"] is raised["saturated-cross-entropy"] is None


def test_no_row_that_is_right() -> None:
    module = random_linear(5, 48, seed=0).eval()
    x = torch.rand(3, 3, 4, 4, dtype=torch.float64)
    with torch.no_grad():
        y = (module(x).argmax(1) + 1) % 5
    ready = Readiness()
    check_unbounded(TorchModel(module), x, y, Threat("linf", 0.01), ready)
    assert ready.unbounded == {"rows": 0, "ce": 0, "margin": 0}
