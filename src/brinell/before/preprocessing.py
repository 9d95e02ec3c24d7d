"""Whether the model is better on inputs that were prepared otherwise: then these are not the inputs that it is for.

Idea        a model fed on another scale, normalised twice or not at all, or with its channels reversed is wrong on rows that
            it would be right on, and its robustness is that of no model that anybody uses.
Source      the commonest mistakes of evaluations; tried on clean rows, so that no attack is needed to see it.
Cost        ``len(VARIANTS)`` forwards a row tried, 320 at most; none where too few rows are wrong for it to matter.
"""

from collections.abc import Callable

import torch

from brinell.losses import margin_of
from brinell.models.torch_model import TorchModel
from brinell.readiness import Readiness
from brinell.shapes import Inputs, Labels, Logits, Mask
from brinell.statistics import clopper_pearson

SHARE = 0.05
"""Of the rows tried: how many more the model must be right on."""
SURE = 0.99
"""Confidence that the rows on which the two differ are no even draw."""


def _times_255(x: Inputs) -> Inputs:
    return 255 * x


def _over_255(x: Inputs) -> Inputs:
    return x / 255


def _normalised(x: Inputs) -> Inputs:
    mean, spread = _moments(x)
    return (x - mean) / spread


def _unnormalised(x: Inputs) -> Inputs:
    mean, spread = _moments(x)
    return x * spread + mean


def _channels_reversed(x: Inputs) -> Inputs:
    return x.flip(1)


def _moments(x: Inputs) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and standard deviation of each channel over the rows tried; of flat rows, of all numbers."""
    axes = [axis for axis in range(x.dim()) if axis != 1] if x.dim() > 2 else [0, 1]
    return x.mean(dim=axes, keepdim=True), x.std(dim=axes, keepdim=True).clamp_min(1e-6)


VARIANTS: dict[str, Callable[[Inputs], Inputs]] = {
    "multiplied by 255": _times_255,
    "divided by 255": _over_255,
    "normalised by their own mean and deviation": _normalised,
    "with a normalisation undone": _unnormalised,
    "with their channels reversed": _channels_reversed,
}
"""What may have been done to inputs, or left undone."""


def check_preprocessing(model: TorchModel, x: Inputs, y: Labels, logits: Logits, ready: Readiness) -> None:
    """Say on which other inputs the model is clearly better than on those that it was given.

    ``logits`` are those on the inputs as they were given. Clearly: on more rows by a twentieth, and by a sign test over the
    rows on which the two differ; and on more rows than have the commonest label.
    """
    right = margin_of(logits, y) > 0
    if not _better(~right, torch.zeros_like(right)):
        return  # were every wrong row right, it would not be enough
    commonest = int(y.bincount().max())  # no more than this would an answer be right that is always the same
    best: tuple[int, str] | None = None
    for name, change in VARIANTS.items():
        if change is _channels_reversed and not (x.dim() == 4 and x.shape[1] == 3):
            continue
        try:
            other = margin_of(model.scores(change(x)), y) > 0
        except Exception:  # these inputs are made up here; a model need not take them
            continue
        finally:
            ready.forwards += len(x)
        count = int(other.sum())
        if count > commonest and _better(other & ~right, right & ~other) and (best is None or count > best[0]):
            best = count, name
    if best is not None:
        ready.find(
            "other-preprocessing",
            f"the model is right on {best[0]} of {len(x)} rows with inputs {best[1]}, and on {int(right.sum())} of them as "
            "they were given",
        )


def _better(gained: Mask, lost: Mask) -> bool:
    """Whether so many rows more are neither few nor chance."""
    won, fewer = int(gained.sum()), int(lost.sum())
    if won - fewer <= SHARE * len(gained):
        return False
    low, _ = clopper_pearson(won, won + fewer, SURE)
    return low > 0.5
