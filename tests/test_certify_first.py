"""Certificates before the attacks: the rows that they settle are spared, and nothing else about the run moves."""

import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import brinell
import small_net
import small_runs
from brinell.certify.steps import STEPS, Step
from brinell.cli import main
from brinell.errors import BadInput
from brinell.finishing import finish
from brinell.handed import subject_of
from brinell.metrics import in_seconds
from brinell.opening import begin, resume
from brinell.report.certified import certificate_lines
from brinell.report.coverage import not_covered
from brinell.result import Reading, read_run
from brinell.spec import CertifySpec
from brinell.subject import Subject
from brinell.tally import Moment
from brinell.threat import Threat
from brinell.verify import verify_files

EPS = 0.01
ASKED = CertifySpec(method="slopes", seconds=5.0)
WHERE = ["--model", small_runs.NET, "--data", small_runs.ROWS, "--norm", "linf", "--eps", str(EPS)]


def subject(asked: CertifySpec | None = ASKED, eps: float = EPS, **changes: Any) -> Subject:
    x, y = small_net.rows()
    y = changes.pop("y", y)
    options = {"suite": small_runs.SMALL, "seed": 0, "outputs": "logits", "rows": "all", "layout": "as-is", "size": 60}
    model = changes.pop("model", None) or small_net.load()
    return subject_of(model, x, y, threat=Threat("linf", eps), certify=asked, **{**options, **changes})


@pytest.fixture
def reading(tmp_path: Path) -> Reading:
    return finish(begin(subject(), tmp_path / "run"))


def test_settled_rows_get_no_attack_and_the_figure_is_the_same(reading: Reading, tmp_path: Path) -> None:
    """What the attacks alone break is broken here too; what is certified first costs nothing and never fell to them."""
    alone = finish(begin(subject(None), tmp_path / "alone"))
    attacked = {attempt.row for attempt in reading.attempts}
    assert len(reading.settled_first) > 20
    assert not attacked & reading.settled_first
    assert attacked | reading.settled_first == {attempt.row for attempt in alone.attempts}
    assert reading.figures.robust_accuracy.count == alone.figures.robust_accuracy.count
    assert reading.figures.passes.attack_forwards < alone.figures.passes.attack_forwards / 2
    assert reading.figures.complete
    assert not [finding for finding in verify_files(reading.folder) if finding.holds is False]


def test_the_report_says_what_was_spared(reading: Reading, capsys: pytest.CaptureFixture[str]) -> None:
    count = reading.figures.status["certified"]
    for kind in ("text", "markdown"):
        assert main(["report", str(reading.folder), "--format", kind]) == 0
        assert f"before any attack {count} rows were certified" in " ".join(capsys.readouterr().out.split())
    assert main(["report", str(reading.folder), "--format", "html"]) == 0
    assert f"Before any attack {count} rows were certified" in (reading.folder / "report.html").read_text("utf-8")
    said = json.loads((reading.folder / "result.json").read_text("utf-8"))
    assert said["certified"]["first"] == {"method": "slopes", "seconds": 5.0}


def test_the_search_for_a_proof_breaks_rows(tmp_path: Path) -> None:
    """At a radius where rows fall, branch and bound meets errors; their witnesses are like any other."""
    net, x = nn.Sequential(nn.Flatten(), *list(small_net.load())[1:]), small_net.rows()[0]
    net[2] = nn.ReLU()
    net.eval()
    y = net(x).argmax(1)
    asked = CertifySpec(method="branch", seconds=5.0)
    found = finish(begin(subject(asked, 0.05, model=net, y=y), tmp_path / "run"))
    broken = {record.row for record in found.certificates if record.outcome == "violated"}
    assert broken
    assert all(
        row.status == "broken" and row.stage is None and row.confirmed for row in found.rows if row.row in broken
    )
    assert not broken & {attempt.row for attempt in found.attempts}
    assert not [finding for finding in verify_files(tmp_path / "run") if finding.holds is False]
    result = brinell.evaluation.open_run(tmp_path / "run")
    for row in broken:
        point = torch.from_numpy(result.witness(row))[None]
        assert net(point).argmax(1) != y[row]
        assert (point - x[row]).abs().max() <= 0.05 + 1e-12


def stopping_after(count: int) -> tuple[Callable[[Moment], None], Callable[[], bool]]:
    """An observer, and a question that is answered yes once it has seen so many moments."""
    seen: list[Moment] = []
    return seen.append, lambda: len(seen) >= count


@pytest.mark.parametrize("moments", [1, 7, 53, 56])
def test_it_resumes(reading: Reading, tmp_path: Path, moments: int) -> None:
    """Cut off among the certificates or among the attacks: what was found is not asked again, and the record is the same."""
    observer, stop = stopping_after(moments)
    cut = finish(begin(subject(), tmp_path / "cut"), observer, stop=stop)
    assert cut.manifest.state == "interrupted"
    assert len(cut.certificates) == min(moments, len(reading.certificates))
    assert not [finding for finding in verify_files(tmp_path / "cut") if finding.holds is False]
    asked_at = {record.row: record.seconds for record in cut.certificates}
    through = finish(resume(subject(), tmp_path / "cut"))
    assert small_runs.fates(through.rows) == small_runs.fates(reading.rows)
    again = {record.row: record.seconds for record in through.certificates}
    assert {row: again[row] for row in asked_at} == asked_at
    assert not [finding for finding in verify_files(tmp_path / "cut") if finding.holds is False]


