"""The operations of ONNX that a net may be made of, as PyTorch computes them for rows together.

What a file may say is listed operation by operation. An input or a setting that is not listed is refused: passed over in
silence, it would be read as something else than it says.

Source: Open Neural Network Exchange, Operators, domain ``ai.onnx``, opsets 7 to 28.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor
from torch.nn import functional

OPSETS = range(7, 29)
"""Before 7, ``Add`` and its like broadcast by settings, and ``BatchNormalization`` and ``Dropout`` have a test mode."""
Given = list[Any]
"""Tensors; where an input was left out ``None``; whole numbers as lists."""
Settings = dict[str, Any]
Pair = tuple[int, int]


class Unsupported(Exception):
    """What has no equivalent here; the text names it."""


class Kind(NamedTuple):
    """What is known of an operation."""

    compute: Callable[[Given, Settings], Tensor]
    inputs: Pair
    """The fewest and the most."""
    settings: dict[str, tuple[Any, ...] | None]
    """Those that may be given, with the values that they may have; ``None`` where all are understood or change nothing."""
    anywhere: bool = False
    """Whether any input may depend on the net's; otherwise only the first may."""
    whole: tuple[int, ...] = ()
    """Places of the inputs that are whole numbers or truth values."""

    def check(self, inputs: int, settings: Settings) -> None:
        """Refuse what is not known, before anything is computed."""
        fewest, most = self.inputs
        if not fewest <= inputs <= most:
            raise Unsupported(f"{inputs} inputs")
        for name, value in settings.items():
            if name not in self.settings:
                raise Unsupported(f"the setting {name} = {value!r}")
            usual = self.settings[name]
            if usual is not None and value not in usual:
                raise Unsupported(f"{name} = {value!r}")
        if "pads" in self.settings:
            _padding(settings)


def _image(x: Tensor) -> Tensor:
    if x.dim() != 4:
        raise Unsupported(f"a value of shape {tuple(x.shape)}, where (rows, channels, height, width) is read")
    return x


def _pair(settings: Settings, name: str) -> Pair:
    """Of height and width; 1 each where nothing is said."""
    both = settings.get(name, [1, 1])
    if len(both) != 2:
        raise Unsupported(f"{name} = {both}")
    return both[0], both[1]


def _padding(settings: Settings) -> Pair:
    """Of height and width, the same at both ends."""
    pads = list(settings.get("pads", (0, 0, 0, 0)))
    if len(pads) != 4 or pads[:2] != pads[2:] or min(pads) < 0:
        raise Unsupported(f"pads = {pads}")
    if any(pads) and settings.get("auto_pad", b"NOTSET") != b"NOTSET":
        raise Unsupported(f"pads = {pads} beside auto_pad")
    return pads[0], pads[1]


def _conv(given: Given, settings: Settings) -> Tensor:
    x, weight, *bias = given
    if settings.get("kernel_shape", list(weight.shape[2:])) != list(weight.shape[2:]):
        raise Unsupported(f"kernel_shape = {settings['kernel_shape']} for a weight of shape {tuple(weight.shape)}")
    return functional.conv2d(
        _image(x),
        weight,
        bias[0] if bias else None,
        _pair(settings, "strides"),
        _padding(settings),
        _pair(settings, "dilations"),
        settings.get("group", 1),
    )


def _gemm(given: Given, settings: Settings) -> Tensor:
    x, weight, *bias = given
    if x.dim() != 2 or weight.dim() != 2:
        raise Unsupported(f"a product of shapes {tuple(x.shape)} and {tuple(weight.shape)}")
    result: Tensor = functional.linear(x, weight if settings.get("transB", 0) else weight.T)
    if not bias or bias[0] is None:
        return result
    shifted: Tensor = result + bias[0]
    if shifted.shape != result.shape:
        raise Unsupported(f"a bias of shape {tuple(bias[0].shape)} on a value of shape {tuple(result.shape)}")
    return shifted


def _normalised(given: Given, settings: Settings) -> Tensor:
    x, scale, shift, mean, variance = given
    return functional.batch_norm(x, mean, variance, scale, shift, eps=settings.get("epsilon", 1e-5))


def _averaged(given: Given, settings: Settings) -> Tensor:
    padding = _padding(settings)
    if any(padding) and not settings.get("count_include_pad", 0):
        raise Unsupported("an average that leaves out padding")
    return functional.avg_pool2d(
        _image(given[0]), _pair(settings, "kernel_shape"), _pair(settings, "strides"), padding, count_include_pad=True
    )


