"""Cells: parts of a region where some ReLUs are on and some off, with bounds of their own before every layer.

Idea        where much is lost before the early layers, decide one of their ReLUs and bound all that follows anew. A few
            cells then settle what many halves under the whole region's bounds do not.
Source      Bunel et al. 2018 (arXiv 1711.00455), algorithm 1; the bounds are Wang et al.'s 2021 (β-CROWN, arXiv 2103.06624,
            theorem 3.1), before the layers and for the margins alike.
Departures  which ReLU is decided: ``widening``. Of the cell before and the cell itself the better bound counts, value by
            value. Slopes and multipliers are climbed in float32, and every bound is computed once more in float64. A cell
            with no ReLU left to decide is a linear programme (``leaf``). All margins are asked about at once.
Cost        for each cell ``LAYER_STEPS`` climbs of two functions for each later ReLU that is undecided in it, and
            ``MARGIN_STEPS`` of the open margins.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from brinell.certify.ascent import Climb, climbed
from brinell.certify.crown import Layers, Walk
from brinell.certify.deadline import Deadline
from brinell.certify.graph import Network
from brinell.certify.leaf import leaf_of
from brinell.certify.relaxation import Branches, Relaxation, ReLUs
from brinell.certify.search import Found
from brinell.certify.task import Task
from brinell.certify.widening import Influence, OfPlaces, widening
from brinell.shapes import Inputs

AT_ONCE = 2**22
"""Coefficients of one value that are held at once; more are asked about in parts."""
TOGETHER = 64
"""Cells that are bounded together, at most."""
LAYER_STEPS = 3
"""Steps of the climb for bounds before the layers."""
MARGIN_STEPS = 8
"""Steps of the climb for the margins."""
EMPTY = 1e-6
"""How far a lower bound must lie above an upper one, relative to their size, for a cell to have no point."""


class Cell(NamedTuple):
    """What is decided, and what follows; several cells have one more dimension, the first."""

    sign: Tensor
    """1 (on), -1 (off) or 0 for each ReLU that the whole region leaves undecided, of all layers in their order, int8."""
    lower: Tensor
    """Before each of them."""
    upper: Tensor
    bounds: Tensor
    """Lower bounds of the functions that are asked about."""

    @classmethod
    def together(cls, cells: list["Cell"]) -> "Cell":
        """Several."""
        return cls(*(torch.stack(parts) for parts in zip(*cells, strict=True)))

    def at(self, row: int) -> "Cell":
        """One of several."""
        return Cell(*(part[row] for part in self))

    def halves(self, place: int) -> list["Cell"]:
        """One cell with a ReLU on, and with it off."""
        on, off = (Cell(*(part.clone() for part in self)) for _ in range(2))
        on.sign[place], off.sign[place] = 1, -1
        on.lower[place] = off.upper[place] = 0
        return [on, off]

    def empty(self) -> Tensor:
        """Of several, those that bounds show to have no point: a lower one lies above an upper one by more than rounding."""
        crossed = self.lower - self.upper > EMPTY * (1 + self.lower.abs() + self.upper.abs())
        return (crossed & self.lower.isfinite() & self.upper.isfinite()).any(1)


class Cells:
    """One row's cells: the whole region at first, in which at least one ReLU is undecided."""

    def __init__(self, task: Task, layers: Layers, bounds: Tensor) -> None:
        self.task = task
        self.known: dict[int, Relaxation] = layers.relaxations
        self.layers = {
            i: layer for i, layer in self.known.items() if isinstance(layer, ReLUs) and len(layer.places.index)
        }
        self.sizes = [len(layer.places.index) for layer in self.layers.values()]
        self.spots = dict(zip(self.layers, torch.split(torch.arange(sum(self.sizes)), self.sizes), strict=True))
        self.later = [i for i in self.layers if _follows(task.network, i, set(self.layers))]
        lower, upper = (torch.cat([getattr(one, end)[0] for one in self.layers.values()]) for end in ("lower", "upper"))
        whole = Cell(torch.zeros_like(lower, dtype=torch.int8), lower, upper, bounds[0])
        self.widest = max(torch.Size(node.shape).numel() for node in task.network.nodes)
        self.climb = Climb(task.network, task.region, 0, math.inf)
        self.open = [] if task.margin(bounds) > task.enough else [whole]
        self.solutions: list[Inputs] = []
        """Where something was least, which the judge has not seen."""
        self.least, self.count, self.pace = task.margin(bounds) if not self.open else math.inf, 0, 0.0

    def run(self, deadline: Deadline) -> Found:
        """What is known when no cell is open, a witness is found, or the time is over; then it may go on."""
        while self.open and deadline.left() > 0:
            begin, batch = deadline.clock(), Cell.together(self._taken(deadline))
            influences = self._layers_bounded(batch)
            of_margins, points = self._margins_bounded(batch)
            self.count += len(batch.sign)
            self.solutions = [points]
            self._divide(batch, [*influences, of_margins])
            witness = self.task.judge(torch.cat(self.solutions))
            if witness is not None:
                return Found(-math.inf, self.count, witness)
            self.pace = (deadline.clock() - begin) / len(batch.sign)
        known = min([self.least, *(self.task.margin(cell.bounds[None]) for cell in self.open)])
        # a region has points: where every cell is said to have none, nothing is known
        return Found(known if known < math.inf else -math.inf, self.count, None)

    def _taken(self, deadline: Deadline) -> list[Cell]:
        """The cells that were made last, as many as fit into memory and the time that is left."""
        fitting, left = min(TOGETHER, AT_ONCE // (2 * self.widest * max(self.sizes))), deadline.left()
        if fitting * self.pace > left:
            fitting = int(left / self.pace)
        taken = self.open[-max(1, fitting) :]
        del self.open[-len(taken) :]
        return taken

    def _layers_bounded(self, batch: Cell) -> list[Influence]:
        """Better bounds before the later layers, written into the cells."""
        influences = []
        for i in self.later:
            here, source = self.spots[i], self.task.network.nodes[i].sources[0]
            matters = ((batch.lower[:, here] < 0) & (batch.upper[:, here] > 0)) | (batch.sign[:, here] != 0)
            shape, cut = self.task.network.nodes[source].shape, self._cut(batch)
            for part in torch.split(
                matters.any(0).nonzero().squeeze(1), max(1, AT_ONCE // (2 * self.widest * len(batch.sign)))
            ):
                index, count = self.layers[i].places.index[part], len(part)
                a = torch.zeros(len(batch.sign), 2 * count, torch.Size(shape).numel(), dtype=torch.float64)
                a[:, torch.arange(count), index], a[:, torch.arange(count) + count, index] = 1, -1
                walk = self._climbed(cut, source, a.view(*a.shape[:2], *shape), LAYER_STEPS, math.inf)
                least, at = _finite(walk.least(self.task.region)), here[part]
                batch.lower[:, at] = torch.fmax(batch.lower[:, at], least[:, :count])
                batch.upper[:, at] = torch.fmin(batch.upper[:, at], -least[:, count:])
                influences.append(self._influence(walk, OfPlaces(at)))
        return influences

    def _margins_bounded(self, batch: Cell) -> tuple[Influence, Inputs]:
        """Better bounds of the open margins, written into the cells, and for each cell where the worst is attained."""
        asked = torch.unique(torch.cat([self.task.open(bounds[None]) for bounds in batch.bounds]))
        specs = self.task.specs[:, asked].expand(len(batch.sign), -1, -1)
        walk = self._climbed(self._cut(batch), len(self.task.network.nodes) - 1, specs, MARGIN_STEPS, self.task.enough)
        bounds = _finite(walk.least(self.task.region))
        batch.bounds[:, asked] = torch.fmax(batch.bounds[:, asked], bounds)
        points = self.task.region.lowest(walk.normal)[torch.arange(len(bounds)), bounds.argmin(1)]
        return self._influence(walk, (batch.bounds[:, asked] <= self.task.enough).to(torch.float64)), points

    def _climbed(self, cut: dict[int, ReLUs], start: int, a: Tensor, steps: int, enough: float) -> Walk:
        """From functions of a value back to the input, in float64, with the best slopes and multipliers of a short climb."""
        climb = replace(self.climb.quick, steps=steps, enough=enough)
        quick = {i: one.to(torch.float32) for i, one in (self.known | cut).items() if i < start}
        found = climbed(climb, quick, start, a.float())
        exact = {i: replace(cut[i], chosen=found[i].to(torch.float64).chosen) for i in cut if i in found}
        with torch.no_grad():
            return Walk(self.task.network, self.known | exact, start, a)

    def _cut(self, batch: Cell) -> dict[int, ReLUs]:
        """The layers in some cells, with CROWN's slopes and multipliers of 0."""
        found = {}
        for i, here in self.spots.items():
            lower, upper, sign = batch.lower[:, here], batch.upper[:, here], batch.sign[:, None, here].to(torch.float64)
            alpha = (upper > -lower).to(torch.float64)[:, None]
            found[i] = ReLUs(self.layers[i].places, lower, upper, Branches(alpha, torch.zeros_like(alpha), sign))
        return found

    def _influence(self, walk: Walk, counting: Tensor | OfPlaces) -> Influence:
        places = {i: layer.places.index for i, layer in self.layers.items() if i in walk.arrived}
        return Influence({i: walk.arrived[i].flatten(2)[:, :, index] for i, index in places.items()}, counting)

    def _divide(self, batch: Cell, influences: list[Influence]) -> None:
        """Cells that are proved or empty are closed, the others halved; those without a ReLU to decide are settled."""
        margins = [self.task.margin(bounds[None]) for bounds in batch.bounds]
        worth, place = widening(batch.lower, batch.upper, self.spots, influences).max(dim=1)
        for row, empty in enumerate(batch.empty().tolist()):
            cell = batch.at(row)
            if empty:
                continue
            if margins[row] > self.task.enough:
                self.least = min(self.least, margins[row])
            elif worth[row] < 0:
                self.least = min(self.least, self.task.margin(self._settled(cell)[None]))
            else:
                self.open.extend(cell.halves(int(place[row])))

    def _settled(self, cell: Cell) -> Tensor:
        """Bounds with the best multipliers there are, on a box."""
        bounds, one = cell.bounds.clone(), Cell.together([cell])
        if self.task.region.centre is not None:
            return bounds
        for asked in self.task.open(bounds[None]).tolist():
            cut, spec = self._cut(one), self.task.specs[:, asked : asked + 1]
            last = len(self.task.network.nodes) - 1
            leaf = leaf_of(self.climb, self.known | cut, last, spec)
            if leaf.point is not None:
                self.solutions.append(leaf.point)
            for i, here in self.spots.items():
                cut[i] = replace(cut[i], chosen=cut[i].chosen._replace(beta=leaf.multipliers[None, None, here]))
            with torch.no_grad():
                least = _finite(Walk(self.task.network, self.known | cut, last, spec).least(self.task.region))
            bounds[asked] = torch.fmax(bounds[asked], least[0, 0])
        return bounds


def _follows(network: Network, i: int, layers: set[int]) -> bool:
    """Whether what is before a layer depends on another one."""
    before, seen = {network.nodes[i].sources[0]}, set[int]()
    while before:
        seen |= before
        before = {source for at in before for source in network.nodes[at].sources} - seen
    return bool(seen & layers)


def _finite(bounds: Tensor) -> Tensor:
    """What is not finite bounds nothing."""
    return torch.where(bounds.isfinite(), bounds, -torch.inf)
