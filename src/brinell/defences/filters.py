"""Defences that filter the whole image first: a blur, and rounding among the frequencies of a cosine transform."""

import math

import torch
from torch import Tensor, nn

from brinell.defences.affine import Affine, affine_worst, best_move, rivals_of
from brinell.defences.defence import Truth, Worst
from brinell.defences.examples import SIDE


class Blur(nn.Module):
    """Each pixel averaged with its neighbours, weights 1 2 1 along rows and along columns, black beyond the edge."""

    def __init__(self) -> None:
        super().__init__()
        line = torch.tensor([1.0, 2.0, 1.0]) / 4
        self.register_buffer("kernel", (line[:, None] * line)[None, None])

    def forward(self, x: Tensor) -> Tensor:
        """Shaped like ``x``."""
        kernel: Tensor = self.get_buffer("kernel")
        return nn.functional.conv2d(x, kernel.to(x.dtype), padding=1)


def blurred(affine: Affine) -> Affine:
    """The affine model that is the same as this one behind the blur."""
    units = torch.eye(SIDE * SIDE, dtype=torch.float64).view(-1, 1, SIDE, SIDE)
    through = Blur()(units).flatten(1)
    return Affine(affine.weight.double() @ through.T, affine.bias.double())


def blurred_worst(affine: Affine) -> Worst:
    """Of an affine model behind the blur, in Linf."""
    return affine_worst(blurred(affine), "linf")


class Rounded(nn.Module):
    """The image's cosine transform rounded to multiples of ``step``, as JPEG does, and turned back; the gradient is 0."""

    def __init__(self, step: float) -> None:
        super().__init__()
        self.step = step
        self.register_buffer("basis", cosines())

    def forward(self, x: Tensor) -> Tensor:
        """Shaped like ``x``."""
        basis = self.get_buffer("basis").to(x.dtype)
        coefficients = x.flatten(1) @ basis.T
        return ((coefficients / self.step).round() * self.step @ basis).view_as(x)


def cosines() -> Tensor:
    """The orthonormal two-dimensional cosine transform (DCT-II) of an 8 × 8 image, ``(frequency, pixel)``, float64."""
    place = torch.arange(SIDE, dtype=torch.float64)
    line = torch.cos(math.pi / SIDE * (place + 0.5) * place[:, None]) * math.sqrt(2 / SIDE)
    line[0] /= math.sqrt(2)
    return torch.kron(line, line)


def rounded_worst(affine: Affine, step: float) -> Worst:
    """Bounds, in Linf: rounding moves each frequency by half a step at most, and a margin by ``step / 2 sum |B g|``.

    The lower bound is the affine model's worst margin less that much, rival by rival; the upper one is the least margin
    of the model itself at the affine model's worst points.
    """
    weight, bias = affine.doubled()
    basis, filtered = cosines(), Rounded(step)

    def worst(x: Tensor, y: Tensor, eps: float) -> Truth:
        flat, others = x.double().flatten(1), rivals_of(y, len(bias))
        gaps, offsets = weight[y][:, None] - weight[others], bias[y][:, None] - bias[others]
        points = flat[:, None] + best_move(-gaps, -flat[:, None], 1 - flat[:, None], "linf", eps)
        moved = step / 2 * (gaps @ basis.T).abs().sum(2)
        least = ((gaps * points).sum(2) + offsets - moved).amin(1)
        seen = filtered(points.flatten(0, 1)).view_as(points)
        most, which = ((gaps * seen).sum(2) + offsets).min(dim=1)
        return Truth(least, most, points[torch.arange(len(x)), which].view_as(x))

    return worst
