"""A smoothed classifier's folder: made, cut off and resumed, read, verified, and kept apart from runs."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch

import small_net
import small_runs
from brinell.cli import main
from brinell.errors import EXIT_BAD_INPUT, EXIT_DONE, EXIT_INCOMPLETE, EXIT_VERIFICATION_FAILED, BadInput
from brinell.manifest import file_digests
from brinell.models.torch_model import TorchModel
from brinell.report.smoothed import attack_lines, outcome_lines
from brinell.report.smoothed_page import curve, smoothing_page
from brinell.result import read_run
from brinell.rows import rows_of
from brinell.smoothing.checks import verify_smoothing_files, verify_smoothing_with_model
from brinell.smoothing.figures import figures_of
from brinell.smoothing.folder import (
    SEALED,
    SmoothReading,
    read_smoothing,
    read_smoothing_manifest,
    seal,
    write_smoothing_manifest,
)
from brinell.smoothing.making import Asked, begin_smoothing, make
from brinell.smoothing.record import Attacked, SmoothedRow
from brinell.smoothing.setting import Setting
from brinell.threat import Threat

ROWS = 12
SAID = ["--method", "smoothing", "--sigma", "0.1", "--n", "300", "--n0", "30", "--alpha", "0.01", "--rows", f"0:{ROWS}"]
SOURCES = ["--model", small_runs.NET, "--data", small_runs.ROWS]


def asked(*, eps: str = "0.1", batch_size: int = 64, seed: int = 0, n: int = 300) -> Asked:
    x, y = small_net.rows()
    rows = rows_of(x, y, selection=f"0:{ROWS}")
    setting = Setting(sigma=0.1, n=n, n0=30, alpha=0.01)
    return Asked(
        TorchModel(small_net.load()), "net", rows, setting, Threat("l2", eps), batch_size=batch_size, seed=seed
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> SmoothReading:
    folder = tmp_path_factory.mktemp("smoothing") / "whole"
    begin_smoothing(asked(), folder)
    return make(asked(), folder)


def test_every_row_is_counted(whole: SmoothReading) -> None:
    figures = whole.figures
    assert figures.complete
    assert sum(figures.outcomes.values()) == figures.rows == ROWS
    assert figures.outcomes["certified"] >= 5
    assert figures.outcomes["wrong"] >= 1  # rows 0 and 10 bear a wrong label
    assert all(0 < radius <= figures.ceiling for radius in figures.radii)
    assert figures.certified_at(0).count == figures.outcomes["certified"]
    assert figures.certified_at(figures.ceiling * 1.01).count == 0
    attack = figures.attack
    assert attack is not None
    assert attack.stands.count + attack.broken + attack.abstained + attack.errors == figures.outcomes["certified"]
    assert attack.certified.count <= attack.not_shown_wrong
    assert attack.contradictions == ()
    # the upper end leaves out what was shown wrong, and nothing else
    assert attack.not_shown_wrong == ROWS - figures.outcomes["wrong"] - attack.broken


def test_cut_off_and_resumed_or_in_other_batches_it_is_the_same(whole: SmoothReading, tmp_path: Path) -> None:
    folder = tmp_path / "cut"
    begin_smoothing(asked(batch_size=7), folder)
    stops = iter([False, False, False, True])
    first = make(asked(batch_size=7), folder, stop=lambda: next(stops))
    assert (len(first.rows), first.manifest.state) == (3, "interrupted")
    assert first.figures.outcomes["pending"] == ROWS - 3
    assert first.figures.certified_at(0).value is None  # bounded, not known
    attack = first.figures.attack
    assert attack is not None  # what is pending has not been shown wrong, in figures, data and words
    assert attack.not_shown_wrong == ROWS - first.figures.outcomes["wrong"] - attack.broken
    assert (
        json.loads((folder / "result.json").read_text("utf-8"))["attack"]["not_shown_wrong"] == attack.not_shown_wrong
    )
    assert f"to {attack.not_shown_wrong} of {ROWS} (not shown wrong" in attack_lines(first.figures)[-1]
    assert f"{ROWS - 3} pending" in attack_lines(first.figures)[-1]
    with (folder / "rows.jsonl").open("ab") as file:
        file.write(b'{"row": 3, "place"')  # killed while it wrote
    again = make(asked(batch_size=7), folder)
    assert again.manifest.state == "complete"
    assert again.rows == whole.rows


@pytest.mark.parametrize("change", [{"seed": 1}, {"n": 301}, {"eps": "0.2"}, {"eps": "0"}])
def test_it_goes_on_with_nothing_else(whole: SmoothReading, change: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        make(asked(**change), whole.folder)  # type: ignore[arg-type]


def test_the_command_from_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "smooth")
    assert main(["certify", *SOURCES, *SAID, "--eps", "0.1", "--out", folder, "--json"]) == EXIT_DONE
    found = json.loads(capsys.readouterr().out)
    assert found["smoothed_classifier"].startswith("smoothed classifier g of f =")
    assert found["rows"] == sum(found["outcomes"].values()) == ROWS
    assert found["expected_false_at_most"] == pytest.approx(0.12)
    assert main(["verify", folder, "--json"]) == EXIT_DONE
    checks = json.loads(capsys.readouterr().out)["findings"]
    assert any(check["check"].startswith("noise of row") for check in checks)
    assert all(check["holds"] for check in checks)
    assert main(["report", folder]) == EXIT_DONE
    text = capsys.readouterr().out
    assert "certified accuracy of the smoothed classifier g of f" in text
    assert "no certificate here is about f" in text
    assert "fails with probability at most 0.01: of 12 rows at most 0.12" in text
    assert f"{ROWS} rows = " in text and "abstained" in text
    assert main(["report", folder, "--format", "html"]) == EXIT_DONE
    assert main(["certify", "--resume", folder, "--json"]) == EXIT_DONE
    capsys.readouterr()
    # every command that reads runs refuses it, and says what it is
    for command in (
        ["diagnose", folder],
        ["run", "--resume", folder],
        ["certify", folder],
        ["compare", folder, "other"],
    ):
        assert main(command) == EXIT_BAD_INPUT
        assert "smoothed classifier" in capsys.readouterr().err.replace("\n", " ")
    assert main(["report", folder, "--format", "model-card"]) == EXIT_BAD_INPUT


@pytest.mark.parametrize(
    "wrong",
    [
        ["--sigma", "0.1"],  # without the method
        ["--method", "smoothing"],  # without sigma
        ["--method", "smoothing", "--sigma", "0.1", "--n", "9"],
        ["--method", "smoothing", "--sigma", "0.1", "--norm", "linf", "--eps", "0.1"],
        ["--method", "smoothing", "--sigma", "0.1", "--seconds", "3"],
        ["--method", "smoothing", "--sigma", "0.1", "--suite", "pgd"],
        ["--method", "smoothing", "--sigma", "0.1", "--n", "10", "--alpha", "0.001", "--eps", "0.1"],  # PREDICT is mute
        ["--method", "smoothing", "--sigma", "64/0"],
        ["--method", "smoothing", "--sigma", "-1/255"],
    ],
)
def test_refusals(wrong: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certify", *SOURCES, *wrong, "--out", str(tmp_path / "none")]) == EXIT_BAD_INPUT
    assert not (tmp_path / "none").exists()


def said_of(lines: list[str]) -> list[tuple[int, int]]:
    """Each sum of rows in some lines: the whole, and what its parts come to."""
    sums = [re.match(r"(\d+) rows = ([^;]*)", line) for line in lines]
    return [(int(found[1]), sum(map(int, re.findall(r"(?:^|\+ )(\d+) ", found[2])))) for found in sums if found]


def test_every_sum_adds_up(whole: SmoothReading) -> None:
    partial = figures_of(whole.manifest, whole.rows[:4])
    for figures in (whole.figures, partial):
        sums = said_of([*outcome_lines(figures), *attack_lines(figures)])
        assert sums == [(ROWS, ROWS)] * 2
    assert "of a wrong class" in outcome_lines(figures_of(whole.manifest, ()))[0]  # also where there are none
    assert "certified right, at some radius" in outcome_lines(whole.figures)[0]


def refused(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """What is said where options are refused before any noise."""
    assert main(["certify", *SOURCES, "--method", "smoothing", *options]) == EXIT_BAD_INPUT
    return " ".join(capsys.readouterr().err.split())


def test_noise_of_pixels_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TorchModel, "scores", lambda *_: pytest.fail("the model was asked"))
    said = refused(capsys, "--sigma", "64", "--out", str(tmp_path / "none"))
    assert "If pixels are meant, write 64/255" in said
    assert not (tmp_path / "none").exists()


def test_an_eps_out_of_reach_is_refused_and_its_remedy_helps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TorchModel, "scores", lambda *_: pytest.fail("the model was asked"))
    out = ("--out", str(tmp_path / "none"))
    said = refused(capsys, "--sigma", "0.25", "--n", "100", "--eps", "0.5", *out)
    assert "at most 0.3751" in said
    found = re.search(r"Raise --n to (\d+) or more", said)
    assert found
    least = Setting(sigma=0.25, n=int(found[1])).ceiling
    assert Setting(sigma=0.25, n=int(found[1]) - 1).ceiling < 0.5 <= least
    assert "Raise --sigma" in refused(capsys, "--sigma", "0.25", "--n", "100", "--eps", "3", *out)


def test_sigma_may_be_a_fraction(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = ["--method", "smoothing", "--sigma", "64/255", "--n", "30", "--n0", "5", "--rows", "0:2"]
    assert main(["certify", *SOURCES, *said, "--out", str(tmp_path / "fraction")]) == EXIT_DONE
    assert "sigma 64/255" in capsys.readouterr().out
    assert read_smoothing_manifest(tmp_path / "fraction").setting.sigma == 64 / 255
    assert main(["verify", str(tmp_path / "fraction"), "--files-only"]) == EXIT_DONE


def test_a_run_is_not_certified_by_smoothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = small_runs.small_result(tmp_path / "run").folder
    before = read_run(run).manifest
    assert main(["certify", str(run), "--method", "smoothing", "--sigma", "0.1"]) == EXIT_BAD_INPUT
    assert "another classifier, g" in capsys.readouterr().err.replace("\n", " ")
    assert main(["certify", "--resume", str(run)]) == EXIT_BAD_INPUT
    assert read_run(run).manifest == before


def test_an_unfinished_folder_is_said_to_be_one(tmp_path: Path) -> None:
    folder = tmp_path / "begun"
    begin_smoothing(asked(), folder)
    assert main(["report", str(folder)]) == EXIT_INCOMPLETE
    with pytest.raises(BadInput):
        begin_smoothing(asked(), folder)


def test_what_is_in_the_way_is_gone_on_with_only_by_the_command_that_can(
    whole: SmoothReading, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stray = tmp_path / "stray"
    stray.mkdir()
    (stray / "notes.txt").write_text("mine", "utf-8")
    assert "--resume" not in refused(capsys, "--sigma", "0.1", "--out", str(stray))
    said = refused(capsys, "--sigma", "0.1", "--out", str(whole.folder))
    assert f"go on with it: brinell certify --resume {whole.folder}" in said
    run = small_runs.small_result(tmp_path / "run").folder
    assert f"go on with it: brinell run --resume {run}" in refused(capsys, "--sigma", "0.1", "--out", str(run))
    attack = ["run", *SOURCES, "--norm", "linf", "--eps", "0.1", "--suite", "fgsm", "--out", str(whole.folder)]
    assert main(attack) == EXIT_BAD_INPUT
    assert f"go on with it: brinell certify --resume {whole.folder}" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("where", ["file/out", "x" * 300])
def test_a_folder_that_cannot_be_made_is_refused_before_the_model_is_asked(
    where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way", "utf-8")
    monkeypatch.setattr(TorchModel, "scores", lambda *_: pytest.fail("the model was asked"))
    out = ["--out", str(tmp_path / where)]
    assert "a folder that can be made and written in" in refused(capsys, "--sigma", "0.1", *out)
    assert main(["run", *SOURCES, "--norm", "linf", "--eps", "0.1", "--suite", "fgsm", *out]) == EXIT_BAD_INPUT
    assert "a folder that can be made and written in" in " ".join(capsys.readouterr().err.split())
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def tampered(whole: SmoothReading, folder: Path, *, reseal: bool, **changes: object) -> Path:
    """A copy in which the first certified row says something else; resealed, as somebody would who knows how."""
    folder.mkdir()
    for path in whole.folder.iterdir():
        if path.is_file():
            (folder / path.name).write_bytes(path.read_bytes())
    at = next(number for number, row in enumerate(whole.rows) if row.outcome == "certified" and row.k < row.n)
    rows = list(whole.rows)
    rows[at] = rows[at].model_copy(update=changes or {"k": rows[at].k + 1})
    (folder / "rows.jsonl").write_text("".join(row.model_dump_json() + "\n" for row in rows), "utf-8")
    if reseal:
        manifest = read_smoothing_manifest(folder)
        files = file_digests(folder, SEALED)
        write_smoothing_manifest(folder, manifest.model_copy(update={"files": files}))
    return folder


@pytest.mark.parametrize("changes", [{}, {"outcome": "wrong"}, {"radius": 0.29}, {"n": 10_000}, {"seed": 3}])
@pytest.mark.parametrize("reseal", [False, True])
def test_a_changed_row_is_found(
    whole: SmoothReading, tmp_path: Path, reseal: bool, changes: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tampered(whole, tmp_path / "changed", reseal=reseal, **changes)
    assert main(["verify", str(folder), "--files-only"]) == EXIT_VERIFICATION_FAILED
    assert "certificates" in capsys.readouterr().out


def resealed(whole: SmoothReading, folder: Path, changed: dict[int, SmoothedRow]) -> Path:
    """A copy in which some rows say something else, with figures and digests that follow."""
    shutil.copytree(whole.folder, folder)
    rows = [changed.get(row.row, row) for row in whole.rows]
    (folder / "rows.jsonl").write_text("".join(row.model_dump_json() + "\n" for row in rows), "utf-8")
    seal(folder, whole.manifest)
    assert all(finding.holds for finding in verify_smoothing_files(folder))
    return folder


def said_by_the_model(folder: Path) -> dict[str, bool | None]:
    own = asked()
    return {one.check: one.holds for one in verify_smoothing_with_model(folder, own.model, own.rows)}


def test_a_wrong_row_that_is_given_its_predictions_label_is_found(whole: SmoothReading, tmp_path: Path) -> None:
    row = next(row for row in whole.rows if row.outcome == "wrong")
    error = Attacked(outcome="error", reason="model raised MemoryError: ")
    right = row.model_copy(update={"label": row.top, "outcome": "certified", "attacked": error})
    said = said_by_the_model(resealed(whole, tmp_path / "relabelled", {row.row: right}))
    assert said["data"] is True
    assert said["labels"] is False


def test_an_attack_that_is_said_to_have_failed_is_made_again(whole: SmoothReading, tmp_path: Path) -> None:
    """Wherever the row lies: it need not be one of those on which all noise is drawn again."""
    assert said_by_the_model(whole.folder)["attacked points"] is True
    row = next(row for row in whole.rows[1:] if row.attacked is not None)
    failed = row.model_copy(update={"attacked": Attacked(outcome="error", reason="model raised MemoryError: ")})
    said = said_by_the_model(resealed(whole, tmp_path / "failed", {row.row: failed}))
    assert {check for check, holds in said.items() if holds is False} == {"attacks that could not be made"}


@pytest.mark.parametrize("change", [{"reason": None}, {"reason": ""}, {"count_first": 5}, {"digest": "of a point"}])
def test_an_attack_that_failed_has_a_reason_and_nothing_else(
    whole: SmoothReading, tmp_path: Path, change: dict[str, object]
) -> None:
    row = next(row for row in whole.rows if row.attacked is not None)
    error = Attacked(outcome="error", reason="model raised MemoryError: ").model_copy(update=change)
    shutil.copytree(whole.folder, tmp_path / "failed")
    rows = [row.model_copy(update={"attacked": error}) if other == row else other for other in whole.rows]
    lines = "".join(one.model_dump_json() + "\n" for one in rows)
    (tmp_path / "failed" / "rows.jsonl").write_text(lines, "utf-8")
    seal(tmp_path / "failed", whole.manifest)
    said = {finding.check: finding.holds for finding in verify_smoothing_files(tmp_path / "failed")}
    assert said["attacks"] is False


def test_a_certified_row_that_falls_is_a_contradiction_and_ends_the_interval(whole: SmoothReading) -> None:
    attack = whole.figures.attack
    assert attack is not None and attack.certified.count > 0
    assert "from" in attack_lines(whole.figures)[-1]
    at = next(n for n, row in enumerate(whole.rows) if row.radius is not None and row.radius >= 0.1 and row.attacked)
    rows = list(whole.rows)
    rows[at] = rows[at].model_copy(update={"attacked": rows[at].attacked.model_copy(update={"outcome": "broken"})})  # type: ignore[union-attr]
    figures = figures_of(whole.manifest, rows)
    assert figures.attack is not None
    assert figures.attack.contradictions == (rows[at].row,)
    assert "CONTRADICTION" in attack_lines(figures)[-1]
    assert "No interval is given" in attack_lines(figures)[-1]
    assert len(curve(figures).lines) == 1


def test_the_page_says_whose_certificates_they_are(whole: SmoothReading) -> None:
    manifest = whole.manifest.model_copy(update={"model": {**whole.manifest.model, "source": "<b>net</b>"}})
    page = smoothing_page(SmoothReading(whole.folder, manifest, whole.rows))
    assert "<b>net</b>" not in page
    assert "Certified accuracy of the smoothed classifier g" in page
    assert "Nothing here is certified of the base classifier f" in page
    assert page.count('<tr><th scope="row"') == len(whole.figures.table_radii()) + ROWS
    assert "<script" not in page and "http" not in page.replace("http-equiv", "")
    points = curve(whole.figures).lines[0].points
    assert [point.y for point in points] == sorted((point.y for point in points), reverse=True)  # type: ignore[type-var]
    assert points[-1].y == 0 or len(points) == 1


def test_a_folder_reads_back_as_it_was_written(whole: SmoothReading) -> None:
    again = read_smoothing(whole.folder)
    assert (again.manifest, again.rows) == (whole.manifest, whole.rows)


class Stepped(torch.nn.Module):
    """Right everywhere near the rows, and flat: its gradient is zero."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        along = (x.flatten(1).sum(1) - 4).sign()
        return torch.stack([-along, along], dim=1)


def test_an_attack_that_could_not_be_made_leaves_nothing_standing(tmp_path: Path) -> None:
    x, y = torch.full((2, 1, 4, 4), 0.6), torch.ones(2, dtype=torch.int64)
    setting = Setting(sigma=0.1, n=200, n0=20, alpha=0.01)
    flat = Asked(TorchModel(Stepped().eval()), "flat", rows_of(x, y), setting, Threat("l2", "0.1"))
    begin_smoothing(flat, tmp_path / "flat")
    figures = make(flat, tmp_path / "flat").figures
    assert figures.certified_at(0).count == 2
    attack = figures.attack
    assert attack is not None
    assert (attack.stands.count, attack.broken, attack.errors) == (0, 0, 2)
    again = {one.check: one.holds for one in verify_smoothing_with_model(tmp_path / "flat", flat.model, flat.rows)}
    assert again["attacks that could not be made"] is True
    assert attack.not_shown_wrong == 2
    assert "2 rows = 0 standing" in attack_lines(figures)[2]
    assert "2 on which the attack could not be made" in attack_lines(figures)[2]