def test_a_killed_run_resumes(reading: Reading, tmp_path: Path) -> None:
    run = begin(subject(), tmp_path / "killed")

    def kill(moment: Moment) -> None:
        if len(run.ledger.certificates()) == 9:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.go(kill)
    small_runs.abandon(run)
    through = finish(resume(subject(), tmp_path / "killed"))
    assert small_runs.fates(through.rows) == small_runs.fates(reading.rows)


def test_another_request_does_not_resume_it(tmp_path: Path) -> None:
    observer, stop = stopping_after(3)
    finish(begin(subject(), tmp_path / "cut"), observer, stop=stop)
    for other in (None, CertifySpec(method="branch", seconds=5.0)):
        with pytest.raises(BadInput, match="certificates"):
            resume(subject(other), tmp_path / "cut")


@pytest.mark.parametrize("step", STEPS)
def test_no_step_after_the_last_is_tried(step: Step, tmp_path: Path) -> None:
    found = finish(begin(subject(CertifySpec(method=step, seconds=5.0)), tmp_path / "run"))
    took = {record.step for record in found.certificates if record.outcome == "certified"}
    assert took <= set(STEPS[: STEPS.index(step) + 1])
    assert took or step == "interval"
    assert {record.method for record in found.certificates} == {step}


def test_dearer_steps_afterwards_go_on(reading: Reading) -> None:
    from brinell.certifying import certify_run

    again = certify_run(subject(None), reading.folder, asked=CertifySpec(method="branch", seconds=2.0))
    about = again.manifest.certified
    assert about is not None
    assert (about.method, about.first) == ("branch", ASKED)
    assert about.asked == (ASKED, CertifySpec(method="branch", seconds=2.0))
    lines = certificate_lines(again)
    assert lines[0].startswith(
        "certificates by slopes, about 5 s a row at most, then by branch, about 2 s a row at most: the network"
    )
    spent = sum(record.seconds for record in again.certificates)
    assert lines[1].endswith(f"; the search took {in_seconds(spent)} on {len(again.certificates)} rows")
    assert again.claim.cost.proof_seconds == spent
    assert again.settled_first == reading.settled_first
    assert {record.method for record in again.certificates} <= {"slopes", "branch"}
    assert again.figures.status["certified"] >= reading.figures.status["certified"]
    assert not [finding for finding in verify_files(reading.folder) if finding.holds is False]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE certificates SET first = 0 WHERE outcome = 'certified'",
        "UPDATE certificates SET first = 1, outcome = 'certified', margin = 1.0 WHERE outcome = 'unknown'",
        "UPDATE certificates SET method = 'branch'",
    ],
)
def test_a_changed_order_is_found(reading: Reading, statement: str) -> None:
    with sqlite3.connect(reading.folder / "ledger.sqlite") as ledger:
        assert ledger.execute(statement).rowcount
    broken = {finding.check for finding in verify_files(reading.folder) if finding.holds is False}
    assert broken & {"certificates", "schedule", "statuses"}


class Odd(nn.Module):
    """A net with an operation whose bounds are not known."""

    def __init__(self) -> None:
        super().__init__()
        self.net = small_net.load()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.net(x)
        return out.sort(1)[0]


def refused() -> dict[str, Subject]:
    x, y = small_net.rows()
    half = subject_of(
        small_net.load().half(), x.float(), y, threat=Threat("linf", EPS), suite="fgsm", seed=0, outputs="logits",
        rows="all", layout="as-is", size=60, certify=ASKED,
    )  # fmt: skip
    return {
        "probabilities": subject(outputs="probabilities"),
        "a rejection": subject(outputs="logits-and-reject"),
        "randomised": replace(subject(), suite=subject(suite="autoattack-rand").suite),
        "half precision": half,
        "an operation": subject(model=Odd().double().eval()),
    }


