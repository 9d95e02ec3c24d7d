"""A model whose hiding parts are stepped over on the way back: BPDA by the identity, for modules that nobody wrapped.

Idea        forward nothing changes, to the last bit. Backward a named module passes on what it gets as if it were the
            identity, and a rounding function does.
Source      Athalye et al. 2018 (arXiv 1802.00420), section 4.1; straight through a rounding: Bengio et al. 2013 (arXiv
            1308.3432), section 4.
Departures  what is stepped over is found by measuring (``before.hiding``), not stated.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from brinell.slopes import StraightThrough

ROUNDING = "rounding"
"""Stands for calls of PyTorch's rounding functions, wherever they are made, among the names of what is bypassed."""


class _AsIdentity(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, exact: Tensor, x: Tensor) -> Tensor:
        return exact.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        return None, grads[0]


@contextmanager
def bypassing(module: nn.Module, names: Iterable[str]) -> Iterator[None]:
    """Within it gradients go through the named parts of the module as through the identity."""
    parts = dict(module.named_modules())
    with ExitStack() as stack:
        for name in names:
            if name in parts:
                stack.enter_context(_hooked(parts[name]))
            elif name == ROUNDING:
                stack.enter_context(StraightThrough())
        yield


@contextmanager
def _hooked(part: nn.Module) -> Iterator[None]:
    handle = part.register_forward_hook(_stepped_over)
    try:
        yield
    finally:
        handle.remove()


def _stepped_over(part: nn.Module, args: tuple[Any, ...], out: Any) -> Any:
    """The part's output with its input's gradient, where one has the other's shape."""
    if not args or not can_be_stepped_over(args[0], out):
        return out
    return _AsIdentity.apply(out.detach(), args[0])  # type: ignore[no-untyped-call]  # torch's own


def can_be_stepped_over(x: object, out: object) -> bool:
    """Whether what comes out could stand for what went in: tensors of real numbers, of one shape and precision."""
    if not (isinstance(x, Tensor) and isinstance(out, Tensor)):
        return False
    return x.shape == out.shape and x.dtype == out.dtype and x.is_floating_point()


def described(names: Mapping[str, str]) -> str:
    """What is stepped over, in words: each part's name and kind."""
    return ", ".join(kind if name == ROUNDING else f"{name} ({kind})" for name, kind in names.items())
