"""Two claims that were measured alike: the difference of their figures, and how far chance goes."""

from brinell.claims.account import Account, common_rows
from brinell.claims.claim import Figure
from brinell.claims.verdict import Paired, Verdict, points
from brinell.statistics import LEVEL, mcnemar, paired_difference, unpaired_difference

STANDS = frozenset({"standing", "certified"})


def told(first: Account, second: Account) -> tuple[str, str]:
    """What both sides say, a sentence each."""
    return f"{first.name}: {first.claim.line()}.", f"{second.name}: {second.claim.line()}."


def measured_alike(first: Account, second: Account, unstated: tuple[str, ...], so_far: tuple[str, ...]) -> Verdict:
    """The paired test where both are on the same rows, else the interval of the difference."""
    sides = told(first, second)
    if any(account.claim.state for account in (first, second)):
        return Verdict(
            "cannot conclude", None, (*sides, "A run that is not complete bounds nothing yet."), unstated=unstated
        )
    rows = common_rows(first, second)
    if rows:
        return _paired(first, second, rows)
    one, two = first.claim.figure, second.claim.figure
    if one.count is None or two.count is None or not one.of or not two.of:
        missing = tuple(dict.fromkeys((*unstated, "count")))
        need = _enough(one, two)
        return Verdict("cannot conclude", None, (*sides, *so_far, *need), unstated=missing)
    if unstated:
        return Verdict("cannot conclude", None, (*sides, *so_far), unstated=unstated)
    low, high = unpaired_difference(one.count, one.of, two.count, two.of)
    reason = (
        f"The difference, {first.name} less {second.name}, is {points(one.count / one.of - two.count / two.of)} points, at "
        f"95 % [{points(low)}, {points(high)}], the rows of each taken for a sample of their own (Newcombe)"
    )
    return _by_interval(first, second, (low, high), (*sides, reason + "."))


def _paired(first: Account, second: Account, rows: frozenset[str]) -> Verdict:
    """Row by row on the rows that both have."""
    assert first.statuses is not None
    assert second.statuses is not None
    stands = [{row for row in rows if statuses[row] in STANDS} for statuses in (first.statuses, second.statuses)]
    only_first, only_second = len(stands[0] - stands[1]), len(stands[1] - stands[0])
    interval = paired_difference(only_first, only_second, len(rows))
    paired = Paired(len(rows), only_first, only_second, mcnemar(only_first, only_second), interval)
    reason = (
        f"On the same {len(rows)} rows {first.name} stands on {len(stands[0])} and {second.name} on {len(stands[1])}: "
        f"{only_first} rows stand in {first.name} alone, {only_second} in {second.name} alone (exact paired test p = "
        f"{paired.p:.2g}); the difference is {points((only_first - only_second) / len(rows))} points, at 95 % "
        f"[{points(interval[0])}, {points(interval[1])}] (Tango)."
    )
    sides = (*told(first, second), reason)
    if paired.p >= 1 - LEVEL:
        chance = "The rows do not tell the two apart: so many could fall either way by chance."
        return Verdict("cannot conclude", None, (*sides, chance), paired=paired)
    better = first if only_first > only_second else second
    return Verdict("stands higher", better.name, sides, paired=paired)


def _by_interval(first: Account, second: Account, interval: tuple[float, float], reasons: tuple[str, ...]) -> Verdict:
    low, high = interval
    if low <= 0 <= high:
        return Verdict("cannot conclude", None, (*reasons, "The interval holds 0: chance could have made it."))
    return Verdict("stands higher", first.name if low > 0 else second.name, reasons)


def _enough(one: Figure, two: Figure) -> tuple[str, ...]:
    """How many rows each would need for their difference to be more than chance."""
    if one.share is None or two.share is None or one.share == two.share:
        return ("Without counts nothing can be said of how far chance goes.",)
    need = next(
        (n for n in (round(10 ** (k / 20)) for k in range(20, 161)) if _excludes_zero(one.share, two.share, n)), None
    )
    if need is None:
        return ("Without counts nothing can be said of how far chance goes.",)
    return (
        f"Neither figure comes with both counts. A difference of {points(one.share - two.share)} points is more than chance "
        f"(95 %, rows unpaired) from about {need:,} rows each.",
    )


def _excludes_zero(one: float, two: float, rows: int) -> bool:
    low, high = unpaired_difference(one * rows, rows, two * rows, rows)
    return low > 0 or high < 0
