"""Chance: climbs how likely a randomised model is to err, rather than a loss of its answers.

Idea        over the draws of a query a mean loss says little where draws differ in kind: a hopeless draw counts as much as
            one that is nearly wrong. The mean of ``sigmoid(-margin / width)`` over draws is a smooth count of the wrong
            ones; it is climbed while the width shrinks. Which draws are given up depends on the width, so that each
            restart begins with another.
Source      expectation over transformation: Athalye et al. 2018 (arXiv 1802.00420), section 4; momentum over normalised
            gradients: Dong et al. 2018 (arXiv 1710.06081), algorithm 1.
Departures  the expectation is of the decision, made smooth, not of a loss; steps fall by a cosine.
Cost        a restart takes steps + 2 forwards and steps + 1 backwards a row: one query measures how large margins are.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import torch

from brinell.geometry import NORMS, Norm, per_row
from brinell.losses import CHANCE, MAGNITUDE, TINY
from brinell.queries import Cost, Given, Gradient, Scores, Search
from brinell.random import Noise
from brinell.shapes import Inputs
from brinell.threat import Ball

NARROWING = 0.1
"""Width at the last step as a share of that at the first."""
WIDTHS = 6
"""Restarts after which the widths begin again."""


@dataclass(frozen=True, kw_only=True)
class Chance:
    """Ascent on the smooth share of wrong draws."""

    name: ClassVar[str] = "chance"
    summary: ClassVar[str] = "climbs how likely a randomised model errs: the share of wrong draws, made smooth"
    norms: ClassVar[tuple[Norm, ...]] = NORMS

    steps: int = 50
    restarts: int = 6
    step_size: float = 1.0
    """Of the first step, as a fraction of eps."""
    momentum: float = 0.75
    """Share of the direction that is kept from step to step."""
    width: float = 0.5
    """Of the sigmoid at the first step of the first restart, as a share of the mean ``|margin|`` at the start; each of the
    next ``WIDTHS - 1`` restarts begins with half of that before it."""

    def fit(self, classes: int) -> Self:
        return self

    def attempts(self) -> int:
        return self.restarts

    def cost(self) -> Cost:
        return Cost(forwards=self.steps + 2, backwards=self.steps + 1).times(self.restarts)

    def search(self, given: Given, ball: Ball, noise: Noise) -> Search:
        x_adv = ball.random_start(noise)
        answer = yield Gradient(x_adv, MAGNITUDE)
        widest = self.width * 0.5 ** (given.attempt % WIDTHS) * answer.loss.clamp_min(TINY)
        direction = torch.zeros_like(x_adv)
        for k in range(self.steps):
            answer = yield Gradient(x_adv, CHANCE, widest * NARROWING ** (k / self.steps))
            direction = self.momentum * direction + _of_size_one(answer.grad)
            share = (1 + math.cos(math.pi * k / self.steps)) / 2
            x_adv = ball.ascend(x_adv, direction, ball.steps(self.step_size * share))
        yield Scores(x_adv)


def _of_size_one(grad: Inputs) -> Inputs:
    """Each row over the mean of its absolute values; 0 where it is 0."""
    size = grad.flatten(1).abs().mean(dim=1)
    return grad / per_row(size.clamp_min(torch.finfo(grad.dtype).tiny), grad)
