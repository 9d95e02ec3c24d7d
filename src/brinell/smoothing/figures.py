"""Figures of a smoothed classifier: certified accuracy against radius, abstentions, and what an attack leaves.

All rows are in every denominator; a row on which CERTIFY abstained, or whose class is wrong, is certified at no radius, not
even at 0.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from brinell.eps import Eps
from brinell.metrics import Proportion
from brinell.smoothing.record import SmoothedRow, SmoothingManifest

ROWS = "all rows"
STEP = 0.25
"""Between the radii of the table, in input units, where the ceiling allows a few."""
FEWEST, MOST = 2, 16


@dataclass(frozen=True)
class AttackFigures:
    """What an attack on g left, beside what is certified at its radius."""

    eps: Eps
    """L2, input units."""
    certified: Proportion
    """Rows certified at eps."""
    stands: Proportion
    """Rows on which PREDICT gives the true class at the point that the attack reached."""
    not_shown_wrong: int
    """Rows on which g was shown to err neither before the attack nor by it: those standing, undecided and pending."""
    broken: int
    """Rows on which PREDICT gives another class there."""
    abstained: int
    """Rows on which it gives none."""
    errors: int
    """Rows on which the attack could not be made."""
    contradictions: tuple[int, ...]
    """Rows certified at eps and broken within it: one of the two is false, which each may be with probability alpha."""


class Passes(NamedTuple):
    """What the rows that are done have cost: passes of single copies through f. The checks before them are not counted."""

    forwards: int
    backwards: int


@dataclass(frozen=True)
class SmoothFigures:
    """What follows from the rows."""

    rows: int
    """All, those pending included."""
    outcomes: dict[str, int]
    """Rows by outcome: ``certified``, ``wrong``, ``abstained``, ``pending``."""
    base: Proportion
    """Rows on which the base classifier f is right without noise: said for comparison, and certified nowhere."""
    radii: tuple[float, ...]
    """Radii of the rows of outcome ``certified``, ascending."""
    ceiling: float
    """The largest radius that n copies can certify at alpha."""
    alpha: float
    """Probability with which a row's certificate may be false."""
    issued: int
    """Certificates, those of a wrong class included."""
    attack: AttackFigures | None
    passes: Passes

    @property
    def complete(self) -> bool:
        """Whether every row was done."""
        return self.outcomes["pending"] == 0

    @property
    def expected_false(self) -> float:
        """At most so many certificates are false on average: alpha times the rows."""
        return self.alpha * self.rows

    @property
    def average_radius(self) -> float | None:
        """Mean over all rows, input units, L2; rows abstained on or of a wrong class count as 0. None where rows are pending."""
        return sum(self.radii) / self.rows if self.rows and self.complete else None

    def certified_at(self, radius: float) -> Proportion:
        """Certified accuracy: rows whose class is right and certified out to the radius at least."""
        return Proportion(sum(own >= radius for own in self.radii), self.rows, ROWS, self.outcomes["pending"])

    def table_radii(self) -> list[float]:
        """The radii at which certified accuracy is tabled: 0, .25, .5, … or a few to the ceiling."""
        step = STEP
        if not FEWEST <= self.ceiling / STEP <= MOST:
            step = float(f"{self.ceiling / 8:.1g}")
        return [round(step * number, 12) for number in range(int(self.ceiling / step) + 1)]

    def table(self) -> dict[str, Any]:
        """The figures with their counts, for JSON."""
        attack = self.attack
        return {
            "rows": self.rows,
            "outcomes": self.outcomes,
            "base_right": self.base.count,
            "ceiling": self.ceiling,
            "certificates": self.issued,
            "expected_false_at_most": self.expected_false,
            "average_certified_radius": self.average_radius,
            "passes": self.passes._asdict(),
            "certified_accuracy": [
                {
                    "radius": radius,
                    "count": self.certified_at(radius).count,
                    "of": self.rows,
                    "interval_95": self.certified_at(radius).interval,
                }
                for radius in self.table_radii()
            ],
            "attack": None
            if attack is None
            else {
                "eps": float(attack.eps),
                "certified": attack.certified.count,
                "stands": attack.stands.count,
                "not_shown_wrong": attack.not_shown_wrong,
                "broken": attack.broken,
                "abstained": attack.abstained,
                "errors": attack.errors,
                "contradictions": list(attack.contradictions),
            },
        }


def figures_of(manifest: SmoothingManifest, rows: Sequence[SmoothedRow]) -> SmoothFigures:
    """The figures of the rows that were done; the others are pending."""
    total = int(manifest.data["rows"])
    pending = total - len(rows)
    found = Counter(row.outcome for row in rows)
    return SmoothFigures(
        rows=total,
        outcomes={**{name: found[name] for name in ("certified", "wrong", "abstained")}, "pending": pending},
        base=Proportion(sum(row.base == row.label for row in rows), total, ROWS, pending),
        radii=tuple(sorted(row.radius for row in rows if row.outcome == "certified" and row.radius is not None)),
        ceiling=manifest.setting.ceiling,
        alpha=manifest.setting.alpha,
        issued=found["certified"] + found["wrong"],
        attack=None if manifest.eps is None else _attack(Eps(manifest.eps), rows, total),
        passes=_passes(manifest, rows),
    )


def _passes(manifest: SmoothingManifest, rows: Sequence[SmoothedRow]) -> Passes:
    """f without noise, CERTIFY, the attack and PREDICT; an attack that could not be made counts as one that was."""
    attacked = [row.attacked for row in rows if row.attacked is not None]
    steps = 0 if manifest.attack is None else manifest.attack.steps * manifest.attack.copies
    judged = sum(found.outcome != "error" for found in attacked)
    setting = manifest.setting
    forwards = len(rows) * (1 + setting.n0 + setting.n) + len(attacked) * steps + judged * setting.n
    return Passes(forwards, len(attacked) * steps)


def _attack(eps: Eps, rows: Sequence[SmoothedRow], total: int) -> AttackFigures:
    judged = Counter(row.attacked.outcome for row in rows if row.attacked is not None)
    pending = total - len(rows)
    certified = [row for row in rows if row.outcome == "certified" and row.radius is not None and row.radius >= eps]
    wrong = sum(row.outcome == "wrong" for row in rows)
    return AttackFigures(
        eps=eps,
        certified=Proportion(len(certified), total, ROWS, pending),
        stands=Proportion(judged["stands"], total, ROWS, pending),
        not_shown_wrong=total - wrong - judged["broken"],
        broken=judged["broken"],
        abstained=judged["abstained"],
        errors=judged["error"],
        contradictions=tuple(
            row.row for row in certified if row.attacked is not None and row.attacked.outcome == "broken"
        ),
    )
