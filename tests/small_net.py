"""A user's file: a model in float64, so that a row's fate cannot hang on its neighbours in a batch, and sixty rows."""

import torch
from torch import Tensor, nn

CLASSES = 4
WRONG = range(0, 60, 10)
"""Rows that are misclassified before any attack."""


def load() -> nn.Module:
    generator = torch.Generator().manual_seed(7)
    with torch.random.fork_rng(devices=[]):  # the first weights, soon replaced, are drawn from the global generator
        net = nn.Sequential(nn.Flatten(), nn.Linear(16, 24), nn.Tanh(), nn.Linear(24, CLASSES)).double()
    for parameter in net.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return net.eval()


def rows() -> tuple[Tensor, Tensor]:
    x = torch.rand(60, 1, 4, 4, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    with torch.no_grad():
        y = load()(x).argmax(1)
    y[WRONG] = (y[WRONG] + 1) % CLASSES
    return x, y


def other() -> nn.Module:
    """Another model than ``load`` gives, for the same rows."""
    net = load()
    with torch.no_grad():
        next(net.parameters()).mul_(1.01)
    return net
