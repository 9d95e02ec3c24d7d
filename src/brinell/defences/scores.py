"""Defences that change scores or gradients and never the decision: the truth stays that of the model underneath."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

Change = Callable[[Tensor, Tensor], Tensor]
"""Takes inputs ``(row, feature)`` and logits; gives scores in the same order."""


class Rescored(nn.Module):
    """Another model's logits, changed in a way that keeps their order."""

    def __init__(self, base: nn.Module, change: Change) -> None:
        super().__init__()
        self.base, self.change = base, change

    def forward(self, x: Tensor) -> Tensor:
        """The scores."""
        return self.change(x.flatten(1), self.base(x))


def times(factor: float) -> Change:
    """The logits on another scale."""
    return lambda x, z: z * factor


def plus(offset: float) -> Change:
    """A number added to all logits alike."""
    return lambda x, z: z + offset


def softmax_of(factor: float) -> Change:
    """Probabilities at a temperature of one over ``factor``."""
    return lambda x, z: (z * factor).softmax(1)


def squashed(x: Tensor, z: Tensor) -> Tensor:
    """``c / (1 + |c|)`` of a hundred times the centred logits: far from 0 it is all but flat."""
    c = 100 * (z - z.mean(1, keepdim=True))
    return c / (1 + c.abs())


def ranks(x: Tensor, z: Tensor) -> Tensor:
    """The place of each logit among all, from 0; cut off from the input."""
    return z.argsort(1).argsort(1).to(z.dtype)


def label_alone(x: Tensor, z: Tensor) -> Tensor:
    """1 for the decision and 0 for the rest; cut off from the input."""
    return one_hot(z.argmax(1), z.shape[1]).to(z.dtype)


def rounded(x: Tensor, z: Tensor) -> Tensor:
    """Rounded to halves, and a thousandth more for the decision; the gradient is 0."""
    return (2 * z).round() / 2 + 1e-3 * one_hot(z.argmax(1), z.shape[1])


def halved(x: Tensor, z: Tensor) -> Tensor:
    """Rounded to float16: near logits may become equal, and a tie is an error."""
    return z.half().to(z.dtype)


def sine_gain(x: Tensor, z: Tensor) -> Tensor:
    """Centred logits times a gain that swings between 0.05 and 1.95 along one direction."""
    direction = torch.linspace(-1, 1, x.shape[1], dtype=x.dtype)
    return (z - z.mean(1, keepdim=True)) * (1 + 0.95 * torch.sin(300 * (x @ (direction / direction.norm()))))[:, None]


def gain_trap(x: Tensor, z: Tensor) -> Tensor:
    """Centred logits over ``exp(first - second)``: the margin grows on the way to the boundary, until it is below 1."""
    highest = z.topk(2, dim=1).values
    return (z - z.mean(1, keepdim=True)) * torch.exp(highest[:, 1:] - highest[:, :1])


def gradient_times(factor: float) -> Change:
    """The logits themselves; what goes back through them is multiplied."""
    return lambda x, z: z.detach() + factor * (z - z.detach())


def random_gradient(x: Tensor, z: Tensor) -> Tensor:
    """The logits themselves; what goes back through each is multiplied by a normal number of its own."""
    return z.detach() + torch.randn_like(z) * (z - z.detach())


def underflowing(x: Tensor, z: Tensor) -> Tensor:
    """The logits themselves; what goes back through them is float16, a millionth of its size, on the way."""
    if z.requires_grad:
        z.register_hook(lambda grad: (grad * 1e-6).half().to(grad.dtype) * 1e6)  # type: ignore[no-untyped-call]  # torch's own
    return z
