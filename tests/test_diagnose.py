"""Checks that find what they should, and leave sound runs alone."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import brinell
import small_net
import small_runs
from brinell.cli import main
from brinell.diagnose.checks import CHECKS
from brinell.diagnose.diagnosis import Diagnosis, explained, outcome_of
from brinell.errors import BadInput
from brinell.evaluation import Result
from brinell.handed import subject_of
from brinell.planted import planted_examples
from brinell.records import AttemptRecord
from brinell.report.markdown import markdown_report
from brinell.result import Reading
from brinell.spec import Spec
from brinell.suites.suite import Suite, suite_from

EPS = 0.06


class Backward(torch.autograd.Function):
    """The input, with a gradient of its own making."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.change = change
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.change(grad), None


class Wrapped(nn.Module):
    """The small net with its input or its logits changed."""

    def __init__(
        self, before: Callable[[Tensor], Tensor] | None = None, after: Callable[[Tensor], Tensor] | None = None
    ):
        super().__init__()
        self.net, self.before, self.after = small_net.load(), before, after
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        z = self.net(x if self.before is None else self.before(x))
        return z if self.after is None else self.after(z)


def through(change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda x: Backward.apply(x, change)


def sine_gain(z: Tensor) -> Tensor:
    """A positive gain that oscillates with the scores: no decision changes."""
    return (z - z.mean(1, keepdim=True)) * (1 + 0.95 * torch.sin(100 * z[:, :1]))


def rounded(z: Tensor) -> Tensor:
    """Scores on a grid of halves, the top one a hair above."""
    return (z * 2).round() / 2 + 1e-3 * nn.functional.one_hot(z.argmax(1), z.shape[1])


QUICK = suite_from(
    {
        "name": "quick",
        "version": "1",
        "attacks": [
            {"attack": "pgd", "loss": "margin", "steps": 20, "restarts": 2},
            {"attack": "pgd", "loss": "dlr", "steps": 20, "restarts": 2},
            {"attack": "square", "queries": 200},
        ],
    },
    "tests",
)


def evaluated(model: nn.Module, **options: Any) -> Result:
    x, y = small_net.rows()
    return brinell.evaluate(model, x, y, threat=brinell.Threat("linf", EPS), **options)


def raised(reading: Reading) -> set[str]:
    return {diagnosis.check for diagnosis in reading.diagnoses if diagnosis.raised}


MASKS: list[tuple[str, nn.Module, str]] = [
    ("zero", Wrapped(through(torch.zeros_like)), "wrong-gradients"),
    ("negated", Wrapped(through(torch.neg)), "wrong-gradients"),
    ("a hundredth", Wrapped(through(lambda grad: grad / 100)), "wrong-gradients"),
    ("rounded scores", Wrapped(after=rounded), "misleading-gradients"),
    ("eight levels", Wrapped(lambda x: (x * 7).round() / 7), "wrong-gradients"),
    ("sine gain", Wrapped(after=sine_gain), "wrong-gradients"),
]


@pytest.mark.parametrize(("model", "check"), [mask[1:] for mask in MASKS], ids=[mask[0] for mask in MASKS])
def test_what_hides_gradients_is_found(model: nn.Module, check: str) -> None:
    """Before any attack, whatever the suite, and in the claim."""
    result = evaluated(model, suite="fgsm")
    assert check in raised(result.reading)
    assert "suspect: " in result.claim
    assert check in result.claim


@pytest.mark.parametrize(
    "model",
    [
        small_net.load(),
        Wrapped(after=lambda z: z * 10),
        Wrapped(after=lambda z: z / 1e4),
        Wrapped(after=lambda z: z + 100),
    ],
    ids=["plain", "times 10", "over 10,000", "plus 100"],
)
def test_sound_models_are_left_alone(model: nn.Module) -> None:
    reading = evaluated(model, suite=QUICK).reading
    assert outcome_of(reading.diagnoses) == "not contradicted", raised(reading)


def test_weak_suites_are_named() -> None:
    for suite in ("fgsm", "pgd", small_runs.SMALL):
        assert "weak-suite" in raised(evaluated(small_net.load(), suite=suite).reading)
    assert "weak-suite" not in raised(evaluated(small_net.load(), suite=QUICK).reading)


def test_a_budget_that_ends_the_attacks_is_named() -> None:
    assert "still-breaking" in raised(evaluated(small_net.load(), suite="brinell", budget="3k").reading)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Reading:
    return small_runs.small_result(tmp_path_factory.mktemp("sound") / "run").reading


def with_manifest(reading: Reading, **changes: Any) -> Reading:
    return replace(reading, manifest=reading.manifest.model_copy(update=changes))


def declaring(reading: Reading, **declared: Any) -> Reading:
    table = {"model": "net.py:load", "data": "rows.npz", "threat": {"norm": "linf", "eps": EPS}, "declared": declared}
    return with_manifest(reading, spec=Spec.model_validate(table))


def test_declared_accuracy_that_is_not_met_makes_the_figure_invalid(sound: Reading) -> None:
    """90 % of 60 rows are right; 0.5 lies outside the 99 % interval, 0.95 within."""
    assert sound.figures.clean_accuracy.count == 54
    off = declaring(sound, clean_accuracy=0.5)
    assert outcome_of(off.diagnoses) == "invalid"
    assert off.claim.line().startswith("no robust accuracy: refused, for clean-accuracy-as-declared")
    assert str(off.figures.robust_accuracy) not in off.claim.line()
    assert "refused: clean-accuracy-as-declared: declared 50.0 %" in markdown_report(off)
    assert sound.refused is None
    assert "clean-accuracy-as-declared" not in raised(declaring(sound, clean_accuracy=0.95))


def test_training_attack(sound: Reading, tmp_path: Path) -> None:
    """Two kinds of attacks were run."""
    assert "attacked-as-trained" not in raised(declaring(sound, training_attack="PGD-10"))
    alone = small_runs.small_result(tmp_path / "run", suite="pgd").reading
    assert "attacked-as-trained" in raised(declaring(alone, training_attack="PGD-10"))
    assert "attacked-as-trained" not in raised(declaring(alone, training_attack="TRADES"))


def test_targets_beyond_those_tried(sound: Reading) -> None:
    """The suite aims at 2 classes: one of ten rows further out is a tenth, two are more."""
    assert "few-targets" not in raised(with_manifest(sound, target_ranks=[1] * 9 + [3]))
    assert "few-targets" in raised(with_manifest(sound, target_ranks=[1] * 8 + [3, 3]))


def test_incomplete_runs_are_invalid(sound: Reading) -> None:
    pending = replace(sound, rows=(replace(sound.rows[1], status="pending"), *sound.rows[2:]))
    assert outcome_of(pending.diagnoses) == "invalid"


def test_errors_and_refused_witnesses(sound: Reading) -> None:
    failed = replace(sound.rows[1], status="error", reason="not finite")
    assert "errors-in-rows" in raised(replace(sound, rows=(failed, *sound.rows[2:])))
    refused = replace(sound.rows[1], unconfirmed=2)
    assert "witnesses-refused" in raised(replace(sound, rows=(refused, *sound.rows[2:])))
    assert "witnesses-refused" not in raised(replace(sound, rows=(replace(refused, unconfirmed=1), *sound.rows[2:])))


class Cheap(nn.Module):
    """Linear in four inputs, 30 classes. Class 29 has the lowest logit and is reached through an input that is always 0."""

    def forward(self, x: Tensor) -> Tensor:
        z = torch.stack([1.0 - 0.01 * k + 0.001 * (k + 1) * x[:, 0] for k in range(29)], dim=1)
        z[:, 0] = z[:, 0] + 5
        return torch.cat([z, (-1 + 100 * x[:, 3:4])], dim=1)


def test_the_nearest_of_many_classes_is_looked_for() -> None:
    """From 6 to -1 over a slope of 100; the others are 5 and more away over slopes below 1."""
    x = torch.zeros(20, 4)
    x[:, 0] = torch.linspace(0, 1, 20)
    result = brinell.evaluate(
        Cheap().eval(), x, torch.zeros(20, dtype=torch.long), threat=brinell.Threat("linf", 0.01), suite="apgd-t"
    )
    assert set(result.reading.manifest.target_ranks) == {29}
    assert "few-targets" in raised(result.reading)


def planted(model: nn.Module, suite: str | Suite) -> Diagnosis:
    x, y = small_net.rows()
    threat = brinell.Threat("linf", EPS)
    subject = subject_of(
        model, x, y, threat=threat, suite=suite, seed=0, outputs="logits", rows="all", layout="as-is", size=64
    )
    return planted_examples(subject, rows=4)


def test_planted_examples_are_found_where_gradients_are_sound() -> None:
    assert planted(small_net.load(), QUICK).raised is False


def test_planted_examples_are_missed_behind_a_mask() -> None:
    """A gradient of zero shows nothing, whatever is planted behind it."""
    found = planted(Wrapped(through(torch.zeros_like)), "pgd")
    assert found.raised is True
    assert found.said.startswith("0 of 4 planted examples found")


def test_planted_examples_are_not_for_every_model() -> None:
    with pytest.raises(BadInput, match="planted"):
        planted(small_net.load(), "autoattack-rand")


def attempts_of(row: int, margins: dict[int, list[float]]) -> list[AttemptRecord]:
    fields = {"row": row, "turn": 0, "outcome": "stood", "forwards": 0, "backwards": 0, "reason": None}
    return [
        AttemptRecord(stage=stage, attempt=attempt, best_margin=margin, **fields)
        for stage, ends in margins.items()
        for attempt, margin in enumerate(ends)
    ]


@pytest.mark.parametrize(
    ("own", "smooth", "found"),
    [
        ([0.8, 0.8, 0.8], [0.5], True),
        ([0.8, 0.6, 0.8], [0.5], False),
        ([0.8, 0.8, 0.8], [0.79], False),
        ([0.8], [0.5], None),
    ],
)
def test_plateaus(sound: Reading, own: list[float], smooth: list[float], found: bool | None) -> None:
    """Runs that all end at 0.8 of a clean margin of 1, and one by a smooth slope that ends lower."""
    attacks = [{"attack": "pgd", "slope": "own"}, {"attack": "pgd", "slope": "smooth"}]
    record = replace(
        sound,
        rows=tuple(replace(sound.rows[1], row=row, status="standing", clean_margin=1.0) for row in range(5)),
        attempts=tuple(attempt for row in range(5) for attempt in attempts_of(row, {0: own, 1: smooth})),
        manifest=sound.manifest.model_copy(update={"suite": {**sound.manifest.suite, "attacks": attacks}}),
    )
    assert next(one.raised for one in record.diagnoses if one.check == "plateau") is found


def test_every_check_is_documented() -> None:
    for _, check in CHECKS:
        says = explained(check)
        assert says.raised_if.startswith("Raised if")
        assert says.means
        assert says.advice


def test_the_command_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reading = small_runs.small_result(tmp_path / "run").reading
    assert main(["diagnose", str(tmp_path / "run")]) == 6
    told = capsys.readouterr().out
    assert "suspect: " in told
    assert next(one.advice for one in reading.diagnoses if one.check == "weak-suite")[:20] in told
    assert main(["diagnose", str(tmp_path / "run"), "--json"]) == 6
    said = json.loads(capsys.readouterr().out)
    assert (said["outcome"], len(said["checks"])) == ("suspect", len(CHECKS))
    assert (
        main(["doctor", "--model", small_runs.NET, "--data", small_runs.ROWS, "--norm", "linf", "--eps", "0.06"]) == 0
    )
    assert main(["doctor", "--model", small_runs.NET, "--data", small_runs.ROWS, "--norm", "linf", "--eps", "8"]) == 6
    assert "8/255" in capsys.readouterr().out
