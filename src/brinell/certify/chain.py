"""Whether a row is certified: the cheapest proof first, the next one only where that fails.

Interval arithmetic, then CROWN, then CROWN with the best slopes for the margins, then bounds before the layers with the best
slopes, then branch and bound, and where that answers too little the region in cells; on the way, points where a bound is
attained are shown to the model.

What a certificate says: the network with these weights, computed in real numbers, has a margin above ``tolerance`` at every
point of the region. Bounds are computed in float64 without directed rounding, and the deployed model rounds each of its own
operations; the tolerance is there for both (``slack``), as a measurement and no proof about rounding.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from brinell.certify import crown, interval
from brinell.certify.ascent import Climb
from brinell.certify.branch import Tree
from brinell.certify.cells import Cells
from brinell.certify.crown import Layers
from brinell.certify.deadline import Clock, Deadline
from brinell.certify.graph import Network, network_of
from brinell.certify.region import Region
from brinell.certify.relaxation import ReLUs
from brinell.certify.search import Search
from brinell.certify.slack import slack_of
from brinell.certify.steps import Step
from brinell.certify.task import Task
from brinell.errors import BadInput
from brinell.losses import margin_of
from brinell.shapes import Inputs, Labels
from brinell.threat import Threat

SLOPE_STEPS = 20
"""Steps of the climb for the margins."""
LAYER_STEPS = 20
"""Steps of the climb for the bounds before the layers."""
LAYER_SHARE = 0.2
"""Share of a row's time that this climb may be expected to take; it has fewer steps where that is needed."""
FEWEST_STEPS = 2
"""With fewer the climb for the layers is left out."""
STEP_COST = 1.5
"""What a step of it takes, in float32, in units of bounding the layers once, in float64."""
TREE_SHARE = 0.1
"""Share of the time left in which branch and bound tries alone."""
SLOW = 0.15
"""Cells are tried where it leaves more than this share of what the bound lacked, and half of the functions open."""
MANY_CELLS = 200
"""Cells are tried where there is time to bound the layers this many times."""
CELL_SHARE = 0.9
"""Share of what is left then that they may take; branch and bound goes on with the rest."""
ROWS_AT_ONCE = 100
"""Rows whose intervals are computed together."""

Outcome = Literal["certified", "unknown", "violated"]
Method = Step | Literal["none"]


@dataclass(frozen=True)
class Certificate:
    """What is known of one row within one radius."""

    outcome: Outcome
    """``certified``: no point of the region breaks it, up to ``tolerance``. ``violated``: ``witness`` does."""
    method: Method
    """The last that was tried: the one that decided, where one did."""
    margin: float
    """A lower bound of the least margin over the region, in logits; minus infinity where there is none."""
    tolerance: float
    """What the bound has to exceed, in logits."""
    eps: float
    """The radius, in input units."""
    seconds: float
    """By the clock; a batch's time is shared equally among its rows."""
    questions: int
    """Sub-questions that branch and bound asked, and cells; 0 where neither was tried."""
    witness: Inputs | None
    """A point of the region, one row, on which the deployed model errs."""


@dataclass(frozen=True)
class Proof:
    """What came of the chain, whatever the question was."""

    method: Method
    margin: float
    questions: int = 0
    witness: Inputs | None = None


def certify(
    module: nn.Module,
    x: Inputs,
    y: Labels,
    threat: Threat,
    *,
    seconds: float = 60.0,
    last: Step = "branch",
    network: Network | None = None,
    clock: Clock = time.monotonic,
) -> Iterator[Certificate]:
    """One certificate for each row, in their order; each row may take about ``seconds`` of the ``clock``'s time.

    No step after ``last`` is tried. ``network`` saves reading the module again. Rows that the model gets wrong are
    ``violated`` by themselves.

    Raises
    ------
    BadInput
        If bounds of the module are not known.
    """
    network = network or network_of(module, tuple(x.shape[1:]))
    if network.nodes[-1].shape == (1,):
        raise BadInput(
            "a model to certify",
            got="one score for each row",
            expected="a score for each of two or more classes",
            remedy="Give the model one score for each class.",
        )
    for rows in torch.split(torch.arange(len(x)), ROWS_AT_ONCE):
        begin = clock()
        region, specs = Region.of(threat, x[rows]), margins(y[rows], network.nodes[-1].shape[0])
        slack = slack_of(module, network, x[rows], region)
        with torch.no_grad():
            bounds = interval.bound(network, region, specs)
        share = (clock() - begin) / len(rows)
        for i in range(len(rows)):
            begin = clock() - share
            judge = _Judge(module, x[rows[i : i + 1]], y[rows[i : i + 1]], threat)
            own, every = region.at(slice(i, i + 1)), torch.arange(specs.shape[1])
            task = Task(network, own, specs[i : i + 1], every, float(slack.enough[i]), judge)
            if bool(margin_of(slack.scores[i : i + 1], judge.y) > 0):
                proof = prove(task, bounds[i : i + 1], Deadline(begin + seconds, clock), last)
            else:
                proof = Proof("none", -math.inf, witness=judge(judge.x))
            yield judge.certificate(task, proof, clock() - begin)


