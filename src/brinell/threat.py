"""The threat model: which points an attack may use, around which rows, under which rules."""

import math
from dataclasses import dataclass
from typing import Literal

import torch

from brinell.eps import Eps
from brinell.errors import BadInput
from brinell.geometry import (
    NORMS,
    Norm,
    distance,
    nearest_in_l1,
    nearest_in_l2,
    per_row,
    size,
    steepest,
)
from brinell.random import Noise
from brinell.shapes import Indices, Inputs, Mask, PerRow

RELATIVE_TOLERANCE = 1e-6
"""Membership allows ``distance <= eps (1 + 1e-6)``, the distance computed in float64; the box allows nothing."""

_NORM_NAMES: dict[str, Norm] = {"inf": "linf", "∞": "linf", "l∞": "linf", "2": "l2", "1": "l1"}


@dataclass(frozen=True, init=False)
class Threat:
    """A ball of radius ``eps`` around each clean input, cut by the box ``[low, high]``."""

    norm: Norm
    """``linf``, ``l2`` or ``l1``."""
    eps: Eps
    """Radius in input units, a float that remembers how it was written."""
    low: float
    """Lower bound of every input value, in input units."""
    high: float
    """Upper bound of every input value, in input units."""
    goal: Literal["untargeted"]
    """A row is broken by any class but its own."""
    access: Literal["white-box"]
    """What the attacker may ask of the model: here scores and gradients."""

    def __init__(
        self,
        norm: str,
        eps: float | str,
        low: float = 0.0,
        high: float = 1.0,
        goal: Literal["untargeted"] = "untargeted",
        access: Literal["white-box"] = "white-box",
    ) -> None:
        """``norm`` may be written ``linf``, ``Linf``, ``inf``, ``2`` …; ``eps`` as a number or as ``8/255``.

        Raises
        ------
        BadInput
            If the norm is unknown, ``eps`` cannot be read, or the box is empty or not finite.
        """
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise BadInput(
                "bounds of the input space",
                got=f"low {low}, high {high}",
                expected="two finite numbers, low below high",
                remedy="Give the range in which inputs are valid, for example 0 and 1.",
            )
        for field, value in (("norm", _norm_of(norm)), ("eps", Eps(eps)), ("low", low), ("high", high)):
            object.__setattr__(self, field, value)
        object.__setattr__(self, "goal", goal)
        object.__setattr__(self, "access", access)

    @property
    def eps_text(self) -> str:
        """The radius as it was written."""
        return str(self.eps)

    def describe(self) -> str:
        """The threat model as it stands in a claim: ``Linf, eps 8/255, inputs in [0, 1], untargeted, white-box``."""
        return f"{self.norm.capitalize()}, eps {self.eps}, inputs in [{self.low:g}, {self.high:g}], {self.goal}, {self.access}"

    def around(self, x: Inputs) -> "Ball":
        """The threat set around each of some rows."""
        return Ball.of(self, x)

    def contains(self, x: Inputs, x_adv: Inputs) -> Mask:
        """Which rows of ``x_adv`` lie in the threat set of ``x``: finite, in the box, within the ball.

        The distance is computed in float64 and may exceed ``eps`` by ``RELATIVE_TOLERANCE``. Empty input gives an
        empty mask.
        """
        if x_adv[0:1].numel() == 0:
            return torch.ones(len(x_adv), dtype=torch.bool, device=x_adv.device)
        flat = x_adv.flatten(1)
        # a NaN fails both comparisons
        in_box = ((flat >= self.low) & (flat <= self.high)).all(dim=1)
        return in_box & (distance(x, x_adv, self.norm) <= self.eps * (1 + RELATIVE_TOLERANCE))


def _norm_of(written: object) -> Norm:
    name = str(written).strip().lower()
    name = _NORM_NAMES.get(name.removesuffix(".0"), name)
    for norm in NORMS:
        if norm == name:
            return norm
    raise BadInput(
        "norm", got=repr(written), expected=" or ".join(NORMS), remedy="Name the ball's norm, for example linf."
    )


