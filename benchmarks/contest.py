"""What contenders of a comparison get, how Brinell takes part, and how what they return is judged."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from counting import Counted

import brinell
from brinell.suites.suite import Suite

BATCH = 250
SLACK = 1e-5
ORDER = {"linf": float("inf"), "l2": 2.0, "l1": 1.0}


@dataclass(frozen=True)
class Case:
    """What a contender gets: the counted model, rows in [0, 1], a threat, a seed."""

    model: Counted
    x: torch.Tensor
    y: torch.Tensor
    norm: str
    eps: float
    seed: int

    @property
    def title(self) -> str:
        return self.norm.capitalize()

    @property
    def order(self) -> float:
        return ORDER[self.norm]


Craft = Callable[[Case], torch.Tensor]
"""A contender: the points it returns for the rows of a case."""


def brinells(suite: str | Suite) -> Craft:
    def craft(at: Case) -> torch.Tensor:
        threat = brinell.Threat(at.norm, at.eps)
        result = brinell.evaluate(at.model, at.x, at.y, threat=threat, suite=suite, seed=at.seed, batch_size=BATCH)
        passes = result.figures.passes
        assert at.model.forwards == passes.forwards + passes.preflight_forwards, "Brinell's counters disagree"
        assert at.model.backwards == passes.backwards + passes.preflight_backwards, "Brinell's counters disagree"
        points = at.x.clone()
        for record in result.rows:
            witness = result.witness(record.row)
            if witness is not None:
                points[record.row] = torch.from_numpy(witness)
        return points

    return craft


def judged(at: Case, points: torch.Tensor) -> tuple[set[int], int]:
    """The rows that stand, by their place, and how many points lie outside ball or box."""
    distance = (points.double() - at.x.double()).flatten(1).norm(at.order, dim=1)
    inside = ((points >= 0) & (points <= 1)).flatten(1).all(1) & (distance <= at.eps * (1 + SLACK))
    with torch.no_grad():
        errs, erred = (
            torch.cat([at.model.model(piece).argmax(1) for piece in tried.split(BATCH)]) != at.y
            for tried in (points, at.x)
        )
    return set((~erred & ~(inside & errs)).nonzero().squeeze(1).tolist()), int((~inside).sum())


def seeded(seed: int) -> None:
    """Set the random numbers of every library that a contender may draw from."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
