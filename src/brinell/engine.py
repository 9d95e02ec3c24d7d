"""Runs attacks against a model: every pass is made, judged and counted here.

Continuous batching: several searches (groups of rows) are in flight at once, and the rows of all of them that still stand
are packed into one full batch. A row that falls costs nothing from then on; a search whose rows have all fallen is closed
and the next group is let in. Every point that an attack asks about is judged: if the model errs on it and it lies in the
threat set, the row has fallen, whatever the attack thinks.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from brinell.attacks.catalogue import identity
from brinell.errors import BrinellError, ModelFailed
from brinell.flight import Attempted, Claim, Clean, InFlight, Outcome, Part, Step, attempted, losses_of, query_of
from brinell.losses import margin_of
from brinell.models.protocol import Climbed, Model
from brinell.queries import Answer, Given, Gradient, Scores
from brinell.random import Noise, stream_key
from brinell.shapes import Inputs, Logits, PerRow
from brinell.suites.suite import Assignment
from brinell.threat import Threat

IN_FLIGHT = 2
"""Rows in flight, in batches: with two, a batch is full while the answers of the one before are worked on."""


class _Evaluated(NamedTuple):
    """A batch's result."""

    points: Inputs
    """What the model saw."""
    climbed: Climbed
    failures: dict[int, str]
    """Why a row could not be evaluated, by its place in the batch."""


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
        queues: dict[type, deque[Part]] = {}
        flights: list[InFlight] = []
        while True:
            ended: list[Attempted] = []
            while waiting and sum(int(flight.standing.sum()) for flight in flights) < IN_FLIGHT * self.batch_size:
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
            kind = max(queues, key=lambda kind: sum(len(part.positions) for part in queues[kind]))
            batch = self._pack(queues[kind])
            step = self._judge(batch, self._evaluate(batch))
            for flight in {id(part.flight): part.flight for part in batch}.values():
                if flight.awaited == 0:
                    ended += self._advance(flight, queues)
            flights = [flight for flight in flights if flight.query is not None]
            yield step._replace(attempted=step.attempted + ended)

    def scores(self, x: Inputs) -> Logits:
        """Logits of some points in batches, outside any attack; the caller counts them. A row that fails is NaN."""
        pieces = [x.new_zeros(0, self.classes)]
        start = 0
        while start < len(x):
            piece = x[start : start + self.batch_size]
            evaluated = self._scored(piece)
            pieces.append(evaluated.climbed.logits)
            start += len(piece)
        return torch.cat(pieces)

    def _admit(self, assignment: Assignment, rows: Sequence[int], clean: Clean) -> InFlight:
        ball = self.threat.around(clean.x)
        device = clean.x.device
        noise = Noise.of(
            seed=self.seed,
            stream=stream_key(identity(assignment.attack)),
            attempt=assignment.attempt,
            rows=torch.tensor(rows, dtype=torch.int64, device=device),
        )
        given = Given(clean.x, clean.y, clean.logits, assignment.attempt)
        standing = torch.ones(len(rows), dtype=torch.bool, device=device)
        zeros = clean.x.new_zeros(len(rows))
        return InFlight(
            search=assignment.attack.search(given, ball, noise),
            rows=rows,
            ball=ball,
            y=clean.y,
            standing=standing,
            answer=Answer(torch.zeros_like(clean.logits), zeros, torch.zeros_like(clean.x), standing),
            best_margin=torch.full_like(zeros, torch.inf),
            forwards=torch.zeros(len(rows), dtype=torch.int64, device=device),
            backwards=torch.zeros(len(rows), dtype=torch.int64, device=device),
        )

    def _advance(self, flight: InFlight, queues: dict[type, deque[Part]]) -> list[Attempted]:
        """Hand the search its answer and queue what it asks next; the records of its rows if it has ended."""
        positions = flight.standing.nonzero().squeeze(1)
        outcome: Outcome = "stood"
        reason = None
        if len(positions) > 0:
            try:
                with torch.no_grad():
                    if flight.query is None:
                        query = next(flight.search)
                    else:
                        answer = flight.answer
                        query = flight.search.send(
                            Answer(answer.logits, answer.loss, answer.grad, flight.standing.clone())
                        )
                if query.points.shape != flight.ball.x.shape:
                    raise ValueError(f"points of shape {tuple(query.points.shape)} for rows {flight.ball.x.shape}")
                flight.query, flight.awaited, flight.fresh = query, len(positions), False
                queues.setdefault(type(query), deque()).append(Part(flight, positions))
                return []
            except StopIteration:
                pass
            except Exception as error:  # an attack that crashes must cost its rows, not the run
                outcome, reason = "error", f"attack crashed: {type(error).__name__}: {error}"
        flight.search.close()
        flight.query = None
        return [attempted(flight, int(position), outcome, reason) for position in positions]

    def _pack(self, queue: deque[Part]) -> list[Part]:
        """Take waiting rows, the longest waiting first, until the batch is full."""
        batch, room = [], self.batch_size
        while queue and room > 0:
            flight, positions = queue.popleft()
            if len(positions) > room:
                queue.appendleft(Part(flight, positions[room:]))
                positions = positions[:room]
            batch.append(Part(flight, positions))
            room -= len(positions)
        return batch

    def _evaluate(self, batch: list[Part]) -> _Evaluated:
        points = torch.cat([query_of(part).points[part.positions] for part in batch])
        if isinstance(query_of(batch[0]), Scores):
            return self._scored(points)
        if self.pull_in > 0:
            points = points.clamp(self.threat.low + self.pull_in, self.threat.high - self.pull_in)

        def climbed(start: int, end: int) -> Climbed:
            return self.model.gradient(points[start:end], lambda logits: losses_of(batch, logits, start))

        return self._bisected(points, climbed)

    def _scored(self, points: Inputs) -> _Evaluated:
        return self._bisected(points, lambda start, end: _unclimbed(points[start:end], self.model))

    def _bisected(self, points: Inputs, evaluate: Callable[[int, int], Climbed]) -> _Evaluated:
        """Evaluate all points at once, or where the model raises in halves, down to the rows that it fails on."""
        pieces: list[Climbed] = []
        failures: dict[int, str] = {}
        spans = [(0, len(points))]
        while spans:
            start, end = spans.pop()
            alone = end - start == 1
            try:
                pieces.append(evaluate(start, end))
                continue
            except BrinellError:
                raise
            except Exception as error:  # whatever a user's model raises belongs to the rows that it was given
                if is_out_of_memory(error):
                    if alone:
                        raise _failed(error, "one row", "a model that fits into memory with one row") from error
                    self.batch_size = min(self.batch_size, (end - start) // 2)
                elif alone:
                    failures[start] = f"model raised {type(error).__name__}: {error}"
                    if len(failures) == len(points) > 1:
                        raise _failed(error, f"all of {len(points)} rows", "a model that takes these inputs") from error
                    pieces.append(_unknown(points[start:end], self.classes))
                    continue
            middle = (start + end) // 2
            spans += [(middle, end), (start, middle)]
        climbed = pieces[0] if len(pieces) == 1 else Climbed(*(torch.cat(parts) for parts in zip(*pieces, strict=True)))
        return _Evaluated(points, climbed, failures)

    def _judge(self, batch: list[Part], evaluated: _Evaluated) -> Step:
        """Count the passes, find the rows that fell or cannot be judged, and hand each search its share."""
        points, climbed, failures = evaluated
        climbing = isinstance(query_of(batch[0]), Gradient)
        y = torch.cat([part.flight.y[part.positions] for part in batch])
        margin = margin_of(climbed.logits, y)
        readable = climbed.logits.isfinite().all(dim=1)
        usable = readable & climbed.grad.flatten(1).isfinite().all(dim=1) if climbing else readable
        step = Step([], [], len(points), len(points) if climbing else 0)
        start = 0
        for flight, positions in batch:
            end = start + len(positions)
            flight.forwards[positions] += 1
            flight.backwards[positions] += int(climbing)
            own, own_margin = points[start:end], margin[start:end]
            self._keep_best(flight, positions, own, own_margin)
            fell = readable[start:end] & (own_margin <= 0)
            if bool(fell.any()):
                fell &= self.threat.contains(flight.ball.x[positions], own)
            for place in fell.nonzero().squeeze(1).tolist():
                position = int(positions[place])
                prediction = int(climbed.logits[start + place].argmax())
                claim = Claim(flight.rows[position], own[place].clone(), prediction, float(own_margin[place]))
                step.claims.append(claim)
                step.attempted.append(attempted(flight, position, "fell", None))
            lost = ~usable[start:end] & ~fell
            for place in lost.nonzero().squeeze(1).tolist():
                reason = failures.get(start + place, _unusable(bool(readable[start + place])))
                step.attempted.append(attempted(flight, int(positions[place]), "error", reason))
            flight.standing[positions] = ~(fell | lost)
            flight.take(positions, Climbed(*(part[start:end] for part in climbed)))
            start = end
        return step

    def _keep_best(self, flight: InFlight, positions: Tensor, points: Inputs, margin: PerRow) -> None:
        """Least margin per row over the points inside the threat set; a NaN is never the least."""
        better = margin < flight.best_margin[positions]
        if bool(better.any()):
            better &= flight.ball.holds(points, positions)
            flight.best_margin[positions] = torch.where(better, margin, flight.best_margin[positions])


def is_out_of_memory(error: Exception) -> bool:
    """Whether memory ran out, on an accelerator or on the host."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)


def _unclimbed(points: Inputs, model: Model) -> Climbed:
    nothing = points.new_zeros(())
    return Climbed(model.scores(points), nothing.expand(len(points)), nothing.expand(points.shape))


def _unknown(points: Inputs, classes: int) -> Climbed:
    unknown = points.new_full((len(points), classes), torch.nan)
    return Climbed(unknown, unknown[:, 0], torch.zeros_like(points))


def _unusable(readable: bool) -> str:
    return "non-finite gradient" if readable else "non-finite logits"


def _failed(error: Exception, on: str, expected: str) -> ModelFailed:
    return ModelFailed(
        "model",
        got=f"{type(error).__name__} on {on}: {error}",
        expected=expected,
        remedy="Call the model by hand on one row of the data, with the device and dtype that you gave.",
    )
