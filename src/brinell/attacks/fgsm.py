"""Fast gradient sign method: one steepest step of the whole radius.

Idea        the loss is nearly linear in so small a ball; one step reaches the best corner of the linear model.
Source      Goodfellow, Shlens & Szegedy 2015 (arXiv 1412.6572), section 4.
Departures  other norms take their own steepest step; the loss is a field.
Cost        2 forwards and 1 backward a row.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from brinell.geometry import NORMS, Norm
from brinell.losses import CROSS_ENTROPY, Loss, defined_for
from brinell.queries import Cost, Given, Gradient, Scores, Search
from brinell.random import Noise
from brinell.threat import Ball


@dataclass(frozen=True, kw_only=True)
class FGSM:
    """One steepest step of size ``eps`` from the clean input."""

    name: ClassVar[str] = "fgsm"
    summary: ClassVar[str] = "one steepest step of size eps (Goodfellow et al. 2015)"
    norms: ClassVar[tuple[Norm, ...]] = NORMS

    loss: Loss = CROSS_ENTROPY
    """Climbed, per row."""

    def fit(self, classes: int) -> Self:
        return replace(self, loss=defined_for(self.loss, classes))

    def attempts(self) -> int:
        return 1

    def cost(self) -> Cost:
        return Cost(forwards=2, backwards=1)

    def search(self, given: Given, ball: Ball, noise: Noise) -> Search:
        answer = yield Gradient(given.x, self.loss)
        yield Scores(ball.ascend(given.x, answer.grad, ball.steps(1.0)))
