"""Points that another tool made, proposed as they are and then from within the threat set.

Idea        whoever made a point, it is a witness if it lies in the threat set and the model errs on it.
Source      none: the points come from a file.
Departures  a point outside the threat set is tried once more as the nearest point inside.
Cost        2 forwards a row for each point that a row has.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from brinell.geometry import NORMS, Norm
from brinell.queries import Cost, Given, Scores, Search
from brinell.random import Noise
from brinell.threat import Ball


@dataclass(frozen=True, kw_only=True)
class GivenPoints:
    """One point after another of those that a row has, each as it is and projected.

    A row without a point proposes its clean input: it stands, and was not attacked.
    """

    name: ClassVar[str] = "given"
    summary: ClassVar[str] = "points that another tool made, as they are and projected into the threat set"
    norms: ClassVar[tuple[Norm, ...]] = NORMS

    tool: str = "arrays"
    """Which tool made the points."""
    points: str = ""
    """SHA-256 of the points with the rows that they belong to."""
    tries: int = 1
    """The most points that a row has: more than one only where the file holds a row twice."""
    held: Mapping[str, Sequence[Tensor]] | None = field(default=None, compare=False, repr=False)
    """The points of each row, by ``key_of``; None in an attack that was read from a record, which cannot be run."""

    def fit(self, classes: int) -> Self:
        return self

    def attempts(self) -> int:
        return self.tries

    def cost(self) -> Cost:
        return Cost(forwards=2, backwards=0).times(self.tries)

    def search(self, given: Given, ball: Ball, noise: Noise) -> Search:
        if self.held is None:
            raise ValueError("the points are not at hand")
        points = given.x.clone()
        for i, (x, y) in enumerate(zip(given.x.cpu(), given.y.tolist(), strict=True)):
            own = self.held.get(key_of(x, y))
            if own:
                points[i] = own[min(given.attempt, len(own) - 1)].to(points.device, points.dtype)
        yield Scores(points)
        yield Scores(ball.project(points))


def key_of(x: Tensor, y: int) -> str:
    """What names a row to an attack, which sees neither its index nor its place: its clean input and its class."""
    digest = hashlib.sha256(f"{x.dtype} {tuple(x.shape)} {y} ".encode())
    digest.update(np.ascontiguousarray(x.numpy()).tobytes())
    return digest.hexdigest()


def digest_of(held: Mapping[str, Sequence[Tensor]]) -> str:
    """SHA-256 of all points with the rows that they belong to, whatever their order."""
    whole = hashlib.sha256()
    for key in sorted(held):
        whole.update(key.encode())
        for point in held[key]:
            whole.update(np.ascontiguousarray(torch.as_tensor(point).cpu().numpy()).tobytes())
    return whole.hexdigest()
