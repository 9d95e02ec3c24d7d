"""Results of five libraries, saved as their users save them, carefully and carelessly, and imported.

    pip install foolbox==3.3.4 adversarial-robustness-toolbox==1.20.1 pyautoattack==0.2.0 packaging multiprocess
    pip install --no-deps torchattacks==3.5.1 adv-lib==0.2.8
    python benchmarks/imports.py [--rows 200] [--only foolbox art]

Every case attacks the built-in model `fmnist-at`, writes the files that a user of that library would, and runs
`brinell import` on them. "Theirs" is the number that the library, or its usual two lines, gives: the robust accuracy
unless the case says otherwise; "recomputed" is what the points of the file give by that rule. "Ours" is the same figure
of the imported run. A finding is named where it is raised.
torchvision and visdom, which adv-lib imports and these attacks never use, are faked.
"""

import argparse
import contextlib
import io
import json
import logging
import random
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from unittest.mock import MagicMock

import foolbox
import numpy as np
import pyautoattack
import torch
import torchattacks
from art.attacks import evasion
from art.estimators.classification import PyTorchClassifier
from art.metrics import empirical_robustness
from safetensors.torch import save_file
from torch.utils.data import DataLoader, TensorDataset

from brinell import zoo
from brinell.cli import main as brinell

MODEL = "fmnist-at"
EPS, WRONG_EPS = 0.1, 0.15
LIBRARIES = ("foolbox", "adversarial-robustness-toolbox", "pyautoattack", "torchattacks", "adv-lib")


@dataclass(frozen=True)
class Case:
    """One file, and the number that goes with it."""

    title: str
    tool: str
    files: tuple[Path, ...]
    theirs: float
    figure: str = "robust_accuracy"
    """Which figure of the run stands beside it."""
    options: tuple[str, ...] = ()
    eps: str = str(EPS)


@dataclass(frozen=True)
class Bench:
    """What the libraries get."""

    model: torch.nn.Module
    x: torch.Tensor
    y: torch.Tensor
    folder: Path

    @property
    def data(self) -> tuple[str, ...]:
        return ("--data", "builtin:fmnist", "--rows", f"0:{len(self.x)}")

    def npz(self, name: str, **arrays: object) -> tuple[Path, ...]:
        path = self.folder / f"{name}.npz"
        np.savez(path, **{key: np.asarray(value) for key, value in arrays.items()})
        return (path,)

    def pt(self, name: str, held: object) -> tuple[Path, ...]:
        torch.save(held, self.folder / f"{name}.pt")
        return (self.folder / f"{name}.pt",)

    def predicted(self, points: object) -> np.ndarray:
        with torch.no_grad():
            return self.model(torch.as_tensor(points)).argmax(1).numpy()

    def accuracy(self, points: object) -> float:
        return float((self.predicted(points) == self.y.numpy()).mean())


def of_foolbox(at: Bench) -> Iterator[Case]:
    asked = foolbox.PyTorchModel(at.model, bounds=(0, 1), device="cpu")
    pgd = foolbox.attacks.LinfPGD(rel_stepsize=0.1, steps=50)
    raw, clipped, success = pgd(asked, at.x, at.y, epsilons=[EPS / 2, EPS, WRONG_EPS])
    stacked = {"raw": np.stack(raw), "clipped": np.stack(clipped), "success": success}
    robust = 1 - success.float().mean(dim=1)
    files = at.npz("foolbox", x=at.x, y=at.y, epsilons=[EPS / 2, EPS, WRONG_EPS], **stacked)
    yield Case("PGD at three eps, one chosen", "foolbox", files, float(robust[1]))
    rate = float(success[1].float().mean())
    yield Case("the same: success rate", "foolbox", files, rate, figure="attack_success_rate")
    files = at.npz("foolbox-eps", x=at.x, y=at.y, clipped=clipped[2], raw=raw[2], success=success[2])
    yield Case(f"made at eps {WRONG_EPS}, imported at {EPS}", "foolbox", files, float(robust[2]))
    raw, clipped, success = pgd(asked, at.x, at.y, epsilons=8 / 255)
    files = at.npz("foolbox-8", x=at.x, y=at.y, clipped=clipped, success=success, epsilons=8 / 255)
    yield Case("PGD at 8/255", "foolbox", files, 1 - float(success.float().mean()), eps="8/255")
    deep = foolbox.attacks.LinfDeepFoolAttack(steps=50)
    raw, clipped, success = deep(asked, at.x, at.y, epsilons=EPS)
    robust_deep = 1 - float(success.float().mean())
    files = at.npz("foolbox-clipped", x=at.x, y=at.y, raw=raw, clipped=clipped, success=success, epsilons=EPS)
    yield Case("DeepFool, clipped", "foolbox", files, robust_deep)
    files = at.npz("foolbox-raw", x=at.x, y=at.y, raw=raw, success=success, epsilons=EPS)
    yield Case("DeepFool, raw saved in place of clipped", "foolbox", files, at.accuracy(raw))


