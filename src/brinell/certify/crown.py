"""Lower bounds of linear functions of a network's values, by going back through its layers.

Idea        a linear function of a layer's output becomes one of its input that is nowhere larger, layer by layer down to the
            input, where its least value on the region is known. Values before each ReLU are bounded in the same way first.
Source      Zhang et al. 2018 (CROWN, arXiv 1811.00866), theorem 3.2 and section 3.3 (adaptive slopes).
Departures  at each layer the better of this bound and interval arithmetic's counts, and only values that interval arithmetic
            leaves undecided are asked about.
Cost        for each value that is asked about, two passes back through the layers before it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from brinell.certify.graph import Network
from brinell.certify.interval import from_values, step
from brinell.certify.operators import Function, MaxPool, ReLU, Smooth, Sum
from brinell.certify.region import Region
from brinell.certify.relaxation import Interval, Relaxation, relaxed

AT_ONCE = 2**20
"""Coefficients of one value that are held at once; more are asked about in parts."""
CROSSING = 1e-9
"""How far a lower bound may lie above an upper one by rounding, relative to their size; beyond it the row has no bounds."""


class Walk:
    """One pass back from linear functions of a value to linear functions of the input.

    ``normal`` and ``offset`` are such that ``<normal, x> + offset`` is nowhere above the function on the region;
    ``arrived`` holds, for each ReLU layer, the coefficients of its outputs.
    """

    def __init__(self, network: Network, relaxations: Mapping[int, Relaxation], start: int, a: Tensor) -> None:
        self.arrived: dict[int, Tensor] = {}
        waiting = {start: a}
        self.offset = a.new_zeros(a.shape[:2])
        for i in range(start, 0, -1):
            if i not in waiting:
                continue
            node, here = network.nodes[i], waiting.pop(i)
            parts: tuple[Tensor, ...]
            match node.operator:
                case Sum(sign):
                    parts = (here, here if sign == 1 else -here)
                case ReLU() | Smooth() | MaxPool():
                    passed = relaxations[i].back(here)
                    self.arrived[i] = here
                    self.offset = self.offset + passed.shift
                    parts = (passed.a,)
                case None:
                    raise AssertionError("only the first value has no operator")
                case affine:
                    flat = here.flatten(0, 1)
                    self.offset = self.offset + affine.shift(flat).view(here.shape[:2])
                    back = affine.back(flat)
                    parts = (back.view(*here.shape[:2], *back.shape[1:]),)
            for source, part in zip(node.sources, parts, strict=True):
                waiting[source] = waiting[source] + part if source in waiting else part
        # a function that does not depend on the input has no coefficients there
        self.normal = waiting[0] if 0 in waiting else a.new_zeros(*a.shape[:2], *network.nodes[0].shape)

    def least(self, region: Region) -> Tensor:
        """The lower bound, shape (row, spec)."""
        return region.least(self.normal) + self.offset


@dataclass(frozen=True, eq=False)
class Layers:
    """What is known of a network on a region."""

    values: list[Interval]
    """Bounds of every value, in the order of the network's list."""
    relaxations: dict[int, Relaxation]
    """Linear functions below and above each function, by its place in the list."""


Ask = Callable[[Layers, int, Tensor], Tensor]
"""Lower bounds of linear functions of the value at a place, from what is known of the layers before it."""


def layers_of(network: Network, region: Region, ask: Ask | None = None) -> Layers:
    """Bounds before every function, each made from those before it. A row whose bounds contradict each other gets NaN.

    ``ask`` may know better bounds than CROWN's with the adaptive slopes.
    """
    ask = ask or partial(plainly, network, region)
    known = Layers([], {})
    found = known.values
    exactness: list[int] = []
    for i, node in enumerate(network.nodes):
        found.append(step(node, [found[j] for j in node.sources], region))
        exactness.append(_exactness(network, i, exactness, region))
        if isinstance(node.operator, Function):
            source = node.sources[0]
            if exactness[source] == _BOUND and not isinstance(network.nodes[source].operator, Function):
                found[source] = _tightened(network, source, found[source], node.operator, partial(ask, known))
                found[i] = step(node, [found[source]], region)
            known.relaxations[i] = relaxed(node.operator, found[source])
    return known


def plainly(network: Network, region: Region, known: Layers, source: int, a: Tensor) -> Tensor:
    """CROWN's lower bounds of ``<a, value>``, with the relaxations as they are; shapes (row, spec, …) and (row, spec)."""
    return Walk(network, known.relaxations, source, a).least(region)


_FREE, _EXACT, _BOUND = range(3)
"""Coordinates that move freely in their intervals; intervals that are attained, but not all at once; bounds."""


def _exactness(network: Network, i: int, before: list[int], region: Region) -> int:
    """What interval arithmetic's result for a value is: one dense operator on free coordinates is exact."""
    node = network.nodes[i]
    match node.operator:
        case None:
            return _FREE if region.centre is None else _BOUND
        case Sum() | MaxPool():
            return _BOUND
        case ReLU() | Smooth():
            return before[node.sources[0]]
        case affine:
            return before[node.sources[0]] if affine.diagonal else min(before[node.sources[0]] + 1, _BOUND)


def _tightened(
    network: Network, source: int, z: Interval, function: Function, ask: Callable[[int, Tensor], Tensor]
) -> Interval:
    """The better of ``z`` and what is answered, where it matters to the function."""
    rows, lower, upper = len(z.lower), z.lower.flatten(1).clone(), z.upper.flatten(1).clone()
    matters = (lower < 0) & (upper > 0) if isinstance(function, ReLU) else torch.ones_like(lower, dtype=torch.bool)
    asked = matters.any(0).nonzero().squeeze(1)
    widest = max(torch.Size(node.shape).numel() for node in network.nodes[: source + 1])
    for part in torch.split(asked, max(1, AT_ONCE // (2 * rows * widest))):
        a = torch.zeros(rows, 2 * len(part), lower.shape[1], dtype=lower.dtype)
        a[:, torch.arange(len(part)), part] = 1
        a[:, torch.arange(len(part)) + len(part), part] = -1
        least = ask(source, a.view(*a.shape[:2], *network.nodes[source].shape))
        lower[:, part] = torch.maximum(lower[:, part], least[:, : len(part)])
        upper[:, part] = torch.minimum(upper[:, part], -least[:, len(part) :])
    return _ordered(Interval(lower.view_as(z.lower), upper.view_as(z.upper)))


def _ordered(z: Interval) -> Interval:
    """Bounds that cross by rounding change places; a row where they cross by more has none (NaN)."""
    wrong = z.lower - z.upper > CROSSING * (1 + z.lower.abs() + z.upper.abs())
    lost = wrong.flatten(1).any(1).view(-1, *([1] * (z.lower.dim() - 1)))
    return Interval(
        torch.minimum(z.lower, z.upper).masked_fill(lost, torch.nan),
        torch.maximum(z.lower, z.upper).masked_fill(lost, torch.nan),
    )


def bound(network: Network, region: Region, layers: Layers, specs: Tensor) -> Tensor:
    """Lower bounds of ``<specs, scores>`` over the region; shapes (row, spec, cls) and (row, spec).

    The better of what goes back to the input and what stops at the last layer, so that it is nowhere below intervals'.
    """
    through = plainly(network, region, layers, len(network.nodes) - 1, specs)
    return torch.maximum(through, from_values(network, layers.values, specs))
