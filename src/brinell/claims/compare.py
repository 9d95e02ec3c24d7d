"""What follows from two claims, sentence by sentence; that nothing follows is a result.

Two figures are put side by side only where they were measured alike: same rows, threat model, suite and rule. Else only
what their bounds imply counts (``bounds``): a lower bound of one above an upper bound of the other, where the threat model
of the first holds that of the second.
"""

from collections.abc import Iterator

from brinell.claims.account import Account, Rows, common_rows, plain, rows_of, same_data
from brinell.claims.alike import STANDS, measured_alike, told
from brinell.claims.bounds import Bound, bounds_of, holds_within, robust_accuracy
from brinell.claims.claim import AttackSuite, Figure, ThreatModel
from brinell.claims.verdict import Verdict
from brinell.statistics import LEVEL, clopper_pearson


def compare(first: Account, second: Account) -> Verdict:
    """What follows from two claims. No input is refused; without what it needs, the verdict is "cannot conclude"."""
    if same_data(first.claim, second.claim) is False and not common_rows(first, second):
        names = [account.claim.data.known_as or account.claim.data.name for account in (first, second)]
        return Verdict(
            "cannot conclude",
            None,
            (f"{first.name} is on {names[0]}, {second.name} on {names[1]}.",),
            differs=("data",),
        )
    proven = _by_bounds(first, second)
    differs, unstated = differences(first, second)
    if proven.outcome == "more robust":
        return proven
    if differs:
        within = _within_suite(first, second, differs)
        return within or Verdict("cannot conclude", None, (*told(first, second), *proven.reasons), differs, unstated)
    return measured_alike(first, second, unstated, proven.reasons)


