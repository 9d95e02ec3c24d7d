"""What passes have bought: rows broken against passes made, what going on promises, and what samples allow one to say."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from brinell.records import AttemptRecord, RowRecord
from brinell.statistics import clopper_pearson, poisson_upper
from brinell.suites.programme import NEARER
from brinell.suites.rules import rule_of

RECENT = 0.25
"""Share of the passes, the last ones, that tell what going on promises."""
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Turn:
    """What one turn of a suite did, and how things stood when it ended."""

    turn: int
    stage: int
    """Place of its attack in the suite, from 0."""
    attempt: int
    given: int
    """Rows that got the attempt."""
    broke: int
    forwards: int
    backwards: int
    passes: int
    """Of all turns up to this one, forwards and backwards."""
    broken: int
    """By all turns up to this one."""


@dataclass(frozen=True)
class Saturation:
    """How the last passes paid. It says when this suite has had enough, not how near the figure is to the truth."""

    passes: int
    """That attacks made in all."""
    last: int
    """Passes made when the turn that broke the last row ended; 0 where nothing broke."""
    recent_passes: int
    """In the last turns, which make at least a quarter of the passes."""
    recent_broke: int
    left: int
    """Rows that could still break."""

    @property
    def expected(self) -> float:
        """Rows that 1,000 further passes are expected to break, as the recent ones did; no more than are left."""
        return min(self.left, 1000 * self.recent_broke / self.recent_passes)

    @property
    def at_most(self) -> float:
        """The same, one-sided, at 95 % (Poisson)."""
        return min(self.left, 1000 * poisson_upper(self.recent_broke, CONFIDENCE) / self.recent_passes)


@dataclass(frozen=True)
class Sample:
    """What an attack did on rows drawn at random from those that stood."""

    stage: int
    drawn: int
    of: int
    """Rows that stood."""
    broke: int
    nearer: int
    """Rows that it broke, or on which it met clearly less margin than every attack before it."""

    @property
    def at_most(self) -> float:
        """Share of the rows standing that the attack would break, one-sided, at 95 % (Clopper-Pearson)."""
        return clopper_pearson(self.broke, self.drawn, 2 * CONFIDENCE - 1)[1]


def turns_of(attempts: Iterable[AttemptRecord]) -> list[Turn]:
    """The turns in order. Nothing falls where the model is randomised."""
    grouped: dict[int, list[AttemptRecord]] = {}
    for attempt in attempts:
        grouped.setdefault(attempt.turn, []).append(attempt)
    turns: list[Turn] = []
    passes = broken = 0
    for number, made in sorted(grouped.items()):
        forwards, backwards = (sum(getattr(one, kind) for one in made) for kind in ("forwards", "backwards"))
        broke = sum(one.outcome == "fell" for one in made)
        passes, broken = passes + forwards + backwards, broken + broke
        turns.append(
            Turn(number, made[0].stage, made[0].attempt, len(made), broke, forwards, backwards, passes, broken)
        )
    return turns


def saturation_of(turns: Sequence[Turn], left: int) -> Saturation | None:
    """How the last turns paid, with so many rows left that could break; None where no pass was made."""
    if not turns or turns[-1].passes == 0:
        return None
    whole = turns[-1].passes
    before = [turn for turn in turns if turn.passes <= (1 - RECENT) * whole]
    then = (before[-1].passes, before[-1].broken) if before else (0, 0)
    last = max((turn.passes for turn in turns if turn.broke), default=0)
    return Saturation(whole, last, whole - then[0], turns[-1].broken - then[1], left)


def samples_of(
    attacks: Sequence[dict[str, Any]], rows: Iterable[RowRecord], attempts: Sequence[AttemptRecord]
) -> list[Sample]:
    """What each attack that the suite runs on a sample did there; one that was not run is left out."""
    found = []
    for stage, table in enumerate(attacks):
        made = [one for one in attempts if one.stage == stage]
        if not rule_of(table, "as recorded").sample or not made:
            continue
        first = min(one.turn for one in made)
        met = {row.row: row.clean_margin or 0.0 for row in rows if (row.clean_margin or 0.0) > 0}
        gone = set()
        for one in attempts:
            if one.turn < first and one.row in met:
                met[one.row] = min(met[one.row], met[one.row] if one.best_margin is None else one.best_margin)
                gone |= {one.row} if one.outcome == "fell" else set()
        broke = {one.row for one in made if one.outcome == "fell"}
        nearer = {one.row for one in made if one.best_margin is not None and one.best_margin < NEARER * met[one.row]}
        drawn = {one.row for one in made}
        found.append(Sample(stage, len(drawn), len(met) - len(gone), len(broke), len(broke | nearer)))
    return found


def thinned(turns: Sequence[Turn], most: int) -> list[Turn]:
    """At most so many of the turns: the first, the last, and between them those nearest to equal steps in log passes."""
    if len(turns) <= most:
        return list(turns)
    low, high = max(turns[0].passes, 1), max(turns[-1].passes, 2)
    marks = [low * (high / low) ** (step / (most - 1)) for step in range(most)]
    picked = [min(turns, key=lambda turn: abs(turn.passes - mark)) for mark in marks]
    return [turn for place, turn in enumerate(picked) if place == 0 or turn is not picked[place - 1]]
