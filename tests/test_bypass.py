"""Parts that hide gradients are found, named and stepped over on the way back; what a model says is never changed by it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import small_net
from brinell.adaptive.bypass import ROUNDING, bypassing
from brinell.errors import BadInput
from brinell.evaluation import Result, resume, subject_of
from brinell.finishing import finish
from brinell.losses import CROSS_ENTROPY
from brinell.models.torch_model import TorchModel
from brinell.opening import begin
from brinell.selftest import trials
from brinell.suites.suite import load_suite
from brinell.threat import Threat
from brinell.verify import verify_files, verify_with_model
from defended_models import bare, robust_behind_levels, rows
from small_runs import SMALL, THREAT, fates, small_result

X, Y = small_net.rows()
LEVELS = 12


class Levels(nn.Module):
    """Rounds by a function of PyTorch's."""

    def forward(self, x: Tensor) -> Tensor:
        return (x * (LEVELS - 1)).round() / (LEVELS - 1)


class Reversed(nn.Module):
    """Says what it hears, and shows the opposite slope."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * x.detach() - x


class Blind(nn.Module):
    """Says what it hears, and shows no slope."""

    def forward(self, x: Tensor) -> Tensor:
        return x.detach() + 0 * x


def behind(part: nn.Module, model: nn.Module | None = None) -> nn.Module:
    return nn.Sequential(part, model or small_net.load()).eval()


def slopes_of(result: Result) -> list[str]:
    return [str(table.get("slope")) for table in result.reading.manifest.suite["attacks"]]


@pytest.mark.parametrize("part", [Levels(), Reversed(), Blind()], ids=["rounding", "reversed", "blind"])
def test_the_slope_is_that_of_what_stands_behind_and_the_answer_the_models_own(part: nn.Module) -> None:
    model = TorchModel(behind(part))
    model.bypassed = {ROUNDING: "rounding functions"} if isinstance(part, Levels) else {"0": "part"}
    seen = part(X).detach()
    true = TorchModel(small_net.load()).gradient(seen, lambda z: CROSS_ENTROPY.climb(z, Y)).grad
    climbed = model.gradient(X, lambda z: CROSS_ENTROPY.climb(z, Y), "identity")
    assert torch.equal(climbed.logits, model.scores(X))
    assert torch.allclose(climbed.grad, true, atol=1e-12)
    assert not torch.allclose(model.gradient(X, lambda z: CROSS_ENTROPY.climb(z, Y)).grad, true)


def test_afterwards_the_model_shows_its_own_slope_again() -> None:
    module = behind(Reversed())
    leaf = X.clone().requires_grad_(True)
    with bypassing(module, ["0"]):
        pass
    before = torch.autograd.grad(module(leaf).sum(), leaf)[0]
    assert torch.allclose(before, -torch.autograd.grad(small_net.load()(leaf).sum(), leaf)[0])


@pytest.mark.parametrize(
    ("part", "named"),
    [(Levels(), {ROUNDING: "rounding functions"}), (Reversed(), {"0": "Reversed"}), (Blind(), {"0": "Blind"})],
    ids=["rounding", "reversed", "blind"],
)
def test_what_hides_is_found_named_and_passed(part: nn.Module, named: dict[str, str], tmp_path: Path) -> None:
    result = small_result(tmp_path / "run", model=behind(part))
    manifest = result.reading.manifest
    assert manifest.bypassed == named
    assert slopes_of(result)[2:] == ["identity"] * 3
    assert f"BPDA by identity on {'rounding functions' if ROUNDING in named else '0 ('}" in result.claim
    by_own = sum(result.figures.stages[stage].broke for stage in range(2))
    by_bypass = sum(result.figures.stages[stage].broke for stage in range(2, 5))
    assert by_bypass > 3 and by_bypass > by_own
    assert "bypass-finds-more" in {one.check for one in result.reading.diagnoses if one.open}
    assert all(finding.holds is not False for finding in verify_files(result.folder))
    open_one = small_result(tmp_path / "open").figures.status["broken"]
    if not isinstance(part, Levels):  # these change no answer, so that the truth is that of the model behind
        assert abs(result.figures.status["broken"] - open_one) <= 1


def test_a_healthy_model_gets_no_attack_and_no_look(tmp_path: Path) -> None:
    result = small_result(tmp_path / "run")
    assert result.reading.manifest.bypassed == {} and "identity" not in slopes_of(result)
    assert {one.check: one.raised for one in result.reading.diagnoses}["bypass-finds-more"] is None


@pytest.mark.parametrize("name", ["affine-linf", "half-inputs", "box-faces", "times-1e3"])
def test_nothing_is_found_where_nothing_can_be_passed(name: str) -> None:
    (trial,) = trials([name], ["pgd"], rows=10)
    assert "BPDA" not in trial.suite and not any("bypass" in note for note in trial.notes)


@pytest.mark.parametrize("name", ["levels-16", "levels-4", "rounded-logits", "frequencies"])
def test_defences_that_round_are_seen_through(name: str) -> None:
    """PGD alone leaves twice as many rows as are robust; what the run adds leaves those that are, and none fewer."""
    (trial,) = trials([name], ["pgd"], rows=20)
    assert trial.outcome == "exact", trial.verdict


def test_no_robust_row_falls() -> None:
    model = bare()
    x, y = rows(model)
    behind_levels = nn.Sequential(Levels(), model).eval()
    with torch.no_grad():
        y = behind_levels(x).argmax(1)
    result = small_result_of(behind_levels, x, y, 0.1)
    robust = robust_behind_levels(model, LEVELS, x, y, 0.1)
    assert any(robust) and not all(robust)
    assert not [row.row for row in result.reading.rows if row.status == "broken" and robust[row.row]]
    assert result.robust_accuracy.count <= sum(robust) + 2


def small_result_of(model: nn.Module, x: Tensor, y: Tensor, eps: float) -> Result:
    from brinell.evaluation import evaluate

    return evaluate(model, x, y, threat=Threat("linf", eps), suite=SMALL, batch_size=48)


class Lost(nn.Module):
    """A part of its own accord constant in the gradient's eyes, whose output has nothing to do with its input."""

    def forward(self, x: Tensor) -> Tensor:
        return (1e4 * x.detach()).sin() + 0 * x


