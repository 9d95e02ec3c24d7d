"""Whether a surrogate is a model of the same rows and classes, so that points made on it mean something."""

import torch

from brinell.draws import Draws
from brinell.errors import BadInput
from brinell.losses import cross_entropy_of, margin_of
from brinell.models.torch_model import TorchModel
from brinell.readiness import Readiness
from brinell.rows import Rows
from brinell.surrogate import Surrogate

TRIED = 16
"""Rows on which a surrogate is tried, one forward and one backward pass each, on the surrogate's own account."""


def usable(
    surrogate: Surrogate | None, model: TorchModel, rows: Rows, draws: Draws | None, ready: Readiness
) -> Surrogate | None:
    """The surrogate, where points can be made on it; a pipeline's own base that is of no use is noted and left out.

    So is, without a note, the base of one that is taken for randomised: what it hides is in the mean over ``draws``.

    Raises
    ------
    BadInput
        If a surrogate that was declared cannot be used: other shape, other classes, train mode, no gradient, or it is the
        model itself.
    """
    if surrogate is None or (surrogate.kind == "base" and draws is not None):
        return None
    try:
        right = _right_on(surrogate, model, rows, ready.classes)
    except BadInput as refused:
        if surrogate.kind == "declared":
            raise
        ready.notes.append(f"no points were made on {surrogate.source}: {refused.got}")
        return None
    tried = min(TRIED, len(rows))
    ready.notes.append(f"surrogate: {surrogate.source}, right on {right} of {tried} rows tried")
    return surrogate


def _right_on(surrogate: Surrogate, model: TorchModel, rows: Rows, classes: int) -> int:
    """Of the rows tried, those that the surrogate is right on."""
    other = surrogate.model
    if any(module.training for module in other.module.modules()):
        raise _refused(surrogate, "modules in train mode", "evaluation mode", "Call eval() before handing it over.")
    if other.rejects:
        raise _refused(surrogate, "a model that may reject", "one score a class", "Give the classifier without it.")
    if surrogate.kind == "declared" and other.fingerprint() == model.fingerprint():
        raise _refused(
            surrogate, "the attacked model itself", "another model", "The suite's own attacks climb on it already."
        )
    x = torch.as_tensor(rows.x[:TRIED]).to(other.device, other.dtype)
    y = torch.as_tensor(rows.y[:TRIED]).to(other.device)
    try:
        with other.undisturbed():
            logits = other.scores(x)
            if logits.shape != (len(x), classes):
                got = f"outputs of shape {tuple(logits.shape)} for {len(x)} rows"
                raise _refused(
                    surrogate, got, f"({len(x)}, {classes}), as the model's", "Give a model of these classes."
                )
            climbed = other.gradient(x, cross_entropy_of(y))
    except BadInput:
        raise
    except Exception as error:  # a user's model may raise anything
        got = f"{type(error).__name__} on rows of shape {tuple(rows.x.shape[1:])}: {error}"
        raise _refused(surrogate, got, "a model that takes these inputs", "Give a model of these rows.") from error
    if not bool(climbed.logits.isfinite().all() and climbed.grad.isfinite().all()):
        raise _refused(
            surrogate, "outputs or gradients that are not finite", "finite numbers", "Call it by hand on one row."
        )
    if not bool(climbed.grad.any()):
        raise _refused(
            surrogate, f"a gradient of exactly 0 on all of {len(x)} rows", "a gradient to climb", "Give another model."
        )
    return int((margin_of(climbed.logits, y) > 0).sum())


def _refused(surrogate: Surrogate, got: str, expected: str, remedy: str) -> BadInput:
    return BadInput(f"surrogate {surrogate.source}", got=got, expected=expected, remedy=remedy)
