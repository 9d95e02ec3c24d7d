"""On which rows an attack of a suite is run, and for how long."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from brinell.errors import BadInput
from brinell.geometry import NORMS, Norm

RULED = ("norms", "share", "fewest", "patience", "needs")
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
    patience: int = 0
    """The attack ends once so many of its attempts in a row have broken nothing; 0: it makes all of its attempts."""
    needs: int = 0
    """The attack is left out unless the one before it in the suite broke at least so many rows."""


class Field(Protocol):
    """What a suite's rules look at: how the rows stood when an attempt began, and what an earlier one brought."""

    def standing(self, stage: int, attempt: int) -> Mapping[int, float]:
        """The rows that stood when that attempt began, each with the least margin that it had met, in order."""
        ...

    def fell(self, stage: int, attempt: int) -> int:
        """How many rows that attempt broke."""
        ...


def nearest(standing: Mapping[int, float], rule: Rule) -> list[int]:
    """A share of the rows, those of least margin, in the order given."""
    if rule.share >= 1:
        return list(standing)
    count = max(math.ceil(rule.share * len(standing)), rule.fewest)
    first = sorted(standing, key=lambda row: (standing[row], row))[:count]
    chosen = set(first)
    return [row for row in standing if row in chosen]


def rule_table(rule: Rule) -> dict[str, Any]:
    """What of a rule differs from the rule that holds where nothing is said."""
    table = {**asdict(rule), "norms": list(rule.norms)}
    plain = {**asdict(Rule()), "norms": list(NORMS)}
    return {key: value for key, value in table.items() if value != plain[key]}


def rule_of(entry: dict[str, Any], source: str) -> Rule:
    """The rule in an attack's table of a suite file; see ``load_suite``."""
    share, counts = entry.get("share", 1.0), {key: entry.get(key, 0) for key in ("fewest", "patience", "needs")}
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise BadInput(
            f"suite {source}, share", got=repr(share), expected="above 0, at most 1", remedy="Change it in the suite."
        )
    for key, count in counts.items():
        if type(count) is not int or count < 0:
            raise BadInput(
                f"suite {source}, {key}", got=repr(count), expected="a whole number", remedy="Change it in the suite."
            )
    return Rule(norms=_norms_of(entry.get("norms", list(NORMS)), source), share=float(share), **counts)


def _norms_of(names: object, source: str) -> tuple[Norm, ...]:
    if not isinstance(names, list) or not names or not all(name in NORMS for name in names):
        raise BadInput(
            f"suite {source}, norms", got=repr(names), expected=f"some of {', '.join(NORMS)}", remedy="List them."
        )
    return tuple(norm for norm in NORMS if norm in names)
