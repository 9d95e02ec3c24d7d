"""The operations of ONNX that a net may be made of, as PyTorch computes them for rows together."""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.nn import functional


class Unsupported(Exception):
    """A setting that has no equivalent here."""


Given = list[Any]
Settings = dict[str, Any]


def _require(settings: Settings, **usual: Any) -> None:
    """Refuse settings that are not as usual where they are given at all."""
    for name, values in usual.items():
        if name in settings and settings[name] not in values:
            raise Unsupported(f"{name} = {settings[name]!r}")


def _padding(settings: Settings) -> list[int]:
    """Of height and width, the same at both ends."""
    _require(settings, auto_pad=(b"NOTSET", b"VALID"))
    pads = list(settings.get("pads", (0, 0, 0, 0)))
    if len(pads) != 4 or pads[:2] != pads[2:]:
        raise Unsupported(f"pads = {pads}")
    return pads[:2]


def _conv(given: Given, settings: Settings) -> Tensor:
    x, weight, *bias = given
    stride, dilation = settings.get("strides", (1, 1)), settings.get("dilations", (1, 1))
    return functional.conv2d(
        x,
        weight,
        bias[0] if bias else None,
        tuple(stride),
        _padding(settings),
        tuple(dilation),
        settings.get("group", 1),
    )


def _gemm(given: Given, settings: Settings) -> Tensor:
    _require(settings, alpha=(1.0,), beta=(1.0,), transA=(0,))
    x, weight, *bias = given
    result: Tensor = functional.linear(x, weight if settings.get("transB", 0) else weight.T)
    return result.add(bias[0]) if bias else result


def _normalised(given: Given, settings: Settings) -> Tensor:
    _require(settings, training_mode=(0,))
    x, scale, shift, mean, variance = given
    return functional.batch_norm(x, mean, variance, scale, shift, eps=settings.get("epsilon", 1e-5))


def _averaged(given: Given, settings: Settings) -> Tensor:
    _require(settings, ceil_mode=(0,), dilations=([1, 1],))
    padding = _padding(settings)
    if any(padding) and not settings.get("count_include_pad", 0):
        raise Unsupported("an average that leaves out padding")
    kernel = tuple(settings["kernel_shape"])
    return functional.avg_pool2d(given[0], kernel, tuple(settings.get("strides", (1, 1))), padding)


def _largest(given: Given, settings: Settings) -> Tensor:
    _require(settings, ceil_mode=(0,), dilations=([1, 1],), storage_order=(0,))
    kernel = tuple(settings["kernel_shape"])
    return functional.max_pool2d(given[0], kernel, tuple(settings.get("strides", (1, 1))), _padding(settings))


def _flattened(given: Given, settings: Settings) -> Tensor:
    _require(settings, axis=(1,))
    x: Tensor = given[0]
    return x.flatten(1)


def _reshaped(given: Given, settings: Settings) -> Tensor:
    """The first dimension stays the rows, whether the file says 0, 1 or -1."""
    _require(settings, allowzero=(0,))
    x: Tensor = given[0]
    shape = [int(size) for size in given[1]]
    if shape[0] not in (0, 1, -1) or 0 in shape[1:]:
        raise Unsupported(f"a reshape to {shape}")
    return x.reshape(len(x), *shape[1:])


def _identity(given: Given, settings: Settings) -> Tensor:
    value: Tensor = given[0]
    return value


OPERATIONS: dict[str, Callable[[Given, Settings], Tensor]] = {
    "Add": lambda given, _: given[0] + given[1],
    "Sub": lambda given, _: given[0] - given[1],
    "Mul": lambda given, _: given[0] * given[1],
    "Div": lambda given, _: given[0] / given[1],
    "MatMul": lambda given, _: given[0] @ given[1],
    "Relu": lambda given, _: given[0].relu(),
    "Sigmoid": lambda given, _: given[0].sigmoid(),
    "Tanh": lambda given, _: given[0].tanh(),
    "GlobalAveragePool": lambda given, _: functional.adaptive_avg_pool2d(given[0], 1),
    "AveragePool": _averaged,
    "BatchNormalization": _normalised,
    "Conv": _conv,
    "Dropout": _identity,
    "Flatten": _flattened,
    "Gemm": _gemm,
    "Identity": _identity,
    "MaxPool": _largest,
    "Reshape": _reshaped,
}
"""Operations with one output, by their names in ONNX."""
