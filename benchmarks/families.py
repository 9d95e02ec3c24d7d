"""On the exactly solvable families: distance of every attack's verdict from the truth.

    pip install scikit-learn pyautoattack
    python benchmarks/families.py [--families linear "target trap"] [--norms linf l2 l1] [--rows 200] [--alone]

Each family classifies the 8 × 8 digits that come with scikit-learn, and its worst margin over ball and box is known
exactly for every row: from a closed form, or because a wrapper changes a model's scores or gradients and never its
decision. A cell is the number of rows that stand less the number that are robust in truth: 0 is exact, more is too kind
to the model. A robust row that falls ends the command with status 1; rows that the reference's points break against the
truth are shown as ``(-n)``. No row is held against anyone whose worst margin is within ``TOLERANCE`` of 0.
"""

import argparse
import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from pyautoattack import AutoAttack
from sklearn.datasets import load_digits
from torch import Tensor, nn

import brinell
from brinell.defences.affine import HIGH, LOW, Affine
from brinell.defences.codes import Quantised, Sawtooth, coded_worst
from brinell.defences.defence import TOLERANCE
from brinell.defences.scores import Change, Rescored, gain_trap, gradient_times, plus, sine_gain, softmax_of, times
from brinell.geometry import NORMS, Norm
from brinell.models.outputs import Outputs
from brinell.suites.suite import Suite, load_suite, suite_from

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from models_with_known_radius import Linear, worst_margin

TRAINING_ROWS = 1200
TRAP_SLOPE, TRAP_BIAS = 80.0, -14.0
COLUMNS = ("pgd", "apgd-ce", "apgd-dlr", "apgd-t", "fab-t", "fab", "square", "autoattack", "a3", "brinell")

Worst = Callable[[Tensor, Tensor, Norm, float], Tensor]
"""Takes inputs, labels, norm and eps; gives the exact worst margin of each row."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """A model and what is known of it."""

    name: str
    model: nn.Module
    worst: Worst
    eps: dict[Norm, float]
    """A radius in each norm in which the truth is known; 30 to 70 % of the rows are robust."""
    outputs: Outputs = "logits"
    classes: int = 10
    """A row's label is its digit modulo this."""


def linear_worst(model: Linear) -> Worst:
    """Of a linear model: the least over the rivals."""
    return lambda x, y, norm, eps: worst_margin(model, x, y, norm, eps, (LOW, HIGH))


def mapped_worst(seen: Quantised | Sawtooth, linear: Linear) -> Worst:
    """Of a linear model behind a map of each coordinate, in Linf, where the coordinates are independent."""
    exact = coded_worst(seen, Affine(linear.weight.detach(), linear.bias.detach()))
    return lambda x, y, norm, eps: exact(x, y, eps).most


