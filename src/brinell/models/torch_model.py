"""A PyTorch module as a model: evaluated as it is, and left as it was."""

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn

from brinell.adaptive.bypass import bypassing
from brinell.adaptive.pipeline import Pipeline
from brinell.errors import BadInput
from brinell.models.double import LossPrecision, slope_in_double
from brinell.models.fingerprint import fingerprint, held
from brinell.models.outputs import Outputs, as_logits, unwrapped
from brinell.models.protocol import Climbed
from brinell.shapes import Inputs, Logits, Losses, PerRow
from brinell.slopes import Slope, SmoothReLUs


@dataclass(eq=False)
class TorchModel:
    """An ``nn.Module`` that maps inputs in the data's own space to one score per class.

    Points are float32, or float64 for a float64 module; a half-precision module gets them cast, as it would in use.
    Autocast is off inside, and parameters take no gradients. A ``Pipeline`` says itself what it returns.
    """

    module: nn.Module
    outputs: Outputs = "logits"
    bypassed: Mapping[str, str] = field(default_factory=dict)
    """Parts that hide the gradient, and what each is: what the slope ``identity`` steps over."""
    loss_precision: LossPrecision = "own"
    """In which precision a loss is climbed whose slope underflows."""
    device: torch.device = field(init=False)
    dtype: torch.dtype = field(init=False)
    own_dtype: torch.dtype = field(init=False)
    """The module's own precision, that of its first floating-point parameter or buffer."""
    held: str = field(init=False)
    """Digest of what its parts hold beside these, before any pass was made here."""

    def __post_init__(self) -> None:
        if self.outputs == "logits" and isinstance(self.module, Pipeline):
            self.outputs = self.module.outputs
        self.held = held(self.module)
        tensors = [t for t in (*self.module.parameters(), *self.module.buffers()) if t.is_floating_point()]
        self.own_dtype = tensors[0].dtype if tensors else torch.float32
        self.device = tensors[0].device if tensors else torch.device("cpu")
        self.dtype = torch.float64 if self.own_dtype == torch.float64 else torch.float32

    @property
    def rejects(self) -> bool:
        """Whether the last column is a rejection, which is credited to a perturbed point."""
        return self.outputs == "logits-and-reject"

    def raw(self, points: Inputs) -> object:
        """What the module returns, unwrapped from nothing."""
        with torch.autocast(self.device.type, enabled=False):
            return self.module(points.to(self.own_dtype, copy=True))  # a model may write on its input

    def _logits(self, points: Inputs) -> Logits:
        return as_logits(unwrapped(self.raw(points))[0], self.outputs).to(self.dtype)

    def scores(self, points: Inputs) -> Logits:
        """The logits of each point: one forward pass."""
        with torch.no_grad():
            return self._logits(points)

    def gradient(self, points: Inputs, climb: Callable[[Logits], Losses], slope: Slope = "own") -> Climbed:
        """Logits, loss and gradient of each point: one forward pass, and one backward pass for each loss of a row.

        Raises
        ------
        BadInput
            If no gradient of the output by the input can be had.
        """
        with torch.enable_grad():
            leaf = points.detach().requires_grad_(True)
            with self._shown(slope):
                logits = self._logits(leaf)
            loss = climb(logits)
            if not loss.requires_grad:
                raise _no_gradient("an output that is cut off from its input")
            if loss.dim() == 1 and self.loss_precision == "float64":
                grad = _there(slope_in_double(logits, loss, climb, leaf))
            elif loss.dim() == 1:
                grad = _slope(loss, leaf, keep=False)
            else:
                last = loss.shape[1] - 1
                grad = torch.stack([_slope(loss[:, k], leaf, keep=k < last) for k in range(last + 1)], dim=1)
        return Climbed(logits.detach(), loss.detach(), grad)

    def _shown(self, slope: Slope) -> AbstractContextManager[object]:
        """Within it the module shows a slope."""
        if slope == "identity":
            return bypassing(self.module, self.bypassed)
        return SmoothReLUs() if slope == "smooth" else nullcontext()

    def reseed(self, key: int) -> None:
        """Set the global random numbers of torch, numpy and Python; a generator of the module's own goes on as it will."""
        torch.default_generator.manual_seed(key)
        if self.device.type == "cuda":
            with torch.cuda.device(self.device):
                torch.cuda.manual_seed(key)
        np.random.seed(key % 2**32)
        random.seed(key)

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Evaluate within; afterwards modes, buffers, ``requires_grad``, ``.grad`` and the random state are as before."""
        modes = [(module, module.training) for module in self.module.modules()]
        wanted = [(parameter, parameter.requires_grad) for parameter in self.module.parameters()]
        held = [
            (module, name, buffer, buffer.detach().clone())
            for module in self.module.modules()
            for name, buffer in module.named_buffers(recurse=False)
        ]
        others = (np.random.get_state(), random.getstate())
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            try:
                for parameter, _ in wanted:
                    parameter.requires_grad_(False)
                yield
            finally:
                np.random.set_state(others[0])
                random.setstate(others[1])
                for parameter, wants in wanted:
                    parameter.requires_grad_(wants)
                for module, training in modes:
                    module.training = training
                with torch.no_grad():
                    for module, name, buffer, before in held:
                        setattr(module, name, buffer.copy_(before))

    @property
    def precision(self) -> str:
        """Of the model and of the points it is given, in words."""
        own, points = (str(dtype).removeprefix("torch.") for dtype in (self.own_dtype, self.dtype))
        return f"{own} model, {points} inputs"

    def fingerprint(self) -> str:
        """SHA-256 over architecture and weights as they are, and over the modules' other attributes as they were at first."""
        return fingerprint(self.module, self.held)


def _slope(loss: PerRow, leaf: Inputs, *, keep: bool) -> Inputs:
    """The gradient of a loss, row by row; the graph is kept for another one where that is said."""
    return _there(torch.autograd.grad(loss.sum(), leaf, allow_unused=True, retain_graph=keep)[0])


def _there(grad: Inputs | None) -> Inputs:
    if grad is None:
        raise _no_gradient("an output that does not depend on its input")
    return grad


def _no_gradient(got: str) -> BadInput:
    return BadInput(
        "model gradients",
        got=got,
        expected="logits that are differentiable by the input",
        remedy="Look for detach(), no_grad(), rounding, or a round trip through numpy in the model's forward; what cannot be "
        "differentiated can be given a backward: brinell.adaptive.bpda.",
    )
