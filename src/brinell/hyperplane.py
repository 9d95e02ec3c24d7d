"""How little must a point move, within the box, to reach a hyperplane? In each norm, exactly.

A hyperplane is seen from the point: its normal ``w``, and the gap ``h`` that is left at the point. A displacement ``d``
leads onto it if and only if ``h + <w, d> = 0``.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from brinell.geometry import Norm
from brinell.shapes import Inputs, PerRow


class _Way(NamedTuple):
    """A row's coordinates, turned so that amounts of 0 or more close the gap. Shapes (row, feature) and (row, 1)."""

    gain: Tensor
    """What a unit of amount closes, at most 1: ``|w_i|`` over the largest of them."""
    room: Tensor
    """The greatest amount that the box leaves."""
    need: Tensor
    """What has to be closed, in units of the largest gain."""


def least_move(point: Inputs, normal: Inputs, gap: PerRow, norm: Norm, low: float, high: float) -> Inputs:
    """``argmin_d ‖d‖`` subject to ``gap + <normal, d> = 0`` and ``low <= point + d <= high``.

    Each coordinate moves, if at all, the way that closes the gap, and at most as far as the box lets it; by the
    Karush-Kuhn-Tucker conditions one number per row decides how far: Linf ``min(t, room)``, L2 ``min(t |w|, room)``,
    and L1 fills the coordinates with the steepest ``|w|`` first. Coordinates with ``w = 0`` stay.

    ``point`` lies in the box; ``gap`` is in the units of ``<normal, d>``. Where the hyperplane does not meet the box,
    the result leads to the corner that leaves the smallest gap; where the normal is 0, it is 0.

    Source: Croce & Hein 2020 (arXiv 1907.02044), the projection onto a hyperplane within the box.
    """
    w = normal.flatten(1)
    direction = -(w.sign() * gap.sign()[:, None])
    room = torch.where(direction > 0, high - point.flatten(1), point.flatten(1) - low).clamp_min(0.0)
    steepest = w.abs().amax(dim=1, keepdim=True) if w.shape[1] else w.new_zeros(len(w), 1)
    unit = torch.where(steepest > 0, steepest, torch.ones_like(steepest))  # tiny gradients must survive being squared
    way = _Way(w.abs() / unit, torch.where(direction == 0, 0.0, room), gap.abs()[:, None] / unit)
    if norm == "l1":
        amount = _filled(way)
    else:
        pace = torch.ones_like(way.gain) if norm == "linf" else way.gain
        amount = torch.minimum(_level(way, pace) * pace, way.room)
    out_of_reach = (way.gain * way.room).sum(1, keepdim=True) <= way.need
    return (direction * torch.where(out_of_reach, way.room, amount)).view_as(point)


def _level(way: _Way, pace: Tensor) -> Tensor:
    """The ``t`` with ``sum gain min(t pace, room) = need``, per row; at most where all coordinates stop.

    The sum is concave and piecewise linear in ``t``: Newton's method rises from 0 to ``t`` and ends after finitely many
    steps.
    """
    t = torch.zeros_like(way.need)
    closed, speed = way.gain * way.room, way.gain * pace
    resolution = 1 + 4 * torch.finfo(t.dtype).eps
    while True:
        stopped = t * pace >= way.room
        rest = way.need - torch.where(stopped, closed, 0.0).sum(1, keepdim=True)
        slope = torch.where(stopped, 0.0, speed).sum(1, keepdim=True)
        newer = torch.where(slope > 0, rest / slope, t)
        # rows that hold NaN end here too
        if not bool((newer > t * resolution).any()):
            return t
        t = torch.maximum(newer, t)


def _filled(way: _Way) -> Tensor:
    """Amounts that close ``need`` with the least sum: the steepest coordinates first, each up to its room."""
    gain, order = way.gain.sort(dim=1, descending=True, stable=True)
    room = way.room.gather(1, order)
    closed = gain * room
    left = way.need - (closed.cumsum(1) - closed)
    wanted = torch.where(gain > 0, left / torch.where(gain > 0, gain, 1.0), 0.0)
    return torch.zeros_like(gain).scatter(1, order, torch.minimum(wanted.clamp_min(0.0), room))
