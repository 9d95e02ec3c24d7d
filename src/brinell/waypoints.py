"""What is taken down at each point of an attempt, of the few rows that are watched."""

from typing import NamedTuple

import torch

from brinell.models.protocol import Climbed
from brinell.shapes import Inputs, Mask, PerRow
from brinell.threat import Ball


class Waypoint(NamedTuple):
    """One point of one attempt on one row; NaN stands for what there is none of."""

    margin: float
    """At the point, in logit units; NaN outside the threat set."""
    loss: float
    """That was climbed there, in its own units; NaN where no gradient was asked for, or gradients towards several classes."""
    flat: float
    """Share of its gradient's coordinates that are exactly 0; NaN where no gradient was asked for."""
    gap: float
    """Of what the loss can gain to first order from the worst point of the ball to the best: the share that lies ahead of
    this point. In [0, 1]; NaN in other norms than Linf, outside the threat set, and where the gradient is zero."""


def waypoints(points: Inputs, ball: Ball, inside: Mask, margin: PerRow, climbed: Climbed | None) -> list[Waypoint]:
    """What is taken down of some points, one a row; ``climbed`` is None where scores alone were asked for."""
    here = margin.where(inside, torch.nan)
    pieces = [here, *[torch.full_like(margin, torch.nan)] * 3]
    if climbed is not None:
        slopes = climbed.grad.flatten(1)
        pieces[2] = 1 - slopes.count_nonzero(dim=1) / slopes.shape[1]
        if climbed.loss.shape == margin.shape:
            pieces[1] = climbed.loss
            pieces[3] = gap_of(points, ball, climbed.grad).where(inside, torch.nan)
    wide = torch.promote_types(margin.dtype, torch.float32)
    return [Waypoint(*values) for values in torch.stack([piece.to(wide) for piece in pieces], dim=1).tolist()]


def gap_of(points: Inputs, ball: Ball, grad: Inputs) -> PerRow:
    """``max_z <z - x, g>`` over ``max_z <z, g> - min_z <z, g>``, each over ball ∩ box: the Frank-Wolfe gap, made relative.

    0 where no point of the threat set is higher to first order. For Linf alone; NaN in other norms, and where ``g`` is 0.
    """
    if ball.threat.norm != "linf":
        return torch.full_like(grad.flatten(1)[:, 0], torch.nan)
    g = grad.flatten(1)
    size = g.abs()
    top = size.amax(dim=1, keepdim=True)  # so that no sum over- or underflows
    x, lower, upper = (piece.flatten(1) for piece in (points, ball.lower, ball.upper))
    reach = (size / top * (upper - lower)).sum(dim=1)
    return (0.5 + (g / top * ((lower + upper) / 2 - x)).sum(dim=1) / reach).clamp(0, 1)
