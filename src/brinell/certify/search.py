"""In which order open questions are asked, until none is left, a witness is found, or the time is over."""

import heapq
import math
from dataclasses import dataclass
from itertools import count

from brinell.certify.branch import AT_ONCE, Bounded, Question, Tree
from brinell.certify.deadline import Deadline
from brinell.certify.task import Judge
from brinell.shapes import Inputs

LEAVES_AT_ONCE = 8
"""Questions with no ReLU left to choose that are settled before the clock is looked at."""


@dataclass(frozen=True)
class Found:
    """What the search came to."""

    margin: float
    """Lower bound over all that was asked: above the tolerance where everything is proved."""
    questions: int
    """How many were bounded."""
    witness: Inputs | None
    """A point of the region at which the judge found the model to err."""


class _Agenda:
    """What is open, closed, and left open for good."""

    def __init__(self, enough: float) -> None:
        self.enough = enough
        self.order = count()
        self.open: list[tuple[float, int, Question]] = []
        self.least = float("inf")
        """Of all that is not open any more."""
        self.asked = 0

    def take(self, questions: list[Question]) -> None:
        """Those that are answered are closed; one whose bound is not a number stays unanswered."""
        self.asked += len(questions)
        self.give_up([question for question in questions if not question.bound <= self.enough])
        self.put_back([question for question in questions if question.bound <= self.enough])

    def put_back(self, questions: list[Question]) -> None:
        """Open as they are."""
        for question in questions:
            heapq.heappush(self.open, (question.bound, next(self.order), question))

    def give_up(self, questions: list[Question]) -> None:
        """What is not asked again, for better or worse."""
        bounds = [-math.inf if math.isnan(question.bound) else question.bound for question in questions]
        self.least = min([self.least, *bounds])

    def lowest(self) -> list[Question]:
        """The open questions with the lowest bounds, taken off the list."""
        return [heapq.heappop(self.open)[2] for _ in range(min(AT_ONCE, len(self.open)))]

    def margin(self) -> float:
        """The least of all bounds."""
        return min(self.least, self.open[0][0]) if self.open else self.least


class Search:
    """Halves questions, the lowest bound first; points where a bound is attained are shown to a judge."""

    def __init__(self, tree: Tree, first: Bounded, judge: Judge) -> None:
        self.tree, self.judge = tree, judge
        self.agenda = _Agenda(tree.enough)
        self.agenda.take(first.questions)
        self.fresh = [first]
        """Whose points the judge has not seen."""

    def run(self, deadline: Deadline) -> Found:
        """What is known when none is open, a witness is found, or the time is over; then it may go on."""
        while True:
            for bounded in self.fresh:
                witness = self.judge(bounded.points)
                if witness is not None:
                    return Found(-math.inf, self.agenda.asked, witness)
            self.fresh = []
            if not self.agenda.open or deadline.left() <= 0:
                return Found(self.agenda.margin(), self.agenda.asked, None)
            self._ask(self.agenda.lowest())

    def unanswered(self) -> int:
        """How many of the functions have a question open."""
        return len({int(question.spec) for _, _, question in self.agenda.open})

    def _ask(self, questions: list[Question]) -> None:
        """One round: halves of those with a ReLU left to choose, and the best multipliers for some of the others."""
        whole, leaves = [q for q in questions if len(q.candidates)], [q for q in questions if not len(q.candidates)]
        self.agenda.put_back(leaves[LEAVES_AT_ONCE:])
        if leaves:
            self.fresh.append(self.tree.settled(leaves[:LEAVES_AT_ONCE]))
            self.agenda.give_up(self.fresh[-1].questions)
        if whole:
            self.fresh.append(self.tree.halved(whole))
            self.agenda.take(self.fresh[-1].questions)
