"""The set of points that a bound speaks of: a box, and within it perhaps a ball; least values of linear functions on it."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from brinell.geometry import Norm, dual_size, steepest
from brinell.shapes import Inputs, Mask
from brinell.threat import RELATIVE_TOLERANCE, Threat


@dataclass(frozen=True, eq=False)
class Region:
    """``lower <= x <= upper`` for each row and, where there is a ball, ``‖x - centre‖ <= eps`` as well."""

    lower: Inputs
    upper: Inputs
    centre: Inputs | None = None
    """Of the ball; ``None`` where the box is all."""
    norm: Norm = "linf"
    eps: float = 0.0

    @classmethod
    def of(cls, threat: Threat, x: Inputs) -> "Region":
        """The threat sets around ``x``, in float64: for Linf a box, else a ball with the box around what is allowed of it.

        Their radius is the largest distance that membership allows.
        """
        exact, eps = x.double(), float(threat.eps) * (1 + RELATIVE_TOLERANCE)
        lower, upper = (exact - eps).clamp_min(threat.low), (exact + eps).clamp_max(threat.high)
        if threat.norm == "linf":
            return cls(lower, upper)
        return cls(lower, upper, exact, threat.norm, eps)

    def __len__(self) -> int:
        return len(self.lower)

    def at(self, rows: Tensor | slice) -> "Region":
        """The sets of some rows."""
        return replace(
            self,
            lower=self.lower[rows],
            upper=self.upper[rows],
            centre=None if self.centre is None else self.centre[rows],
        )

    def to(self, dtype: torch.dtype) -> "Region":
        """The same in another precision, rounded: for searches, not for proofs."""
        return replace(
            self,
            lower=self.lower.to(dtype),
            upper=self.upper.to(dtype),
            centre=None if self.centre is None else self.centre.to(dtype),
        )

    def empty(self) -> Mask:
        """Rows without a point, and those with a coordinate that is not a number."""
        return ~(self.lower <= self.upper).flatten(1).all(1)

    def least(self, a: Tensor) -> Tensor:
        """A lower bound of ``<a, x>`` over the set; shapes (row, spec, *feature) and (row, spec).

        On a box it is the minimum, ``<a, middle> - <|a|, half the width>``. On a ball it is the larger of the box's and
        the ball's, ``<a, centre> - eps ‖a‖`` in the dual norm: exact where only one of the two counts, else a bound.
        """
        middle, half = (self.lower + self.upper) / 2, (self.upper - self.lower) / 2
        value = _inner(a, middle) - _inner(a.abs(), half)
        if self.centre is None:
            return value
        dual = dual_size(a.flatten(0, 1), self.norm).view(a.shape[:2])
        return torch.maximum(value, _inner(a, self.centre) - self.eps * dual)

    def lowest(self, a: Tensor) -> Tensor:
        """Where ``<a, x>`` is least on the box, or on the ball before the box cuts it; shape as ``a``."""
        if self.centre is None:
            return torch.where(a > 0, self.lower[:, None], self.upper[:, None])
        flat = a.flatten(0, 1)
        low, high = (self._repeated(end - self.centre, a) for end in (self.lower, self.upper))
        step = steepest(-flat, self.norm, flat.new_full((len(flat),), self.eps), low, high)
        return torch.clamp(self.centre[:, None] + step.view_as(a), self.lower[:, None], self.upper[:, None])

    def _repeated(self, x: Tensor, a: Tensor) -> Tensor:
        return x[:, None].expand_as(a).flatten(0, 1)


def _inner(a: Tensor, x: Tensor) -> Tensor:
    """``<a, x>`` for each row and spec; ``x`` has no specs."""
    return torch.einsum("rsf,rf->rs", a.flatten(2), x.flatten(1))
