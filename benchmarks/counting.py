"""A wrapper around a model that counts every contender's passes in the same way."""

import torch
from torch import nn


class Counted(nn.Module):
    """Counts the rows which pass through a model forwards, and those whose output a gradient comes back to."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.forwards = 0
        self.backwards = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.forwards += len(x)
        logits = self.model(x)
        if logits.requires_grad:
            logits.register_hook(self._returned)
        return logits

    def _returned(self, grad: torch.Tensor) -> None:
        self.backwards += len(grad)
