"""Points made on another model: they break what hides its gradients, cost what is said, and prove nothing by themselves."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import small_net
from brinell import Pipeline
from brinell.attacks.transfer import PROPOSED, Transfer
from brinell.cli import main
from brinell.errors import BadInput
from brinell.evaluation import Result, open_run, resume
from brinell.finishing import finish
from brinell.handed import subject_of
from brinell.losses import CROSS_ENTROPY, TARGETED_MARGIN
from brinell.models.torch_model import TorchModel
from brinell.opening import begin
from brinell.queries import Given, Scores
from brinell.random import Noise
from brinell.suites.suite import load_suite
from brinell.surrogate import Surrogate
from brinell.threat import Threat
from brinell.verify import verify_files, verify_with_model
from models_with_known_radius import random_linear
from small_runs import NET, OTHER_NET, SMALL, THREAT, fates, small_options, small_result, suite_file

X, Y = small_net.rows()


class Stepped(nn.Module):
    """The same decisions as another model's, by scores whose gradient is exactly 0."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        z = self.inner(x)
        return z.detach() + 0 * z


def hidden() -> nn.Module:
    return Stepped(small_net.load()).eval()


@pytest.fixture(scope="module")
def helped(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """The model that hides its gradients, with the model underneath as surrogate."""
    return small_result(tmp_path_factory.mktemp("helped") / "run", model=hidden(), surrogate=small_net.load())


def stages(result: Result, kind: str) -> list[int]:
    return [i for i, table in enumerate(result.reading.manifest.suite["attacks"]) if table["attack"] == kind]


def test_rows_fall_that_the_own_gradients_leave(helped: Result, tmp_path: Path) -> None:
    alone = small_result(tmp_path / "alone", model=hidden())
    open_one = small_result(tmp_path / "open")
    assert 2 * alone.figures.status["broken"] < helped.figures.status["broken"]
    assert helped.figures.status["broken"] >= open_one.figures.status["broken"] - 1 > 10
    by_transfer = sum(helped.figures.stages[stage].broke for stage in stages(helped, "transfer"))
    assert by_transfer >= 3
    raised = {one.check for one in helped.reading.diagnoses if one.open}
    assert "transfer-finds-more" in raised
    assert "transfer-finds-more" in helped.claim


def test_a_model_that_hides_nothing_is_not_suspected(tmp_path: Path) -> None:
    result = small_result(tmp_path / "run", surrogate=small_net.other())
    said = {one.check: one.raised for one in result.reading.diagnoses}
    assert said["transfer-finds-more"] is False
    bare = small_result(tmp_path / "bare")
    assert {one.check: one.raised for one in bare.reading.diagnoses}["transfer-finds-more"] is None
    own = {row.row: row.status for row in bare.reading.rows}
    broken = [row for row in result.reading.rows if row.status == "broken"]
    assert all(own[row.row] == "broken" or row.stage in stages(result, "transfer") for row in broken)


def test_what_is_recorded_and_said(helped: Result) -> None:
    manifest = helped.reading.manifest
    assert manifest.surrogate is not None
    assert manifest.surrogate["fingerprint"] == TorchModel(small_net.load()).fingerprint()
    assert manifest.surrogate["kind"] == "declared"
    assert "transfer from Sequential" in helped.claim and "transfer from Sequential" in manifest.suite["name"]
    given = [a for a in helped.reading.attempts if a.stage in stages(helped, "transfer")]
    spent = helped.reading.on_surrogate
    assert spent == (40 * len(given), 40 * len(given))
    assert all(a.forwards <= PROPOSED and a.backwards == 0 for a in given)
    from brinell.exported import as_data

    assert as_data(helped.reading)["surrogate"]["forwards"] == spent.forwards
    assert all(finding.holds is not False for finding in verify_files(helped.folder))


class Counting(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.rows = inner, 0

    def forward(self, x: Tensor) -> Tensor:
        self.rows += len(x)
        return self.inner(x)


def test_the_surrogates_account_is_what_was_asked_of_it(tmp_path: Path) -> None:
    counting = Counting(small_net.load()).eval()
    result = small_result(tmp_path / "run", model=hidden(), surrogate=counting)
    assert counting.rows == result.reading.on_surrogate.forwards + 2 * 16  # the check beforehand


@pytest.mark.parametrize("loss", [CROSS_ENTROPY, TARGETED_MARGIN])
@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_points_lie_in_the_threat_set_and_rows_do_not_matter_to_each_other(loss: Any, norm: Any) -> None:
    model = random_linear(3, 12, seed=3).eval()
    x = torch.rand(6, 12, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    y = model(x).argmax(1)
    threat = Threat(norm, 0.3)
    attack = Transfer(loss=loss, steps=8, held=TorchModel(model)).fit(3)

    def points(rows: list[int]) -> list[Tensor]:
        noise = Noise.of(seed=0, stream=5, attempt=0, rows=torch.tensor(rows))
        given = Given(x[rows], y[rows], model(x[rows]).detach(), 0)
        queries = list(attack.search(given, threat.around(x[rows]), noise))
        assert all(isinstance(query, Scores) for query in queries) and len(queries) == PROPOSED
        return [query.points for query in queries]

    together = points(list(range(6)))
    assert all(bool(threat.contains(x, proposed).all()) for proposed in together)
    alone = points([4])
    assert all(torch.allclose(mine[0], ours[4], atol=1e-12) for mine, ours in zip(alone, together, strict=True))
    margin = model(together[0]).gather(1, y[:, None]) - model(x).gather(1, y[:, None])
    assert bool((margin < 0).all())  # the climb goes somewhere


def test_a_pipelines_base_is_its_surrogate(tmp_path: Path) -> None:
    levels = Levels(8).eval()
    pipeline = Pipeline(levels, small_net.load())
    result = small_result(tmp_path / "run", model=pipeline)
    about = result.reading.manifest.surrogate
    assert about is not None and about["kind"] == "base"
    assert "transfer from the pipeline's classifier alone" in result.claim
    further = result.figures.stages[len(SMALL.attacks) :]
    assert sum(stage.broke for stage in further) > 3 and len(stages(result, "transfer")) == 3
    plain = small_result(tmp_path / "plain", model=Pipeline(small_net.load()))
    assert plain.reading.manifest.surrogate is None and not stages(plain, "transfer")


class Levels(nn.Module):
    def __init__(self, levels: int) -> None:
        super().__init__()
        self.top = levels - 1

    def forward(self, x: Tensor) -> Tensor:
        return (x * self.top).round() / self.top


class Doubled(nn.Module):
    """Other inputs than the pipeline's: its classifier alone cannot take them."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1)[:, :15]


def test_a_base_of_no_use_is_noted_and_left_out(tmp_path: Path) -> None:
    narrow = nn.Linear(15, 4).double().eval()
    result = small_result(tmp_path / "run", model=Pipeline(Doubled().eval(), narrow))
    assert result.reading.manifest.surrogate is None
    assert any("no points were made on" in note for note in result.reading.manifest.notes)


class Train(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.nn.functional.dropout(x.flatten(1)[:, :4], training=self.training)


@pytest.mark.parametrize(
    ("surrogate", "got"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(16, 5)).double().eval(), "shape (16, 5)"),
        (nn.Linear(3, 4).double().eval(), "RuntimeError"),
        (Train().train(), "train mode"),
        (small_net.load(), "attacked model itself"),
        (Stepped(small_net.load()).eval(), "gradient of exactly 0"),
    ],
    ids=["classes", "shape", "mode", "itself", "flat"],
)
def test_refusals(surrogate: Any, got: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as error:
        small_result(tmp_path / "run", surrogate=surrogate)
    assert got in error.value.got and "surrogate" in error.value.subject
    assert not (tmp_path / "run").exists()


def test_resumed_with_the_surrogate_it_comes_to_the_same(helped: Result, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    subject = subject_of(
        hidden(), X, Y, threat=THREAT, suite=SMALL, seed=0, outputs="logits", rows="all", layout="as-is", size=64,
        surrogate=small_net.load(),
    )  # fmt: skip
    asked: list[int] = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) > 25

    cut = finish(begin(subject, folder), stop=stop)
    assert not cut.figures.complete
    with pytest.raises(BadInput, match="surrogate of run"):
        resume(folder, hidden(), X, Y)
    with pytest.raises(BadInput, match="surrogate of run"):
        resume(folder, hidden(), X, Y, surrogate=small_net.other())
    whole = resume(folder, hidden(), X, Y, surrogate=small_net.load())
    assert fates(whole.reading.rows) == fates(helped.reading.rows)
    assert whole.reading.manifest.suite == helped.reading.manifest.suite


def test_verify_makes_the_points_again(helped: Result) -> None:
    rows = subject_of(
        hidden(), X, Y, threat=THREAT, suite=SMALL, seed=0, outputs="logits", rows="all", layout="as-is", size=64
    ).rows

    def said(surrogate: nn.Module | None) -> dict[str, bool | None]:
        other = None if surrogate is None else Surrogate("s", TorchModel(surrogate), "declared")
        found = verify_with_model(helped.folder, TorchModel(hidden()), rows, other)
        return {finding.check: finding.holds for finding in found}

    whole = said(small_net.load())
    assert whole["surrogate fingerprint"] and whole["points of the surrogate"]
    assert said(None)["surrogate"] is None
    other = nn.Sequential(nn.Flatten(), nn.Linear(16, 4)).double().eval()
    wrong = said(other)
    assert wrong["surrogate fingerprint"] is False and wrong["points of the surrogate"] is False


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    options = [*small_options(suite_file(tmp_path)), "--surrogate", OTHER_NET]
    assert main(["run", *options, "--out", str(folder), "--quiet"]) == 0
    printed = capsys.readouterr().out
    assert "points were made on a surrogate" in printed and f"transfer from {OTHER_NET}" in " ".join(printed.split())
    manifest = open_run(folder).reading.manifest
    assert manifest.spec is not None and manifest.spec.surrogate is not None
    assert main(["verify", str(folder), "--json"]) == 0
    found = {finding["check"]: finding["holds"] for finding in json.loads(capsys.readouterr().out)["findings"]}
    assert found["surrogate fingerprint"] is True
    assert main(["plan", *options, "--json"]) == 0
    assert any(attack["attack"] == "transfer ce" for attack in json.loads(capsys.readouterr().out)["attacks"])
    assert main(["run", *small_options(suite_file(tmp_path)), "--surrogate", NET, "--out", str(tmp_path / "x")]) == 2


def test_a_suite_file_cannot_ask_for_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\nversion = "1"\n[[attacks]]\nattack = "transfer"\n', "utf-8")
    with pytest.raises(BadInput, match="transfer"):
        load_suite(str(path))
