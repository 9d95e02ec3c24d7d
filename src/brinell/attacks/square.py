"""Square: random search with square patches that shrink; it asks for scores only.

Idea        change one random window of the image at a time, as far as the ball allows, and keep what lowers the margin;
            the windows shrink by a schedule. L2 and L1 move the budget of a second window into the first one.
Source      Andriushchenko et al. 2020 (arXiv 1912.00049), algorithms 1 to 3; L1: Croce & Hein 2021 (arXiv 2103.01208).
Departures  each row draws its own windows, at any position; queries count the first point; the schedule has one halving
            more, at 500, as in the authors' code, and is not squeezed into the queries, as in AutoAttack (``horizon``);
            L1 starts with the whole radius, and cuts by the box before it projects onto the ball; inputs that are no
            images, and windows that do not fit, are read as in ``brinell.windows``.
Cost        a restart takes queries forwards a row.

| paper | here | |
|---|---|---|
| p | area | share of the pixels that a window covers |
| ν | d | perturbation, kept from point to point |
| W1, W2 | into, out_of | pixels of the window that is redrawn, and of the one whose budget it gets |
| η | pattern | two pyramids side by side, of opposite signs |
"""

from bisect import bisect_left
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from brinell.geometry import NORMS, Norm
from brinell.losses import TINY, margin_of
from brinell.queries import Cost, Given, Scores, Search
from brinell.random import Noise
from brinell.shapes import Indices
from brinell.threat import Ball
from brinell.windows import Image, Sides, covered, square_of, two_pyramids

HALVINGS = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)
"""Steps of 10,000 after which p halves."""
ORDER: dict[Norm, int] = {"l2": 2, "l1": 1}
TOGETHER = 50
"""Steps whose random numbers are drawn together; rows that have fallen are let go just as often."""
INSIDE = 1 - 1e-6
"""Share of the radius that is used, so that rounding does not leave the ball."""


