"""Which operator a traced PyTorch operation is. What is not here has no bounds, and is refused by its name.

Names are those of PyTorch's own operations without the overload, ``aten.relu.default`` is ``relu``, in a graph in which
nothing is written in place.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from brinell.certify.operators import (
    Affine,
    Convolution,
    Dense,
    Function,
    MaxPool,
    Pair,
    ReLU,
    Reshape,
    Scale,
    Shape,
    Smooth,
)

Arguments = Sequence[Any]


class Unreadable(Exception):
    """An operation, or a setting of one, whose bounds are not known; the text names it."""


@dataclass(frozen=True)
class Place:
    """A value that depends on the input, by its place in the network's list."""

    index: int


@dataclass(frozen=True)
class Call:
    """One traced operation on one value that depends on the input."""

    name: str
    args: Arguments
    named: dict[str, Any]
    before: Shape
    """Of the value, without the rows."""
    after: Shape

    def get(self, place: int, default: Any) -> Any:
        """An argument by its place, where it was given."""
        return self.args[place] if len(self.args) > place else default


def plain(target: str) -> str:
    """``aten.relu.default`` is ``relu``."""
    parts = target.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def _pair(value: Any) -> Pair:
    both = [int(one) for one in value] if isinstance(value, list | tuple) else [int(value)]
    return (both[0], both[-1])


def _linear(call: Call) -> Affine:
    weight = call.args[1]
    bias = call.get(2, None)
    return Dense(weight, bias if bias is not None else weight.new_zeros(len(weight)))


def _product(call: Call) -> Affine:
    weight = call.args[1]
    if isinstance(weight, Place) or weight.dim() != 2:
        raise Unreadable("a product that is not that of a row with a matrix")
    return Dense(weight.T, weight.new_zeros(weight.shape[1]))


def _shifted_product(call: Call) -> Affine:
    bias, _, weight = call.args[:3]
    if call.named or not isinstance(call.args[1], Place):
        raise Unreadable("a product that is not that of a row with a matrix")
    return Dense(weight.T, torch.broadcast_to(bias, (weight.shape[1],)))


def _convolution(call: Call) -> Affine:
    weight, bias = call.args[1], call.get(2, None)
    padding = call.get(4, 0)
    if isinstance(padding, str) or len(call.before) != 3:
        raise Unreadable(f"a convolution with padding {padding!r} of a value of shape {call.before}")
    return Convolution(
        weight,
        bias if bias is not None else weight.new_zeros(len(weight)),
        stride=_pair(call.get(3, 1)),
        padding=_pair(padding),
        dilation=_pair(call.get(5, 1)),
        groups=int(call.get(6, 1)),
        size=(call.before[1], call.before[2]),
    )


def _normalisation(call: Call) -> Affine:
    _, weight, bias, mean, variance, _, tiny = call.args
    factor = torch.rsqrt(variance + tiny) * (weight if weight is not None else 1.0)
    offset = (bias if bias is not None else 0.0) - mean * factor
    shape = (-1, *([1] * (len(call.before) - 1)))
    return _scale(factor.view(shape), offset.view(shape), call)


def _scale(factor: Tensor, offset: Tensor, call: Call) -> Scale:
    """Both with the shape of the value; one that differs from row to row is none of a network's constants."""
    try:
        wide = [torch.broadcast_to(part, (1, *call.before))[0] for part in (factor, offset)]
    except RuntimeError as error:
        raise Unreadable(f"the operation {call.name} with a constant that changes the shape {call.before}") from error
    return Scale(wide[0], wide[1])


def _arithmetic(call: Call) -> Affine:
    """``x + c``, ``c - x``, ``x c``, ``x / c`` and their like with a constant."""
    first, second = call.args[:2]
    left = isinstance(first, Place)
    constant = torch.as_tensor(second if left else first, dtype=torch.float64)
    one, none = torch.ones_like(constant), torch.zeros_like(constant)
    if call.named.get("alpha", 1) != 1 or call.named.get("rounding_mode") is not None:
        raise Unreadable(f"the operation {call.name} with {call.named}")
    match call.name, left:
        case "add", _:
            return _scale(one, constant, call)
        case "sub", True:
            return _scale(one, -constant, call)
        case ("sub", False) | ("rsub", True):
            return _scale(-one, constant, call)
        case "mul", _:
            return _scale(constant, none, call)
        case "div", True:
            return _scale(1 / constant, none, call)
        case _:
            raise Unreadable(f"the operation {call.name} with the input on the other side")


def _negation(call: Call) -> Affine:
    return _scale(-torch.ones((), dtype=torch.float64), torch.zeros((), dtype=torch.float64), call)


