"""Whether a suite finds adversarial examples that are known to be there: they are planted.

Idea        around a clean row, take points of the ball and one on its edge, and put a linear readout on the model's logits
            that calls the one on the edge another class than all others. The model with this readout has an adversarial
            example by construction, behind all that the defence does; an evaluation that does not find one cannot be
            trusted to find any.
Source      Zimmermann et al. 2022 (arXiv 2206.13991), section 3, the binarization test.
Departures  the readout is on the logits, which every model shows, and is the widest one by a linear programme; ``INNER``
            inner points, where the authors take 999.
Cost        ``INNER + 2`` forwards a row, then the suite on it, and as many random points as the suite made passes.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from brinell.diagnose.diagnosis import Diagnosis
from brinell.errors import BadInput
from brinell.evaluation import evaluate
from brinell.losses import margin_of
from brinell.models.outputs import as_logits, unwrapped
from brinell.models.torch_model import TorchModel
from brinell.random import Noise, stream_key
from brinell.shapes import Inputs
from brinell.subject import Subject
from brinell.threat import Threat

ROWS = 16
INNER = 199
WITHIN = 0.95
"""Of the ball's radius: where the inner points lie."""
GAP = 0.05
"""Of the way from the farthest inner point to the planted one: where the planted one's class begins, from its side."""
PASSES = 0.95
"""Share of the planted points that a sound suite finds at least."""
EASY = 0.5
"""Share that random points find, from which the test says nothing."""
MOST_RANDOM = 2000
MOST_DRAWS = 10**6
"""A draw that no inner or random point has."""
SEPARABLE = 1e-3
"""Least gap, in spreads of a logit."""
BATCH = 64
MEANS = "The suite does not find what is known to be there: what it leaves on the model itself says nothing."
ADVICE = "Attack through a stated backward (`brinell.adaptive.bpda`), or with a suite that passes."


class Planted(NamedTuple):
    """What came of the rows tried."""

    tried: int
    found: int
    by_random: int
    """Rows of which random points of the ball found one."""
    inseparable: int
    """Rows on which no readout tells the planted point from the others."""


class Readout(nn.Module):
    """Two classes, read off another model's logits: the planted point's is the second."""

    weights: Tensor

    def __init__(self, model: TorchModel, weights: Tensor, threshold: float, scale: float) -> None:
        super().__init__()
        self.module, self.outputs = model.module, model.outputs
        self.threshold, self.scale = threshold, scale
        self.register_buffer("weights", weights.to(model.device, model.own_dtype))
        self.train(mode=False)

    def forward(self, x: Tensor) -> Tensor:
        """Logits ``(row, 2)``."""
        logits = as_logits(unwrapped(self.module(x))[0], self.outputs)
        planted = (logits @ self.weights - self.threshold) * self.scale
        return torch.stack([-planted / 2, planted / 2], dim=1)


def planted_examples(subject: Subject, rows: int = ROWS) -> Diagnosis:
    """Try the subject's suite on planted examples around its first rows that the model is right on.

    Raises
    ------
    BadInput
        If the model is taken for randomised, may reject, or ``eps`` is 0.
    """
    if subject.suite.draws is not None or subject.model.rejects or float(subject.threat.eps) == 0:
        raise BadInput(
            "planted examples",
            got="a randomised model, one that may reject, or eps 0",
            expected="a deterministic classifier and eps above 0",
            remedy="Leave the test out.",
        )
    tried = found = by_random = inseparable = 0
    for place in range(len(subject.rows)):
        if tried + inseparable == rows:
            break
        outcome = _tried(subject, place)
        if outcome is None:
            continue
        inseparable += outcome.inseparable
        tried, found, by_random = tried + outcome.tried, found + outcome.found, by_random + outcome.by_random
    return _diagnosis(Planted(tried, found, by_random, inseparable))


def _diagnosis(planted: Planted) -> Diagnosis:
    said = (
        f"{planted.found} of {planted.tried} planted examples found, {planted.by_random} by as many random points; on "
        f"{planted.inseparable} rows none could be planted"
    )
    useless = planted.tried == 0 or planted.by_random > EASY * planted.tried
    raised = None if useless else planted.found < PASSES * planted.tried
    return Diagnosis(
        "planted-examples", "suspect", raised, said + ("; this says nothing" if useless else ""), MEANS, ADVICE
    )


def _tried(subject: Subject, place: int) -> Planted | None:
    """One row; None where the model is wrong on it before any attack."""
    model, threat = subject.model, subject.threat
    x = torch.from_numpy(np.array(subject.rows.x[place : place + 1])).to(model.device, model.dtype)
    y = torch.tensor([int(subject.rows.y[place])], device=model.device)
    own = float(margin_of(model.scores(x), y)[0])
    if own <= 0:
        return None
    noise = _noise(subject, place)
    smaller = Threat(threat.norm, WITHIN * float(threat.eps), low=threat.low, high=threat.high)
    inner = torch.cat([x, *(smaller.around(x).random_start(noise, draw=draw) for draw in range(INNER))])
    readout = _readout(model, torch.cat([inner, _edge(threat, x, noise)]), own)
    if readout is None:
        return Planted(0, 0, 0, 1)
    label = torch.zeros(1, dtype=torch.int64)
    size = subject.batch_size or BATCH
    result = evaluate(readout, x.cpu(), label, threat=threat, suite=subject.suite, seed=subject.seed, batch_size=size)
    made = min(result.figures.passes.forwards + result.figures.passes.backwards, MOST_RANDOM)
    found = result.figures.status["broken"] > 0
    points = torch.cat([threat.around(x).random_start(noise, draw=2 * INNER + draw) for draw in range(made)])
    with torch.no_grad():
        luck = bool((readout(points.to(model.own_dtype)).argmax(1) == 1).any())
    return Planted(1, int(found), int(luck), 0)


def _noise(subject: Subject, place: int) -> Noise:
    row = torch.tensor([int(subject.rows.index[place])], device=subject.model.device)
    return Noise.of(seed=subject.seed, stream=stream_key("planted examples"), attempt=0, rows=row)


def _edge(threat: Threat, x: Inputs, noise: Noise) -> Inputs:
    """A point on the edge of the ball: a random corner in Linf, a random direction in the others; cut by the box."""
    toss = noise.normal(tuple(x.shape[1:]), draw=MOST_DRAWS, dtype=x.dtype)
    ball = threat.around(x)
    return ball.ascend(x, toss, ball.steps(1.0))


def _readout(model: TorchModel, points: Inputs, margin: float) -> Readout | None:
    """The readout that tells the last point from the others, the first of which is clean, by the widest gap; None if none does.

    ``max t`` with ``w (f_edge - f_i) >= t`` for all inner points and ``|w_k| <= 1``: a linear programme. It is scaled so that
    the clean row's margin is what it was.
    """
    from scipy.optimize import linprog

    features = model.scores(points).double().cpu().numpy()
    spread = np.abs(features - features.mean(0)).max(0) + 1e-12
    apart = (features[-1] - features[:-1]) / spread
    count, classes = apart.shape
    solved = linprog(
        c=np.r_[np.zeros(classes), -1.0],
        A_ub=np.c_[-apart, np.ones(count)],
        b_ub=np.zeros(count),
        bounds=[*([(-1.0, 1.0)] * classes), (None, None)],
    )
    if not solved.success or solved.x[-1] <= SEPARABLE:
        return None
    weights = solved.x[:-1] / spread
    seen = features @ weights
    threshold = seen[-1] - GAP * (seen[-1] - seen[:-1].max())
    return Readout(model, torch.from_numpy(weights), float(threshold), margin / float(threshold - seen[0]))
