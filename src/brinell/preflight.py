"""Before an attack: what would make the number wrong is refused, with what to do; what was adapted is noted.

Costs a few passes on at most 64 rows. Each check is one function; a check that refuses raises ``BadInput``.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch

from brinell.adaptive.disclosure import disclose, refuse_shared_credit
from brinell.differences import check_differences, rank_targets
from brinell.draws import Draws
from brinell.errors import BadInput
from brinell.losses import CROSS_ENTROPY
from brinell.models.outputs import check_scores, classes_of, unwrapped
from brinell.models.torch_model import TorchModel
from brinell.random import Noise, stream_key
from brinell.readiness import Readiness
from brinell.rows import Rows
from brinell.shapes import Inputs, Labels, Logits, PerRow
from brinell.steadiness import check_batch_independence, check_repeatable, check_shared_draws
from brinell.threat import Threat
from brinell.unbounded import check_unbounded

SAMPLE = 64
"""Rows on which a model is tried."""
WEAK_SIGNAL = 0.3
"""Cosine between two halves of an attack's draws below which their mean gradient is mostly noise."""
NORMALISATION = (torch.nn.modules.batchnorm._NormBase,)
"""Modules whose train mode makes a row depend on its batch."""
PULL_IN = 1e-6
"""How far inside the box gradients are taken where its faces mask them, as a fraction of the box's width."""
BATCH_SIZES = (64, 128, 256, 512)
TRIAL_SECONDS = 1.5


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
        with _refusal("model", "a model that takes these rows in any batch"):
            moved = check_repeatable(model, x, threat, draws, ready)
            if draws is None or moved == 0:
                check_batch_independence(model, x, logits, ready)
            else:
                check_shared_draws(model, x, ready)
        with _refusal(
            "model gradients", "logits that are differentiable by the input (or a backward: brinell.adaptive.bpda)"
        ):
            disclose(model, x, ready)
            check_gradients(model, x, y, ready)
            if draws is not None:
                check_signal(model, x, y, draws, ready)
        check_faces(model, x, y, threat, ready)
        if draws is None and threat.eps > 0:
            check_unbounded(model, x, y, threat, ready)
            check_differences(model, x, y, threat, ready)
            rank_targets(model, x, y, threat, ready)
        ready.batch_size = batch_size or _fastest_batch_size(model, x, y, len(rows), ready)
    return ready


def check_inputs(rows: Rows, threat: Threat) -> None:
    """Refuse inputs that are not finite or lie outside the box."""
    flat = rows.x.reshape(len(rows), -1)
    finite = np.isfinite(flat).all(axis=1)
    if not finite.all():
        raise BadInput(
            "inputs",
            got=f"NaN or infinity in rows {_some(rows.index[~finite])}",
            expected="finite numbers",
            remedy="Repair these rows, or select others with `rows`.",
        )
    outside = (flat < threat.low).any(axis=1) | (flat > threat.high).any(axis=1)
    if outside.any():
        smallest, largest = float(flat.min()), float(flat.max())
        raise BadInput(
            "inputs",
            got=f"values from {smallest:g} to {largest:g}; {int(outside.sum())} rows lie outside: "
            f"{_some(rows.index[outside])}",
            expected=f"the box [{threat.low:g}, {threat.high:g}]",
            remedy=_scale_remedy(smallest, largest),
        )


def _scale_remedy(smallest: float, largest: float) -> str:
    if smallest >= 0 and 1.5 < largest <= 255:
        return "These look like pixels: divide them by 255 (`scale = 255`)."
    if smallest < 0:
        return (
            "These look normalised: give inputs before normalisation and make that part of the model, "
            "or state the true bounds with `low` and `high`."
        )
    return "State the true bounds with `low` and `high`."


def check_eps(rows: Rows, threat: Threat, ready: Readiness) -> None:
    """Refuse a radius that reaches across the whole box; note one that looks like another scale."""
    width = threat.high - threat.low
    dimension = int(np.prod(rows.x.shape[1:]))
    across = {"linf": width, "l2": width * dimension**0.5, "l1": width * dimension}[threat.norm]
    if threat.eps > across:
        raise BadInput(
            "eps",
            got=f"{threat.eps_text} in {threat.norm}",
            expected=f"at most {across:g}, the reach of the box [{threat.low:g}, {threat.high:g}]",
            remedy=f"If pixels are meant, write {float(threat.eps):g}/255.",
        )
    spread = float(rows.x.max() - rows.x.min())
    if spread < width / 100:
        ready.find(
            "input-spread",
            f"inputs spread over {spread:g} of a box {width:g} wide: are `low` and `high` on the inputs' scale?",
        )


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
            got=f"{_some(np.unique(rows.y[beyond]))} in rows {_some(rows.index[beyond])}",
            expected=f"classes 0 to {ready.classes - 1}, as the model has {ready.classes} outputs",
            remedy="Check that labels and model belong together.",
        )
    used = int(rows.y.max()) + 1
    if used <= ready.classes // 2:
        ready.notes.append(f"the model has {ready.classes} outputs, the labels of these rows go from 0 to {used - 1}")


