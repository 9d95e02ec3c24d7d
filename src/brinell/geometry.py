"""Norms, and the nearest and farthest points of a ball cut by a box. Pure functions on rows.

Letters: ``d`` is a displacement from a row's clean input, ``lower <= 0 <= upper`` is the box seen from there.
"""

from typing import Literal, get_args

import torch
from torch import Tensor

from brinell.shapes import Inputs, Mask, PerRow

Norm = Literal["linf", "l2", "l1"]
NORMS: tuple[Norm, ...] = get_args(Norm)
DUAL: dict[Norm, Norm] = {"linf": "l1", "l2": "l2", "l1": "linf"}
_ORDER: dict[Norm, float] = {"linf": float("inf"), "l2": 2.0, "l1": 1.0}


def size(d: Inputs, norm: Norm) -> PerRow:
    """The norm of each row, in the dtype of ``d``; an empty row has size 0."""
    if d[0:1].numel() == 0:
        return d.new_zeros(len(d))
    lengths: Tensor = torch.linalg.vector_norm(d.flatten(1), ord=_ORDER[norm], dim=1)
    return lengths


def dual_size(grad: Inputs, norm: Norm) -> PerRow:
    """``max <d, grad>`` over ``‖d‖ <= 1``: how much one unit of ``norm`` can gain along ``grad``."""
    return size(grad, DUAL[norm])


def distance(x: Inputs, x_adv: Inputs, norm: Norm) -> PerRow:
    """The norm of ``x_adv - x`` computed in float64, in input units."""
    return size(x_adv.double() - x.double(), norm)


def per_row(values: PerRow | Mask, like: Inputs) -> Tensor:
    """``values`` shaped so that they multiply the rows of ``like``."""
    return values.view(-1, *([1] * (like.dim() - 1)))


def nearest_in_l2(d: Inputs, lower: Inputs, upper: Inputs, eps: float) -> Inputs:
    """``argmin_p ‖p - d‖₂`` subject to ``‖p‖₂ <= eps`` and ``lower <= p <= upper``, exactly.

    By the Karush-Kuhn-Tucker conditions ``p = clip(t d, lower, upper)`` with the largest ``t <= 1`` whose norm
    is at most ``eps``. ``‖clip(t d)‖²`` is concave and piecewise linear in ``s = t²``, so that Newton's method
    from the left is monotone and ends after finitely many steps.
    """
    flat = d.flatten(1)
    bound = torch.where(flat >= 0, upper.flatten(1), lower.flatten(1)).abs()
    clipped = torch.minimum(flat.abs(), bound)
    far = torch.linalg.vector_norm(clipped, dim=1) > eps
    if not far.any():
        return torch.clamp(d, lower, upper)
    square, bound_square = flat[far].double().square(), bound[far].double().square()
    s = torch.zeros(len(square), 1, dtype=torch.float64, device=d.device)
    while True:
        saturated = s * square >= bound_square
        fixed = torch.where(saturated, bound_square, 0.0).sum(1, keepdim=True)
        slope = torch.where(saturated, 0.0, square).sum(1, keepdim=True)
        newer = torch.where(slope > 0, (eps * eps - fixed).clamp_min(0.0) / slope, s)
        # the closing steps move by rounding alone
        if bool((newer <= s * (1 + 1e-12)).all()):
            break
        s = torch.maximum(newer, s)
    t = torch.ones(len(flat), dtype=torch.float64, device=d.device)
    t[far] = s.squeeze(1).sqrt()
    return torch.clamp(d * per_row(t.to(d.dtype), d), lower, upper)


def nearest_in_l1(d: Inputs, lower: Inputs, upper: Inputs, eps: float) -> Inputs:
    """``argmin_p ‖p - d‖₂`` subject to ``‖p‖₁ <= eps`` and ``lower <= p <= upper``, exactly.

    The projection onto the intersection, in the sense of Croce & Hein 2021 (arXiv 2103.01208, section 3.1):
    ``p_i = sign(d_i) min(max(|d_i| - λ, 0), b_i)``, where ``b_i`` is the room towards ``d_i``. The sum of the
    right-hand sides falls piecewise linearly in ``λ``; sorting its breakpoints gives ``λ``.
    """
    if eps == 0:
        return torch.zeros_like(d)
    flat = d.flatten(1).double()
    room = torch.where(flat >= 0, upper.flatten(1).double(), -lower.flatten(1).double())
    length = flat.abs()
    far = torch.minimum(length, room).sum(1) > eps
    if not far.any():
        return torch.clamp(d, lower, upper)
    length, room = length[far], room[far]
    # as λ grows, coordinate i starts to shrink at |d_i| - b_i and has vanished at |d_i|
    starts = (length - room).clamp_min(0.0)
    knots, order = torch.cat([starts, length], dim=1).sort(dim=1)
    shrinking = torch.cat([torch.ones_like(length), -torch.ones_like(length)], dim=1).gather(1, order).cumsum(1)
    total = torch.minimum(length, room).sum(1, keepdim=True)
    falls = shrinking[:, :-1] * knots.diff(dim=1)
    at_knot = torch.cat([total, total - falls.cumsum(1)], dim=1)
    last = ((at_knot > eps).sum(1, keepdim=True) - 1).clamp_min(0)
    rate = shrinking.gather(1, last).clamp_min(1.0)
    level = knots.gather(1, last) + (at_knot.gather(1, last) - eps) / rate
    nearest = flat.clamp(lower.flatten(1).double(), upper.flatten(1).double())
    nearest[far] = flat[far].sign() * torch.minimum((length - level).clamp_min(0.0), room)
    return torch.clamp(nearest.to(d.dtype).view_as(d), lower, upper)


def _at_least_something(length: PerRow) -> PerRow:
    """``length`` where it is above 0, else 1, so that it can divide."""
    return torch.where(length > 0, length, torch.ones_like(length))


def steepest(grad: Inputs, norm: Norm, step: PerRow, lower: Inputs, upper: Inputs) -> Inputs:
    """``argmax <p, grad>`` subject to ``‖p‖ <= step``; 0 where the gradient is 0.

    For Linf and L2 the box does not enter. For L1 the maximiser would put all of ``step`` on one coordinate, past
    the box; here it is taken within ``lower <= p <= upper`` too: the largest gradients first, each up to the room
    that the box leaves (Croce & Hein 2021, arXiv 2103.01208, Proposition 3.2).
    """
    if norm == "linf":
        return per_row(step, grad) * grad.sign()
    if norm == "l2":
        # scaled first: the squares of a saturated model's tiny gradients would vanish
        unit = grad / per_row(_at_least_something(size(grad, "linf")), grad)
        return per_row(step / _at_least_something(size(unit, "l2")), grad) * unit
    flat = grad.flatten(1)
    room = torch.where(flat >= 0, upper.flatten(1), -lower.flatten(1)).clamp_min(0.0)
    order = flat.abs().argsort(dim=1, descending=True)
    sorted_room = room.gather(1, order)
    spent_before = sorted_room.cumsum(1) - sorted_room
    taken = torch.minimum(sorted_room, (step.view(-1, 1) - spent_before).clamp_min(0.0))
    amount = torch.zeros_like(flat).scatter(1, order, taken)
    return (amount * flat.sign()).view_as(grad)
