"""Attacks that take turns: each turn goes to the one that is expected to break most rows for its passes.

Idea        an attack goes down the rows from the nearest, a slice a turn; each attempt (another start, another target) is
            such a descent. It can go on down its present descent, or begin the next one at the nearest rows again. What
            either is expected to break for 1,000 passes is read off the slices that it was given so far, and the best of
            all attacks is taken. When the best is expected to break too little, the market closes.
Source      choosing the attack with the best improvement for its cost: Liu et al. 2023 (AutoAE, arXiv 2211.12713),
            there offline, to build an ensemble; here as the run goes.
Departures  nothing of theirs but the rule; rows are chosen by margin, and expectations are smoothed as below.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from brinell.queries import Attack
from brinell.suites.rules import Brought, Rule, how_many, nearest

BELIEF = 0.5
"""Rows that an attack is believed to have broken beside those that it did, so that one fruitless slice does not end it; the
more passes it has made, the less the belief weighs."""
MEMORY = 0.6
"""Weight of a slice in what is expected of the next one down, then of that in the one after."""
DEEPER = 0.8
"""What the next slice down is expected to bring, of what those above did: it lies further from an error."""
AGAIN = 0.6
"""What a new descent is expected to bring with its first slice, of what the last one's did: these rows have stood it once."""


class Offer(NamedTuple):
    """What an attack would do with a turn."""

    expected: float
    """Rows that it is expected to break in 1,000 passes."""
    stall: int
    """Which of the attacks."""
    attempt: int
    """Which of its descents."""


@dataclass
class Descent:
    """One attempt on its way down the rows."""

    seen: set[int] = field(default_factory=set)
    """Rows that it has passed."""
    first: float = 0.0
    """Rows broken in 1,000 passes on its first slice."""
    broke: float = 0.0
    """Rows broken, older slices counting less."""
    passes: float = 0.0

    def add(self, rows: Collection[int], brought: Brought) -> None:
        """Enter a slice."""
        if not self.seen:
            self.first = 1000 * len(brought.fell) / max(brought.passes, 1)
        self.seen |= set(rows)
        self.broke = MEMORY * self.broke + len(brought.fell)
        self.passes = MEMORY * self.passes + brought.passes


@dataclass
class Stall:
    """One attack in the market, and how it has fared."""

    attack: Attack
    rule: Rule
    descents: list[Descent] = field(default_factory=list)
    """One for each attempt begun."""
    spent: int = 0
    """Passes made so far."""

    def offers(self, place: int) -> Iterator[Offer]:
        """To begin the next descent, and to go on down each of those begun."""
        if not self.descents:
            yield Offer(math.inf, place, 0)
            return
        if not self.spent:  # it crashed before its first query
            return
        belief = 1000 * BELIEF / self.spent
        if len(self.descents) < self.attack.attempts():
            yield Offer(AGAIN * self.descents[-1].first + belief, place, len(self.descents))
        for attempt, descent in enumerate(self.descents):
            yield Offer(DEEPER * 1000 * descent.broke / max(descent.passes, 1.0) + belief, place, attempt)

    def rows(self, attempt: int, standing: Mapping[int, float]) -> list[int]:
        """The next slice of a descent."""
        seen = self.descents[attempt].seen if attempt < len(self.descents) else set()
        below = {row: margin for row, margin in standing.items() if row not in seen}
        return nearest(below, how_many(len(standing), self.rule))

    def take(self, attempt: int, rows: Collection[int], brought: Brought) -> None:
        """Enter what a turn brought."""
        if attempt == len(self.descents):
            self.descents.append(Descent())
        self.descents[attempt].add(rows, brought)
        self.spent += brought.passes


@dataclass
class Market:
    """Attacks that stand beside each other in a suite and go on while they pay."""

    stalls: list[Stall]

    def best(self, standing: Mapping[int, float]) -> tuple[Offer, list[int]] | None:
        """The best offer for the next turn with its rows, earlier attacks first among equals; None where none is worth it."""
        offers = [offer for place, stall in enumerate(self.stalls) for offer in stall.offers(place)]
        for offer in sorted(offers, key=lambda offer: -offer.expected):
            if offer.expected < self.stalls[offer.stall].rule.pays:
                continue
            if rows := self.stalls[offer.stall].rows(offer.attempt, standing):
                return offer, rows
        return None
