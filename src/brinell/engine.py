"""Runs attacks against a model: every pass is made, judged and counted here.

Continuous batching: several searches (groups of rows) are in flight at once, and the rows of all of them that still stand
are packed into one full batch. A row that falls costs nothing from then on; a search whose rows have all fallen is closed
and the next group is let in. Every point that an attack asks about is judged: if the model errs on it and it lies in the
threat set, the row has fallen, whatever the attack thinks.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch

from brinell.attacks.catalogue import identity
from brinell.draws import Draws
from brinell.errors import BrinellError, ModelFailed
from brinell.flight import (
    Attempted,
    Claim,
    Clean,
    InFlight,
    Kind,
    Outcome,
    Part,
    Step,
    cost_of,
    kind_of,
    losses_of,
    query_of,
)
from brinell.kept import Kept
from brinell.losses import decision, margin_of
from brinell.models.protocol import Climbed, Model
from brinell.queries import Answer, Given, Gradient, Gradients, Scores
from brinell.random import Noise, stream_key
from brinell.rejection import credited
from brinell.shapes import Columns, Indices, Inputs, Labels, Logits, Losses, Mask, PerRow
from brinell.suites.programme import Assignment
from brinell.threat import Threat

KNOWN = 8
"""Clean inputs kept to find out whether a model that raised is broken for good."""

IN_FLIGHT = 2
"""Rows in flight, in batches: with two, a batch is full while the answers of the one before are worked on."""

MOST_GROUPS = 8
"""Groups in flight at most. A group keeps its tensors whole until its last row has ended: where nearly all rows fall at
once, many groups with a few rows each would fill the batches, and memory with them."""


Purpose = Literal["clean", "attack", "select", "control", "score"]
"""What a randomised model is asked for: each purpose has random numbers of its own."""


class _Pass(NamedTuple):
    """One way through the model for a batch."""

    points: Inputs
    """What the model sees."""
    evaluate: Callable[[int, int], Climbed]
    """Passes a stretch of the points through it."""
    rivals: tuple[int, ...] = ()
    """How many losses each row has, where it has several."""


class _Evaluated(NamedTuple):
    """A batch's result; where the model is randomised, the mean over the looks at it."""

    points: Inputs
    """What the model saw."""
    climbed: Climbed
    failures: dict[int, str]
    """Why a row could not be evaluated, by its place in the batch."""
    margin: PerRow
    right: PerRow | None
    """Share of the looks in which the model was right; None where the model is taken for deterministic."""


class Looks(NamedTuple):
    """What a randomised model said of some points in several looks at each."""

    correct: Indices
    """How many looks it was right in."""
    logits: Logits
    """Their mean; not finite where any look was not."""


