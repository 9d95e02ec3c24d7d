"""A claim with the rows behind it, where these are to be had."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from brinell.claims.bounds import robust_accuracy
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

    def share_of(self, statuses: frozenset[str], rows: frozenset[str]) -> int:
        """How many of some rows have one of the statuses."""
        assert self.statuses is not None
        return sum(self.statuses[row] in statuses for row in rows)


def rows_of(first: Account, second: Account) -> Rows:
    """How the rows of two accounts lie to each other: by their digests and numbers, else by what is stated."""
    if first.statuses is not None and second.statuses is not None:
        one, two = set(first.statuses), set(second.statuses)
        if one == two:
            return "same"
        if one <= two:
            return "first within second"
        if two <= one:
            return "second within first"
        return "overlapping" if one & two else "other"
    data = (first.claim.data, second.claim.data)
    if data[0].digest is not None and data[1].digest is not None:
        return "same" if data[0].digest == data[1].digest else "other"
    if _unequal(_number(first.claim), _number(second.claim)) or _unequal(first.dimension, second.dimension):
        return "other"
    if data[0].rows is None or data[1].rows is None:
        return "unstated"
    return "same as stated" if " ".join(data[0].rows.split()) == " ".join(data[1].rows.split()) else "other"


def _number(claim: Claim) -> int | None:
    figure, _ = robust_accuracy(claim)
    return None if figure is None or figure.denominator is None else figure.of


def _unequal(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one != other


def common_rows(first: Account, second: Account) -> frozenset[str]:
    """The rows that both have; empty where they are not to be had."""
    if first.statuses is None or second.statuses is None:
        return frozenset()
    return frozenset(first.statuses) & frozenset(second.statuses)


def same_data(first: Account, second: Account) -> bool | None:
    """Whether both speak of one data set: by its rows, else by its name; None where one does not say.

    Two files of one name may hold anything: their name says nothing.
    """
    one, two = first.claim.data, second.claim.data
    if common_rows(first, second) or (one.digest is not None and one.digest == two.digest):
        return True
    names = [data.known_as or data.name for data in (one, two)]
    if names[0] is None or names[1] is None:
        return None
    if plain(names[0]) != plain(names[1]):
        return False
    files = [data.known_as is None and _is_file(data.name or "") for data in (one, two)]
    return None if any(files) else True


def _is_file(name: str) -> bool:
    return name.endswith((".npz", ".npy", ".pt", ".safetensors")) or ".py:" in name


def plain(name: str) -> str:
    """``CIFAR-10`` and ``cifar10`` are one name."""
    return re.sub(r"[\s_-]", "", name.casefold())
