"""An attack on the smoothed classifier: projected ascent along the gradient of its mean softmax.

Problem     ``max J(x')`` over ``‖x' - x‖₂ <= eps`` and the box, ``J(x') = -log mean_i F_y(x' + e_i)``, ``e_i ~ N(0, sigma² I)``;
            F is the softmax of the base classifier's logits.
Source      Salman et al. 2019 (arXiv 1906.04584), section 2.2, the plug-in estimate of the gradient of their objective (S).
Departures  fresh copies at every step, where the paper keeps the same ones, so that no step fits the copies of the one before;
            points stay in the box.
Cost        steps * copies forwards and backwards a row.
"""

import math
from dataclasses import asdict, dataclass

import torch

from brinell.errors import BadInput
from brinell.shapes import Logits, PerRow
from brinell.smoothing.smoothed import Row, Smoothed
from brinell.threat import Threat


class NoSlope(Exception):
    """There was nothing to climb: the attack has not been made."""


@dataclass(frozen=True, kw_only=True)
class SmoothPGD:
    """Projected steepest ascent on the smoothed classifier's own loss, from the clean input."""

    steps: int = 40
    step_size: float = 0.05
    """Fraction of eps."""
    copies: int = 32
    """Noisy copies at each step, in one batch."""

    def search(self, smoothed: Smoothed, x: Row, y: int, row: int, threat: Threat) -> Row:
        """A point of the row's threat set on which g may err; ``PREDICT`` says whether it does.

        Raises
        ------
        NoSlope
            If the gradient was zero or not finite at every step, so that nothing was tried.
        Exception
            Whatever the model raises.
        """
        ball, x_adv, moved = threat.around(x), x, False
        for step in range(self.steps):
            points = smoothed.copies(x_adv, row, "attack", step * self.copies, self.copies)
            grad = smoothed.oracle.model.gradient(points, lambda logits: _shared_loss(logits, y)).grad
            slope = grad.sum(0, keepdim=True).nan_to_num(0.0, 0.0, 0.0)
            moved |= bool(slope.any())
            x_adv = ball.ascend(x_adv, slope, ball.steps(self.step_size))
        if not moved:
            raise NoSlope("the gradient is zero, or not finite, at every step")
        return x_adv

    def table(self) -> dict[str, int | float]:
        """All settings by name."""
        return asdict(self)


def _shared_loss(logits: Logits, y: int) -> PerRow:
    """``J`` in equal shares, so that their sum, which is climbed, is ``J`` of all copies together."""
    chances = logits.double().log_softmax(1)[:, y]  # in float32 the class's own share of the slope is rounded away
    together = math.log(len(chances)) - torch.logsumexp(chances, 0)
    return (together / len(chances)).expand(len(chances)).to(logits.dtype)


def refuse_other_balls(threat: Threat) -> None:
    """Refuse an attack in another norm than that of the certificates.

    Raises
    ------
    BadInput
        If the norm is not L2.
    """
    if threat.norm != "l2":
        raise BadInput(
            "norm",
            got=threat.norm,
            expected="l2: Gaussian smoothing certifies L2 balls",
            remedy="Drop --norm, or say --norm l2.",
        )
