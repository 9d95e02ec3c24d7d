"""How far a run has got: what progress is shown from."""

from collections.abc import Callable
from dataclasses import dataclass

from brinell.flight import Step
from brinell.queries import Cost


@dataclass(frozen=True)
class Moment:
    """How far a run has got: what progress is shown from."""

    label: str
    """What is being done: an attack, and which attempt of it."""
    standing: int
    """Rows that have no witness yet, of those that were correct."""
    fallen: int
    spent: Cost
    """Passes made by attacks so far."""
    forecast: Cost
    """Passes that attacks will have made at the end if no further row falls."""


Observer = Callable[[Moment], None]


@dataclass
class Planned:
    """What of a suite's cost on a row that stands has come in the turns so far."""

    whole: Cost
    forwards: float = 0.0
    backwards: float = 0.0

    def take(self, own: Cost, given: int, standing: int) -> None:
        """Enter a turn that gives so many of the rows that stand an attempt."""
        self.forwards += own.forwards * given / max(standing, 1)
        self.backwards += own.backwards * given / max(standing, 1)

    def left(self) -> Cost:
        """What is still to come for each."""
        left = (self.whole.forwards - self.forwards, self.whole.backwards - self.backwards)
        return Cost(*(max(round(passes), 0) for passes in left))


@dataclass
class Tally:
    """How far one assignment has got."""

    label: str
    own: Cost
    """Of one row that stands, in this assignment."""
    after: Cost
    """Of one row that stands, in all that follow."""
    standing: int
    fallen: int
    under_way: int
    """Rows of the assignment that have not ended."""
    settled: Cost
    """Passes of rows that have ended, and of earlier assignments."""
    spent: Cost

    def take(self, step: Step) -> None:
        """Add what one batch brought."""
        self.spent = self.spent + Cost(step.forwards, step.backwards)
        for attempted in step.attempted:
            self.settled = self.settled + Cost(attempted.forwards, attempted.backwards)
        self.under_way -= len(step.attempted)
        self.fallen += len(step.claims)
        self.standing -= len(step.claims)

    def moment(self) -> Moment:
        """The state of affairs now."""
        forecast = self.settled + self.own.times(self.under_way) + self.after.times(self.standing)
        return Moment(self.label, self.standing, self.fallen, self.spent, forecast)


def ignore(moment: Moment) -> None:
    """An observer that shows nothing."""
