"""What follows from two claims, sentence by sentence; that nothing follows is a result.

Two figures are put side by side only where they were measured alike: same data, threat model, suite and rule. Else only
what their bounds imply counts (``bounds``): a lower bound of one above an upper bound of the other, where the threat model
of the first holds that of the second.
"""

from collections.abc import Iterator

from brinell.claims.account import Account, common_rows, rows_of, same_data
from brinell.claims.alike import measured_alike, told
from brinell.claims.bounds import Bound, bounds_of, holds_within, robust_accuracy, same_radius
from brinell.claims.conditions import AttackSuite, ThreatModel
from brinell.claims.differences import differences
from brinell.claims.verdict import Verdict
from brinell.statistics import clopper_pearson

FROM_ABOVE = frozenset({"standing", "certified", "error", "pending"})
"""Statuses of rows that may be robust, whatever an attack has found."""


def compare(first: Account, second: Account) -> Verdict:
    """What follows from two claims. No input is refused; without what it needs, the verdict is "cannot conclude"."""
    if same_data(first, second) is False:
        names = [account.claim.data.known_as or account.claim.data.name for account in (first, second)]
        reason = f"{first.name} is on {names[0]}, {second.name} on {names[1]}."
        return Verdict("cannot conclude", None, (reason,), differs=("data",))
    for account in (first, second):
        if account.claim.outcome == "invalid" and not account.claim.state:
            reason = f"{account.name}: its figure is refused, for {', '.join(account.claim.findings)}."
            return Verdict("cannot conclude", None, (*told(first, second), reason))
    proven = _by_bounds(first, second)
    if proven.outcome == "more robust":
        return proven
    differs, unstated = differences(first, second)
    if differs:
        within = _within_suite(first, second, differs, unstated)
        return within or Verdict("cannot conclude", None, (*told(first, second), *proven.reasons), differs, unstated)
    return measured_alike(first, second, unstated, proven.reasons)


def _by_bounds(first: Account, second: Account) -> Verdict:
    """Whether a lower bound of one lies above an upper bound of the other, where both hold."""
    reasons: list[str] = []
    for better, worse in ((first, second), (second, first)):
        for lower, upper in _opposed(better, worse):
            settled, reason = _separates(better, lower, worse, upper)
            if settled and _one_model(first, second):
                reason += " But both speak of one model: one of them is wrong."
                return Verdict("cannot conclude", None, (*told(first, second), reason))
            if settled:
                sentences = (*told(first, second), reason)
                return Verdict(
                    "more robust", better.name, sentences, assumed=tuple(_assumed(better, lower, worse, upper))
                )
            reasons.append(reason)
    if not reasons:
        reasons = [_upper_only(account, other) for account, other in ((first, second), (second, first))]
    return Verdict("cannot conclude", None, tuple(reason for reason in reasons if reason))


def _one_model(first: Account, second: Account) -> bool:
    fingerprint = first.claim.model.fingerprint
    return fingerprint is not None and fingerprint == second.claim.model.fingerprint


def _opposed(better: Account, worse: Account) -> Iterator[tuple[Bound, Bound]]:
    """Each lower bound of one with each upper bound of the other that holds within the same threat model."""
    sizes = {account.dimension for account in (better, worse)} - {None}
    if len(sizes) > 1:
        return
    dimension = sizes.pop() if sizes else None
    for lower in _bounds(better, worse):
        for upper in _bounds(worse, better):
            if not lower.upper and upper.upper and holds_within(lower.threat, upper.threat, dimension):
                yield lower, upper


def _bounds(account: Account, other: Account) -> list[Bound]:
    """The bounds of an account; counted on the rows that both have, where these are known and not all of them."""
    bounds, rows = bounds_of(account.claim), common_rows(account, other)
    if not rows or account.statuses is None or len(rows) == len(account.statuses):
        return bounds
    found = []
    for bound in bounds:
        clean = bound.threat.radius == 0 and account.claim.threat.radius != 0
        counted = frozenset({"certified"}) if not bound.upper else FROM_ABOVE | ({"broken"} if clean else set())
        count = account.share_of(frozenset(counted), rows)
        why = "counted on the rows that both have"
        found.append(Bound(bound.upper, count / len(rows), count, len(rows), bound.threat, f"{count}/{len(rows)}", why))
    return found


