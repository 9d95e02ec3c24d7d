"""Defended linear classifiers that know the truth about themselves, and share no code with the package.

A row is robust if no point of its Linf ball cut by [0, 1] is decided wrongly and, where there is a detector, accepted.
"""

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import torch
from scipy.optimize import linprog
from torch import Tensor, nn

from models_with_known_radius import Linear, random_linear

CLASSES, FEATURES, ROWS = 3, 12, 48


def bare(classes: int = CLASSES) -> Linear:
    """A linear classifier in float64, in evaluation mode."""
    return random_linear(classes, FEATURES, seed=3).eval()


def rows(model: nn.Module, count: int = ROWS, seed: int = 4) -> tuple[Tensor, Tensor]:
    """Rows in the box with the labels that the model gives them, so that all are right at first."""
    x = torch.rand(count, FEATURES, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    with torch.no_grad():
        return x, model(x)[:, :CLASSES].argmax(1)


def quantised(levels: int) -> Callable[[Tensor], Tensor]:
    """To the nearest of so many levels in [0, 1], by way of numpy: no gradient."""

    def quantise(x: Tensor) -> Tensor:
        return torch.from_numpy(np.round(x.numpy() * (levels - 1)) / (levels - 1))

    return quantise


def robust_behind_levels(model: Linear, levels: int, x: Tensor, y: Tensor, eps: float) -> list[bool]:
    """Each coordinate can reach all levels between those of its interval's ends, whence the worst margin is a sum."""
    weight, bias = model.weight.detach(), model.bias.detach()
    ends = [quantised(levels)((x + side).clamp(0, 1)) for side in (-eps, eps)]
    gaps = weight[y][:, None, :] - weight
    worst = torch.minimum(gaps * ends[0][:, None], gaps * ends[1][:, None]).sum(2) + bias[y][:, None] - bias
    return [bool(v) for v in worst.scatter(1, y[:, None], torch.inf).amin(1) > 0]


def feasible(rules: Iterator[tuple[Tensor, float]], x: Tensor, eps: float) -> bool:
    """Whether a point of the ball meets every ``a . x <= b``: a linear programme without an aim."""
    a, b = zip(*((side.numpy(), bound) for side, bound in rules), strict=True)
    bounds = [(max(float(v) - eps, 0.0), min(float(v) + eps, 1.0)) for v in x]
    found = linprog(np.zeros(len(x)), A_ub=np.stack(a), b_ub=np.array(b), bounds=bounds, method="highs")
    assert found.status in (0, 2)  # solved, or infeasible
    return bool(found.status == 0)


def wrong(model: Linear, y: int, j: int) -> Iterator[tuple[Tensor, float]]:
    """``z_y <= z_j``, and ``j`` is the highest class."""
    weight, bias = model.weight.detach(), model.bias.detach()
    for k in range(len(weight)):
        if k != j:
            yield weight[k] - weight[j], float(bias[j] - bias[k])


def wrong_and_confident(model: Linear, y: int, j: int, gap: float) -> Iterator[tuple[Tensor, float]]:
    """The same by at least ``gap``, which the detector of Z25 accepts."""
    return ((side, bound - gap) for side, bound in wrong(model, y, j))


def wrong_in_slab(model: Linear, y: int, j: int, v: Tensor, half: float) -> Iterator[tuple[Tensor, float]]:
    """The same within ``|v . (x - 1/2)| <= half``, which the detector of Z26 accepts."""
    yield from wrong(model, y, j)
    middle = float(v.sum()) / 2
    yield v, half + middle
    yield -v, half - middle


def evaded(x: Tensor, y: Tensor, eps: float, rules: Callable[[int, int], Iterator[tuple[Tensor, float]]]) -> list[bool]:
    """Rows of which some point is wrong and accepted, exactly."""
    found = [False] * len(x)
    for (i, own), j in product(enumerate(y.tolist()), range(CLASSES)):
        if j != own and not found[i]:
            found[i] = feasible(rules(own, j), x[i], eps)
    return found
