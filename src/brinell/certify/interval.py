"""Bounds of every value of a network by interval arithmetic.

Idea        an affine operator maps a box of middle ``c`` and half-width ``r`` into the box ``W c + b ± |W| r``; functions
            that rise map ends to ends.
Source      Gowal et al. 2018 (arXiv 1810.12715), section 3.
Departures  none.
Cost        two forward passes a row.
"""

from torch import Tensor

from brinell.certify.graph import Network, Node
from brinell.certify.operators import Function, MaxPool, ReLU, Smooth, Sum
from brinell.certify.region import Region
from brinell.certify.relaxation import Interval


def step(node: Node, given: list[Interval], region: Region) -> Interval:
    """The interval of one value from those of its sources."""
    match node.operator:
        case None:
            return Interval(region.lower, region.upper)
        case Sum(sign):
            first, second = given
            if sign == 1:
                return Interval(first.lower + second.lower, first.upper + second.upper)
            return Interval(first.lower - second.upper, first.upper - second.lower)
        case ReLU() | Smooth() | MaxPool() as function:
            return Interval(function.forward(given[0].lower), function.forward(given[0].upper))
        case affine:
            middle, half = (given[0].lower + given[0].upper) / 2, (given[0].upper - given[0].lower) / 2
            centre, radius = affine.forward(middle), affine.spread(half)
            return Interval(centre - radius, centre + radius)


def intervals(network: Network, region: Region) -> list[Interval]:
    """Bounds of every value on a region, in the order of the network's list."""
    found: list[Interval] = []
    for node in network.nodes:
        found.append(step(node, [found[i] for i in node.sources], region))
    return found


def bound(network: Network, region: Region, specs: Tensor) -> Tensor:
    """Lower bounds of ``<specs, scores>`` over the region; shapes (row, spec, cls) and (row, spec)."""
    return from_values(network, intervals(network, region), specs)


def from_values(network: Network, found: list[Interval], specs: Tensor) -> Tensor:
    """The same from bounds of every value, however they were found.

    The last affine operators are folded into the specs, so that what the scores share cancels.
    """
    rows, count = specs.shape[:2]
    a, place = specs.flatten(0, 1), len(network.nodes) - 1
    shift = a.new_zeros(len(a))
    while not isinstance(affine := network.nodes[place].operator, Sum | Function | None):
        shift = shift + affine.shift(a)
        a, place = affine.back(a), network.nodes[place].sources[0]
    return _least(a.reshape(rows, count, -1), found[place]) + shift.view(rows, count)


def _least(a: Tensor, box: Interval) -> Tensor:
    lower, upper = box.lower.flatten(1)[:, None], box.upper.flatten(1)[:, None]
    return (a.clamp_min(0) * lower + a.clamp_max(0) * upper).sum(2)