def differences(first: Account, second: Account) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The fields in which two claims differ, and those that one of them leaves out, so that they may differ."""
    one, two = first.claim, second.claim
    pairs: dict[str, tuple[object, object]] = {
        "norm": (one.threat.norm, two.threat.norm),
        "eps": (one.threat.radius, two.threat.radius),
        "bounds of the inputs": (_box(one.threat), _box(two.threat)),
        "goal": (one.threat.goal, two.threat.goal),
        "access": (one.threat.access, two.threat.access),
        "kind of figure": (one.kind, two.kind),
        "suite": (_suite_key(one.suite), _suite_key(two.suite)),
        "budget": (one.suite.budget or "none", two.suite.budget or "none"),
        "rule of the figure": (one.quantity, two.quantity),
        "denominator": (one.figure.denominator, two.figure.denominator),
        "preprocessing": (one.data.preprocessing or "", two.data.preprocessing or ""),
    }
    differs = [name for name, (a, b) in pairs.items() if a is not None and b is not None and a != b]
    unstated = [
        name for name, (a, b) in pairs.items() if (a is None) != (b is None) or (a is None and name in _ESSENTIAL)
    ]
    relation = rows_of(first, second)
    uneven = one.suite.uneven or two.suite.uneven
    if relation == "other" or (relation not in ("same", "same as stated", "unstated") and uneven):
        differs.append("rows")
    if relation == "unstated":
        unstated.append("rows")
    return tuple(differs), tuple(unstated)


_ESSENTIAL = ("norm", "eps", "suite", "denominator")


def _box(threat: ThreatModel) -> tuple[float, float] | None:
    return None if threat.low is None or threat.high is None else (threat.low, threat.high)


def _suite_key(suite: AttackSuite) -> object:
    if suite.digest is not None:
        return suite.digest
    if suite.name is None:
        return None
    return plain(suite.name), suite.version, suite.steps, suite.restarts, suite.draws


def _by_bounds(first: Account, second: Account) -> Verdict:
    """Whether a lower bound of one lies above an upper bound of the other, where both hold."""
    reasons: list[str] = []
    for better, worse in ((first, second), (second, first)):
        for lower, upper in _opposed(better, worse):
            settled, reason = _separates(better, lower, worse, upper, rows_of(first, second))
            reasons.append(reason)
            if settled:
                reasons_so_far = (*told(first, second), reason)
                return Verdict(
                    "more robust", better.name, reasons_so_far, assumed=_assumed(better, lower, worse, upper)
                )
    if not reasons:
        reasons = [_upper_only(account, other) for account, other in ((first, second), (second, first))]
    return Verdict("cannot conclude", None, tuple(reason for reason in reasons if reason))


def _assumed(better: Account, lower: Bound, worse: Account, upper: Bound) -> tuple[str, ...]:
    """What must be so, though it is unstated, for a bound to be above another."""
    found = []
    if rows_of(better, worse) == "unstated":
        found.append("both are on the same rows")
    if lower.threat.low is None and upper.threat.low is None:
        found.append("inputs have the same bounds")
    if lower.figure.denominator is None:
        found.append(f"the figure of {better.name} is over all rows")
    if lower.threat.goal is None or upper.threat.goal is None:
        found.append("in both any wrong class breaks a row")
    if same_data(better.claim, worse.claim) is None:
        found.append("both are on the same data")
    return tuple(found)


def _opposed(better: Account, worse: Account) -> Iterator[tuple[Bound, Bound]]:
    """Each lower bound of one with each upper bound of the other that holds within the same threat model."""
    dimension = better.dimension or worse.dimension
    for lower in _bounds(better, worse):
        for upper in _bounds(worse, better):
            if not lower.upper and upper.upper and holds_within(lower.threat, upper.threat, dimension):
                yield lower, upper


def _bounds(account: Account, other: Account) -> list[Bound]:
    """The bounds of an account; on the rows that both have, where these are known and not all of them."""
    bounds, rows = bounds_of(account.claim), common_rows(account, other)
    if not rows or account.statuses is None or len(rows) == len(account.statuses):
        return bounds
    counts = {True: account.share_of(STANDS, rows), False: account.share_of(frozenset({"certified"}), rows)}
    shared = [bound for bound in bounds if bound.threat == account.claim.threat]
    return [
        Bound(bound.upper, figure.share or 0.0, figure, bound.threat, "counted on the rows that both have")
        for bound in shared
        for figure in [Figure(count=counts[bound.upper], of=len(rows), denominator="all rows")]
    ]


def _separates(better: Account, lower: Bound, worse: Account, upper: Bound, relation: Rows) -> tuple[bool, str]:
    """Whether a lower bound lies above an upper one, and the inference as a sentence."""
    where = upper.threat.describe() if upper.threat == lower.threat else _between(upper.threat, lower.threat)
    bounds = (
        f"{better.name} is at least {_percent(lower)} within {_ball(lower.threat)} ({lower.why}), and within all that it "
        f"holds; {worse.name} is at most {_percent(upper)} within {_ball(upper.threat)} ({upper.why}), and within all that "
        "holds it"
    )
    if lower.share <= upper.share:
        return False, f"{bounds}: the bounds overlap."
    if relation in ("same", "first within second", "second within first", "overlapping"):
        return True, f"{bounds}: {better.name} is more robust {where}, on the rows that both have."
    if relation in ("same as stated", "unstated"):
        return True, f"{bounds}: {better.name} is more robust {where}."
    apart = _apart(lower.figure, upper.figure)
    if apart is None:
        return False, f"{bounds}; but on other rows, and without counts nothing can be said of how far chance goes."
    return apart, f"{bounds}; on other rows, with intervals that {'do not ' if apart else ''}overlap at 95 %."


def _apart(higher: Figure, lower: Figure) -> bool | None:
    """Whether two exact intervals leave a gap; each misses its own side with 2.5 %, both together with 5 % at most."""
    if higher.count is None or not higher.of or lower.count is None or not lower.of:
        return None
    return clopper_pearson(higher.count, higher.of, LEVEL)[0] > clopper_pearson(lower.count, lower.of, LEVEL)[1]


def _between(inner: ThreatModel, outer: ThreatModel) -> str:
    return f"within {_ball(inner)}, within {_ball(outer)} and between"


def _ball(threat: ThreatModel) -> str:
    return f"{(threat.norm or 'an unstated norm').capitalize()} {threat.eps or 'of unstated eps'}"


def _percent(bound: Bound) -> str:
    return f"{100 * bound.share:.1f} %"


def _upper_only(account: Account, other: Account) -> str:
    """What an upper bound says at the other's threat model, where that holds its own."""
    figure, how = robust_accuracy(account.claim)
    if figure is None:
        return f"{account.name}: no robust accuracy follows, for {how}."
    if figure.share is None or account.claim.state:
        return f"{account.name}: its figure is {figure}, so that it bounds nothing yet."
    if not account.claim.upper or account.claim.threat == other.claim.threat:
        return ""
    if holds_within(other.claim.threat, account.claim.threat, account.dimension or other.dimension):
        return (
            f"{account.name} within {_ball(other.claim.threat)} is at most {100 * figure.share:.1f} %, which settles nothing: "
            "both are upper bounds."
        )
    here, there = _ball(account.claim.threat), _ball(other.claim.threat)
    return f"Of {account.name} within {there} nothing follows from its figure within {here}."


def _within_suite(first: Account, second: Account, differs: tuple[str, ...]) -> Verdict | None:
    """Whether the one with more attacks against it still stands higher, where the suites are all that differs."""
    if set(differs) - {"suite", "budget"}:
        return None
    for harder, easier in ((first, second), (second, first)):
        one, two = harder.claim.suite, easier.claim.suite
        if not two.attacks or not set(two.attacks) < set(one.attacks) or one.cut or two.cut or two.uneven:
            continue
        more = f"{_suite(one)} has every attack of {_suite(two)} and {len(set(one.attacks) - set(two.attacks))} more"
        alike = measured_alike(harder, easier, (), ())
        if alike.outcome == "stands higher" and alike.better == harder.name:
            reason = f"{more}: under it {easier.name} can only stand on fewer rows than it does."
            return Verdict("stands higher", harder.name, (*alike.reasons, reason), paired=alike.paired)
        reason = f"{more}: {easier.name} could fall as far under it. Run it with {one.name} too."
        return Verdict("cannot conclude", None, (*alike.reasons, reason), differs=differs, paired=alike.paired)
    return None


def _suite(suite: AttackSuite) -> str:
    return suite.describe().removeprefix("suite ")
