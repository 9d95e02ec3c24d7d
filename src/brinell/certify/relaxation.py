"""Linear functions below and above each function that is not affine, on an interval, and how coefficients pass through.

Idea        from ``low(z) <= f(z) <= high(z)`` for all ``l <= z <= u`` a lower bound of ``<a, f(z)>`` follows: the function
            below where ``a`` is positive, the one above where it is negative.
Source      ReLU: Zhang et al. 2018 (CROWN, arXiv 1811.00866), section 3.2; with constraints of branches: Wang et al. 2021
            (β-CROWN, arXiv 2103.06624), section 3.1. Sigmoid and tanh: Singh et al. 2019 (DeepPoly, POPL), section 4.4.
Departures  MaxPool's upper function is the constant ``max u`` wherever no input of the window is surely the largest.

Letters: ``l``, ``u`` bounds of ``z``; ``a`` coefficients of the outputs, shape (row, spec, *feature); ``alpha`` the slope of
the function below a ReLU that may be on or off; ``beta`` the multiplier of a branch's constraint, ``sign`` its side.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, Self

import torch
from torch import Tensor
from torch.nn import functional

from brinell.certify.operators import Function, MaxPool, ReLU, Smooth


class Interval(NamedTuple):
    """Bounds of each value of each row."""

    lower: Tensor
    upper: Tensor


class Passed(NamedTuple):
    """What coefficients of a function's output become."""

    a: Tensor
    """Coefficients of its input, shape (row, spec, *feature)."""
    shift: Tensor
    """What is added for each row and spec."""


class Relaxation(Protocol):
    """A function that is not affine, on known intervals."""

    def back(self, a: Tensor) -> Passed:
        """``<a', z> + shift <= <a, f(z)>`` on the intervals."""
        ...

    def to(self, dtype: torch.dtype) -> Self:
        """The same in another precision, rounded: for searches, not for proofs."""
        ...


@dataclass(frozen=True, eq=False)
class Places:
    """The values of one ReLU layer that may be on or off in some row; the others are the identity or 0."""

    index: Tensor
    """Positions in the flattened layer."""
    on: Tensor
    """1 where a value is surely not negative, else 0; shape (row, value)."""

    @classmethod
    def of(cls, z: Interval) -> "Places":
        """Which values those are."""
        lower, upper = z.lower.flatten(1), z.upper.flatten(1)
        # whatever is not a number counts as undecided
        decided = (lower >= 0) | (upper <= 0)
        return cls((~decided).any(0).nonzero().squeeze(1), (lower >= 0).to(lower.dtype))

    def to(self, dtype: torch.dtype) -> Self:
        """The same in another precision."""
        return replace(self, on=self.on.to(dtype))


class Branches(NamedTuple):
    """What is chosen freely at the undecided ReLUs of one layer; each broadcasts to (row, spec, place)."""

    alpha: Tensor
    """Slopes below, in [0, 1]."""
    beta: Tensor | None = None
    """Multipliers, at least 0."""
    sign: Tensor | None = None
    """1 where the branch says ``z >= 0``, -1 where it says ``z <= 0``, else 0."""


@dataclass(frozen=True, eq=False)
class ReLUs:
    """A layer of ReLUs: the chord above, a line through 0 below, and multipliers of the branches' constraints."""

    places: Places
    lower: Tensor
    """At the undecided places, shape (row, place); a branch has already cut it."""
    upper: Tensor
    chosen: Branches

    def back(self, a: Tensor) -> Passed:
        """Coefficients before the layer. Where a row's bounds cross, the branch is empty and any bound holds."""
        flat, lower, upper = a.flatten(2), self.lower[:, None], self.upper[:, None]
        index = self.places.index
        if not len(index):
            return Passed((flat * self.places.on[:, None]).view_as(a), flat.new_zeros(flat.shape[:2]))
        here = flat[:, :, index]
        positive, negative = here.clamp_min(0), here.clamp_max(0)
        undecided = ~((lower >= 0) | (upper <= 0))  # what is not a number stays one
        on = (lower >= 0).to(a.dtype)
        chord = torch.where(undecided, upper / torch.where(undecided, upper - lower, 1), on)
        below = torch.where(undecided, self.chosen.alpha, on)
        passed = positive * below + negative * chord
        if self.chosen.beta is not None and self.chosen.sign is not None:
            passed = passed - self.chosen.beta * self.chosen.sign
        through = (flat * self.places.on[:, None]).index_copy(2, index, passed)
        shift = (negative * torch.where(undecided, -chord * lower, 0)).sum(2)
        return Passed(through.view_as(a), shift)

    def to(self, dtype: torch.dtype) -> Self:
        """The same in another precision."""
        alpha, *others = self.chosen
        beta, sign = (None if part is None else part.to(dtype) for part in others)
        chosen = Branches(alpha.to(dtype), beta, sign)
        return replace(
            self, places=self.places.to(dtype), lower=self.lower.to(dtype), upper=self.upper.to(dtype), chosen=chosen
        )


