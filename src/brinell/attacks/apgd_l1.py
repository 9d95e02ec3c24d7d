"""APGD in L1: ascent on few coordinates at a time, fewer as the perturbation grows sparse.

Idea        step along the signs of the largest gradient entries, two thirds as many as the best point has changed, and
            project exactly onto ball ∩ box; begin in larger balls, and enter each with the best point of the last one.
Source      Croce & Hein 2021 (arXiv 2103.01208), the L1 version of APGD; starts and phases as in the authors' code.
Departures  coordinates that the box stops take no share of a step, and the number that it moves is rounded down (with
            both it is exact on linear models); the last point of a ball is scored without a gradient.
Cost        a restart (for a targeted loss: a restart on a target) takes steps + phases forwards and steps backwards a
            row.

| paper | here | |
|---|---|---|
| η | step | size of the step, per row, input units |
| k | sparsity | coordinates that a step moves, per row |
| f_max, x_max | f_best, x_best | highest loss met in a ball, and its point |
"""

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch

from brinell.geometry import Norm, per_row
from brinell.losses import CROSS_ENTROPY, Loss, TargetedLoss, defined_for
from brinell.queries import Answer, Cost, Given, Gradient, Query, Scores, Search, targets_by_logit
from brinell.random import Noise
from brinell.shapes import Inputs, Labels, PerRow
from brinell.threat import Ball, Threat

FIRST_SHARE = 0.2
"""Of the coordinates, moved by the first steps where there is no larger ball to come from."""
SPARSER = 1.5
SLOWER = 1.5
SLOWEST = 10.0
MUCH_SPARSER = 0.95
CHECKPOINTS = 25
"""Checkpoints in a phase: one every 4 % of its steps."""


@dataclass(frozen=True, kw_only=True)
class APGDL1:
    """Auto-PGD for L1 on one loss; with a targeted loss, one run for each target."""

    name: ClassVar[str] = "apgd-l1"
    summary: ClassVar[str] = "Auto-PGD for L1, sparse steps, from larger balls inwards (Croce & Hein 2021)"
    norms: ClassVar[tuple[Norm, ...]] = ("l1",)

    steps: int = 100
    restarts: int = 1
    loss: Loss | TargetedLoss = CROSS_ENTROPY
    """Climbed, per row."""
    targets: int = 9
    """Wrong classes tried by a targeted loss, by descending clean logit; unused by the others."""
    phases: int = 3
    """Balls: radius ``phases`` times eps, …, 2 eps, eps; 3 of them get 30 %, 30 % and 40 % of the steps."""

    def fit(self, classes: int) -> Self:
        return replace(self, loss=defined_for(self.loss, classes), targets=min(self.targets, classes - 1))

    def attempts(self) -> int:
        return self.restarts * (self.targets if isinstance(self.loss, TargetedLoss) else 1)

    def cost(self) -> Cost:
        return Cost(forwards=self.steps + self.phases, backwards=self.steps).times(self.attempts())

    def search(self, given: Given, ball: Ball, noise: Noise) -> Search:
        target = None
        if isinstance(self.loss, TargetedLoss):
            target = targets_by_logit(given, given.attempt % self.targets)
        box = ball.threat.high - ball.threat.low
        x_best = given.x + box * noise.normal(tuple(given.x.shape[1:]), draw=0, dtype=given.x.dtype)
        ends = [9 * self.steps * phase // (10 * self.phases) for phase in range(self.phases)] + [self.steps]
        for phase in range(self.phases):
            wider = Threat("l1", ball.eps * (self.phases - phase), ball.threat.low, ball.threat.high).around(given.x)
            start, steps = wider.project(x_best), ends[phase + 1] - ends[phase]
            x_best = yield from self._climb(wider, start, given.y, target, steps)

    def _climb(
        self, ball: Ball, x_adv: Inputs, y: Labels, target: Labels | None, steps: int
    ) -> Generator[Query, Answer, Inputs]:
        """One phase: so many steps in one ball; the best point."""
        x_best, grad_best = x_adv, torch.zeros_like(x_adv)
        f_best = torch.full_like(ball.steps(1.0), -torch.inf)
        step, most, changed = ball.steps(1.0), ball.steps(1.0), _changed(ball.x, x_adv)
        sparsity = changed / SPARSER
        if self.phases == 1:
            features = ball.x[0:1].numel()
            changed, sparsity = torch.full_like(changed, features), torch.full_like(changed, FIRST_SHARE * features)
        every = max(steps // CHECKPOINTS, 1)
        for k in range(steps):
            answer = yield Gradient(x_adv, self.loss, target)
            grad, better = answer.grad, answer.loss > f_best
            x_best = torch.where(per_row(better, x_adv), x_adv, x_best)
            grad_best = torch.where(per_row(better, grad), grad, grad_best)
            f_best = torch.where(better, answer.loss, f_best)
            if k > 0 and k % every == 0:
                changed_before, changed = changed, _changed(ball.x, x_best)
                sparser = changed < MUCH_SPARSER * changed_before
                sparsity = changed / SPARSER
                step = torch.where(sparser, most, (step / SLOWER).clamp_min(ball.eps / SLOWEST))
                x_adv = torch.where(per_row(sparser, x_adv), x_best, x_adv)
                grad = torch.where(per_row(sparser, grad), grad_best, grad)
            x_adv = ball.project(x_adv + per_row(step, x_adv) * _few_signs(grad, x_adv, sparsity, ball))
        answer = yield Scores(x_adv)
        if isinstance(self.loss, TargetedLoss):
            assert target is not None
            loss = self.loss.climb(answer.logits, y, target)
        else:
            loss = self.loss.climb(answer.logits, y)
        return torch.where(per_row(loss > f_best, x_adv), x_adv, x_best)


def _changed(x: Inputs, x_adv: Inputs) -> PerRow:
    """How many coordinates of each row differ from the clean input's."""
    return (x_adv != x).flatten(1).sum(1).to(x.dtype)


def _few_signs(grad: Inputs, x_adv: Inputs, sparsity: PerRow, ball: Ball) -> Inputs:
    """The signs of the ``sparsity`` largest gradient entries, scaled to L1 norm 1; equal entries stay together."""
    stopped = torch.where(grad > 0, x_adv >= ball.upper, x_adv <= ball.lower)
    steepness = torch.where(stopped, 0.0, grad.abs()).flatten(1)
    count = sparsity.floor().clamp(1, max(steepness.shape[1], 1)).long()
    largest = steepness.topk(int(count.max()) if len(count) else 0, dim=1).values
    chosen = (steepness >= largest.gather(1, count[:, None] - 1)) & (steepness > 0)
    signs = torch.where(chosen, grad.flatten(1).sign(), 0.0)
    return (signs / chosen.sum(1, keepdim=True).clamp_min(1)).view_as(grad)
