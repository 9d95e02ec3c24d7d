"""Branch and bound over the ReLUs that may be on or off: each half of a question is easier, and both must be answered.

Idea        where a bound does not decide, choose a ReLU, ask once for ``z >= 0`` and once for ``z <= 0``, and bound both again
            with the constraint in the bound. A row is proved when no question is left open.
Source      Wang et al. 2021 (β-CROWN, arXiv 2103.06624), algorithm 1; which ReLU to choose: De Palma et al. 2021 (filtered
            smart branching, arXiv 2104.06718), section 5.
Departures  bounds before the layers stay those of the whole region. Slopes and multipliers are climbed in float32 and the
            bound that counts is computed once more in float64; a half keeps the whole's where that is better. A question
            with no ReLU left to choose is a linear programme (``leaf``).
Cost        for each half ``STEPS`` passes forward and back through the walk, and ``CONSIDERED`` walks to choose the ReLU.
"""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from brinell.certify.ascent import Climb, climbed
from brinell.certify.crown import Layers, Walk
from brinell.certify.graph import Network
from brinell.certify.leaf import leaf_of
from brinell.certify.region import Region
from brinell.certify.relaxation import Branches, Relaxation, ReLUs
from brinell.shapes import Inputs

AT_ONCE = 96
"""Open questions that are halved together."""
STEPS = 4
"""Steps of the climb for each half."""
CONSIDERED = 8
"""ReLUs that are tried out on each open question."""
LONGER = 100
"""Steps for a question with no ReLU left to choose, where no linear programme decides it."""
WORSE_HALF = 0.3
"""Weight of the worse half's bound in the choice of the ReLU; the better half's has the rest."""


class Question(NamedTuple):
    """Is a linear function of the scores above 0 on the region, where some ReLUs are known to be on and some off?"""

    bound: float
    """A proved lower bound."""
    spec: Tensor
    """Which function; shape ()."""
    sign: Tensor
    """1 (on), -1 (off) or 0 for each undecided ReLU of all layers in their order, int8."""
    alpha: Tensor
    """Slopes, float32."""
    beta: Tensor
    """Multipliers, float32."""
    candidates: Tensor
    """The ReLUs that may cost the bound most, by their places in ``sign``; none where all are decided."""
    coefficients: Tensor
    """Of the candidates' outputs, float32."""


class Bounded(NamedTuple):
    """Questions, and the points where their bounds are attained."""

    questions: list[Question]
    points: Inputs


class Batch(NamedTuple):
    """Questions side by side, not bounded yet."""

    spec: Tensor
    sign: Tensor
    alpha: Tensor
    beta: Tensor

    @classmethod
    def of(cls, questions: list[Question]) -> "Batch":
        """Some questions again."""
        return cls(*(torch.stack([getattr(question, name) for question in questions]) for name in cls._fields))

    def at(self, places: Tensor) -> "Batch":
        """Copies of some of them."""
        return Batch(*(part[places] for part in self))


