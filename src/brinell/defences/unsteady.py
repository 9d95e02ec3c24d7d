"""Randomised defences, and mistakes of whoever evaluates, of which no figure may come."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from brinell.defences.bases import base, pair, rescored
from brinell.defences.codes import behind
from brinell.defences.defence import Defence, Examples, Solved
from brinell.defences.drawing import CommonNoise, NoisyInput, RandomGain, noisy_worst, steady_worst
from brinell.defences.examples import odd_or_even
from brinell.defences.polyhedra import Shifted, shifted_worst
from brinell.defences.scores import softmax_of

SIGMA = 0.1
MEAN, SPREAD = 0.3, 0.35
"""About those of the images' pixels."""


def randomised() -> list[Defence]:
    """Each pass draws. Suites for deterministic models must refuse these; others must find how often they are right."""
    affine, two = base(), pair()
    return [
        Defence(
            id="noise-two", name="noisy inputs, two classes", kind="randomised", given=odd_or_even,
            summary="normal noise on the input", seen_by=("determinism",),
            model=Solved(lambda: NoisyInput(two.module(), SIGMA).eval(), noisy_worst(two, SIGMA), "normal"),
        ),
        Defence(
            id="noise-ten", name="noisy inputs, ten classes", kind="randomised",
            summary="normal noise on the input", seen_by=("determinism",),
            model=Solved(lambda: NoisyInput(affine.module(), SIGMA).eval(), noisy_worst(affine, SIGMA), "bracket"),
        ),
        Defence(
            id="shifts", name="random shifts, two classes", kind="randomised", given=odd_or_even,
            summary="turns the image by up to a pixel: the mean over shifts is not what has to be climbed",
            model=Solved(lambda: Shifted(two.module()).eval(), shifted_worst(two), "polyhedra"), seen_by=("determinism",),
        ),
        Defence(
            id="random-gain", name="random gain", kind="randomised", seen_by=("determinism",),
            summary="scores swing and decisions never do",
            model=Solved(lambda: RandomGain(affine.module()).eval(), steady_worst(affine), "order kept"),
        ),
        Defence(
            id="common-noise", name="common noise", kind="randomised", seen_by=("determinism",),
            summary="noise that all logits share: decisions never change",
            model=Solved(lambda: CommonNoise(affine.module()).eval(), steady_worst(affine), "order kept"),
        ),
    ]  # fmt: skip


class BatchCentred(nn.Module):
    """Takes the mean of the batch off each row, whatever its mode."""

    def forward(self, x: Tensor) -> Tensor:
        """Shaped like ``x``."""
        return x - x.mean(0, keepdim=True)


def _scaled(scale: float, offset: float = 0.0) -> Callable[[Tensor, Tensor], Examples]:
    return lambda x, y: ((x - offset) * scale, y)


def _in_training(layer: nn.Module) -> Solved:
    """A layer left in train mode before the base."""
    return Solved(lambda: nn.Sequential(layer, base().module()).train())


def mistakes() -> list[Defence]:
    """Whoever gets a figure out of these has been misled: they must be refused."""
    module = Solved(base().module)
    return [
        Defence(
            id="pixels", name="pixels up to 255", kind="mistake", model=module, given=_scaled(255.0), seen_by=("inputs",),
            summary="inputs outside the box",
        ),
        Defence(
            id="normalised", name="normalised inputs", kind="mistake", given=_scaled(1 / SPREAD, MEAN), model=module,
            summary="inputs outside the box, on another scale than eps", seen_by=("inputs",),
        ),
        Defence(
            id="eps-8", name="eps of 8", kind="mistake", model=module, eps=8.0, seen_by=("eps",),
            summary="8 where 8/255 was meant",
        ),
        Defence(
            id="labels-from-1", name="labels from 1", kind="mistake", model=module, given=lambda x, y: (x, y + 1),
            summary="labels shifted by one", seen_by=("labels",),
        ),
        Defence(
            id="dropout-on", name="dropout left on", kind="mistake", model=_in_training(nn.Dropout(0.2)),
            summary="a model in train mode", seen_by=("train mode", "determinism"),
        ),
        Defence(
            id="batch-norm-on", name="batch norm left on", kind="mistake", model=_in_training(nn.BatchNorm2d(1)),
            summary="a model in train mode", seen_by=("train mode", "batch dependence"),
        ),
        Defence(
            id="batch-mean", name="the batch's mean", kind="mistake", seen_by=("batch dependence",),
            summary="a row's decision depends on the other rows",
            model=Solved(lambda: behind(BatchCentred(), base())),
        ),
        Defence(
            id="probabilities", name="probabilities as logits", kind="mistake", seen_by=("outputs",),
            summary="softmax inside the model, declared as logits", model=Solved(rescored(softmax_of(1)).make),
        ),
        Defence(
            id="not-probabilities", name="logits as probabilities", kind="mistake", seen_by=("outputs",),
            summary="logits, declared as probabilities", model=module, outputs="probabilities",
        ),
        Defence(
            id="not-finite", name="logits that are not finite", kind="mistake", seen_by=("outputs",),
            summary="logits that overflow", model=Solved(rescored(lambda x, z: torch.exp(100 * z)).make),
        ),
    ]  # fmt: skip