@dataclass(frozen=True, eq=False)
class Ball:
    """The threat set around each row of a group, ready for an attack's arithmetic."""

    threat: Threat
    x: Inputs
    """Clean inputs, the centres."""
    lower: Inputs
    """Least value allowed to each coordinate (for Linf: by ball and box, rounded inwards)."""
    upper: Inputs
    """Greatest value allowed to each coordinate."""

    @classmethod
    def of(cls, threat: Threat, x: Inputs) -> "Ball":
        """The sets around ``x``; for Linf, ball and box become one interval for each coordinate."""
        if threat.norm != "linf":
            return cls(threat, x, torch.full_like(x, threat.low), torch.full_like(x, threat.high))
        exact_lower = (x.double() - threat.eps).clamp_min(threat.low)
        exact_upper = (x.double() + threat.eps).clamp_max(threat.high)
        lower, upper = exact_lower.to(x.dtype), exact_upper.to(x.dtype)
        # rounding to the data's precision must not leave the ball
        lower = torch.where(lower.double() < exact_lower, torch.nextafter(lower, torch.full_like(x, torch.inf)), lower)
        upper = torch.where(upper.double() > exact_upper, torch.nextafter(upper, torch.full_like(x, -torch.inf)), upper)
        return cls(threat, x, lower, upper)

    @property
    def eps(self) -> float:
        """Radius in input units."""
        return self.threat.eps

    def at(self, places: Indices | slice) -> "Ball":
        """The sets around some of the rows."""
        return Ball(self.threat, self.x[places], self.lower[places], self.upper[places])

    def holds(self, points: Inputs) -> Mask:
        """Which points lie in the sets around their rows, in the precision of the points.

        Quick, for keeping statistics; ``Threat.contains`` is what decides about a witness.
        """
        if torch.equal(points.clamp(self.lower, self.upper), points):  # the rule, and cheaper than a mask
            inside = torch.ones(len(points), dtype=torch.bool, device=points.device)
        else:
            inside = ((points >= self.lower) & (points <= self.upper)).flatten(1).all(dim=1)
        if self.threat.norm == "linf":
            return inside
        return inside & (size(points - self.x, self.threat.norm) <= self.eps * (1 + RELATIVE_TOLERANCE))

    def project(self, point: Inputs) -> Inputs:
        """The nearest point of ball ∩ box in the Euclidean sense, exactly, for each norm.

        For Linf this is a clamp. For L2 and L1 it is the projection onto the intersection (not ball first, box after).
        """
        if self.threat.norm == "linf":
            return torch.clamp(point, self.lower, self.upper)
        nearest = nearest_in_l2 if self.threat.norm == "l2" else nearest_in_l1
        d = nearest(point - self.x, self.lower - self.x, self.upper - self.x, self.eps)
        x_adv = torch.clamp(self.x + d, self.lower, self.upper)
        # rounding to the data's precision must not leave the ball
        farther = (x_adv.double() - self.x.double()).abs() > d.double().abs()
        return torch.where(farther, torch.nextafter(x_adv, self.x), x_adv)

    def ascend(self, x_adv: Inputs, grad: Inputs, step: PerRow) -> Inputs:
        """``project(x_adv + s)``, where ``s`` is the steepest step of size ``step`` (input units, per row)."""
        if self.threat.norm == "linf":
            return torch.addcmul(x_adv, grad.sign(), per_row(step, grad)).clamp_(self.lower, self.upper)
        s = steepest(grad, self.threat.norm, step, self.threat.low - x_adv, self.threat.high - x_adv)
        return self.project(x_adv + s)

    def steps(self, fraction: float) -> PerRow:
        """A step size for each row, given as a fraction of ``eps``."""
        return self.x.new_full((len(self.x),), fraction * self.eps)

    def random_start(self, noise: Noise, *, draw: int = 0) -> Inputs:
        """A random point of ball ∩ box for each row.

        Linf: uniform in the intersection. L2 and L1: uniform in the ball, then projected.
        """
        shape = tuple(self.x.shape[1:])
        if self.threat.norm == "linf":
            share = noise.uniform(shape, draw=draw, dtype=self.x.dtype)
            return torch.clamp(self.lower + share * (self.upper - self.lower), self.lower, self.upper)
        if self.threat.norm == "l2":
            direction = noise.normal(shape, draw=2 * draw, dtype=self.x.dtype)
            dimension = max(direction[0:1].numel(), 1)
            share = noise.uniform((), draw=2 * draw + 1, dtype=self.x.dtype)
            length = self.eps * share ** (1 / dimension) / size(direction, "l2").clamp_min(1e-30)
            return self.project(self.x + per_row(length, self.x) * direction)
        # with d + 1 exponentials, |e_1|, …, |e_d| over the sum of all is uniform in the simplex's interior
        toss = 2 * noise.uniform(shape, draw=2 * draw, dtype=self.x.dtype)
        lengths = -torch.log1p(-toss.frac())
        spare = -torch.log1p(-noise.uniform((), draw=2 * draw + 1, dtype=self.x.dtype))
        total = lengths.flatten(1).sum(1) + spare
        d = torch.where(toss < 1, -lengths, lengths) * per_row(self.eps / total.clamp_min(1e-30), self.x)
        return self.project(self.x + d)
