"""Before noise is drawn: what would make a certificate of a smoothed classifier wrong is refused."""

import math

import torch

from brinell.before.answers import check_labels, check_mode, check_outputs
from brinell.before.gradients import check_gradients
from brinell.before.inputs import check_eps, check_inputs
from brinell.errors import BadInput
from brinell.models.torch_model import TorchModel
from brinell.preflight import refusal
from brinell.random import stream_key
from brinell.readiness import Readiness
from brinell.rows import Rows
from brinell.smoothing.attack import refuse_other_balls
from brinell.smoothing.setting import Setting
from brinell.smoothing.smoothed import answer
from brinell.steadiness import check_batch_independence, check_repeatable
from brinell.threat import Threat

SAMPLE = 32
"""Rows on which the base classifier is tried."""
WIDEST = 4
"""Sigma may be so many times the width of the box; published noise stays below twice that width."""
MANY = 10_000_000
"""More copies than this are no advice."""


def ready_for(model: TorchModel, rows: Rows, threat: Threat, setting: Setting) -> Readiness:
    """Check data, base classifier and, where eps is above 0, what the attack needs; note what is worth knowing.

    Raises
    ------
    BadInput
        At the first thing that would make a certificate wrong, or the attack futile.
    """
    refuse_other_balls(threat)
    _refuse_wide_noise(threat, setting)
    if threat.eps > 0:
        _refuse_mute_prediction(setting)
        _refuse_out_of_reach(threat, setting)
    if model.rejects:
        raise BadInput(
            "model",
            got="a model with a reject option",
            expected="one that gives every input a class",
            remedy="Leave the rejection out, or declare outputs as logits so that it is a class.",
        )
    ready = Readiness(notes=list(rows.notes))
    check_inputs(rows, threat)
    check_mode(model, None, ready)
    x = torch.as_tensor(rows.x[:SAMPLE]).to(model.device, model.dtype)
    y = torch.as_tensor(rows.y[:SAMPLE]).to(model.device)
    with model.undisturbed():
        model.reseed(stream_key("preflight"))
        check_outputs(model, x, rows, ready)
        check_labels(rows, ready)
        with refusal("model", "a model that takes these rows in any batch"):
            check_repeatable(model, x, threat, None, ready)
            check_batch_independence(model, x, model.scores(x), ready)
        if threat.eps > 0:
            check_eps(rows, threat, ready)
            with refusal("model gradients", "logits that are differentiable by the input"):
                check_gradients(model, x, y, ready)
    return ready


def _refuse_wide_noise(threat: Threat, setting: Setting) -> None:
    """Refuse noise in which no input of the box can be seen: sigma is on another scale."""
    width = threat.high - threat.low
    if setting.sigma > WIDEST * width:
        raise BadInput(
            "sigma",
            got=setting.noise,
            expected=f"at most {WIDEST * width:g}, {WIDEST} times the width of the box [{threat.low:g}, {threat.high:g}]",
            remedy=f"If pixels are meant, write {setting.sigma:g}/255.",
        )


def _refuse_out_of_reach(threat: Threat, setting: Setting) -> None:
    """Refuse an eps at which no row can be certified, however sure its class."""
    if threat.eps <= setting.ceiling:
        return
    least = setting.least_for(threat.eps) if threat.eps / setting.sigma < 8 else math.inf
    raise BadInput(
        "eps",
        got=f"{threat.eps_text}, at which nothing can be certified with sigma {setting.noise}, n {setting.n} and alpha "
        f"{setting.alpha:g}",
        expected=f"at most {setting.ceiling:.4g}, the radius where all copies agree",
        remedy=f"Raise --n to {least} or more, or raise --sigma."
        if least <= MANY
        else "Raise --sigma, or lower --eps.",
    )


def _refuse_mute_prediction(setting: Setting) -> None:
    if answer(0, setting.n, 0, setting.alpha) is None:
        raise BadInput(
            "smoothing n",
            got=f"{setting.n} with alpha {setting.alpha:g}: even if all copies agree, PREDICT abstains (2 / 2^n > alpha)",
            expected=f"at least {setting.n + 1}",
            remedy="Raise --n.",
        )
