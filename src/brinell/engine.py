"""Runs attacks against a model: every pass is made, judged and counted here.

Continuous batching: several searches (groups of rows) are in flight at once, and the rows of all of them that still stand
are packed into one full batch. A row that falls costs nothing from then on; a search whose rows have all fallen is closed
and the next group is let in. Every point that an attack asks about is judged: if the model errs on it and it lies in the
threat set, the row has fallen, whatever the attack thinks.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from brinell.attacks.catalogue import identity
from brinell.flight import Attempted, Clean, InFlight, Outcome, Step
from brinell.judging import judged
from brinell.kept import Kept
from brinell.oracle import Evaluated, Oracle, is_out_of_memory
from brinell.packing import Kind, Part, kind_of, losses_of, packed, query_of
from brinell.queries import Answer, Given, Gradient, Gradients, Scores
from brinell.random import Noise, stream_key
from brinell.suites.programme import Assignment
from brinell.threat import Threat

KNOWN = 8
"""Clean inputs kept to find out whether a model that raised is broken for good."""

IN_FLIGHT = 2
"""Rows in flight, in batches: with two, a batch is full while the answers of the one before are worked on."""

MOST_GROUPS = 8
"""Groups in flight at most. A group keeps its tensors whole until its last row has ended: where nearly all rows fall at
once, many groups with a few rows each would fill the batches, and memory with them."""


@dataclass(eq=False)
class Engine:
    """Runs assignments of a suite on one model under one threat model."""

    oracle: Oracle
    threat: Threat
    pull_in: float = 0.0
    """Where gradients vanish on the faces of the box: how far inside them gradients are taken, in input units."""
    watched: frozenset[int] = frozenset()
    """Rows of which each point is taken down; only where the model is deterministic."""

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
                group = [waiting.popleft() for _ in range(min(self.oracle.batch_size, len(waiting)))]
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
            batch = packed(queues[kind], self.oracle.batch_size)
            step = judged(batch, self._evaluate(batch), self.threat)
            for flight in {id(part.flight): part.flight for part in batch}.values():
                if flight.awaited == 0:
                    ended += self._advance(flight, queues)
            flights = [flight for flight in flights if flight.query is not None]
            yield step._replace(attempted=step.attempted + ended)

    def _room(self, flights: list[InFlight]) -> bool:
        """Whether too few rows stand to keep the batches full."""
        return sum(flight.count for flight in flights) < IN_FLIGHT * self.oracle.batch_size

    def _admit(self, assignment: Assignment, rows: Sequence[int], clean: Clean) -> InFlight:
        device = clean.x.device
        self.oracle.known = clean.x[:KNOWN].clone() if self.oracle.known is None else self.oracle.known
        noise = Noise.of(
            seed=self.oracle.seed,
            stream=stream_key(identity(assignment.attack)),
            attempt=assignment.attempt,
            rows=torch.tensor(rows, dtype=torch.int64, device=device),
        )
        # the attack gets copies: nothing that it does to them moves a centre or a label
        logits = self.oracle.credited(clean.logits, clean.y)
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
            looks=1 if self.oracle.draws is None else self.oracle.draws.attack,
            traces={place: [] for place, row in enumerate(rows) if row in self.watched},
            kept=None if self.oracle.draws is None else Kept.around(clean.x, self.oracle.draws.kept),
            length=assignment.attack.cost().forwards // assignment.attack.attempts(),
        )

    def _advance(self, flight: InFlight, queues: dict[Kind, deque[Part]]) -> list[Attempted]:
        """Hand the search its answer and queue what it asks next; the records of its rows if it has ended."""
        outcome: Outcome = "stood" if self.oracle.draws is None else "proposed"
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

    def _evaluate(self, batch: list[Part]) -> Evaluated:
        points = torch.cat([part.flight.points_here[part.low : part.high] for part in batch])
        y = torch.cat([part.flight.y_here[part.low : part.high] for part in batch])
        query = query_of(batch[0])
        if isinstance(query, Scores):
            return self.oracle.scored(points, y)
        if self.pull_in > 0:
            points = points.clamp(self.threat.low + self.pull_in, self.threat.high - self.pull_in)
        slope = query.slope if isinstance(query, Gradient) else "own"
        rivals = tuple(query.targets.shape[1:]) if isinstance(query, Gradients) else ()
        return self.oracle.climbed(points, y, partial(losses_of, batch), slope, rivals)


def _told(flight: InFlight) -> Answer:
    """The answer as the attack gets it: which rows stand is a copy, for the engine goes on to change its own."""
    answer = flight.answer
    return Answer(answer.logits, answer.loss, answer.grad, flight.standing.clone())
