"""Certified accuracy of smoothed classifiers against radius, and one of them attacked.

    nice python benchmarks/smoothing.py [--data ../shared/data] [--rows 100] [--n 10000]

Built-in models at sigma 0.25 and 0.5 on the first rows; with ``--data`` auto_LiRPA's adversarially trained MNIST net on 20.
"""

import argparse
import tempfile
import time
from pathlib import Path

import torch
from published import mnist_a_adv

from brinell import zoo
from brinell.models.torch_model import TorchModel
from brinell.report.smoothed import attack_lines
from brinell.rows import rows_of
from brinell.smoothing.making import Asked, begin_smoothing, make
from brinell.smoothing.setting import Setting
from brinell.threat import Threat

RADII = (0.0, 0.25, 0.5, 0.75, 1.0)
CASES = (
    ("fmnist-at", 0.25, "0.5"),
    ("fmnist-at", 0.5, "0"),
    ("fmnist-standard", 0.25, "0"),
    ("fmnist-standard", 0.5, "0"),
)
"""Model, sigma, and eps of the attack; 0: none."""


def line(name: str, loaded: tuple, sigma: float, eps: str, rows: int, n: int) -> list[str]:  # type: ignore[type-arg]
    """One line of the table, and what the attack said."""
    net, x, y = loaded
    asked = Asked(
        TorchModel(net),
        name,
        rows_of(x, y, selection=f"0:{rows}"),
        Setting(sigma=sigma, n=n),
        Threat("l2", eps),
    )
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        begin_smoothing(asked, Path(folder) / "run")
        figures = make(asked, Path(folder) / "run").figures
        seconds = (time.process_time() - began) / rows
    counts = " / ".join(str(figures.certified_at(radius).count) for radius in RADII)
    outcomes = figures.outcomes
    cells = (name, sigma, rows, counts, outcomes["wrong"], outcomes["abstained"], figures.base.count, f"{seconds:.2f}")
    found = [f"| {' | '.join(map(str, cells))} |"]
    return found + ([] if figures.attack is None else [f"  {said}" for said in attack_lines(figures.attack)])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--n", type=int, default=10_000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| f | sigma | rows | certified at r = 0 / .25 / .5 / .75 / 1 | wrong | abstained | f right | CPU s a row |")
    print("|---|---|---|---|---|---|---|---|")
    for name, sigma, eps in CASES:
        found = line(name, (zoo.load_model(name), *zoo.load_rows()), sigma, eps, options.rows, options.n)
        print("\n".join(found), flush=True)
    if options.data is not None:
        print("\n".join(line("mnist_a_adv", mnist_a_adv(options.data), 0.25, "0", 20, options.n)), flush=True)


if __name__ == "__main__":
    main()
