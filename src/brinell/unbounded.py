"""Whether gradients lead anywhere at all: an attack that may go anywhere in the box must take the model off every row.

Idea        climb from the clean rows with no ball around them. A row that stands then says nothing of robustness: its
            gradient misleads, or is absent.
Source      Carlini et al. 2019 (arXiv 1902.06705); as an indicator of failure: Pintor et al. 2022 (arXiv 2106.09947, I6).
Departures  steps as large as a tenth of the box, so that few reach across it.
Cost        up to ``STEPS + 1`` forwards and ``STEPS`` backwards a row and loss; a row that errs is let go.
"""

from brinell.losses import CROSS_ENTROPY, MARGIN, Loss, margin_of
from brinell.models.torch_model import TorchModel
from brinell.readiness import Readiness
from brinell.rejection import credited
from brinell.shapes import Columns, Inputs, Labels, Logits
from brinell.threat import Threat

STEPS = 30
STEP = 0.1
"""Of the box's width, in every coordinate."""
MISLED = 0.05
"""Share of the rows that may stand before it is said."""


def check_unbounded(model: TorchModel, x: Inputs, y: Labels, threat: Threat, ready: Readiness) -> None:
    """Climb cross-entropy, then the margin, with no ball; say on how many rows the model is right to the end."""
    right = margin_of(model.scores(x), y) > 0
    ready.forwards += len(x)
    x, y = x[right], y[right]
    ready.unbounded = {"rows": len(x)}
    for loss, name in ((CROSS_ENTROPY, "cross-entropy"), (MARGIN, "the margin")):
        try:
            stood = _standing(model, x, y, threat, loss, ready)
        except Exception as error:  # these points are made up here; a model need not take them
            why = f"{name} could not be climbed across the box ({type(error).__name__}: {error})"
            ready.skip(why, "misleading-gradients", "saturated-cross-entropy")
            return
        ready.unbounded[loss.name] = stood
        if stood > MISLED * len(x):
            ready.find(
                f"misleading-gradients of {loss.name}",
                f"{STEPS} steps on {name} with no limit but the box leave {stood} of {len(x)} rows right: unless the model is "
                f"right there on the whole box, gradients of {name} mislead, and what stands by them is no sign of robustness",
            )


def _standing(model: TorchModel, x: Inputs, y: Labels, threat: Threat, loss: Loss, ready: Readiness) -> int:
    width, x_adv = threat.high - threat.low, x
    for _ in range(STEPS):
        climbed = model.gradient(x_adv, lambda logits: loss.climb(_seen(logits, y, model), y))  # noqa: B023  # called at once
        ready.forwards += len(x_adv)
        ready.backwards += len(x_adv)
        stands = margin_of(_seen(climbed.logits, y, model), y) > 0
        moved = (x_adv + STEP * width * climbed.grad.sign()).clamp(threat.low, threat.high)
        x_adv, y = moved[stands], y[stands]
        if not len(x_adv):
            return 0
    ready.forwards += len(x_adv)
    return int((margin_of(_seen(model.scores(x_adv), y, model), y) > 0).sum())


def _seen(logits: Columns, y: Labels, model: TorchModel) -> Logits:
    return credited(logits, y) if model.rejects else logits
