"""Which slope a model shows to an attacker: its own, or one that lets gradients through where its own is flat.

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

Slope = Literal["own", "smooth", "identity"]
"""``smooth`` replaces the slope of every ReLU that is called by its PyTorch name; ``identity`` that of the parts of a model
which a run has found to hide its gradient (``adaptive.bypass``). No suite file asks for the latter: a run does."""

SHARPNESS = 5.0

_ROUNDING = frozenset(
    {f for owner in (torch, Tensor) for f in (owner.round, owner.floor, owner.ceil, owner.trunc, owner.fix)}
)
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


class _Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, exact: Tensor, z: Tensor) -> Tensor:
        return exact.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        return None, grads[0]


class StraightThrough(TorchFunctionMode):
    """Within it, rounding functions have the slope of the identity; ``replaced`` counts how many were called."""

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
        out = func(*args, **named)
        z = _input(args, named) if func in _ROUNDING else None
        if not isinstance(z, Tensor) or not z.is_floating_point() or "out" in named:
            return out
        self.replaced += 1
        return _Straight.apply(out.detach(), z)  # type: ignore[no-untyped-call]  # torch's own


def _overwritten(z: Tensor) -> Tensor:
    """The same in place: what calls it may rely on ``z`` itself being changed."""
    return z.copy_(_SmoothReLU.apply(z.clone()))  # type: ignore[no-untyped-call]  # torch's own


def _says_in_place(args: tuple[Any, ...], named: Mapping[str, Any]) -> bool:
    return bool(named.get("inplace", args[1] if len(args) > 1 else False))


def _input(args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    return args[0] if args else named["input"]
