"""What `brinell certify` says: of a property, of what it refuses and why, and which option is meant."""

import json
from pathlib import Path

import pytest

import small_runs
from brinell.certify.decide import Verdict
from brinell.cli import main
from brinell.errors import EXIT_DONE, EXIT_OPEN, EXIT_VERIFICATION_FAILED
from brinell.report.verdict import reason
from test_certify_first import WHERE


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A complete run of twenty rows, with attacks."""
    options = ["--rows", "0:20", "--suite", "fgsm", "--quiet", "--out", str(tmp_path / "run")]
    assert main(["run", *WHERE, *options]) == EXIT_DONE
    return tmp_path / "run"


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What is said on stderr where nothing was done."""
    capsys.readouterr()
    assert main([str(one) for one in arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    return said.err


def property_of(folder: Path, unsafe: str) -> list[str]:
    """The options that ask for a property of ``y_0 = relu(x_0 - x_1)``, ``y_1 = relu(x_1 - x_0) + 0.5``."""
    pytest.importorskip("onnx")
    import test_certify_files

    test_certify_files.difference(folder)
    (folder / "asked.vnnlib").write_text(test_certify_files.BOX + unsafe, "utf-8")
    return ["certify", "--model", str(folder / "difference.onnx"), "--vnnlib", str(folder / "asked.vnnlib")]


@pytest.mark.parametrize("out", ["nowhere/witness.txt", "asked.vnnlib", "asked.vnnlib/witness.txt"])
def test_where_a_witness_goes_is_looked_at_first(tmp_path: Path, capsys: pytest.CaptureFixture[str], out: str) -> None:
    asked = property_of(tmp_path, "(assert (<= Y_0 0.26))")
    said = refused(capsys, *asked, "--out", tmp_path / out)
    assert "a new file in a folder that is there" in said
    assert main([*asked, "--out", str(tmp_path / "witness.txt")]) == EXIT_VERIFICATION_FAILED
    assert (tmp_path / "witness.txt").read_text("utf-8").startswith("((X_0 ")


@pytest.mark.parametrize(
    ("unsafe", "code", "line"),
    [
        ("(assert (<= Y_0 0.24))", EXIT_DONE, "holds (unsat): by interval, margin 0.01 above the slack 0.0001, in "),
        ("(assert (<= Y_0 0.26))", EXIT_VERIFICATION_FAILED, "violated (sat): a witness by descent, in "),
        # y_0 is at least 0.25: 0.00001 above the bound that is asked for, and within the slack
        ("(assert (<= Y_0 0.24999))", EXIT_OPEN, "bound 1e-05 is within the slack 0.0001, in "),
    ],
)
def test_a_verdict_says_how_it_came_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], unsafe: str, code: int, line: str
) -> None:
    asked = property_of(tmp_path, unsafe)
    capsys.readouterr()
    assert main([*asked, "--seconds", "2"]) == code
    said = capsys.readouterr()
    assert said.out.split()[0] in ("holds", "violated", "unknown")
    assert said.err.startswith(f"{tmp_path / 'difference.onnx'}, {tmp_path / 'asked.vnnlib'}: {said.out.split()[0]}")
    assert line in said.err
    assert main([*asked, "--seconds", "2", "--json", "--quiet"]) == code
    said = capsys.readouterr()
    assert said.err == ""
    assert json.loads(said.out)["slack"] == pytest.approx(1e-4)


def test_a_verdict_without_a_bound_says_so() -> None:
    nothing = Verdict("unknown", "none", -float("inf"), 1e-4, 0.04, None, "")
    assert reason(nothing) == "unknown: no witness, and no bound by none, in 0.0 s"
    below = Verdict("unknown", "crown", -0.5, 1e-4, 1.0, None, "")
    assert "bound -0.5 is not above the slack" in reason(below)


def test_got_is_what_was_given(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The run's own is what was expected, and the remedy names the option."""
    own = json.loads((folder / "manifest.json").read_text("utf-8"))
    said = refused(capsys, "certify", folder, "--model", small_runs.OTHER_NET)
    got, expected = (said.split(label)[1] for label in ("got", "expected"))
    assert own["model"]["fingerprint"] in expected
    assert own["model"]["fingerprint"] not in got.split("expected")[0]
    assert "Give --model" in said
    rows = tmp_path / "rows.py"
    rows.write_text("import small_net\n\ndef rows():\n    x, y = small_net.rows()\n    return x * 0.5, y\n", "utf-8")
    said = refused(capsys, "certify", folder, "--data", f"{rows}:rows")
    assert own["data"]["digest"] in said.split("expected")[1]
    assert "Give --data" in said


@pytest.mark.parametrize(("attacked", "command"), [(True, "brinell run --resume"), (False, "brinell certify")])
def test_a_run_that_was_killed_is_gone_on_with_first(
    folder: Path, capsys: pytest.CaptureFixture[str], attacked: bool, command: str
) -> None:
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    manifest["state"] = "running"
    if not attacked:
        manifest["suite"]["attacks"] = []
    (folder / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    said = refused(capsys, "certify", folder, "--seconds", "1")
    assert "running" in said.split("expected")[0]
    assert f"go on with it first, without options: {command} {folder}." in said


def test_changed_files_are_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (folder / "witnesses.npy").open("ab") as file:
        file.write(b"0")
    said = refused(capsys, "certify", folder)
    assert "witnesses.npy changed or gone" in said


@pytest.mark.parametrize(
    ("options", "got", "remedy"),
    [
        (["--outputs", "probabilities"], "outputs declared as probabilities", "as logits"),
        (["--suite", "brinell-rand"], "the suite brinell-rand, for randomised models", "Choose another suite"),
    ],
)
def test_what_cannot_be_certified_is_said_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], got: str, remedy: str
) -> None:
    said = refused(capsys, "run", *WHERE, "--certify", "crown", *options, "--out", tmp_path / "run")
    assert got in said
    assert remedy in said
    assert "True" not in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("command", "options", "found"),
    [
        ("certify", ["--seconds", "1"], "--seconds"),
        ("certify", ["--method", "crown", "--batch-size", "3"], "--batch-size, --method"),
        ("certify", ["--model", small_runs.NET], "--model"),
        ("certify", ["--sigma", "0.1"], "--sigma"),
        ("run", ["--eps", "0.1", "--out", "elsewhere"], "--eps, --out"),
    ],
)
def test_options_beside_resume_are_refused_by_name(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str, options: list[str], found: str
) -> None:
    sealed = (folder / "manifest.json").read_bytes()
    assert f"{found} beside it" in refused(capsys, command, "--resume", folder, *options)
    assert (folder / "manifest.json").read_bytes() == sealed


def test_options_beside_a_property_are_refused_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = property_of(tmp_path, "(assert (<= Y_0 0.24))")
    said = refused(capsys, *asked, "--eps", "0.1", "--method", "crown")
    assert "--method, --eps beside it" in said
    assert "--quiet" in said
