"""Which kind an attack of a suite is, by its table."""

GRADIENT_FREE = ("square",)
"""Attacks that ask for no gradient."""
MADE_ELSEWHERE = ("transfer", "given")
"""Attacks that propose points which were not made on the model."""
ASCENTS = ("pgd", "apgd", "apgd-l1")
"""Attacks that climb one loss from the start of an attempt to its end."""


def aims(table: dict[str, object]) -> bool:
    """Whether the attack aims at classes."""
    return table["attack"] in ("fab-t", "a3") or str(table.get("loss", "")).startswith("targeted")


def follows_gradients(table: dict[str, object]) -> bool:
    """Whether the attack follows gradients of the model itself."""
    return table["attack"] not in GRADIENT_FREE + MADE_ELSEWHERE
