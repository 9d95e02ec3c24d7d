"""Affine models, and their exact worst point in ball and box.

``z_j(x) = w_j . x + b_j``, so that the margin against a rival ``j`` is affine too, and its least value over ball and box
is a linear programme (L2: a cone programme) whose solution is written down. Computed in float64 from the weights as the
model holds them; shares no code with any attack.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from brinell.defences.defence import Truth, Worst
from brinell.geometry import Norm

LOW, HIGH = 0.0, 1.0
"""The box of every defence."""
LOGITS = 10.0
"""Fitted to the classes' indicators times this, so that logits spread as those of a trained model do."""


class Affine(NamedTuple):
    """Weight ``(cls, feature)`` and bias ``(cls,)``."""

    weight: Tensor
    bias: Tensor

    def module(self) -> nn.Module:
        """The model: the inputs made flat, and one layer."""
        layer = nn.Linear(self.weight.shape[1], self.weight.shape[0])
        with torch.no_grad():
            layer.weight.copy_(self.weight)
            layer.bias.copy_(self.bias)
        return nn.Sequential(nn.Flatten(), layer).eval()

    def doubled(self) -> "Affine":
        """The same in float64."""
        return Affine(self.weight.detach().double(), self.bias.detach().double())


def least_squares(features: Tensor, y: Tensor, classes: int, decay: float = 0.01) -> Affine:
    """``argmin mean ‖W f + b - t‖^2 + decay ‖W‖^2`` with ``t`` ten times the class's indicator, in float32.

    ``W = (F'F / n + decay I)^-1 F'T / n`` on centred ``F`` and ``T``.
    """
    f, t = features.flatten(1).double(), LOGITS * one_hot(y, classes).double()
    centred = f - f.mean(0)
    gram = centred.T @ centred / len(f) + decay * torch.eye(f.shape[1], dtype=f.dtype)
    weight = torch.linalg.solve(gram, centred.T @ (t - t.mean(0)) / len(f)).T
    return Affine(weight.float(), (t.mean(0) - weight @ f.mean(0)).float())


def best_move(g: Tensor, lower: Tensor, upper: Tensor, norm: Norm, eps: float) -> Tensor:
    """``argmax <g, p>`` subject to ``‖p‖ <= eps`` and ``lower <= p <= upper``, over the last dimension; 0 lies inside.

    Linf  each coordinate goes to one end of its interval.
    L1    the steepest coordinates are filled first, each up to the room that the box leaves.
    L2    ``p = clip(t g)``, where ``t`` is found by bisection on ``‖p‖ = eps``, from below.
    """
    room = torch.where(g > 0, upper, -lower).expand_as(g)
    if norm == "linf":
        return g.sign() * room.clamp_max(eps)
    if norm == "l1":
        order = g.abs().argsort(dim=-1, descending=True)
        filled = room.gather(-1, order)
        spent = filled.cumsum(-1) - filled
        amount = torch.minimum(filled, (eps - spent).clamp_min(0))
        return g.sign() * torch.zeros_like(amount).scatter(-1, order, amount)
    unit = g / g.abs().amax(-1, keepdim=True).clamp_min(1e-300)
    least, most = torch.zeros_like(g[..., :1]), torch.full_like(g[..., :1], 1e9)
    for _ in range(100):
        middle = (least + most) / 2
        inside = torch.minimum(middle * unit.abs(), room).square().sum(-1, keepdim=True) <= eps * eps
        least, most = torch.where(inside, middle, least), torch.where(inside, most, middle)
    return g.sign() * torch.minimum(least * unit.abs(), room)


def rivals_of(y: Tensor, classes: int) -> Tensor:
    """The other classes of each row, ``(row, cls - 1)``."""
    return torch.arange(1, classes).add(y[:, None]).remainder(classes)


def affine_worst(affine: Affine, norm: Norm) -> Worst:
    """Of an affine model: the least margin over the rivals, each at its own worst point."""
    weight, bias = affine.doubled()

    def worst(x: Tensor, y: Tensor, eps: float) -> Truth:
        flat, others = x.double().flatten(1), rivals_of(y, len(bias))
        gaps = weight[y][:, None] - weight[others]
        move = best_move(-gaps, (LOW - flat)[:, None], (HIGH - flat)[:, None], norm, eps)
        points = flat[:, None] + move
        margins = (gaps * points).sum(2) + bias[y][:, None] - bias[others]
        least, which = margins.min(dim=1)
        return Truth(least, least, points[torch.arange(len(x)), which].view_as(x))

    return worst
