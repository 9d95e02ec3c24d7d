"""Defences that may decline to answer: an eleventh score for "no class", and declining counts as an error.

So robust accuracy is that of rows on which the model answers, and is right, at every point. What it would be worth to
decline in an attack but not otherwise is another figure, and not this one.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from brinell.defences.affine import Affine, affine_worst, best_move
from brinell.defences.defence import Truth, Worst


class CloseCalls(nn.Module):
    """Declines where the two highest logits are within ``gap`` of each other."""

    def __init__(self, base: nn.Module, gap: float) -> None:
        super().__init__()
        self.base, self.gap = base, gap

    def forward(self, x: Tensor) -> Tensor:
        """Logits, and the second highest plus ``gap``: the highest score of all where the model declines."""
        z = self.base(x)
        return torch.cat([z, z.topk(2, dim=1).values[:, 1:] + self.gap], dim=1)


def close_calls_worst(affine: Affine, gap: float) -> Worst:
    """A row is answered and right where its margin is above ``gap``: the affine model's worst margin less ``gap``."""
    bare = affine_worst(affine, "linf")

    def worst(x: Tensor, y: Tensor, eps: float) -> Truth:
        truth = bare(x, y, eps)
        return Truth(truth.least - gap, truth.most - gap, truth.point)

    return worst


@dataclass(frozen=True)
class Slab:
    """A range of the mean brightness."""

    middle: float
    half: float
    """Half of its width."""

    @staticmethod
    def of(x: Tensor, share: float) -> "Slab":
        """The range that holds the middle ``share`` of some rows."""
        ends = torch.quantile(x.double().flatten(1).mean(1), torch.tensor([1 - share, 1 + share]).double() / 2)
        return Slab(float(ends.mean()), float(ends[1] - ends[0]) / 2)


class OutsideSlab(nn.Module):
    """Declines where the mean brightness lies outside a range."""

    def __init__(self, base: nn.Module, slab: Slab) -> None:
        super().__init__()
        self.base, self.slab = base, slab

    def forward(self, x: Tensor) -> Tensor:
        """Logits, and the highest plus the distance out of the range, in hundredths of brightness."""
        z = self.base(x)
        out = (x.flatten(1).mean(1, keepdim=True) - self.slab.middle).abs() - self.slab.half
        return torch.cat([z, z.amax(1, keepdim=True) + 100 * out], dim=1)


def slab_worst(affine: Affine, slab: Slab) -> Worst:
    """The less of the affine model's worst margin and, in hundredths, of the room that the brightest and darkest points have."""
    bare = affine_worst(affine, "linf")

    def worst(x: Tensor, y: Tensor, eps: float) -> Truth:
        truth, flat = bare(x, y, eps), x.double().flatten(1)
        least, point = truth.least, truth.point.flatten(1)
        for sign in (1.0, -1.0):
            end = flat + best_move(torch.full_like(flat, sign), -flat, 1 - flat, "linf", eps)
            room = 100 * (slab.half - sign * (end.mean(1) - slab.middle))
            point = torch.where((room < least)[:, None], end, point)
            least = torch.minimum(least, room)
        return Truth(least, least, point.view_as(x))

    return worst
