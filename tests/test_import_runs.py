"""Points that another tool made become a run that verifies, whose figures are those of the points, and of all rows."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import brinell
import small_net
from brinell.cli import main
from brinell.errors import BadInput
from brinell.evaluation import Result, open_run
from brinell.evaluation import resume as resume_run
from brinell.finishing import finish
from brinell.imports.request import requested
from brinell.manifest import read_manifest, write_manifest
from small_runs import NET, OTHER_NET, ROWS, THREAT, small_result

EPS = "0.06"
X, Y = (part.numpy() for part in small_net.rows())


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """A run of Brinell's, whose witnesses pass for another tool's points."""
    return small_result(tmp_path_factory.mktemp("own") / "run")


@pytest.fixture(scope="module")
def points(own: Result) -> Any:
    x_adv = X.copy()
    for record in own.rows:
        if record.status == "broken":
            x_adv[record.row] = own.witness(record.row)
    return x_adv


def errs(x: Any) -> Any:
    return small_net.load()(torch.from_numpy(x)).argmax(1).numpy() != Y


class Imports:
    """``brinell import`` of some arrays, in a folder of its own."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys, self.count = folder, capsys, 0

    def __call__(
        self, arrays: dict[str, Any], *options: str, tool: str = "arrays", eps: str = EPS
    ) -> tuple[int, Any, str]:
        """Exit code, what is printed as JSON, and what is said beside."""
        self.count += 1
        np.savez(self.folder / "theirs.npz", **arrays)
        where = ["--out", str(self.folder / str(self.count))] if "--model" in options else []
        command = ["import", tool, str(self.folder / "theirs.npz"), "--norm", "linf", "--eps", eps, "--json", *options]
        self.capsys.readouterr()
        code = main([*command, *where])
        said = self.capsys.readouterr()
        return code, json.loads(said.out) if said.out else None, " ".join(said.err.split())

    @property
    def run(self) -> Path:
        """The folder of the last run."""
        return self.folder / str(self.count)


@pytest.fixture
def imports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Imports:
    return Imports(tmp_path, capsys)


MODEL = ("--model", NET)


def raised(result: Any) -> dict[str, str]:
    return {f["check"]: f["detail"] for f in result["imported"]["findings"] if f["holds"] is False}


def test_the_figures_of_an_import_are_those_of_the_points(imports, points, own):
    code, result, _ = imports({"x": X, "x_adv": points, "y": Y}, *MODEL)
    assert code == 0
    assert raised(result) == {}
    assert result["status"] == own.figures.status
    assert result["perturbation"]["mean"] == pytest.approx(own.figures.perturbation.mean)
    assert "suite imported from arrays v" in result["claim"]
    run = open_run(imports.run)
    broken = [record.row for record in own.rows if record.status == "broken"]
    assert broken == [record.row for record in run.rows if record.status == "broken"]
    assert all((run.witness(row) == points[row]).all() for row in broken)
    attempts = {attempt.row: attempt for attempt in run.reading.attempts}
    assert {(attempts[row].forwards, attempts[row].outcome) for row in broken} == {(1, "fell")}
    standing = [record.row for record in own.rows if record.status == "standing"]
    assert {(attempts[row].forwards, attempts[row].outcome) for row in standing} == {(2, "stood")}


def test_an_import_is_verified_and_reported(imports, points, capsys, tmp_path):
    imports({"x": X, "x_adv": points, "y": Y, "success": errs(points)}, *MODEL)
    assert main(["verify", str(imports.run)]) == 0
    assert main(["verify", str(imports.run), "--files-only"]) == 0
    assert main(["verify", str(imports.run), "--model", OTHER_NET]) == 4
    capsys.readouterr()
    for format in ("text", "markdown"):
        assert main(["report", str(imports.run), "--format", format]) == 0
        out = " ".join(capsys.readouterr().out.split())
        assert "imported: arrays, 60 rows, " in out
        assert "successes were right before" in out
        assert "6 of 35 successes were wrong before any attack" in out
        assert "their success rate: not in the file; by their rule 0.583333" in out
        assert "of this run 0.537037 (29/54" in out
    assert main(["report", str(imports.run), "--format", "html"]) == 0
    capsys.readouterr()
    page = " ".join((imports.run / "report.html").read_text("utf-8").split())
    assert "imported: arrays, 60 rows, " in page
    assert "6 of 35 successes were wrong before any attack" in page
    assert "Their success rate: not in the file; by their rule 0.583333" in page
    # nothing that is said of the file can be changed unseen
    manifest = read_manifest(imports.run)
    write_manifest(imports.run, manifest.model_copy(update={"imported": None}))
    assert main(["verify", str(imports.run), "--files-only"]) == 4