def _separates(better: Account, lower: Bound, worse: Account, upper: Bound) -> tuple[bool, str]:
    """Whether a lower bound lies above an upper one, and the inference as a sentence."""
    relation = rows_of(better, worse)
    bounds = (
        f"{better.name} is at least {_percent(lower)} within {_ball(lower.threat)} ({lower.why}), and within all that it "
        f"holds; {worse.name} is at most {_percent(upper)} within {_ball(upper.threat)} ({upper.why}), and within all that "
        "holds it"
    )
    if lower.share <= upper.share:
        return False, f"{bounds}: the bounds overlap."
    where = f"within {_ball(upper.threat)}"
    if not (upper.threat.norm == lower.threat.norm and same_radius(upper.threat, lower.threat)):
        where += f", within {_ball(lower.threat)} and between"
    if relation == "other":
        if lower.count is None or not lower.of or upper.count is None or not upper.of:
            return False, f"{bounds}; but on other rows, and without counts nothing can be said of how far chance goes."
        apart = clopper_pearson(lower.count, lower.of)[0] > clopper_pearson(upper.count, upper.of)[1]
        return apart, f"{bounds}; on other rows, with exact intervals that {'part' if apart else 'meet'} at 95 %."
    on = {"same as stated": ", on the rows that both state", "unstated": ""}.get(
        relation, ", on the rows that both have"
    )
    return True, f"{bounds}: {better.name} is more robust {where}{on}."


def _assumed(better: Account, lower: Bound, worse: Account, upper: Bound) -> Iterator[str]:
    """What must be so, though it is unstated, for a bound to be above another."""
    if same_data(better, worse) is None:
        yield "both are on the same data"
    if rows_of(better, worse) == "unstated":
        yield "both are on the same rows"
    if lower.threat.box is None:
        yield "inputs have the same bounds"
    if better.claim.figure.denominator is None:
        yield f"the figure of {better.name} is over all rows"
    if lower.threat.goal is None:
        yield f"the certificate of {better.name} is against any wrong class"
    confidence = better.claim.suite.confidence
    if confidence is not None:
        yield f"no certificate fails, each of which may with probability {1 - confidence:g}"


def _upper_only(account: Account, other: Account) -> str:
    """What an upper bound says at the other's threat model, where that holds its own."""
    bound = next((bound for bound in bounds_of(account.claim) if bound.threat == account.claim.threat), None)
    if bound is None:
        figure, how = robust_accuracy(account.claim)
        why = how if figure is None else "it is not complete, or rows in error are not counted in it"
        return f"{account.name}: its figure bounds nothing, for {why}."
    here, there = account.claim.threat, other.claim.threat
    if not bound.upper or (here.norm == there.norm and same_radius(here, there)):
        return ""
    if not holds_within(there, here, account.dimension or other.dimension):
        return f"Of {account.name} within {_ball(there)} nothing follows from its figure within {_ball(here)}."
    both = ": both are upper bounds" if other.claim.upper else ""
    share = robust_accuracy(account.claim)[0]
    shown = _percent(bound) if share is None or share.share is None else f"{100 * share.share:.1f} %"
    return f"{account.name} within {_ball(there)} is at most {shown}, which settles nothing{both}."


def _within_suite(
    first: Account, second: Account, differs: tuple[str, ...], unstated: tuple[str, ...]
) -> Verdict | None:
    """Whether the one with more attacks against it still stands higher, where the suites are all that differs."""
    suites = (first.claim.suite, second.claim.suite)
    if differs != ("suite",) or any(suite.uneven or suite.cut or suite.budget is not None for suite in suites):
        return None
    for harder, easier in ((first, second), (second, first)):
        one, two = harder.claim.suite, easier.claim.suite
        if not two.attacks or not set(two.attacks) < set(one.attacks):
            continue
        more = f"{_suite(one)} has every attack of {_suite(two)} and {len(set(one.attacks) - set(two.attacks))} more"
        alike = measured_alike(harder, easier, unstated, ())
        if alike.outcome == "stands higher" and alike.better == harder.name:
            reason = f"{more}: under it {easier.name} could only stand on fewer rows than it does, but for chance."
            return Verdict("stands higher", harder.name, (*alike.reasons, reason), paired=alike.paired)
        reason = f"{more}: {easier.name} could fall as far under it. Run it with {one.name} too."
        return Verdict("cannot conclude", None, (*alike.reasons, reason), differs, unstated, alike.paired)
    return None


def _suite(suite: AttackSuite) -> str:
    return suite.describe().removeprefix("suite ")


def _ball(threat: ThreatModel) -> str:
    return f"{(threat.norm or 'an unstated norm').capitalize()} {threat.eps or 'of unstated eps'}"


def _percent(bound: Bound) -> str:
    return f"{100 * min(max(bound.share, 0.0), 1.0):.1f} %"
