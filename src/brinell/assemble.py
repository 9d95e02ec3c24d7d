"""From a spec to what is evaluated: the model loaded, the rows selected, the suite read."""

from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from brinell import zoo
from brinell.budget import Budget
from brinell.certify import onnx_net
from brinell.errors import BadInput
from brinell.handed import in_precision
from brinell.locate import called, located
from brinell.models.torch_model import TorchModel
from brinell.rows import Rows, load_rows
from brinell.spec import ModelSpec, Spec
from brinell.subject import Subject, named, suite_for
from brinell.suites.suite import load_suite
from brinell.surrogate import Surrogate, base_of
from brinell.threat import Threat

BUILTIN = "builtin:"


def subject_from(spec: Spec) -> Subject:
    """Everything that a spec names, loaded and checked for form.

    Raises
    ------
    BadInput
        If a part of it cannot be had.
    """
    threat = Threat(
        spec.threat.norm,
        spec.threat.eps,
        low=spec.threat.low,
        high=spec.threat.high,
    )
    suite = load_suite(spec.suite)
    suite.check(threat.norm)
    loaded = loaded_from(spec)
    return Subject(
        model=loaded.model,
        model_source=named(spec.model.source, loaded.model),
        rows=loaded.rows,
        threat=threat,
        suite=suite_for(loaded.model, suite),
        seed=spec.seed,
        batch_size=spec.batch_size,
        budget=None if spec.budget is None else Budget(spec.budget),
        certify=spec.certify,
        surrogate=loaded.surrogate,
        spec=spec,
    )


class Loaded(NamedTuple):
    """What can be asked again of a run, whatever attacked it."""

    model: TorchModel
    rows: Rows
    """In the model's precision."""
    surrogate: Surrogate | None = None
    """Named, or a pipeline's own base."""


def loaded_from(spec: Spec) -> Loaded:
    """The model and the rows that a spec names.

    Raises
    ------
    BadInput
        If one of them cannot be had.
    """
    rows = load_rows(spec.data.source, spec.data.rows, scale=spec.data.scale, layout=spec.data.layout)
    model = _model_of(spec.model, rows)
    other = spec.surrogate
    surrogate = base_of(model) if other is None else Surrogate(other.source, _model_of(other, rows), "declared")
    return Loaded(model, in_precision(rows, model), surrogate)


def _model_of(spec: ModelSpec, rows: Rows) -> TorchModel:
    module = load_onnx(spec.source, rows) if is_onnx(spec.source) else load_module(spec.source)
    return TorchModel(module.to(_device(spec.device)), spec.outputs)


def is_onnx(source: str) -> bool:
    """Whether a model's source is the path of an ONNX file."""
    return source.lower().endswith(".onnx")


def load_onnx(source: str, rows: Rows) -> nn.Module:
    """The net in an ONNX file, which takes rows of one shape alone.

    Raises
    ------
    BadInput
        If the file cannot be read, or the rows have another shape.
    """
    net = onnx_net.read(Path(source))
    shape = tuple(rows.x.shape[1:])
    if shape != net.shape:
        raise BadInput(
            f"data for {source}",
            got=f"rows of shape {shape}",
            expected=f"rows of shape {net.shape}",
            remedy="Save the rows in the shape and the units of the net's own input.",
        )
    return net.module


def load_module(source: str) -> nn.Module:
    """The module that a source names: built in, or a Python object, or what a function returns.

    Raises
    ------
    BadInput
        If there is none.
    """
    if source.startswith(BUILTIN):
        return zoo.load_model(source.removeprefix(BUILTIN))
    thing = located(source, subject="model")
    if not isinstance(thing, nn.Module):
        thing = called(thing, subject="model")
    if not isinstance(thing, nn.Module):
        raise BadInput(
            f"model {source}",
            got=type(thing).__name__,
            expected="a torch.nn.Module, or a function that returns one",
            remedy="Return the module itself, in evaluation mode.",
        )
    return thing


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise BadInput(
            "device",
            got=f"{name!r} ({str(error).splitlines()[0]})",
            expected="cpu, or an accelerator that this PyTorch can use",
            remedy="Leave it out for cpu.",
        ) from None
    return device


def free_folder(spec: Spec) -> Path:
    """A folder under ``runs/`` that says what the run is, and is not taken."""
    model = Path(spec.model.source.removeprefix(BUILTIN).replace(":", "-")).name.replace(".py", "")
    suite = Path(spec.suite).stem.replace(" ", "-")
    name = f"{model}-{spec.threat.norm.lower()}-{spec.threat.eps.replace('/', '_')}-{suite}"
    number = 1
    while (folder := Path("runs") / f"{name}-{number}").exists():
        number += 1
    return folder
