"""BPDA: a module goes forward as it is, and backward as a stated stand-in.

Idea        what has no useful gradient (quantisation, JPEG, a rank, a search) is often near a function that has one. The
            forward pass stays the model's own to the last bit, so that every verdict is the model's; only the direction in
            which an attack looks comes from the stand-in.
Source      Athalye et al. 2018 (arXiv 1802.00420), section 4.1 (identity) and 4.1.1 (another function).
Departures  the stand-in's gradient is taken at the module's own input, as in the paper; that the forward is unchanged, and
            that the stand-in gives a gradient at all, is checked rather than trusted.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from brinell.adaptive.callables import Step, as_module, modes_as_parts, name_of
from brinell.errors import BadInput
from brinell.shapes import Inputs

SEED = 20180
"""Of a randomised module's draws while its forward is checked; the caller's random numbers are put back."""


def identity(x: Tensor) -> Tensor:
    """The stand-in of a module that changes its input little: the input."""
    return x


class Fit(NamedTuple):
    """How a stand-in fits its module on some inputs."""

    rows: int
    largest: float
    """Largest difference of ``T(x)`` and the stand-in in any coordinate, in the units of what the module returns."""
    median: float
    """Median over the rows of each row's largest difference."""
    flat: int
    """Rows on which the stand-in's gradient is 0."""
    same: bool | None
    """Whether the forward is the module's own to the last bit; None where the module draws numbers that no seed fixes, so
    that this cannot be said."""


class BPDA(nn.Module):
    """A module with a stated backward; see ``bpda``."""

    def __init__(self, wrapped: nn.Module, stand_in: nn.Module) -> None:
        super().__init__()
        self.wrapped = wrapped
        self.stand_in = stand_in
        modes_as_parts(self)

    def forward(self, x: Tensor) -> Tensor:
        """The wrapped module's output, with the stand-in's gradient.

        Raises
        ------
        BadInput
            If the stand-in returns another shape.
        """
        with torch.no_grad():
            exact = self.wrapped(x.detach().clone())  # a module may write on its input
        if not (torch.is_grad_enabled() and x.requires_grad):
            return _tensor(exact, self)
        stand_in = self.stand_in(x)
        if stand_in.shape != _tensor(exact, self).shape:
            raise BadInput(
                self.describe(),
                got=f"shape {tuple(stand_in.shape)} from the stand-in",
                expected=f"{tuple(exact.shape)}, as the module returns for {tuple(x.shape)}",
                remedy="Give a stand-in with the module's own output shape.",
            )
        answer: Tensor = _Substituted.apply(exact, stand_in)  # type: ignore[no-untyped-call]  # torch's own
        return answer

    def check(self, x: Inputs) -> Fit:
        """Compare module and stand-in on some inputs.

        Raises
        ------
        BadInput
            If the forward is not the module's own to the last bit, with gradients and without, on all rows and on half of
            them; or if the stand-in has no finite gradient, or one that is 0 on every row.
        """
        with _fixed_draws(x):
            same = _same_forward(self, x)
            leaf = x.detach().clone().requires_grad_(True)
            with torch.enable_grad():
                out = self(leaf)
                grad = _grad_of(out, leaf, self)
                apart = (out.detach() - self.stand_in(leaf).detach()).abs().reshape(len(x), -1).amax(dim=1)
        flat = int((grad.flatten(1) == 0).all(dim=1).sum())
        if flat == len(x):
            raise _useless(self, "a gradient that is 0 on every row")
        return Fit(len(x), float(apart.max()), float(apart.median()), flat, same)

    def describe(self) -> str:
        """Which module, and whose backward."""
        return f"{name_of(self.wrapped)}, backward of {name_of(self.stand_in)}"


