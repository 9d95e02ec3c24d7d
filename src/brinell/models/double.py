"""The slope of a loss where it underflows in the logits' own precision: taken in float64, and scaled.

Idea        the softmax of a wrong class is ``exp(-gap)``: in float32 it is 0 from a gap of about 104 on, in float64 from
            745. The direction of the gradient is there long before its size can be written; steepest ascent asks for no
            more than the direction.
Source      loss of gradients in cross-entropy by finite precision: Carlini & Wagner 2017 (arXiv 1608.04644), section
            VI-B; Pintor et al. 2022 (arXiv 2106.09947), F1.
Departures  the model stays in its precision, and so do its logits; only what is made of them is computed again, for rows
            whose slope by the logits is exactly 0; of logits too far apart for float64, scaled down. No pass is added.
"""

from collections.abc import Callable
from typing import Literal

import torch

from brinell.shapes import Inputs, Logits, Losses, PerRow

WIDEST = 600.0
"""Spread of a row's logits, from which they are scaled down to it: ``exp(-745)`` is the least that float64 can hold."""
LossPrecision = Literal["own", "float64"]
"""``float64``: a loss whose slope is exactly 0 in the logits' own precision is climbed in float64 there."""


def slope_in_double(logits: Logits, loss: PerRow, climb: Callable[[Logits], Losses], leaf: Inputs) -> Inputs | None:
    """The gradient of the loss by the leaf, row by row; None if the logits do not depend on it.

    A loss that is the same when all logits are shifted has a slope by them that sums to 0. Where a class's softmax rounds to
    1 its entry is lost even in float64, and is had from that sum.

    Rows whose slope by the logits is 0 in their own precision, and not in float64, get that of float64, divided by its
    largest entry.
    """
    by_logits = torch.autograd.grad(loss.sum(), logits, retain_graph=True)[0]
    flat = (by_logits == 0).all(dim=1)
    if bool(flat.any()):
        wide = logits.detach().double()
        spread = (wide.amax(dim=1, keepdim=True) - wide.amin(dim=1, keepdim=True)).clamp_min(WIDEST)
        wide = (wide * (WIDEST / spread)).requires_grad_(True)
        finer = torch.autograd.grad(climb(wide).sum(), wide)[0]
        finer = finer.scatter_add(1, wide.argmax(dim=1, keepdim=True), -finer.sum(dim=1, keepdim=True))
        scaled = finer / finer.abs().amax(dim=1, keepdim=True).clamp_min(torch.finfo(finer.dtype).tiny)
        by_logits = torch.where(flat[:, None], scaled.to(by_logits.dtype), by_logits)
    return torch.autograd.grad(logits, leaf, grad_outputs=by_logits, allow_unused=True)[0]
