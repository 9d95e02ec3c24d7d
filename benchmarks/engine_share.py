"""The engine's share of wall time: how much of a run is the bare model's own work.

    python benchmarks/engine_share.py [--model fmnist-at] [--rows 1000] [--suite pgd] [--threads 1] [--repeats 5]
    python benchmarks/engine_share.py --trades ../shared/data

Share = (passes x seconds per pass of the bare model at the run's batch size) / seconds in the attack. Bare model and run
alternate in one process, and the median over the repeats is printed with its range: machines are noisy.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from published import trades_mnist

from brinell import Threat, zoo
from brinell.finishing import finish
from brinell.handed import subject_of
from brinell.opening import begin
from brinell.tally import Moment


def bare_seconds(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, batches: int) -> float:
    """Seconds of a plain loop of forward and backward passes, the gradient taken by the input, per batch."""
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    start = time.perf_counter()
    for _ in range(batches):
        leaf = x.detach().requires_grad_(True)
        loss = torch.nn.functional.cross_entropy(model(leaf), y, reduction="sum")
        torch.autograd.grad(loss, leaf)
    return (time.perf_counter() - start) / batches


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model", default="fmnist-at")
    options.add_argument("--trades", type=Path, help="folder with models/ and mnist_test.npz")
    options.add_argument("--rows", type=int, default=1000)
    options.add_argument("--suite", default="pgd")
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--batch-size", type=int, default=None)
    given = options.parse_args()
    torch.set_num_threads(given.threads)
    if given.trades:
        model, x, y = trades_mnist(given.trades)
        eps = 0.3
    else:
        model, (x, y), eps = zoo.load_model(given.model), zoo.load_rows(), 0.1
    x, y = x[: given.rows], y[: given.rows]
    shares, walls, rates = [], [], []
    for repeat in range(given.repeats):
        with tempfile.TemporaryDirectory() as folder:
            subject = subject_of(
                model, x, y, threat=Threat("linf", eps), suite=given.suite, seed=repeat, outputs="logits", rows="all",
                layout="as-is", size=given.batch_size,
            )  # fmt: skip
            run = begin(subject, Path(folder) / "run")
            size = run.oracle.batch_size
            batch = torch.from_numpy(np.ascontiguousarray(x[:size])), torch.from_numpy(y[:size])
            before = bare_seconds(model, *batch, batches=30)
            clock = Stopwatch()
            reading = finish(run, clock)
            after = bare_seconds(model, *batch, batches=30)
        passes = reading.figures.passes
        wall = clock.last - clock.first
        per_row = (before + after) / 2 / size
        shares.append(passes.attack_backwards * per_row / wall)
        walls.append(wall)
        rates.append(passes.attack_backwards / wall)
    print(
        f"{given.suite} on {'trades mnist' if given.trades else given.model}, {len(x)} rows, {given.threads} threads, "
        f"batch {size}: share {statistics.median(shares):.3f} [{min(shares):.3f}, {max(shares):.3f}], "
        f"{statistics.median(walls):.2f} s, {statistics.median(rates):,.0f} gradients/s"
    )


class Stopwatch:
    """Takes the time of the first and the last moment of the attacks."""

    first = 0.0
    last = 0.0

    def __call__(self, moment: Moment) -> None:
        self.last = time.perf_counter()
        self.first = self.first or self.last


if __name__ == "__main__":
    main()
