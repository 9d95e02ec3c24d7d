"""Networks of six ReLUs on three inputs, whose least margin over a box is the least of 64 linear programmes."""

from itertools import product

import numpy as np
import torch
from scipy.optimize import linprog
from torch import Tensor, nn

from brinell.certify.region import Region


def tiny(seed: int) -> tuple[nn.Sequential, Tensor, Tensor, Region]:
    """Three inputs, two layers of three ReLUs, and a box that decides none of the first."""
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        net = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2)).double().eval()
    for value in net.parameters():
        value.data = torch.randn(value.shape, generator=generator, dtype=torch.float64)
    x = torch.rand(1, 3, generator=generator, dtype=torch.float64)
    y = net(x).argmax(1)
    return net, x, y, Region(x - 0.6, x + 0.6)


def least_by_patterns(net: nn.Sequential, y: Tensor, region: Region) -> float:
    """The least margin over a box, by one linear programme for each of the 64 ways in which six ReLUs can be on or off."""
    weights = [
        (layer.weight.detach().numpy(), layer.bias.detach().numpy()) for layer in net if isinstance(layer, nn.Linear)
    ]
    ends = torch.cat([region.lower, region.upper]).T.numpy()
    found = []
    for pattern in product((-1, 1), repeat=6):
        slope, offset, left, right = np.eye(3), np.zeros(3), [], []
        for (weight, bias), sign in zip(weights[:2], (np.array(pattern[:3]), np.array(pattern[3:])), strict=True):
            slope, offset = weight @ slope, weight @ offset + bias
            left.append(-sign[:, None] * slope)
            right.append(sign * offset)
            slope, offset = (sign > 0)[:, None] * slope, (sign > 0) * offset
        gap = weights[2][0][int(y)] - weights[2][0][1 - int(y)]
        base = float(weights[2][1][int(y)] - weights[2][1][1 - int(y)] + gap @ offset)
        solved = linprog(gap @ slope, np.concatenate(left), np.concatenate(right), bounds=ends)
        if solved.status == 0:
            found.append(solved.fun + base)
    return min(found)
