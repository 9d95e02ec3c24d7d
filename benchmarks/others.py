"""Each attack beside the same attack of other libraries, on the same rows of the same model.

    pip install foolbox==3.3.4 adversarial-robustness-toolbox==1.20.1 multiprocess packaging
    pip install --no-deps torchattacks==3.5.1 adv-lib==0.2.8
    python benchmarks/others.py [--attacks pgd apgd-ce] [--norms linf l2] [--rows 200] [--seeds 3]

The last two are installed without their dependencies, which would replace torch by another build; what adv-lib imports
and these attacks never use is faked. Passes are counted by a wrapper around the model for every contender. What one
returns is clipped to nothing and judged alike: a row is broken if its point lies in the box and within
``eps (1 + 1e-5)``, in float64, and the model errs on it; a row that the model errs on untouched stands for nobody.
Brinell returns its witnesses, and the clean input where it has none; its passes hold the checks before the attack and
the referee. Seconds are CPU time of one process on one thread.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from types import ModuleType
from unittest.mock import MagicMock

import foolbox
import torch
import torchattacks
from art.attacks import EvasionAttack, evasion
from art.estimators.classification import PyTorchClassifier
from contest import BATCH, Case, Craft, brinells, judged, seeded
from counting import Counted
from torch import nn

from brinell import zoo
from brinell.attacks.square import Square
from brinell.suites.suite import Suite

MODEL = "fmnist-at"
EPS = {"linf": 0.1, "l2": 1.5}
TORCH = "2.13.0+cpu"
LIBRARIES = ("foolbox", "adversarial-robustness-toolbox", "torchattacks", "adv-lib")
QUICK = ("pgd", "apgd-ce")
"""Attacks that are repeated with ``--seeds`` seeds; the others run with seed 0 alone."""
NOTES = """\
- Standing and outside by seed; passes and seconds are means over the seeds.
- Brinell judges every point it asks for and lets a row go when it falls. Foolbox's, ART's and torchattacks' PGD return
  the last point alone; adv-lib's returns the last one seen to err, and never looks at the very last.
- Foolbox: `raw` is judged, not `clipped`. It has no APGD, FAB or Square.
- ART: APGD's step is an absolute 0.1 and it restarts five times unless told (2 eps, one start here); it asks twice a
  step and keeps a point only if the search's last one errs. Square asks three times a step, once for fallen rows too; in
  L2 it divides a window by the budget that the paper multiplies by (square_attack.py:465). It has no FAB or APGD-T.
- torchattacks: APGD, APGDT and FAB take 10 steps unless told (100 here). APGDT in L2 gives every row the first one's step
  size (apgdt.py:200). FAB is untargeted unless `multi_targeted`. Square squeezes its schedule into the queries unless
  `resc_schedule=False`; ART's always does, AutoAttack's and Brinell's do not.
