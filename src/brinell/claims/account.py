"""A claim with the rows behind it, where these are to be had."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from brinell.claims.claim import Claim

Rows = Literal[
    "same", "same as stated", "first within second", "second within first", "overlapping", "other", "unstated"
]
"""How the rows of two accounts lie to each other."""


@dataclass(frozen=True)
class Account:
    """What one side of a comparison says."""

    name: str
    """How sentences call it."""
    claim: Claim
    statuses: Mapping[str, str] | None = None
    """Each row's status by the digest of the row; None where only the figure is known, or the model is randomised."""
    dimension: int | None = None
    """Values in one input; None where unknown."""

    def share_of(self, status: frozenset[str], rows: frozenset[str]) -> int:
        """How many of some rows have one of the statuses."""
        assert self.statuses is not None
        return sum(self.statuses[row] in status for row in rows)


def rows_of(first: Account, second: Account) -> Rows:
    """How the rows of two accounts lie to each other: by their digests, else by what is stated."""
    if first.statuses is not None and second.statuses is not None:
        one, two = set(first.statuses), set(second.statuses)
        if one == two:
            return "same"
        if one <= two:
            return "first within second"
        if two <= one:
            return "second within first"
        return "overlapping" if one & two else "other"
    one_data, two_data = first.claim.data, second.claim.data
    if one_data.digest is not None and one_data.digest == two_data.digest:
        return "same"
    if one_data.rows is None or two_data.rows is None:
        return "unstated"
    return "same as stated" if plain(one_data.rows) == plain(two_data.rows) else "other"


def common_rows(first: Account, second: Account) -> frozenset[str]:
    """The rows that both have; empty where they are not to be had."""
    if first.statuses is None or second.statuses is None:
        return frozenset()
    return frozenset(first.statuses) & frozenset(second.statuses)


def same_data(first: Claim, second: Claim) -> bool | None:
    """Whether both speak of one data set, by its common name; None where one does not say."""
    one, two = (claim.data.known_as or claim.data.name for claim in (first, second))
    if first.data.digest is not None and first.data.digest == second.data.digest:
        return True
    return None if one is None or two is None else plain(one) == plain(two)


def plain(name: str) -> str:
    """``CIFAR-10`` and ``cifar10`` are one name."""
    return re.sub(r"[^a-z0-9:]", "", name.lower())
