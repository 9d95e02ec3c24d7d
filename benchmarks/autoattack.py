"""The whole suite beside the reference's own code (PyPI package pyautoattack), attack by attack, on the same rows.

    pip install pyautoattack onnx
    python benchmarks/autoattack.py --models fmnist-standard fmnist-at --norm linf --eps 0.1
    python benchmarks/autoattack.py --data ../shared/data --models trades_mnist resnet_2b --eps 0.3 2/255
    python benchmarks/autoattack.py --suite autoattack-plus --models fmnist-at --rows 200

After each attack: rows standing, and the passes made up to there, counted in the same way for both by a wrapper around
the model. Brinell's hold its checks before the attack, its clean pass and its referee. Seconds are CPU time of one
process on ``--threads`` threads; both contenders take turns in it.
"""

import argparse
import logging
import time
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import torch
from counting import Counted
from numpy.typing import NDArray
from published import cifar_net, trades_mnist
from torch import nn

import brinell
from brinell import zoo

NAMES = {"linf": "Linf", "l2": "L2", "l1": "L1"}
VERSIONS = {"autoattack": "standard", "autoattack-plus": "plus", "brinell": ""}


@dataclass
class Outcome:
    """What one contender did: after each attack the rows standing and the passes of it, then all in all."""

    stages: list[tuple[str, int, int, int]]
    standing: set[int]
    forwards: int
    backwards: int
    seconds: float


class Milestones(logging.Handler):
    """Reads the reference's log for the end of each attack, and the counters at that moment."""

    def __init__(self, counted: Counted, rows: int) -> None:
        super().__init__(logging.DEBUG)
        self.counted, self.rows = counted, rows
        self.found: list[tuple[str, int, int, int]] = []
        self.before = (0, 0)

    def emit(self, record: logging.LogRecord) -> None:
        said = record.getMessage()
        if said.startswith("robust accuracy after "):
            name, _, figure = said.removeprefix("robust accuracy after ").partition(": ")
            standing = round(float(figure.partition("%")[0]) / 100 * self.rows)
            now = (self.counted.forwards, self.counted.backwards)
            self.found.append((name.lower(), standing, now[0] - self.before[0], now[1] - self.before[1]))
            self.before = now


def reference(model: nn.Module, x: torch.Tensor, y: torch.Tensor, given: argparse.Namespace, eps: float) -> Outcome:
    from pyautoattack import AutoAttack

    counted = Counted(model).eval()
    logger = logging.getLogger("auto-attack")
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    milestones = Milestones(counted, len(x))
    logger.handlers = [milestones]
    suite = AutoAttack(counted, eps=eps, norm=NAMES[given.norm], seed=given.seed, version=VERSIONS[given.suite])
    start = time.process_time()
    x_adv, _ = suite.run_standard_evaluation(x, y, batch_size=given.batch_size)
    seconds = time.process_time() - start
    forwards, backwards = counted.forwards, counted.backwards
    with torch.no_grad():
        right = torch.cat([model(piece).argmax(1) for piece in x_adv.split(250)]) == y
    return Outcome(milestones.found, set(right.nonzero().squeeze(1).tolist()), forwards, backwards, seconds)


def ours(model: nn.Module, x: torch.Tensor, y: torch.Tensor, given: argparse.Namespace, eps: float) -> Outcome:
    counted = Counted(model).eval()
    start = time.process_time()
    threat = brinell.Threat(given.norm, eps)
    result = brinell.evaluate(
        counted, x, y, threat=threat, suite=given.suite, seed=given.seed, batch_size=given.batch_size
    )
    seconds = time.process_time() - start
    passes = result.figures.passes
    assert counted.forwards == passes.forwards + passes.preflight_forwards, "Brinell's counters disagree"
    assert counted.backwards == passes.backwards + passes.preflight_backwards, "Brinell's counters disagree"
    left = result.clean_accuracy.count
    stages = []
    for stage, attack in zip(result.figures.stages, result.reading.manifest.suite["attacks"], strict=True):
        left -= stage.broke
        name = f"{attack['attack']} {attack.get('loss', '')}".strip()
        stages.append((name, left, stage.forwards, stage.backwards))
    standing = {record.row for record in result.rows if record.status == "standing"}
    assert len(standing) == left, "rows in error"
    return Outcome(stages, standing, counted.forwards, counted.backwards, seconds)


