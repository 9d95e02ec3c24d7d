"""A search in flight: the rows that one attempt was given, which of them stand, and what came back for them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from brinell.losses import TargetedLoss
from brinell.models.protocol import Climbed
from brinell.queries import Answer, Gradient, Query, Search
from brinell.shapes import Indices, Inputs, Labels, Logits, PerRow
from brinell.threat import Ball

Outcome = Literal["fell", "stood", "error"]


class Clean(NamedTuple):
    """Some rows as the attacks get them."""

    x: Inputs
    y: Labels
    logits: Logits
    """The model's logits on the clean inputs."""


class Claim(NamedTuple):
    """A point on which the model erred, not yet confirmed by the referee."""

    row: int
    """Index in the data set."""
    point: Tensor
    """The point itself, in input units."""
    prediction: int
    margin: float
    """At the point, in logit units; 0 or below."""


class Attempted(NamedTuple):
    """One attempt on one row that has ended."""

    row: int
    """Index in the data set."""
    outcome: Outcome
    best_margin: float | None
    """Least margin met inside the threat set, in logit units; None if no point was judged."""
    forwards: int
    backwards: int
    reason: str | None
    """Why the attempt ended in an error; None for the others."""


class Step(NamedTuple):
    """What one batch brought."""

    claims: list[Claim]
    attempted: list[Attempted]
    forwards: int
    backwards: int


@dataclass(eq=False)
class InFlight:
    """One search and the state of its rows."""

    search: Search
    rows: Sequence[int]
    ball: Ball
    y: Labels
    standing: Tensor
    answer: Answer
    best_margin: PerRow
    forwards: Indices
    backwards: Indices
    query: Query | None = None
    awaited: int = 0
    fresh: bool = False
    """Whether this query's answer has begun to come in (earlier answers belong to the attack, and stay as they are)."""

    def take(self, positions: Tensor, climbed: Climbed) -> None:
        """Put what came back for some rows into the answer."""
        if len(positions) == len(self.rows):
            self.answer = Answer(climbed.logits, climbed.loss, climbed.grad, self.standing)
        else:
            old = self.answer
            if not self.fresh:
                old = Answer(old.logits.clone(), old.loss.clone(), old.grad.clone(), self.standing)
            old.logits[positions] = climbed.logits
            old.loss[positions] = climbed.loss
            old.grad[positions] = climbed.grad
            self.answer = old
        self.fresh = True
        self.awaited -= len(positions)


class Part(NamedTuple):
    """Some rows of one search, waiting for their turn or in a batch."""

    flight: InFlight
    positions: Tensor


def query_of(part: Part) -> Query:
    """What the part's search waits for."""
    assert part.flight.query is not None
    return part.flight.query


def losses_of(batch: list[Part], logits: Logits, first: int) -> PerRow:
    """The loss of each row of a stretch of the batch, by its own query; ``first`` is the stretch's first row."""
    losses = []
    start = 0
    for part in batch:
        end = start + len(part.positions)
        low, high = max(start, first), min(end, first + len(logits))
        if low < high:
            query = query_of(part)
            assert isinstance(query, Gradient)
            positions = part.positions[low - start : high - start]
            own, y = logits[low - first : high - first], part.flight.y[positions]
            if isinstance(query.loss, TargetedLoss):
                assert query.target is not None
                losses.append(query.loss.climb(own, y, query.target[positions]))
            else:
                losses.append(query.loss.climb(own, y))
        start = end
    return losses[0] if len(losses) == 1 else torch.cat(losses)


def attempted(flight: InFlight, position: int, outcome: Outcome, reason: str | None) -> Attempted:
    """The record of one row whose attempt has ended."""
    best = float(flight.best_margin[position])
    return Attempted(
        row=flight.rows[position],
        outcome=outcome,
        best_margin=best if best < float("inf") else None,
        forwards=int(flight.forwards[position]),
        backwards=int(flight.backwards[position]),
        reason=reason,
    )