def test_a_point_outside_breaks_a_row_by_its_projection_alone(imports, points):
    far = X + 2 * (points - X)
    code, result, _ = imports({"x": X, "x_adv": far, "y": Y}, *MODEL)
    assert code == 0
    assert set(raised(result)) == {"points in the ball", "points in the box", "rows broken by the points themselves"}
    run = open_run(imports.run)
    for record in run.rows:
        if record.status == "broken":
            assert THREAT.contains(torch.from_numpy(X[[record.row]]), torch.from_numpy(run.witness(record.row))[None])
    projected = torch.from_numpy(far).clamp(torch.from_numpy(X) - 0.06, torch.from_numpy(X) + 0.06).clamp(0, 1).numpy()
    assert result["status"]["broken"] == int((errs(projected) & ~errs(X)).sum()) > 0


def test_rounding_is_not_held_against_the_points(imports, points, own):
    """Points 1.5e-6 of eps too far: outside by the rule for witnesses, but no farther than float32 rounds."""
    _, result, _ = imports({"x": X, "x_adv": (X + (points - X) * (1 + 1.5e-6)).clip(0, 1), "y": Y}, *MODEL)
    assert raised(result) == {}
    themselves = next(f for f in result["imported"]["findings"] if f["check"].startswith("rows broken by"))
    projected = sum(
        attempt.forwards == 2 for attempt in open_run(imports.run).reading.attempts if attempt.outcome == "fell"
    )
    assert f"{projected} only to its projection, {projected} of them for rounding" in themselves["detail"]
    assert projected > 10
    assert result["status"] == own.figures.status


def test_rows_that_were_dropped_and_shuffled_stay_in_the_denominator(imports, points, own):
    right = np.random.default_rng(0).permutation(np.flatnonzero(~errs(X)))[:40]
    _, result, _ = imports({"x": X[right], "x_adv": points[right], "y": Y[right]}, *MODEL, "--data", ROWS)
    assert raised(result).keys() == {"rows of the data", "order of the rows"}
    assert (result["rows"], result["imported"]["unattacked"]) == (60, 20)
    assert "20 of 60 rows have no point in the file: they were not attacked, and stand" in result["notes"]
    fell = {record.row for record in own.rows if record.status == "broken"}
    found = {record.row for record in open_run(imports.run).rows if record.status == "broken"}
    assert found == fell & set(right.tolist())
    assert result["robust_accuracy"]["of"] == 60
    assert main(["verify", str(imports.run)]) == 0


def test_all_points_of_a_copied_row_are_tried(imports, points, own):
    row = next(record.row for record in own.rows if record.status == "broken")
    nothing = X.copy()
    arrays = {"x": np.concatenate([X, X[[row]]]), "x_adv": np.concatenate([nothing, points[[row]]])}
    _, result, _ = imports({**arrays, "y": np.append(Y, Y[row])}, *MODEL, "--data", ROWS)
    assert raised(result) == {"each row once": "1 rows of the file are copies of others"}
    assert result["status"]["broken"] == 1
    assert result["attacks"][0]["settings"]["tries"] == 2
    assert main(["verify", str(imports.run)]) == 0


def test_a_point_that_is_not_finite_is_none(imports, points, own):
    row = next(record.row for record in own.rows if record.status == "broken")
    lost = points.copy()
    lost[row, 0, 0, 0] = np.nan
    _, result, _ = imports({"x": X, "x_adv": lost, "y": Y}, *MODEL)
    assert raised(result).keys() == {"points are finite"}
    assert result["imported"]["unattacked"] == 1
    assert result["status"] == {**own.figures.status, "broken": 28, "standing": 26}


def test_points_without_inputs_are_taken_in_the_order_of_the_data(imports, points, own):
    _, result, _ = imports({"adv_complete": points}, *MODEL, "--data", ROWS, tool="autoattack")
    assert result["status"] == own.figures.status
    code, _, err = imports({"adv_complete": points[:50]}, *MODEL, "--data", ROWS, tool="autoattack")
    assert code == 2
    assert "50 points without clean inputs for 60 rows" in err
    _, result, _ = imports({"adv_complete": points[:50]}, *MODEL, "--data", ROWS, "--rows", "0:50", tool="autoattack")
    assert result["rows"] == 50