def test_a_part_that_is_nothing_like_the_identity_is_left_alone(tmp_path: Path) -> None:
    result = small_result(tmp_path / "run", model=behind(Lost()))
    assert result.reading.manifest.bypassed == {}


def test_a_run_that_was_cut_off_goes_on_with_it_and_is_verified(tmp_path: Path) -> None:
    def subject() -> Any:
        return subject_of(
            behind(Reversed()), X, Y, threat=THREAT, suite=SMALL, seed=0, outputs="logits", rows="all", layout="as-is",
            size=64,
        )  # fmt: skip

    whole = finish(begin(subject(), tmp_path / "whole"))
    asked: list[int] = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) > 45

    cut = finish(begin(subject(), tmp_path / "cut"), stop=stop)
    assert not cut.figures.complete
    again = resume(tmp_path / "cut", behind(Reversed()), X, Y)
    assert again.reading.manifest.bypassed == {"0": "Reversed"}
    assert fates(again.reading.rows) == fates(whole.rows)
    found = verify_with_model(tmp_path / "cut", TorchModel(behind(Reversed())), subject().rows)
    assert all(finding.holds is not False for finding in [*found, *verify_files(tmp_path / "cut")])


def test_a_suite_file_cannot_ask_for_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\nversion = "1"\n[[attacks]]\nattack = "pgd"\nslope = "identity"\n', "utf-8")
    with pytest.raises(BadInput) as error:
        load_suite(str(path))
    assert "identity" in error.value.got and error.value.expected == "own or smooth"