def _window_mean(call: Call, kernel: Pair, stride: Pair, padding: Pair) -> Convolution:
    channels, height, width = call.before
    weight = torch.full((channels, 1, *kernel), 1 / (kernel[0] * kernel[1]), dtype=torch.float64)
    bias = weight.new_zeros(channels)
    return Convolution(weight, bias, stride, padding, (1, 1), channels, (height, width))


def _average(call: Call) -> Affine:
    kernel = _pair(call.args[1])
    stride, padding = _pair(call.get(2, None) or kernel), _pair(call.get(3, 0))
    rounds_up, counts_padding, divisor = call.get(4, False), call.get(5, True), call.get(6, None)
    if rounds_up or divisor is not None or (not counts_padding and padding != (0, 0)) or len(call.before) != 3:
        raise Unreadable("an average over windows that round up, leave out padding or have a divisor of their own")
    return _window_mean(call, kernel, stride, padding)


def _adaptive_average(call: Call) -> Affine:
    out = _pair(call.args[1])
    if len(call.before) != 3 or call.before[1] % out[0] or call.before[2] % out[1]:
        raise Unreadable(f"an average of {call.before} onto {out}, in windows of different sizes")
    kernel = (call.before[1] // out[0], call.before[2] // out[1])
    return _window_mean(call, kernel, kernel, (0, 0))


def _mean(call: Call) -> Affine:
    """Of an image's height and width, kept as dimensions or not."""
    dims = sorted(dim % (len(call.before) + 1) for dim in call.args[1])
    if len(call.before) != 3 or dims != [2, 3] or not call.get(2, False):
        raise Unreadable(f"a mean over the dimensions {dims} of {call.before} (it must keep them)")
    return _window_mean(call, (call.before[1], call.before[2]), (1, 1), (0, 0))


def _reshape(call: Call) -> Affine:
    return Reshape(call.before, call.after)


def _relu(call: Call) -> Function:
    return ReLU()


def _clamped(call: Call) -> Function:
    if call.named or call.get(1, None) != 0 or call.get(2, None) is not None:
        raise Unreadable(f"the operation {call.name} with other bounds than 0 from below")
    return ReLU()


def _sigmoid(call: Call) -> Function:
    return Smooth("sigmoid")


def _tanh(call: Call) -> Function:
    return Smooth("tanh")


def _maximum(call: Call) -> Function:
    kernel = _pair(call.args[1])
    stride, padding = _pair(call.get(2, None) or kernel), _pair(call.get(3, 0))
    if _pair(call.get(4, 1)) != (1, 1) or call.get(5, False) or len(call.before) != 3:
        raise Unreadable("a maximum over windows that are dilated or round up")
    return MaxPool(kernel, stride, padding)


def _of_the_batch(call: Call) -> None:
    raise Unreadable("a batch normalisation by the batch's own mean (put the module in evaluation mode)")


def _drawn(call: Call) -> None:
    raise Unreadable("dropout in training mode (put the module in evaluation mode)")


def _precision(call: Call) -> None:
    if torch.float64 not in (*call.args, *call.named.values()):
        raise Unreadable("a change of precision")


def _same(call: Call) -> None:
    return None


READERS: dict[str, Callable[[Call], Affine | Function | None]] = {
    **dict.fromkeys(("clone", "contiguous", "detach", "alias", "identity"), _same),
    **dict.fromkeys(("_native_batch_norm_legit", "_native_batch_norm_legit_functional"), _of_the_batch),
    **dict.fromkeys(("native_dropout", "dropout", "bernoulli"), _drawn),
    **dict.fromkeys(("to", "_to_copy"), _precision),
    **dict.fromkeys(("flatten", "view", "reshape", "_unsafe_view", "squeeze", "unsqueeze"), _reshape),
    **dict.fromkeys(("add", "sub", "rsub", "mul", "div"), _arithmetic),
    **dict.fromkeys(("clamp", "clamp_min"), _clamped),
    **dict.fromkeys(("mm", "matmul"), _product),
    "addmm": _shifted_product,
    "linear": _linear,
    "conv2d": _convolution,
    "_native_batch_norm_legit_no_training": _normalisation,
    "avg_pool2d": _average,
    "adaptive_avg_pool2d": _adaptive_average,
    "mean": _mean,
    "neg": _negation,
    "relu": _relu,
    "sigmoid": _sigmoid,
    "tanh": _tanh,
    "max_pool2d": _maximum,
}
"""Each reads one operation; ``None`` means that its value is the one that it was given."""
EITHER_SIDE = ("add", "sub", "rsub", "mul", "div", "addmm")
"""Operations whose first argument may be a constant."""
WITH_MORE_RESULTS = (
    "_native_batch_norm_legit_no_training", "_native_batch_norm_legit", "_native_batch_norm_legit_functional",
    "native_dropout",
)  # fmt: skip
"""Operations that give more than their value, which comes first."""
