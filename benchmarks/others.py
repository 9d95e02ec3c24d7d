"""Each attack beside the same attack of other libraries, on the same rows of the same model.

    pip install foolbox==3.3.4 adversarial-robustness-toolbox==1.20.1 multiprocess
    pip install --no-deps torchattacks==3.5.1 adv-lib==0.2.8
    python benchmarks/others.py [--attacks pgd apgd-ce] [--norms linf l2] [--rows 200] [--seeds 5]

torchattacks and adv-lib are installed without their dependencies, which would replace torch by another build; what
adv-lib imports and these attacks never use is faked. Every contender's passes are counted by a wrapper around the
model. What a contender returns is judged alike and clipped to nothing: a row is broken if its point lies in the box and
within ``eps (1 + 1e-5)`` (float64) and the model errs on it; rows that the model errs on untouched stand for nobody.
Brinell returns its witnesses, and the clean input where it has none; its passes hold the checks before the attack and
the referee. Seconds are CPU time of one process on ``--threads`` threads.
"""

import argparse
import importlib.metadata
import random
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from unittest.mock import MagicMock

import foolbox
import numpy as np
import torch
import torchattacks
from art.attacks import evasion
from art.estimators.classification import PyTorchClassifier
from counting import Counted
from torch import nn

import brinell
from brinell import zoo
from brinell.attacks.square import Square
from brinell.suites.suite import Suite

EPS = {"linf": 0.1, "l2": 1.5}
ORDER = {"linf": float("inf"), "l2": 2.0}
PGD_STEPS, APGD_STEPS, FAB_STEPS, QUERIES = 50, 100, 100, 5000
STEP_SIZE = 0.1
"""PGD's, as a fraction of eps."""
SLACK = 1e-5
TORCH = "2.13.0+cpu"
LIBRARIES = ("foolbox", "adversarial-robustness-toolbox", "torchattacks", "adv-lib")
QUICK = ("pgd", "apgd-ce")
"""Attacks that are repeated with ``--seeds`` seeds; the others run with seed 0 alone."""

NOTES = """"""


@dataclass(frozen=True)
class Case:
    """What a contender gets: the counted model, rows in [0, 1], a threat, a seed."""

    model: Counted
    x: torch.Tensor
    y: torch.Tensor
    norm: str
    eps: float
    seed: int


Craft = Callable[[Case], torch.Tensor]
"""A contender: the points it returns for the rows of a case."""


def of_brinell(suite: str | Suite) -> Craft:
    def craft(case: Case) -> torch.Tensor:
        threat = brinell.Threat(case.norm, case.eps)
        result = brinell.evaluate(
            case.model, case.x, case.y, threat=threat, suite=suite, seed=case.seed, batch_size=250
        )
        passes = result.figures.passes
        assert case.model.forwards == passes.forwards + passes.preflight_forwards, "Brinell's counters disagree"
        assert case.model.backwards == passes.backwards + passes.preflight_backwards, "Brinell's counters disagree"
        points = case.x.clone()
        for record in result.rows:
            witness = result.witness(record.row)
            if witness is not None:
                points[record.row] = torch.from_numpy(witness)
        return points

    return craft


def pgd_of_foolbox(case: Case) -> torch.Tensor:
    kind = {"linf": foolbox.attacks.LinfPGD, "l2": foolbox.attacks.L2PGD}[case.norm]
    attack = kind(rel_stepsize=STEP_SIZE, steps=PGD_STEPS, random_start=True)
    asked = foolbox.PyTorchModel(case.model, bounds=(0, 1), device="cpu")
    raw, _, _ = attack(asked, case.x, case.y, epsilons=case.eps)
    return raw


def of_art(kind: type[evasion.ProjectedGradientDescent], **settings: object) -> Craft:
    """One of ART's attacks; a setting that ends in ``step`` is a fraction of eps."""

    def craft(case: Case) -> torch.Tensor:
        classifier = PyTorchClassifier(
            case.model, loss=nn.CrossEntropyLoss(), input_shape=case.x.shape[1:], nb_classes=10, clip_values=(0.0, 1.0)
        )
        scaled = {key: case.eps * value if key.endswith("step") else value for key, value in settings.items()}
        attack = kind(classifier, norm=ORDER[case.norm], eps=case.eps, batch_size=250, verbose=False, **scaled)
        return torch.from_numpy(attack.generate(case.x.numpy(), case.y.numpy()))

    return craft


def pgd_of_torchattacks(case: Case) -> torch.Tensor:
    kind = {"linf": torchattacks.PGD, "l2": torchattacks.PGDL2}[case.norm]
    return kind(case.model, eps=case.eps, alpha=STEP_SIZE * case.eps, steps=PGD_STEPS)(case.x, case.y)


def of_torchattacks(kind: type[torchattacks.attack.Attack], **settings: object) -> Craft:
    def craft(case: Case) -> torch.Tensor:
        attack = kind(case.model, norm=case.norm.capitalize(), eps=case.eps, seed=case.seed, **settings)
        return attack(case.x, case.y)

    return craft


def adv_lib() -> ModuleType:
    """adv-lib's attacks, with what only its other parts use faked while it is imported."""
    fakes = {name: MagicMock() for name in ("torchvision", "visdom") if name not in sys.modules}
    sys.modules.update(fakes)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import adv_lib.attacks as attacks
    finally:
        for name in fakes:
            del sys.modules[name]
    return attacks


def pgd_of_adv_lib(case: Case) -> torch.Tensor:
    return adv_lib().pgd_linf(
        case.model, case.x, case.y, case.eps, steps=PGD_STEPS, relative_step_size=STEP_SIZE, random_init=True
    )


