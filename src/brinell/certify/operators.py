"""What a network is made of, for bounds: affine operators with their transposes, and the functions in between.

Letters: an affine operator is ``W x + b``; ``a`` is a row of coefficients of its output, so that ``a W`` are those of its
input. Tensors have one leading dimension of points or coefficients, then the shape of the value.
"""

from dataclasses import dataclass, replace
from typing import Literal, Protocol, Self

import torch
from torch import Tensor
from torch.nn import functional

Shape = tuple[int, ...]
Pair = tuple[int, int]


class Affine(Protocol):
    """``W x + b``: forwards, backwards, and by absolute values."""

    @property
    def diagonal(self) -> bool:
        """Whether each output depends on at most one input, so that intervals through it are exact."""
        ...

    def forward(self, x: Tensor) -> Tensor:
        """``W x + b``."""
        ...

    def spread(self, radius: Tensor) -> Tensor:
        """``|W| radius``: how far the output moves if each input moves by at most ``radius``."""
        ...

    def back(self, a: Tensor) -> Tensor:
        """``a W``."""
        ...

    def shift(self, a: Tensor) -> Tensor:
        """``<a, b>``, one number for each row of coefficients."""
        ...

    def to(self, dtype: torch.dtype) -> Self:
        """The same with its weights in another precision."""
        ...


def _inner(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).flatten(1).sum(1)


@dataclass(frozen=True, eq=False)
class Dense:
    """A matrix on the last dimension."""

    weight: Tensor
    """Shape (out, in)."""
    bias: Tensor
    diagonal: bool = False

    def forward(self, x: Tensor) -> Tensor:
        """``W x + b``."""
        return functional.linear(x, self.weight, self.bias)

    def spread(self, radius: Tensor) -> Tensor:
        """``|W| radius``."""
        return functional.linear(radius, self.weight.abs())

    def back(self, a: Tensor) -> Tensor:
        """``a W``."""
        return a @ self.weight

    def shift(self, a: Tensor) -> Tensor:
        """``<a, b>``."""
        return _inner(a, self.bias)

    def to(self, dtype: torch.dtype) -> Self:
        """The same in another precision."""
        return replace(self, weight=self.weight.to(dtype), bias=self.bias.to(dtype))


@dataclass(frozen=True, eq=False)
class Convolution:
    """A convolution over images; an average over windows is one with equal weights and as many groups as channels."""

    weight: Tensor
    """Shape (out, in over groups, height, width)."""
    bias: Tensor
    """Shape (out)."""
    stride: Pair
    padding: Pair
    dilation: Pair
    groups: int
    size: Pair
    """Height and width of the input."""
    diagonal: bool = False

    def forward(self, x: Tensor) -> Tensor:
        """``W x + b``."""
        return functional.conv2d(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)

    def spread(self, radius: Tensor) -> Tensor:
        """``|W| radius``."""
        weight = self.weight.abs()
        return functional.conv2d(radius, weight, None, self.stride, self.padding, self.dilation, self.groups)

    def back(self, a: Tensor) -> Tensor:
        """``a W``, a transposed convolution; what the stride left over at the far edges is padded back."""
        reached = [
            (out - 1) * stride - 2 * pad + dilation * (kernel - 1) + 1
            for out, stride, pad, dilation, kernel in zip(
                a.shape[2:], self.stride, self.padding, self.dilation, self.weight.shape[2:], strict=True
            )
        ]
        rest = (self.size[0] - reached[0], self.size[1] - reached[1])
        return functional.conv_transpose2d(
            a, self.weight, None, self.stride, self.padding, rest, self.groups, self.dilation
        )

    def shift(self, a: Tensor) -> Tensor:
        """``<a, b>``."""
        return a.sum((2, 3)) @ self.bias

    def to(self, dtype: torch.dtype) -> Self:
        """The same in another precision."""
        return replace(self, weight=self.weight.to(dtype), bias=self.bias.to(dtype))


@dataclass(frozen=True, eq=False)
class Scale:
    """``factor x + offset``, value by value, both shaped as the value is."""

    factor: Tensor
    offset: Tensor
    diagonal: bool = True

    def forward(self, x: Tensor) -> Tensor:
        """``W x + b``."""
        return self.factor * x + self.offset

    def spread(self, radius: Tensor) -> Tensor:
        """``|W| radius``."""
        return self.factor.abs() * radius

    def back(self, a: Tensor) -> Tensor:
        """``a W``."""
        return a * self.factor

    def shift(self, a: Tensor) -> Tensor:
        """``<a, b>``."""
        return _inner(a, self.offset)

    def to(self, dtype: torch.dtype) -> Self:
        """The same in another precision."""
        return replace(self, factor=self.factor.to(dtype), offset=self.offset.to(dtype))


@dataclass(frozen=True)
class Reshape:
    """The same values in the same order in another shape."""

    before: Shape
    after: Shape
    diagonal: bool = True

    def forward(self, x: Tensor) -> Tensor:
        """The values in their new shape."""
        return x.reshape(len(x), *self.after)

    spread = forward

    def back(self, a: Tensor) -> Tensor:
        """The coefficients in the shape before."""
        return a.reshape(len(a), *self.before)

    def shift(self, a: Tensor) -> Tensor:
        """0: nothing is added."""
        return a.new_zeros(len(a))

    def to(self, dtype: torch.dtype) -> Self:
        """Itself: it has no weights."""
        return self


@dataclass(frozen=True)
class Sum:
    """The sum or difference of two values of the same shape."""

    sign: Literal[1, -1]
    """Of the second."""


@dataclass(frozen=True)
class ReLU:
    """``max(0, z)``, value by value."""

    def forward(self, z: Tensor) -> Tensor:
        """``max(0, z)``."""
        return z.clamp_min(0)


@dataclass(frozen=True)
class Smooth:
    """A function that rises everywhere, convex below 0 and concave above."""

    name: Literal["sigmoid", "tanh"]

    def forward(self, z: Tensor) -> Tensor:
        """The function."""
        return torch.sigmoid(z) if self.name == "sigmoid" else torch.tanh(z)

    def slope(self, z: Tensor) -> Tensor:
        """Its derivative."""
        value = self.forward(z)
        return value * (1 - value) if self.name == "sigmoid" else 1 - value * value


@dataclass(frozen=True)
class MaxPool:
    """The maximum over windows of an image's channels."""

    kernel: Pair
    stride: Pair
    padding: Pair

    def forward(self, z: Tensor) -> Tensor:
        """The maxima."""
        return functional.max_pool2d(z, self.kernel, self.stride, self.padding)


Function = ReLU | Smooth | MaxPool
