"""What is to be evaluated, where it is handed over in Python."""

import math
from dataclasses import replace
from typing import get_args

import numpy as np
from torch import nn

from brinell.budget import Budget
from brinell.certify.steps import STEPS
from brinell.errors import BadInput
from brinell.models.outputs import OUTPUTS, Outputs
from brinell.models.torch_model import TorchModel
from brinell.rows import Layout, Rows, rows_of
from brinell.spec import CertifySpec
from brinell.subject import Subject, named, suite_for
from brinell.suites.suite import Suite, load_suite
from brinell.surrogate import Surrogate, base_of
from brinell.threat import Threat


def subject_of(
    model: object,
    x: object,
    y: object,
    *,
    threat: Threat,
    suite: str | Suite,
    seed: int,
    outputs: Outputs,
    rows: str,
    layout: Layout,
    size: int | None,
    budget: str | None = None,
    surrogate: object = None,
    certify: CertifySpec | None = None,
) -> Subject:
    """What is to be evaluated, from objects at hand."""
    if not isinstance(model, nn.Module):
        raise BadInput(
            "model", got=type(model).__name__, expected="a torch.nn.Module", remedy="Wrap the function in a module."
        )
    for name, value, choices in (("outputs", outputs, OUTPUTS), ("layout", layout, get_args(Layout))):
        if value not in choices:
            raise BadInput(name, got=repr(value), expected=", ".join(choices), remedy="Choose one.")
    if not 0 <= seed < 2**63:
        raise BadInput("seed", got=str(seed), expected="0 to 2^63 - 1", remedy="Choose another.")
    if size is not None and size < 1:
        raise BadInput("batch size", got=str(size), expected="at least 1", remedy="Leave it out to have it measured.")
    adapter = TorchModel(model, outputs)
    return Subject(
        model=adapter,
        model_source=named(type(model).__name__, adapter),
        rows=in_precision(rows_of(x, y, selection=rows, layout=layout), adapter),
        threat=threat,
        suite=suite_for(adapter, load_suite(suite) if isinstance(suite, str) else suite),
        seed=seed,
        batch_size=size,
        budget=None if budget is None else Budget(budget),
        surrogate=base_of(adapter) if surrogate is None else _declared(surrogate),
        certify=certify,
    )


def _declared(surrogate: object) -> Surrogate:
    if not isinstance(surrogate, nn.Module):
        raise BadInput(
            "surrogate", got=type(surrogate).__name__, expected="a torch.nn.Module", remedy="Wrap it in a module."
        )
    return Surrogate(type(surrogate).__name__, TorchModel(surrogate), "declared")


def sought(method: str | None, seconds: float) -> CertifySpec | None:
    """The request that a step's name and a time make; None where no step is named.

    Raises
    ------
    BadInput
        If there is no such step, or no time.
    """
    if method is None:
        return None
    if method not in STEPS or not 0 < seconds < math.inf:
        raise BadInput(
            "certify",
            got=f"{method!r}, {seconds} s",
            expected=f"{', '.join(STEPS)}, and seconds above 0",
            remedy="Choose one.",
        )
    return CertifySpec(method=method, seconds=seconds)


def in_precision(rows: Rows, model: TorchModel) -> Rows:
    """The rows in the precision in which the model takes points."""
    wanted = np.dtype(str(model.dtype).removeprefix("torch."))
    if rows.x.dtype == wanted:
        return rows
    note = f"inputs converted from {rows.x.dtype} to {wanted}"
    return replace(rows, x=rows.x.astype(wanted), notes=(*rows.notes, note))
