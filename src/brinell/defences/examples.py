"""On which rows the defences stand: the built-in Fashion-MNIST images, made 8 × 8.

The first ``ATTACKED`` are attacked, the others are what the affine models are fitted to, in closed form and in an
instant, so that no weights have to be shipped.
"""

from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, pad

from brinell import zoo
from brinell.defences.defence import Examples

ATTACKED = 400
SIDE = 8


@cache
def _reduced() -> Examples:
    """All rows: the 28 × 28 images on a black ground of 32 × 32, averaged over squares of 4 × 4."""
    x, y = zoo.load_rows()
    return avg_pool2d(pad(torch.from_numpy(x), (2, 2, 2, 2)), 4), torch.from_numpy(y)


def attacked(count: int = ATTACKED) -> Examples:
    """The first rows: inputs ``(row, 1, 8, 8)`` in [0, 1], float32, and classes 0 to 9."""
    x, y = _reduced()
    return x[: min(count, ATTACKED)].clone(), y[: min(count, ATTACKED)].clone()


def fitting() -> Examples:
    """The rows that models are fitted to."""
    x, y = _reduced()
    return x[ATTACKED:], y[ATTACKED:]


def odd_or_even(x: Tensor, y: Tensor) -> Examples:
    """Two classes: garments by the parity of their number (trousers, dresses, sandals and shoes against the rest)."""
    return x, y % 2
