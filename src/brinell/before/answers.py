"""Whether a model answers as it is said to: mode, shape of its outputs, classes."""

import numpy as np
import torch

from brinell.before.inputs import some
from brinell.draws import Draws
from brinell.errors import BadInput
from brinell.models.outputs import check_scores, classes_of, unwrapped
from brinell.models.torch_model import TorchModel
from brinell.readiness import Readiness
from brinell.rows import Rows
from brinell.shapes import Inputs

NORMALISATION = (torch.nn.modules.batchnorm._NormBase,)
"""Modules whose train mode makes a row depend on its batch."""


def check_mode(model: TorchModel, draws: Draws | None, ready: Readiness) -> None:
    """Refuse a model with any module left in train mode; of a randomised one, dropout may be."""
    modules = [(name or "the model itself", module) for name, module in model.module.named_modules() if module.training]
    training = [name for name, module in modules if draws is None or isinstance(module, NORMALISATION)]
    if modules and not training:
        ready.notes.append(f"{len(modules)} modules are in train mode ({', '.join(name for name, _ in modules[:5])})")
    if training:
        raise BadInput(
            "model",
            got=f"{len(training)} modules in train mode ({', '.join(training[:5])})",
            expected="evaluation mode",
            remedy="Call model.eval() before handing it over."
            if draws is None
            else "Put the normalisation into evaluation mode; dropout may stay on.",
        )


def check_outputs(model: TorchModel, x: Inputs, rows: Rows, ready: Readiness) -> None:
    """Refuse outputs that are not what was declared; unwrap containers with a note; find the number of classes."""
    try:
        with torch.no_grad():
            output = model.raw(x)
    except Exception as error:  # a user's model may raise anything
        raise BadInput(
            "model",
            got=f"{type(error).__name__} on {len(x)} rows of shape {rows.x.shape[1:]}: {error}",
            expected="a model that takes these inputs",
            remedy="Channel order and shape are used as given: declare `layout = channels-last` if that is the data's.",
        ) from error
    ready.forwards += len(x)
    scores, note = unwrapped(output)
    if note:
        ready.notes.append(note)
    check_scores(scores, len(x), model.outputs)
    if model.rejects:
        ready.notes.append(
            "the last output is the score of a rejection: a row is broken only by a point that is accepted"
        )
    elif model.outputs != "logits":
        ready.notes.append(f"outputs declared as {model.outputs}; attacked as logits made from them")
    ready.classes = classes_of(scores.shape[-1], model.outputs)
    if ready.classes < 2:
        raise BadInput("model output", got="one class", expected="at least two", remedy="Nothing can be attacked.")


def check_labels(rows: Rows, ready: Readiness) -> None:
    """Refuse labels that the model has no output for; note outputs that no label uses."""
    beyond = (rows.y < 0) | (rows.y >= ready.classes)
    if beyond.any():
        raise BadInput(
            "labels",
            got=f"{some(np.unique(rows.y[beyond]))} in rows {some(rows.index[beyond])}",
            expected=f"classes 0 to {ready.classes - 1}, as the model has {ready.classes} outputs",
            remedy="Check that labels and model belong together.",
        )
    used = int(rows.y.max()) + 1
    if used <= ready.classes // 2:
        ready.notes.append(f"the model has {ready.classes} outputs, the labels of these rows go from 0 to {used - 1}")