@dataclass(eq=False)
class Engine:
    """Runs assignments of a suite on one model under one threat model."""

    model: Model
    threat: Threat
    classes: int
    seed: int
    batch_size: int
    """Rows in a full batch; halved for good when memory runs out."""
    pull_in: float = 0.0
    """Where gradients vanish on the faces of the box: how far inside them gradients are taken, in input units."""
    draws: Draws | None = None
    """Set where the model is taken for randomised."""
    shared: bool = False
    """Whether the model draws once for a whole pass: each row is then scored in passes of its own."""
    rejects: bool = False
    """Whether the model has a column more than classes, the score of a rejection, which is credited under attack."""
    session: int = 0
    """Which stretch of work on the run this is; only a randomised model's own random numbers depend on it."""
    watched: frozenset[int] = frozenset()
    """Rows of which the margin at each point is kept; only where the model is deterministic."""
    answered: bool = field(default=False, init=False)
    """Whether the model has answered at all."""
    known: Inputs | None = field(default=None, init=False)
    """A few clean inputs, on which the model has answered before."""
    drawn: int = field(default=0, init=False)
    """Passes made so far with random numbers of the model's own."""

    def run(self, assignment: Assignment, fetch: Callable[[Sequence[int]], Clean]) -> Iterator[Step]:
        """Attempt every row of the assignment, a batch at a time; ``fetch`` brings the rows as they are let in.

        Yields after each batch, so that the caller can record what was found before the next is begun. Without rows
        nothing is yielded.

        Raises
        ------
        ModelFailed
            If memory runs out on a single row.
        """
        waiting = deque(assignment.rows)
        queues: dict[Kind, deque[Part]] = {}
        flights: list[InFlight] = []
        while True:
            ended: list[Attempted] = []
            while waiting and len(flights) < MOST_GROUPS and self._room(flights):
                group = [waiting.popleft() for _ in range(min(self.batch_size, len(waiting)))]
                flight = self._admit(assignment, group, fetch(group))
                flights.append(flight)
                ended += self._advance(flight, queues)
            if not any(queues.values()):
                if ended:
                    yield Step([], ended, 0, 0)
                if not waiting:
                    return
                flights = [flight for flight in flights if flight.query is not None]
                continue
            kind = max(queues, key=lambda kind: sum(part.length for part in queues[kind]))
            batch = self._pack(queues[kind])
            step = self._judge(batch, self._evaluate(batch))
            for flight in {id(part.flight): part.flight for part in batch}.values():
                if flight.awaited == 0:
                    ended += self._advance(flight, queues)
            flights = [flight for flight in flights if flight.query is not None]
            yield step._replace(attempted=step.attempted + ended)

    @property
    def columns(self) -> int:
        """Scores that the model gives a row."""
        return self.classes + self.rejects

    def credited(self, logits: Columns, y: Labels) -> Logits:
        """The model's scores as attacks and judge see them: one for each class."""
        return credited(logits, y) if self.rejects else logits

    def _room(self, flights: list[InFlight]) -> bool:
        """Whether too few rows stand to keep the batches full."""
        return sum(flight.count for flight in flights) < IN_FLIGHT * self.batch_size

    def scores(self, x: Inputs) -> Logits:
        """Logits of some points in batches, outside any attack; the caller counts them. A row that fails is NaN."""
        pieces = [x.new_zeros(0, self.columns)]
        start = 0
        while start < len(x):
            piece = x[start : start + self.batch_size]
            pieces.append(self._bisected(self._scoring(piece), {}).logits)
            start += len(piece)
        return torch.cat(pieces)

    def looks(self, points: Inputs, y: Labels, count: int, purpose: Purpose) -> Looks:
        """Ask a randomised model several times about each point, with random numbers of its own for the purpose."""
        correct = torch.zeros(len(points), dtype=torch.int64, device=points.device)
        logits = points.new_zeros(len(points), self.classes)
        length = 1 if self.shared and purpose in ("clean", "score") else self.batch_size
        for start in range(0, len(points), length):
            here = slice(start, start + length)
            for _ in range(count):
                self._draw(purpose)
                scored = self.scores(points[here])
                correct[here] += margin_of(scored, y[here]) > 0
                logits[here] += scored / count
        return Looks(correct, logits)

    def _draw(self, purpose: Purpose) -> None:
        """Give the model random numbers that were derived for this pass alone."""
        self.drawn += 1
        self.model.reseed(stream_key(f"{self.seed} {purpose} {self.session} {self.drawn}"))

    def _admit(self, assignment: Assignment, rows: Sequence[int], clean: Clean) -> InFlight:
        device = clean.x.device
        self.known = clean.x[:KNOWN].clone() if self.known is None else self.known
        noise = Noise.of(
            seed=self.seed,
            stream=stream_key(identity(assignment.attack)),
            attempt=assignment.attempt,
            rows=torch.tensor(rows, dtype=torch.int64, device=device),
        )
        # the attack gets copies: nothing that it does to them moves a centre or a label
        logits = self.credited(clean.logits, clean.y)
        given = Given(clean.x.clone(), clean.y.clone(), logits, assignment.attempt)
        standing = torch.ones(len(rows), dtype=torch.bool, device=device)
        zeros = clean.x.new_zeros(len(rows))
        return InFlight(
            search=assignment.attack.search(given, self.threat.around(given.x), noise),
            rows=rows,
            ball=self.threat.around(clean.x),
            y=clean.y,
            standing=standing,
            answer=Answer(torch.zeros_like(logits), zeros, torch.zeros_like(clean.x), standing),
            looks=1 if self.draws is None else self.draws.attack,
            traces={place: [] for place, row in enumerate(rows) if row in self.watched},
            kept=None if self.draws is None else Kept.around(clean.x, self.draws.kept),
            length=assignment.attack.cost().forwards // assignment.attack.attempts(),
        )

    def _advance(self, flight: InFlight, queues: dict[Kind, deque[Part]]) -> list[Attempted]:
        """Hand the search its answer and queue what it asks next; the records of its rows if it has ended."""
        outcome: Outcome = "stood" if self.draws is None else "proposed"
        reason = None
        if flight.count > 0:
            try:
                with torch.no_grad():
                    query = next(flight.search) if flight.query is None else flight.search.send(_told(flight))
                if query.points.shape != flight.ball.x.shape:
                    raise ValueError(f"points of shape {tuple(query.points.shape)} for rows {flight.ball.x.shape}")
                flight.ask(query)
                queues.setdefault(kind_of(query), deque()).append(Part(flight, 0, flight.awaited))
                return []
            except StopIteration:
                pass
            except Exception as error:  # an attack that crashes must cost its rows, not the run
                if is_out_of_memory(error):
                    raise
                outcome, reason = "error", f"attack crashed: {type(error).__name__}: {error}"
        flight.search.close()
        left = flight.standing[flight.positions].nonzero().squeeze(1).tolist()
        ended = [flight.ended(place, outcome, reason) for place in left]
        flight.query = None
        return ended

    def _pack(self, queue: deque[Part]) -> list[Part]:
        """Take waiting rows, the longest waiting first, until the batch is full."""
        batch, room = [], self.batch_size
        while queue and room > 0:
            part = queue.popleft()
            if part.length > room:
                queue.appendleft(part._replace(low=part.low + room))
                part = part._replace(high=part.low + room)
            batch.append(part)
            room -= part.length
        return batch

    def _evaluate(self, batch: list[Part]) -> _Evaluated:
        points = torch.cat([part.flight.points_here[part.low : part.high] for part in batch])
        y = torch.cat([part.flight.y_here[part.low : part.high] for part in batch])
        query = query_of(batch[0])
        if isinstance(query, Scores):
            return self._looked_at(self._scoring(points), y)
        if self.pull_in > 0:
            points = points.clamp(self.threat.low + self.pull_in, self.threat.high - self.pull_in)

        def climbed(start: int, end: int) -> Climbed:
            seen = y[start:end]
            return self.model.gradient(
                points[start:end], lambda logits: _climb(batch, self.credited(logits, seen), start), slope
            )

        slope = query.slope if isinstance(query, Gradient) else "own"
        rivals = tuple(query.targets.shape[1:]) if isinstance(query, Gradients) else ()
        return self._looked_at(_Pass(points, climbed, rivals), y)

    def _looked_at(self, way: _Pass, y: Labels) -> _Evaluated:
        """Evaluate a batch; where the model is randomised as often as the suite says, for the mean of what it answers."""
        points, failures = way.points, dict[int, str]()
        if self.draws is None:
            climbed = self._bisected(way, failures)
            climbed = climbed._replace(logits=self.credited(climbed.logits, y))
            return _Evaluated(points, climbed, failures, margin_of(climbed.logits, y), None)
        looks = self.draws.attack
        means: Climbed | None = None
        margin, right = points.new_zeros(len(points)), points.new_zeros(len(points))
        for _ in range(looks):
            self._draw("attack")
            share = Climbed(*(piece / looks for piece in self._bisected(way, failures)))
            means = share if means is None else Climbed(*(a + b for a, b in zip(means, share, strict=True)))
            own = margin_of(share.logits, y)
            margin, right = margin + own, right + (own > 0).to(right.dtype) / looks
        assert means is not None
        return _Evaluated(points, means, failures, margin, right.where(margin.isfinite(), torch.nan))

    def _scoring(self, points: Inputs) -> _Pass:
        return _Pass(points, lambda start, end: _unclimbed(points[start:end], self.model))

    def _bisected(self, way: _Pass, failures: dict[int, str]) -> Climbed:
        """Evaluate all points at once, or where the model raises in halves, down to the rows that it fails on.

        Why it failed on a row is added to ``failures``.
        """
        points, evaluate = way.points, way.evaluate
        pieces: list[Climbed] = []
        spans = [(0, len(points))]
        while spans:
            start, end = spans.pop()
            alone = end - start == 1
            try:
                pieces.append(evaluate(start, end))
                self.answered = True
                continue
            except BrinellError:
                raise
            except Exception as error:  # whatever a user's model raises belongs to the rows that it was given
                if is_out_of_memory(error):
                    if alone:
                        raise _failed(error, "one row", "a model that fits into memory with one row") from error
                    self.batch_size = min(self.batch_size, (end - start) // 2)
                elif alone:
                    failures[start] = _blamed(error)
                    whole = len(failures) == len(points) > 1 and not isinstance(error, _LossRaised)
                    if whole and not self._answers_still():
                        raise _failed(error, f"all of {len(points)} rows", "a model that takes these inputs") from error
                    pieces.append(_unknown(points[start:end], self.columns, way.rivals))
                    continue
            middle = (start + end) // 2
            spans += [(middle, end), (start, middle)]
        return pieces[0] if len(pieces) == 1 else Climbed(*(torch.cat(parts) for parts in zip(*pieces, strict=True)))

    def _answers_still(self) -> bool:
        """Whether the model, having raised on a whole batch, still answers where it has answered before.

        If so the rows of the batch are to blame; if not the model is, and going on would only mark every row as an error.
        """
        if self.known is None:
            return self.answered
        for row in range(len(self.known)):
            x = self.known[row : row + 1]
            with suppress(Exception):
                self.model.scores(x)
                self.model.gradient(x, lambda logits: logits.sum(dim=1))
                return True
        return False

    def _judge(self, batch: list[Part], evaluated: _Evaluated) -> Step:
        """Count the passes, find the rows that fell or cannot be judged, and hand each search its share."""
        climbed, margin = evaluated.climbed, evaluated.margin
        passes = cost_of(query_of(batch[0])).times(len(evaluated.points) * batch[0].flight.looks)
        step = Step([], [], *passes)
        readable = _finite(climbed.logits)
        usable = readable & _finite(climbed.grad) if passes.backwards else readable
        quiet = bool((usable if evaluated.right is not None else usable & (margin > 0)).all())
        if not quiet:
            margin = margin.where(readable, torch.nan)
        start = 0
        for part in batch:
            here = slice(start, start + part.length)
            part.flight.keep_best(part.low, part.high, margin[here])
            part.flight.watch(part.low, part.high, margin[here])
            if evaluated.right is not None:
                part.flight.keep(part.low, part.high, evaluated.right[here], margin[here])
            if not quiet:
                self._sort_out(part, here, evaluated, margin[here], usable[here], step)
            part.flight.take(part.low, part.high, Climbed(*(piece[here] for piece in climbed)))
            start = here.stop
        return step

    def _sort_out(
        self, part: Part, here: slice, evaluated: _Evaluated, margin: PerRow, usable: Mask, step: Step
    ) -> None:
        """Claim the rows of a part that fell, and end those that cannot be judged."""
        flight = part.flight
        points, logits = evaluated.points[here], evaluated.climbed.logits[here]
        fell = margin <= 0 if evaluated.right is None else torch.zeros_like(usable)
        places = fell.nonzero().squeeze(1)
        fell[places] = self.threat.contains(flight.ball_here.x[places + part.low], points[places])
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


def _told(flight: InFlight) -> Answer:
    """The answer as the attack gets it: which rows stand is a copy, for the engine goes on to change its own."""
    answer = flight.answer
    return Answer(answer.logits, answer.loss, answer.grad, flight.standing.clone())


class _LossRaised(Exception):
    """An attack's loss raised: the attack's fault, not the model's."""


def _climb(batch: list[Part], logits: Logits, first: int) -> Losses:
    try:
        return losses_of(batch, logits, first)
    except Exception as error:  # whatever an attack's loss raises belongs to the attack
        raise _LossRaised(f"{type(error).__name__}: {error}") from error


def _blamed(error: Exception) -> str:
    """Why a row could not be evaluated, in words."""
    if isinstance(error, _LossRaised):
        return f"attack crashed: {error}"
    return f"model raised {type(error).__name__}: {error}"


def is_out_of_memory(error: Exception) -> bool:
    """Whether memory ran out, on an accelerator or on the host."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)


def _unclimbed(points: Inputs, model: Model) -> Climbed:
    nothing = points.new_zeros(())
    return Climbed(model.scores(points), nothing.expand(len(points)), nothing.expand(points.shape))


def _unknown(points: Inputs, classes: int, rivals: tuple[int, ...]) -> Climbed:
    """What stands for the answer to a row that the model fails on; ``rivals`` is empty, or how many losses it has."""
    unknown = points.new_full((len(points), classes), torch.nan)
    loss = points.new_full((len(points), *rivals), torch.nan)
    return Climbed(unknown, loss, points.new_zeros(len(points), *rivals, *points.shape[1:]))


def _failed(error: Exception, on: str, expected: str) -> ModelFailed:
    return ModelFailed(
        "model",
        got=f"{type(error).__name__} on {on}: {error}",
        expected=expected,
        remedy="Call the model by hand on one row of the data, with the device and dtype that you gave.",
    )
