"""What a run will cost, before it is begun: passes by the attacks' cards, time by the bare model on this machine."""

import time
from dataclasses import dataclass

import torch

from brinell.affordable import refuse_small
from brinell.attacks.catalogue import title
from brinell.before.surrogate import usable
from brinell.budget import Budget
from brinell.losses import CROSS_ENTROPY
from brinell.preflight import preflight
from brinell.queries import Cost
from brinell.subject import Subject
from brinell.suites.further import further

ROUNDS = 3


@dataclass(frozen=True)
class Plan:
    """A forecast. The truth lies between the two ends: each row that falls costs nothing from then on."""

    rows: int
    classes: int
    batch_size: int
    attacks: tuple[tuple[str, int, Cost], ...]
    """Title, attempts, and passes for one row that stands to the end."""
    falling: bool
    """Whether rows can fall; those of a randomised model are scored instead."""
    most: Cost
    """Passes if every row stands to the end."""
    least_forwards: int
    """Passes if every row falls to its first query: one on the clean row, one to break it, one by the referee; for a
    randomised model, if it is never right: those that score clean input and chosen point."""
    forward_seconds: float
    """One forward pass of one row, in a full batch."""
    gradient_seconds: float
    """One forward and one backward pass of one row, in a full batch."""
    budget: Budget | None
    """What may be spent; None: what the suite asks for."""
    notes: tuple[str, ...]

    @property
    def cut_at(self) -> tuple[int, float] | None:
        """After how many passes, and about what time, the budget ends the attacks if every row stands; None: it does not.

        A pass of a cut run is taken for the mean pass of the whole one.
        """
        passes = self.most.forwards + self.most.backwards
        if self.budget is None:
            return None
        allowed, seconds = self.budget.passes(self.rows), self.budget.seconds
        if seconds is not None:
            allowed = int(passes * seconds / max(self.most_seconds, 1e-9))
        assert allowed is not None
        return (allowed, self.most_seconds * allowed / passes) if allowed < passes else None

    @property
    def most_seconds(self) -> float:
        """Time if every row stands to the end, by the bare model's speed."""
        alone = self.most.forwards - self.most.backwards
        return self.most.backwards * self.gradient_seconds + alone * self.forward_seconds


def plan_of(subject: Subject) -> Plan:
    """Check everything, time the bare model on a batch, and add up; attacks nothing.

    Raises
    ------
    BadInput
        As a run would, before its first attack.
    """
    subject.suite.check(subject.threat.norm)
    if subject.budget is not None:
        refuse_small(subject.budget, subject)
    asked = subject.suite.within(subject.threat.norm)
    ready = preflight(subject.model, subject.rows, subject.threat, asked.draws, batch_size=subject.batch_size)
    surrogate = usable(subject.surrogate, subject.model, subject.rows, asked.draws, ready)
    fitted = asked.fit(ready.classes)
    suite = further(fitted, ready.bypassed, surrogate, ready.classes)
    forward, gradient = _seconds_per_row(subject, ready.batch_size)
    rows = len(subject.rows)
    return Plan(
        rows=rows,
        classes=ready.classes,
        batch_size=ready.batch_size,
        attacks=tuple(
            (title(attack), attack.attempts(), suite.cost_at(stage, rows)) for stage, attack in enumerate(suite.attacks)
        ),
        falling=suite.draws is None,
        most=(suite.passes(rows) if subject.threat.eps > 0 else suite.without_attack()).times(rows),
        least_forwards=(3 if suite.draws is None else 2 * suite.draws.score) * rows,
        forward_seconds=forward,
        gradient_seconds=gradient,
        budget=subject.budget,
        notes=(*ready.notes, *asked.replacements(fitted), *_not_forecast(subject)),
    )


def _not_forecast(subject: Subject) -> list[str]:
    """What a run would do before its attacks, and nobody can foresee."""
    if subject.certify is None:
        return []
    most = subject.certify.seconds * len(subject.rows)
    said = f"certificates by {subject.certify.method} come first, {most:,.0f} s at the most"
    return [f"{said}; the passes of the rows that they settle are not taken off here"]


def _seconds_per_row(subject: Subject, batch_size: int) -> tuple[float, float]:
    """Fastest of a few rounds, for a forward pass and for a forward and a backward pass."""
    model, rows = subject.model, subject.rows
    places = [place % len(rows) for place in range(batch_size)]
    x = torch.from_numpy(rows.x[places]).to(model.device, model.dtype)
    y = torch.from_numpy(rows.y[places]).to(model.device)
    forward, gradient = [], []
    with model.undisturbed():
        for _ in range(ROUNDS):
            start = time.perf_counter()
            float(model.scores(x).sum())
            middle = time.perf_counter()
            float(model.gradient(x, lambda logits: CROSS_ENTROPY.climb(logits, y)).loss.sum())
            forward.append(middle - start)
            gradient.append(time.perf_counter() - middle)
    return min(forward) / batch_size, min(gradient) / batch_size
