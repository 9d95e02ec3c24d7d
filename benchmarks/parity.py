"""Each attack beside the reference's own code (PyPI package pyautoattack), on the same rows of the same model.

    pip install pyautoattack
    python benchmarks/parity.py [--models fmnist-standard fmnist-at] [--attacks apgd-ce apgd-dlr apgd-t] [--norm linf]
    python benchmarks/parity.py --trades ../shared/data --rows 1000

Every contender's passes are counted in the same way, by a wrapper around the model: rows that go forward, and rows
whose output a gradient comes back to. Brinell's own counters must agree with it.
"""

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from counting import Counted
from numpy.typing import NDArray
from published import trades_mnist
from pyautoattack import AutoAttack
from torch import nn

import brinell
from brinell import zoo

EPS = {"linf": 0.1, "l2": 1.5}


@dataclass
class Outcome:
    standing: set[int]
    forwards: int
    backwards: int
    seconds: float


def reference(
    model: nn.Module, x: torch.Tensor, y: torch.Tensor, attack: str, norm: str, eps: float, seed: int
) -> Outcome:
    counted = Counted(model).eval()
    suite = AutoAttack(
        counted, attacks=[attack], eps=eps, norm={"linf": "Linf", "l2": "L2", "l1": "L1"}[norm], seed=seed,
        version="custom",
    )  # fmt: skip
    suite.apgd.n_restarts = 1
    suite.apgd_targeted.n_restarts = 1
    suite.verbose = False
    start = time.process_time()
    returned = suite.run_standard_evaluation(x, y, batch_size=250)
    seconds = time.process_time() - start
    x_adv = returned[0] if isinstance(returned, tuple) else returned
    forwards, backwards = counted.forwards, counted.backwards
    with torch.no_grad():
        right = torch.cat([model(piece).argmax(1) for piece in x_adv.split(250)]) == y
    return Outcome(set(right.nonzero().squeeze(1).tolist()), forwards, backwards, seconds)


def ours(model: nn.Module, x: torch.Tensor, y: torch.Tensor, attack: str, norm: str, eps: float, seed: int) -> Outcome:
    counted = Counted(model).eval()
    start = time.process_time()
    result = brinell.evaluate(counted, x, y, threat=brinell.Threat(norm, eps), suite=attack, seed=seed, batch_size=250)
    seconds = time.process_time() - start
    passes = result.figures.passes
    assert counted.forwards == passes.forwards + passes.preflight_forwards, "Brinell's counters disagree"
    standing = {record.row for record in result.rows if record.status == "standing"}
    return Outcome(standing, counted.forwards, counted.backwards, seconds)


def compare(
    name: str, model: nn.Module, x: NDArray[np.float32], y: NDArray[np.int64], given: argparse.Namespace
) -> None:
    eps = given.eps if given.eps else EPS[given.norm]
    inputs, labels = torch.from_numpy(x), torch.from_numpy(y)
    for attack in given.attacks:
        b = reference(model, inputs, labels, attack, given.norm, eps, given.seed)
        a = ours(model, inputs, labels, attack, given.norm, eps, given.seed)
        agree = len(x) - len(a.standing ^ b.standing)
        print(
            f"| {name} | {given.norm} {eps:g} | {attack} | {len(a.standing)} | {len(b.standing)} | {agree}/{len(x)} | "
            f"{a.forwards:,} + {a.backwards:,} | {b.forwards:,} + {b.backwards:,} | "
            f"{(a.forwards + a.backwards) / (b.forwards + b.backwards):.3f} | {a.seconds:.1f} | {b.seconds:.1f} |",
            flush=True,
        )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--models", nargs="*", default=["fmnist-standard", "fmnist-at"])
    options.add_argument("--trades", type=Path, help="folder with models/ and mnist_test.npz")
    options.add_argument("--attacks", nargs="*", default=["apgd-ce", "apgd-dlr", "apgd-t"])
    options.add_argument("--norm", default="linf")
    options.add_argument("--eps", type=float, default=None)
    options.add_argument("--rows", type=int, default=1000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--threads", type=int, default=1)
    given = options.parse_args()
    torch.set_num_threads(given.threads)
    print("| model | threat | attack | brinell stands | reference stands | rows agree | brinell passes | reference passes |"
          " ratio | brinell CPU s | reference CPU s |\n|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|", flush=True)  # fmt: skip
    if given.trades:
        model, x, y = trades_mnist(given.trades)
        given.eps = given.eps or 0.3
        compare("TRADES MNIST", model, x[: given.rows], y[: given.rows], given)
        return
    x, y = zoo.load_rows()
    for name in given.models:
        compare(name, zoo.load_model(name), x[: given.rows], y[: given.rows], given)


if __name__ == "__main__":
    main()
