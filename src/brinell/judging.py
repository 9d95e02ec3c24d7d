"""Which rows a batch brought down: every point that was asked about is judged, whatever the attack thinks of it."""

import torch

from brinell.flight import Claim, Step, cost_of
from brinell.losses import decision
from brinell.models.protocol import Climbed
from brinell.oracle import Evaluated
from brinell.packing import Part, query_of
from brinell.shapes import Inputs, Mask
from brinell.threat import Threat


def judged(batch: list[Part], evaluated: Evaluated, threat: Threat) -> Step:
    """Count the passes, find the rows that fell or cannot be judged, and hand each search its share."""
    climbed, margin = evaluated.climbed, evaluated.margin
    passes = cost_of(query_of(batch[0])).times(len(evaluated.points) * batch[0].flight.looks)
    step = Step([], [], *passes)
    readable = _finite(climbed.logits)
    usable = readable & _finite(climbed.grad) if passes.backwards else readable
    quiet = bool((usable if evaluated.right is not None else usable & (margin > 0)).all())
    if not quiet:
        margin = margin.where(readable, torch.nan)
        evaluated = evaluated._replace(margin=margin)
    start = 0
    for part in batch:
        here = slice(start, start + part.length)
        part.flight.keep_best(part.low, part.high, margin[here])
        answered = Climbed(*(piece[here] for piece in climbed))
        part.flight.watch(part.low, part.high, margin[here], answered)
        if evaluated.right is not None:
            part.flight.keep(part.low, part.high, evaluated.right[here], margin[here])
        if not quiet:
            _sort_out(part, here, evaluated, usable[here], threat, step)
        part.flight.take(part.low, part.high, answered)
        start = here.stop
    return step


def _sort_out(part: Part, here: slice, evaluated: Evaluated, usable: Mask, threat: Threat, step: Step) -> None:
    """Claim the rows of a part that fell, and end those that cannot be judged."""
    flight = part.flight
    points, logits, margin = evaluated.points[here], evaluated.climbed.logits[here], evaluated.margin[here]
    fell = margin <= 0 if evaluated.right is None else torch.zeros_like(usable)
    places = fell.nonzero().squeeze(1)
    fell[places] = threat.contains(flight.ball_here.x[places + part.low], points[places])
    decided = decision(logits, flight.y_here[part.low : part.high])
    witnesses = points[fell]
    for place, point in zip(fell.nonzero().squeeze(1).tolist(), witnesses, strict=True):
        ended = flight.ended(part.low + place, "fell", None)
        step.claims.append(Claim(ended.row, point, int(decided[place]), float(margin[place])))
        step.attempted.append(ended)
    lost = ~usable & ~fell
    for place in lost.nonzero().squeeze(1).tolist():
        unusable = "non-finite gradient" if bool(margin[place].isfinite()) else "non-finite logits"
        reason = evaluated.failures.get(here.start + place, unusable)
        step.attempted.append(flight.ended(part.low + place, "error", reason))
    flight.leave(fell | lost, part.low, part.high)


def _finite(values: Inputs) -> Mask:
    """Which rows are finite throughout; a finite sum, which is cheap, says that all are."""
    if bool(values.sum().isfinite()):
        return torch.ones(len(values), dtype=torch.bool, device=values.device)
    return values.flatten(1).isfinite().all(dim=1)
