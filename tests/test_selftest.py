"""A verdict follows from the truth and the rows, and from nothing else; a fault of the tool ends the command with 4."""

import json
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from brinell.cli import main
from brinell.defences.catalogue import defences, defences_named
from brinell.defences.defence import Defence, Solved, Truth
from brinell.errors import BadInput
from brinell.frequencies import Frequency
from brinell.selftest import judged_frequency, pairs, trials, tried
from brinell.suites.suite import load_suite, suite_from
from noisy_models import suite as quick_draws

HARD = ("winners", "frequencies", "dead-zone")
STEADY = [d for d in defences() if d.model.worst and not d.randomised and (not d.extra or d.id in HARD)]


def lying(least: float) -> Defence:
    """An affine model whose truth is said to be this for every row."""
    honest = defences_named(["affine-linf"])[0]

    def worst(x: Tensor, y: Tensor, eps: float) -> Truth:
        said = torch.full((len(x),), least, dtype=torch.float64)
        return Truth(said, said, x.double())

    return replace(honest, model=Solved(honest.model.make, worst, "closed form"))


# Verdicts


def test_a_robust_row_that_falls_is_below_the_truth() -> None:
    trial = tried(lying(1.0), load_suite("fgsm"), 20)
    assert trial.truth == (20, 20)
    assert trial.outcome == "below the truth"
    assert trial.figure is not None
    assert trial.by == 20 - trial.figure > 5
    assert trial.verdict == f"BELOW THE TRUTH by {trial.by:g} rows"


def test_a_breakable_row_that_stands_is_too_kind_and_the_verdict_says_whether_it_was_noted() -> None:
    trial = tried(lying(-1.0), load_suite("fgsm"), 20)
    assert (trial.truth, trial.outcome, trial.by) == ((0, 0), "too kind", trial.figure)
    assert trial.verdict.endswith("unsuspected")
    masked = tried(defences_named(["no-gradient"])[0], load_suite("fgsm"), 20)
    assert masked.outcome == "too kind"
    assert masked.verdict.endswith(", suspect")


def test_a_row_of_unknown_truth_is_held_against_nobody() -> None:
    trial = tried(lying(0.0), load_suite("fgsm"), 20)
    assert (trial.truth, trial.outcome, trial.by) == ((0, 20), "exact", 0)


class SteepAtEveryPoint(nn.Module):
    """A model whose logits are those of another and whose gradient is not a number."""

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base = base

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.base(x)
        return z + (0 * z).sqrt()


def test_rows_that_end_in_error_are_not_taken_for_robust() -> None:
    honest = defences_named(["affine-linf"])[0]
    steep = Solved(lambda: SteepAtEveryPoint(honest.model.make()).eval(), honest.model.worst, "closed form")
    trial = tried(replace(honest, model=steep), load_suite("fgsm"), 20)
    assert (trial.outcome, trial.figure) == ("not judged", 0)
    assert trial.by > 10


def test_a_mistake_that_gets_a_figure_is_not_refused() -> None:
    honest = defences_named(["affine-linf"])[0]
    missed = replace(honest, kind="mistake", model=Solved(honest.model.make))
    assert tried(missed, load_suite("fgsm"), 10).outcome == "not refused"


@pytest.mark.usefixtures("without_shape_checks")
def test_a_single_step_is_never_below_the_truth() -> None:
    trials_of = [tried(defence, load_suite("fgsm"), 20) for defence in STEADY]
    assert [trial.defence for trial in trials_of if trial.outcome == "below the truth"] == []
    assert sum(trial.outcome == "too kind" for trial in trials_of) > 12, "it is too weak a suite for these"


@pytest.mark.usefixtures("without_shape_checks")
def test_healthy_models_raise_no_note_and_targets_find_their_truth() -> None:
    """To the nearest corner for every rival: one step is the best in Linf where the model is affine."""
    attack = {"attack": "pgd", "loss": "targeted-margin", "steps": 2, "step_size": 2.0, "targets": 9}
    exact = suite_from({"name": "corners", "version": "1", "attacks": [attack]}, "tests")
    for defence in (d for d in defences() if d.kind == "healthy"):
        trial = tried(defence, exact, 40)
        assert trial.notes == (), defence.id
        assert trial.outcome == "exact" or (defence.norm != "linf" and trial.outcome == "too kind"), defence.id


@pytest.mark.parametrize("kind", ["mistake", "randomised"])
def test_what_no_figure_may_come_of_is_refused(kind: str) -> None:
    outcomes = {d.id: tried(d, load_suite("fgsm"), 40).outcome for d in defences() if d.kind == kind}
    assert set(outcomes.values()) == {"refused"}, outcomes


def test_chance_is_allowed_for_where_draws_decide() -> None:
    # 60 of 100 rows' worth, draws alone ± 0.01 a row on the mean: a standard error of 1 row in the sum
    def verdict(total: float) -> tuple[str, float]:
        _, outcome, by = judged_frequency(Frequency(total, 100, 100, 0.01), (58.0, 60.0))
        return outcome, by

    assert verdict(61.9) == ("exact", 0)
    assert verdict(62.5) == ("too kind", 2.5)
    assert verdict(54.1) == ("exact", 0)
    assert verdict(53.5) == ("below the truth", 4.5)


def test_a_randomised_defence_is_measured_by_a_suite_with_draws() -> None:
    trial = tried(defences_named(["random-gain"])[0], quick_draws(), 10)
    assert (trial.truth, trial.outcome, trial.notes) == ((4, 4), "exact", ())


# Which are tried


def test_extra_ones_are_tried_when_asked_for_and_suites_get_what_they_are_meant_for() -> None:
    steady, drawn = load_suite("pgd"), load_suite("autoattack-rand")
    quick = {defence.id for defence, _ in pairs((), [steady], everything=False)}
    every = {defence.id for defence, _ in pairs((), [steady], everything=True)}
    assert quick < every == {defence.id for defence in defences()}
    assert [defence.id for defence, _ in pairs(["blur"], [steady], everything=False)] == ["blur"]
    assert {defence.kind for defence, _ in pairs((), [drawn], everything=True)} == {"randomised"}


def test_bad_requests_are_refused_before_any_attack() -> None:
    for only, suites, rows in (
        (["nope"], ["pgd"], 4),
        ([], ["nope"], 4),
        ([], ["pgd"], 0),
        (["blur"], ["autoattack-rand"], 4),
    ):
        with pytest.raises(BadInput):
            trials(only, suites, rows=rows)


# The command


def test_the_command_prints_a_line_for_each_and_their_sum(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["selftest", "--suite", "fgsm", "--only", "two-classes", "no-gradient", "pixels", "--rows", "10"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["two-classes", "no-gradient", "pixels"]
    assert "suspect" in lines[2]
    assert lines[3].endswith("refused")
    assert lines[4].startswith(
        "3 trials: 1 exact, 1 too kind (0 of them unsuspected), 0 not judged, 1 refused; 0 not refused"
    )


def test_a_fault_of_the_tool_ends_the_command_with_4(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("brinell.selftest.defences_named", lambda ids: (lying(1.0),))
    assert main(["selftest", "--suite", "fgsm", "--only", "affine-linf", "--rows", "10", "--json"]) == 4
    trial = json.loads(capsys.readouterr().out)["trials"][0]
    assert (trial["outcome"], trial["truth"], trial["suspect"]) == ("below the truth", [10, 10], False)


def test_the_list_names_every_defence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["selftest", "--list"]) == 0
    out = capsys.readouterr().out
    assert all(defence.id in out for defence in defences())