def report(name: str, given: argparse.Namespace, eps: str, mine: Outcome, other: Outcome | None, rows: int) -> None:
    print(f"\n**{name}, {NAMES[given.norm]} {eps}, {rows:,} rows, {given.suite}, seed {given.seed}**\n")
    print("| after | brinell stands | reference stands | brinell passes | reference passes | ratio |")
    print("|---|--:|--:|--:|--:|--:|")
    for place, (attack, left, forwards, backwards) in enumerate(mine.stages):
        line = f"| {attack} | {left} |"
        if other is None:
            print(f"{line} — | {forwards:,} + {backwards:,} | — | — |")
        elif place >= len(other.stages):
            print(f"{line} {other.stages[-1][1]} | {forwards:,} + {backwards:,} | not run: no row was left | |")
        else:
            _, theirs, f, b = other.stages[place]
            ratio = (forwards + backwards) / max(f + b, 1)
            print(f"{line} {theirs} | {forwards:,} + {backwards:,} | {f:,} + {b:,} | {ratio:.3f} |")
    if other is None:
        print(f"| all | {len(mine.standing)} | — | {mine.forwards:,} + {mine.backwards:,} | — | — |")
        print(f"\nCPU seconds {mine.seconds:.0f}.", flush=True)
        return
    ratio = (mine.forwards + mine.backwards) / (other.forwards + other.backwards)
    print(
        f"| all | {len(mine.standing)} | {len(other.standing)} | {mine.forwards:,} + {mine.backwards:,} | "
        f"{other.forwards:,} + {other.backwards:,} | {ratio:.3f} |"
    )
    agree = rows - len(mine.standing ^ other.standing)
    print(
        f"\nSame verdict on {agree} of {rows} rows (only brinell broke {len(other.standing - mine.standing)}, only the "
        f"reference {len(mine.standing - other.standing)}). CPU seconds {mine.seconds:.0f} and {other.seconds:.0f}, ratio "
        f"{mine.seconds / other.seconds:.2f}.",
        flush=True,
    )


def loaded(name: str, data: Path | None) -> tuple[nn.Module, NDArray[np.float32], NDArray[np.int64]]:
    if name.startswith("fmnist"):
        return zoo.load_model(name), *zoo.load_rows()
    assert data is not None, f"{name} needs --data"
    return trades_mnist(data) if name == "trades_mnist" else cifar_net(data, name)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--models", nargs="+", default=["fmnist-standard", "fmnist-at"])
    options.add_argument("--eps", nargs="+", default=["0.1"], help="one for all models, or one for each")
    options.add_argument("--norm", choices=NAMES, default="linf")
    options.add_argument("--suite", choices=VERSIONS, default="autoattack")
    options.add_argument("--data", type=Path, help="folder with models/, vnn/, mnist_test.npz and the CIFAR rows")
    options.add_argument("--rows", type=int, default=1000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--batch-size", type=int, default=250)
    options.add_argument("--alone", action="store_true", help="without the reference")
    given = options.parse_args()
    torch.set_num_threads(given.threads)
    for place, name in enumerate(given.models):
        eps = given.eps[place] if len(given.eps) > 1 else given.eps[0]
        model, x, y = loaded(name, given.data)
        x_, y_ = torch.from_numpy(x[: given.rows]), torch.from_numpy(y[: given.rows])
        mine = ours(model, x_, y_, given, float(Fraction(eps)))
        other = (
            None if given.alone or not VERSIONS[given.suite] else reference(model, x_, y_, given, float(Fraction(eps)))
        )
        report(name, given, eps, mine, other, len(x_))


if __name__ == "__main__":
    main()
