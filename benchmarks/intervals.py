"""What is known of each model: [certified, empirical] on the same rows, and certified rows attacked ten times as hard.

    pip install 'brinell[onnx]'
    nice python benchmarks/intervals.py --data ../shared/data [--only mnist_cnn_small …] [--seconds 20]

A suite attacks the rows, then those that stand are certified. The true robust accuracy on these rows lies between the two
figures; where they meet, it is known, and the suite has missed no row. Then every certified row is attacked once more with
ten times the passes that the suite spent on such a row in the mean: none may fall.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from published import cifar_net, mnist_net, trades_mnist
from torch import nn

import brinell
from brinell import zoo
from brinell.certifying import certify_run
from brinell.handed import subject_of
from brinell.result import Reading
from brinell.spec import CertifySpec
from brinell.suites.suite import load_suite

TIMES = 10
"""As many passes, at least, as the suite made on these rows."""
ROUND = ({"loss": "margin", "slope": "smooth"}, {"loss": "targeted-margin", "targets": 9}, {"loss": "ce"})
"""Attacks of the second look, each so often that their passes add up; PGD from twice the radius down."""

Loaded = tuple[nn.Module, Any, Any]


@dataclass(frozen=True)
class Case:
    """A model, a radius, and how many rows."""

    name: str
    load: Callable[[Path], Loaded]
    norm: str
    eps: str
    rows: int


def _builtin(name: str) -> Callable[[Path], Loaded]:
    return lambda _: (zoo.load_model(name), *zoo.load_rows())


def _mnist(name: str) -> Callable[[Path], Loaded]:
    return lambda data: mnist_net(data, name)


def _cifar(name: str) -> Callable[[Path], Loaded]:
    return lambda data: cifar_net(data, name)


CASES = (
    Case("fmnist-standard", _builtin("fmnist-standard"), "linf", "0.01", 100),
    Case("fmnist-at", _builtin("fmnist-at"), "linf", "0.02", 100),
    Case("fmnist-at", _builtin("fmnist-at"), "linf", "0.05", 100),
    Case("fmnist-at", _builtin("fmnist-at"), "linf", "0.1", 100),
    Case("fmnist-at", _builtin("fmnist-at"), "l2", "0.25", 100),
    Case("mnist_cnn_small", _mnist("mnist_cnn_small"), "linf", "0.3", 200),
    Case("kw_mnist", _mnist("kw_mnist"), "linf", "0.1", 100),
    Case("mnist_a_adv", _mnist("mnist_a_adv"), "linf", "0.1", 40),
    Case("mnist_a_adv", _mnist("mnist_a_adv"), "linf", "0.2", 40),
    Case("mnist_fc_3layer", _mnist("mnist_fc_3layer"), "linf", "0.02", 40),
    Case("cifar_base_kw", _cifar("cifar_base_kw"), "linf", "2/255", 40),
    Case("cifar_wide_kw", _cifar("cifar_wide_kw"), "linf", "2/255", 40),
    Case("cifar_deep_kw", _cifar("cifar_deep_kw"), "linf", "2/255", 40),
    Case("resnet_2b", _cifar("resnet_2b"), "linf", "1/255", 20),
    Case("resnet_4b", _cifar("resnet_4b"), "linf", "1/255", 20),
    Case("trades_mnist", trades_mnist, "linf", "0.02", 10),
)


def attacked_again(reading: Reading, loaded: Loaded, threat: brinell.Threat, rows: list[int], folder: Path) -> str:
    """How many certified rows fell, and with how many times the passes."""
    model, x, y = loaded
    spent = [row.forwards + row.backwards for row in reading.rows if row.row in rows]
    wanted, once = round(TIMES * np.mean(spent)), sum(2 * 40 * table.get("targets", 1) for table in ROUND)  # type: ignore[call-overload]
    restarts = max(1, -(-wanted // once))
    tables = "".join(
        f'[[attacks]]\nattack = "pgd"\nschedule = "cosine"\nstep_size = 2.0\nsteps = 40\nrestarts = {restarts}\n'
        + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
        for table in ROUND
    )
    square = '[[attacks]]\nattack = "square"\nqueries = 2000\n'
    suite = folder / "ten-times.toml"
    suite.write_text(
        f'name = "ten-times"\nversion = "1"\nsummary = "a second look"\n{tables}{square}', encoding="utf-8"
    )
    again = brinell.evaluate(model, x[rows], y[rows], threat=threat, suite=load_suite(str(suite)), seed=1)
    made = [row.forwards + row.backwards for row in again.reading.rows]
    fell = len(rows) - again.figures.status["standing"]
    return f"{fell} of {len(rows)} fell; {np.mean(made):,.0f} passes a row, where the suite made {np.mean(spent):,.0f}"


def line(case: Case, data: Path, seconds: float, suite: str, folder: Path) -> str:
    """One model at one radius, as a line of the table."""
    loaded = case.load(data)
    model, x, y = loaded[0], loaded[1][: case.rows], loaded[2][: case.rows]
    threat = brinell.Threat(case.norm, case.eps)  # type: ignore[arg-type]
    begin = time.process_time()
    before = brinell.evaluate(model, x, y, threat=threat, suite=suite, out=folder / "run")
    attack = time.process_time() - begin
    subject = subject_of(
        model, x, y, threat=threat, suite=suite, seed=0, outputs="logits", rows="all", layout="as-is", size=None
    )
    begin = time.process_time()
    reading = certify_run(subject, folder / "run", asked=CertifySpec(method="branch", seconds=seconds))
    proof = time.process_time() - begin
    status, steps = reading.figures.status, [one.step for one in reading.certificates if one.outcome == "certified"]
    certified = [row.row for row in reading.rows if row.status == "certified"]
    met = before.figures.status["broken"] != status["broken"]
    again = attacked_again(reading, loaded, threat, certified, folder) if certified else "—"
    how = ", ".join(f"{step} {steps.count(step)}" for step in dict.fromkeys(sorted(map(str, steps)))) or "—"
    upper = status["certified"] + status["standing"]
    return (
        f"| {case.name} | {case.norm} {case.eps} | {case.rows} | {status['misclassified']} | {status['broken']}"
        f"{' (some by the proof)' if met else ''} | {how} | {status['standing']} | [{status['certified']}, {upper}] "
        f"| {attack:.0f} + {proof:.0f} | {again} |"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--seconds", type=float, default=20.0, help="about how long one row's proof may take")
    options.add_argument("--suite", default="brinell")
    options.add_argument("--only", nargs="+", help="models by name")
    given = options.parse_args()
    torch.set_num_threads(1)
    print(
        f"| model | threat | rows | wrong | broken by {given.suite} | certified by | unresolved | both bounds ", end=""
    )
    print("| CPU s (attack + proof) | certified rows attacked again |")
    print("|---|---|--:|--:|--:|---|--:|---|--:|---|")
    for case in CASES:
        if given.only and case.name not in given.only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            print(line(case, given.data, given.seconds, given.suite, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
