"""Many claims: grouped into what is comparable, never one ranking across groups."""

from collections.abc import Sequence
from dataclasses import dataclass

from brinell.claims.account import Account, rows_of
from brinell.claims.bounds import robust_share
from brinell.claims.compare import compare
from brinell.claims.differences import differences
from brinell.claims.verdict import Verdict


@dataclass(frozen=True)
class Group:
    """Claims that were measured alike, the one that stands highest first."""

    accounts: tuple[Account, ...]
    against_first: tuple[Verdict, ...]
    """What follows for each of the others beside the first."""

    @property
    def first(self) -> Account:
        """The one that stands highest."""
        return self.accounts[0]


def grouped(accounts: Sequence[Account]) -> list[Group]:
    """The accounts in groups of which all were measured alike on the same rows, in the order in which their first was named.

    Claims of one source that leave out the same fields, as the entries of a leaderboard do, are one group too.
    """
    groups: list[list[Account]] = []
    for account in accounts:
        for group in groups:
            if all(_alike(account, other) for other in group):
                group.append(account)
                break
        else:
            groups.append([account])
    return [_ordered(group) for group in groups]


def _alike(one: Account, other: Account) -> bool:
    """Whether no field that matters differs, and none is left out, unless by one source that lists both."""
    differs, unstated = differences(one, other)
    maker = one.claim.made_by
    listed = maker is not None and maker == other.claim.made_by and "data" not in unstated
    rows = rows_of(one, other) in (("same", "same as stated", "unstated") if listed else ("same", "same as stated"))
    return not differs and rows and (listed or not unstated)


def _ordered(group: list[Account]) -> Group:
    ordered = sorted(group, key=lambda account: -(robust_share(account.claim) or 0.0))
    return Group(tuple(ordered), tuple(compare(ordered[0], other) for other in ordered[1:]))
