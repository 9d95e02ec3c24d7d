"""What the engine needs of a model, whatever it is made with."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import torch

from brinell.shapes import Inputs, Logits, Losses, Slopes
from brinell.slopes import Slope


class Climbed(NamedTuple):
    """Logits, loss and the loss's gradient by the input, row by row; or several losses a row, each with its gradient."""

    logits: Logits
    loss: Losses
    grad: Slopes


class Model(Protocol):
    """A classifier whose scores and gradients can be asked for."""

    @property
    def device(self) -> torch.device:
        """Where points are expected."""
        ...

    @property
    def dtype(self) -> torch.dtype:
        """The precision of points: float64 for a float64 model, else float32; a lower one is cast in the model."""
        ...

    def scores(self, points: Inputs) -> Logits:
        """One forward pass: the logits, in ``dtype``."""
        ...

    def gradient(self, points: Inputs, climb: Callable[[Logits], Losses], slope: Slope = "own") -> Climbed:
        """One forward pass, and a backward pass for the loss, or each of the losses, that ``climb`` makes of the logits."""
        ...

    def reseed(self, key: int) -> None:
        """Set all random numbers that the model may draw from, within ``undisturbed``."""
        ...

    def undisturbed(self) -> AbstractContextManager[None]:
        """Within it the model can be evaluated; after it the model is as it was before."""
        ...
