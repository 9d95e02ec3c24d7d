"""Which kind an attack of a suite is, by its table."""

GRADIENT_FREE = ("square",)
"""Attacks that ask for no gradient."""


def aims(table: dict[str, object]) -> bool:
    """Whether the attack aims at classes."""
    return table["attack"] in ("fab-t", "a3") or str(table.get("loss", "")).startswith("targeted")
