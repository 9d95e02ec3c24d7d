"""A suite in motion: which rows get which attack next, from what the turns before have brought."""

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace

from brinell.queries import Attack, Cost
from brinell.suites.market import Market, Stall
from brinell.suites.rules import Brought, Field, Rule, chosen, nearest

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


REHEARSED = 1000
"""Rows of a rehearsal, where nothing is said."""


class Rehearsal:
    """A field on which nothing falls, to find out what a suite costs there."""

    def __init__(self, alone: Sequence[Cost], count: int) -> None:
        self.alone, self.count = alone, count
        """Passes of one row in one attempt of each attack."""
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
            rows = self._paid(stage, chosen(self.standing, rule, f"{self.seed} {stage}"))
            if rule.sample and len(rows) < min(rule.sample, len(self.standing)):  # fewer, but drawn by lot all the same
                rows = chosen(self.standing, replace(rule, sample=len(rows)), f"{self.seed} {stage}") if rows else []
            if rows:
                yield from self._turn(stage, attempt, rows)

    def _traded(self, first: int, end: int) -> Iterator[Assignment]:
        stages = [stage for stage in range(first, end) if self._wanted(stage)]
        market = Market([Stall(*self.ruled[stage]) for stage in stages])
        while (best := market.best(self.standing)) is not None:
            offer, rows = best
            rows = self._paid(stages[offer.stall], rows)
            if not rows:
                return
            brought = yield from self._turn(stages[offer.stall], offer.attempt, rows)
            market.stalls[offer.stall].take(offer.attempt, rows, brought)

    def _wanted(self, stage: int) -> bool:
        rule = self.ruled[stage][1]
        return not rule.needs or (stage > 0 and len(self.gained[stage - 1]) >= rule.needs)

    def _price(self, stage: int) -> int:
        """Passes of one row that goes through one attempt, its referee's included."""
        attack = self.ruled[stage][0]
        return sum(attack.cost()) // attack.attempts() * self.looks + 1

    def _paid(self, stage: int, rows: list[int]) -> list[int]:
        """As many of the rows as one attempt can still be paid for, the nearest to an error."""
        count = len(rows) if math.isinf(self.budget) else max(int(self.budget // self._price(stage)), 0)
        if count >= len(rows):
            return rows
        self.cut = True
        return nearest({row: self.standing[row] for row in rows}, count)

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