def adaptive(places: Places, z: Interval) -> ReLUs:
    """CROWN's slopes: 1 below where the ReLU is more on than off, else 0, the smaller of the two areas."""
    lower, upper = z.lower.flatten(1)[:, places.index], z.upper.flatten(1)[:, places.index]
    return ReLUs(places, lower, upper, Branches((upper > -lower).to(lower.dtype)[:, None]))


@dataclass(frozen=True, eq=False)
class Lines:
    """Value by value, ``low_slope z + low_shift <= f(z) <= high_slope z + high_shift``."""

    low_slope: Tensor
    low_shift: Tensor
    high_slope: Tensor
    high_shift: Tensor

    def back(self, a: Tensor) -> Passed:
        """Coefficients before the function."""
        positive, negative = a.clamp_min(0), a.clamp_max(0)
        shift = positive * self.low_shift[:, None] + negative * self.high_shift[:, None]
        return Passed(positive * self.low_slope[:, None] + negative * self.high_slope[:, None], shift.flatten(2).sum(2))

    def to(self, dtype: torch.dtype) -> Self:
        """The same in another precision."""
        slopes = (self.low_slope, self.low_shift, self.high_slope, self.high_shift)
        return type(self)(*(part.to(dtype) for part in slopes))


def lines(function: Smooth, z: Interval) -> Lines:
    """The chord where the function curves the right way on all of the interval, else the lesser end's slope from one end.

    The derivative rises below 0 and falls above: its least value on an interval is at an end.
    """
    at_lower, at_upper = function.forward(z.lower), function.forward(z.upper)
    width = z.upper - z.lower
    gentle = torch.minimum(function.slope(z.lower), function.slope(z.upper))
    chord = torch.where(width > 0, (at_upper - at_lower) / torch.where(width > 0, width, 1), gentle)
    low_slope, high_slope = torch.where(z.lower >= 0, chord, gentle), torch.where(z.upper <= 0, chord, gentle)
    return Lines(low_slope, at_lower - low_slope * z.lower, high_slope, at_upper - high_slope * z.upper)


@dataclass(frozen=True, eq=False)
class Maxima:
    """Windows of an image: from below the input with the largest lower bound, from above that one or a constant."""

    position: Tensor
    """Of that input in the channel's plane, shape (row, channel, height, width of the output)."""
    certain: Tensor
    """1 where it is surely the maximum, else 0."""
    ceiling: Tensor
    """The largest upper bound of the window."""
    shape: tuple[int, ...]
    """Of the input, without the rows."""

    def back(self, a: Tensor) -> Passed:
        """Coefficients before the maxima."""
        positive, negative = a.clamp_min(0), a.clamp_max(0)
        certain = self.certain[:, None]
        passed = (positive + negative * certain).flatten(3)
        empty = a.new_zeros(*a.shape[:3], self.shape[1] * self.shape[2])
        before = empty.scatter_add(3, self.position.flatten(2)[:, None].expand_as(passed), passed)
        shift = (negative * (self.ceiling * (1 - self.certain))[:, None]).flatten(2).sum(2)
        return Passed(before.view(*a.shape[:2], *self.shape), shift)

    def to(self, dtype: torch.dtype) -> Self:
        """The same in another precision."""
        return replace(self, certain=self.certain.to(dtype), ceiling=self.ceiling.to(dtype))


def maxima(function: MaxPool, z: Interval) -> Maxima:
    """What the intervals say of each window."""
    channels, height, width = z.lower.shape[1:]
    _, position = functional.max_pool2d(
        z.lower, function.kernel, function.stride, function.padding, return_indices=True
    )
    out = position.shape[2:]
    planes = torch.arange(1, height * width + 1, dtype=z.lower.dtype).view(1, 1, height, width)
    windows, where = (
        functional.unfold(
            functional.pad(image, (function.padding[1],) * 2 + (function.padding[0],) * 2, value=outside),
            function.kernel,
            stride=function.stride,
        ).view(*image.shape[:2], -1, *out)
        for image, outside in ((z.upper, -torch.inf), (planes, 0.0))
    )
    rivals = windows.masked_fill(where.expand_as(windows) == position[:, :, None] + 1, -torch.inf).amax(2)
    lowest = z.lower.flatten(2).gather(2, position.flatten(2)).view_as(rivals)
    return Maxima(position, (lowest >= rivals).to(lowest.dtype), windows.amax(2), (channels, height, width))


def relaxed(function: Function, z: Interval) -> Relaxation:
    """The functions below and above on these intervals."""
    match function:
        case ReLU():
            return adaptive(Places.of(z), z)
        case Smooth():
            return lines(function, z)
        case MaxPool():
            return maxima(function, z)
