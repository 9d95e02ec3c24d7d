"""Whether gradients say how the margin changes, and which wrong class is nearest by them."""

import torch

from brinell.losses import MARGIN, margin_of
from brinell.models.torch_model import TorchModel
from brinell.readiness import Readiness
from brinell.rejection import credited
from brinell.shapes import Columns, Inputs, Labels, Logits
from brinell.threat import Threat

TRUE_RATIO = (0.5, 2.0)
"""Where the measured change of the margin over the predicted one may lie."""
BAD_SHARE = 0.1
"""Share of the rows that may lie outside before it is said."""
NEAR = 1e-3
"""Of the box's width: where the gradient must be right."""
PART_OF_BALL = 0.25
"""Of the ball's radius: where the gradient should still say something. Published nets are right there on 97 % of rows."""
TINY_CHANGE = 1e-6
"""Relative to the logits; below it a difference is rounding."""
RANKED_ROWS = 16
FEW_CLASSES = 10
"""Up to so many classes, suites aim at all or nearly all of them."""
MOST_CLASSES = 100
"""Wrong classes, by logit, among which the nearest is looked for."""


def check_differences(model: TorchModel, x: Inputs, y: Labels, threat: Threat, ready: Readiness) -> None:
    """Compare the gradient of the margin with how the margin changes: close to each row, and across a quarter of the ball.

    Along ``u = sign(grad)`` the margin changes by ``2 h <grad, u>`` between ``x - h u`` and ``x + h u`` to first order. Where
    the gradient is zero ``u`` has signs of its own, and any change shows that the zero is wrong. Of a model with a stated
    backward nothing is asked: its gradient is meant to be another.
    """
    if "stated-backward" in ready.findings:
        return
    width, size = threat.high - threat.low, x[0].numel()
    far = PART_OF_BALL * float(threat.eps) / {"linf": 1.0, "l2": size**0.5, "l1": float(size)}[threat.norm]
    try:
        bad, tried = _wrong(model, x, y, threat, NEAR * width, ready), len(x)
        if bad > BAD_SHARE * tried:
            ready.find(
                "wrong-gradients",
                f"on {bad} of {tried} rows the margin does not change as its gradient says, over {NEAR * width:g} on either "
                "side: gradients are not those of the model, and attacks that follow them are led astray",
            )
        bad = _wrong(model, x, y, threat, far, ready) if far > NEAR * width else 0
        if bad > BAD_SHARE * tried and "wrong-gradients" not in ready.findings:
            ready.find(
                "short-sighted-gradients",
                f"on {bad} of {tried} rows the margin does not change as its gradient says over {far:g} on either side, a "
                "quarter of the ball, though it does close by: gradients are right and say little at the attack's scale",
            )
    except Exception as error:  # these points are made up here; a model need not take them
        why = f"gradients could not be held against differences ({type(error).__name__}: {error})"
        ready.skip(why, "wrong-gradients", "short-sighted-gradients")


def _wrong(model: TorchModel, x: Inputs, y: Labels, threat: Threat, step: float, ready: Readiness) -> int:
    """Rows on which the change between two points ``step`` away, in every coordinate, is not the one predicted."""
    x = x.clamp(threat.low + step, threat.high - step)
    grad = model.gradient(x, lambda logits: MARGIN.climb(_judged(logits, y, model), y)).grad
    signs = torch.arange(x[0].numel(), device=x.device).remainder(2).mul(2).sub(1).reshape(x.shape[1:]).to(x.dtype)
    direction = torch.where(grad == 0, signs, grad.sign())
    ahead, behind = (_judged(model.scores(x + side * step * direction), y, model) for side in (1, -1))
    ready.forwards += 3 * len(x)
    ready.backwards += len(x)
    change = margin_of(behind, y) - margin_of(ahead, y)  # the loss is the margin's negative
    predicted = 2 * step * (grad * direction).flatten(1).sum(1)
    rounding = TINY_CHANGE * torch.maximum(ahead.abs().amax(1), behind.abs().amax(1))
    asked = (change.abs() > rounding) | (predicted.abs() > rounding)
    ratio = change / predicted
    right = (ratio >= TRUE_RATIO[0]) & (ratio <= TRUE_RATIO[1])
    return int((asked & ~right).sum())


def _judged(logits: Columns, y: Labels, model: TorchModel) -> Logits:
    return credited(logits, y) if model.rejects else logits


def rank_targets(model: TorchModel, x: Inputs, y: Labels, threat: Threat, ready: Readiness) -> None:
    """Where classes are many: by logit, which place has the wrong class that is nearest to first order?

    Of class ``j`` the distance is ``(z_y - z_j) / ||grad (z_y - z_j)||_q``, ``q`` dual to the norm (Melamed et al. 2024, MALT).
    """
    if ready.classes <= FEW_CLASSES or model.rejects:
        return
    logits = model.scores(x)
    right = margin_of(logits, y) > 0
    x, y, logits = x[right][:RANKED_ROWS], y[right][:RANKED_ROWS], logits[right][:RANKED_ROWS]
    order = logits.scatter(1, y[:, None], -float("inf")).argsort(dim=1, descending=True)[:, :MOST_CLASSES]
    dual = {"linf": 1.0, "l2": 2.0, "l1": float("inf")}[threat.norm]
    distances = []
    for rank in range(min(MOST_CLASSES, ready.classes - 1)):
        target = order[:, rank]

        def gap(z: torch.Tensor, target: Labels = target) -> torch.Tensor:
            return z.gather(1, y[:, None])[:, 0] - z.gather(1, target[:, None])[:, 0]

        climbed = model.gradient(x, gap)
        steepness = climbed.grad.flatten(1).norm(p=dual, dim=1).clamp_min(1e-30)
        distances.append(gap(climbed.logits) / steepness)
        ready.forwards += len(x)
        ready.backwards += len(x)
    ready.forwards += len(logits)
    ready.target_ranks = (torch.stack(distances).argmin(dim=0) + 1).tolist()
