"""Which kind an attack of a suite is, by its table."""

from collections.abc import Sequence
from typing import Any

GRADIENT_FREE = ("square",)
"""Attacks that ask for no gradient."""
MADE_ELSEWHERE = ("transfer", "given")
"""Attacks that propose points which were not made on the model."""
ASCENTS = ("pgd", "apgd", "apgd-l1")
"""Attacks that climb one loss from the start of an attempt to its end."""


def own(tables: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The attacks of the suite that was asked for, without those that the run added by itself."""
    return [table for table in tables if table["attack"] != "transfer" and table.get("slope") != "identity"]


def aims(table: dict[str, object]) -> bool:
    """Whether the attack aims at classes."""
    return table["attack"] in ("fab-t", "a3") or str(table.get("loss", "")).startswith("targeted")


def follows_gradients(table: dict[str, object]) -> bool:
    """Whether the attack follows gradients of the model itself."""
    return table["attack"] not in GRADIENT_FREE + MADE_ELSEWHERE
