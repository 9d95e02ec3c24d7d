"""How far a network's scores, computed in float64, may be from those in real numbers.

Idea        each operator passes on the error of its input and adds one of its own; over a region, the values that it
            rounds are no larger than their intervals.
Source      Higham 2002 (Accuracy and Stability of Numerical Algorithms, 2nd ed.), section 3.1: the computed ``<a, x>`` of
            ``n`` terms is off by at most ``n u |a| |x| / (1 - n u)``, in whatever order they are added.
Departures  ``1 - n u`` is taken for 1.
Cost        three forward passes of the network.
"""

import torch
from torch import Tensor

from brinell.certify.graph import Network, Node
from brinell.certify.interval import intervals
from brinell.certify.operators import Affine, Convolution, Dense, MaxPool, ReLU, Reshape, Smooth, Sum
from brinell.certify.region import Region

UNIT = 2.0**-53
"""Rounding to float64 changes a number by at most this share."""
OF_A_FUNCTION = 4 * UNIT
"""Of a sigmoid or a tanh, whose values are at most 1; neither is steeper than 1."""


def rounding_of(network: Network, region: Region) -> Tensor:
    """The largest error of any score of a row, anywhere in its region; shape (row,). Not finite where a bound is not."""
    sizes = [torch.maximum(value.lower.abs(), value.upper.abs()) for value in intervals(network, region)]
    errors: list[Tensor] = []
    for node in network.nodes:
        errors.append(_after(node, sizes, errors))
    return errors[-1].flatten(1).amax(1)


def _after(node: Node, sizes: list[Tensor], errors: list[Tensor]) -> Tensor:
    given, before = [sizes[i] for i in node.sources], [errors[i] for i in node.sources]
    match node.operator:
        case None:
            return torch.zeros_like(sizes[0])
        case Sum():
            return before[0] + before[1] + UNIT * (given[0] + given[1])
        case ReLU():
            return before[0]
        case MaxPool() as function:
            return function.forward(before[0])
        case Smooth():
            return before[0] + OF_A_FUNCTION
        case affine:
            passed = affine.spread(before[0])
            added = affine.spread(given[0]) + affine.forward(torch.zeros_like(given[0])).abs()
            return passed + UNIT * _terms(affine) * added


def _terms(affine: Affine) -> int:
    """How many numbers are rounded to make one of its outputs."""
    match affine:
        case Dense():
            return affine.weight.shape[1] + 1
        case Convolution():
            return affine.weight[0].numel() + 1
        case Reshape():
            return 0
        case _:
            return 2
