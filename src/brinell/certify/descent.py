"""A quick look for a counterexample before anything is proved: steepest descent within a box, from many points at once.

Idea        lower the largest inequality of each case by the sign of its gradient, with steps that shrink; half of the starts
            see the ReLUs' own slopes and half a smooth one, for nets whose own gradients lead nowhere.
Source      Madry et al. 2018 (arXiv 1706.06083), section 2.1; the slope as in ``slopes``.
Departures  steps are fractions of each coordinate's width, halved in thirds of the way.
Cost        ``STARTS`` times cases times ``STEPS`` passes forward and back.
"""

from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor

from brinell.certify.region import Region
from brinell.random import Noise, stream_key
from brinell.shapes import Inputs
from brinell.slopes import Slope, SmoothReLUs

STARTS = 10
"""For each case and slope; the first is the middle of the box."""
STEPS = 30
FIRST_STEP = 0.15
"""Fraction of a coordinate's width."""

Excess = Callable[[Inputs], Tensor]
"""For each point and case the largest of its inequalities: a point where one of these is not above 0 is a counterexample."""


def lowered(region: Region, excess: Excess, judge: Callable[[Inputs], Tensor | None], seed: int = 0) -> Tensor | None:
    """A counterexample in the box of one row, or ``None`` where none was met."""
    lower, upper = region.lower.float(), region.upper.float()
    with torch.no_grad():
        cases = excess((lower + upper) / 2).shape[1]
    slopes: tuple[Slope, ...] = ("own", "smooth")
    for attempt, slope in enumerate(slopes):
        rows = torch.arange(STARTS * cases)
        noise = Noise.of(seed=seed, stream=stream_key("descent"), attempt=attempt, rows=rows)
        points = _starts(lower, upper, cases, noise)
        case = torch.arange(cases).repeat(STARTS)
        for step in range(STEPS):
            leaf = points.requires_grad_(True)
            with nullcontext() if slope == "own" else SmoothReLUs():
                value = excess(leaf)
            if bool((value <= 0).any()):
                witness = judge(leaf.detach()[(value <= 0).any(1)])
                if witness is not None:
                    return witness
            goal = value.gather(1, case[:, None])
            (grad,) = torch.autograd.grad(goal, leaf, torch.ones_like(goal))
            share = FIRST_STEP * 0.5 ** (3 * step // STEPS)
            points = torch.clamp(leaf.detach() - share * (upper - lower) * grad.sign(), lower, upper)
    return None


def _starts(lower: Tensor, upper: Tensor, cases: int, noise: Noise) -> Tensor:
    share = noise.uniform(tuple(lower.shape[1:]), draw=0, dtype=lower.dtype)
    share[:cases] = 0.5
    return lower + share * (upper - lower)
