"""``brinell certify`` on a model: both bounds without any attack, and no row that merely was not broken counts."""

import json
import re
from pathlib import Path

import pytest

import small_net
import small_runs
from brinell.claims.bounds import bounds_of
from brinell.cli import main
from brinell.diagnose.checks import CHECKS
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
    upper = next(line for line in told.splitlines() if line.startswith("not broken by the search for a proof"))
    assert f"≤  {60 - status['misclassified']}/60" in upper
    assert "attack success rate" not in told


def test_it_verifies_and_every_report_can_be_made(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(folder)]) == 0
    assert main(["diagnose", str(folder)]) == 0
    for kind in ("text", "json", "markdown", "html", "latex", "model-card"):
        capsys.readouterr()
        assert main(["report", str(folder), "--format", kind]) == EXIT_DONE
        assert capsys.readouterr().out
    assert main(["report", str(folder), "--format", "robustbench"]) == 2
    assert "certificates alone" in capsys.readouterr().err
    said = json.loads((folder / "result.json").read_text("utf-8"))
    assert said["complete"] is True
    assert said["robust_accuracy"]["value"] is None
    page = (folder / "report.html").read_text("utf-8")
    assert "Certificates alone were sought" in page
    assert "upper bound by suite none" not in page


def test_no_report_takes_it_for_an_attack(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither a rate of attacks, nor an empirical accuracy, nor a table of attacks."""
    assert json.loads((folder / "result.json").read_text("utf-8"))["attack_success_rate"] is None
    told = {}
    for kind in ("text", "markdown", "latex", "html"):
        capsys.readouterr()
        assert main(["report", str(folder), "--format", kind]) == EXIT_DONE
        told[kind] = (folder / "report.html").read_text("utf-8") if kind == "html" else capsys.readouterr().out
        told[kind] = told[kind].partition('<script type="application/json"')[0]
        assert "not broken by the search for a proof" in told[kind].lower(), kind
        assert not re.search(r"attack success rate|empirical|the attacks s|each attack was", told[kind], re.I), kind
    assert "| attack |" not in told["markdown"]


def test_cards_of_models_have_the_certified_accuracy(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With attacks and without; the robust accuracy stands beside it where it is known."""
    run = ["run", *WHERE, "--suite", "fgsm", "--certify", "slopes", "--certify-seconds", "5", "--quiet"]
    assert main([*run, "--out", str(tmp_path / "attacked")]) == EXIT_DONE
    for place, known in ((folder, False), (tmp_path / "attacked", True)):
        capsys.readouterr()
        assert main(["report", str(place), "--format", "model-card"]) == EXIT_DONE
        told, status = capsys.readouterr().out, read_run(place).figures.status
        assert f"certified_accuracy\n      value: {100 * status['certified'] / 60:.2f}" in told
        assert ("type: robust_accuracy" in told) == known


def test_a_reader_is_told_that_nothing_was_attacked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small_runs.edit(folder, "UPDATE certificates SET seconds = 2.0")
    small_runs.edit(folder, "UPDATE certificates SET outcome = 'violated' WHERE row = 1")
    small_runs.edit(folder, "UPDATE rows SET status = 'broken' WHERE row = 1")
    reading = read_run(folder)
    main(["check", str(folder)])
    told = capsys.readouterr().out
    assert "none: no attack was made; the search for a proof broke 1" in told
    assert "none: no attack was made " in told
    assert f"{2 * len(reading.certificates)} s of search for proofs" in told
    assert "With how many restarts?" not in told
    assert "no attack was made on them" in told
    assert "rounding breaks no row" not in told
    assert not reading.claim.settled


def test_checks_of_attacks_do_not_apply(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are one line, not one each; a witness that the model refused would be told."""
    assert main(["diagnose", str(folder)]) == EXIT_DONE
    told = capsys.readouterr().out
    made = {one.check for one in read_run(folder).diagnoses if one.raised is not None}
    assert made >= {"errors-in-rows", "witnesses-refused", "certified-and-broken"}
    moot = len(CHECKS) - len(made) - 2  # nothing is declared, and no attack was to go through all rows
    assert re.search(rf"{moot} others +do not apply: no attack was made", told)
    assert "wandering" not in told
    assert told.splitlines()[-1].endswith(
        f"; 2 not made: incomplete, clean-accuracy-as-declared; {moot} do not apply, for no attack was made"
    )
    assert main(["report", str(folder)]) == EXIT_DONE
    assert f"2 could not be made; {moot} do not apply, for no attack was made" in capsys.readouterr().out


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