@pytest.mark.parametrize("kind", ["probabilities", "a rejection", "randomised", "half precision", "an operation"])
def test_what_cannot_be_certified_is_refused_before_any_work(kind: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"certificates|sort"):
        begin(refused()[kind], tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    asked = ["--certify", "crown", "--certify-seconds", "2"]
    assert main(["run", *WHERE, "--suite", "pgd", *asked, "--out", str(folder), "--quiet"]) == 0
    assert "before any attack" in capsys.readouterr().out
    assert "[certify]" in (folder / "spec.toml").read_text("utf-8")
    assert read_run(folder).manifest.certified is not None
    assert main(["verify", str(folder)]) == 0
    assert main(["run", "--resume", str(folder), "--quiet"]) == 0
    assert main(["run", str(folder / "spec.toml"), "--out", str(tmp_path / "again"), "--quiet"]) == 0
    assert small_runs.fates(read_run(tmp_path / "again").rows) == small_runs.fates(read_run(folder).rows)
    capsys.readouterr()
    assert main(["plan", *WHERE, "--suite", "pgd", *asked]) == 0
    assert "certificates by crown come first, 120 s at the most" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options",
    [
        ["run", "--certify-seconds", "3"],
        ["run", "--certify", "crown", "--certify-seconds", "0"],
        ["run", "--certify", "magic"],
        ["import", "arrays", "points.npz", "--certify", "crown"],
    ],
)
def test_what_makes_no_sense_is_refused(options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command, *rest = options
    assert main([command, *rest, *WHERE, "--out", str(tmp_path / "run")]) == 2
    assert not (tmp_path / "run").exists()


def test_python(tmp_path: Path) -> None:
    x, y = small_net.rows()
    result = brinell.evaluate(
        small_net.load(),
        x,
        y,
        threat=Threat("linf", EPS),
        suite=small_runs.SMALL,
        certify="crown",
        out=tmp_path / "run",
    )
    assert result.figures.status["certified"] > 5
    with pytest.raises(BadInput, match="certify"):
        brinell.evaluate(
            small_net.load(), x, y, threat=Threat("linf", EPS), suite="pgd", certify="crown", certify_seconds=0.0
        )


def test_a_budget_of_passes_goes_to_what_is_open(reading: Reading, tmp_path: Path) -> None:
    """Certificates are bounded by seconds alone; rows that they settle take nothing of the budget."""
    through = finish(begin(subject(budget="1000"), tmp_path / "enough"))
    assert small_runs.fates(through.rows) == small_runs.fates(reading.rows)
    assert through.manifest.cut is None
    assert finish(begin(subject(None, budget="1000"), tmp_path / "alone")).manifest.cut == "passes"
    cut = finish(begin(subject(budget="62"), tmp_path / "short"))
    assert cut.manifest.cut == "passes"
    assert cut.settled_first == reading.settled_first
    assert cut.figures.status["pending"] > 0
    for folder in ("enough", "short"):
        assert not [finding for finding in verify_files(tmp_path / folder) if finding.holds is False]


def test_time_that_is_up_ends_the_certificates_too(tmp_path: Path) -> None:
    """What was not asked by then is open, and no proof."""
    run = begin(subject(budget="1s"), tmp_path / "run")
    run.before = 2.0
    cut = finish(run)
    assert cut.manifest.cut == "time"
    assert cut.certificates == ()
    assert cut.figures.status["pending"] + cut.figures.status["standing"] + cut.figures.status["broken"] > 0
    assert cut.figures.status["certified"] == 0


def test_where_every_row_is_proved_no_attack_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The truth is known on these rows, and every report can say so."""
    sure = finish(begin(subject(eps=1e-5), tmp_path / "run"))
    assert not sure.attempts
    assert sure.complete
    assert sure.figures.certified_accuracy.count == sure.figures.robust_accuracy.count == 60 - len(small_net.WRONG)
    assert not [finding for finding in verify_files(sure.folder) if finding.holds is False]
    for kind in ("text", "json", "markdown", "html", "latex", "robustbench", "model-card"):
        assert main(["report", str(sure.folder), "--format", kind]) == 0
    assert main(["diagnose", str(sure.folder)]) in (0, 6)
    told = capsys.readouterr().out
    assert "both bounds meet" in told
    assert "broken rows)" in told


def test_where_both_bounds_meet_no_attack_has_to_be_trusted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A weak suite makes a figure suspect only where a row stands that it alone speaks for."""
    whole = finish(begin(subject(None, suite="pgd"), tmp_path / "open"))
    assert whole.figures.status["standing"] > 0
    assert "weak-suite" in whole.claim.line()
    met = finish(begin(subject(suite="pgd"), tmp_path / "met"))
    assert met.figures.settled
    assert met.claim.settled
    assert not whole.figures.settled
    assert not whole.claim.settled
    assert "suspect" not in met.claim.line()
    made = {one.check for one in met.diagnoses if one.raised is not None}
    assert not made & {"weak-suite", "wrong-gradients", "attacked-as-trained"}
    assert made >= {"incomplete", "certified-and-broken", "errors-in-rows"}
    told = {}
    for name in ("open", "met"):
        main(["report", str(tmp_path / name)])
        main(["check", str(tmp_path / name)])
        told[name] = capsys.readouterr().out
    assert "both bounds meet" in told["met"]
    assert "an attack bounds robust accuracy from above only" not in told["met"]
    assert "both bounds meet" not in told["open"]
    assert "an attack bounds robust accuracy from above only" in told["open"]
    gaps = [gap.what for gap in not_covered(met.manifest, settled=True)]
    assert "Rounding in the deployed model" in gaps
    assert "Stronger attacks" not in gaps
