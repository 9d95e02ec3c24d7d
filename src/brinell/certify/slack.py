"""By how much a margin must be above 0, so that rounding is left room for.

Idea        bounds are of the network in real numbers, and computed in float64; the deployed model rounds in its own
            precision. The first error has a bound (``rounding``). The second is measured where the model can be asked, at
            the row and at points of the region's edge: how far it is there from the network. A model that does something
            else than the network that was read from it, or whose digits cancel, has a slack that no margin exceeds.
Departures  what the deployed model's rounding does elsewhere is no part of the proof: Jia and Rinard 2021 (arXiv
            2003.03021) find points where it decides, for models whose margins are below it.
Cost        ``1 + EDGES`` forward passes a row of the deployed model, and as many of the network.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from brinell.certify.graph import Network
from brinell.certify.region import Region
from brinell.certify.rounding import rounding_of
from brinell.shapes import Inputs, Logits

TOLERANCE = 1e-4
"""Share of the row's largest logit (or of 1, where that is larger) that the slack is at least."""
EDGES = 4
"""Points of the region's edge at which the deployed model is asked."""
TIMES = 4.0
"""The slack is at least so many times the largest error of a score that was seen, or may be made by float64."""


class Slack(NamedTuple):
    """For some rows."""

    scores: Logits
    """What the deployed model says of the rows themselves."""
    enough: Tensor
    """What a margin has to exceed, in logits, float64; shape (row,)."""


@torch.no_grad()
def slack_of(module: nn.Module, network: Network, x: Inputs, region: Region) -> Slack:
    """The slack of each row, from what the deployed ``module`` says of it and of points of its region."""
    generator = torch.Generator().manual_seed(0)
    draws = torch.randn(len(x), EDGES, *x.shape[1:], generator=generator, dtype=torch.float64)
    edge = region.lowest(draws).to(x.dtype)
    deployed = [module(points) for points in (x, *edge.unbind(1))]
    errors = [rounding_of(network, region)]
    for points, scores in zip((x, *edge.unbind(1)), deployed, strict=True):
        errors.append((scores.double() - network.forward(points.double())).abs().flatten(1).amax(1))
    size = deployed[0].double().abs().flatten(1).amax(1).clamp_min(1.0)
    enough = torch.maximum(TOLERANCE * size, TIMES * torch.stack(errors).amax(0))
    return Slack(deployed[0], enough.nan_to_num(nan=torch.finfo(torch.float64).max))
