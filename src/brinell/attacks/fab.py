"""FAB and FAB-T: steps along the decision boundary that stay as near to the clean input as they can.

Idea        take the boundary for the hyperplane that the gradient shows, go just past its nearest point within the box,
            drawn a little towards the clean input's own nearest point; beyond the boundary, turn back part of the way.
Source      Croce & Hein 2020 (arXiv 1907.02044), algorithm 1; targets: AutoAttack (arXiv 2003.01690).
Departures  the hyperplane is taken at the point that was tested, not once more where the backward step ends, so that
            one pass serves both; random starts lie at eps / 2, whatever other attempts found; the final search looks at
            the margin over all classes, and a hundredth beyond its zero; FAB regards only the ``rivals`` highest wrong
            classes.
Cost        FAB-T: a restart on a target takes steps + 4 forwards and steps backwards a row. FAB: a restart takes
            steps + 4 forwards and rivals × steps backwards.

| paper | here | |
|---|---|---|
| α_max | ALPHA_MAX | most weight of the clean input's side |
| η, β | ETA, BETA | overshooting, and what a backward step leaves |
| π_l, f_l - f_c | plane, gap | where a rival's score equals the true class's, to first order |
| x_out, u | x_out, u | nearest misclassified point met and its distance |
"""

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import torch

from brinell.geometry import NORMS, Norm, dual_size, per_row, size
from brinell.hyperplane import least_move
from brinell.losses import TARGETED_MARGIN, TINY, margin_of
from brinell.queries import (
    Answer,
    Cost,
    Given,
    Gradient,
    Gradients,
    Query,
    Scores,
    Search,
    rivals_by_logit,
    targets_by_logit,
)
from brinell.random import Noise
from brinell.shapes import Inputs, Labels, PerRow, Rivals
from brinell.threat import Ball

ALPHA_MAX = 0.1
ETA = 1.05
BETA = 0.9
FINAL_STEPS = 3
BEYOND = 0.01


