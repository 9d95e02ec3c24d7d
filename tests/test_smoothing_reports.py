"""What is said of a smoothed classifier: a line to quote, its cost, tables, and a page by which it can be made again."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import small_net
import small_runs
from brinell.cli import main
from brinell.errors import EXIT_BAD_INPUT, EXIT_DONE
from brinell.models.torch_model import TorchModel
from brinell.report.smoothed_page import curve, smoothing_page
from brinell.rows import rows_of
from brinell.smoothing.attack import SmoothPGD
from brinell.smoothing.claim import claim_line
from brinell.smoothing.figures import figures_of
from brinell.smoothing.folder import SmoothReading, read_smoothing
from brinell.smoothing.making import Asked, begin_smoothing, make
from brinell.smoothing.setting import Setting
from brinell.threat import Threat

ROWS = 6
SAID = ["--method", "smoothing", "--sigma", "0.1", "--n", "200", "--n0", "30", "--alpha", "0.01", "--eps", "0.1"]
SOURCES = ["--model", small_runs.NET, "--data", small_runs.ROWS, "--rows", f"0:{ROWS}", "--seed", "3"]


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> SmoothReading:
    folder = tmp_path_factory.mktemp("smoothing") / "made"
    assert main(["certify", *SOURCES, *SAID, "--out", str(folder), "--quiet"]) == EXIT_DONE
    return read_smoothing(folder)


def test_the_claim_holds_all_that_its_figure_depends_on(reading: SmoothReading) -> None:
    manifest, figures = reading.manifest, reading.figures
    claim = claim_line(manifest, figures)
    count = sum(row.outcome == "certified" and (row.radius or 0) >= 0.1 for row in reading.rows)
    assert f"at L2 radius 0.1, at least: {count}/{ROWS} = " in claim
    assert "of all rows (95 % interval" in claim
    for part in (
        manifest.model["fingerprint"][:12],
        manifest.data["digest"][:12],
        "rows 0:6",
        "box [0, 1]",
        "sigma 0.1",
        "n 200",
        "n0 30",
        "alpha 0.01",
        "seed 3",
        f"{manifest.seconds:.1f} s",
        f"{figures.passes.forwards:,} forward and {figures.passes.backwards:,} backward",
    ):
        assert part in claim
    partial = claim_line(manifest, figures_of(manifest, reading.rows[:2]))
    assert f"({ROWS - 2} undecided)" in partial and "interval" not in partial


def test_without_an_attack_the_claim_gives_the_rows_at_each_radius(reading: SmoothReading) -> None:
    manifest = reading.manifest.model_copy(update={"eps": None, "attack": None})
    figures = figures_of(manifest, [row.model_copy(update={"attacked": None}) for row in reading.rows])
    claim = claim_line(manifest, figures)
    for radius in figures.table_radii():
        assert f"{radius:g}: {figures.certified_at(radius).count}" in claim
    assert "backward" not in claim


def test_every_format_gives_the_claim(reading: SmoothReading, capsys: pytest.CaptureFixture[str]) -> None:
    claim, folder = claim_line(reading.manifest, reading.figures), str(reading.folder)
    assert json.loads((reading.folder / "result.json").read_text("utf-8"))["claim"] == claim
    for format in ("text", "json", "markdown", "latex"):
        assert main(["report", folder, "--format", format]) == EXIT_DONE
        said = capsys.readouterr().out
        plain = said.replace("\\", "").replace("{[}", "[").replace("{]}", "]")
        assert claim in " ".join(plain.split())
        if format in ("markdown", "latex"):
            radii = [f"{radius:g}" for radius in reading.figures.table_radii()]
            assert re.findall(r"(?m)^\|? *([0-9.]+) [|&]", said) == radii
    assert main(["report", folder, "--format", "robustbench"]) == EXIT_BAD_INPUT


def test_the_passes_are_those_that_were_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = small_net.rows()
    attack = SmoothPGD(steps=3, copies=5)
    asked = Asked(
        TorchModel(small_net.load()),
        "net",
        rows_of(x, y, selection=f"0:{ROWS}"),
        Setting(sigma=0.1, n=200, n0=30, alpha=0.01),
        Threat("l2", "0.1"),
        attack=attack,
        batch_size=64,
    )
    begin_smoothing(asked, tmp_path / "counted")
    made = {"scores": 0, "gradient": 0}

    def counting(name: str) -> None:
        usual: Callable[..., object] = getattr(TorchModel, name)

        def counted(self: TorchModel, points: torch.Tensor, *others: object) -> object:
            made[name] += len(points)
            return usual(self, points, *others)

        monkeypatch.setattr(TorchModel, name, counted)

    counting("scores")
    counting("gradient")
    passes = make(asked, tmp_path / "counted").figures.passes
    assert made["gradient"] > 0
    assert passes == (made["scores"] + made["gradient"], made["gradient"])


def test_the_average_radius_counts_all_rows(reading: SmoothReading) -> None:
    figures = reading.figures
    assert figures.outcomes["wrong"] >= 1  # counted as 0, whatever their radius
    right = [row.radius or 0.0 for row in reading.rows if row.outcome == "certified"]
    assert figures.average_radius == pytest.approx(sum(right) / ROWS)
    assert figures_of(reading.manifest, reading.rows[:2]).average_radius is None


def test_the_page_gives_the_command_that_makes_the_record_again(
    reading: SmoothReading, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = smoothing_page(reading)
    for part in (reading.manifest.data["digest"], reading.manifest.model["fingerprint"], "How to repeat it", "torch"):
        assert part in page
    found = re.search(r"<code>brinell (certify --method smoothing [^<]*)</code>", page)
    assert found
    monkeypatch.chdir(tmp_path)
    assert main([*shlex.split(found[1]), "--quiet"]) == EXIT_DONE
    capsys.readouterr()
    assert read_smoothing(tmp_path / "again").rows == reading.rows


def test_the_caption_speaks_of_a_line_only_where_one_is_drawn(reading: SmoothReading) -> None:
    rows = reading.rows
    attack = reading.figures.attack
    assert attack is not None and attack.certified.count < attack.not_shown_wrong
    drawn = curve(reading.figures)
    assert len(drawn.lines) == 2 and "upright line" in drawn.caption
    assert "pending" in curve(figures_of(reading.manifest, rows[:4])).caption
    met = [row for row in rows if row.outcome == "wrong" or (row.radius or 0) >= 0.1]
    manifest = reading.manifest.model_copy(update={"data": {**reading.manifest.data, "rows": len(met)}})
    equal = figures_of(manifest, met)
    assert equal.attack is not None and equal.attack.certified.count == equal.attack.not_shown_wrong > 0
    assert len(curve(equal).lines) == 1
    assert "upright" not in curve(equal).caption and "are as many" in curve(equal).caption
