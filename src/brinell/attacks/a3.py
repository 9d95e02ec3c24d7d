"""Adaptive Auto Attack's single run: a start in a direction of the output space, then descent of the margin.

Idea        begin where a random weighting of the logits leads, so that restarts go different ways (ODI). Weightings that
            have led to an error say which sign pays for the true class and for the class that was reached: later starts
            lean the same way (adaptive direction initialisation). Short runs on ever fewer, ever nearer rows
            (statistics-based discarding) are the suite's part, ``a3.toml``.
Source      Liu et al. 2022 (arXiv 2203.05154), its adaptive direction initialisation and its discarding; ODI: Tashiro et
            al. 2020 (arXiv 2003.06878). The schedule and the weights' ranges are those of the published code.
Departures  classes are ranked by clean logits, not by those at a random corner, which would be an attack of its own; each
            iterate is evaluated once, not twice; only uniform weights are learnt from; a point counts whatever wrong class
            it lands in, at any step; for K classes weights scale with K / 10 and targets end at K - 1. The published code's
            other schedule, for models that fall during the start, is left out.
Cost        a restart takes ``start + steps + 1`` forwards and ``start + steps`` backwards a row.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import torch

from brinell.geometry import Norm
from brinell.losses import MARGIN, WEIGHTED
from brinell.queries import Cost, Given, Gradient, Scores, Search, Success, targets_by_logit
from brinell.random import Noise
from brinell.shapes import Labels, Logits
from brinell.threat import Ball

Lean = Literal["none", "random", "adaptive", "late"]

START_STEP = 1.0
TOWARDS = 0.8
"""Weight of the target's logit in an adaptive start, by its sign."""
TRUE_CLASS: dict[str, dict[int, tuple[float, float]]] = {
    "adaptive": {-1: (-0.5, 0.1), 1: (-0.1, 0.5)},
    "late": {-1: (-0.8, 0.1), 1: (-0.8, 0.1)},
}
"""Between which ends the true class's weight is drawn, by the sign that has paid."""
FEW_STEPS, LEAST_STEP, LEAST_OF_FEW = 10, 0.001, 0.1


@dataclass(frozen=True)
class Signs:
    """Which sign of the weights has led to errors; 0 where nothing has fallen yet."""

    true_class: int = 0
    reached: int = 0


@dataclass(frozen=True, kw_only=True)
class A3:
    """A directed start, then descent of the margin by a cosine schedule."""

    name: ClassVar[str] = "a3"
    summary: ClassVar[str] = "starts directed in the output space, then margin descent (Liu et al. 2022)"
    norms: ClassVar[tuple[Norm, ...]] = ("linf", "l2")

    start: int = 7
    """Steps of the start; a step is as long as eps."""
    steps: int = 15
    """Steps on the margin."""
    restarts: int = 1
    lean: Lean = "random"
    """How the start's weights are drawn: not at all, for there is no start; all uniform; or for the target and the true
    class by what has paid, where ``late`` leans away from the true class in any case."""
    rank: int = 1
    """Rank, by descending clean logit, of the wrong class that the first restart leans towards; the next takes the next."""
    targets: int = 9
    """Ranks gone through before the first comes again."""
    signs: Signs = Signs()
    """Learnt from the errors that came of earlier starts."""

    def fit(self, classes: int) -> Self:
        return replace(self, targets=min(self.targets, classes - 1))

    def attempts(self) -> int:
        return self.restarts

    def cost(self) -> Cost:
        steps = self.steps + (self.start if self.lean != "none" else 0)
        return Cost(forwards=steps + 1, backwards=steps).times(self.restarts)

    def learn(self, successes: Sequence[Success], seed: int, classes: int) -> Self:
        """The same attack, leaning to where the weights of earlier starts were that ended in an error."""
        if self.lean not in TRUE_CLASS:
            return self
        true_class = reached = 0.0
        for one in successes:
            if isinstance(one.attack, A3) and one.attack.lean == "random":
                noise = Noise.of(seed=seed, stream=one.stream, attempt=one.attempt, rows=torch.tensor([one.row]))
                weights = _uniform(noise, classes)[0]
                true_class += float(weights[one.label])
                reached += float(weights[one.prediction])
        return replace(self, signs=Signs(_sign(true_class), _sign(reached)))

    def search(self, given: Given, ball: Ball, noise: Noise) -> Search:
        x_adv = ball.random_start(noise)
        weights = self._weights(given, noise)
        for _ in range(self.start if self.lean != "none" else 0):
            answer = yield Gradient(x_adv, WEIGHTED, weights)
            x_adv = ball.ascend(x_adv, answer.grad, ball.steps(START_STEP))
        for step in range(self.steps):
            answer = yield Gradient(x_adv, MARGIN)
            x_adv = ball.ascend(x_adv, answer.grad, ball.steps(self._step_size(step)))
        yield Scores(x_adv)

    def _weights(self, given: Given, noise: Noise) -> Logits:
        """One weight for each row and class."""
        classes = given.logits.shape[1]
        weights = _uniform(noise, classes).to(given.logits.dtype)
        if self.lean not in TRUE_CLASS or not self.signs.true_class:
            return weights
        target: Labels = targets_by_logit(given, (self.rank - 1 + given.attempt) % self.targets)
        scale = classes / 10
        weights = weights.scatter(1, target[:, None], TOWARDS * scale * (self.signs.reached or 1))
        low, high = TRUE_CLASS[self.lean][self.signs.true_class]
        drawn = low + (high - low) * noise.uniform((1,), draw=OWN_DRAW, dtype=weights.dtype)
        return weights.scatter(1, given.y[:, None], scale * drawn)

    def _step_size(self, step: int) -> float:
        least = LEAST_OF_FEW if self.steps <= FEW_STEPS else LEAST_STEP
        return least + (1 - least) * (1 + math.cos(math.pi * step / (self.steps + 1))) / 2


WEIGHTS_DRAW, OWN_DRAW = 2, 3
"""Draws 0 and 1 are the start's."""


def _uniform(noise: Noise, classes: int) -> Logits:
    return 2 * noise.uniform((classes,), draw=WEIGHTS_DRAW, dtype=torch.float32) - 1


def _sign(total: float) -> int:
    return (total > 0) - (total < 0)
