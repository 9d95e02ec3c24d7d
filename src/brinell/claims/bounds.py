"""What a claim bounds: the true robust accuracy from above or from below, within which threat models.

Whoever is robust within a set of points is robust within every smaller one. So an attack's figure is an upper bound under
its own threat model and every one that holds more, and a certificate's a lower bound under its own and every one that
holds less.
"""

import math
from dataclasses import dataclass

from brinell.claims.claim import Claim, Figure, ThreatModel

SLACK = 1e-9
"""Relative tolerance between radii that were computed, not written."""
_EXPONENTS = {"linf": math.inf, "l2": 2.0, "l1": 1.0}


@dataclass(frozen=True)
class Bound:
    """A bound of the true robust accuracy of one model on some rows."""

    upper: bool
    share: float
    figure: Figure
    threat: ThreatModel
    why: str
    """How it follows from the claim, a clause."""


def robust_accuracy(claim: Claim) -> tuple[Figure | None, str]:
    """The claim's figure as a robust accuracy over all rows, and how; None where that does not follow."""
    figure, clean = claim.figure, claim.clean
    if claim.quantity != "attack success rate":
        if figure.denominator == "initially correct rows":
            if clean is None or clean.share is None or figure.share is None:
                return (
                    None,
                    "its robust accuracy is over the initially correct rows, and the clean accuracy is unstated",
                )
            value = figure.share * clean.share
            return Figure(value=value, denominator="all rows"), "rows standing over correct rows, times clean accuracy"
        return figure, "as stated"
    if figure.share is None or figure.denominator is None:
        return None, "of which rows its success rate is a share is unstated"
    if figure.denominator == "all rows":
        return Figure(value=1 - figure.share, denominator="all rows"), "1 less a success rate over all rows"
    if clean is None or clean.share is None:
        return None, "its success rate is over the initially correct rows, and the clean accuracy is unstated"
    counts = (figure.count, figure.of, clean.count, clean.of)
    if all(count is not None for count in counts) and figure.of == clean.count and clean.of is not None:
        assert clean.count is not None
        assert figure.count is not None
        return (
            Figure(count=clean.count - figure.count, of=clean.of, denominator="all rows"),
            "correct rows less broken ones, over all rows",
        )
    value = clean.share * (1 - figure.share)
    return Figure(value=value, denominator="all rows"), "clean accuracy times the share of correct rows that stand"


def bounds_of(claim: Claim) -> list[Bound]:
    """All bounds that the claim gives: its figure's, and its clean accuracy's, which is the robust accuracy at eps 0."""
    found = []
    figure, how = robust_accuracy(claim)
    if figure is not None and figure.share is not None and not claim.state:
        found.append(Bound(claim.upper, figure.share, figure, claim.threat, how))
    if claim.clean is not None and claim.clean.share is not None:
        threat = claim.threat.model_copy(update={"eps": "0"})
        found.append(
            Bound(True, claim.clean.share, claim.clean, threat, "clean accuracy, which is the figure at eps 0")
        )
    return found


def holds_within(outer: ThreatModel, inner: ThreatModel, dimension: int | None = None) -> bool:
    """Whether every point that ``inner`` allows, ``outer`` allows too.

    ``||d||_inf <= ||d||_2 <= ||d||_1``, and ``||d||_p <= n^(1/p - 1/q) ||d||_q`` for ``p < q`` over ``n`` input values:
    without ``dimension``, ``n``, nothing follows in that direction. What is unknown never follows.
    """
    if inner.radius == 0 and _same_box(outer, inner):
        return _goal_within(outer, inner)
    if None in (outer.norm, inner.norm, outer.radius, inner.radius) or not _same_box(outer, inner):
        return False
    if not _goal_within(outer, inner):
        return False
    assert outer.radius is not None
    assert inner.radius is not None
    if outer.norm == inner.norm:
        return inner.radius <= outer.radius * (1 + SLACK)
    if outer.norm not in _EXPONENTS or inner.norm not in _EXPONENTS:
        return False
    p, q = _EXPONENTS[outer.norm], _EXPONENTS[inner.norm]
    if p > q:
        return inner.radius <= outer.radius * (1 + SLACK)
    if dimension is None:
        return False
    farthest = inner.radius * math.pow(dimension, 1 / p - 1 / q)
    return farthest <= outer.radius * (1 + SLACK)


def _same_box(one: ThreatModel, other: ThreatModel) -> bool:
    """Boxes that both leave out are taken for the same, which the comparison says; one that only one states is not."""
    return (one.low, one.high) == (other.low, other.high)


def _goal_within(outer: ThreatModel, inner: ThreatModel) -> bool:
    """Any wrong class is more than one that was chosen beforehand; what is unstated is taken for it, which the verdict says."""
    return outer.goal == inner.goal or outer.goal in (None, "untargeted")


def robust_share(claim: Claim) -> float | None:
    """The share that stands by the claim; None where it does not follow."""
    figure, _ = robust_accuracy(claim)
    return None if figure is None else figure.share
