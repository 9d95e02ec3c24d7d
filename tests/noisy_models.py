"""Models with noise that know how often they are right, and small runs of them."""

import random
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from brinell import Threat
from brinell.evaluation import Result, evaluate
from brinell.finishing import finish
from brinell.geometry import Norm
from brinell.handed import subject_of
from brinell.losses import margin_of
from brinell.randomised import carry_out
from brinell.records import FrequencyRecord
from brinell.run import Run
from brinell.subject import Subject
from brinell.suites.suite import Suite, load_suite, suite_from
from brinell.tally import ignore
from brinell.verify import verify_files
from models_with_known_radius import Linear, random_linear
from small_runs import abandon
from trials import Counting

FEATURES = 4
ROWS = 24
BOX = (-50.0, 50.0)
"""Far from everything."""
EPS: dict[Norm, float] = {"linf": 0.25, "l2": 0.45, "l1": 0.7}
SIGMAS = 4.5
"""Standard errors that chance is given; the seeds are fixed, so that it is given them once and for all."""
DRAWS = {"attack": 2, "kept": 2, "select": 40, "score": 40}
STEPS = 6
ATTEMPTS = 2
CANDIDATES = ATTEMPTS * DRAWS["kept"] + 1


def suite(*, steps: int = STEPS, **draws: int) -> Suite:
    """The randomised suite that ships, in a few steps and draws; ``draws`` as in its table of that name."""
    table = load_suite("autoattack-rand").table()
    attacks = [{**attack, "steps": steps} for attack in table["attacks"]]
    return suite_from({**table, "attacks": attacks, "draws": {**DRAWS, **draws}}, "tests")


# Models that know how often they are right


class Noisy(Linear):
    """``w_j . (x + sigma n) + b_j`` with a new standard normal ``n`` for each row and pass.

    With two classes the margin is normal with mean ``m(x)``, that of the bare model, and standard deviation
    ``sigma ‖w_0 - w_1‖_2``: the model is right with probability ``Phi(m(x) / (sigma ‖w_0 - w_1‖_2))``.
    """

    def __init__(self, bare: Linear, sigma: float) -> None:
        super().__init__(bare.weight.detach(), bare.bias.detach())
        self.sigma = sigma

    def noise(self, x: Tensor) -> Tensor:
        return torch.randn_like(x)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x + self.sigma * self.noise(x))

    def right(self, x: Tensor, y: Tensor) -> Tensor:
        """The probability that it is, in float64."""
        return self.right_at(margin_of(super().forward(x).detach().double(), y))

    def right_at(self, margin: Tensor) -> Tensor:
        length = torch.linalg.vector_norm((self.weight[0] - self.weight[1]).detach().double())
        right: Tensor = torch.special.ndtr(margin / (self.sigma * length))
        return right


class NoiseAlone(Noisy):
    """Right with the same probability wherever it is asked: its margin is ``mean + n``, whatever ``x`` is."""

    def __init__(self, mean: float) -> None:
        super().__init__(random_linear(2, FEATURES, seed=1), 1.0)
        self.mean = mean

    def forward(self, x: Tensor) -> Tensor:
        margin = self.mean + torch.randn(len(x), dtype=x.dtype) + 0 * (x * self.weight[0]).sum(1)
        return torch.stack([margin, torch.zeros_like(margin)], dim=1)


def noisy(sigma: float = 0.5) -> Noisy:
    return Noisy(random_linear(2, FEATURES, seed=5, centre=0.0), sigma).eval()


def data(count: int = ROWS) -> tuple[Tensor, Tensor]:
    """Rows as the bare model sees them, some near its boundary; the first one has the other label."""
    x = torch.randn(count, FEATURES, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    with torch.no_grad():
        y = Linear.forward(noisy(), x).argmax(1)
    y[0] = 1 - y[0]
    return x, y


class Watched(nn.Module):
    """Notes at every pass what the global random numbers were last seeded with, and what its turn would be."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.seeds: list[int] = []
        self.numpy: list[int] = []
        self.python: list[object] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seeds.append(torch.initial_seed())
        self.numpy.append(int(np.random.get_state()[1][0]))  # type: ignore[index]
        self.python.append(random.getstate())
        logits: Tensor = self.inner(x)
        return logits

    def groups(self) -> list[int]:
        """The seeds in order, each once for all passes that follow one another under it."""
        return [seed for seed, _ in groupby(self.seeds)]


class Lives(nn.Module):
    """Ends the process, as far as a test can, after so many passes."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.left = 10**9

    def forward(self, x: Tensor) -> Tensor:
        if self.left == 0:
            raise Cut
        self.left -= 1
        logits: Tensor = self.inner(x)
        return logits


class Cut(BaseException):
    """The moment of the kill."""


def subject(model: nn.Module, rows: tuple[Tensor, Tensor], eps: float = EPS["linf"], **changes: Any) -> Subject:
    arguments: dict[str, Any] = {"threat": Threat("linf", eps, *BOX), "suite": suite(), "seed": 0, "outputs": "logits"}
    arguments |= {"rows": "all", "layout": "as-is", "size": 64}
    return subject_of(model, *rows, **{**arguments, **changes})


def carried_out(folder: Path, model: nn.Module, rows: tuple[Tensor, Tensor], **changes: Any) -> Result:
    arguments: dict[str, Any] = {"threat": Threat("linf", EPS["linf"], *BOX), "suite": suite(), "batch_size": 64}
    return evaluate(model, *rows, **{**arguments, **changes}, out=folder)


def frequencies(result: Result) -> dict[int, FrequencyRecord]:
    return {record.row: record for record in result.reading.frequencies}


def chosen(result: Result) -> Tensor:
    return torch.from_numpy(np.load(result.folder / "witnesses.npy"))


def refuted(folder: Path) -> list[str]:
    return [finding.check for finding in verify_files(folder) if finding.holds is False]


@dataclass
class Honest:
    """One run, and the module that was watched in it."""

    result: Result
    model: Watched
    counting: Counting


def random_state() -> tuple[bytes, ...]:
    """The caller's own random numbers: torch, numpy, Python."""
    return (
        torch.get_rng_state().numpy().tobytes(),
        repr(np.random.get_state()).encode(),
        repr(random.getstate()).encode(),
    )


def honest_run(folder: Path) -> Honest:
    """The run that most tests look at."""
    watched = Watched(noisy())
    counting = Counting(watched)
    counting.eval()
    return Honest(carried_out(folder, counting, data()), watched, counting)


def finish_or_die(run: Run) -> None:
    """To the end, or to where the process is killed: nothing is closed in order then."""
    try:
        carry_out(run, ignore, lambda: False)
    except Cut:
        die(run)
        raise
    finish(run)


def die(run: Run) -> None:
    abandon(run)
    if run.recording.candidates is not None:
        run.recording.candidates.close()
