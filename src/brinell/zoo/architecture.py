"""The network that all models of the zoo share."""

import torch
from torch import nn


class SmallCNN(nn.Module):
    """Two strided convolutions and two linear layers, 166,406 float32 parameters.

    Input: float (rows, 1, 28, 28), pixels in [0, 1]. Output: logits, float (rows, 10).

    Shapes on the way: (rows, 16, 14, 14), (rows, 32, 7, 7), flattened to (rows, 1568), (rows, 100).
    No layer acts differently in training and evaluation mode, and no two rows of a batch mix.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, kernel_size=4, stride=2, padding=1)
        self.conv2 = nn.Conv2d(16, 32, kernel_size=4, stride=2, padding=1)
        self.hidden = nn.Linear(32 * 7 * 7, 100)
        self.output = nn.Linear(100, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits (rows, 10) of images (rows, 1, 28, 28) in [0, 1]."""
        # Centring is part of the model, so that an attack's eps is in units of the pixel range [0, 1].
        x = 2.0 * x - 1.0
        x = torch.relu(self.conv1(x))
        x = torch.relu(self.conv2(x))
        x = torch.relu(self.hidden(x.flatten(1)))
        logits: torch.Tensor = self.output(x)
        return logits
