"""The slopes and multipliers that give the highest lower bound, by climbing its gradient.

Idea        CROWN's bound holds for every slope in [0, 1] below a ReLU that may be on or off, and for every multiplier of 0 or
            more of a branch's constraint; it is concave in the multipliers, and its gradient leads to better ones.
Source      slopes: Xu et al. 2021 (α-CROWN, arXiv 2011.13824), section 3.2; multipliers: Wang et al. 2021 (β-CROWN,
            arXiv 2103.06624), theorem 3.1 and equation 8.
Departures  the climb is in float32 and proves nothing: what it found is put into one more bound in float64 by its caller.
Cost        for each step and function, one pass back through the network and one through that.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from brinell.certify.crown import Layers, Walk
from brinell.certify.graph import Network
from brinell.certify.region import Region
from brinell.certify.relaxation import Branches, Relaxation, ReLUs

SLOPE_PACE = 0.1
"""Adam's step on slopes."""
MULTIPLIER_PACE = 0.1
"""Adam's step on multipliers."""
FADING = 0.95
"""What becomes of both from step to step."""


@dataclass(frozen=True, eq=False)
class Climb:
    """Where and how far is climbed."""

    network: Network
    region: Region
    steps: int
    enough: float
    """The climb ends early where every bound is above this."""

    @cached_property
    def quick(self) -> "Climb":
        """The same in float32."""
        return replace(self, network=self.network.to(torch.float32), region=self.region.to(torch.float32))

    def bound(self, layers: Layers, start: int, a: Tensor) -> tuple[Tensor, dict[int, ReLUs]]:
        """Lower bounds of ``<a, value>`` with slopes of each function's own, computed in float64, and these slopes."""
        quick = {i: relaxation.to(torch.float32) for i, relaxation in layers.relaxations.items()}
        found = {i: layer.to(torch.float64) for i, layer in climbed(self.quick, quick, start, a.float()).items()}
        exact = {
            i: replace(layer, chosen=found[i].chosen) if isinstance(layer, ReLUs) else layer
            for i, layer in layers.relaxations.items()
        }
        with torch.no_grad():
            return Walk(self.network, exact, start, a).least(self.region), found

    def ask(self, layers: Layers, start: int, a: Tensor) -> Tensor:
        """The bounds alone."""
        return self.bound(layers, start, a)[0]


def climbed(climb: Climb, relaxations: Mapping[int, Relaxation], start: int, a: Tensor) -> dict[int, ReLUs]:
    """The ReLU layers with the best slopes and multipliers that were found, one for each row and function.

    Layers start from what they are given; multipliers are climbed where they are given.
    """
    layers = {i: _own(layer, a) for i, layer in relaxations.items() if isinstance(layer, ReLUs) and i < start}
    slopes = [layer.chosen.alpha for layer in layers.values()]
    multipliers = [layer.chosen.beta for layer in layers.values() if layer.chosen.beta is not None]
    leaves = slopes + multipliers
    if not leaves:
        return layers
    for leaf in leaves:
        leaf.requires_grad_(True)
    groups = [{"params": slopes, "lr": SLOPE_PACE}, {"params": multipliers, "lr": MULTIPLIER_PACE}]
    climber = torch.optim.Adam([group for group in groups if group["params"]], maximize=True)
    best, kept = torch.full(a.shape[:2], -torch.inf, dtype=a.dtype), [leaf.detach().clone() for leaf in leaves]
    for at in range(climb.steps + 1):
        value = Walk(climb.network, {**relaxations, **layers}, start, a).least(climb.region)
        better = value.detach() > best
        best = torch.where(better, value.detach(), best)
        for mine, leaf in zip(kept, leaves, strict=True):
            mine.copy_(torch.where(better[:, :, None], leaf.detach(), mine))
        if at == climb.steps or bool((best > climb.enough).all()) or not value.requires_grad:
            break
        climber.zero_grad()
        value.backward(torch.ones_like(value))  # type: ignore[no-untyped-call]  # torch's own
        climber.step()
        _within(slopes, multipliers)
        for group in climber.param_groups:
            group["lr"] *= FADING
    return _with(layers, kept)


def _within(slopes: list[Tensor], multipliers: list[Tensor]) -> None:
    """Slopes back into [0, 1], multipliers to at least 0: what the bound is proved for."""
    with torch.no_grad():
        for leaf in slopes:
            leaf.clamp_(0, 1)
        for leaf in multipliers:
            leaf.clamp_(min=0)


def _own(layer: ReLUs, a: Tensor) -> ReLUs:
    """The layer with slopes and multipliers for each row and function."""
    shape = (*a.shape[:2], len(layer.places.index))
    alpha, beta, sign = layer.chosen
    return replace(
        layer,
        chosen=Branches(
            alpha.expand(shape).detach().clone(), None if beta is None else beta.expand(shape).detach().clone(), sign
        ),
    )


def _with(layers: dict[int, ReLUs], values: list[Tensor]) -> dict[int, ReLUs]:
    """The layers with these slopes and multipliers, in the order in which they were climbed."""
    slopes, multipliers = iter(values[: len(layers)]), iter(values[len(layers) :])
    return {
        i: replace(
            layer,
            chosen=Branches(next(slopes), None if layer.chosen.beta is None else next(multipliers), layer.chosen.sign),
        )
        for i, layer in layers.items()
    }
