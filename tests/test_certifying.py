"""Certificates in a run's record: beside the attacks, never against them."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

import brinell
import small_net
import small_runs
from brinell import proving
from brinell.certify.chain import Certificate
from brinell.certifying import certify_run
from brinell.claims.compare import compare
from brinell.claims.sources import account_of
from brinell.cli import main
from brinell.diagnose.diagnosis import outcome_of
from brinell.errors import BadInput
from brinell.exported import as_data
from brinell.handed import subject_of
from brinell.report.certified import between, bounds
from brinell.result import Reading, read_run
from brinell.spec import CertifySpec
from brinell.subject import Subject
from brinell.threat import Threat
from brinell.verify import verify_files, verify_with_model

EPS = 0.01
"""A few of small_net's rows fall, and most of the others can be proved at once."""
ASKED = CertifySpec(method="branch", seconds=1.0)


def subject(eps: float = EPS, **changes: Any) -> Subject:
    x, y = small_net.rows()
    options = {"suite": small_runs.SMALL, "seed": 0, "outputs": "logits", "rows": "all", "layout": "as-is", "size": 60}
    return subject_of(small_net.load(), x, y, threat=Threat("linf", eps), **{**options, **changes})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    small_runs.small_result(tmp_path / "run", threat=Threat("linf", EPS))
    return tmp_path / "run"


@pytest.fixture
def certified(folder: Path) -> Reading:
    return certify_run(subject(), folder, asked=ASKED)


def test_both_bounds_hold_together(folder: Path, certified: Reading) -> None:
    """What was standing is certified or still stands; what was broken stays broken."""
    before = {
        row.row: row.status for row in small_runs.small_result(folder.parent / "again", threat=Threat("linf", EPS)).rows
    }
    after = {row.row: row.status for row in certified.rows}
    assert all(after[row] == status for row, status in before.items() if status != "standing")
    assert {after[row] for row, status in before.items() if status == "standing"} <= {"certified", "standing"}
    figures = certified.figures
    assert figures.certified_accuracy.count > 20
    assert figures.robust_accuracy.count == figures.certified_accuracy.count + figures.status["standing"]
    assert all(record.margin > record.slack for record in certified.certificates if record.outcome == "certified")  # type: ignore[operator]


def test_the_record_verifies_and_says_both(
    folder: Path, certified: Reading, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(folder), "--files-only"]) == 0
    assert main(["report", str(folder)]) == 0
    told = capsys.readouterr().out
    assert f"≥  {certified.figures.certified_accuracy}" in told
    assert certified.claim.line().startswith(
        f"certified, at least {certified.figures.certified_accuracy} | robust accuracy"
    )
    said = json.loads((folder / "result.json").read_text("utf-8"))
    assert said["certified_accuracy"]["count"] == certified.figures.certified_accuracy.count
    assert main(["report", str(folder), "--format", "html"]) == 0
    capsys.readouterr()
    page = (folder / "report.html").read_text("utf-8")
    assert between(certified) in page
    for kind in ("markdown", "latex"):
        assert main(["report", str(folder), "--format", kind]) == 0
        assert "lower bound" in capsys.readouterr().out


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE rows SET status = 'certified' WHERE row = (SELECT min(row) FROM rows WHERE status = 'broken')",
        "UPDATE rows SET status = 'standing' WHERE row = (SELECT min(row) FROM rows WHERE status = 'certified')",
        "UPDATE certificates SET margin = -1.0 WHERE outcome = 'certified'",
        "DELETE FROM certificates WHERE row = (SELECT min(row) FROM certificates WHERE outcome = 'certified')",
    ],
)
def test_a_changed_certificate_is_found(folder: Path, certified: Reading, statement: str) -> None:
    with sqlite3.connect(folder / "ledger.sqlite") as ledger:
        ledger.execute(statement)
    broken = [finding.check for finding in verify_files(folder) if finding.holds is False]
    assert {"statuses", "certificates"} & set(broken)


