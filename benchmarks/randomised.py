"""Randomised models: what is reported beside what is true.

    pip install scikit-learn pyautoattack
    python benchmarks/randomised.py [--rows 200] [--sigma 0.2]

A linear model on the 8 × 8 digits of scikit-learn sees its input with Gaussian noise. With two classes (odd or even) the
accuracy under the best attack is known: the mean over rows of ``Phi(worst margin / (sigma ||w_1 - w_2||))``. With ten
it is not; there what each tool reports stands beside how often the model is right at that tool's points in 1,000 fresh
draws, which is true of these points. The reference's version for randomised models (PyPI package pyautoattack) stops at
two classes.
"""

import argparse
import logging
from pathlib import Path

import numpy as np
import torch
from families import TRAINING_ROWS, fitted, linear_worst
from pyautoattack import AutoAttack
from sklearn.datasets import load_digits
from torch import Tensor, nn

import brinell

FRESH = 1000
TWO, TEN = 0.07, 0.1  # radii in Linf


class Noisy(nn.Module):
    """A model that sees its input with Gaussian noise."""

    def __init__(self, inner: nn.Module, sigma: float) -> None:
        super().__init__()
        self.inner, self.sigma = inner, sigma

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x + self.sigma * torch.randn_like(x))


def fresh(model: nn.Module, points: Tensor, y: Tensor) -> float:
    """How often the model is right at these points, in draws that nobody else has seen."""
    torch.manual_seed(1_000_003)
    with torch.no_grad():
        return float(torch.stack([(model(points).argmax(1) == y).float().mean() for _ in range(FRESH)]).mean())


def ours(model: nn.Module, x: Tensor, y: Tensor, eps: float, folder: Path) -> tuple[brinell.Result, Tensor]:
    threat = brinell.Threat("linf", eps)
    result = brinell.evaluate(model, x, y, threat=threat, suite="autoattack-rand", batch_size=len(x), out=folder)
    return result, torch.from_numpy(np.load(folder / "witnesses.npy"))


def line(*cells: object) -> None:
    print("| " + " | ".join(f"{100 * cell:.1f} %" if isinstance(cell, float) else str(cell) for cell in cells) + " |")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=200)
    options.add_argument("--sigma", type=float, default=0.2)
    options.add_argument("--out", type=Path, required=True, help="a new folder for Brinell's runs")
    given = options.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("auto-attack").setLevel(logging.ERROR)
    digits = load_digits()
    order = torch.randperm(len(digits.data), generator=torch.Generator().manual_seed(0))
    x = (torch.from_numpy(digits.data)[order] / 16).float()
    y = torch.from_numpy(digits.target)[order].long()
    rows, trained = slice(TRAINING_ROWS, TRAINING_ROWS + given.rows), slice(TRAINING_ROWS)
    points = x[rows].view(-1, 1, 8, 8)
    line("model", "tool", "reported", "at its points, fresh draws", "truth")
    line(*["---"] * 5)

    parity = fitted(x[trained], y[trained] % 2)
    spread = given.sigma * float((parity.weight[0] - parity.weight[1]).detach().norm())
    worst = linear_worst(parity)(points, y[rows] % 2, "linf", TWO)
    truth = float(torch.distributions.Normal(0, 1).cdf(worst / spread).mean())
    noisy = Noisy(parity, given.sigma).eval()
    result, chosen = ours(noisy, points, y[rows] % 2, TWO, given.out / "two")
    line(f"two classes, eps {TWO}", "brinell", str(result.robust_accuracy), fresh(noisy, chosen, y[rows] % 2), truth)

    noisy = Noisy(fitted(x[trained], y[trained]), given.sigma).eval()
    result, chosen = ours(noisy, points, y[rows], TEN, given.out / "ten")
    line(f"ten classes, eps {TEN}", "brinell", str(result.robust_accuracy), fresh(noisy, chosen, y[rows]), "—")
    for seed in range(3):
        suite = AutoAttack(noisy, eps=TEN, norm="Linf", seed=seed, version="rand")
        x_adv, y_adv = suite.run_standard_evaluation(points, y[rows], batch_size=len(points))
        reported = float((y_adv == y[rows]).float().mean())
        line(f"ten classes, eps {TEN}", f"reference, seed {seed}", reported, fresh(noisy, x_adv, y[rows]), "—")


if __name__ == "__main__":
    main()