@dataclass(frozen=True, kw_only=True)
class Square:
    """Random search on the margin, window by window."""

    name: ClassVar[str] = "square"
    summary: ClassVar[str] = "random search with square windows, scores only (Andriushchenko et al. 2020)"
    norms: ClassVar[tuple[Norm, ...]] = NORMS

    queries: int = 5000
    """Points tried in one restart."""
    restarts: int = 1
    p_init: float = 0.8
    """Share of the pixels that the first windows cover."""
    horizon: int = 10_000
    """Steps over which the schedule of ``p`` is spread; equal to ``queries`` it runs to its end."""

    def fit(self, classes: int) -> Self:
        return self

    def attempts(self) -> int:
        return self.restarts

    def cost(self) -> Cost:
        return Cost(forwards=self.queries, backwards=0).times(self.restarts)

    def share(self, step: int) -> float:
        """The ``p`` of a step, from 0."""
        return self.p_init * 0.5 ** bisect_left(HALVINGS, step * 10_000 // self.horizon)

    def search(self, given: Given, ball: Ball, noise: Noise) -> Search:
        image = Image.of(tuple(ball.x.shape[1:]))
        rows = torch.arange(len(ball.x), device=ball.x.device)
        sets = _among(ball, rows, image)
        x_best = _start(sets, image, noise)
        answer = yield Scores(x_best.view_as(ball.x))
        lowest = margin_of(answer.logits, given.y)
        change = _flipped if ball.threat.norm == "linf" else _redrawn
        for first in range(1, self.queries, TOGETHER):
            stand = answer.standing[rows]
            rows, x_best, lowest = rows[stand], x_best[stand], lowest[stand]
            sets = _among(ball, rows, image)
            drawn = _drawn(Noise(noise.keys[rows]), image.channels, draw=first)
            for query in range(first, min(first + TOGETHER, self.queries)):
                area = self.share(query - 1) * image.height * image.width
                x_adv = change(x_best, sets, image, area, drawn[query - first])
                answer = yield Scores(ball.x.index_copy(0, rows, x_adv.view(-1, *ball.x.shape[1:])))
                margin = margin_of(answer.logits, given.y)[rows]
                better = margin < lowest
                x_best[better] = x_adv[better]
                lowest = torch.minimum(lowest, margin)


class _Drawn(NamedTuple):
    """The random choices of one step, per row."""

    places: Tensor
    """Tops and lefts of two windows, each in [0, 1): shape (row, 2, 2)."""
    turned: Tensor
    """Which of the two patterns: 0 or 1."""
    sign: Tensor
    """Of each channel, -1 or 1: shape (row, channel)."""


def _drawn(noise: Noise, channels: int, *, draw: int) -> list[_Drawn]:
    numbers = noise.uniform((TOGETHER, 5 + channels), draw=draw, dtype=torch.float64)
    places, halves = numbers[..., :4].view(-1, TOGETHER, 2, 2), numbers[..., 4:] < 0.5
    signs = 1 - 2 * halves[..., 1:].long()
    steps = zip(places.unbind(1), halves[..., 0].long().unbind(1), signs.unbind(1), strict=True)
    return [_Drawn(*step) for step in steps]


def _among(ball: Ball, rows: Indices, image: Image) -> Ball:
    """The threat sets of some rows, each a (channel, pixel) table."""
    shape = (len(rows), image.channels, image.height * image.width)
    return Ball(ball.threat, *(part[rows].reshape(shape) for part in (ball.x, ball.lower, ball.upper)))


def _start(sets: Ball, image: Image, noise: Noise) -> Tensor:
    """Linf: every column of every channel at one end. L2 and L1: a grid of small patterns, about five by five."""
    rows, channels, _ = sets.x.shape
    if sets.threat.norm == "linf":
        up = noise.uniform((channels, 1, image.width), draw=0, dtype=torch.float32) < 0.5
        return torch.where(up.expand(-1, -1, image.height, -1).flatten(2), sets.upper, sets.lower)
    tile = max(min(image.height, image.width) // 5, 1)
    down, across = image.height // tile, image.width // tile
    halves = noise.uniform((1 + channels, down, across), draw=0, dtype=torch.float32) < 0.5
    patterns = two_pyramids(Sides(tile, tile), sets.threat.norm).to(sets.x).view(2, tile, tile)
    signs = 1 - 2 * halves[:, 1:].to(sets.x.dtype)
    tiles = signs[..., None, None] * patterns[halves[:, 0].long()][:, None]
    d = sets.x.new_zeros(rows, channels, image.height, image.width)
    top, left = (image.height - down * tile) // 2, (image.width - across * tile) // 2
    d[:, :, top : top + down * tile, left : left + across * tile] = tiles.transpose(3, 4).flatten(4, 5).flatten(2, 3)
    d = d.flatten(2)
    length = _lengths(d.flatten(1), sets.threat.norm)[..., None]
    return _cut(d * (INSIDE * sets.eps / length.clamp_min(TINY)), sets)


def _window(place: Tensor, sides: Sides, image: Image) -> Tensor:
    """The pixels of a window at a relative place, for each row and channel."""
    room = place.new_tensor([image.height - sides.height + 1, image.width - sides.width + 1])
    top, left = (place * room).long().unbind(1)
    return covered(top, left, sides, image)[:, None].expand(-1, image.channels, -1)


def _flipped(x_best: Tensor, sets: Ball, image: Image, area: float, drawn: _Drawn) -> Tensor:
    """The window moved to one end of every interval, a random one for each channel (algorithm 2)."""
    into = _window(drawn.places[:, 0], square_of(image, area), image)
    ends = torch.where(drawn.sign[..., None] > 0, sets.upper.gather(2, into), sets.lower.gather(2, into))
    return x_best.scatter(2, into, ends)


def _redrawn(x_best: Tensor, sets: Ball, image: Image, area: float, drawn: _Drawn) -> Tensor:
    """The window turned towards a pattern, with the budget of both windows and what was unused (algorithm 3)."""
    norm, channels = sets.threat.norm, image.channels
    sides = square_of(image, area, least=3, odd=True)
    into, out_of = (_window(drawn.places[:, which], sides, image) for which in range(2))
    d = x_best - sets.x
    unused = (INSIDE * sets.eps) ** ORDER[norm] - _powers(d, norm).sum(1, keepdim=True)
    old = d.gather(2, into)
    d.scatter_(2, into, 0.0)
    budget = _powers(old, norm) + _powers(d.gather(2, out_of), norm) + unused / channels
    if norm == "l1":  # as the authors do: the excess is then taken from everywhere
        budget = budget * channels
    pattern = two_pyramids(sides, norm).to(d)[drawn.turned]
    new = drawn.sign[..., None] * pattern[:, None] + old / _lengths(old, norm).clamp_min(TINY)
    new = new * (budget.clamp_min(0.0) ** (1 / ORDER[norm]) / _lengths(new, norm).clamp_min(TINY))
    d.scatter_(2, out_of, 0.0).scatter_(2, into, new)
    return _cut(d, sets)


def _cut(d: Tensor, sets: Ball) -> Tensor:
    """The point at ``d``, cut by the box; in L1, where that is still too far, the nearest point of the ball to it."""
    x_adv = torch.clamp(sets.x + d, sets.lower, sets.upper)
    if sets.threat.norm == "l2":
        return x_adv
    d = (x_adv - sets.x).flatten(1)
    far = d.abs().sum(1) > sets.eps
    if bool(far.any()):
        d[far] = _nearest_in_the_ball(d[far], INSIDE * sets.eps)
        x_adv = torch.clamp(sets.x + d.view_as(sets.x), sets.lower, sets.upper)
    return x_adv


def _nearest_in_the_ball(d: Tensor, eps: float) -> Tensor:
    """``argmin_p ‖p - d‖₂`` subject to ``‖p‖₁ <= eps``; where ``d`` is in the box, so is ``p``.

    ``p = sign(d) max(|d| - λ, 0)``, whose size falls convexly in ``λ``: Newton's method from 0 never overshoots. It is
    several times as fast as sorting, which ``geometry.nearest_in_l1`` needs since it knows the box.
    """
    length = d.abs()
    level = torch.zeros_like(length[:, :1])
    while True:
        left = (length - level).clamp_min(0.0)
        newer = level + (left.sum(1, keepdim=True) - eps).clamp_min(0.0) / (left > 0).sum(1, keepdim=True).clamp_min(1)
        if not bool((newer > level * (1 + 1e-6)).any()):
            return d.sign() * left
        level = newer


def _powers(d: Tensor, norm: Norm) -> Tensor:
    """``‖d‖₂²`` or ``‖d‖₁`` over the last axis, which is kept."""
    return (d.abs() if norm == "l1" else d.square()).sum(-1, keepdim=True)


def _lengths(d: Tensor, norm: Norm) -> Tensor:
    return _powers(d, norm) ** (1 / ORDER[norm])
