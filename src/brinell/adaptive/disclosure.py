"""What is said of an opened defence before it is attacked: stand-ins tried on the rows at hand, detectors that lead nowhere."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from brinell.adaptive.backward import BPDA, Fit
from brinell.adaptive.callables import name_of
from brinell.adaptive.pipeline import Pipeline
from brinell.draws import Draws
from brinell.errors import BadInput
from brinell.models.torch_model import TorchModel
from brinell.readiness import Readiness
from brinell.rejection import slack
from brinell.shapes import Inputs


def disclose(model: TorchModel, x: Inputs, ready: Readiness) -> None:
    """Check each stated backward on what its module gets of some rows, and note what is inside the attack.

    Raises
    ------
    BadInput
        If a wrapped module's forward is not its own, or its stand-in has no gradient.
    """
    if isinstance(model.module, Pipeline):
        ready.notes += model.module.describe()
        _note_flat_stages(model.module, model, x, ready)
    wrapped = {name: part for name, part in model.module.named_modules() if isinstance(part, BPDA)}
    if wrapped:
        for name, seen in _inputs_of(wrapped, model, x).items():
            ready.notes.append(_fitting(name, wrapped[name], wrapped[name].check(seen)))
        ready.findings["stated-backward"] = f"a backward is stated for {len(wrapped)} modules"
        ready.forwards += len(x)
    if model.rejects:
        _note_flat_detector(model, x, ready)


def refuse_shared_credit(model: TorchModel, draws: Draws | None) -> None:
    """Refuse credit for rejections where a row is right in some draws and rejected in others.

    Raises
    ------
    BadInput
        If the model may reject and is taken for randomised.
    """
    if draws is not None and model.rejects:
        raise BadInput(
            "suite",
            got="draws, and a model whose rejections are credited",
            expected="one of them: what a rejection in some of the draws is worth is nowhere defined",
            remedy="Count rejections as errors (Pipeline(…, rejection='failure')), or take a suite without [draws].",
        )


def _note_flat_stages(pipeline: Pipeline, model: TorchModel, x: Inputs, ready: Readiness) -> None:
    """Note stages that let no gradient through on any row, so that attacks do not see what stands before them."""
    stages = {f"stages.{place}": stage for place, stage in enumerate(pipeline.stages)}
    for name, seen in _inputs_of(stages, model, x).items():
        leaf = seen.requires_grad_(True)
        with torch.enable_grad():
            out = stages[name](leaf)
            grad = torch.autograd.grad(out.sum(), leaf, allow_unused=True)[0] if out.requires_grad else None
        if grad is None or not bool(grad.any()):
            ready.notes.append(
                f"`{name}` ({name_of(stages[name])}) lets no gradient through on {len(seen)} rows, and no backward is stated "
                "for it: attacks that follow gradients are blind to all before it. State one: brinell.adaptive.bpda(module, "
                "backward=…)"
            )
    ready.forwards += 2 * len(x) if stages else 0
    ready.backwards += len(x) if stages else 0


def _inputs_of(wrapped: Mapping[str, nn.Module], model: TorchModel, x: Inputs) -> dict[str, Tensor]:
    """What each wrapped module gets when the model sees some rows; of several calls the first, of none nothing."""
    seen: dict[str, Tensor] = {}

    def note(name: str, points: Tensor) -> None:
        seen.setdefault(name, points.detach().clone())

    def hook(name: str) -> torch.utils.hooks.RemovableHandle:
        def before(module: nn.Module, args: tuple[Tensor, ...]) -> None:
            note(name, args[0])

        return wrapped[name].register_forward_pre_hook(before)

    hooks = [hook(name) for name in wrapped]
    try:
        model.scores(x)
    finally:
        for handle in hooks:
            handle.remove()
    return seen


def _fitting(name: str, part: BPDA, fit: Fit) -> str:
    forward = "is the module's own to the last bit" if fit.same else "draws numbers that no seed fixes: not compared"
    flat = f"; the stand-in's gradient is 0 on {fit.flat} of them" if fit.flat else ""
    return (
        f"stated backward at `{name or 'the model itself'}`: {part.describe()}; on {fit.rows} rows the forward {forward}, and "
        f"module and stand-in differ by at most {fit.largest:.3g} in a coordinate (median of the rows' largest "
        f"{fit.median:.3g}){flat}"
    )


def _note_flat_detector(model: TorchModel, x: Inputs, ready: Readiness) -> None:
    """Note rows on which nothing leads towards acceptance: the slack of the rejection has no gradient there."""
    grad = model.gradient(x, lambda logits: -slack(logits)).grad
    ready.forwards += len(x)
    ready.backwards += len(x)
    flat = int((grad.flatten(1) == 0).all(dim=1).sum())
    if flat:
        ready.notes.append(
            f"the gradient of the detector's score is exactly zero on {flat} of {len(x)} rows: attacks cannot see how to be "
            "accepted there. Give its score a backward: brinell.adaptive.bpda(score, backward=a smooth score)"
        )
