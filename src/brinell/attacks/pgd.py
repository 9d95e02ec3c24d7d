"""Projected gradient descent: steepest ascent on the loss, projected back at each step.

Idea        climb from a random point of the ball in steps much smaller than the ball, and try again.
Source      Madry et al. 2018 (arXiv 1706.06083), section 2.1.
Departures  the loss, the step's schedule and targets are fields; L1 steps fill the steepest coordinates within the box.
Cost        a restart (for a targeted loss: a restart on a target) takes steps + 1 forwards and steps backwards a row.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

from brinell.geometry import NORMS, Norm
from brinell.losses import CROSS_ENTROPY, Loss, TargetedLoss, defined_for
from brinell.queries import Cost, Given, Gradient, Scores, Search, targets_by_logit
from brinell.random import Noise
from brinell.slopes import Slope
from brinell.threat import Ball

Schedule = Literal["constant", "cosine"]


@dataclass(frozen=True, kw_only=True)
class PGD:
    """Projected steepest ascent from random starts."""

    name: ClassVar[str] = "pgd"
    summary: ClassVar[str] = "projected steepest ascent from random starts (Madry et al. 2018)"
    norms: ClassVar[tuple[Norm, ...]] = NORMS

    steps: int = 50
    step_size: float = 0.1
    """Fraction of eps; the first step's size where the schedule falls."""
    schedule: Schedule = "constant"
    """``cosine`` falls from ``step_size`` to 0 over the steps."""
    restarts: int = 1
    loss: Loss | TargetedLoss = CROSS_ENTROPY
    """Climbed, per row."""
    slope: Slope = "own"
    """Which slope the model's ReLUs show."""
    targets: int = 9
    """Wrong classes tried by a targeted loss, by descending clean logit; unused by the others."""

    def fit(self, classes: int) -> Self:
        return replace(self, loss=defined_for(self.loss, classes), targets=min(self.targets, classes - 1))

    def attempts(self) -> int:
        return self.restarts * (self.targets if isinstance(self.loss, TargetedLoss) else 1)

    def cost(self) -> Cost:
        return Cost(forwards=self.steps + 1, backwards=self.steps).times(self.attempts())

    def search(self, given: Given, ball: Ball, noise: Noise) -> Search:
        target = None
        if isinstance(self.loss, TargetedLoss):
            target = targets_by_logit(given, given.attempt % self.targets)
        x_adv = ball.random_start(noise)
        for step in range(self.steps):
            answer = yield Gradient(x_adv, self.loss, target, self.slope)
            x_adv = ball.ascend(x_adv, answer.grad, ball.steps(self.step_size * self._share(step)))
        yield Scores(x_adv)

    def _share(self, step: int) -> float:
        if self.schedule == "constant":
            return 1.0
        return (1 + math.cos(math.pi * step / self.steps)) / 2
