"""What the engine needs of a model, whatever it is made with."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import torch

from brinell.shapes import Inputs, Logits, PerRow


class Climbed(NamedTuple):
    """Logits, loss and the loss's gradient by the input, row by row."""

    logits: Logits
    loss: PerRow
    grad: Inputs


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

    def gradient(self, points: Inputs, climb: Callable[[Logits], PerRow]) -> Climbed:
        """One forward and one backward pass for the loss that ``climb`` makes of the logits."""
        ...

    def undisturbed(self) -> AbstractContextManager[None]:
        """Within it the model can be evaluated; after it the model is as it was before."""
        ...
