"""Whether there is a gradient to follow: zero, noise, or hidden on the faces of the box."""

import torch

from brinell.draws import Draws
from brinell.losses import cross_entropy_of
from brinell.models.torch_model import TorchModel
from brinell.random import Noise, stream_key
from brinell.readiness import Readiness
from brinell.shapes import Inputs, Labels, Logits
from brinell.threat import Threat

WEAK_SIGNAL = 0.3
"""Cosine between two halves of an attack's draws below which their mean gradient is mostly noise."""
PULL_IN = 1e-6
"""How far inside the box gradients are taken where its faces mask them, as a fraction of the box's width."""


def check_gradients(model: TorchModel, x: Inputs, y: Labels, ready: Readiness) -> None:
    """Refuse a model without gradients; note rows whose gradient is zero or not finite."""
    logits, _, grad = model.gradient(x, cross_entropy_of(y))
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


def find_underflow(model: TorchModel, x: Inputs, y: Labels, ready: Readiness) -> None:
    """Where cross-entropy has no gradient, see whether it has one in float64; if so, losses are climbed there so."""
    if "zero-gradients" not in ready.findings:
        return
    counts = []
    for precision in ("own", "float64"):
        model.loss_precision = precision
        try:
            grad = model.gradient(x, cross_entropy_of(y)).grad
        finally:
            model.loss_precision = "own"
        ready.forwards += len(x)
        ready.backwards += len(x)
        counts.append(int((grad.flatten(1) == 0).all(dim=1).sum()))
    before, after = counts
    if after < before:
        ready.loss_precision = "float64"
        ready.notes.append(
            f"in float64 cross-entropy has a gradient on {before - after} of these {before} rows: where the slope of a loss "
            "by the logits underflows, attacks take it in float64"
        )


def check_signal(model: TorchModel, x: Inputs, y: Labels, draws: Draws, ready: Readiness) -> None:
    """Say how far the mean gradient over an attack's draws is a direction, and how far it is noise."""
    halves = []
    each = max(draws.attack // 2, 1)
    for _ in range(2):
        halves.append(
            sum((model.gradient(x, cross_entropy_of(y)).grad for _ in range(each)), torch.zeros_like(x)).flatten(1)
        )
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
            why = f"gradients on the faces of the box could not be tried ({type(error).__name__}: {error})"
            ready.skip(why, "clamped-inputs")
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