def margins(y: Labels, classes: int) -> Tensor:
    """``e_y - e_j`` for all ``j`` but ``y``, in ascending order; shape (row, spec, cls)."""
    others = torch.arange(classes).expand(len(y), classes)
    others = others[others != y[:, None]].view(len(y), classes - 1)
    one = torch.eye(classes, dtype=torch.float64)
    return one[y][:, None] - one[others]


class _Judge:
    """The deployed model, in its own precision, within the threat set."""

    def __init__(self, module: nn.Module, x: Inputs, y: Labels, threat: Threat) -> None:
        self.module, self.x, self.y, self.threat = module, x, y, threat

    def __call__(self, points: Inputs) -> Tensor | None:
        """One of the points, projected and rounded into the threat set, if the model errs there."""
        with torch.no_grad():
            x = self.x.expand(len(points), *self.x.shape[1:])
            stored = self.threat.around(x).project(points.to(x.dtype))
            wrong = (margin_of(self.module(stored), self.y.expand(len(points))) <= 0) & self.threat.contains(x, stored)
            for place in wrong.nonzero().squeeze(1)[:1].tolist():
                alone = stored[place : place + 1]
                if float(margin_of(self.module(alone), self.y)) <= 0:
                    return alone
        return None

    def certificate(self, task: Task, proof: Proof, seconds: float) -> Certificate:
        """The proof as a row's certificate."""
        outcome: Outcome = "unknown"
        if proof.witness is not None:
            outcome = "violated"
        elif proof.margin > task.enough:
            outcome = "certified"
        eps = float(self.threat.eps)
        return Certificate(
            outcome, proof.method, proof.margin, task.enough, eps, seconds, proof.questions, proof.witness
        )


def prove(task: Task, by_intervals: Tensor, deadline: Deadline, last: Step = "branch") -> Proof:
    """The chain on one row, from the bounds that intervals gave to those of the ``last`` step."""
    if bool(task.region.empty()):
        return Proof("none", -math.inf)
    if task.margin(by_intervals) > task.enough:
        return Proof("interval", task.margin(by_intervals))
    centre = (task.region.lower + task.region.upper) / 2 if task.region.centre is None else task.region.centre
    witness = task.judge(centre)
    if witness is not None:
        return Proof("none", -math.inf, witness=witness)
    if last == "interval":
        return Proof("interval", task.margin(by_intervals))
    begin = deadline.clock()
    with torch.no_grad():
        layers = crown.layers_of(task.network, task.region)
        bounds = torch.fmax(by_intervals, crown.bound(task.network, task.region, layers, task.specs))
    taken = deadline.clock() - begin
    if task.margin(bounds) > task.enough or last == "crown":
        return Proof("crown", task.margin(bounds))
    climb = Climb(task.network, task.region, SLOPE_STEPS, task.enough)
    better, slopes = climb.bound(layers, len(task.network.nodes) - 1, task.specs)
    bounds = torch.fmax(bounds, better)
    if task.margin(bounds) > task.enough or last == "slopes":
        return Proof("slopes", task.margin(bounds))
    steps = min(LAYER_STEPS, int(LAYER_SHARE * deadline.left() / max(STEP_COST * taken, 1e-9)))
    if steps >= FEWEST_STEPS:
        layers = crown.layers_of(task.network, task.region, Climb(task.network, task.region, steps, 0.0).ask)
        better, slopes = climb.bound(layers, len(task.network.nodes) - 1, task.specs)
        bounds = torch.fmax(bounds, better)
        if task.margin(bounds) > task.enough:
            return Proof("layers", task.margin(bounds))
    if last == "layers":
        return Proof("layers" if steps >= FEWEST_STEPS else "slopes", task.margin(bounds))
    if not any(len(layer.places.index) for layer in slopes.values()):
        return Proof("layers", task.margin(bounds))
    if last == "cells":
        parted = Cells(task, layers, bounds).run(deadline)
        return Proof("cells", parted.margin, parted.questions, parted.witness)
    return _branched(task, layers, slopes, bounds, deadline, taken)


def _branched(
    task: Task, layers: Layers, slopes: dict[int, ReLUs], bounds: Tensor, deadline: Deadline, taken: float
) -> Proof:
    """The end of the chain, from what the climb left open; bounding the layers once takes ``taken`` seconds."""
    tree, asked = Tree(task.network, task.region, layers, task.specs, task.enough), task.open(bounds)
    search = Search(tree, tree.roots(asked, slopes), task.judge)
    found, margin, cells = search.run(deadline.share(TREE_SHARE)), -math.inf, 0
    lacked, lacks = (task.enough - one for one in (task.margin(bounds), found.margin))
    hard = found.witness is None and lacks > SLOW * lacked and 2 * search.unanswered() > len(asked)
    if hard and deadline.left() > MANY_CELLS * taken:
        parted = Cells(task, layers, bounds).run(deadline.share(CELL_SHARE))
        margin, cells = parted.margin, parted.questions
        if parted.witness is not None or margin > task.enough:
            return Proof("cells", margin, found.questions + cells, parted.witness)
    if found.witness is None:
        found = search.run(deadline)
    if found.witness is not None:
        return Proof("branch", -math.inf, found.questions + cells, found.witness)
    proved = [float(bound) for bound in bounds[0] if bound > task.enough]
    return Proof("branch", max(margin, min([found.margin, *proved])), found.questions + cells)
