"""How a model is asked: in batches, in several looks where it is randomised, in halves where it raises.

A row that the model fails on costs itself and no other row; a model that answers nothing any more ends the run.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch

from brinell.draws import Draws
from brinell.errors import BrinellError, ModelFailed
from brinell.losses import margin_of
from brinell.models.protocol import Climbed, Model
from brinell.random import stream_key
from brinell.rejection import credited
from brinell.shapes import Columns, Indices, Inputs, Labels, Logits, Losses, PerRow
from brinell.slopes import Slope

Purpose = Literal["clean", "attack", "select", "control", "score"]
"""What a randomised model is asked for: each purpose has random numbers of its own."""


class Pass(NamedTuple):
    """One way through the model for a batch."""

    points: Inputs
    """What the model sees."""
    evaluate: Callable[[int, int], Climbed]
    """Passes a stretch of the points through it."""
    rivals: tuple[int, ...] = ()
    """How many losses each row has, where it has several."""


class Evaluated(NamedTuple):
    """A batch's result; where the model is randomised, the mean over the looks at it."""

    points: Inputs
    """What the model saw."""
    climbed: Climbed
    failures: dict[int, str]
    """Why a row could not be evaluated, by its place in the batch."""
    margin: PerRow
    right: PerRow | None
    """Share of the looks in which the model was right; None where the model is taken for deterministic."""


Climb = Callable[[Logits, int], Losses]
"""The losses of a stretch of rows, of which the first is at a place of the batch."""


class Looks(NamedTuple):
    """What a randomised model said of some points in several looks at each."""

    correct: Indices
    """How many looks it was right in."""
    logits: Logits
    """Their mean; not finite where any look was not."""


@dataclass(eq=False)
class Oracle:
    """A model as a run asks it. It keeps no count of passes: whoever asks knows what was asked."""

    model: Model
    classes: int
    seed: int
    """Of the run; a randomised model's own random numbers are derived from it."""
    batch_size: int
    """Rows in a full batch; halved for good when memory runs out."""
    draws: Draws | None = None
    """Set where the model is taken for randomised."""
    shared: bool = False
    """Whether the model draws once for a whole pass: each row is then scored in passes of its own."""
    rejects: bool = False
    """Whether the model has a column more than classes, the score of a rejection, which is credited under attack."""
    session: int = 0
    """Which stretch of work on the run this is; only a randomised model's own random numbers depend on it."""
    answered: bool = field(default=False, init=False)
    """Whether the model has answered at all."""
    known: Inputs | None = field(default=None, init=False)
    """A few clean inputs, on which the model has answered before."""
    drawn: int = field(default=0, init=False)
    """Passes made so far with random numbers of the model's own."""

    @property
    def columns(self) -> int:
        """Scores that the model gives a row."""
        return self.classes + self.rejects

    def credited(self, logits: Columns, y: Labels) -> Logits:
        """The model's scores as attacks and judge see them: one for each class."""
        return credited(logits, y) if self.rejects else logits

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

    def scored(self, points: Inputs, y: Labels) -> Evaluated:
        """Logits of some points of an attack's."""
        return self._looked_at(self._scoring(points), y)

    def climbed(self, points: Inputs, y: Labels, climb: Climb, slope: Slope, rivals: tuple[int, ...]) -> Evaluated:
        """The same with losses and their gradients; ``rivals`` is empty, or how many losses each row has."""

        def evaluate(start: int, end: int) -> Climbed:
            seen = y[start:end]
            return self.model.gradient(
                points[start:end], lambda logits: _attacks_own(climb, self.credited(logits, seen), start), slope
            )

        return self._looked_at(Pass(points, evaluate, rivals), y)

    def _looked_at(self, way: Pass, y: Labels) -> Evaluated:
        """Evaluate a batch; where the model is randomised as often as the suite says, for the mean of what it answers."""
        points, failures = way.points, dict[int, str]()
        if self.draws is None:
            climbed = self._bisected(way, failures)
            climbed = climbed._replace(logits=self.credited(climbed.logits, y))
            return Evaluated(points, climbed, failures, margin_of(climbed.logits, y), None)
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
        return Evaluated(points, means, failures, margin, right.where(margin.isfinite(), torch.nan))

    def _scoring(self, points: Inputs) -> Pass:
        return Pass(points, lambda start, end: _unclimbed(points[start:end], self.model))

    def _bisected(self, way: Pass, failures: dict[int, str]) -> Climbed:
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


class _LossRaised(Exception):
    """An attack's loss raised: the attack's fault, not the model's."""


def _attacks_own(climb: Climb, logits: Logits, first: int) -> Losses:
    try:
        return climb(logits, first)
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