class Tree:
    """One row's questions: how they are bounded, and how they are halved."""

    def __init__(self, network: Network, region: Region, layers: Layers, specs: Tensor, enough: float) -> None:
        self.climb = Climb(network, region, STEPS, enough)
        self.specs, self.enough = specs[0], enough
        self.relaxations: dict[int, Relaxation] = layers.relaxations
        self.quick = {i: one.to(torch.float32) for i, one in layers.relaxations.items()}
        self.undecided = {i: layer for i, layer in layers.relaxations.items() if isinstance(layer, ReLUs)}
        self.sizes = [len(layer.places.index) for layer in self.undecided.values()]
        self.last = len(network.nodes) - 1

    def roots(self, open_specs: Tensor, slopes: dict[int, ReLUs]) -> Bounded:
        """The first questions, one for each function that is still open, with the slopes that were found for it."""
        alpha = torch.cat([slopes[i].chosen.alpha[0] for i in self.undecided], dim=1)[open_specs].float()
        nothing = torch.zeros_like(alpha)
        return self.bounded(Batch(open_specs, nothing.to(torch.int8), alpha, nothing))

    @torch.no_grad()
    def bounded(self, batch: Batch) -> Bounded:
        """Their bounds in float64."""
        layers = self._layers(torch.float64, batch)
        walk = Walk(self.climb.network, self.relaxations | layers, self.last, self.specs[batch.spec][:, None])
        bounds = walk.least(self.climb.region).squeeze(1)
        candidates, coefficients = self._costliest(walk, layers)
        fields = zip(bounds.tolist(), *batch, candidates, coefficients, strict=True)
        return Bounded([Question(*field) for field in fields], self.climb.region.lowest(walk.normal).squeeze(1))

    def halved(self, questions: list[Question]) -> Bounded:
        """Both halves of each question, the ReLU chosen by bounds that are not climbed."""
        trials = [self._tried(part) for part in _parts(questions, 2 * AT_ONCE // CONSIDERED)]
        halves = Batch(*(torch.cat(parts) for parts in zip(*(halves for halves, _ in trials), strict=True)))
        values = torch.cat([values for _, values in trials])
        for places in torch.split((values <= self.enough).nonzero().squeeze(1), 2 * AT_ONCE):
            if len(places):
                self._climb(halves, places, STEPS)
        return _inheriting(2 * questions, self.bounded(halves))

    @torch.no_grad()
    def _tried(self, questions: list[Question]) -> tuple[Batch, Tensor]:
        """Both halves by the best of each question's candidates, and their bounds in float32 with inherited slopes."""
        batch = Batch.of(questions)
        owner = torch.cat([torch.full_like(q.candidates, i) for i, q in enumerate(questions)])
        place = torch.cat([q.candidates for q in questions])
        on, off = batch.at(owner), batch.at(owner)
        rows, a = torch.arange(len(owner)), torch.cat([q.coefficients for q in questions]).clamp_min(0)
        on.sign[rows, place], off.sign[rows, place] = 1, -1
        # with these multipliers the halves begin where the whole was, if the line below was what counted
        slope = on.alpha[rows, place]
        on.beta[rows, place], off.beta[rows, place] = a * (1 - slope), a * slope
        values = torch.stack([self._quick(side) for side in (on, off)])
        capped = values.clamp_max(self.enough)
        worth = WORSE_HALF * capped.amin(0) + (1 - WORSE_HALF) * capped.amax(0)
        best = torch.stack([(torch.where(owner == i, worth, -torch.inf)).argmax() for i in range(len(questions))])
        halves = Batch(*(torch.cat(sides) for sides in zip(on.at(best), off.at(best), strict=True)))
        return halves, values[:, best].flatten()

    def _quick(self, batch: Batch) -> Tensor:
        quick, layers = self.climb.quick, self._layers(torch.float32, batch)
        specs = self.specs[batch.spec][:, None].float()
        return Walk(quick.network, self.quick | layers, self.last, specs).least(quick.region).squeeze(1)

    def _climb(self, batch: Batch, places: Tensor, steps: int) -> None:
        """Better slopes and multipliers for some questions, written into the batch."""
        part = batch.at(places)
        specs = self.specs[part.spec][:, None].float()
        layers = self.quick | self._layers(torch.float32, part)
        found = climbed(replace(self.climb.quick, steps=steps), layers, self.last, specs)
        batch.alpha[places] = torch.cat([layer.chosen.alpha[:, 0] for layer in found.values()], dim=1)
        batch.beta[places] = torch.cat(
            [layer.chosen.beta[:, 0] for layer in found.values() if layer.chosen.beta is not None], dim=1
        )

    def _layers(self, dtype: torch.dtype, batch: Batch) -> dict[int, ReLUs]:
        """The undecided layers of some questions, their bounds cut by the branches."""
        cut = {}
        parts = zip(*(torch.split(part.to(dtype), self.sizes, dim=1) for part in batch[1:]), strict=True)
        for (i, layer), (sign, alpha, beta) in zip(self.undecided.items(), parts, strict=True):
            lower, upper = layer.lower.to(dtype), layer.upper.to(dtype)
            cut[i] = ReLUs(
                layer.places.to(dtype),
                torch.where(sign > 0, lower.clamp_min(0), lower),
                torch.where(sign < 0, upper.clamp_max(0), upper),
                Branches(alpha[:, None], beta[:, None], sign[:, None]),
            )
        return cut

    def _costliest(self, walk: Walk, layers: dict[int, ReLUs]) -> tuple[list[Tensor], list[Tensor]]:
        """For each question the places where the chord's height, or the line below, may cost most, and coefficients."""
        costs, passing = [], []
        for i, layer in layers.items():
            a = walk.arrived[i].flatten(2)[:, 0, layer.places.index]
            lower, upper, alpha = layer.lower, layer.upper, layer.chosen.alpha.squeeze(1)
            free = (lower < 0) & (upper > 0)
            chord = -lower * upper / torch.where(free, upper - lower, 1)
            below = torch.minimum(-lower * alpha, upper * (1 - alpha))
            costs.append(torch.where(free, -a.clamp_max(0) * chord + a.clamp_min(0) * below, -1))
            passing.append(a.float())
        cost, place = torch.cat(costs, dim=1).topk(min(CONSIDERED, sum(self.sizes)), dim=1)
        a = torch.cat(passing, dim=1).gather(1, place)
        return tuple([some[worth >= 0] for worth, some in zip(cost, parts, strict=True)] for parts in (place, a))  # type: ignore[return-value]

    def settled(self, questions: list[Question]) -> Bounded:
        """Questions with no ReLU left to choose, with the best multipliers there are."""
        batch = Batch.of(questions)
        if self.climb.region.centre is not None:
            self._climb(batch, torch.arange(len(questions)), LONGER)
            return _inheriting(questions, self.bounded(batch))
        points: list[Inputs | None] = []
        for i, question in enumerate(questions):
            one = Batch.of([question])
            layers = self._layers(torch.float64, one)
            leaf = leaf_of(self.climb, self.relaxations | layers, self.last, self.specs[one.spec][:, None])
            batch.beta[i] = leaf.multipliers.float()
            points.append(leaf.point)
        found = _inheriting(questions, self.bounded(batch))
        solved = [found.points[i : i + 1] if point is None else point for i, point in enumerate(points)]
        return found._replace(points=torch.cat(solved))


def _inheriting(wholes: list[Question], parts: Bounded) -> Bounded:
    """The parts with the better of both bounds: what holds on the whole holds on each part."""
    better = [
        part._replace(bound=max(whole.bound, part.bound)) for whole, part in zip(wholes, parts.questions, strict=True)
    ]
    return parts._replace(questions=better)


def _parts(questions: list[Question], size: int) -> list[list[Question]]:
    return [questions[i : i + size] for i in range(0, len(questions), size)]
