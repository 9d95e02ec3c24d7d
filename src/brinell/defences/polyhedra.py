"""Defences whose decision regions are polyhedra: their truth is a linear programme, in Linf.

One programme answers all: the least value over a box of the greatest of some affine functions.
"""

from functools import cache
from itertools import combinations

import numpy as np
import torch
from scipy.optimize import linprog
from torch import Tensor, nn

from brinell.defences.affine import HIGH, LOW, Affine
from brinell.defences.defence import TOLERANCE, Truth, Worst

SHIFTS = ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0))
"""By how many pixels down and right an image is turned, as on a ring."""


class Maxout(nn.Module):
    """``z_j = max_k (w_jk . x + b_jk)``: weight ``(cls * piece, feature)``, pieces of a class beside each other."""

    def __init__(self, pieces: Affine, each: int) -> None:
        super().__init__()
        self.pieces, self.each = pieces.module(), each

    def forward(self, x: Tensor) -> Tensor:
        """The best piece of each class."""
        scores: Tensor = self.pieces(x).unflatten(1, (-1, self.each)).amax(2)
        return scores


def least_of_greatest(functions: Affine, low: Tensor, high: Tensor) -> tuple[float, Tensor]:
    """``min_x max_m (w_m . x + b_m)`` over a box, and a point that attains it: ``min t`` subject to ``w_m . x + b_m <= t``."""
    count, features = functions.weight.shape
    above = np.hstack([functions.weight.numpy(), -np.ones((count, 1))])
    bounds = [*zip(low.tolist(), high.tolist(), strict=True), (None, None)]
    solved = linprog([*[0.0] * features, 1.0], above, -functions.bias.numpy(), bounds=bounds, method="highs")
    assert solved.status == 0, solved.message
    point = torch.from_numpy(solved.x[:-1]).clamp(low, high)
    return float((functions.weight @ point + functions.bias).max()), point


def maxout_worst(pieces: Affine, each: int) -> Worst:
    """For each piece of each rival: the true class's best piece must not be above it."""
    weight, bias = pieces.doubled()

    def worst(x: Tensor, y: Tensor, eps: float) -> Truth:
        margins, points = [], []
        for row, label in zip(x.double().flatten(1), y.tolist(), strict=True):
            low, high = (row - eps).clamp_min(LOW), (row + eps).clamp_max(HIGH)
            own = slice(label * each, (label + 1) * each)
            rivals = [
                Affine(weight[own] - weight[k], bias[own] - bias[k]) for k in range(len(bias)) if k // each != label
            ]
            margin, point = _least_of_all(rivals, low, high)
            margins.append(margin)
            points.append(point)
        least = torch.tensor(margins, dtype=torch.float64)
        return Truth(least, least, torch.stack(points).view_as(x))

    return worst


def _least_of_all(rivals: list[Affine], low: Tensor, high: Tensor) -> tuple[float, Tensor]:
    """The least of several such programmes; one whose functions taken singly lie above the best so far is not solved."""
    bounds = [float(_least_of_each(functions, low, high).max()) for functions in rivals]
    best, point = float("inf"), low
    for bound, functions in sorted(zip(bounds, rivals, strict=True), key=lambda pair: pair[0]):
        if bound >= best:
            break
        value, found = least_of_greatest(functions, low, high)
        if value < best:
            best, point = value, found
    return best, point


def _least_of_each(functions: Affine, low: Tensor, high: Tensor) -> Tensor:
    """The least value of each affine function over a box."""
    return (functions.weight * torch.where(functions.weight > 0, low, high)).sum(1) + functions.bias


class Shifted(nn.Module):
    """Draws one of five shifts for each row and pass."""

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base = base

    def forward(self, x: Tensor) -> Tensor:
        """The logits of the images as shifted."""
        drawn = torch.randint(len(SHIFTS), (len(x),))
        every = torch.stack([x.roll(shift, (2, 3)) for shift in SHIFTS])
        logits: Tensor = self.base(every[drawn, torch.arange(len(x))])
        return logits


@cache
def _subsets() -> tuple[tuple[int, ...], ...]:
    """Of the five shifts, the larger ones first."""
    every = range(len(SHIFTS))
    return tuple(subset for size in range(len(SHIFTS), 0, -1) for subset in combinations(every, size))


def shifted_worst(affine: Affine) -> Worst:
    """Of two classes: the probability of being right is 1 less a fifth for each shift that one point makes wrong.

    The largest set of shifts under all of which some point errs is found by trying all sets. Under a shift the margin is
    affine with the weights shifted back; a set errs together if and only if the least of its greatest margin is not above 0.
    """
    weight, bias = affine.doubled()
    gap, offset = weight[0] - weight[1], bias[0] - bias[1]
    back = torch.stack([gap.view(8, 8).roll((-down, -right), (0, 1)).flatten() for down, right in SHIFTS])

    def worst(x: Tensor, y: Tensor, eps: float) -> Truth:
        found = [
            _most_wrong((1.0 - 2.0 * label) * back, (1.0 - 2.0 * label) * offset, row, eps)
            for row, label in zip(x.double().flatten(1), y.tolist(), strict=True)
        ]
        least, most = (torch.tensor([known[k] for known in found], dtype=torch.float64) for k in (0, 1))
        return Truth(least, most, torch.stack([point for _, _, point in found]).view_as(x))

    return worst


def _most_wrong(margins: Tensor, offset: Tensor, row: Tensor, eps: float) -> tuple[float, float, Tensor]:
    """Bounds of the least probability of being right, apart only where a set errs by less than rounding; and the point."""
    low, high, least = (row - eps).clamp_min(LOW), (row + eps).clamp_max(HIGH), 1.0
    for subset in _subsets():
        some = Affine(margins[list(subset)], offset.expand(len(subset)))
        if float(_least_of_each(some, low, high).max()) > TOLERANCE:
            continue  # under one of these shifts the model is right everywhere
        greatest, point = least_of_greatest(some, low, high)
        chance = 1 - len(subset) / len(SHIFTS)
        if greatest <= TOLERANCE:
            least = min(least, chance)
        if greatest <= -TOLERANCE:
            return least, chance, point
    return least, 1.0, row
