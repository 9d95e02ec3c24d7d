"""Randomised defences, and how likely each is right at its worst point."""

import torch
from torch import Tensor, nn

from brinell.defences.affine import HIGH, LOW, Affine, affine_worst, best_move, rivals_of
from brinell.defences.defence import TOLERANCE, Truth, Worst


class NoisyInput(nn.Module):
    """Normal noise on the input, drawn for each row and pass."""

    def __init__(self, base: nn.Module, sigma: float) -> None:
        super().__init__()
        self.base, self.sigma = base, sigma

    def forward(self, x: Tensor) -> Tensor:
        """The logits of the noisy input."""
        logits: Tensor = self.base(x + self.sigma * torch.randn_like(x))
        return logits


class RandomGain(nn.Module):
    """Logits times ``exp(n)``, ``n`` normal, drawn for each row and pass: the decision never changes."""

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base = base

    def forward(self, x: Tensor) -> Tensor:
        """The scaled logits."""
        z: Tensor = self.base(x)
        return z * torch.randn_like(z[:, :1]).exp()


class CommonNoise(nn.Module):
    """Three times a normal number added to all logits of a row alike: the decision never changes."""

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base = base

    def forward(self, x: Tensor) -> Tensor:
        """The moved logits."""
        z: Tensor = self.base(x)
        return z + 3 * torch.randn_like(z[:, :1])


def steady_worst(affine: Affine) -> Worst:
    """Where the decision never changes the probability is 0 or 1, as the affine model's worst margin has it."""
    bare = affine_worst(affine, "linf")

    def worst(x: Tensor, y: Tensor, eps: float) -> Truth:
        truth = bare(x, y, eps)
        return Truth((truth.least > TOLERANCE).double(), (truth.most > -TOLERANCE).double(), truth.point)

    return worst


def noisy_worst(affine: Affine, sigma: float) -> Worst:
    """Of an affine model on noisy inputs, in Linf.

    Against a rival the margin is normal with the affine margin as its mean and ``sigma ‖w_y - w_j‖_2`` as its deviation, so
    that its probability of being above 0 is least, ``p_j``, at the affine model's worst point. The model is right no
    more often than the least ``p_j``, and no less often than ``1 - sum (1 - p_j)``; with two classes these are the same.
    """
    weight, bias = affine.doubled()

    def worst(x: Tensor, y: Tensor, eps: float) -> Truth:
        flat, others = x.double().flatten(1), rivals_of(y, len(bias))
        gaps = weight[y][:, None] - weight[others]
        points = flat[:, None] + best_move(-gaps, (LOW - flat)[:, None], (HIGH - flat)[:, None], "linf", eps)
        margins = (gaps * points).sum(2) + bias[y][:, None] - bias[others]
        above = torch.special.ndtr(margins / (sigma * torch.linalg.vector_norm(gaps, dim=2)))
        most, which = above.min(dim=1)
        least = (1 - (1 - above).sum(1)).clamp_min(0)
        return Truth(least, most, points[torch.arange(len(x)), which].view_as(x))

    return worst
