"""One attack on some rows, through the engine or by hand, and what came of it."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from brinell.engine import Engine
from brinell.flight import Attempted, Claim, Clean, Step
from brinell.losses import TargetedLoss
from brinell.models.torch_model import TorchModel
from brinell.oracle import Oracle
from brinell.queries import Answer, Attack, Given, Gradient, Gradients, Query
from brinell.random import Noise, stream_key
from brinell.suites.programme import Assignment
from brinell.threat import Threat


class Trial(NamedTuple):
    """Everything that the engine said of one attack, over all its attempts."""

    claims: dict[int, Claim]
    """By row."""
    attempted: list[Attempted]
    steps: list[Step]

    @property
    def fell(self) -> set[int]:
        return set(self.claims)

    @property
    def outcomes(self) -> dict[int, str]:
        """The outcome of each row's last attempt."""
        return {record.row: record.outcome for record in self.attempted}

    @property
    def best_margins(self) -> dict[int, float | None]:
        """Of each row's last attempt."""
        return {record.row: record.best_margin for record in self.attempted}


def trial(
    module: nn.Module,
    threat: Threat,
    attack: Attack,
    data: tuple[Tensor, Tensor],
    *,
    rows: Sequence[int] | None = None,
    batch_size: int = 32,
    seed: int = 0,
    pull_in: float = 0.0,
) -> Trial:
    """All attempts of the attack, each on the rows that still stand, as a suite would schedule them."""
    x, y = data
    model = TorchModel(module)
    logits = model.scores(x) if len(x) else x.new_zeros(0, 2)
    engine = Engine(Oracle(model, logits.shape[1], seed, batch_size), threat, pull_in)
    return on(engine, attack, Clean(x, y, logits), rows=rows)


def on(engine: Engine, attack: Attack, clean: Clean, *, rows: Sequence[int] | None = None) -> Trial:
    """The same on an engine that is at hand; ``clean`` is the whole data set."""

    def fetch(some: Sequence[int]) -> Clean:
        index = torch.tensor(list(some), dtype=torch.int64)
        return Clean(clean.x[index], clean.y[index], clean.logits[index])

    standing = list(range(len(clean.x))) if rows is None else list(rows)
    out = Trial({}, [], [])
    for attempt in range(attack.attempts()):
        for step in engine.run(Assignment(0, 0, attack, attempt, standing), fetch):
            out.steps.append(step)
            out.claims.update({claim.row: claim for claim in step.claims})
            out.attempted.extend(step.attempted)
        gone = {record.row for record in out.attempted if record.outcome != "stood"}
        standing = [row for row in standing if row not in gone]
    return out


def by_hand(
    module: nn.Module, threat: Threat, attack: Attack, data: tuple[Tensor, Tensor], *, seed: int = 0
) -> list[tuple[Query, Answer]]:
    """Every query of every attempt with its answer, as if no row ever fell."""
    x, y = data
    model = TorchModel(module)
    said: list[tuple[Query, Answer]] = []
    for attempt in range(attack.attempts()):
        noise = Noise.of(seed=seed, stream=stream_key("by hand"), attempt=attempt, rows=torch.arange(len(x)))
        search = attack.search(Given(x, y, model.scores(x), attempt), threat.around(x), noise)
        answer = None
        try:
            while True:
                query = next(search) if answer is None else search.send(answer)
                answer = _answer(model, query, y)
                said.append((query, answer))
        except StopIteration:
            pass
    return said


def _answer(model: TorchModel, query: Query, y: Tensor) -> Answer:
    standing = torch.ones(len(y), dtype=torch.bool)
    if isinstance(query, Gradients):
        aimed = query

        def climb_all(logits: Tensor) -> Tensor:
            return torch.stack([aimed.loss.climb(logits, y, target) for target in aimed.targets.T], dim=1)

        return Answer(*model.gradient(query.points, climb_all), standing)
    if not isinstance(query, Gradient):
        return Answer(
            model.scores(query.points), query.points.new_zeros(len(y)), torch.zeros_like(query.points), standing
        )
    loss, target = query.loss, query.target

    def climb(logits: Tensor) -> Tensor:
        return loss.climb(logits, y, target) if isinstance(loss, TargetedLoss) else loss.climb(logits, y)

    return Answer(*model.gradient(query.points, climb), standing)


class Counting(nn.Module):
    """Counts the rows that pass through a module, forwards and backwards, and the sizes of its batches."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.forwards = 0
        self.backwards = 0
        self.batches: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.forwards += len(x)
        self.batches.append(len(x))
        logits = self.inner(x)
        if logits.requires_grad and x.requires_grad:
            logits.register_hook(self._count)
        return logits

    def _count(self, grad: Tensor) -> None:
        self.backwards += len(grad)