def bpda(module: Step, *, backward: Step = identity, x: Inputs | None = None) -> BPDA:
    """The module with its own forward and the backward of a stand-in.

    Parameters
    ----------
    module
        Any module or function of one tensor, also one that cannot be differentiated or is randomised (one draw forward).
    backward
        What its gradient is taken from: ``identity``, or any differentiable module or function of the same input and with
        the same output shape.
    x
        Inputs of the module on which ``BPDA.check`` is made at once; else ``brinell.evaluate`` makes it on the first rows.

    Raises
    ------
    BadInput
        As ``BPDA.check`` does.
    """
    defended = BPDA(as_module(module, "bpda, module"), as_module(backward, "bpda, backward"))
    if x is not None:
        defended.check(x)
    return defended


class _Substituted(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, exact: Tensor, stand_in: Tensor) -> Tensor:
        return exact.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        return None, grads[0]


def _tensor(answer: object, module: BPDA) -> Tensor:
    if isinstance(answer, Tensor) and answer.is_floating_point():
        return answer
    raise BadInput(
        module.describe(),
        got=str(answer.dtype) if isinstance(answer, Tensor) else type(answer).__name__,
        expected="one floating-point tensor from the module",
        remedy="Wrap the part that returns one.",
    )


def _same_forward(defended: BPDA, x: Inputs) -> bool | None:
    """Whether module and wrapper say the same, in each way in which they are asked; refuses where they do not."""
    if not _equal(*(_drawn(defended.wrapped, x, climbing=False) for _ in range(2))):
        return None
    for points in (x, x[: max(len(x) // 2, 1)]):
        own = _drawn(defended.wrapped, points, climbing=False)
        for asked in (
            _drawn(defended, points, climbing=False),
            _drawn(defended, points, climbing=True),
            _with_gradients_on(defended.wrapped, points, own),
        ):
            if not _equal(asked, own):
                raise BadInput(
                    defended.describe(),
                    got="another forward with gradients on than with gradients off",
                    expected="the same to the last bit",
                    remedy="Look in the module for what asks whether gradients are on, or keeps something between calls.",
                )
    return True


def _drawn(module: Callable[[Tensor], Tensor], x: Inputs, *, climbing: bool) -> Tensor:
    """What a module says with its random numbers at a fixed place."""
    _seed()
    with torch.set_grad_enabled(climbing):
        return module(x.detach().clone().requires_grad_(climbing)).detach()


def _with_gradients_on(module: Callable[[Tensor], Tensor], x: Inputs, own: Tensor) -> Tensor:
    """The same with gradients on; ``own`` where the module cannot be asked so, as one that goes through numpy."""
    _seed()
    try:
        with torch.enable_grad():
            return module(x.detach().clone()).detach()
    except RuntimeError:
        return own


def _equal(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and bool(((a == b) | (a.isnan() & b.isnan())).all())


def _grad_of(out: Tensor, leaf: Tensor, module: BPDA) -> Tensor:
    """The stand-in's gradient of a sum with unequal weights, so that nothing cancels by symmetry."""
    if not out.requires_grad:
        raise _useless(module, "an output that is cut off from its input")
    weights = torch.linspace(0.5, 1.5, max(out[0].numel(), 1), dtype=out.dtype, device=out.device).view(out[0].shape)
    grad = torch.autograd.grad((out * weights).sum(), leaf, allow_unused=True)[0]
    if grad is None:
        raise _useless(module, "an output that does not depend on its input")
    if not bool(grad.isfinite().all()):
        raise _useless(module, "a gradient that is not finite")
    return grad


def _useless(module: BPDA, got: str) -> BadInput:
    return BadInput(
        module.describe(),
        got=f"from the stand-in {got}",
        expected="a finite gradient, not 0 everywhere",
        remedy="Choose another stand-in, for example brinell.adaptive.identity.",
    )


@contextmanager
def _fixed_draws(x: Tensor) -> Iterator[None]:
    """Within it random numbers may be set; afterwards they are the caller's again."""
    others = (np.random.get_state(), random.getstate())
    with torch.random.fork_rng(devices=[x.device] if x.device.type == "cuda" else []):
        try:
            yield
        finally:
            np.random.set_state(others[0])
            random.setstate(others[1])


def _seed() -> None:
    torch.manual_seed(SEED)
    np.random.seed(SEED)
    random.seed(SEED)
