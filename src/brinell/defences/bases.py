"""The affine models under the defences, fitted in closed form to the built-in rows, and what is built on them."""

from functools import cache

import torch

from brinell.defences.affine import Affine, affine_worst, least_squares
from brinell.defences.codes import AnyCode, behind, coded_worst
from brinell.defences.defence import Proof, Solved
from brinell.defences.examples import fitting, odd_or_even
from brinell.defences.scores import Change, Rescored
from brinell.geometry import Norm

CLASSES = 10
TRAPS = 20
TRAP_SLOPE, TRAP_BIAS = 60.0, -10.0
CORNERS = (0, 7, 56, 63)
"""Pixels that are all but black in nearly every image."""


@cache
def base() -> Affine:
    """The model under most of them: ten garments."""
    return least_squares(*fitting(), CLASSES)


@cache
def pair() -> Affine:
    """Two classes of garments."""
    return least_squares(*odd_or_even(*fitting()), 2, 0.001)


@cache
def trapped() -> Affine:
    """The base and twenty classes more, whose logits are low in every image; one of them rises steeply with the corners."""
    weight, bias = base()
    more = torch.zeros(TRAPS, weight.shape[1])
    more[7, list(CORNERS)] = TRAP_SLOPE
    return Affine(torch.cat([weight, more]), torch.cat([bias, torch.full((TRAPS,), TRAP_BIAS)]))


@cache
def pieces() -> Affine:
    """Two affine pieces for each of ten classes, beside each other: its darker half against all else, and its brighter one."""
    x, y = fitting()
    light = x.flatten(1).mean(1)
    middle = torch.stack([light[y == label].median() for label in range(CLASSES)])
    return least_squares(x, 2 * y + (light > middle[y]).long(), 2 * CLASSES)


def bare(affine: Affine, norm: Norm = "linf") -> Solved:
    """An affine model as it is."""
    return Solved(affine.module, affine_worst(affine, norm), "closed form")


def rescored(change: Change, proof: Proof = "order kept") -> Solved:
    """The base with other scores in the same order, or with another gradient."""
    affine = base()
    return Solved(lambda: Rescored(affine.module(), change).eval(), affine_worst(affine, "linf"), proof)


def coded(code: AnyCode, affine: Affine | None = None) -> Solved:
    """An affine model behind a code, in Linf; where none is given, one fitted there."""
    if affine is None:
        x, y = fitting()
        affine = least_squares(code(x), y, CLASSES)
    fitted = affine
    return Solved(lambda: behind(code, fitted), coded_worst(code, fitted), "interval")
