"""Which parts of a model hide its gradient, where there is a sign that it is hidden, and can be stepped over backward.

Nothing is looked for in a model without a sign. A part is named if its own gradient is zero or wrong on its own inputs
while its output still resembles its input; what is found is kept only if climbing past it gets further than climbing
through it.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from brinell.adaptive.backward import BPDA
from brinell.adaptive.bypass import ROUNDING, bypassing, can_be_stepped_over, described
from brinell.adaptive.callables import name_of
from brinell.losses import MARGIN, margin_of
from brinell.models.torch_model import TorchModel
from brinell.readiness import Readiness
from brinell.rejection import credited
from brinell.shapes import Columns, Inputs, Labels, Logits, PerRow
from brinell.slopes import Slope, StraightThrough
from brinell.threat import Threat

SIGNS = ("zero-gradients", "wrong-gradients", "short-sighted-gradients", "misleading-gradients of margin")
"""Findings of the checks before that call for a look."""
TRIED = 16
"""Rows on which parts are tried."""
MOST_PARTS = 32
"""Parts that are tried at most, the outermost first."""
LIKE = 0.5
"""Cosine between a part's input and its output, each about its mean, from which the identity may stand for the part."""
TRUE_RATIO = (0.5, 2.0)
"""Where the measured change of a part's output over the predicted one may lie."""
STEP = 0.01
"""Of the standard deviation of a part's input: how far it is moved to see what changes."""
REACH = 0.5
"""Of eps: how far a gradient's direction is followed to see what it is worth."""


def find_hiding(model: TorchModel, x: Inputs, y: Labels, threat: Threat, ready: Readiness) -> None:
    """Name the parts that hide the gradient in ``ready.bypassed``, if there is a sign of it and it helps to step over them.

    Counts at most ``2 TRIED`` forwards and ``TRIED`` backwards for each part that is tried, a whole model's for a part's.
    """
    model.bypassed = {}
    if not any(sign in ready.findings for sign in SIGNS):
        return
    right = margin_of(_seen(model.scores(x), y, model), y) > 0
    ready.forwards += len(x)
    x, y = x[right][:TRIED], y[right][:TRIED]
    if not len(x):
        return
    try:
        found = dict(_hiding(model, x, ready))
        if not found:
            return
        model.bypassed = found
        own, past = (_gained(model, x, y, threat, slope, ready) for slope in ("own", "identity"))
    except Exception as error:  # parts of a user's model are called one by one here; they need not take it
        model.bypassed = {}
        ready.notes.append(f"parts that hide the gradient could not be looked for ({type(error).__name__}: {error})")
        return
    better = int((past > own).sum())
    if 2 * better <= len(x) or not bool(past.median() > 0):
        model.bypassed = {}
        return
    ready.bypassed = found
    ready.notes.append(
        f"gradients are hidden by {described(found)}: attacks were added that go back through it as through the identity, "
        f"which gets further on {better} of {len(x)} rows tried"
    )


def _hiding(model: TorchModel, x: Inputs, ready: Readiness) -> Iterator[tuple[str, str]]:
    """Names of hiding parts, with what each is; of nested ones the outermost. Rounding functions come first."""
    with StraightThrough() as mode:
        model.scores(x)
    ready.forwards += len(x)
    names = []
    if mode.replaced:
        names.append(ROUNDING)
        yield ROUNDING, "rounding functions"
    tried = 0
    for name, (part, given, out) in _calls(model, x, ready).items():
        inside = any(name.startswith(f"{outer}.") for outer in names)
        if not name or inside or tried >= MOST_PARTS or not _resembles(given, out):
            continue
        tried += 1
        ready.forwards += 2 * len(x)
        ready.backwards += len(x)
        with bypassing(part, [ROUNDING] if mode.replaced else []):  # it may have been all that hid
            if _hides(part, given):
                names.append(name)
                yield name, name_of(part)


def _calls(model: TorchModel, x: Inputs, ready: Readiness) -> dict[str, tuple[nn.Module, Tensor, Tensor]]:
    """Input and output of the first call of each part that could be stepped over, but for stated backwards."""
    seen: dict[str, tuple[nn.Module, Tensor, Tensor]] = {}
    parts = {name: part for name, part in model.module.named_modules() if name and not isinstance(part, BPDA)}

    def hook(name: str) -> torch.utils.hooks.RemovableHandle:
        def after(part: nn.Module, args: tuple[object, ...], out: object) -> None:
            if args and can_be_stepped_over(args[0], out):
                assert isinstance(args[0], Tensor) and isinstance(out, Tensor)
                seen.setdefault(name, (part, args[0].detach().clone(), out.detach().clone()))

        handle: torch.utils.hooks.RemovableHandle = parts[name].register_forward_hook(after)
        return handle

    hooks = [hook(name) for name in parts]
    try:
        model.scores(x)
    finally:
        for handle in hooks:
            handle.remove()
    ready.forwards += len(x)
    return {name: seen[name] for name in parts if name in seen}


def _resembles(given: Tensor, out: Tensor) -> bool:
    """Whether a part's output goes up and down with its input, in most rows."""
    a, b = (t.flatten(1) - t.flatten(1).mean(dim=1, keepdim=True) for t in (given, out))
    return bool(torch.nn.functional.cosine_similarity(a, b, dim=1).median() > LIKE)


def _hides(part: nn.Module, given: Tensor) -> bool:
    """Whether a part's gradient is zero on every row, or on most rows not that of its output."""
    weights = torch.linspace(0.5, 1.5, given[0].numel(), dtype=given.dtype, device=given.device).view(given.shape[1:])

    def summed(points: Tensor) -> PerRow:
        out: Tensor = part(points) * weights
        return out.flatten(1).sum(dim=1)

    with torch.enable_grad():
        leaf = given.clone().requires_grad_(True)
        total = summed(leaf).sum()
        grad = torch.autograd.grad(total, leaf, allow_unused=True)[0] if total.requires_grad else None
    if grad is None or not bool(grad.any()):
        return True
    step = STEP * given.std()
    with torch.no_grad():
        moved = summed(given + step * grad.sign()) - summed(given - step * grad.sign())
    ratio = moved / (2 * step * grad.flatten(1).abs().sum(dim=1))
    true = (ratio >= TRUE_RATIO[0]) & (ratio <= TRUE_RATIO[1])
    return int(true.sum()) * 2 < len(given)


def _gained(model: TorchModel, x: Inputs, y: Labels, threat: Threat, slope: Slope, ready: Readiness) -> PerRow:
    """By how much the margin sinks along the steepest direction that a slope shows."""

    def climb(logits: Columns) -> PerRow:
        return MARGIN.climb(_seen(logits, y, model), y)

    climbed = model.gradient(x, climb, slope)
    ball = threat.around(x)
    moved = ball.ascend(x, climbed.grad.nan_to_num(0.0), ball.steps(REACH))
    ready.forwards += 2 * len(x)
    ready.backwards += len(x)
    return margin_of(_seen(climbed.logits, y, model), y) - margin_of(_seen(model.scores(moved), y, model), y)


def _seen(logits: Columns, y: Labels, model: TorchModel) -> Logits:
    return credited(logits, y) if model.rejects else logits