def test_certified_and_broken_is_no_figure(
    folder: Path, certified: Reading, capsys: pytest.CaptureFixture[str]
) -> None:
    with sqlite3.connect(folder / "ledger.sqlite") as ledger:
        ledger.execute(
            "UPDATE rows SET status = 'broken' WHERE row = (SELECT min(row) FROM certificates WHERE outcome = 'certified')"
        )
    reading = read_run(folder)
    assert outcome_of(reading.diagnoses) == "invalid"
    assert reading.refused is not None
    assert "certified-and-broken" in reading.refused
    said = as_data(reading)
    assert said["robust_accuracy"] is None
    assert said["certified_accuracy"] is None
    assert "certified-and-broken" in said["refused_for"]
    assert reading.claim.certified is None
    for kind in ("text", "markdown", "latex", "robustbench", "model-card", "html"):
        assert main(["report", str(folder), "--format", kind]) == 0
        told = capsys.readouterr().out if kind != "html" else (folder / "report.html").read_text("utf-8")
        assert f"{certified.figures.robust_accuracy.count}/60 = " not in told
        assert f"{certified.figures.certified_accuracy.count}/60 = " not in told
        assert "certified-and-broken" in told or kind == "model-card"


def test_both_bounds_stand_side_by_side(folder: Path, certified: Reading, capsys: pytest.CaptureFixture[str]) -> None:
    """The upper end is the lower one and the rows in between, on the same rows."""
    proved, standing = certified.figures.status["certified"], certified.figures.status["standing"]
    both = bounds(certified)
    assert both is not None
    assert both.certified.startswith(f"{proved}/60 = ")
    assert both.standing.startswith(f"{proved + standing}/60 = ")
    assert both[2:] == (str(standing), "branch", "Linf", str(EPS))
    assert as_data(certified)["refused_for"] is None
    for kind in ("text", "markdown", "latex", "html"):
        assert main(["report", str(folder), "--format", kind]) == 0
        told = capsys.readouterr().out if kind != "html" else (folder / "report.html").read_text("utf-8")
        for cell in both[:2]:
            assert cell in told.replace("\\", "")


def test_certificates_settle_a_comparison(folder: Path, certified: Reading, tmp_path: Path) -> None:
    """The proof of one against the attack on the other: more robust in truth, on these rows."""
    weaker = small_runs.small_result(tmp_path / "weaker", threat=Threat("linf", 0.06)).reading
    verdict = compare(account_of(certified, "proved"), account_of(weaker, "attacked"))
    assert verdict.outcome == "cannot conclude"  # at another eps: one model, and no lower bound at 0.06
    assert "more robust" not in verdict.sentence


def test_what_is_known_is_not_asked_again(folder: Path, certified: Reading) -> None:
    asked: list[int] = []
    again = certify_run(subject(), folder, asked=ASKED, told=lambda number, of, proved: asked.append(of))
    assert asked == [certified.figures.status["standing"]] * certified.figures.status["standing"]
    assert again.figures.certified_accuracy.count >= certified.figures.certified_accuracy.count


def test_it_goes_on_after_a_stop_and_after_a_kill(folder: Path, certified: Reading, tmp_path: Path) -> None:
    """What was asked by then is kept, and the record is the same in the end."""
    cut = small_runs.small_result(tmp_path / "cut", threat=Threat("linf", EPS)).folder
    seen: list[int] = []
    stopped = certify_run(
        subject(), cut, asked=ASKED, told=lambda number, of, proved: seen.append(number), stop=lambda: len(seen) == 5
    )
    assert len(stopped.certificates) == 5
    assert not [finding for finding in verify_files(cut) if finding.holds is False]

    def killed(number: int, of: int, proved: int) -> None:
        if number == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        certify_run(subject(), cut, asked=ASKED, told=killed)
    assert len(read_run(cut).certificates) > 5
    through = certify_run(subject(), cut, asked=ASKED)
    assert [row.status for row in through.rows] == [row.status for row in certified.rows]
    assert not [finding for finding in verify_files(cut) if finding.holds is False]


