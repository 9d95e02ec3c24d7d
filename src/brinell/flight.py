"""A search in flight: the rows that one attempt was given, which of them stand, and what came back for them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from brinell.kept import Kept
from brinell.models.protocol import Climbed
from brinell.queries import Answer, Cost, Gradient, Gradients, Query, Scores, Search
from brinell.shapes import Indices, Inputs, Labels, Logits, Mask, PerRow
from brinell.threat import Ball
from brinell.waypoints import Waypoint, waypoints

Outcome = Literal["fell", "stood", "proposed", "error"]


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
    kept: Inputs | None = None
    """Points ``(stretch, *feature)`` that are worth another look, where the model is randomised."""
    trace: tuple[Waypoint, ...] = ()
    """Of a watched row, what was taken down at each point of the attempt."""


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
    """Indices in the data set."""
    ball: Ball
    y: Labels
    standing: Mask
    answer: Answer
    looks: int = 1
    """Passes over each point of a query."""
    kept: Kept | None = None
    """Set where the model is randomised: no row falls then."""
    traces: dict[int, list[Waypoint]] = field(default_factory=dict)
    """What was taken down so far of the rows that are watched, by their position among the search's rows."""
    length: int = 1
    """Forward passes of a row that goes through the whole attempt, a look counted once."""
    query: Query | None = None
    positions: Indices = field(init=False)
    """Places, among the search's rows, of those that stood when the query came; a part is a stretch of these."""
    ball_here: Ball = field(init=False)
    """The threat sets of the rows at ``positions``."""
    y_here: Labels = field(init=False)
    best_here: PerRow = field(init=False)
    """Least margin that each of them has met inside the threat set."""
    points_here: Inputs = field(init=False)
    """The query's points for them."""
    inside_here: Mask = field(init=False)
    """Which of these points lie in the threat set."""
    seats: list[tuple[int, int]] = field(init=False)
    """Of each watched row among them its position among the search's rows, and its place in ``positions``."""
    count: int = field(init=False)
    """Rows that stand."""
    made: Cost = field(default_factory=lambda: Cost(0, 0))
    """Passes made on each row that still stands, the query under way not counted."""
    awaited: int = 0
    """Rows whose part of the query is still out."""
    begun: bool = False
    """Whether this query's answer has begun to come in (earlier answers belong to the attack, and stay as they are)."""

    def __post_init__(self) -> None:
        self.positions = torch.arange(len(self.rows), device=self.y.device)
        self.ball_here, self.y_here, self.count = self.ball, self.y, len(self.rows)
        self.best_here = self.ball.x.new_full((len(self.rows),), torch.inf)
        self.seats = self._seated()

    def ask(self, query: Query) -> None:
        """Take the next query; rows that have fallen since the last one are left out from now on."""
        if self.query is not None:
            self.made = self.made + cost_of(self.query).times(self.looks)
        if self.count < len(self.positions):
            stays = self.standing[self.positions]
            self.positions, self.best_here = self.positions[stays], self.best_here[stays]
            self.ball_here, self.y_here = self.ball.at(self.positions), self.y[self.positions]
            self.seats = self._seated()
        everywhere = len(self.positions) == len(self.rows)
        self.points_here = query.points if everywhere else query.points[self.positions]
        self.inside_here = self.ball_here.holds(self.points_here)
        self.query, self.awaited, self.begun = query, len(self.positions), False

    def keep(self, low: int, high: int, right: PerRow, margin: PerRow) -> None:
        """Offer the points of a stretch of rows, with what came back for them, to those that are kept."""
        assert self.kept is not None
        stretches = self.kept.right.shape[1]
        stretch = min(self.made.forwards // self.looks * stretches // max(self.length, 1), stretches - 1)
        here = slice(low, high)
        self.kept.offer(self.positions[here], stretch, self.points_here[here], right, margin, self.inside_here[here])

    def leave(self, gone: Mask, low: int, high: int) -> None:
        """Take note that some of a stretch of rows no longer stand."""
        self.standing[self.positions[low:high]] = ~gone
        self.count -= int(gone.sum())

    def take(self, low: int, high: int, climbed: Climbed) -> None:
        """Put what came back for a stretch of rows into the answer."""
        if high - low == len(self.rows):
            self.answer = Answer(climbed.logits, climbed.loss, climbed.grad, self.standing)
        else:
            if not self.begun:
                logits, loss, grad = (piece.new_zeros(len(self.rows), *piece.shape[1:]) for piece in climbed)
                self.answer = Answer(logits, loss, grad, self.standing)
            places = self.positions[low:high]
            self.answer.logits.index_copy_(0, places, climbed.logits)
            self.answer.loss.index_copy_(0, places, climbed.loss)
            self.answer.grad.index_copy_(0, places, climbed.grad)
        self.begun = True
        self.awaited -= high - low

    def keep_best(self, low: int, high: int, margin: PerRow) -> None:
        """Lower the least margin of a stretch of rows where a point inside the threat set gave less; NaN never is less."""
        best = self.best_here[low:high]
        torch.fmin(best, margin.where(self.inside_here[low:high], torch.inf), out=best)

    def watch(self, low: int, high: int, margin: PerRow, climbed: Climbed) -> None:
        """Take down what a stretch of rows met, for those that are watched."""
        watched = [(position, place) for position, place in self.seats if low <= place < high]
        if not watched:
            return
        places = torch.tensor([place for _, place in watched], device=margin.device)
        ball, points, inside = self.ball_here.at(places), self.points_here[places], self.inside_here[places]
        places = places - low
        answered = None if isinstance(self.query, Scores) else Climbed(*(piece[places] for piece in climbed))
        met = waypoints(points, ball, inside, margin[places], answered)
        for (position, _), waypoint in zip(watched, met, strict=True):
            self.traces[position].append(waypoint)

    def _seated(self) -> list[tuple[int, int]]:
        """Position and place of each watched row that stands."""
        if not self.traces:
            return []
        places = {position: place for place, position in enumerate(self.positions.tolist())}
        return [(position, places[position]) for position in self.traces if position in places]

    def ended(self, place: int, outcome: Outcome, reason: str | None) -> Attempted:
        """The record of the row at a place of ``positions`` whose attempt has ended, with the query under way."""
        best, position = float(self.best_here[place]), int(self.positions[place])
        made = self.made + cost_of(self.query).times(self.looks) if self.query is not None else self.made
        return Attempted(
            row=self.rows[position],
            outcome=outcome,
            best_margin=best if best < float("inf") else None,
            forwards=made.forwards,
            backwards=made.backwards,
            reason=reason,
            kept=self.kept.points[position] if self.kept is not None and outcome == "proposed" else None,
            trace=tuple(self.traces.pop(position, ())),
        )


def cost_of(query: Query) -> Cost:
    """The passes that a query makes on each row, in one look."""
    if isinstance(query, Gradients):
        return Cost(1, query.targets.shape[1])
    return Cost(1, 1) if isinstance(query, Gradient) else Cost(1, 0)
