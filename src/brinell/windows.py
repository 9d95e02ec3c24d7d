"""Which pixels does a window cover, and what pattern fills it? For inputs of any shape, read as images.

An input of shape (C, H, W) is an image. Others are read as one: (C, L) as C channels of a single line of L pixels, (L)
as one channel of a single line, a single number as one pixel; of four axes or more the first holds the channels, the
last the width, and those between them, one after the other, the height. Pixels are numbered line by line.
"""

import math
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from brinell.geometry import Norm
from brinell.shapes import Indices


class Image(NamedTuple):
    """How an input is read."""

    channels: int
    height: int
    width: int

    @classmethod
    def of(cls, shape: tuple[int, ...]) -> "Image":
        """How an input of this shape (without rows) is read."""
        channels = shape[0] if len(shape) > 1 else 1
        return cls(channels, math.prod(shape[1:-1]), shape[-1] if shape else 1)


class Sides(NamedTuple):
    """The size of a window, in pixels."""

    height: int
    width: int


def square_of(image: Image, area: float, least: int = 1, *, odd: bool = False) -> Sides:
    """The square of so many pixels, at least ``least`` wide and, if so wanted, of an odd width.

    Where the image is too short for it: a rectangle of the whole short side, and of as much of the long one as gives
    the area, but no less than the square would have had.
    """
    short, long = sorted((image.height, image.width))
    side = max(round(math.sqrt(area)), least)
    side += int(odd and side % 2 == 0)
    if side <= short:
        return Sides(side, side)
    other = min(max(round(area / max(short, 1)), side), long)
    return Sides(short, other) if image.height == short else Sides(other, short)


def covered(top: Indices, left: Indices, sides: Sides, image: Image) -> Tensor:
    """The pixels of a window at ``top`` and ``left``, line by line, per row: shape (row, pixel of the window)."""
    lines = torch.arange(sides.height, device=top.device) * image.width
    pixels = (lines[:, None] + torch.arange(sides.width, device=top.device)).flatten()
    return (top * image.width + left)[:, None] + pixels


@cache
def two_pyramids(sides: Sides, norm: Norm) -> Tensor:
    """A positive and a negative pyramid side by side, of norm 1: float64, shape (2, pixel of the window).

    First the one above the other, then the one to the left of the other.
    """
    patterns = []
    for height, width in (sides, Sides(sides.width, sides.height)):
        above = _pyramid(height // 2, width, norm)
        pattern = torch.cat([above, -_pyramid(height - height // 2, width, norm)])
        patterns.append(pattern / _size(pattern, norm))
    return torch.stack([patterns[0].flatten(), patterns[1].T.flatten()])


def _pyramid(height: int, width: int, norm: Norm) -> Tensor:
    """Squares on one another around the middle: the k-th reaches k - 1 pixels each way and is 1/k² high (L1: 1/k⁴)."""
    if height == 0:
        return torch.zeros(0, width, dtype=torch.float64)
    layers = max(height, width) // 2 + 1
    falls = torch.arange(1, layers + 1, dtype=torch.float64) ** (-4.0 if norm == "l1" else -2.0)
    heights = falls.flip(0).cumsum(0).flip(0)
    lines, columns = (torch.arange(length) - length // 2 for length in (height, width))
    pyramid = heights[torch.maximum(lines.abs()[:, None], columns.abs())]
    return pyramid / _size(pyramid, norm)


def _size(pattern: Tensor, norm: Norm) -> Tensor:
    return pattern.abs().sum() if norm == "l1" else pattern.square().sum().sqrt()
