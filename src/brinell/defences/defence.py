"""What a defence with a known truth is: a model, a threat model, and the exact worst point of every row.

A worst margin is the least ``logits[y] - max of the others`` over ball and box; a row is robust if and only if it is
above 0. Of a randomised model it is the least probability of being right, over the same points.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from brinell.geometry import Norm
from brinell.models.outputs import Outputs
from brinell.shapes import Inputs, Labels, Mask, PerRow

Kind = Literal["healthy", "scale", "gradient", "rounding", "landscape", "targets", "reject", "randomised", "mistake"]
"""What is wrong with it. ``healthy``: nothing. ``scale``: of its scores. ``gradient``: what it shows backwards is not its
gradient. ``rounding``: it has none. ``landscape``: it leads astray. ``targets``: the near class is not the likely one.
``reject``: it may decline. ``randomised``: it draws. ``mistake``: of whoever evaluates; no figure may come of it."""

Proof = Literal["closed form", "order kept", "forward kept", "interval", "threshold", "polyhedra", "normal", "bracket"]
"""Why the truth is known. ``closed form``: affine. ``order kept``: scores change, the order of an affine model's does not.
``forward kept``: only what goes backwards changes. ``interval``: coordinates are independent, each is searched along its
interval. ``threshold``: the same for every threshold between kept and dropped. ``polyhedra``: linear programmes.
``normal``: a probability by the normal distribution at an affine model's worst point. ``bracket``: bounds on both sides."""

Check = Literal[
    "zero gradient",
    "unbounded attack",
    "finite differences",
    "Frank-Wolfe gap",
    "dominance",
    "saturation",
    "score alphabet",
    "determinism",
    "batch dependence",
    "train mode",
    "inputs",
    "eps",
    "labels",
    "outputs",
    "gradients cut off",
    "box faces",
]
"""What can see it. Not every one is built."""

TOLERANCE = 1e-5
"""Worst margins nearer to 0 than this are no verdict: float32 may see either sign. Logit units of the affine model."""
BEYOND = 2e-6
"""By this share of ``eps`` a point may lie outside the ball and still be counted in (``threat.RELATIVE_TOLERANCE``)."""


class Truth(NamedTuple):
    """What is known of some rows: bounds of the worst margin (or probability), and a point that attains the upper one."""

    least: PerRow
    """No point of the ball has a margin below this."""
    most: PerRow
    """The margin of ``point`` is not above this."""
    point: Inputs
    """Inputs in float64, inside ball and box, shaped like the rows."""


Worst = Callable[[Tensor, Tensor, float], Truth]
"""Takes inputs, labels and eps."""


class Solved(NamedTuple):
    """A model with its truth."""

    make: Callable[[], nn.Module]
    """A new model in the mode in which it is to be evaluated, float32, for inputs ``(row, 1, 8, 8)``."""
    worst: Worst | None = None
    """The truth; None where no figure may come of it."""
    proof: Proof | None = None
    """Why it is the truth."""


Examples = tuple[Tensor, Tensor]


def as_they_are(x: Tensor, y: Tensor) -> Examples:
    """The rows unchanged."""
    return x, y


@dataclass(frozen=True, kw_only=True)
class Defence:
    """A model, the threat model in which its truth is known, and that truth."""

    id: str
    """Short and unique; what ``--only`` takes."""
    name: str
    """What it is, in a few words."""
    kind: Kind
    summary: str
    """What it does to an attack."""
    model: Solved
    """The model, and what is known of it."""
    norm: Norm = "linf"
    eps: float = 0.05
    """Input units."""
    outputs: Outputs = "logits"
    slack: float = TOLERANCE
    """Worst margins nearer to 0 than this are no verdict; in the units of ``Truth``."""
    given: Callable[[Tensor, Tensor], Examples] = as_they_are
    """What becomes of the built-in rows before they are handed over."""
    seen_by: tuple[Check, ...] = ()
    """What could tell, from outside, that a figure of it is not to be trusted."""
    extra: bool = False
    """Whether it is left out unless it, or everything, is asked for."""

    @property
    def randomised(self) -> bool:
        """Whether its truth is a probability."""
        return self.kind == "randomised"

    def truth(self, x: Inputs, y: Labels) -> Truth:
        """Bounds that hold for every point that a referee lets in, however it rounds the ball's radius."""
        worst = self.model.worst
        assert worst is not None, f"of {self.id} no figure may come"
        inner, outer = worst(x, y, self.eps), worst(x, y, self.eps * (1 + BEYOND))
        return Truth(torch.minimum(outer.least, inner.least), inner.most, inner.point)

    def robust(self, truth: Truth) -> Mask:
        """Rows that no point can break."""
        return truth.least > self.slack

    def breakable(self, truth: Truth) -> Mask:
        """Rows that ``truth.point`` breaks."""
        return truth.most < -self.slack
