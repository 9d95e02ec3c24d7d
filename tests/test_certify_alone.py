"""``brinell certify`` on a model: both bounds without any attack, and no row that merely was not broken counts."""

import json
from pathlib import Path

import pytest

import small_net
import small_runs
from brinell.claims.bounds import bounds_of
from brinell.cli import main
from brinell.errors import EXIT_DONE, EXIT_INCOMPLETE
from brinell.finishing import finish
from brinell.opening import begin
from brinell.result import Reading, read_run
from brinell.verify import verify_files
from test_certify_first import ASKED, WHERE, stopping_after, subject

CERTIFY = ["certify", *WHERE, "--method", "slopes", "--seconds", "5", "--quiet"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    assert main([*CERTIFY, "--out", str(tmp_path / "run")]) == EXIT_DONE
    return tmp_path / "run"


def test_what_is_not_proved_is_open(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Some rows are proved, some are not; those that are not count for nobody."""
    reading = read_run(folder)
    status = reading.figures.status
    assert status["misclassified"] == len(small_net.WRONG)
    assert status["certified"] > 20
    assert status["pending"] > 0
    assert status["standing"] == 0
    assert not reading.attempts
    assert reading.figures.robust_accuracy.value is None
    assert reading.figures.robust_accuracy.bounds == (status["certified"] / 60, (60 - status["misclassified"]) / 60)
    assert main(["report", str(folder)]) == EXIT_DONE
    told = capsys.readouterr().out
    assert f"unresolved in between: {status['pending']} rows" in told
    assert f"no attack was made, {status['pending']} rows unresolved" in told
    assert "≤" not in told


def test_it_verifies_and_every_report_can_be_made(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(folder)]) == 0
    assert main(["diagnose", str(folder)]) == 0
    for kind in ("text", "json", "markdown", "html", "latex", "robustbench", "model-card"):
        capsys.readouterr()
        assert main(["report", str(folder), "--format", kind]) == EXIT_DONE
        assert capsys.readouterr().out
    said = json.loads((folder / "result.json").read_text("utf-8"))
    assert said["complete"] is True
    assert said["robust_accuracy"]["value"] is None
    page = (folder / "report.html").read_text("utf-8")
    assert "Certificates alone were sought" in page
    assert "upper bound by suite none" not in page


def test_a_run_with_certificates_and_no_suite_is_the_same(folder: Path, tmp_path: Path) -> None:
    asked = ["--suite", "none", "--certify", "slopes", "--certify-seconds", "5"]
    assert main(["run", *WHERE, *asked, "--out", str(tmp_path / "again"), "--quiet"]) == EXIT_DONE
    assert small_runs.fates(read_run(tmp_path / "again").rows) == small_runs.fates(read_run(folder).rows)
    assert main(["run", "--resume", str(folder), "--quiet"]) == EXIT_DONE


def test_a_spec_file_says_it_too(folder: Path, tmp_path: Path) -> None:
    spec = tmp_path / "spec.toml"
    text = (folder / "spec.toml").read_text("utf-8").replace('suite = "none"', 'suite = "pgd"')
    spec.write_text(text, "utf-8")
    assert main(["certify", str(spec), "--out", str(tmp_path / "again"), "--quiet"]) == EXIT_DONE
    again = read_run(tmp_path / "again")
    assert again.manifest.certified is not None
    assert again.manifest.certified.first == ASKED
    assert small_runs.fates(again.rows) == small_runs.fates(read_run(folder).rows)


def test_more_time_goes_on(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = read_run(folder).figures.status
    assert main(["certify", str(folder), "--method", "branch", "--seconds", "1"]) == EXIT_DONE
    reading = read_run(folder)
    assert reading.figures.status["certified"] >= before["certified"]
    certified = reading.figures.status["certified"]
    assert f"{certified} rows are certified" in " ".join(capsys.readouterr().out.split())
    assert main(["verify", str(folder), "--files-only"]) == 0


def test_it_goes_on_after_a_cut(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    observer, stop = stopping_after(5)
    cut = tmp_path / "cut"
    half = finish(begin(subject(suite="none"), cut), observer, stop=stop)
    assert half.manifest.state == "interrupted"
    assert len(half.certificates) == 5
    assert main(["report", str(cut)]) == EXIT_INCOMPLETE
    assert "run incomplete" in capsys.readouterr().out
    assert not [finding for finding in verify_files(cut) if finding.holds is False]


@pytest.mark.parametrize("by_place", [True, False])
def test_it_goes_on_by_the_command(folder: Path, by_place: bool) -> None:
    """A record that was cut off after its fifth row, as far as anybody can tell."""
    whole = small_runs.fates(read_run(folder).rows)
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    manifest["state"] = "interrupted"
    (folder / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    small_runs.edit(folder, "DELETE FROM certificates WHERE row > 5")
    small_runs.edit(folder, "UPDATE rows SET status = 'pending' WHERE row > 5 AND status = 'certified'")
    assert main(["certify", *([] if by_place else ["--resume"]), str(folder), "--quiet"]) == EXIT_DONE
    assert small_runs.fates(read_run(folder).rows) == whole
    assert read_run(folder).manifest.state == "complete"


@pytest.mark.parametrize(
    "options",
    [
        ["run", *WHERE, "--suite", "none"],
        ["run", *WHERE, "--suite", "none", "--certify", "crown", "--budget", "100/row"],
        ["certify", *WHERE, "--suite", "pgd"],
        ["certify", *WHERE, "--budget", "100/row"],
        ["certify", *WHERE, "--surrogate", small_runs.OTHER_NET],
        ["certify", *WHERE, "--certify", "crown"],
        ["certify", *WHERE, "--seconds", "0"],
        ["certify", *WHERE, "--outputs", "probabilities"],
        ["certify", "--model", small_runs.NET],
    ],
)
def test_what_makes_no_sense_is_refused(options: list[str], tmp_path: Path) -> None:
    assert main([*options, "--out", str(tmp_path / "run")]) == 2
    assert not (tmp_path / "run").exists()


def test_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certify"]) == 2
    assert "Name a run's folder" in capsys.readouterr().err


def test_a_run_says_itself_what_it_is_of(folder: Path, tmp_path: Path) -> None:
    sealed = (folder / "manifest.json").read_bytes()
    for options in (["--eps", "0.1"], ["--out", str(tmp_path / "other")], ["--norm", "l2"]):
        assert main(["certify", str(folder), *options]) == 2
    assert (folder / "manifest.json").read_bytes() == sealed


def test_the_figure_of_an_unfinished_run_is_no_certificate(folder: Path) -> None:
    """Bounds: the certified rows from below; all rows that are right and not broken from above."""
    reading: Reading = read_run(folder)
    certified, right = reading.figures.status["certified"], 60 - len(small_net.WRONG)
    ends = {(bound.upper, bound.count) for bound in bounds_of(reading.claim)}
    assert (False, certified) in ends
    assert (True, right) in ends
    assert all(bound.count in (certified, right) for bound in bounds_of(reading.claim))
