"""Defences that change each input coordinate by itself, and the exact worst point of an affine model behind them.

A code is a module that maps each coordinate to one number, or to several; ``breaks`` holds the values at which a code may
jump or turn. Between them it is monotone, so that the least of any weighted sum of its numbers over an interval is had at
an end, at a break, or a hair beside one. In Linf the coordinates are independent, and their least values add up.

Source: the additive model of a per-coordinate map; thermometer codes: Buckman et al. 2018.
"""

import torch
from torch import Tensor, nn

from brinell.defences.affine import HIGH, LOW, Affine, rivals_of
from brinell.defences.defence import Truth, Worst

HAIR = 1e-6
"""Beside a break; more than float32 can lose in [0, 1]."""


class Quantised(nn.Module):
    """``x`` rounded to equally spaced levels in [0, 1]; its gradient is 0."""

    def __init__(self, levels: int) -> None:
        super().__init__()
        self.top = levels - 1
        self.breaks = (torch.arange(self.top, dtype=torch.float64) + 0.5) / self.top

    def forward(self, x: Tensor) -> Tensor:
        """The nearest level of each coordinate."""
        return (x * self.top).round() / self.top


class Thermometer(nn.Module):
    """One number for each threshold: 1 where ``x`` is above it, 0 below, a half on it; its gradient is 0."""

    def __init__(self, thresholds: int) -> None:
        super().__init__()
        self.breaks = (torch.arange(thresholds, dtype=torch.float64) + 0.5) / thresholds

    def forward(self, x: Tensor) -> Tensor:
        """All numbers of each coordinate, in a last dimension of their own."""
        return (torch.sign(x[..., None] - self.breaks.to(x.dtype)) + 1) / 2


class Sawtooth(nn.Module):
    """``x`` and a triangle wave of six periods in [0, 1]; from amplitude 1/24 on it turns ``x`` back."""

    def __init__(self, amplitude: float) -> None:
        super().__init__()
        self.amplitude, self.periods = amplitude, 6
        self.breaks = torch.linspace(LOW, HIGH, 2 * self.periods + 1, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        """Each coordinate with the wave upon it."""
        return x + self.amplitude * (4 * ((self.periods * x).frac() - 0.5).abs() - 1)


class Clamped(nn.Module):
    """``x`` cut off below and above; its gradient is 0 where it cuts."""

    def __init__(self, low: float, high: float) -> None:
        super().__init__()
        self.low, self.high = low, high
        self.breaks = torch.tensor([low, high], dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        """Each coordinate, cut off; ``hardtanh`` has no gradient at the bounds themselves in any version of torch."""
        return nn.functional.hardtanh(x, self.low, self.high)


class Halved(nn.Module):
    """``x`` rounded to float16 on the way in."""

    def __init__(self) -> None:
        super().__init__()
        self.breaks = torch.empty(0, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        """The nearest number of float16; monotone, and its gradient goes through."""
        return x.half().to(x.dtype)


AnyCode = Quantised | Thermometer | Sawtooth | Clamped | Halved


def behind(code: nn.Module, affine: Affine) -> nn.Module:
    """The affine model on what the code makes of its inputs."""
    return nn.Sequential(code, affine.module()).eval()


def coded_worst(code: AnyCode, affine: Affine) -> Worst:
    """Of an affine model behind a code, in Linf: for each rival, every coordinate goes where its share of the margin is least.

    Up to a few dozen places for each coordinate; rival by rival, so that memory stays small.
    """
    weight, bias = affine.doubled()

    def worst(x: Tensor, y: Tensor, eps: float) -> Truth:
        flat = x.double().flatten(1)
        low, high = (flat - eps).clamp_min(LOW)[..., None], (flat + eps).clamp_max(HIGH)[..., None]
        beside = torch.cat([code.breaks - HAIR, code.breaks, code.breaks + HAIR]).expand(*flat.shape, -1)
        places = torch.cat([low, high, beside.clamp(low, high)], dim=2)
        numbers = code(places).reshape(*places.shape, -1)
        margins, points = [], []
        for other in rivals_of(y, len(bias)).unbind(1):
            gap = (weight[y] - weight[other]).view(len(x), flat.shape[1], 1, -1)
            share, which = (gap * numbers).sum(3).min(dim=2)
            margins.append(share.sum(1) + bias[y] - bias[other])
            points.append(places.gather(2, which[..., None]).squeeze(2))
        least, rival = torch.stack(margins, 1).min(dim=1)
        return Truth(least, least, torch.stack(points, 1)[torch.arange(len(x)), rival].view_as(x))

    return worst