def test_pixels_are_divided_for_the_file_and_for_verify(imports):
    pixels = np.round(X * 255).astype(np.uint8)
    code, _, err = imports({"x": pixels, "x_adv": pixels, "y": Y}, *MODEL)
    assert (code, "scale = 255" in err) == (2, True)
    code, result, _ = imports({"x": pixels, "x_adv": pixels, "y": Y}, *MODEL, "--scale", "255")
    assert (code, result["status"]["broken"]) == (0, 0)
    assert main(["verify", str(imports.run)]) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--suite", "pgd"), "--suite"),
        (("--seed", "3"), "--seed"),
        (("--budget", "10/row"), "--budget"),
        (("--data", "builtin:fmnist"), "that of the data, (1, 28, 28)"),
        (("--low", "0.5"), "the box [0.5, 1]"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(imports, points, options, said):
    code, out, err = imports({"x": X, "x_adv": points, "y": Y}, *MODEL, *options)
    assert (code, out) == (2, None)
    assert said in err
    assert not imports.run.exists()


def test_without_a_model_nothing_is_judged(imports, points, tmp_path):
    arrays = {"x": X, "x_adv": points, "y": Y, "success": errs(points)}
    written = tmp_path / "account.json"
    code, said, _ = imports(arrays, "--out", str(written))
    assert code == 0
    assert said == json.loads(written.read_text("utf-8"))
    assert said["judged"] is False
    rate = next(line for line in said["imported"]["recounts"] if line["figure"] == "success rate")
    assert (rate["by_their_rule"], rate["right"]) == (pytest.approx(35 / 60), None)
    code, _, err = imports(arrays, "--out", str(written))
    assert (code, "File exists" in err) == (2, True)
    code, _, err = imports({"x_adv": points})
    assert (code, "no clean inputs" in err) == (2, True)


def test_an_import_that_was_cut_off_is_not_resumed(points, tmp_path, capsys):
    np.savez(tmp_path / "theirs.npz", x=X, x_adv=points, y=Y)
    options = {
        "model": {"source": NET},
        "data": {},
        "threat": {"norm": "linf", "eps": EPS},
        **dict.fromkeys(("suite", "seed", "budget", "batch_size")),
    }
    ready = requested("arrays", [tmp_path / "theirs.npz"], options).prepared()
    reading = ready.concluded(finish(ready.begun(tmp_path / "run"), stop=lambda: True))
    assert not reading.figures.complete
    assert reading.manifest.imported is not None
    assert {line.right for line in reading.manifest.imported.recounts} == {None}
    assert main(["run", "--resume", str(tmp_path / "run")]) == 2
    assert "An import cannot be resumed" in " ".join(capsys.readouterr().err.split())
    with pytest.raises(BadInput, match="Import the file again"):
        resume_run(tmp_path / "run", small_net.load(), *small_net.rows())


def test_the_attack_is_not_for_suite_files(tmp_path, capsys):
    suite = 'name = "mine"\nversion = "1"\n[[attacks]]\nattack = "given"\n'
    (tmp_path / "mine.toml").write_text(suite, "utf-8")
    assert (
        main(["run", "--suite", str(tmp_path / "mine.toml"), *MODEL, "--data", ROWS, "--norm", "linf", "--eps", EPS])
        == 2
    )
    assert "'given'" in capsys.readouterr().err


def test_in_python(points, own):
    arrays = {"x": torch.from_numpy(X), "clipped": [points, points], "y": Y, "epsilons": [0.03, 0.06]}
    result = brinell.import_points(
        small_net.load(), {**arrays, "success": [errs(points)] * 2}, threat=THREAT, tool="foolbox"
    )
    assert result.figures.status == own.figures.status
    imported = result.reading.manifest.imported
    assert (imported.tool, imported.files) == ("foolbox", {})
    some = {"x": X[:9], "x_adv": points[:9]}
    assert brinell.import_points(small_net.load(), some, threat=THREAT, data=(X, Y)).figures.rows == 60
    with pytest.raises(BadInput, match="labels named y"):
        brinell.import_points(small_net.load(), some, threat=THREAT)
