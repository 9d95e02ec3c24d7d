"""On which rows an attack of a suite is run, and for how long."""

import hashlib
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol

from brinell.errors import BadInput
from brinell.geometry import NORMS, Norm
from brinell.records import AttemptRecord

RULED = ("norms", "share", "fewest", "sample", "needs", "pays")
"""Keys of an attack's table that are not the attack's but its rule's."""


@dataclass(frozen=True)
class Rule:
    """Where, on which rows and how long an attack is run."""

    norms: tuple[Norm, ...] = NORMS
    """The norms that it is meant for."""
    share: float = 1.0
    """Which share of the rows that stand each attempt gets, the nearest to an error first (rounded up)."""
    fewest: int = 0
    """Rows that each attempt gets at least, if so many stand."""
    sample: int = 0
    """So many of the rows that stand, drawn at random, in place of a share; 0: no sample."""
    needs: int = 0
    """The attack is left out unless the one before it in the suite broke, or came nearer to, at least so many rows."""
    pays: float = 0.0
    """Rows that 1,000 passes must be expected to break for the attack to go on; 0: it makes all of its attempts. Attacks
    with it that stand beside each other take turns; see ``Market``."""


class Brought(NamedTuple):
    """What one turn brought."""

    fell: Collection[int]
    """Rows that it broke."""
    met: Mapping[int, float]
    """The least margin that it met on each row, in logit units."""
    passes: int
    """Forwards and backwards that it made."""
    judged: int = 0
    """Points that the referee scored again, refused ones included."""


def brought_by(attempts: Iterable[AttemptRecord]) -> Brought:
    """What the attempts of one turn brought."""
    fell, met, passes, judged = list[int](), dict[int, float](), 0, 0
    for attempt in attempts:
        passes += attempt.forwards + attempt.backwards
        judged += attempt.outcome in ("fell", "unconfirmed")
        if attempt.outcome == "fell":
            fell.append(attempt.row)
        if attempt.best_margin is not None:
            met[attempt.row] = attempt.best_margin
    return Brought(fell, met, passes, judged)


class Field(Protocol):
    """What a suite's programme looks at, turn by turn: a record of the run."""

    def rows(self) -> Mapping[int, float]:
        """The rows to attack, each with its margin before any attack, in order."""
        ...

    def brought(self, turn: int) -> Brought:
        """What a turn that has ended brought."""
        ...


def how_many(standing: int, rule: Rule) -> int:
    """How many rows an attempt gets of so many that stand."""
    return min(rule.sample or max(math.ceil(rule.share * standing), rule.fewest), standing)


def chosen(standing: Mapping[int, float], rule: Rule, key: str, count: int) -> list[int]:
    """So many of the rows that stand, in their order: the nearest, or a sample, of which ``key`` names the draw."""
    if not rule.sample:
        return nearest(standing, count)
    lots = {row: hashlib.sha256(f"{key} {row}".encode()).digest() for row in standing}
    return _first(standing, sorted(standing, key=lots.__getitem__), count)


def nearest(standing: Mapping[int, float], count: int) -> list[int]:
    """So many rows of least margin, in the order given."""
    return _first(standing, sorted(standing, key=lambda row: (standing[row], row)), count)


def _first(standing: Mapping[int, float], ranked: list[int], count: int) -> list[int]:
    kept = set(ranked[:count])
    return [row for row in standing if row in kept]


def rule_table(rule: Rule) -> dict[str, Any]:
    """What of a rule differs from the rule that holds where nothing is said."""
    table = {**asdict(rule), "norms": list(rule.norms)}
    plain = {**asdict(Rule()), "norms": list(NORMS)}
    return {key: value for key, value in table.items() if value != plain[key]}


def rule_of(entry: dict[str, Any], source: str) -> Rule:
    """The rule in an attack's table of a suite file; see ``load_suite``."""
    counts = {key: entry.get(key, 0) for key in ("fewest", "sample", "needs")}
    for key, count in counts.items():
        if type(count) is not int or count < 0:
            raise BadInput(
                f"suite {source}, {key}", got=repr(count), expected="a whole number", remedy="Change it in the suite."
            )
    share = _number(entry, "share", 1.0, source)
    if not 0 < share <= 1:
        raise BadInput(
            f"suite {source}, share", got=repr(share), expected="above 0, at most 1", remedy="Change it in the suite."
        )
    pays = _number(entry, "pays", 0.0, source)
    if not 0 <= pays < math.inf:
        raise BadInput(f"suite {source}, pays", got=repr(pays), expected="0 or more", remedy="Change it in the suite.")
    if counts["sample"] and (share < 1 or counts["fewest"] or pays):
        raise BadInput(
            f"suite {source}, sample",
            got="share, fewest or pays beside it",
            expected="a sample, or a share",
            remedy="Remove one of them.",
        )
    return Rule(norms=_norms_of(entry.get("norms", list(NORMS)), source), share=share, pays=pays, **counts)


def _number(entry: dict[str, Any], key: str, plain: float, source: str) -> float:
    value = entry.get(key, plain)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadInput(f"suite {source}, {key}", got=repr(value), expected="a number", remedy="Change it in the suite.")
    return float(value)


def _norms_of(names: object, source: str) -> tuple[Norm, ...]:
    if not isinstance(names, list) or not names or not all(name in NORMS for name in names):
        raise BadInput(
            f"suite {source}, norms", got=repr(names), expected=f"some of {', '.join(NORMS)}", remedy="List them."
        )
    return tuple(norm for norm in NORMS if norm in names)