def of_art(at: Bench) -> Iterator[Case]:
    loss, shape = torch.nn.CrossEntropyLoss(), tuple(at.x.shape[1:])
    asked = PyTorchClassifier(at.model, loss=loss, input_shape=shape, nb_classes=10, clip_values=(0.0, 1.0))
    x, y = at.x.numpy(), at.y.numpy()

    def pgd() -> evasion.ProjectedGradientDescentPyTorch:
        return evasion.ProjectedGradientDescentPyTorch(asked, np.inf, EPS, EPS / 10, max_iter=50, verbose=False)

    x_adv = pgd().generate(x, y)
    yield Case("PGD, true labels", "art", at.npz("art", x=x, x_adv=x_adv, y=y), at.accuracy(x_adv))
    yield Case("labels one-hot", "art", at.npz("art-hot", x=x, x_adv=x_adv, y=np.eye(10)[y]), at.accuracy(x_adv))
    unlabelled, own = pgd().generate(x), at.predicted(x)
    kept = float((at.predicted(unlabelled) == own).mean())
    files = at.npz("art-own", x=x, x_adv=unlabelled, y=own)
    yield Case("`y=None`, own predictions for labels", "art", files, kept, options=at.data)
    pixels = np.round(x_adv * 255).astype(np.uint8)
    files = at.npz("art-png", x_adv=pixels)
    yield Case(
        "through PNG (uint8)", "art", files, at.accuracy(pixels / np.float32(255)), options=(*at.data, "--scale", "255")
    )
    right = np.random.default_rng(0).permutation(np.flatnonzero(own == y))
    files = at.npz("art-right", x=x[right], x_adv=x_adv[right], y=y[right])
    dropped = float((at.predicted(x_adv[right]) == y[right]).mean())
    yield Case("only rows right before, shuffled", "art", files, dropped, options=at.data)
    told = float(empirical_robustness(asked, x, "fgsm", {"eps": EPS, "eps_step": 0.01}))
    least = evasion.FastGradientMethod(asked, eps=EPS, eps_step=0.01, minimal=True).generate(x)
    files = at.npz("art-empirical", x=x, x_adv=least, y=y, empirical_robustness=told)
    yield Case("empirical_robustness by FGSM (relative)", "art", files, told, figure="relative_mean")


def of_autoattack(at: Bench) -> Iterator[Case]:
    attack = pyautoattack.AutoAttack(
        at.model, eps=EPS, norm="Linf", seed=0, version="custom", attacks=["apgd-ce", "apgd-t"]
    )
    x_adv, y_adv = attack.run_standard_evaluation(at.x, at.y, batch_size=250)
    files = at.pt("autoattack", {"adv_complete": x_adv})
    yield Case("APGD-CE and APGD-T, points alone", "autoattack", files, at.accuracy(x_adv), options=at.data)
    files = at.pt("autoattack-labels", {"adv_complete": x_adv, "y_adv": y_adv, "x": at.x, "y": at.y})
    yield Case("the same with predictions", "autoattack", files, at.accuracy(x_adv))


def of_torchattacks(at: Bench) -> Iterator[Case]:
    attack = torchattacks.PGD(at.model, eps=EPS, alpha=EPS / 10, steps=50)
    loader = DataLoader(TensorDataset(at.x, at.y), batch_size=100)
    for kind, scale in (("float", ()), ("int", ("--scale", "255"))):
        path = at.folder / f"torchattacks-{kind}.pt"
        how = {"save_predictions": True, "save_clean_inputs": True, "save_type": kind, "return_verbose": True}
        robust, l2, _ = attack.save(loader, save_path=path, verbose=False, **how)
        torch.save({**torch.load(path, weights_only=True), "rob_acc": robust, "l2": l2}, path)
        title = "PGD, `save`" if kind == "float" else 'PGD, `save(save_type="int")`'
        yield Case(title, "torchattacks", (path,), robust / 100, options=(*at.data, *scale))
        if kind == "float":
            yield Case("the same: mean distance", "torchattacks", (path,), l2, figure="mean", options=at.data)


