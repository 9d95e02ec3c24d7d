"""Whether a property of the verification competition holds for a net: by a quick search, then by proof."""

import math
import time
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from brinell.certify import interval
from brinell.certify.chain import Method, prove
from brinell.certify.deadline import Clock, Deadline
from brinell.certify.descent import lowered
from brinell.certify.graph import Network, network_of
from brinell.certify.onnx_net import OnnxNet
from brinell.certify.operators import Dense
from brinell.certify.region import Region
from brinell.certify.slack import slack_of
from brinell.certify.task import Task
from brinell.certify.vnnlib import Case, Property, counterexample
from brinell.errors import BadInput
from brinell.shapes import Inputs

Answer = Literal["holds", "violated", "unknown"]


@dataclass(frozen=True)
class Verdict:
    """The answer to one property."""

    answer: Answer
    """``holds`` in the sense of a certificate: in real numbers, by more than the tolerance."""
    method: Method | Literal["descent"]
    """The dearest that was tried."""
    margin: float
    """Lower bound of the excess of any case, on the box where least is left above the slack; minus infinity where there is
    none.

    In the scores' units: each inequality is scaled by a power of two, so that its largest coefficient is in [1, 2).
    """
    slack: float
    """What ``margin`` must be above: room for rounding, in the same units."""
    seconds: float
    """By the clock."""
    witness: Inputs | None
    """In float32, one row."""
    text: str
    """The witness as the competition's tools write it; empty where there is none."""


def decide(
    net: OnnxNet, asked: Property, *, seconds: float, network: Network | None = None, clock: Clock = time.monotonic
) -> Verdict:
    """The verdict on a property of a net, within about ``seconds`` of the ``clock``'s time.

    Cases with the same box are decided together. ``network`` saves reading the module again.

    Raises
    ------
    BadInput
        If the net and the property do not fit, the property has no case, or bounds of the net are not known.
    """
    begin = clock()
    if not asked.cases:
        raise BadInput(
            "property", got="no case", expected="at least one", remedy="Give a property that asks for a counterexample."
        )
    network = network or network_of(net.module, net.shape)
    found = (math.prod(net.shape), network.nodes[-1].shape[0])
    if found != (asked.inputs, asked.outputs):
        raise BadInput(
            "property",
            got=f"{asked.inputs} inputs and {asked.outputs} outputs",
            expected=f"the net's {found[0]} and {found[1]}",
            remedy="Give the property that belongs to the net.",
        )
    margin, slack, holds = math.inf, 0.0, True
    method: Method = "none"
    for boxes in _by_box(asked.cases):
        question = _Question(net, boxes)
        enough = question.slack(network)
        witness = lowered(question.region, question.excess, question.judge)
        if witness is not None:
            return question.violated("descent", witness, enough, clock() - begin)
        task = question.task(network, enough)
        with torch.no_grad():
            bounds = interval.bound(task.network, task.region, task.specs)
        proof = prove(task, bounds, Deadline(begin + seconds, clock))
        if proof.witness is not None:
            return question.violated(proof.method, proof.witness, enough, clock() - begin)
        method, holds = proof.method, holds and proof.margin > enough
        if proof.margin - enough < margin - slack:
            margin, slack = proof.margin, enough
    return Verdict("holds" if holds else "unknown", method, margin, slack, clock() - begin, None, "")


def _by_box(cases: tuple[Case, ...]) -> list[list[Case]]:
    together: dict[tuple[bytes, bytes], list[Case]] = {}
    for case in cases:
        together.setdefault((case.lower.tobytes(), case.upper.tobytes()), []).append(case)
    return list(together.values())


class _Question:
    """Cases on one box."""

    def __init__(self, net: OnnxNet, cases: list[Case]) -> None:
        self.net = net
        weight = torch.from_numpy(np.concatenate([case.weight for case in cases]))
        constant = torch.from_numpy(np.concatenate([case.constant for case in cases]))
        unit = torch.ldexp(torch.ones_like(constant), 1 - torch.frexp(weight.abs().amax(1)).exponent.clamp(-1000, 1000))
        self.weight, self.constant = unit[:, None] * weight, unit * constant
        self.groups = torch.tensor([i for i, case in enumerate(cases) for _ in case.constant])
        lower, upper = (torch.from_numpy(end).view(1, *net.shape) for end in (cases[0].lower, cases[0].upper))
        self.region = Region(lower, upper)

    def slack(self, network: Network) -> float:
        """What an inequality has to exceed, in its own units."""
        middle = ((self.region.lower + self.region.upper) / 2).float()
        scores = float(slack_of(self.net.module, network, middle, self.region).enough[0])
        return scores * max(1.0, float(self.weight.abs().sum(1).max()) / 2)

    def task(self, network: Network, enough: float) -> Task:
        """Is, of each case, one inequality above ``enough`` on all of the box?"""
        terms = network.then(Dense(self.weight, self.constant), len(self.constant))
        specs = torch.eye(len(self.constant), dtype=torch.float64)[None]
        return Task(terms, self.region, specs, self.groups, enough, self.judge)

    def excess(self, points: Inputs) -> Tensor:
        """For each point and case the largest of its inequalities: of the deployed net's scores, in float64."""
        terms: Tensor = self.net.module(points).double() @ self.weight.T + self.constant
        cases = int(self.groups.max()) + 1
        worst = terms.new_full((len(points), cases), -torch.inf)
        return worst.scatter_reduce(1, self.groups.expand(len(points), -1), terms, "amax")

    def judge(self, points: Inputs) -> Tensor | None:
        """One of the points, in float32 within the box, if the net errs there."""
        low, high = self.region.lower, self.region.upper
        stored = torch.minimum(torch.maximum(points.float(), _inside(low, torch.inf)), _inside(high, -torch.inf))
        with torch.no_grad():
            for place in (self.excess(stored) <= 0).any(1).nonzero().squeeze(1)[:1].tolist():
                alone = stored[place : place + 1]
                within = bool(((alone.double() >= low) & (alone.double() <= high)).all())
                if within and bool((self.excess(alone) <= 0).any()):
                    return alone
        return None

    def violated(self, method: Method | Literal["descent"], witness: Inputs, slack: float, seconds: float) -> Verdict:
        """The verdict that a witness gives."""
        with torch.no_grad():
            scores = self.net.module(witness)
        text = counterexample(witness.flatten().double().numpy(), scores.flatten().double().numpy())
        return Verdict("violated", method, -math.inf, slack, seconds, witness, text)


def _inside(end: Tensor, towards: float) -> Tensor:
    """An end of an interval in float32, rounded towards the other."""
    rounded = end.float()
    outside = rounded.double() < end if towards > 0 else rounded.double() > end
    return torch.where(outside, torch.nextafter(rounded, torch.full_like(rounded, towards)), rounded)
