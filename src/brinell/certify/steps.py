"""The names of the chain's steps, from the cheapest proof to the dearest. Nothing is computed here."""

from typing import Literal, get_args

Step = Literal["interval", "crown", "slopes", "layers", "branch"]
"""Interval arithmetic; CROWN; CROWN with the best slopes for the margins; the same for the bounds before the layers; cases."""
STEPS: tuple[Step, ...] = get_args(Step)