def of_adv_lib(name: str, **settings: object) -> Craft:
    def craft(case: Case) -> torch.Tensor:
        threat = {} if name == "fab" else {"eps": case.eps}
        attack = getattr(adv_lib(), name)
        return attack(case.model, case.x, case.y, norm=ORDER[case.norm], **threat, **settings).detach()

    return craft


SQUEEZED = Suite("square, squeezed", "1", "Square, its schedule squeezed into the queries", (Square(horizon=QUERIES),))
ATTACKS: dict[str, dict[str, Craft]] = {
    "pgd": {
        "brinell": of_brinell("pgd"),
        "foolbox": pgd_of_foolbox,
        "art": of_art(evasion.ProjectedGradientDescent, eps_step=STEP_SIZE, max_iter=PGD_STEPS, num_random_init=1),
        "torchattacks": pgd_of_torchattacks,
        "adv-lib": pgd_of_adv_lib,
    },
    "apgd-ce": {
        "brinell": of_brinell("apgd-ce"),
        "art": of_art(
            evasion.AutoProjectedGradientDescent,
            eps_step=2.0, max_iter=APGD_STEPS, nb_random_init=1, loss_type="cross_entropy",
        ),
        "torchattacks": of_torchattacks(torchattacks.APGD, steps=APGD_STEPS, loss="ce"),
        "adv-lib": of_adv_lib("apgd", n_iter=APGD_STEPS, loss_function="ce"),
    },
    "apgd-t": {
        "brinell": of_brinell("apgd-t"),
        "torchattacks": of_torchattacks(torchattacks.APGDT, steps=APGD_STEPS),
        "adv-lib": of_adv_lib("apgd_targeted", n_iter=APGD_STEPS),
    },
    "fab-t": {
        "brinell": of_brinell("fab-t"),
        "torchattacks": of_torchattacks(torchattacks.FAB, steps=FAB_STEPS, multi_targeted=True),
        "adv-lib": of_adv_lib("fab", n_iter=FAB_STEPS, targeted_restarts=True),
    },
    "fab": {
        "brinell": of_brinell("fab"),
        "torchattacks": of_torchattacks(torchattacks.FAB, steps=FAB_STEPS),
        "adv-lib": of_adv_lib("fab", n_iter=FAB_STEPS),
    },
    "square": {
        "brinell": of_brinell("square"),
        "torchattacks": of_torchattacks(torchattacks.Square, n_queries=QUERIES, resc_schedule=False),
    },
    "square, squeezed": {
        "brinell": of_brinell(SQUEEZED),
        "art": of_art(evasion.SquareAttack, max_iter=QUERIES, nb_restarts=1),
        "torchattacks": of_torchattacks(torchattacks.Square, n_queries=QUERIES),
    },
}  # fmt: skip


def judged(case: Case, points: torch.Tensor) -> tuple[int, int]:
    """How many rows stand, and how many points lie outside ball or box."""
    distance = (points.double() - case.x.double()).flatten(1).norm(ORDER[case.norm], dim=1)
    in_box = ((points >= 0) & (points <= 1)).flatten(1).all(1)
    inside = in_box & (distance <= case.eps * (1 + SLACK))
    with torch.no_grad():
        errs, erred = (case.model.model(tried).argmax(1) != case.y for tried in (points, case.x))
    return int((~erred & ~(inside & errs)).sum()), int((~inside).sum())


def compare(attack: str, norm: str, net: nn.Module, x: torch.Tensor, y: torch.Tensor, seeds: int) -> None:
    """One line of the table for each library that has the attack: standing and outside by seed, the rest on average."""
    for library, craft in ATTACKS[attack].items():
        if (attack, library, norm) == ("pgd", "adv-lib", "l2"):
            continue  # it has none
        verdicts, forwards, backwards, seconds = [], 0, 0, 0.0
        for seed in range(seeds):
            random.seed(seed), np.random.seed(seed), torch.manual_seed(seed)
            case = Case(Counted(net).eval(), x, y, norm, EPS[norm], seed)
            start = time.process_time()
            points = craft(case)
            seconds += time.process_time() - start
            forwards, backwards = forwards + case.model.forwards, backwards + case.model.backwards
            verdicts.append(judged(case, points))
        standing, outside = (" ".join(map(str, found)) for found in zip(*verdicts, strict=True))
        print(
            f"| {attack} | {norm} {EPS[norm]:g} | {library} | {standing} | {outside} | {forwards / seeds:,.0f} | "
            f"{backwards / seeds:,.0f} | {seconds / seeds:.1f} |",
            flush=True,
        )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--attacks", nargs="+", choices=ATTACKS, default=list(ATTACKS))
    options.add_argument("--norms", nargs="+", choices=EPS, default=list(EPS))
    options.add_argument("--model", default="fmnist-at")
    options.add_argument("--rows", type=int, default=200)
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--threads", type=int, default=1)
    given = options.parse_args()
    assert torch.__version__ == TORCH, "an installation replaced torch"
    warnings.simplefilter("ignore")
    torch.set_num_threads(given.threads)
    net = zoo.load_model(given.model)
    x, y = (torch.from_numpy(part[: given.rows]) for part in zoo.load_rows())
    with torch.no_grad():
        right = int((net(x).argmax(1) == y).sum())
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES)
    print(f"{given.model}, {len(x)} rows, {right} right before; torch {torch.__version__}, {versions}.\n")
    print(f"| attack | threat | library | rows standing of {len(x)} | outside | forwards | backwards | CPU seconds |")
    print("|---|---|---|--:|--:|--:|--:|--:|")
    for attack in given.attacks:
        for norm in given.norms:
            compare(attack, norm, net, x, y, given.seeds if attack in QUICK else 1)
    print(f"\n{NOTES}")


if __name__ == "__main__":
    main()