def _averaged_over_all(given: Given, settings: Settings) -> Tensor:
    return functional.adaptive_avg_pool2d(_image(given[0]), 1)


def _largest(given: Given, settings: Settings) -> Tensor:
    return functional.max_pool2d(
        _image(given[0]), _pair(settings, "kernel_shape"), _pair(settings, "strides"), _padding(settings)
    )


def _flattened(given: Given, settings: Settings) -> Tensor:
    x: Tensor = given[0]
    return x.flatten(1)


def _reshaped(given: Given, settings: Settings) -> Tensor:
    """The first dimension stays the rows, whether the file says 0, 1 or -1: the same for one row, or impossible."""
    x: Tensor = given[0]
    shape = [int(size) for size in given[1]]
    if not shape or shape[0] not in (0, 1, -1) or 0 in shape[1:]:
        raise Unsupported(f"a reshape to {shape}")
    return x.reshape(len(x), *shape[1:])


def _constant_reshaped(given: Given, settings: Settings) -> Tensor:
    """Of a weight, which has no rows: 0 keeps a dimension, -1 is what is left."""
    weight: Tensor = given[0]
    shape = [int(size) for size in given[1]]
    if 0 in shape[weight.dim() :]:
        raise Unsupported(f"a reshape of {tuple(weight.shape)} to {shape}")
    return weight.reshape([size if size else weight.shape[i] for i, size in enumerate(shape)])


def _kept(given: Given, settings: Settings) -> Tensor:
    value: Tensor = given[0]
    return value


def _not_dropped(given: Given, settings: Settings) -> Tensor:
    training = given[2] if len(given) == 3 else None
    if training not in (None, False):
        raise Unsupported("dropout in training mode")
    return _kept(given, settings)


_WINDOW = {
    "auto_pad": (b"NOTSET", b"VALID"),
    "kernel_shape": None,
    "pads": None,
    "strides": None,
}
_POOL = {**_WINDOW, "ceil_mode": (0,), "dilations": ([1, 1],)}
OPERATIONS: dict[str, Kind] = {
    "Add": Kind(lambda given, _: given[0] + given[1], (2, 2), {}, anywhere=True),
    "Sub": Kind(lambda given, _: given[0] - given[1], (2, 2), {}, anywhere=True),
    "Mul": Kind(lambda given, _: given[0] * given[1], (2, 2), {}, anywhere=True),
    "Div": Kind(lambda given, _: given[0] / given[1], (2, 2), {}, anywhere=True),
    "MatMul": Kind(lambda given, _: given[0] @ given[1], (2, 2), {}, anywhere=True),
    "Relu": Kind(lambda given, _: given[0].relu(), (1, 1), {}),
    "Sigmoid": Kind(lambda given, _: given[0].sigmoid(), (1, 1), {}),
    "Tanh": Kind(lambda given, _: given[0].tanh(), (1, 1), {}),
    "GlobalAveragePool": Kind(_averaged_over_all, (1, 1), {}),
    "AveragePool": Kind(_averaged, (1, 1), {**_POOL, "count_include_pad": None}),
    "BatchNormalization": Kind(
        _normalised, (5, 5), {"epsilon": None, "momentum": None, "spatial": (1,), "training_mode": (0,)}
    ),
    "Conv": Kind(_conv, (2, 3), {**_WINDOW, "dilations": None, "group": None}),
    "Dropout": Kind(_not_dropped, (1, 3), {"ratio": None, "seed": None}, whole=(2,)),
    "Flatten": Kind(_flattened, (1, 1), {"axis": (1,)}),
    "Gemm": Kind(_gemm, (2, 3), {"alpha": (1.0,), "beta": (1.0,), "transA": (0,), "transB": (0, 1)}),
    "Identity": Kind(_kept, (1, 1), {}),
    "MaxPool": Kind(_largest, (1, 1), {**_POOL, "storage_order": (0,)}),
    "Reshape": Kind(_reshaped, (2, 2), {"allowzero": (0,)}, whole=(1,)),
}
"""Operations on rows, with one output, by their names in ONNX."""
ON_CONSTANTS = {name: kind.compute for name, kind in OPERATIONS.items()} | {"Reshape": _constant_reshaped}
"""The same on weights alone, whose first dimension is no row."""
CONSTANT = Kind(_kept, (0, 0), dict.fromkeys(("value", "value_float", "value_floats", "value_int", "value_ints")))
"""Which settings a weight may have that stands among the operations."""
