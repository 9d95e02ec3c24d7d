"""Before an attack: what would make the number wrong is refused, with what to do; what was adapted is noted.

Costs a few passes on at most 64 rows. Each check is one function; a check that refuses raises ``BadInput``.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from brinell.adaptive.disclosure import disclose, refuse_shared_credit
from brinell.before.answers import check_labels, check_mode, check_outputs
from brinell.before.gradients import check_faces, check_gradients, check_signal, find_underflow
from brinell.before.hiding import find_hiding
from brinell.before.inputs import check_eps, check_inputs
from brinell.before.preprocessing import check_preprocessing
from brinell.before.speed import fastest_batch_size
from brinell.differences import check_differences, rank_targets
from brinell.draws import Draws
from brinell.errors import BadInput
from brinell.models.torch_model import TorchModel
from brinell.random import stream_key
from brinell.readiness import Readiness
from brinell.rows import Rows
from brinell.steadiness import check_batch_independence, check_repeatable, check_shared_draws
from brinell.threat import Threat
from brinell.unbounded import check_unbounded

SAMPLE = 64
"""Rows on which a model is tried."""


def preflight(
    model: TorchModel, rows: Rows, threat: Threat, draws: Draws | None, *, batch_size: int | None
) -> Readiness:
    """Check data, threat model and model, and choose the batch size if it is not given.

    ``draws`` is given where the model is to be taken for randomised.

    Raises
    ------
    BadInput
        At the first thing that would make the number wrong.
    """
    refuse_shared_credit(model, draws)
    model.bypassed, model.loss_precision = {}, "own"  # what an earlier run found is none of this one's
    ready = Readiness(notes=list(rows.notes))
    check_inputs(rows, threat)
    check_eps(rows, threat, ready)
    check_mode(model, draws, ready)
    if model.own_dtype != model.dtype:
        ready.notes.append(
            f"model runs in {_name(model.own_dtype)}; inputs are {_name(model.dtype)} and are cast by it"
        )
    x = torch.as_tensor(rows.x[:SAMPLE]).to(model.device, model.dtype)
    y = torch.as_tensor(rows.y[:SAMPLE]).to(model.device)
    with model.undisturbed():
        model.reseed(stream_key("preflight"))
        check_outputs(model, x, rows, ready)
        check_labels(rows, ready)
        logits = model.scores(x)
        ready.forwards += len(x)
        with refusal("model", "a model that takes these rows in any batch"):
            moved = check_repeatable(model, x, threat, draws, ready)
            if draws is None or moved == 0:
                check_batch_independence(model, x, logits, ready)
            else:
                check_shared_draws(model, x, ready)
        with refusal(
            "model gradients", "logits that are differentiable by the input (or a backward: brinell.adaptive.bpda)"
        ):
            disclose(model, x, ready)
            check_gradients(model, x, y, ready)
            if draws is not None:
                check_signal(model, x, y, draws, ready)
        if draws is None:
            check_preprocessing(model, x, y, logits, ready)
        check_faces(model, x, y, threat, ready)
        if draws is None and threat.eps > 0:
            check_unbounded(model, x, y, threat, ready)
            check_differences(model, x, y, threat, ready)
            find_hiding(model, x, y, threat, ready)
            rank_targets(model, x, y, threat, ready)
        find_underflow(model, x, y, ready)
        ready.batch_size = batch_size or fastest_batch_size(model, x, y, len(rows), ready)
    return ready


@contextmanager
def refusal(subject: str, expected: str) -> Iterator[None]:
    """Whatever a model raises within is said as a refusal."""
    try:
        yield
    except BadInput:
        raise
    except Exception as error:  # a user's model may raise anything
        raise BadInput(
            subject,
            got=f"{type(error).__name__}: {error}",
            expected=expected,
            remedy="Call the model by hand on one row, on several, and with a gradient.",
        ) from error


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
