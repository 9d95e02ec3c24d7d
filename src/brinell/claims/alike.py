"""Two claims that were measured alike: the difference of their figures, and how far chance goes."""

from brinell.claims.account import Account, common_rows, rows_of
from brinell.claims.bounds import robust_accuracy
from brinell.claims.figure import Figure
from brinell.claims.verdict import Paired, Verdict, points
from brinell.statistics import LEVEL, clopper_pearson, mcnemar, paired_difference, unpaired_difference

CHANCE = "The rows do not tell the two apart: so many could fall either way by chance."


def told(first: Account, second: Account) -> tuple[str, str]:
    """What both sides say, a sentence each."""
    return f"{first.name}: {first.claim.line()}.", f"{second.name}: {second.claim.line()}."


def measured_alike(first: Account, second: Account, unstated: tuple[str, ...], so_far: tuple[str, ...]) -> Verdict:
    """The paired test where both are on the same rows, else what their counts allow.

    A row that is in error or undecided is held against the verdict: it may stand in the one that falls behind, and fall in
    the one that is ahead.
    """
    sides = (*told(first, second), *so_far)
    if any(account.claim.state for account in (first, second)):
        return Verdict("cannot conclude", None, (*sides, "A run that is not complete has no figure to compare yet."))
    if unstated:
        return Verdict("cannot conclude", None, (*sides, *_enough(first, second)), unstated=unstated)
    if rows := common_rows(first, second):
        return _paired(first, second, rows)
    figures = [robust_accuracy(account.claim) for account in (first, second)]
    for account, (figure, why) in zip((first, second), figures, strict=True):
        if figure is None:
            return Verdict("cannot conclude", None, (*sides, f"{account.name}: no robust accuracy follows, for {why}."))
        if figure.count is None or not figure.of:
            return Verdict("cannot conclude", None, (*sides, *_enough(first, second)), unstated=("count",))
    return _counted(first, second, [figure for figure, _ in figures if figure is not None], sides)


def _counted(first: Account, second: Account, figures: list[Figure], sides: tuple[str, ...]) -> Verdict:
    """By the counts alone: what is open is taken against whoever is ahead."""
    shares = [figure.share or 0.0 for figure in figures]
    ahead = 0 if shares[0] >= shares[1] else 1
    names = [first, second]
    count, of = figures[ahead].count or 0.0, figures[ahead].of or 1
    behind_of = figures[1 - ahead].of or 1
    loose = names[1 - ahead].claim.errors + figures[1 - ahead].undecided
    behind = min((figures[1 - ahead].count or 0.0) + loose, behind_of)
    if rows_of(first, second) in ("same", "same as stated"):
        low, high = clopper_pearson(count, of)[0], clopper_pearson(behind, behind_of)[1]
        settled = low > high
        reason = (
            f"{names[ahead].name} stands on {count:g} of {of}, {names[1 - ahead].name} on {behind:g} of {behind_of} at most. "
            "The rows are the same, and which of them stand in which is not known: the exact intervals "
            f"{'part' if settled else 'meet'} ({100 * low:.1f} % at least, {100 * high:.1f} % at most)."
        )
    else:
        low, high = unpaired_difference(count, of, behind, behind_of)
        settled = low > 0
        reason = (
            f"The difference, {names[ahead].name} less {names[1 - ahead].name}, is {points(count / of - behind / behind_of)} "
            f"points, at 95 % [{points(low)}, {points(high)}], the rows of each taken for a sample of their own (Newcombe)."
        )
    if not settled:
        return Verdict("cannot conclude", None, (*sides, reason, CHANCE))
    return _ahead(names[ahead], (*sides, reason), None)


def _paired(first: Account, second: Account, rows: frozenset[str]) -> Verdict:
    """Row by row on the rows that both have."""
    assert first.statuses is not None
    assert second.statuses is not None
    counted = frozenset({"certified"}) if first.claim.kind == "certified" else frozenset({"standing", "certified"})
    stands = [{row for row in rows if statuses[row] in counted} for statuses in (first.statuses, second.statuses)]
    better, worse = (first, second) if len(stands[0]) >= len(stands[1]) else (second, first)
    assert worse.statuses is not None
    favoured = {row for row in rows if worse.statuses[row] in ("error", "pending")}
    stands[1 if worse is second else 0] |= favoured
    only_first, only_second = len(stands[0] - stands[1]), len(stands[1] - stands[0])
    interval = paired_difference(only_first, only_second, len(rows))
    paired = Paired(len(rows), only_first, only_second, mcnemar(only_first, only_second), interval)
    open_ones = f" ({len(favoured)} rows of {worse.name} in error or pending taken for it)" if favoured else ""
    word = "is certified" if first.claim.kind == "certified" else "stands"
    reason = (
        f"On the same {len(rows)} rows {first.name} {word} on {len(stands[0])} and {second.name} on {len(stands[1])}{open_ones}: "
        f"{only_first} rows in {first.name} alone, {only_second} in {second.name} alone (exact paired test p = "
        f"{paired.p:.2g}); the difference is {points((only_first - only_second) / len(rows))} points, at 95 % "
        f"[{points(interval[0])}, {points(interval[1])}] (Tango)."
    )
    sides = (*told(first, second), reason)
    ahead = only_first > only_second if better is first else only_second > only_first
    if paired.p >= 1 - LEVEL or not ahead:
        apart = interval[0] > 0 or interval[1] < 0
        stricter = " The exact test decides, which is stricter than the interval." if apart else ""
        return Verdict("cannot conclude", None, (*sides, CHANCE + stricter), paired=paired)
    return _ahead(better, sides, paired)


def _ahead(better: Account, reasons: tuple[str, ...], paired: Paired | None) -> Verdict:
    certified = better.claim.kind == "certified"
    return Verdict("stands higher", better.name, reasons, paired=paired, certified=certified)


def _enough(first: Account, second: Account) -> tuple[str, ...]:
    """How many rows each would need for their difference to be more than chance."""
    figures = [robust_accuracy(account.claim)[0] for account in (first, second)]
    shares = [None if figure is None else figure.share for figure in figures]
    counted = all(figure is not None and figure.count is not None and figure.of for figure in figures)
    if counted or None in shares or shares[0] == shares[1]:
        return ()
    assert shares[0] is not None
    assert shares[1] is not None
    sizes = (round(10 ** (k / 20)) for k in range(20, 161))
    need = next((n for n in sizes if _excludes_zero(shares[0], shares[1], n)), None)
    if need is None:
        return ()
    return (
        f"Neither figure comes with both counts. A difference of {points(shares[0] - shares[1])} points is more than chance "
        f"(95 %, rows unpaired) from about {need:,} rows each.",
    )


def _excludes_zero(one: float, two: float, rows: int) -> bool:
    low, high = unpaired_difference(one * rows, rows, two * rows, rows)
    return low > 0 or high < 0