def check_gradients(model: TorchModel, x: Inputs, y: Labels, ready: Readiness) -> None:
    """Refuse a model without gradients; note rows whose gradient is zero or not finite."""
    logits, _, grad = model.gradient(x, _climb(y))
    ready.forwards += len(x)
    ready.backwards += len(x)
    if not bool(logits.isfinite().all()):
        return  # the clean pass refuses these rows, by name
    zero = int((grad.flatten(1) == 0).all(dim=1).sum())
    if zero:
        ready.find(
            "zero-gradients",
            f"the gradient of the cross-entropy is exactly zero on {zero} of {len(x)} rows: do not trust "
            "cross-entropy alone here",
        )


def check_signal(model: TorchModel, x: Inputs, y: Labels, draws: Draws, ready: Readiness) -> None:
    """Say how far the mean gradient over an attack's draws is a direction, and how far it is noise."""
    halves = []
    each = max(draws.attack // 2, 1)
    for _ in range(2):
        halves.append(sum((model.gradient(x, _climb(y)).grad for _ in range(each)), torch.zeros_like(x)).flatten(1))
        ready.forwards += each * len(x)
        ready.backwards += each * len(x)
    cosine = float(torch.nn.functional.cosine_similarity(halves[0], halves[1], dim=1).nan_to_num(0.0).median())
    said = f"gradients of cross-entropy averaged over {each} draws and over {each} others: median cosine {cosine:.2f}"
    if cosine < WEAK_SIGNAL:
        ready.find("noisy-gradients", f"{said}; below 0.3 an attack follows noise: raise the suite's draws for attacks")
    else:
        ready.notes.append(said)


def check_faces(model: TorchModel, x: Inputs, y: Labels, threat: Threat, ready: Readiness) -> None:
    """Find a model that hides its gradient on the faces of the box, as one does that clamps its input.

    From torch 2.14 on the gradient of ``clamp`` is 0 at its bounds (``hardtanh``: in every version). Such a model
    looks far too robust to an attack that moves along the faces. Compares the share of exactly zero gradients on
    faces with the share at the same coordinates a hair inside; where they part, gradients are taken inside.
    """
    rows = torch.arange(len(x), device=x.device)
    noise = Noise.of(seed=0, stream=stream_key("preflight: faces"), attempt=0, rows=rows)
    toss = noise.uniform(tuple(x.shape[1:]), draw=0, dtype=x.dtype)
    onto_face = torch.where(toss < 1 / 6, torch.full_like(x, threat.low), x)
    onto_face = torch.where(toss > 5 / 6, torch.full_like(x, threat.high), onto_face)
    on_face = (onto_face == threat.low) | (onto_face == threat.high)
    width = threat.high - threat.low
    hair = width * max(PULL_IN, 2 * torch.finfo(model.own_dtype).eps)
    shares = []
    for points in (onto_face, onto_face.clamp(threat.low + hair, threat.high - hair)):
        try:
            grad = model.gradient(points, lambda z: (z * _weights(z)).sum(dim=1)).grad
        except Exception as error:  # these points are made up here; a model need not take them
            ready.notes.append(
                f"gradients on the faces of the box could not be tried ({type(error).__name__}: {error})"
            )
            return
        ready.forwards += len(x)
        ready.backwards += len(x)
        shares.append(float((grad[on_face] == 0).float().mean()))
    on, inside = shares
    if on > 0.9 and on - inside > 0.3:
        ready.pull_in = hair
        ready.notes.append(
            f"gradients are exactly zero on {on:.0%} of coordinates on the faces of the box, on {inside:.0%} of the same "
            f"a hair inside: the model clamps its input; gradients are taken {hair:.0e} inside the box"
        )


def _weights(logits: Logits) -> torch.Tensor:
    """Unequal weights, so that no gradient cancels by symmetry."""
    return torch.arange(1, logits.shape[1] + 1, device=logits.device, dtype=logits.dtype)


def _fastest_batch_size(model: TorchModel, x: Inputs, y: Labels, rows: int, ready: Readiness) -> int:
    """The smallest size within a twentieth of the best measured throughput of gradients."""
    speeds: dict[int, float] = {}
    began = time.perf_counter()
    for size in BATCH_SIZES:
        repeats = -(-size // len(x))
        points, labels = x.repeat(repeats, *[1] * (x.dim() - 1))[:size], y.repeat(repeats)[:size]
        try:
            for _ in range(2):  # the first pass of a size pays for set-up
                start = time.perf_counter()
                float(model.gradient(points, _climb(labels)).loss.sum())
                speeds[size] = size / (time.perf_counter() - start)
                ready.forwards += size
                ready.backwards += size
        except (RuntimeError, MemoryError):
            break  # too large for this machine; smaller ones are known to work
        if size >= rows or time.perf_counter() - began > TRIAL_SECONDS:
            break
    best = max(speeds.values(), default=0.0)
    return min((size for size, speed in speeds.items() if speed >= 0.95 * best), default=1)


@contextmanager
def _refusal(subject: str, expected: str) -> Iterator[None]:
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


def _climb(labels: Labels) -> Callable[[Logits], PerRow]:
    return lambda logits: CROSS_ENTROPY.climb(logits, labels)


def _some(values: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]") -> str:
    """The first few of some numbers, and how many there are in all."""
    first = ", ".join(str(int(value)) for value in values[:5])
    return first if len(values) <= 5 else f"{first}, … ({len(values)} in all)"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
