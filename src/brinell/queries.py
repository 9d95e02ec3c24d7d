"""What an attack may ask, what it is told, and what an attack is.

An attack is frozen data with one generator, ``search``: it yields a query, receives the answer, and goes on until it
returns. It never calls a model, keeps no best point, and decides nothing; the engine does.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, Self, runtime_checkable

from brinell.geometry import Norm
from brinell.losses import Loss, TargetedLoss
from brinell.random import Noise
from brinell.shapes import Inputs, Labels, Logits, Losses, Mask, PerRow, Rivals, Slopes
from brinell.slopes import Slope
from brinell.threat import Ball


@dataclass(frozen=True, eq=False)
class Gradient:
    """Asks for logits, loss and the loss's gradient at each point: one forward and one backward pass a row."""

    points: Inputs
    loss: Loss | TargetedLoss
    target: Labels | Logits | PerRow | None = None
    """The class that a targeted loss wants, per row, or whatever else of its own it takes; None for the others."""
    slope: Slope = "own"
    """Which slope the model's ReLUs show; the logits are the model's own in any case."""


@dataclass(frozen=True, eq=False)
class Gradients:
    """Asks for the gradients towards several classes at each point: one forward pass a row, a backward pass a class."""

    points: Inputs
    loss: TargetedLoss
    targets: Rivals
    """The classes, per row."""


@dataclass(frozen=True, eq=False)
class Scores:
    """Asks for the logits at each point: one forward pass a row."""

    points: Inputs


Query = Gradient | Gradients | Scores


@dataclass(frozen=True, eq=False)
class Answer:
    """What came back. Rows that have fallen keep their place; what stands there is of no meaning."""

    logits: Logits
    loss: Losses
    """The climbed loss, ``(row)``, or ``(row, rival)`` for ``Gradients``; 0 where the query asked for scores only."""
    grad: Slopes
    """Gradient of the loss by the input, shaped like the input, or ``(row, rival, *feature)`` for ``Gradients``; 0 where
    the query asked for scores only."""
    standing: Mask
    """Rows on which the model has not erred yet. A query's points for the others cost nothing."""


Search = Generator[Query, Answer, None]


@dataclass(frozen=True, eq=False)
class Given:
    """What an attempt starts from: some rows that stand."""

    x: Inputs
    """Clean inputs."""
    y: Labels
    """True classes."""
    logits: Logits
    """The model's logits on the clean inputs."""
    attempt: int
    """Which attempt of the attack this is, from 0: a restart, or a restart and a target."""


class Cost(NamedTuple):
    """Passes for one row that stands to the end."""

    forwards: int
    backwards: int

    def __add__(self, other: object) -> "Cost":
        if not isinstance(other, Cost):
            return NotImplemented
        return Cost(self.forwards + other.forwards, self.backwards + other.backwards)

    def times(self, count: int) -> "Cost":
        """The cost of ``count`` rows or attempts."""
        return Cost(self.forwards * count, self.backwards * count)


class Attack(Protocol):
    """An algorithm that proposes points. Implementations are frozen dataclasses; none inherits from another."""

    name: ClassVar[str]
    """How suite files call it."""
    summary: ClassVar[str]
    """One line: what it does, with its source."""
    norms: ClassVar[tuple[Norm, ...]]
    """The balls it is defined for."""

    def fit(self, classes: int) -> Self:
        """The same attack with what is undefined for so few classes replaced (losses, number of targets)."""
        ...

    def attempts(self) -> int:
        """How many times ``search`` is called on a row that stands to the end."""
        ...

    def cost(self) -> Cost:
        """Passes for one row over all attempts if it stands to the end."""
        ...

    def search(self, given: Given, ball: Ball, noise: Noise) -> Search:
        """One attempt on a group of rows; the noise is of this attempt."""
        ...


class Success(NamedTuple):
    """A row that fell in an earlier turn of the run."""

    attack: Attack
    stream: int
    """Which random numbers the attack drew from."""
    attempt: int
    """Which attempt of the attack, from 0."""
    row: int
    """Index in the data set."""
    label: int
    """True class."""
    prediction: int
    """Class that the model gave the witness."""


@runtime_checkable
class Learner(Protocol):
    """An attack that takes account of what fell before."""

    def learn(self, successes: Sequence[Success], seed: int, classes: int) -> Attack:
        """The attack as it is to be run now, with the random numbers of the attack that it was; ``seed`` is the run's."""
        ...


def rivals_by_logit(given: Given, count: int) -> Rivals:
    """The ``count`` wrong classes with the highest clean logits, in descending order, per row."""
    wrong = given.logits.scatter(1, given.y[:, None], -float("inf"))
    return wrong.argsort(dim=1, descending=True, stable=True)[:, :count]


def targets_by_logit(given: Given, rank: int) -> Labels:
    """The wrong class with the ``rank``-th highest clean logit, from 0, per row."""
    return rivals_by_logit(given, rank + 1)[:, rank]
