"""A suite in motion: which rows get which attack next, from what the turns before have brought."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

from brinell.queries import Attack, Cost
from brinell.suites.market import Market, Stall
from brinell.suites.rules import Brought, Field, Rule, chosen, how_many, nearest

NEARER = 0.99
"""An attack came nearer to an error on a row if it met less than this share of the least margin met before."""


@dataclass(frozen=True)
class Assignment:
    """One turn: one attempt of one attack, and the rows that get it."""

    turn: int
    """Counted from 0 over the run."""
    stage: int
    """Place of the attack in the suite, from 0."""
    attack: Attack
    attempt: int
    """Which attempt of the attack, from 0."""
    rows: Sequence[int]
    """Indices in the data set."""


def cost_of_attempt(attack: Attack, looks: int) -> Cost:
    """Passes of one row that goes through one attempt, with so many passes over each point of a query."""
    return Cost(*(passes * looks // attack.attempts() for passes in attack.cost()))


REHEARSED = 1000
"""Rows of a rehearsal, where nothing is said."""


class Rehearsal:
    """A field on which nothing falls, to find out what a suite costs there."""

    def __init__(self, alone: Sequence[Cost], count: int) -> None:
        self.alone = alone
        """Passes of one row in one attempt of each attack."""
        self.count = count
        self.passes = 0

    def rows(self) -> dict[int, float]:
        """So many rows, each a little further from an error than the one before."""
        return {row: float(row + 1) for row in range(self.count)}

    def take(self, turn: Assignment) -> None:
        """Note what the turn under way makes."""
        self.passes = sum(self.alone[turn.stage]) * len(turn.rows)

    def brought(self, turn: int) -> Brought:
        """Nothing but passes."""
        return Brought((), {}, self.passes)


@dataclass
class Programme:
    """The turns of a suite over one run."""

    ruled: Sequence[tuple[Attack, Rule]]
    record: Field
    looks: int
    """Passes over each point of an attack's query."""
    falling: bool
    """Whether rows fall; those of a randomised model are scored instead."""
    seed: int
    """For samples."""
    budget: float
    """Passes that attacks and referee may make."""

    def __post_init__(self) -> None:
        self.turn = 0
        self.standing: dict[int, float] = {}
        """The rows that stand, each with the least margin met."""
        self.cut = False
        """Whether the budget has kept a row from a turn."""
        self.gained: list[set[int]] = [set() for _ in self.ruled]
        """Rows that each attack broke or came nearer to."""

    def turns(self) -> Iterator[Assignment]:
        """All turns in order, until the suite is through or the budget pays for no further row."""
        self.standing = dict(self.record.rows())
        stage = 0
        while stage < len(self.ruled):
            end = stage + 1
            if self.ruled[stage][1].pays:
                while end < len(self.ruled) and self.ruled[end][1].pays:
                    end += 1
                yield from self._traded(stage, end)
            else:
                yield from self._in_order(stage)
            stage = end

    def _in_order(self, stage: int) -> Iterator[Assignment]:
        attack, rule = self.ruled[stage]
        if not self._wanted(stage):
            return
        for attempt in range(attack.attempts()):
            count = self._paid(stage, how_many(len(self.standing), rule))
            if rows := chosen(self.standing, rule, f"{self.seed} {stage}", count):
                yield from self._turn(stage, attempt, rows)

    def _traded(self, first: int, end: int) -> Iterator[Assignment]:
        stages = [stage for stage in range(first, end) if self._wanted(stage)]
        market = Market([Stall(*self.ruled[stage]) for stage in stages])
        while (best := market.best(self.standing)) is not None:
            offer, offered = best
            stage = stages[offer.stall]
            rows = nearest({row: self.standing[row] for row in offered}, self._paid(stage, len(offered)))
            if not rows:
                return
            brought = yield from self._turn(stage, offer.attempt, rows)
            market.stalls[offer.stall].take(offer.attempt, rows, brought)

    def _wanted(self, stage: int) -> bool:
        rule = self.ruled[stage][1]
        return not rule.needs or (stage > 0 and len(self.gained[stage - 1]) >= rule.needs)

    def _paid(self, stage: int, wanted: int) -> int:
        """For how many of so many rows one attempt can still be paid, each row's referee included."""
        price = sum(cost_of_attempt(self.ruled[stage][0], self.looks)) + 1
        if wanted * price <= self.budget:
            return wanted
        self.cut = True
        return max(int(self.budget // price), 0)

    def _turn(self, stage: int, attempt: int, rows: list[int]) -> Generator[Assignment, None, Brought]:
        yield Assignment(self.turn, stage, self.ruled[stage][0], attempt, rows)
        brought = self.record.brought(self.turn)
        self.turn += 1
        self.budget -= brought.passes + brought.judged
        self._learn(stage, brought)
        return brought

    def _learn(self, stage: int, brought: Brought) -> None:
        self.gained[stage] |= set(brought.fell)
        for row, margin in brought.met.items():
            if margin < self.standing[row]:
                if margin < NEARER * self.standing[row]:
                    self.gained[stage].add(row)
                self.standing[row] = margin
        if self.falling:
            for row in brought.fell:
                del self.standing[row]
