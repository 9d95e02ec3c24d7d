"""A defence that keeps the brightest pixels and drops the others, and the exact worst point of an affine model behind it.

Idea        ``z = W top_k(x) + b``: the decision jumps where one pixel overtakes another. A point keeps a set ``S`` of ``k``
            coordinates if and only if some threshold ``t`` lies between the kept and the dropped ones. For a given ``t``
            the coordinates are independent: one whose interval lies above ``t`` is kept, one whose interval lies below is
            dropped, and among the rest those are kept whose share of the margin is least.
            Between two neighbouring lower ends of intervals no coordinate becomes free to be dropped, while a larger ``t``
            only bars kept values from below: the least margin is attained at ``t`` equal to one of the lower ends.
Source      k-winners-take-all: Xiao et al. 2020 (arXiv 1905.10510).
Departures  winners among the inputs rather than among hidden units, so that the truth can be had.
"""

import torch
from torch import Tensor, nn

from brinell.defences.affine import HIGH, LOW, Affine, rivals_of
from brinell.defences.codes import HAIR
from brinell.defences.defence import Truth, Worst

BARRED = 1e9
"""Logit units; more than any share of a margin."""


class Winners(nn.Module):
    """The ``k`` largest coordinates as they are, 0 in place of the others."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(self, x: Tensor) -> Tensor:
        """Shaped like ``x``."""
        flat = x.flatten(1)
        kept = torch.zeros_like(flat).scatter(1, flat.topk(self.k, dim=1).indices, 1.0)
        return (flat * kept).view_as(x)


def winners_worst(affine: Affine, k: int) -> Worst:
    """In Linf: the least over rivals and thresholds."""
    weight, bias = affine.doubled()

    def worst(x: Tensor, y: Tensor, eps: float) -> Truth:
        flat = x.double().flatten(1)
        low, high = (flat - eps).clamp_min(LOW), (flat + eps).clamp_max(HIGH)
        margins, points = [], []
        for other in rivals_of(y, len(bias)).unbind(1):
            margin, point = _least(weight[y] - weight[other], low, high, k)
            margins.append(margin + bias[y] - bias[other])
            points.append(point)
        least, rival = torch.stack(margins, 1).min(dim=1)
        return Truth(least, least, torch.stack(points, 1)[torch.arange(len(x)), rival].view_as(x))

    return worst


def _least(gap: Tensor, low: Tensor, high: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The least of ``<gap, top_k(x)>`` over the box of each row, and a point; shapes within ``(row, threshold, feature)``."""
    t = low[:, :, None]
    least, most, share = low[:, None], high[:, None], gap[:, None]
    forced, free = least > t, most >= t
    value = torch.where(share > 0, torch.maximum(least, t), most)
    order = torch.where(forced, -BARRED, torch.where(free, share * value, BARRED))
    chosen = order.topk(k, dim=2, largest=False).indices
    possible = (forced.sum(2) <= k) & (free.sum(2) >= k)
    totals = (share * value).gather(2, chosen).sum(2).where(possible, torch.inf)
    total, which = totals.min(dim=1)
    rows = torch.arange(len(low))
    kept = torch.zeros_like(low).scatter(1, chosen[rows, which], 1.0) > 0
    # a hair apart, so that no tie has to be broken
    raised = torch.maximum(value[rows, which], low[rows, which][:, None] + HAIR).minimum(high)
    return total, torch.where(kept, raised, low)
