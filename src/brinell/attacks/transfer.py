"""Points made on another model, the surrogate, and proposed to the attacked one.

Idea        a point that fools one model often fools its like. What hides a model's gradients hides them from whoever asks
            that model, and from nobody who climbs on another one.
Source      Papernot et al. 2016 (arXiv 1605.07277); as a check on masked gradients: Carlini et al. 2019 (arXiv
            1902.06705), section 4.5.
Departures  the surrogate is climbed by projected gradient descent from a random start whose steps fall from twice the radius
            to 0, and points on the way are proposed beside the last.
Cost        a restart (for a targeted loss: a restart on a target) takes 4 forwards a row; on the surrogate, steps forwards
            and steps backwards for each row that it is given.
"""

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from brinell.geometry import NORMS, Norm
from brinell.losses import CROSS_ENTROPY, Loss, TargetedLoss, defined_for
from brinell.models.protocol import Model
from brinell.queries import Cost, Given, Scores, Search, targets_by_logit
from brinell.random import Noise, stream_key
from brinell.shapes import Inputs, Labels, Logits, PerRow
from brinell.threat import Ball

PROPOSED = 4
"""Points of a climb that are proposed, at equal distances in steps; the last one is the climb's end."""
FIRST_STEP = 2.0
"""Of eps."""


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """Climbs on a surrogate. It asks the attacked model for scores alone, and only at the end of a climb."""

    name: ClassVar[str] = "transfer"
    summary: ClassVar[str] = "points made on a surrogate, proposed to the model (Papernot et al. 2016)"
    norms: ClassVar[tuple[Norm, ...]] = NORMS

    surrogate: str = ""
    """SHA-256 of the surrogate."""
    loss: Loss | TargetedLoss = CROSS_ENTROPY
    """Climbed on the surrogate, per row."""
    steps: int = 40
    restarts: int = 1
    targets: int = 9
    """Wrong classes tried by a targeted loss, by descending clean logit of the attacked model; unused by the others."""
    held: Model | None = field(default=None, compare=False, repr=False)
    """The surrogate; None in an attack that was read from a record, which cannot be run."""

    def fit(self, classes: int) -> Self:
        return replace(self, loss=defined_for(self.loss, classes), targets=min(self.targets, classes - 1))

    def attempts(self) -> int:
        return self.restarts * (self.targets if isinstance(self.loss, TargetedLoss) else 1)

    def cost(self) -> Cost:
        return Cost(forwards=PROPOSED, backwards=0).times(self.attempts())

    def cost_of_surrogate(self) -> Cost:
        """Passes on the surrogate for one row in one attempt, whether it falls or not."""
        return Cost(forwards=self.steps, backwards=self.steps)

    def search(self, given: Given, ball: Ball, noise: Noise) -> Search:
        if self.held is None:
            raise ValueError("the surrogate is not at hand")
        target = None
        if isinstance(self.loss, TargetedLoss):
            target = targets_by_logit(given, given.attempt % self.targets)
        proposed = []
        with self.held.undisturbed():
            self.held.reseed(stream_key(f"transfer {given.attempt}"))
            x_adv = ball.random_start(noise)
            for step in range(self.steps):
                share = (1 + math.cos(math.pi * step / self.steps)) / 2
                x_adv = ball.ascend(x_adv, self._slope(x_adv, given.y, target), ball.steps(FIRST_STEP * share))
                if (step + 1) * PROPOSED // self.steps > step * PROPOSED // self.steps:
                    proposed.append(x_adv)
        while len(proposed) < PROPOSED:  # of fewer steps than points, the last stands for the rest
            proposed.append(x_adv)
        for points in reversed(proposed):
            yield Scores(points)

    def _slope(self, x_adv: Inputs, y: Labels, target: Labels | None) -> Inputs:
        """The loss's gradient on the surrogate; 0 where it is not finite."""
        assert self.held is not None
        loss, device = self.loss, self.held.device
        own = y.to(device)

        def climb(logits: Logits) -> PerRow:
            if isinstance(loss, TargetedLoss):
                assert target is not None
                return loss.climb(logits, own, target.to(device))
            return loss.climb(logits, own)

        grad = self.held.gradient(x_adv.to(device, self.held.dtype), climb).grad
        return grad.to(x_adv.device, x_adv.dtype).nan_to_num(0.0, 0.0, 0.0)
