"""Which waiting rows share a batch, and what each of them climbs in it."""

from collections import deque
from typing import NamedTuple

import torch

from brinell.flight import InFlight
from brinell.losses import TargetedLoss
from brinell.queries import Gradient, Gradients, Query
from brinell.shapes import Logits, Losses
from brinell.slopes import Slope


class Part(NamedTuple):
    """A stretch of the rows of one search that stand, waiting for their turn or in a batch."""

    flight: InFlight
    low: int
    high: int

    @property
    def length(self) -> int:
        """How many rows it has."""
        return self.high - self.low


Kind = tuple[type, Slope]
"""What queries must have in common to share a batch."""


def kind_of(query: Query) -> Kind:
    """Which batches a query can be part of."""
    return type(query), query.slope if isinstance(query, Gradient) else "own"


def packed(queue: deque[Part], room: int) -> list[Part]:
    """A batch of so many rows at most, taken off a queue: the longest waiting first."""
    batch = []
    while queue and room > 0:
        part = queue.popleft()
        if part.length > room:
            queue.appendleft(part._replace(low=part.low + room))
            part = part._replace(high=part.low + room)
        batch.append(part)
        room -= part.length
    return batch


def query_of(part: Part) -> Query:
    """What the part's search waits for."""
    assert part.flight.query is not None
    return part.flight.query


def losses_of(batch: list[Part], logits: Logits, first: int) -> Losses:
    """The losses of each row of a stretch of the batch, by its own query; ``first`` is the stretch's first row."""
    losses = []
    start = 0
    for part in batch:
        end = start + part.length
        low, high = max(start, first), min(end, first + len(logits))
        if low < high:
            here = slice(part.low + low - start, part.low + high - start)
            losses.append(_losses_here(part.flight, here, logits[low - first : high - first]))
        start = end
    return losses[0] if len(losses) == 1 else torch.cat(losses)


def _losses_here(flight: InFlight, here: slice, logits: Logits) -> Losses:
    """The losses of a stretch of the rows of one search."""
    query, y = flight.query, flight.y_here[here]
    if isinstance(query, Gradients):
        targets = query.targets[flight.positions[here]]
        return torch.stack([query.loss.climb(logits, y, target) for target in targets.unbind(1)], dim=1)
    assert isinstance(query, Gradient)
    if isinstance(query.loss, TargetedLoss):
        assert query.target is not None
        return query.loss.climb(logits, y, query.target[flight.positions[here]])
    return query.loss.climb(logits, y)
