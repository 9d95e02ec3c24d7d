"""Which slope a ReLU shows to an attacker: its own, or a smooth one that lets gradients through where it is flat.

Idea        run the forward pass as it is and put ``sigmoid(SHARPNESS z)`` in place of the step function in the backward
            pass. A net whose units are mostly off around a row shows no way out of a plateau by its own gradient; this one
            looks past it. It is a direction to search in, never a gradient of the model, and the judge is always the model.
Source      a smooth backward of ReLU in training: Xie et al. 2020 (arXiv 2006.14536), section 4; linear ones in attacks:
            Guo et al. 2020 (arXiv 2012.03528), section 4.
Departures  the smooth slope is used for the search alone, and the forward pass stays exact.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

Slope = Literal["own", "smooth"]
"""``smooth`` replaces the slope of every ReLU that is called by its PyTorch name."""

SHARPNESS = 5.0

_FRESH = frozenset({torch.relu, torch.nn.functional.relu, Tensor.relu})
_IN_PLACE = frozenset({torch.relu_, Tensor.relu_, torch.nn.functional.relu_})


class _SmoothReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        ctx.save_for_backward(z)
        return torch.clamp_min(z, 0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (z,) = ctx.saved_tensors
        return grads[0] * torch.sigmoid(SHARPNESS * z)


class SmoothReLUs(TorchFunctionMode):
    """Within it, ReLUs have a smooth slope; ``replaced`` counts how many were called."""

    def __init__(self) -> None:
        super().__init__()
        self.replaced = 0

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = dict(kwargs or {})
        if func in _IN_PLACE or (func in _FRESH and _says_in_place(args, named)):
            self.replaced += 1
            return _overwritten(_input(args, named))
        if func in _FRESH:
            self.replaced += 1
            return _SmoothReLU.apply(_input(args, named))  # type: ignore[no-untyped-call]  # torch's own
        return func(*args, **named)


def _overwritten(z: Tensor) -> Tensor:
    """The same in place: what calls it may rely on ``z`` itself being changed."""
    return z.copy_(_SmoothReLU.apply(z.clone()))  # type: ignore[no-untyped-call]  # torch's own


def _says_in_place(args: tuple[Any, ...], named: Mapping[str, Any]) -> bool:
    return bool(named.get("inplace", args[1] if len(args) > 1 else False))


def _input(args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    return args[0] if args else named["input"]
