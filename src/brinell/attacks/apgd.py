"""Auto-PGD: momentum ascent whose step halves when progress stops, with no step size to tune.

Idea        start with a step of twice the radius; at checkpoints, halve it and return to the best point wherever too few
            steps raised the loss, or nothing has changed since the checkpoint before.
Source      Croce & Hein 2020 (arXiv 2003.01690), algorithm 1 and section 3; targets: section 4.
Departures  the paper gives Linf and L2 alike; its restarts draw a point uniform in the ball (the authors' code scales the
            largest coordinate to the radius); the last point is scored without a gradient.
Cost        a restart (for a targeted loss: a restart on a target) takes steps + 1 forwards and steps backwards a row.

| paper | here | |
|---|---|---|
| η | step | size of the step, per row, input units |
| f_max, x_max | f_best, x_best | highest loss met and its point |
| α, ρ | MOMENTUM, RISING | 0.75 each |
| w_j | checkpoints | iterations at which the step may halve |
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch

from brinell.geometry import Norm, per_row
from brinell.losses import CROSS_ENTROPY, Loss, TargetedLoss, defined_for
from brinell.queries import Cost, Given, Gradient, Scores, Search, targets_by_logit
from brinell.random import Noise
from brinell.threat import Ball

MOMENTUM = 0.75
RISING = 0.75


@dataclass(frozen=True, kw_only=True)
class APGD:
    """Auto-PGD on one loss; with a targeted loss, one run for each target."""

    name: ClassVar[str] = "apgd"
    summary: ClassVar[str] = "Auto-PGD, steps that halve by themselves (Croce & Hein 2020)"
    norms: ClassVar[tuple[Norm, ...]] = ("linf", "l2")

    steps: int = 100
    restarts: int = 1
    loss: Loss | TargetedLoss = CROSS_ENTROPY
    """Climbed, per row."""
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
        x_adv = x_before = ball.random_start(noise)
        answer = yield Gradient(x_adv, self.loss, target)
        grad, f = answer.grad, answer.loss
        x_best, grad_best, f_best = x_adv, grad, f
        step = ball.steps(2.0)
        checkpoints = _checkpoints(self.steps)
        rises = torch.zeros_like(f)
        halved_before, f_best_before, last_checkpoint = torch.zeros_like(f, dtype=torch.bool), f_best, 0
        for k in range(1, self.steps + 1):
            ascended = ball.ascend(x_adv, grad, step)
            share = MOMENTUM if k > 1 else 1.0
            moved = x_adv + share * (ascended - x_adv) + (1 - share) * (x_adv - x_before)
            x_before, x_adv = x_adv, ball.project(moved)
            if k == self.steps:
                yield Scores(x_adv)
                return
            answer = yield Gradient(x_adv, self.loss, target)
            rises = rises + (answer.loss > f)
            grad, f = answer.grad, answer.loss
            better = f > f_best
            x_best = torch.where(per_row(better, x_adv), x_adv, x_best)
            grad_best = torch.where(per_row(better, grad), grad, grad_best)
            f_best = torch.where(better, f, f_best)
            if k in checkpoints:
                few_rises = rises < RISING * (k - last_checkpoint)
                stuck = ~halved_before & (f_best <= f_best_before)
                halve = few_rises | stuck
                step = torch.where(halve, step / 2, step)
                x_adv = torch.where(per_row(halve, x_adv), x_best, x_adv)
                grad = torch.where(per_row(halve, grad), grad_best, grad)
                f = torch.where(halve, f_best, f)
                rises = torch.zeros_like(rises)
                halved_before, f_best_before, last_checkpoint = halve, f_best, k


def _checkpoints(steps: int) -> frozenset[int]:
    """``w_j = ceil(p_j steps)`` with ``p_0 = 0``, ``p_1 = 0.22``, ``p_{j+1} = p_j + max(p_j - p_{j-1} - 0.03, 0.06)``."""
    before, percent = 0, 22  # in whole per cent, so that no rounding moves a checkpoint
    found = set()
    while percent <= 100:
        found.add(-(-percent * steps // 100))
        before, percent = percent, percent + max(percent - before - 3, 6)
    return frozenset(found)