@dataclass(frozen=True, kw_only=True)
class FABT:
    """Towards the boundary with one target class an attempt."""

    name: ClassVar[str] = "fab-t"
    summary: ClassVar[str] = "minimum-norm steps to the boundary with one class at a time (Croce & Hein 2020)"
    norms: ClassVar[tuple[Norm, ...]] = NORMS

    steps: int = 100
    restarts: int = 1
    targets: int = 9
    """Wrong classes tried, by descending clean logit."""

    def fit(self, classes: int) -> Self:
        return replace(self, targets=min(self.targets, classes - 1))

    def attempts(self) -> int:
        return self.restarts * self.targets

    def cost(self) -> Cost:
        return Cost(forwards=self.steps + FINAL_STEPS + 1, backwards=self.steps).times(self.attempts())

    def search(self, given: Given, ball: Ball, noise: Noise) -> Search:
        start = _start(ball, noise, given.attempt // self.targets)
        target = targets_by_logit(given, given.attempt % self.targets)
        return _along_the_boundary(given, ball, start, self.steps, target[:, None])


@dataclass(frozen=True, kw_only=True)
class FAB:
    """Towards the nearest boundary, which is looked for among all rivals at every step."""

    name: ClassVar[str] = "fab"
    summary: ClassVar[str] = "minimum-norm steps to the nearest boundary (Croce & Hein 2020)"
    norms: ClassVar[tuple[Norm, ...]] = NORMS

    steps: int = 100
    restarts: int = 1
    rivals: int = 9
    """Wrong classes whose boundaries are regarded, by descending clean logit."""

    def fit(self, classes: int) -> Self:
        return replace(self, rivals=min(self.rivals, classes - 1))

    def attempts(self) -> int:
        return self.restarts

    def cost(self) -> Cost:
        return Cost(self.steps + FINAL_STEPS + 1, self.rivals * self.steps).times(self.attempts())

    def search(self, given: Given, ball: Ball, noise: Noise) -> Search:
        start = _start(ball, noise, given.attempt)
        return _along_the_boundary(given, ball, start, self.steps, rivals_by_logit(given, self.rivals))


class _Plane(NamedTuple):
    """A decision boundary to first order around a point."""

    gap: PerRow
    """The rival's logit less the true class's, at the point."""
    normal: Inputs
    """Its gradient."""
    margin: PerRow
    """At the point, over all classes."""


class _Out(NamedTuple):
    """The nearest misclassified point that was met, per row."""

    x_out: Inputs
    """The clean input where none was."""
    u: PerRow
    """Its distance from the clean input, infinite where none was."""
    margin: PerRow
    """At the point, 0 where none was."""


def _start(ball: Ball, noise: Noise, restart: int) -> Inputs:
    """The clean input, then points at half the radius in random directions, cut by the box."""
    if restart == 0:
        return ball.x
    shape, norm = tuple(ball.x.shape[1:]), ball.threat.norm
    if norm == "linf":
        direction = 2 * noise.uniform(shape, draw=0, dtype=ball.x.dtype) - 1
    else:
        direction = noise.normal(shape, draw=0, dtype=ball.x.dtype)
    length = ball.eps / 2 / size(direction, norm).clamp_min(TINY)
    return (ball.x + per_row(length, ball.x) * direction).clamp(ball.threat.low, ball.threat.high)


def _along_the_boundary(given: Given, ball: Ball, start: Inputs, steps: int, targets: Rivals) -> Search:
    x, y, norm = given.x, given.y, ball.threat.norm
    nothing = torch.zeros_like(given.logits[:, 0])
    out = _Out(x, nothing + torch.inf, nothing)
    x_adv = start
    for _ in range(steps):
        plane = yield from _nearest_plane(x_adv, y, targets, norm)
        out = _nearer(out, x, x_adv, plane.margin, norm)
        crossed = per_row(plane.margin <= 0, x)
        turned_back = torch.where(crossed, x + BETA * (x_adv - x), x_adv)
        x_adv = _step(x, turned_back, x_adv, plane, ball)
    answer = yield Scores(x_adv)
    out = _nearer(out, x, x_adv, margin_of(answer.logits, y), norm)
    yield from _final_search(given, ball, out)


def _nearer(out: _Out, x: Inputs, x_adv: Inputs, margin: PerRow, norm: Norm) -> _Out:
    """The nearest misclassified point of each row, once ``x_adv`` is known too."""
    u = size(x_adv - x, norm)
    nearer = (margin <= 0) & (u < out.u)
    x_out = torch.where(per_row(nearer, x), x_adv, out.x_out)
    return _Out(x_out, torch.where(nearer, u, out.u), torch.where(nearer, margin, out.margin))


def _nearest_plane(points: Inputs, y: Labels, targets: Rivals, norm: Norm) -> Generator[Query, Answer, _Plane]:
    """The nearest of the rivals' boundaries, per row."""
    if targets.shape[1] == 1:
        answer = yield Gradient(points, TARGETED_MARGIN, targets[:, 0])
        return _Plane(answer.loss, answer.grad, margin_of(answer.logits, y))
    answer = yield Gradients(points, TARGETED_MARGIN, targets)
    gaps, normals = answer.loss, answer.grad
    lengths = dual_size(normals.flatten(0, 1), norm).view_as(gaps)
    nearest = (gaps.abs() / (lengths + TINY)).argmin(dim=1)
    rows = torch.arange(len(points), device=points.device)
    return _Plane(gaps[rows, nearest], normals[rows, nearest], margin_of(answer.logits, y))


def _step(x: Inputs, x_from: Inputs, seen_at: Inputs, plane: _Plane, ball: Ball) -> Inputs:
    """Past the plane from ``x_from`` and from the clean input, and between the two."""
    low, high, norm = ball.threat.low, ball.threat.high, ball.threat.norm

    def towards(point: Inputs) -> Inputs:
        gap = plane.gap + ((point - seen_at) * plane.normal).flatten(1).sum(1)
        return least_move(point, plane.normal, gap, norm, low, high)

    d, d_clean = towards(x_from), towards(x)
    length, length_clean = size(d, norm), size(d_clean, norm)
    alpha = per_row((length / (length + length_clean).clamp_min(TINY)).clamp_max(ALPHA_MAX), x)
    return ((1 - alpha) * (x_from + ETA * d) + alpha * (x + ETA * d_clean)).clamp(low, high)


def _final_search(given: Given, ball: Ball, out: _Out) -> Search:
    """Where the margin vanishes between the clean input and ``x_out``, by regula falsi."""
    x_in, margin_in = given.x, margin_of(given.logits, given.y)
    x_out, margin_out = out.x_out, out.margin
    for _ in range(FINAL_STEPS):
        share = margin_in / (margin_in - margin_out)
        share = per_row(share + BEYOND * (1 - share), x_in)
        x_adv = (x_in + share * (x_out - x_in)).clamp(ball.threat.low, ball.threat.high)
        answer = yield Scores(x_adv)
        margin = margin_of(answer.logits, given.y)
        crossed = margin <= 0
        x_in = torch.where(per_row(crossed, x_in), x_in, x_adv)
        x_out = torch.where(per_row(crossed, x_in), x_adv, x_out)
        margin_in, margin_out = torch.where(crossed, margin_in, margin), torch.where(crossed, margin, margin_out)