- adv-lib: APGD climbs DLR unless told. APGD-T climbs the target over the highest other class, not over the true one, and
  takes a point only if it lands on the target. FAB knows no eps: for a row that stands it returns the nearest point it
  found, outside the ball. No row is let go within a search. It imports torchvision, visdom and distutils."""


def foolboxes_pgd(at: Case) -> torch.Tensor:
    kind = {"linf": foolbox.attacks.LinfPGD, "l2": foolbox.attacks.L2PGD}[at.norm]
    asked = foolbox.PyTorchModel(at.model, bounds=(0, 1), device="cpu")
    raw, _, _ = kind(rel_stepsize=0.1, steps=50, random_start=True)(asked, at.x, at.y, epsilons=at.eps)
    return raw


def arts(attack: Callable[[Case, PyTorchClassifier], EvasionAttack]) -> Craft:
    def craft(at: Case) -> torch.Tensor:
        shape, loss = tuple(at.x.shape[1:]), nn.CrossEntropyLoss()
        asked = PyTorchClassifier(at.model, loss=loss, input_shape=shape, nb_classes=10, clip_values=(0.0, 1.0))
        return torch.from_numpy(attack(at, asked).generate(at.x.numpy(), at.y.numpy()))

    return craft


def torchattackss_pgd(at: Case) -> torch.Tensor:
    kind = {"linf": torchattacks.PGD, "l2": torchattacks.PGDL2}[at.norm]
    return kind(at.model, eps=at.eps, alpha=0.1 * at.eps, steps=50)(at.x, at.y)


def adv_lib_attacks() -> ModuleType:
    fakes = {name: MagicMock() for name in ("torchvision", "visdom")}
    sys.modules.update(fakes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # distutils
        import adv_lib.attacks
    for name in fakes:
        del sys.modules[name]
    return adv_lib.attacks


ADV_LIB = adv_lib_attacks()
SQUEEZED = Suite(name="squeezed", version="1", summary="", attacks=(Square(queries=5000, horizon=5000),))
ATTACKS: dict[str, dict[str, Craft]] = {
    "pgd": {
        "brinell": brinells("pgd"),
        "foolbox": foolboxes_pgd,
        "art": arts(lambda at, asked: evasion.ProjectedGradientDescent(
            asked, at.order, at.eps, 0.1 * at.eps, max_iter=50, num_random_init=1, batch_size=BATCH, verbose=False)),
        "torchattacks": torchattackss_pgd,
        "adv-lib": lambda at: ADV_LIB.pgd_linf(at.model, at.x, at.y, at.eps, steps=50, relative_step_size=0.1),
    },
    "apgd-ce": {
        "brinell": brinells("apgd-ce"),
        "art": arts(lambda at, asked: evasion.AutoProjectedGradientDescent(
            asked, at.order, at.eps, 2 * at.eps, max_iter=100, nb_random_init=1, loss_type="cross_entropy",
            batch_size=BATCH, verbose=False)),
        "torchattacks": lambda at: torchattacks.APGD(at.model, at.title, at.eps, 100, seed=at.seed)(at.x, at.y),
        "adv-lib": lambda at: ADV_LIB.apgd(at.model, at.x, at.y, at.eps, at.order, n_iter=100, loss_function="ce"),
    },
    "apgd-t": {
        "brinell": brinells("apgd-t"),
        "torchattacks": lambda at: torchattacks.APGDT(at.model, at.title, at.eps, 100, seed=at.seed)(at.x, at.y),
        "adv-lib": lambda at: ADV_LIB.apgd_targeted(at.model, at.x, at.y, at.eps, at.order, n_iter=100),
    },
    "fab-t": {
        "brinell": brinells("fab-t"),
        "torchattacks": lambda at: torchattacks.FAB(
            at.model, at.title, at.eps, 100, seed=at.seed, multi_targeted=True)(at.x, at.y),
        "adv-lib": lambda at: ADV_LIB.fab(at.model, at.x, at.y, at.order, n_iter=100, targeted_restarts=True),
    },
    "fab": {
        "brinell": brinells("fab"),
        "torchattacks": lambda at: torchattacks.FAB(at.model, at.title, at.eps, 100, seed=at.seed)(at.x, at.y),
        "adv-lib": lambda at: ADV_LIB.fab(at.model, at.x, at.y, at.order, n_iter=100),
    },
    "square": {
        "brinell": brinells("square"),
        "torchattacks": lambda at: torchattacks.Square(
            at.model, at.title, at.eps, 5000, seed=at.seed, resc_schedule=False)(at.x, at.y),
    },
    "square, squeezed": {
        "brinell": brinells(SQUEEZED),
        "art": arts(lambda at, asked: evasion.SquareAttack(
            asked, norm=at.order, eps=at.eps, max_iter=5000, nb_restarts=1, batch_size=BATCH, verbose=False)),
        "torchattacks": lambda at: torchattacks.Square(at.model, at.title, at.eps, 5000, seed=at.seed)(at.x, at.y),
    },
}  # fmt: skip


def compare(attack: str, norm: str, net: nn.Module, x: torch.Tensor, y: torch.Tensor, seeds: int) -> None:
    """A line of the table for each library that has the attack."""
    for library, craft in ATTACKS[attack].items():
        if (attack, norm, library) == ("pgd", "l2", "adv-lib"):
            continue  # it has none
        verdicts, forwards, backwards, seconds = [], 0, 0, 0.0
        for seed in range(seeds):
            seeded(seed)
            case = Case(Counted(net).eval(), x, y, norm, EPS[norm], seed)
            start = time.process_time()
            points = craft(case)
            seconds += time.process_time() - start
            forwards, backwards = forwards + case.model.forwards, backwards + case.model.backwards
            left, astray = judged(case, points.detach())
            verdicts.append((len(left), astray))
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
    options.add_argument("--rows", type=int, default=200)
    options.add_argument("--seeds", type=int, default=3)
    given = options.parse_args()
    assert torch.__version__ == TORCH, f"torch is {torch.__version__}: an installation replaced {TORCH}"
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    net = zoo.load_model(MODEL)
    x, y = (torch.from_numpy(part[: given.rows]) for part in zoo.load_rows())
    with torch.no_grad():
        right = int((net(x).argmax(1) == y).sum())
    versions = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    print(f"{MODEL}, {len(x)} rows, {right} right before any attack; torch {torch.__version__}, {versions}.\n")
    print(f"| attack | threat | library | rows standing of {len(x)} | outside | forwards | backwards | CPU seconds |")
    print("|---|---|---|--:|--:|--:|--:|--:|")
    for attack in given.attacks:
        for norm in given.norms:
            compare(attack, norm, net, x, y, given.seeds if attack in QUICK else 1)
    print(f"\n{NOTES}")


if __name__ == "__main__":
    main()
