"""The names of the chain's steps, from the cheapest proof to the dearest. Nothing is computed here."""

from typing import Literal, get_args

Step = Literal["interval", "crown", "slopes", "layers", "cells", "branch"]
"""Interval arithmetic; CROWN; CROWN with the best slopes for the margins; the same for the bounds before the layers; parts
with bounds of their own; cases, and such parts where cases answer little."""
STEPS: tuple[Step, ...] = get_args(Step)
