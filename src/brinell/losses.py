"""What an attack climbs: one number per row, larger where the model is nearer to an error.

``margin_of`` is also where "correct" is decided: a row is classified correctly if and only if its margin is above 0,
so that a tie between the true class and another counts as an error.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, cast

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from brinell.errors import BadInput
from brinell.shapes import Labels, Logits, PerRow


def margin_of(logits: Logits, y: Labels) -> PerRow:
    """``logits[y] - max_{j != y} logits[j]``, in logit units; above 0 if and only if the row is correct."""
    own = logits.gather(1, y[:, None])
    others = logits.scatter(1, y[:, None], -torch.inf)
    return own.squeeze(1) - others.amax(dim=1)


def decision(logits: Logits, y: Labels) -> Labels:
    """The class that the model decides for: ``y`` where its margin is above 0, else the highest of the others."""
    others = logits.scatter(1, y[:, None], -torch.inf)
    return torch.where(margin_of(logits, y) > 0, y, others.argmax(dim=1))


@dataclass(frozen=True)
class Loss:
    """A loss that grows as the row leaves its true class."""

    name: str
    fewest_classes: int
    """The loss is undefined below this number of classes."""
    climb: Callable[[Logits, Labels], PerRow]

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class TargetedLoss:
    """A loss that grows as the row nears a given wrong class."""

    name: str
    fewest_classes: int
    """The loss is undefined below this number of classes."""
    climb: Callable[[Logits, Labels, Tensor], PerRow]
    """Takes logits, true class and target class, or whatever else is each row's own."""

    def __repr__(self) -> str:
        return self.name


def _cross_entropy(logits: Logits, y: Labels) -> PerRow:
    return -log_softmax(logits, dim=1).gather(1, y[:, None]).squeeze(1)


def _negative_margin(logits: Logits, y: Labels) -> PerRow:
    return -margin_of(logits, y)


def _dlr(logits: Logits, y: Labels) -> PerRow:
    highest = logits.topk(3, dim=1).values
    return -margin_of(logits, y) / (highest[:, 0] - highest[:, 2] + TINY)


def _probability_margin(logits: Logits, y: Labels) -> PerRow:
    return -margin_of(logits.softmax(dim=1), y)


def _targeted_cross_entropy(logits: Logits, y: Labels, target: Labels) -> PerRow:
    return log_softmax(logits, dim=1).gather(1, target[:, None]).squeeze(1)


def _targeted_margin(logits: Logits, y: Labels, target: Labels) -> PerRow:
    return (logits.gather(1, target[:, None]) - logits.gather(1, y[:, None])).squeeze(1)


def _targeted_dlr(logits: Logits, y: Labels, target: Labels) -> PerRow:
    highest = logits.topk(4, dim=1).values
    spread = highest[:, 0] - (highest[:, 2] + highest[:, 3]) / 2
    return _targeted_margin(logits, y, target) / (spread + TINY)


TINY = 1e-12
"""Keeps a ratio finite where all logits are equal."""

CROSS_ENTROPY = Loss("ce", 2, _cross_entropy)
"""Cross-entropy of the softmax: ``log sum_j exp z_j - z_y``."""

MARGIN = Loss("margin", 2, _negative_margin)
"""``max_{j != y} z_j - z_y``."""

PROBABILITY_MARGIN = Loss("probability-margin", 2, _probability_margin)
"""``max_{j != y} p_j - p_y`` with ``p`` the softmax (Xie et al. 2025, arXiv 2411.15210)."""

DLR = Loss("dlr", 3, _dlr)
"""Difference of logits ratio: ``-(z_y - max_{j != y} z_j) / (z_(1) - z_(3))`` (Croce & Hein 2020, equation 6)."""

TARGETED_CROSS_ENTROPY = TargetedLoss("targeted-ce", 2, _targeted_cross_entropy)
"""``log softmax(z)_t``."""

TARGETED_MARGIN = TargetedLoss("targeted-margin", 2, _targeted_margin)
"""``z_t - z_y``."""

TARGETED_DLR = TargetedLoss("targeted-dlr", 4, _targeted_dlr)
"""``-(z_y - z_t) / (z_(1) - (z_(3) + z_(4)) / 2)`` (Croce & Hein 2020, equation 7)."""


def _weighted(logits: Logits, y: Labels, weights: Logits) -> PerRow:
    return (weights * logits).sum(dim=1)


WEIGHTED = TargetedLoss("weighted", 2, _weighted)
"""``sum_j w_j z_j``, with weights of each row's own in the target's place (Tashiro et al. 2020, arXiv 2003.06878).

Not for suites."""


def _chance(logits: Logits, y: Labels, width: PerRow) -> PerRow:
    return torch.sigmoid(-margin_of(logits, y) / width)


CHANCE = TargetedLoss("chance", 2, _chance)
"""``sigmoid(-margin / width)``, with a width of each row's own in the target's place: a wrong decision, made smooth.

Its mean over the draws of a randomised model is about the probability of an error. Not for suites."""


def _magnitude(logits: Logits, y: Labels) -> PerRow:
    return margin_of(logits, y).abs()


MAGNITUDE = Loss("magnitude", 2, _magnitude)
"""``|margin|``, for its mean over draws. Not for suites."""

LOSSES: dict[str, Loss | TargetedLoss] = {
    loss.name: loss
    for loss in (CROSS_ENTROPY, MARGIN, PROBABILITY_MARGIN, DLR, TARGETED_CROSS_ENTROPY, TARGETED_MARGIN, TARGETED_DLR)
}


def loss_named(name: str) -> Loss | TargetedLoss:
    """The loss of that name, as suite files write it."""
    if name not in LOSSES:
        raise BadInput("loss", got=repr(name), expected=", ".join(LOSSES), remedy="Choose one of these.")
    return LOSSES[name]


def cross_entropy_of(y: Labels) -> Callable[[Logits], PerRow]:
    """Cross-entropy with these classes, as a function of the logits alone."""
    return lambda logits: CROSS_ENTROPY.climb(logits, y)


AnyLoss = TypeVar("AnyLoss", bound=Loss | TargetedLoss)


def defined_for(loss: AnyLoss, classes: int) -> AnyLoss:
    """The loss itself, or the margin of its kind where ``classes`` are too few for it."""
    if classes >= loss.fewest_classes:
        return loss
    return cast(AnyLoss, MARGIN if isinstance(loss, Loss) else TARGETED_MARGIN)
