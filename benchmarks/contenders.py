"""Whole suites side by side: brinell, a3 and autoattack here, AutoAttack of three libraries, and a probability-margin attack.

    pip install adversarial-robustness-toolbox==1.20.1 pyautoattack==0.2.0 onnx
    pip install --no-deps torchattacks==3.5.1
    python benchmarks/contenders.py --models fmnist-at --norm linf --eps 0.1 --rows 200
    python benchmarks/contenders.py --data ../shared/data --models resnet_2b --eps 2/255 --only brinell a3 pyautoattack

In one process, on the same rows, one after the other. Passes are counted by a wrapper around the model for every
contender; Brinell's hold its checks before the attack, its clean pass and its referee. What a contender returns is judged
alike: a row is broken if its point lies in the box and within ``eps (1 + 1e-5)``, in float64, and the model errs on it.
``left out`` names what is not installed.
"""

import argparse
import logging
import time
import warnings
from collections.abc import Iterator
from fractions import Fraction
from importlib.metadata import PackageNotFoundError, version
from math import cos, pi
from pathlib import Path

import torch
from autoattack import loaded
from contest import BATCH, ORDER, Case, Craft, brinells, judged, seeded
from counting import Counted

LIBRARIES = ("pyautoattack", "torchattacks", "adversarial-robustness-toolbox")


def pyautoattacks(at: Case) -> torch.Tensor:
    from pyautoattack import AutoAttack

    logging.getLogger("auto-attack").setLevel(logging.ERROR)
    suite = AutoAttack(at.model, eps=at.eps, norm=at.title, seed=at.seed, version="standard")
    return suite.run_standard_evaluation(at.x, at.y, batch_size=BATCH)[0]


def torchattackss(at: Case) -> torch.Tensor:
    import torchattacks

    suite = torchattacks.AutoAttack(at.model, norm=at.title, eps=at.eps, version="standard", n_classes=10, seed=at.seed)
    return torch.cat([suite(x, y) for x, y in zip(at.x.split(BATCH), at.y.split(BATCH), strict=True)])


def arts(at: Case) -> torch.Tensor:
    from art.attacks.evasion import AutoAttack
    from art.estimators.classification import PyTorchClassifier

    asked = PyTorchClassifier(
        at.model,
        loss=torch.nn.CrossEntropyLoss(),
        input_shape=tuple(at.x.shape[1:]),
        nb_classes=10,
        clip_values=(0.0, 1.0),
    )
    suite = AutoAttack(asked, norm=at.order, eps=at.eps, eps_step=2 * at.eps, batch_size=BATCH)
    return torch.from_numpy(suite.generate(at.x.numpy(), at.y.numpy()))


def probability_margin(at: Case) -> torch.Tensor:
    """Xie et al. 2025 (arXiv 2411.15210): two runs of 100 steps, each in two phases; Linf alone."""
    points, steps, half = at.x.clone(), 100, 50
    standing = torch.arange(len(at.x))
    for run in range(2):
        x_adv = at.x + at.eps * (2 * torch.rand_like(at.x) - 1)
        for step in range(steps + 1):
            here = [(places, x_adv[places].clamp(0, 1).requires_grad_()) for places in standing.split(BATCH)]
            for places, piece in here:
                logits = at.model(piece)
                own, other = _probabilities(logits, at.y[places])
                fell = (logits.argmax(1) != at.y[places]).detach()
                points[places[fell]] = piece.detach()[fell]
                if step == steps:
                    continue
                first = own if step == 0 else (other if run else -own)
                climbed = first if step < half else other - own
                size = at.eps * (1 + cos(pi * (step % half) / half))
                moved = piece.detach() + size * torch.autograd.grad(climbed.sum(), piece)[0].sign()
                x_adv[places] = moved.clamp(at.x[places] - at.eps, at.x[places] + at.eps).clamp(0, 1)
            standing = standing[(points[standing] == at.x[standing]).flatten(1).all(1)]
            if not len(standing):
                return points
    return points


def _probabilities(logits: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Of the true class, and the highest of the others."""
    shares = logits.softmax(1)
    own = shares.gather(1, y[:, None]).squeeze(1)
    return own, shares.scatter(1, y[:, None], -1).amax(1)


CONTENDERS: dict[str, tuple[Craft, str | None, tuple[str, ...]]] = {
    "brinell": (brinells("brinell"), None, ("linf", "l2", "l1")),
    "a3": (brinells("a3"), None, ("linf", "l2")),
    "autoattack": (brinells("autoattack"), None, ("linf", "l2", "l1")),
    "pyautoattack": (pyautoattacks, "pyautoattack", ("linf", "l2", "l1")),
    "torchattacks.AutoAttack": (torchattackss, "torchattacks", ("linf", "l2")),
    "art AutoAttack": (arts, "adversarial-robustness-toolbox", ("linf", "l2")),
    "probability margin": (probability_margin, None, ("linf",)),
}
"""What crafts the points, the package that it needs, and its norms."""


def outcomes(given: argparse.Namespace, name: str, eps: float) -> Iterator[tuple[str, set[int], int, int, int, float]]:
    net, x, y = loaded(name, given.data)
    rows = slice(given.first, given.first + given.rows)
    for contender in given.only:
        craft, package, norms = CONTENDERS[contender]
        if given.norm not in norms or (package and not installed(package)):
            print(f"left out: {contender}", flush=True)
            continue
        seeded(given.seed)
        case = Case(
            Counted(net).eval(), torch.from_numpy(x[rows]), torch.from_numpy(y[rows]), given.norm, eps, given.seed
        )
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            points = craft(case).detach()
        seconds = time.process_time() - start
        standing, outside = judged(case, points)
        yield contender, standing, outside, case.model.forwards, case.model.backwards, seconds


def installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def compare(given: argparse.Namespace, name: str, written: str) -> None:
    found = []
    for outcome in outcomes(given, name, float(Fraction(written))):
        found.append(outcome)
        print(f"{outcome[0]}: {len(outcome[1])} stand after {outcome[3] + outcome[4]:,} passes", flush=True)
    union = set.intersection(*(standing for _, standing, *_ in found))
    rows = f"rows {given.first} to {given.first + given.rows - 1}"
    versions = ", ".join(f"{package} {installed(package)}" for package in LIBRARIES if installed(package))
    print(
        f"\n**{name}, {given.norm.capitalize()} {written}, {rows}, seed {given.seed}** ({versions}, torch {torch.__version__})\n"
    )
    print("| suite | stands | above the union of all | outside | forwards | backwards | passes a row | CPU s |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for contender, standing, outside, forwards, backwards, seconds in found:
        print(
            f"| {contender} | {len(standing)} | {len(standing - union)} | {outside} | {forwards:,} | {backwards:,} | "
            f"{(forwards + backwards) / given.rows:,.0f} | {seconds:.0f} |",
            flush=True,
        )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--models", nargs="+", default=["fmnist-at"])
    options.add_argument("--eps", nargs="+", default=["0.1"], help="one for all models, or one for each")
    options.add_argument("--norm", choices=ORDER, default="linf")
    options.add_argument("--data", type=Path, help="folder with models/, vnn/, mnist_test.npz and the CIFAR rows")
    options.add_argument("--first", type=int, default=0, help="place of the first row")
    options.add_argument("--rows", type=int, default=200)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    given = options.parse_args()
    torch.set_num_threads(1)
    for place, name in enumerate(given.models):
        compare(given, name, given.eps[place] if len(given.eps) > 1 else given.eps[0])


if __name__ == "__main__":
    main()
