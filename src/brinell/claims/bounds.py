"""What a claim bounds: the true robust accuracy from above or from below, within which threat models.

Whoever is robust within a set of points is robust within every smaller one. So an attack's figure is an upper bound under
its own threat model and every one that holds more, and a certificate's a lower bound under its own and every one that
holds less.
"""

import math
from dataclasses import dataclass

from brinell.claims.claim import Claim
from brinell.claims.conditions import ThreatModel
from brinell.claims.figure import Figure

SLACK = 1e-6
"""Relative tolerance between two radii that were written differently."""
SIGMAS = 1.96
"""How far the draws of a randomised model may have moved its figure, in standard errors (95 %)."""
_EXPONENTS = {"linf": math.inf, "l2": 2.0, "l1": 1.0}


@dataclass(frozen=True)
class Bound:
    """A bound of the true robust accuracy of one model on some rows."""

    upper: bool
    share: float
    """With all that may still count for the model, or against it: rows in error, undecided rows, rounding, draws."""
    count: float | None
    of: int | None
    threat: ThreatModel
    stated: str
    """The figure that it comes from, as its maker writes it."""
    why: str
    """How it follows from the claim, a clause."""


def robust_accuracy(claim: Claim) -> tuple[Figure | None, str]:
    """The claim's figure as a robust accuracy over all rows, with its counts where these follow; None where it does not."""
    figure, clean = claim.figure, claim.clean
    rate = claim.quantity == "attack success rate"
    if figure.denominator == "all rows" or (figure.denominator is None and not rate):
        return (figure, "as stated") if not rate else _complement(figure)
    if figure.denominator is None:
        return None, "of which rows its success rate is a share is unstated"
    if clean is None or clean.share is None:
        return None, "it is over the initially correct rows, and the clean accuracy is unstated"
    if None not in (figure.count, figure.of, clean.count, clean.of):
        assert figure.count is not None
        assert figure.of is not None
        if figure.of != clean.count:
            return (
                None,
                f"it is over {figure.of:,} correct rows, and {clean.count:,g} were correct by its clean accuracy",
            )
        standing = figure.of - figure.count - figure.undecided if rate else figure.count
        counted = Figure(count=standing, of=clean.of, denominator="all rows", undecided=figure.undecided)
        return counted, "correct rows that stand, over all rows"
    if figure.share is None:
        return None, "it is not known yet"
    stands = 1 - figure.share if rate else figure.share
    return Figure(
        value=stands * clean.share, denominator="all rows"
    ), "clean accuracy times the share of correct rows that stand"


def _complement(figure: Figure) -> tuple[Figure | None, str]:
    why = "1 less a success rate over all rows"
    if figure.count is not None and figure.of:
        left = figure.of - figure.count - figure.undecided
        return Figure(count=left, of=figure.of, denominator="all rows", undecided=figure.undecided), why
    if figure.share is None:
        return None, "its success rate is not known yet"
    return Figure(value=1 - figure.share, denominator="all rows"), why


def bounds_of(claim: Claim) -> list[Bound]:
    """All bounds that the claim gives: its figure's, and its clean accuracy's, which is the robust accuracy at eps 0."""
    found = []
    figure, how = robust_accuracy(claim)
    if figure is not None and (bound := _bound(claim, figure, how)) is not None:
        found.append(bound)
    proved = claim.certified
    if proved is not None and proved.share is not None:
        at_least = proved.share - proved.rounding
        found.append(Bound(False, at_least, proved.count, proved.of, claim.threat, str(proved), "certified"))
    clean = claim.clean
    if clean is not None and clean.share is not None:
        at_most = min(1.0, clean.share + clean.rounding + SIGMAS * (clean.noise or 0.0))
        threat = claim.threat.model_copy(update={"eps": "0"})
        why = "clean accuracy, which is the figure at eps 0"
        found.append(Bound(True, at_most, clean.count, clean.of, threat, str(clean), why))
    return found


def _bound(claim: Claim, figure: Figure, how: str) -> Bound | None:
    """The bound that a robust accuracy gives, whatever is still open taken for the model if from above, else against it."""
    stated = str(claim.figure)
    slack = SIGMAS * (claim.figure.noise or 0.0)
    if figure.count is not None and figure.of:
        count = figure.count + (figure.undecided + claim.errors if claim.upper else 0)
        count = min(count, figure.of)
        if claim.errors or figure.undecided:
            how += ", rows in error or undecided taken for it" if claim.upper else ""
        share = count / figure.of
        return Bound(
            claim.upper, share + (slack if claim.upper else -slack), count, figure.of, claim.threat, stated, how
        )
    if figure.value is None or claim.state or claim.errors or figure.undecided:
        return None
    rounding = figure.rounding or claim.figure.rounding
    slack += rounding
    how += f", {100 * figure.value:g} % to its last digit" if rounding else ""
    share = figure.value + slack if claim.upper else figure.value - slack
    return Bound(claim.upper, share, None, None, claim.threat, stated, how)


def holds_within(outer: ThreatModel, inner: ThreatModel, dimension: int | None = None) -> bool:
    """Whether every point that ``inner`` allows, ``outer`` allows too.

    ``||d||_inf <= ||d||_2 <= ||d||_1``, and ``||d||_p <= n^(1/p - 1/q) ||d||_q`` for ``p < q`` over ``n`` input values:
    without ``dimension``, ``n``, nothing follows in that direction. What is unknown never follows, but for a goal and a box
    that both leave out, which the verdict names. A goal that aims at chosen classes holds none but its own choice, which no
    claim states.
    """
    if outer.goal == "targeted" or (outer.low, outer.high) != (inner.low, inner.high):
        return False
    if "relative to the input" in (outer.eps_is, inner.eps_is):
        return False
    if inner.radius == 0:
        return True
    if None in (outer.norm, inner.norm, outer.radius, inner.radius):
        return False
    assert outer.radius is not None
    assert inner.radius is not None
    reach = outer.radius * (1 + SLACK)
    if outer.norm == inner.norm:
        return inner.radius <= reach
    if outer.norm not in _EXPONENTS or inner.norm not in _EXPONENTS:
        return False
    p, q = _EXPONENTS[outer.norm], _EXPONENTS[inner.norm]
    if p > q:
        return inner.radius <= reach
    return dimension is not None and inner.radius * math.pow(dimension, 1 / p - 1 / q) <= reach


def same_radius(one: ThreatModel, other: ThreatModel) -> bool | None:
    """Whether two radii are one, however they are written; None where one is unknown."""
    a, b = one.radius, other.radius
    return None if a is None or b is None else math.isclose(a, b, rel_tol=SLACK)


def robust_share(claim: Claim) -> float | None:
    """The share that stands by the claim; None where it does not follow."""
    figure, _ = robust_accuracy(claim)
    return None if figure is None else figure.share
