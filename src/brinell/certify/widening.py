"""What the relaxation of each ReLU costs the functions that are asked about, also through the bounds of later ReLUs.

Idea        a ReLU that may be on or off costs a bound the height of its chord, ``-l u / (u - l)``, times the coefficient with
            which it enters from above. That height depends on ``l`` and ``u``, which are bounds themselves, and cost more
            where earlier ReLUs are relaxed: the chain rule, from the last layer to the first.
Source      the height as a score: Bunel et al. 2020 (BaBSR, JMLR 21, section 5.3); that earlier layers count by what they do
            to later bounds is its extension to first order.
Departures  the lines below count ``BELOW``, next to nothing: a bound may choose their slopes.
Cost        one product of matrices for each pair of layers.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

BELOW = 1e-6
"""Weight of the line below a ReLU, in units of the larger of the two errors that its slope may make."""


class OfPlaces(NamedTuple):
    """Functions that are the values before some ReLUs, and then their negatives: they count by what their bounds cost."""

    at: Tensor
    """Places, of all layers in their order."""


class Influence(NamedTuple):
    """How outputs of ReLUs enter the lower bounds of some linear functions, in each cell."""

    of: dict[int, Tensor]
    """By layer the coefficients, shape (cell, function, place)."""
    counting: Tensor | OfPlaces
    """How much each function counts, shape (cell, function), or whose bounds they are."""


def widening(lower: Tensor, upper: Tensor, spots: Mapping[int, Tensor], influences: list[Influence]) -> Tensor:
    """For each cell and place what its relaxation costs, in units of the functions; -1 where the ReLU is decided.

    ``lower`` and ``upper`` have shape (cell, place); ``spots`` says which places are a layer's.
    """
    # what one unit of each lower and upper bound costs
    of_lower, of_upper, costs = torch.zeros_like(lower), torch.zeros_like(upper), torch.full_like(lower, -1)
    for i in sorted(spots, reverse=True):
        here = spots[i]
        low, high = lower[:, here], upper[:, here]
        free = (low < 0) & (high > 0)
        above, below = torch.zeros_like(low), torch.zeros_like(low)
        for influence in influences:
            if i in influence.of:
                a, counts = influence.of[i], influence.counting
                if isinstance(counts, OfPlaces):
                    counts = torch.cat([of_lower[:, counts.at], of_upper[:, counts.at]], dim=1)
                above += torch.einsum("cf,cfp->cp", counts, -a.clamp_max(0))
                below += torch.einsum("cf,cfp->cp", counts, a.clamp_min(0))
        width = torch.where(free, high - low, 1)
        cost = above * -low * high / width + BELOW * below * torch.minimum(-low, high)
        costs[:, here] = torch.where(free, cost, -1)
        # the height's derivatives
        of_lower[:, here] = torch.where(free, above * (high / width) ** 2, 0)
        of_upper[:, here] = torch.where(free, above * (low / width) ** 2, 0)
    return costs