def of_adv_lib(at: Bench) -> Iterator[Case]:
    for name in ("torchvision", "visdom"):
        sys.modules[name] = MagicMock()
    import adv_lib.attacks

    for name in ("torchvision", "visdom"):
        del sys.modules[name]
    x_adv = adv_lib.attacks.apgd(at.model, at.x, at.y, EPS, float("inf"), n_iter=100, loss_function="ce")
    path = at.folder / "adv-lib.safetensors"
    save_file({"x": at.x, "y": at.y, "x_adv": x_adv.contiguous()}, path)
    yield Case("adv-lib: APGD-CE", "arrays", (path,), at.accuracy(x_adv))
    minimal = adv_lib.attacks.fab(at.model, at.x, at.y, float("inf"), n_iter=50)
    path = at.folder / "adv-lib-fab.safetensors"
    save_file({"x": at.x, "y": at.y, "x_adv": minimal.contiguous()}, path)
    yield Case("adv-lib: FAB, which knows no eps", "arrays", (path,), at.accuracy(minimal))


TOOLS: dict[str, Callable[[Bench], Iterator[Case]]] = {
    "foolbox": of_foolbox,
    "art": of_art,
    "autoattack": of_autoattack,
    "torchattacks": of_torchattacks,
    "adv-lib": of_adv_lib,
}


def imported(case: Case, folder: Path) -> dict[str, object]:
    """What `brinell import --json` prints of a case; the run is verified too."""
    what = [
        "import",
        case.tool,
        *map(str, case.files),
        "--model",
        f"builtin:{MODEL}",
        "--norm",
        "linf",
        "--eps",
        case.eps,
    ]
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = brinell([*what, *case.options, "--out", str(folder), "--json", "--quiet", "--batch-size", "200"])
    assert code == 0, f"{case.title}: exit code {code}"
    with contextlib.redirect_stdout(io.StringIO()):
        assert brinell(["verify", str(folder)]) == 0, f"{case.title} does not verify"
    return json.loads(said.getvalue())


RECOUNTS = {
    "robust_accuracy": "robust accuracy",
    "attack_success_rate": "success rate",
    "relative_mean": "empirical robustness",
    "mean": "mean distance",
}


def line_of(case: Case, result: dict[str, object]) -> str:
    if case.figure in ("mean", "relative_mean"):
        ours = f"{result['perturbation'][case.figure]:.4g} over {result['perturbation']['count']} rows"
    else:
        figure = result[case.figure]
        ours = f"{figure['count']}/{figure['of']} = {figure['value']:.1%}"
    theirs = f"{case.theirs:.1%}" if case.figure in ("robust_accuracy", "attack_success_rate") else f"{case.theirs:.4g}"
    again = next(
        line["by_their_rule"] for line in result["imported"]["recounts"] if line["figure"] == RECOUNTS[case.figure]
    )
    recomputed = f"{again:.1%}" if "%" in theirs else f"{again:.4g}"
    raised = [f"{f['check']}: {f['detail']}" for f in result["imported"]["findings"] if f["holds"] is False]
    return f"| {case.tool} | {case.title} | {theirs} | {recomputed} | {ours} | {'; '.join(raised) or 'none'} |"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=200)
    options.add_argument("--only", nargs="+", choices=TOOLS, default=list(TOOLS))
    given = options.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    model = zoo.load_model(MODEL)
    x, y = (torch.from_numpy(part[: given.rows]) for part in zoo.load_rows())
    with tempfile.TemporaryDirectory() as folder:
        at = Bench(model, x, y, Path(folder))
        versions = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
        right = int((at.predicted(x) == y.numpy()).sum())
        print(f"{MODEL}, {len(x)} rows, {right} right before any attack; torch {torch.__version__}, {versions}.\n")
        print("| imported as | case | theirs | recomputed | ours | findings raised |\n|---|---|--:|--:|--:|---|")
        for tool in given.only:
            random.seed(0), np.random.seed(0), torch.manual_seed(0)
            for number, case in enumerate(TOOLS[tool](at)):
                print(line_of(case, imported(case, at.folder / f"{tool}-{number}")), flush=True)


if __name__ == "__main__":
    main()
