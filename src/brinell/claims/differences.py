"""In what two claims differ, and what they leave out, so that they may differ."""

from brinell.budget import Budget
from brinell.claims.account import Account, plain, rows_of, same_data
from brinell.claims.bounds import robust_accuracy, same_radius
from brinell.claims.claim import Claim
from brinell.claims.conditions import AttackSuite

Alike = bool | None
"""Whether a field is the same; None where one claim leaves it out."""


def differences(first: Account, second: Account) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The fields in which two claims differ, and those of which that cannot be said."""
    one, two = first.claim, second.claim
    fields: dict[str, Alike] = {
        "data": same_data(first, second),
        "norm": _same(one.threat.norm, two.threat.norm),
        "eps": same_radius(one.threat, two.threat),
        "bounds of the inputs": _same_or_both_unsaid(one.threat.box, two.threat.box),
        "goal": _same_or_both_unsaid(one.threat.goal, two.threat.goal),
        "access": _same_or_both_unsaid(_plain(one.threat.access), _plain(two.threat.access)),
        "kind of figure": one.kind == two.kind,
        "rule of the figure": _same_rule(one, two),
        "preprocessing": _same_or_both_unsaid(_plain(one.data.preprocessing), _plain(two.data.preprocessing)),
        **_suites(one.suite, two.suite),
        "budget": _same_budget(one, two),
        "rows": _same_rows(first, second),
    }
    differs = tuple(name for name, alike in fields.items() if alike is False)
    return differs, tuple(name for name, alike in fields.items() if alike is None)


def _same(one: object, other: object) -> Alike:
    return None if one is None or other is None else one == other


def _same_or_both_unsaid(one: object, other: object) -> Alike:
    """What both leave out does not tell them apart."""
    return True if one is None and other is None else _same(one, other)


def _plain(text: str | None) -> str | None:
    return None if text is None else plain(text)


def _same_rule(one: Claim, two: Claim) -> Alike:
    """Whether both are robust accuracies over all rows, or become ones."""
    if (one.quantity == "expected robust accuracy") != (two.quantity == "expected robust accuracy"):
        return False
    figures = [robust_accuracy(claim)[0] for claim in (one, two)]
    if None in figures:
        stated = (one.quantity, one.figure.denominator) == (two.quantity, two.figure.denominator)
        return None if stated else False
    whole = [figure.denominator for figure in figures if figure is not None]
    return None if None in whole else True


def _suites(one: AttackSuite, two: AttackSuite) -> dict[str, Alike]:
    if one.digest is not None and two.digest is not None:
        return {"suite": one.digest == two.digest and one.draws == two.draws}
    if one.name is None or two.name is None:
        return {"suite": None}
    if plain(one.name) != plain(two.name):
        return {"suite": False}
    pairs = [
        (getattr(one, field), getattr(two, field)) for field in ("version", "steps", "restarts", "draws", "digest")
    ]
    if any(a is not None and b is not None and a != b for a, b in pairs):
        return {"suite": False}
    stated = any(a is not None for a, _ in pairs) and all((a is None) == (b is None) for a, b in pairs)
    return {"suite": True, "settings of the suite": True if stated else None}


def _same_budget(one: Claim, two: Claim) -> bool:
    """A time that ended the attacks buys another number of passes on every machine and every model."""
    budgets = [None if claim.suite.budget is None else Budget(claim.suite.budget) for claim in (one, two)]
    timed = [budget is not None and budget.seconds is not None for budget in budgets]
    if (timed[0] and one.suite.cut) or (timed[1] and two.suite.cut):
        return False
    spends = [
        None if budget is None else (budget.seconds, budget.passes(claim.figure.of or 0))
        for budget, claim in zip(budgets, (one, two), strict=True)
    ]
    return spends[0] == spends[1]


def _same_rows(first: Account, second: Account) -> Alike:
    """Other rows of the same data may be compared, unless what a row gets depends on the others."""
    relation = rows_of(first, second)
    if relation in ("same", "same as stated"):
        return True
    if relation == "unstated":
        return None
    suites = (first.claim.suite, second.claim.suite)
    return not any(suite.uneven or suite.budget is not None for suite in suites)