def fitted(x: Tensor, y: Tensor) -> Linear:
    """A linear model trained on all rows at once by L-BFGS with weight decay."""
    classes = int(y.max()) + 1
    model = Linear(torch.zeros(classes, x.shape[1]), torch.zeros(classes))
    solver = torch.optim.LBFGS(model.parameters(), max_iter=300, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        solver.zero_grad()
        decay = sum(parameter.square().sum() for parameter in model.parameters())
        value = nn.functional.cross_entropy(model(x), y) + 1e-4 * decay
        value.backward()
        return value

    solver.step(loss)
    return model.eval()


def trapped(base: Linear) -> Linear:
    """Twenty more classes that score below all digits; one rises steeply along pixels that are 0 in every digit."""
    weight, bias = base.weight.detach(), base.bias.detach()
    more = torch.zeros(20, weight.shape[1])
    more[7, (weight == 0).all(0)] = TRAP_SLOPE
    return Linear(torch.cat([weight, more]), torch.cat([bias, torch.full((20,), TRAP_BIAS)])).eval()


def families(x: Tensor, y: Tensor) -> list[Family]:
    """All of them, trained on these rows."""
    base, parity = fitted(x, y), fitted(x, y % 2)
    trap, truth = trapped(base), linear_worst(base)
    eps: dict[Norm, float] = {"linf": 0.1, "l2": 0.5, "l1": 1.25}
    narrower: dict[Norm, float] = {"linf": 0.07, "l2": 0.35, "l1": 0.9}
    narrowest: dict[Norm, float] = {"linf": 0.08, "l2": 0.16, "l1": 0.28}

    def rescored(name: str, change: Change, outputs: Outputs = "logits") -> Family:
        return Family(name=name, model=Rescored(base, change).eval(), worst=truth, eps=eps, outputs=outputs)

    def through(name: str, seen: Quantised | Sawtooth, radius: float) -> Family:
        linear = fitted(seen(x), y)
        model = nn.Sequential(seen, linear).eval()
        return Family(name=name, model=model, worst=mapped_worst(seen, linear), eps={"linf": radius})

    return [
        Family(name="linear", model=base, worst=truth, eps=eps),
        Family(name="odd or even", model=parity, worst=linear_worst(parity), eps=narrower, classes=2),
        rescored("logits × 1e3", times(1e3)),
        rescored("logits / 1e6", times(1e-6)),
        rescored("logits + 1e4", plus(1e4)),
        rescored("softmax", softmax_of(1), "probabilities"),
        rescored("sine gain", sine_gain),
        rescored("gain trap", gain_trap),
        rescored("no gradient", gradient_times(0.0)),
        rescored("negated gradient", gradient_times(-1.0)),
        through("16 levels", Quantised(16), 0.09),
        through("8 levels", Quantised(8), 0.09),
        through("sawtooth 0.03", Sawtooth(0.03), 0.1),
        through("sawtooth 0.06", Sawtooth(0.06), 0.1),
        Family(name="target trap", model=trap, worst=linear_worst(trap), eps=narrowest, classes=30),
    ]


def suite_for(column: str, norm: Norm) -> Suite:
    """The suite of a column; in L1, APGD is another attack."""
    if norm == "l1" and column.startswith("apgd"):
        loss = {"apgd-ce": "ce", "apgd-dlr": "dlr", "apgd-t": "targeted-dlr"}[column]
        return suite_from({"name": column, "version": "1", "attacks": [{"attack": "apgd-l1", "loss": loss}]}, column)
    return load_suite(column)


def ours(family: Family, x: Tensor, y: Tensor, norm: Norm, eps: float, column: str) -> tuple[Tensor, list[str]]:
    """Which rows stand, and what the checks before the attack noted."""
    result = brinell.evaluate(
        family.model, x, y, threat=brinell.Threat(norm, eps), suite=suite_for(column, norm), outputs=family.outputs,
        batch_size=len(x),
    )  # fmt: skip
    statuses = [record.status for record in result.rows]
    assert set(statuses) <= {"standing", "broken", "misclassified"}, f"{family.name}, {norm}, {column}: {statuses}"
    return torch.tensor([status == "standing" for status in statuses]), result.reading.manifest.notes


def reference(family: Family, x: Tensor, y: Tensor, norm: Norm, eps: float) -> Tensor:
    """Which rows stand after the reference's standard version, by one more pass over its points."""
    suite = AutoAttack(family.model, eps=eps, norm=norm.capitalize(), seed=0, version="standard")
    x_adv, _ = suite.run_standard_evaluation(x, y, batch_size=len(x))
    with torch.no_grad():
        return family.model(x_adv).argmax(1) == y


def report(family: Family, x: Tensor, y: Tensor, norm: Norm, given: argparse.Namespace) -> list[str]:
    """Print one line of the table; return a sentence for each robust row that fell."""
    eps, faults, notes = family.eps[norm], [], set()
    worst = family.worst(x, y, norm, eps)
    robust = int((worst > 0).sum())
    cells = [family.name, f"{norm} {eps:g}", str(robust)]
    for column in given.attacks:
        standing, noted = ours(family, x, y, norm, eps, column)
        notes.update(noted)
        cells.append(str(int(standing.sum()) - robust))
        for row in (~standing & (worst > TOLERANCE)).nonzero().flatten().tolist():
            faults.append(f"{family.name}, {norm} {eps:g}, {column}: row {row}, worst margin {worst[row]:g}")
    if not given.alone:
        try:
            standing = reference(family, x, y, norm, eps)
        except Exception as error:  # another's code may raise anything
            cells.append(type(error).__name__)
        else:
            beyond = int((~standing & (worst > TOLERANCE)).sum())
            cells.append(f"{int(standing.sum()) - robust}" + (f" (-{beyond})" if beyond else ""))
    print(f"| {' | '.join(cells)} |", flush=True)
    for note in sorted(notes):
        print(f"{family.name}, {norm}: {note}", file=sys.stderr)
    return faults


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--families", nargs="*", help="by name; all where not given")
    options.add_argument("--norms", nargs="*", choices=NORMS, default=NORMS)
    options.add_argument("--attacks", nargs="*", choices=COLUMNS, default=COLUMNS)
    options.add_argument("--rows", type=int, default=200)
    options.add_argument("--alone", action="store_true", help="without the reference")
    given = options.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("auto-attack").setLevel(logging.ERROR)
    digits, faults = load_digits(), []
    order = torch.randperm(len(digits.data), generator=torch.Generator().manual_seed(0))
    x = (torch.from_numpy(digits.data)[order] / 16).float()
    y = torch.from_numpy(digits.target)[order].long()
    rows = slice(TRAINING_ROWS, TRAINING_ROWS + given.rows)
    columns = [*given.attacks, *([] if given.alone else ["reference"])]
    print(f"| family | threat | truth | {' | '.join(columns)} |\n|---|---|--:|{'--:|' * len(columns)}")
    for family in families(x[:TRAINING_ROWS], y[:TRAINING_ROWS]):
        for norm in family.eps:
            if norm in given.norms and family.name in (given.families or [family.name]):
                faults += report(family, x[rows].view(-1, 1, 8, 8), y[rows] % family.classes, norm, given)
    print(f"\n{len(x[rows])} rows, CPU seconds {time.process_time():.0f}.")
    if faults:
        sys.exit("\n".join(["Robust rows fell:", *faults]))


if __name__ == "__main__":
    main()
