"""A question with every ReLU decided is a linear programme; its dual solution gives the multipliers of the best bound.

Idea        on such a question the network is affine: minimise ``<c, x>`` subject to the signs of the values before the ReLUs.
            The dual variables, put into β-CROWN's bound, make it as high as the minimum; the solver need not be believed, for
            the bound is computed anew. Where no point satisfies the signs, the least violation's dual variables prove that.
Source      linear programming duality; the multipliers are those of Wang et al. 2021 (β-CROWN, arXiv 2103.06624), theorem 3.1.
Departures  none; regions that are cut by a ball are not linear and have no such programme.
Cost        one walk for each ReLU with a sign, and at most two linear programmes over the input's coordinates.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from brinell.certify.ascent import Climb
from brinell.certify.crown import Walk
from brinell.certify.relaxation import Relaxation, ReLUs
from brinell.shapes import Inputs

FEASIBLE = 1e-7
"""Violation of the signs below which the programme is taken to have a point."""

Vector = NDArray[np.float64]


class Leaf(NamedTuple):
    """What the programme came to."""

    multipliers: Tensor
    """For all places of all ReLU layers in their order."""
    point: Inputs | None
    """One row, at which the function is least; None where there is none or the solver found none."""


def leaf_of(climb: Climb, relaxations: Mapping[int, Relaxation], start: int, spec: Tensor) -> Leaf:
    """The solution on a box; ``spec`` has one row and one function."""
    layers = {i: layer for i, layer in relaxations.items() if isinstance(layer, ReLUs)}
    bare = {
        i: replace(layer, chosen=layer.chosen._replace(beta=None)) if isinstance(layer, ReLUs) else layer
        for i, layer in relaxations.items()
    }
    signs = torch.cat([layer.chosen.sign.flatten() for layer in layers.values() if layer.chosen.sign is not None])
    with torch.no_grad():
        goal = Walk(climb.network, bare, start, spec)
        rows = [_values(climb, bare, i, layer) for i, layer in layers.items()]
    normals, offsets = torch.cat([normal for normal, _ in rows]), torch.cat([offset for _, offset in rows])
    asked = (signs != 0).nonzero().squeeze(1)
    beta = torch.zeros_like(signs)
    # -sign z(x) <= 0
    left, right = (-signs[:, None] * normals)[asked].numpy(), (signs * offsets)[asked].numpy()
    ends = torch.stack([climb.region.lower.flatten(), climb.region.upper.flatten()], dim=1).numpy()
    best, point = _solved(goal.normal.flatten().numpy(), left, right, ends, float(goal.offset))
    beta[asked] = torch.from_numpy(best)
    return Leaf(beta, None if point is None else torch.from_numpy(point).view_as(climb.region.lower))


def _values(climb: Climb, bare: Mapping[int, Relaxation], i: int, layer: ReLUs) -> tuple[Tensor, Tensor]:
    """What is before a ReLU layer's places as affine functions of the input: normals (place, feature), offsets (place)."""
    source = climb.network.nodes[i].sources[0]
    index, shape = layer.places.index, climb.network.nodes[source].shape
    a = torch.zeros(1, len(index), torch.Size(shape).numel(), dtype=torch.float64)
    a[0, torch.arange(len(index)), index] = 1
    walk = Walk(climb.network, bare, source, a.view(1, len(index), *shape))
    return walk.normal.flatten(2)[0], walk.offset[0]


def _solved(goal: Vector, left: Vector, right: Vector, ends: Vector, offset: float) -> tuple[Vector, Vector | None]:
    """Multipliers of ``left x <= right`` for the least ``<goal, x>`` between the ends, or large ones if there is no point."""
    from scipy.optimize import linprog  # takes a third of a second to load, and few rows come this far

    if not all(np.isfinite(part).all() for part in (goal, left, right)):
        return np.zeros(len(right)), None
    if len(right):
        slack = np.hstack([left, -np.ones((len(right), 1))])
        least = linprog(np.append(np.zeros(len(goal)), 1.0), slack, right, bounds=[*ends.tolist(), (0, None)])
        if least.status == 0 and least.fun > FEASIBLE:
            # the bound grows by least.fun for each unit of these
            needed = 1 + abs(offset) + float(np.abs(goal) @ np.abs(ends).max(axis=1))
            return np.asarray(np.maximum(-least.ineqlin.marginals, 0) * 2 * needed / least.fun), None
    solved = linprog(goal, left, right, bounds=ends)
    if solved.status != 0:
        return np.zeros(len(right)), None
    return np.asarray(np.maximum(-solved.ineqlin.marginals, 0)), np.asarray(solved.x)