def test_a_point_that_the_model_is_right_on_breaks_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that offers the clean input itself: the row stays as it is, and the record counts the refusal."""

    seconds = 0.1

    def offered(_: object, x: Tensor, *__: object, **___: object) -> Iterator[Certificate]:
        yield Certificate("violated", "branch", -1.0, 1e-4, EPS, seconds, 1, x)

    monkeypatch.setattr(proving, "certify", offered)
    standing = read_run(folder).figures.status["standing"]
    after = certify_run(subject(), folder, asked=ASKED)
    assert after.figures.status["standing"] == after.figures.unconfirmed == standing > 1
    assert {record.outcome for record in after.certificates} == {"unknown"}
    assert next(one for one in after.diagnoses if one.check == "witnesses-refused").raised
    assert not [finding for finding in verify_files(folder) if finding.holds is False]
    again = certify_run(subject(), folder, asked=ASKED)  # seconds of a row add up
    assert {record.seconds for record in again.certificates} == {2 * seconds}
    assert again.figures.unconfirmed == 2 * standing


def test_other_models_and_rows_are_refused(folder: Path) -> None:
    before = (folder / "manifest.json").read_bytes()
    for other in (subject(rows="0:30"), subject(outputs="probabilities")):
        with pytest.raises(BadInput, match="run"):
            certify_run(other, folder, asked=ASKED)
    assert (folder / "manifest.json").read_bytes() == before


def test_half_precision_is_refused(tmp_path: Path) -> None:
    """Its rounding is larger than the slack."""
    x, y = small_net.rows()
    model = small_net.load().half()
    threat = Threat("linf", EPS)
    options = {"seed": 0, "outputs": "logits", "rows": "all", "layout": "as-is", "size": 60}
    half = subject_of(model, x.float(), y, threat=threat, suite="fgsm", **options)
    result = brinell.evaluate(model, x.float(), y, threat=threat, suite="fgsm", out=tmp_path / "half")
    with pytest.raises(BadInput, match="below float32"):
        certify_run(half, tmp_path / "half", asked=ASKED)
    assert result.reading.certificates == ()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = [
        "--model",
        small_runs.NET,
        "--data",
        small_runs.ROWS,
        "--norm",
        "linf",
        "--eps",
        str(EPS),
        "--suite",
        "pgd",
    ]
    assert main(["run", *where, "--rows", "0:20", "--out", str(tmp_path / "run"), "--quiet"]) == 0
    capsys.readouterr()
    assert main(["certify", str(tmp_path / "run"), "--seconds", "1", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["certified_accuracy"]["count"] > 5
    assert said["certified"]["asked"][-1]["method"] == "branch"
    assert main(["verify", str(tmp_path / "run")]) == 0
    assert "certificates proved again" in capsys.readouterr().out
    assert main(["verify", str(tmp_path / "run"), "--seconds", "2"]) == 0
    assert "0 do not, 0 not checked" in " ".join(capsys.readouterr().out.split())
    assert main(["verify", str(tmp_path / "run"), "--seconds", "2", "--files-only"]) == 2


def test_verify_proves_again(folder: Path, certified: Reading) -> None:
    """As often as the certificates were proved; not at all without being asked; what a weaker step cannot prove is open."""
    count = certified.figures.status["certified"]
    assert proved_again(folder, seconds=5.0) == (True, f"{count} of {count}")
    holds, detail = proved_again(folder, seconds=None)
    assert holds is None
    assert detail.startswith(f"none of {count}: ")
    small_runs.edit(folder, "UPDATE certificates SET method = 'interval', step = 'slopes' WHERE step = 'crown'")
    holds, detail = proved_again(folder, seconds=5.0)
    assert holds is None
    assert int(detail.split()[0]) < count


PROVED = "WHERE row = (SELECT min(row) FROM certificates WHERE outcome = 'certified')"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE certificates SET slack = 0 " + PROVED,
        "UPDATE certificates SET slack = 9e-5 " + PROVED,
        "UPDATE certificates SET margin = 9e999 " + PROVED,
        "UPDATE certificates SET step = NULL " + PROVED,
        "UPDATE certificates SET step = 'none' " + PROVED,
        "UPDATE certificates SET method = 'interval', step = 'crown' " + PROVED,
        "UPDATE rows SET clean_margin = NULL, clean_prediction = NULL WHERE status = 'certified'",
        "UPDATE rows SET clean_prediction = (label + 1) % 4 WHERE status = 'certified'",
        "UPDATE rows SET clean_prediction = (label + 1) % 4 WHERE status = 'broken'",
    ],
)
def test_what_no_certificate_can_say_is_found_in_the_files(folder: Path, certified: Reading, statement: str) -> None:
    small_runs.edit(folder, statement)
    broken = [finding.check for finding in verify_files(folder) if finding.holds is False]
    assert {"statuses", "certificates"} & set(broken)


@pytest.mark.parametrize("change", ["margin = margin + 1000", "slack = slack * 3", "slack = slack * 0.99"])
def test_a_certificates_numbers_are_computed_again(folder: Path, certified: Reading, change: str) -> None:
    """No proof is needed: the clean input lies in the set, and the slack follows from its logits."""
    assert said_by_the_model(folder)["certificates' numbers by the model"] is True
    small_runs.edit(folder, f"UPDATE certificates SET {change} {PROVED}")
    assert said_by_the_model(folder)["certificates' numbers by the model"] is False


@pytest.mark.parametrize("change", ["margin = margin * 1.001", "margin = margin * 0.999", "step = 'interval'"])
def test_exact_steps_give_the_recorded_margin_again(folder: Path, certified: Reading, change: str) -> None:
    """The least margins are changed, so that they stay below those of the clean inputs."""
    row = min((r for r in certified.certificates if r.step == "crown"), key=lambda record: record.margin or 0.0).row
    small_runs.edit(folder, f"UPDATE certificates SET {change} WHERE row = ?", row)
    assert said_by_the_model(folder)["certificates' numbers by the model"] is True
    holds, detail = proved_again(folder, seconds=5.0)
    assert holds is False
    assert f"another margin on rows [{row}]" in detail


def test_a_wrong_row_that_is_given_its_predictions_label_is_found(folder: Path, certified: Reading) -> None:
    """The record is whole by itself: a real proof, of another label than the data's."""
    wrong = small_net.WRONG[0]
    small_runs.edit(
        folder,
        "UPDATE rows SET label = clean_prediction, clean_margin = 1.0, status = 'certified' WHERE row = ?",
        wrong,
    )
    said = said_by_the_model(folder, seconds=5.0)
    assert said["data"] is True
    assert said["labels"] is False


def said_by_the_model(folder: Path, seconds: float | None = None) -> dict[str, bool | None]:
    asked = subject()
    return {one.check: one.holds for one in verify_with_model(folder, asked.model, asked.rows, seconds=seconds)}


def test_a_certificate_that_an_error_contradicts_fails(folder: Path, certified: Reading) -> None:
    """A misclassified row passed off as certified: its own input is the error."""
    wrong = small_net.WRONG[0]
    with sqlite3.connect(folder / "ledger.sqlite") as ledger:
        source = "SELECT ?, method, step, first, outcome, margin, slack, questions, seconds FROM certificates"
        ledger.execute(f"INSERT INTO certificates {source} WHERE outcome = 'certified' LIMIT 1", (wrong,))
        assert ledger.total_changes == 1
    holds, detail = proved_again(folder, seconds=5.0)
    assert holds is False
    assert f"rows [{wrong}]" in detail


def proved_again(folder: Path, seconds: float | None) -> tuple[bool | None, str]:
    asked = subject()
    found = verify_with_model(folder, asked.model, asked.rows, seconds=seconds)
    (one,) = (finding for finding in found if finding.check == "certificates proved again")
    return one.holds, one.detail
